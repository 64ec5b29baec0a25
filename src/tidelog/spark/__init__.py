"""Whole topics on Spark: the data source, the sink, the pipeline jobs.

    from tidelog.spark import session

    spark = session()
    spark.read.format("tidelog").option("subscribe", "emails").load("data")

What is below is imported when it is first used: Spark imports this package in every process that it plans or runs with.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidelog.spark.sessions import session

__all__ = ["session"]


if not TYPE_CHECKING:  # a type checker that sees it takes every name for one of ours

    def __getattr__(name: str) -> Any:
        if name == "session":
            return import_module("tidelog.spark.sessions").session
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
