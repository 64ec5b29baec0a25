"""Tidelog: the Apache Kafka log as a Python library.

Names are imported when they are first used, so that `import tidelog` stays light: it touches neither numpy nor pyarrow.
"""

import importlib
from typing import TYPE_CHECKING, Any

from tidelog.errors import TidelogError
from tidelog.version import __version__

if TYPE_CHECKING:
    from tidelog.config import LogConfig
    from tidelog.log import EARLIEST, LATEST, FetchRequest, Log, ReadOnlyLog, Time, multi_fetch
    from tidelog.record import NewBatch, Record, kernel_mode

__all__ = [
    "EARLIEST",
    "LATEST",
    "FetchRequest",
    "Log",
    "LogConfig",
    "NewBatch",
    "ReadOnlyLog",
    "Record",
    "TidelogError",
    "Time",
    "__version__",
    "kernel_mode",
    "multi_fetch",
]

_HOMES = {
    "EARLIEST": "tidelog.log",
    "LATEST": "tidelog.log",
    "FetchRequest": "tidelog.log",
    "Log": "tidelog.log",
    "LogConfig": "tidelog.config",
    "NewBatch": "tidelog.record",
    "ReadOnlyLog": "tidelog.log",
    "Record": "tidelog.record",
    "Time": "tidelog.log",
    "kernel_mode": "tidelog.record",
    "multi_fetch": "tidelog.log",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'tidelog' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
