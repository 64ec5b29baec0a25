"""The data source `tidelog`, as Spark meets it: options in, readers and writers out, and nothing else.

Spark makes one of these in a process of its own for every step of a query: once to ask for the schema, once to plan, once to write. The
halves that do the work are imported when they are asked for, since most of these processes need only one of them.
"""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from tidelog.errors import InvalidConfigError
from tidelog.spark.option_values import ToldInOneLine
from tidelog.spark.read_options import OPTIONS, ReadOptions
from tidelog.spark.schema import columns_of, schema_text
from tidelog.spark.worker_habits import hush_this_worker

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType

PUSHING_MODULE = "pyspark.sql.worker.data_source_pushdown_filters"
"""What is loaded in a process that plans with filters, and in no other. A private name of Spark's: a test notices when it changes."""


hush_this_worker()


class TidelogDataSource(DataSource):
    """`spark.read.format("tidelog")`, and `readStream`, `write` and `writeStream`."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "tidelog"

    def schema(self) -> str:
        """The schema of a read: that of Spark's Kafka source, or the columns that were asked for."""
        with ToldInOneLine():
            return schema_text(_either(self.options).columns)

    def reader(self, schema: "StructType") -> "DataSourceReader":
        """For a batch query."""
        from tidelog.spark.batch_reader import PushingReader, Reader

        with ToldInOneLine():
            options = read_options(self.options, is_stream=False)
            kind = PushingReader if options.push_filters and PUSHING_MODULE in sys.modules else Reader
            return kind(options, columns_of(schema))

    def streamReader(self, schema: "StructType") -> "DataSourceStreamReader":  # noqa: N802 - Spark's name
        """For a stream."""
        from tidelog.spark.stream_reader import TidelogStreamReader

        with ToldInOneLine():
            return TidelogStreamReader(read_options(self.options, is_stream=True), schema)

    def writer(self, schema: "StructType", overwrite: bool) -> "DataSourceWriter":
        """For the result of a batch."""
        from tidelog.spark.sink_writers import TidelogWriter
        from tidelog.spark.write_options import WriteOptions

        with ToldInOneLine():
            writer = TidelogWriter(WriteOptions.of(self.options, is_stream=False, others=OPTIONS), schema, overwrite=overwrite)
            writer.prepare()
            return writer

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "DataSourceStreamWriter":  # noqa: N802 - Spark's name
        """For the result of a stream."""
        from tidelog.spark.sink_writers import TidelogStreamWriter
        from tidelog.spark.write_options import WriteOptions

        with ToldInOneLine():
            writer = TidelogStreamWriter(WriteOptions.of(self.options, is_stream=True, others=OPTIONS), schema, overwrite=overwrite)
            writer.prepare()
            return writer


def read_options(options: Mapping[str, str], *, is_stream: bool) -> ReadOptions:
    """The options of a read. Those of the sink are no fault: a view has one set of options for both."""
    from tidelog.spark import write_options

    return ReadOptions.of(options, is_stream, others=write_options.OPTIONS)


def _either(options: Mapping[str, str]) -> ReadOptions:
    """The options where nobody says whether a batch or a stream will read: whoever does checks again."""
    try:
        return read_options(options, is_stream=False)
    except InvalidConfigError as error:
        try:
            return read_options(options, is_stream=True)
        except InvalidConfigError:
            raise error from None
