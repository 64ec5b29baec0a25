"""How Spark finds the data source `tidelog`: it imports every module whose name begins with `pyspark_`, and takes its `DefaultSource`.

A module that fails to be imported there would hide the sources of all others, so one that cannot be imported is as if it was not there: a
query that asks for it is told so by Spark, and `tidelog.spark.session` says what is missing.
"""

from contextlib import suppress

with suppress(ImportError):
    from tidelog.spark.source import TidelogDataSource as DefaultSource

__all__ = ["DefaultSource"]
