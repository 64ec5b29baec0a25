"""The metrics of the cleaner: Kafka's, under the names that dashboards know, and the settings that bound it."""

from pathlib import Path

import pytest

from tests.support.compacted_stores import compacted, pairs, put
from tests.support.kept_stores import open_store
from tests.support.logs import FakeClock
from tests.unit.store.test_metrics import parse
from tidelog.errors import InvalidConfigError
from tidelog.log.log import Log
from tidelog.store import Store


def table(store: Store, letters: str, name: str = "table") -> Log:
    log = store.create_topic(name, config=compacted()).log(0)
    put(log, *pairs(letters))
    return log


def test_before_anything_was_cleaned(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_store(tmp_path / "store", clock) as store:
        clock.advance(7)
        cleaner = store.metrics().cleaner
        assert cleaner[:9] == (0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 7, ())
        assert cleaner.totals == (0, 0, 0, 0, 0, 0)
        assert [directory[1:] for directory in cleaner.directories] == [(0, 0)]


def test_the_numbers_of_a_pass(tmp_path: Path) -> None:
    clock = FakeClock()
    config = {"log.cleaner.dedupe.buffer.size": 24 * 100, "log.cleaner.io.buffer.load.factor": 0.5}
    with open_store(tmp_path / "store", clock, config=config) as store:
        log = table(store, "ababcdcd")
        bytes_before = sum(segment.size_bytes for segment in log.segments[:-1])
        assert store.clean_once()
        bytes_after = sum(segment.size_bytes for segment in log.segments[:-1])
        clock.advance(3)
        cleaner = store.metrics().cleaner
        assert cleaner.max_buffer_utilization_percent == 100 * 4 / 100, "four keys, of a hundred slots"
        assert cleaner.recopy_percent == 100 * bytes_after / bytes_before
        assert cleaner.max_clean_time_s > 0
        assert cleaner.max_dirty_percent == 100
        assert cleaner.time_since_last_run_ms == 3
        assert cleaner.totals == (1, 0, 0, bytes_before, bytes_after, 2)
        assert cleaner.io_bytes >= bytes_before + bytes_after
        kinds, samples = parse(store.metrics().to_prometheus())
        assert samples["kafka_log_logcleaner_cleaner_recopy_percent", ()] == cleaner.recopy_percent
        assert samples["kafka_log_logcleaner_max_buffer_utilization_percent", ()] == 4
        assert samples["kafka_log_logcleanermanager_max_dirty_percent", ()] == 100
        assert samples["kafka_log_logcleanermanager_time_since_last_run_ms", ()] == 3
        assert samples["kafka_log_logcleanermanager_uncleanable_bytes", (("logDirectory", str(tmp_path / "store")),)] == 0
        assert samples["tidelog_cleaner_records_removed_total", ()] == 2
        assert kinds["kafka_utils_throttler_cleaner_io_total"] == "counter"
        assert {name for name in kinds if name.startswith("kafka_log_logcleaner_")} == {
            f"kafka_log_logcleaner_{name}"
            for name in (
                "max_buffer_utilization_percent",
                "cleaner_recopy_percent",
                "max_clean_time_secs",
                "max_compaction_delay_secs",
                "deadthreadcount",
            )
        }


@pytest.mark.parametrize(("threads", "passes"), [(1, 1), (2, 2), (4, 4)])
def test_the_memory_is_divided_over_the_threads(tmp_path: Path, threads: int, passes: int) -> None:
    config = {"log.cleaner.dedupe.buffer.size": 24 * 8, "log.cleaner.io.buffer.load.factor": 1.0, "log.cleaner.threads": threads}
    with open_store(tmp_path / "store", FakeClock(), config=config) as store:
        table(store, "abcdefghx")
        [one] = store.compact().partitions
        assert len(one.passes) == passes


def test_memory_for_not_a_single_key_is_a_typed_error(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", FakeClock(), config={"log.cleaner.dedupe.buffer.size": 10}) as store:
        table(store, "aaaa")
        [failure] = store.compact().failures
        assert isinstance(failure.error, InvalidConfigError)
        assert "log.cleaner.dedupe.buffer.size" in str(failure.error)
