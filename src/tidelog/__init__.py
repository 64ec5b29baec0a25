"""Tidelog: the Apache Kafka log as a Python library.

Names are imported when they are first used, so that `import tidelog` stays light: it touches neither numpy nor pyarrow.
"""

import importlib
from typing import TYPE_CHECKING, Any

from tidelog.errors import TidelogError
from tidelog.version import __version__

if TYPE_CHECKING:
    from tidelog.config import LogConfig
    from tidelog.log import EARLIEST, LATEST, Log, Time
    from tidelog.record import NewBatch, Record, kernel_mode

__all__ = ["EARLIEST", "LATEST", "Log", "LogConfig", "NewBatch", "Record", "TidelogError", "Time", "__version__", "kernel_mode"]

_HOMES = {
    "EARLIEST": "tidelog.log",
    "LATEST": "tidelog.log",
    "Log": "tidelog.log",
    "LogConfig": "tidelog.config",
    "NewBatch": "tidelog.record",
    "Record": "tidelog.record",
    "Time": "tidelog.log",
    "kernel_mode": "tidelog.record",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'tidelog' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
