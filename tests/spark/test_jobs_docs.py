"""The examples of the page about jobs run one behind the other, as printed but for where files are, on a store like theirs."""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.logs import FakeClock
from tests.support.small_stores import open_store
from tidelog.store.read_only_store import ReadOnlyStore

PAGE = Path(__file__).parents[2] / "docs" / "spark-jobs.md"
BLOCK = re.compile(r"^```py\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
PLACES = re.compile(r'"(data|all|export|mail\.csv)"')
"""Paths that the JVM, which has been started elsewhere, would look for there."""
TIME, YEAR_LATER = 1_699_999_999_000, 1_769_850_000_000  # the latter on 2026-01-31


@pytest.mark.slow
def test_the_examples(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_store(tmp_path / "data", clock=FakeClock(YEAR_LATER + 1000)) as store:
        emails = store.create_topic("emails", 2, {"cleanup.policy": "delete"})
        for number in range(100):
            timestamp_ms = (TIME if number < 50 else YEAR_LATER) + number
            emails.append(b"mail %d" % number, key=b"%d" % (100 + number % 30), timestamp_ms=timestamp_ms, partition=number % 2)
    (tmp_path / "mail.csv").write_text("id,name\n1,bill\n2,anna\n")
    frame = spark.sql("SELECT 'sms' AS kind, 7 AS id, 'hello' AS body, timestamp'2026-01-31 00:00:00Z' AS at")
    names: dict[str, object] = {"frame": frame}
    blocks = BLOCK.findall(PAGE.read_text())
    assert len(blocks) >= 5
    for block in blocks:
        exec(compile(PLACES.sub(rf'"{tmp_path}/\1"', block), "example", "exec"), names)  # noqa: S102
    assert names["spark"] is spark
    shown = capsys.readouterr().out
    assert "emails-0: left alone" in shown  # of the plan: the topic is not compacted
    assert "[31 32 33]" in shown  # of the history, whose key is 123
    assert spark.read.parquet(str(tmp_path / "export")).count() == 50
    with ReadOnlyStore.open(tmp_path / "data") as read:
        assert [record.key for record in read.topic("sms").read()] == [b"7"]
        assert {record.key for record in read.topic("emails").read()} >= {b"1", b"2"}
