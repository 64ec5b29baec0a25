"""A live broker writes through Kafka's own clients; we read, verify and recover what it leaves after a clean stop and after kill -9."""

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from interop.broker.cases import CASES, CODECS
from interop.broker.judging import ABOUT_KAFKA, ISOLATIONS, POOL, a_copy, assert_nothing_mended, assert_same, complaints, read_all
from interop.broker.kafka_writes import FLOODS, INTERNAL, PYTHON, KafkaWrote
from interop.broker.python_client import SENT
from interop.broker.scenarios import NEWER, VERSIONS, Scenarios
from interop.judge import Judge
from tests.support.golden_partitions import file_differences
from tidelog.disk.checkpoints import read_offsets
from tidelog.disk.disk import OS
from tidelog.disk.names import LOG_START_OFFSET_CHECKPOINT, RECOVERY_POINT_CHECKPOINT, TopicPartition
from tidelog.inspection import Finding, verify, verify_log_directory
from tidelog.log.log import Log
from tidelog.record import read_batches

TOPICS = [*CASES, PYTHON, *INTERNAL]


@pytest.fixture(scope="module", params=VERSIONS)
def wrote(request: pytest.FixtureRequest, scenarios: Scenarios) -> KafkaWrote:
    return scenarios.kafka_wrote(request.param)


# After a clean stop


@pytest.mark.parametrize("topic", TOPICS)
def test_we_read_what_the_consumer_read(topic: str, wrote: KafkaWrote) -> None:
    with Log.open(wrote.partition("clean", topic), mode="r") as log:
        for isolation in ISOLATIONS:
            assert_same(log, isolation, wrote.consumed[isolation][topic])


@pytest.mark.parametrize("topic", TOPICS)
def test_verify_is_silent_and_the_owner_has_nothing_to_do(topic: str, wrote: KafkaWrote, tmp_path: Path) -> None:
    directory = a_copy(wrote.partition("clean", topic), tmp_path / "data")
    assert complaints(directory) == []
    with Log.open(directory, config=wrote.configs.get(topic), pool=POOL) as log:
        assert_nothing_mended(log.load_report)
        for isolation in ISOLATIONS:
            assert_same(log, isolation, wrote.consumed[isolation][topic])


def test_verify_is_silent_about_the_whole_directory(wrote: KafkaWrote) -> None:
    assert [finding for finding in verify_log_directory(wrote.home / "clean") if finding.code not in ABOUT_KAFKA] == []


