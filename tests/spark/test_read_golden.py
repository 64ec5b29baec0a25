"""Every partition that a real Kafka has written, read as Spark's tasks read it: the same records that the engine reads one by one.

All formats, codecs, transactions, compacted gaps, markers and cut tails are in there.
"""

import shutil
from pathlib import Path

import pytest

from tests.support.golden import GOLDEN
from tests.support.golden_partitions import golden_cases
from tests.support.spark_reads import engine_rows, in_ms, plan_read, read_rows
from tidelog.disk.checkpoints import write_offsets
from tidelog.disk.disk import Disk
from tidelog.disk.names import REPLICATION_CHECKPOINT, TopicPartition
from tidelog.errors import TidelogError
from tidelog.log.read_only import open_read_only

CONTRADICTORY = "refused-records"
"""Offsets of records that are not in the range of their batch: who reads columns and who reads records differ about them."""
CASES = [folder for family in ("partitions", "compaction") for folder in golden_cases(family) if folder.name != CONTRADICTORY]
BROKER = GOLDEN / "broker" / "data"


def copied(folder: Path, work: Path) -> Path:
    """A golden partition under the name of one, in a log directory that says that all of it may be seen."""
    shutil.copytree(folder / "closed", work / "tide-0")
    with open_read_only(work / "tide-0") as log:
        end = log.log_end_offset
    write_offsets(Disk(), str(work), REPLICATION_CHECKPOINT, {TopicPartition("tide", 0): end})
    return work


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_partitions_that_kafka_wrote(folder: Path, tmp_path: Path) -> None:
    directory = copied(folder, tmp_path)
    for isolation in ("committed", "high_watermark", "log_end"):
        try:
            expected = engine_rows(directory, "tide-0", isolation=isolation)
        except TidelogError as error:
            with pytest.raises(type(error)):
                read_rows(directory, {"isolation": isolation})
            continue
        assert in_ms(read_rows(directory, {"isolation": isolation})) == expected
        # Cut as finely as can be: each record comes once all the same.
        most = 3 if not expected or expected[-1]["offset"] < 1000 else expected[-1]["offset"] // 7
        tasks = {"isolation": isolation, "bytesPerPartition": 1, "maxRecordsPerPartition": most}
        assert in_ms(read_rows(directory, tasks)) == expected


def test_the_directory_of_a_broker() -> None:
    names = sorted(path.name for path in BROKER.iterdir() if path.is_dir() and not path.name.startswith("__") and "." not in path.name)
    assert len(names) >= 6
    assert in_ms(read_rows(BROKER, {"isolation": "committed"})) == engine_rows(BROKER, *names)
    assert {split.topic_id for task in plan_read(BROKER) for split in task.splits} != {None}


def test_there_is_something_of_everything() -> None:
    assert len(CASES) > 90
