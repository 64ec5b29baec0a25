"""On Spark: a pipeline, a client of Spark Connect, a Declarative Pipeline."""