def test_the_cases_are_what_they_are_called(wrote: KafkaWrote) -> None:
    """Guards against a broker that ignores a setting, which would make the others pass too easily."""

    def names(topic: str, suffix: str) -> list[Path]:
        return sorted(wrote.partition("clean", topic).glob(f"*{suffix}"))

    def batches(topic: str) -> list[Any]:
        return [batch for path in names(topic, ".log") for batch in read_batches(path.read_bytes())]

    for codec in CODECS:
        assert {str(batch.compression) for batch in batches(f"codec-{codec}")} == {codec}
    assert {str(batch.compression) for batch in batches("codec-of-broker")} == {"zstd"}
    assert len(names("tiny-segments", ".log")) == 30
    assert sum(path.stat().st_size // 8 for path in names("dense-index", ".index")) > 180
    assert len(names("transactions-small", ".txnindex")) > 2
    assert wrote.consumed["committed"]["transaction-open"].end < wrote.consumed["high_watermark"]["transaction-open"].end
    assert wrote.consumed["committed"]["records-deleted"].start == 17
    assert any(batch.delete_horizon_ms is not None for batch in batches("compacted"))
    values = [record.value for record in wrote.consumed["committed"]["compacted"].records]
    assert None in values
    assert len(values) < 20
    assert None not in [record.value for record in wrote.consumed["committed"]["tombstones-gone"].records]
    assert {record.timestamp_type for record in wrote.consumed["committed"]["append-time"].records} == {"LogAppendTime"}
    assert len(wrote.consumed["committed"]["__consumer_offsets"].records) >= 3


def test_the_python_client_reads_and_writes_the_same(wrote: KafkaWrote) -> None:
    expected = [(row.key, row.value) for row in SENT] * 2 * len(CODECS)
    assert wrote.python_read == expected
    with Log.open(wrote.partition("clean", PYTHON), mode="r") as log:
        assert [(record.key, record.value) for record in log.read()] == expected


# After kill -9

LEFT_BY_A_KILL = {"torn-tail", "leftover-tmp"}
"""If it comes in the middle of a write, which is seldom."""


@pytest.mark.parametrize("topic", [*FLOODS, *CASES])
def test_after_a_kill_we_recover_what_kafka_recovers(topic: str, wrote: KafkaWrote, tmp_path: Path) -> None:
    """The broker had lost nothing that it had acknowledged: its page cache outlives it."""
    directory = a_copy(wrote.partition("killed", topic), tmp_path / "data")
    assert [finding for finding in complaints(directory) if finding.code not in LEFT_BY_A_KILL] == []
    seen = wrote.after_crash["high_watermark"][topic]
    with Log.open(directory, mode="r") as reader:
        assert read_all(reader, "log_end") == seen.records
    with Log.open(directory, config=wrote.configs[topic], recovery="kafka", pool=POOL) as log:
        assert log.log_end_offset > wrote.acknowledged.get(topic, -1)
        assert log.log_start_offset == seen.start
        assert read_all(log, "log_end") == seen.records
        if topic != "flood-transactional":
            assert_same(log, "committed", wrote.after_crash["committed"][topic])
        end = log.log_end_offset
    for path in wrote.partition("recovered", topic).glob("*.log"):
        recovered = path.read_bytes()
        ours = (directory / path.name).read_bytes() if int(path.stem) <= end else b""
        assert recovered[: len(ours)] == ours, path.name
        # The coordinator of a transaction that was decided before the crash writes its marker when it is back, and maybe again.
        assert all(batch.is_control and batch.base_offset >= end for batch in read_batches(recovered[len(ours) :])), path.name


Damage = Callable[[bytearray], None]


def _cut(data: bytearray) -> None:
    del data[-7:]


def _zeros(data: bytearray) -> None:
    data.extend(bytes(500))


def _flip(data: bytearray) -> None:
    data[-1] ^= 1


def _nothing(data: bytearray) -> None:
    pass


DAMAGES: dict[str, Damage] = {"nothing": _nothing, "cut": _cut, "zeros": _zeros, "flip": _flip}
CODES: dict[str, set[str]] = {"nothing": set(), "cut": {"torn-tail"}, "zeros": {"zero-tail"}, "flip": {"batch-crc", "torn-tail"}}


@dataclass
class Crash:
    """A partition after a crash, as we and as Kafka's own classes recover it."""

    ours: Path
    kafkas: Path
    errors: list[Finding]
    """What verify said before."""
    size_before: int
    size_after: int | None
    """Of the last `.log` in our recovery; None if it is gone, as when the log would end before its start."""


@pytest.fixture(scope="module")
def crashes(scenarios: Scenarios, judge: Judge) -> dict[tuple[str, str], Crash]:
    """By topic and what was done to the end of its last segment; Kafka's with the classes of the newer one."""
    wrote = scenarios.kafka_wrote(NEWER)
    killed = wrote.home / "killed"
    points = read_offsets(OS, str(killed / RECOVERY_POINT_CHECKPOINT))
    starts = read_offsets(OS, str(killed / LOG_START_OFFSET_CHECKPOINT))
    now_ms = time.time_ns() // 1_000_000
    crashes, jobs = {}, []
    for topic in [*FLOODS, *CASES]:
        for name, damage in DAMAGES.items():
            home = scenarios.home / "crashes" / f"{topic}-{name}"
            ours, kafkas = (shutil.copytree(wrote.partition("killed", topic), home / who / f"{topic}-0") for who in ("ours", "kafka"))
            last = max(path.name for path in ours.glob("*.log"))
            data = bytearray((ours / last).read_bytes())
            if name != "nothing" and len(data) < 100:
                continue
            damage(data)
            for directory in (ours, kafkas):
                (directory / last).write_bytes(data)
            errors = [finding for finding in verify(ours) if finding.severity == "error" or finding.code.endswith("-tail")]
            config, partition = wrote.configs[topic], TopicPartition(topic, 0)
            found: dict[str, Any] = {
                "log_start_offset": starts.get(partition, 0),
                "recovery_point": points.get(partition, 0),
                "last_shutdown_clean": False,
            }
            with Log.open(ours, config=config, clock=lambda: now_ms, recovery="kafka", pool=POOL, **found):
                pass
            jobs.append(found | {"directory": str(kafkas), "config": config, "now_ms": now_ms, "times": [], "closed": str(home / "closed")})
            size_after = (ours / last).stat().st_size if (ours / last).exists() else None
            crashes[topic, name] = Crash(ours, home / "closed", errors, len(data), size_after)
    assert [answer["error"] for answer in judge.open_logs(jobs) if "error" in answer] == []
    return crashes


def test_our_recovery_leaves_the_files_of_kafkas(crashes: dict[tuple[str, str], Crash]) -> None:
    assert len(crashes) > 60
    assert {key: found for key, crash in crashes.items() if (found := file_differences(crash.kafkas, crash.ours))} == {}


def test_verify_is_right_about_what_recovery_cuts(crashes: dict[tuple[str, str], Crash]) -> None:
    for (topic, name), crash in crashes.items():
        codes = {finding.code for finding in crash.errors}
        if crash.size_after is None:
            assert codes, (topic, name)
            continue
        assert bool(codes) == (crash.size_after < crash.size_before), (topic, name, crash)
        assert codes <= CODES[name], (topic, name)
        assert all(finding.position == crash.size_after for finding in crash.errors), (topic, name, crash)
