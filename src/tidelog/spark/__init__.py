"""Whole topics on Spark: the data source, the sink, the pipeline jobs."""
