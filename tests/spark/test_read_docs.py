"""The examples of the page about Spark run as printed, one behind the other."""

import re
from pathlib import Path

from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"
BLOCK = re.compile(r"^```py\n(.*?)^```\n", re.DOTALL | re.MULTILINE)


def test_the_examples(spark: SparkSession, tmp_path: Path) -> None:
    blocks = BLOCK.findall(PAGE.read_text())
    assert len(blocks) >= 4
    names = {"data": str(tmp_path / "data")}
    for block in blocks:
        exec(compile(block, "example", "exec"), names)  # noqa: S102
