"""A table that a topic streams into, and a view of the latest state: Spark finds out what depends on what, and runs it."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as Spark's documentation has it)

spark = SparkSession.active()
DIRECTORY = spark.conf.get("tides.directory")
TOPIC = "emails"


@dp.table
def landed() -> DataFrame:
    """Every record, as it comes: a run goes on where the last one ended."""
    return spark.readStream.format("tidelog").options(subscribe=TOPIC, startingOffsets="earliest").load(DIRECTORY)


@dp.materialized_view
def latest_emails() -> DataFrame:
    """The latest address of each key, straight from the topic: only the columns that are asked for leave the log."""
    records = spark.read.format("tidelog").options(subscribe=TOPIC, columns="key,value,offset").load(DIRECTORY)
    latest = records.groupBy("key").agg(F.max_by("value", "offset").alias("value"))
    return latest.where("value is not null").select(F.col("key").cast("string"), F.col("value").cast("string").alias("email"))


@dp.materialized_view
def records_per_day() -> DataFrame:
    """From the table above, not from the topic."""
    return spark.read.table("landed").groupBy(F.to_date("timestamp").alias("day")).count()
