"""Tidelog: the Apache Kafka log as a Python library.

Names are imported when they are first used, so that `import tidelog` stays light: it touches neither numpy nor pyarrow.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

from tidelog.errors import TidelogError
from tidelog.version import __version__

if sys.platform == "win32":
    raise ImportError("tidelog needs a POSIX system: Windows has neither its locks nor its syncs. In WSL it runs as on Linux.")

if TYPE_CHECKING:
    from tidelog import aio
    from tidelog.config import LogConfig
    from tidelog.log import EARLIEST, LATEST, FetchRequest, Log, ReadOnlyLog, Time, multi_fetch
    from tidelog.record import NewBatch, Record, kernel_mode
    from tidelog.store import ReadOnlyStore, Store, Topic, open  # noqa: A004

__all__ = [
    "EARLIEST",
    "LATEST",
    "FetchRequest",
    "Log",
    "LogConfig",
    "NewBatch",
    "ReadOnlyLog",
    "ReadOnlyStore",
    "Record",
    "Store",
    "TidelogError",
    "Time",
    "Topic",
    "__version__",
    "aio",
    "kernel_mode",
    "multi_fetch",
    "open",
]

_HOMES = {
    "EARLIEST": "tidelog.log",
    "LATEST": "tidelog.log",
    "FetchRequest": "tidelog.log",
    "Log": "tidelog.log",
    "LogConfig": "tidelog.config",
    "NewBatch": "tidelog.record",
    "ReadOnlyLog": "tidelog.log",
    "ReadOnlyStore": "tidelog.store",
    "Record": "tidelog.record",
    "Store": "tidelog.store",
    "Time": "tidelog.log",
    "Topic": "tidelog.store",
    "kernel_mode": "tidelog.record",
    "multi_fetch": "tidelog.log",
    "open": "tidelog.store",
}


if not TYPE_CHECKING:  # a type checker that sees it takes every name for one of ours

    def __getattr__(name: str) -> Any:
        if name == "aio":
            return importlib.import_module("tidelog.aio")
        if name in _HOMES:
            return getattr(importlib.import_module(_HOMES[name]), name)
        raise AttributeError(f"module 'tidelog' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
