"""The part of the quickstart that is about Spark runs as printed."""

import re
from pathlib import Path

from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "quickstart.md"
BLOCK = re.compile(r"^```py\n(.*?)^```\n", re.DOTALL | re.MULTILINE)


def test_the_example(spark: SparkSession, tmp_path: Path) -> None:
    (block,) = BLOCK.findall(PAGE.read_text())
    names: dict[str, object] = {"data": str(tmp_path / "data")}
    exec(compile(block, "example", "exec"), names)  # noqa: S102
    assert names["spark"] is spark
