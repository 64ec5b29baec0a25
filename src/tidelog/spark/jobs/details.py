"""The details of a result, as a DataFrame."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Details:
    """Rows that the driver has. A DataFrame is made of them when somebody asks: that takes Spark a tenth of what a quick job does."""

    spark: "SparkSession"
    rows: Sequence[tuple[object, ...]]
    schema: str

    def frame(self) -> "DataFrame":
        """All of them."""
        return details_frame(self.spark, self.rows, self.schema)


def details_frame(spark: "SparkSession", rows: Sequence[tuple[object, ...]], schema: str) -> "DataFrame":
    """Rows that the driver has, as a DataFrame; also if there are none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # PySpark about the version of pandas, which is not used here
        return spark.createDataFrame(list(rows), schema)
