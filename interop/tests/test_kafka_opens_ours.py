"""Real Kafka opens, recovers, dumps and goes on with partitions that we wrote."""

import hashlib
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from interop.judge import Judge
from interop.tests.our_partitions import PARTITIONS, POOL, OurPartition, recovered
from tests.support.golden_partitions import file_differences
from tests.support.logs import TIME, numbered
from tidelog.disk.names import OWN_SUFFIX
from tidelog.log.log import Log
from tidelog.log.time_lookup import MAX_TIMESTAMP
from tidelog.record import read_batches
from tidelog.record.kernel.record import Record


@pytest.fixture(scope="module")
def ours(memory: Path) -> dict[str, OurPartition]:
    """All partitions, by name."""
    made = {name: make(memory / "ours" / name) for name, make in PARTITIONS.items()}
    return made | {f"recovered-{name}": partition for name, partition in recovered(memory / "ours" / "recovered")}


# Kafka opens them


@dataclass
class Verdict:
    """What Kafka and we made of copies of the same directory, opened with the same arguments."""

    partition: OurPartition
    is_clean: bool
    kafka: Path
    """The directory that Kafka opened, closed, opened and appended to; `closed` beside it is how it was between that."""
    here: Path
    found: dict[str, Any]
    """What we found."""
    answer: dict[str, Any]
    """What Kafka did."""
    records: list[Record]


@pytest.fixture(scope="module")
def verdicts(ours: dict[str, OurPartition], memory: Path, judge: Judge) -> dict[tuple[str, bool], Verdict]:
    """By name, and whether the directory was opened as one that was closed in order."""
    verdicts, jobs = {}, []
    for name, partition in ours.items():
        for is_clean in (True, False) if partition.was_closed else (False,):
            work = memory / "opened" / f"{name}-{'clean' if is_clean else 'unclean'}"
            kafka, here = work / "kafka" / "tide-0", work / "here" / "tide-0"
            for copy in (kafka, here):
                shutil.copytree(partition.directory, copy)
            with open_log(here, partition, last_shutdown_clean=is_clean, recovery_point=0) as log:
                records = list(log.read(isolation="log_end"))
                times = sorted({record.timestamp_ms for record in records if record.timestamp_ms >= 0})[:: max(1, len(records) // 12)]
                found = description(log, [*times, *(time + 1 for time in times), 0, MAX_TIMESTAMP])
            jobs.append(
                {
                    "directory": str(kafka),
                    "config": partition.config,
                    "log_start_offset": partition.log_start_offset,
                    "recovery_point": 0,
                    "last_shutdown_clean": is_clean,
                    "now_ms": TIME,
                    "times": found["times"],
                    "closed": str(work / "closed"),
                }
            )
            verdicts[name, is_clean] = Verdict(partition, is_clean, kafka, here, found, {}, records)
    for verdict, answer in zip(verdicts.values(), judge.open_logs(jobs), strict=True):
        verdict.answer = answer
    return verdicts


def open_log(directory: Path, partition: OurPartition, **found: Any) -> Log:
    found = {"log_start_offset": partition.log_start_offset} | found
    return Log.open(directory, config=partition.config, clock=lambda: TIME, pool=POOL, **found)


def description(log: Log, times: list[int]) -> dict[str, Any]:
    """Where a log stands, what is in its files, what a reader gets: what Kafka is asked too."""
    segments = []
    for segment in log.segments:
        data = Path(segment.path_of(".log")).read_bytes()[: segment.size_bytes]
        batches = [
            {
                "position": batch.position,
                "size": batch.size_bytes,
                "base_offset": batch.base_offset,
                "last_offset": batch.last_offset,
                "count": batch.count if batch.magic == 2 else None,
                "magic": batch.magic,
                "max_timestamp_ms": batch.max_timestamp_ms,
                "leader_epoch": batch.partition_leader_epoch,
                "crc": batch.crc,
                "sha256": hashlib.sha256(data[batch.position : batch.position + batch.size_bytes]).hexdigest(),
            }
            for batch in read_batches(data)
        ]
        segments.append({"base_offset": segment.base_offset, "batches": batches})
    offsets: list[int] = []
    crc, offset = 0, log.log_start_offset
    while data := bytes(log.fetch(offset, 1, isolation="log_end").data):
        (batch,) = read_batches(data)
        crc = crc32c(crc.to_bytes(8, "big") + data)
        offsets += [record.offset for record in batch]
        offset = batch.last_offset + 1
    found = [log.offset_for_time(timestamp_ms, isolation="log_end") for timestamp_ms in times]
    return {
        "log_start_offset": log.log_start_offset,
        "log_end_offset": log.log_end_offset,
        "segment_bases": [segment.base_offset for segment in log.segments],
        "sizes": [segment.size_bytes for segment in log.segments],
        # An epoch that starts at the very end has no batch. We keep it, so that no lower one is used; Kafka drops it.
        "leader_epochs": [list(entry) for entry in log.leader_epochs if entry[1] < log.log_end_offset],
        "segments": segments,
        "read": {"offsets": offsets, "chained_crc": crc},
        "times": times,
        "offsets_for_times": [None if at is None else [at.offset, at.timestamp_ms] for at in found],
    }


def differences(verdict: Verdict) -> list[str]:
    """How Kafka's opening differs from ours."""
    answer = verdict.answer
    if "error" in answer:
        return [answer["error"]]
    differences = [
        f"{name}: {answer[name]} in Kafka, {value} here"
        for name, value in verdict.found.items()
        if name != "times" and answer[name] != value
    ]
    of_files = file_differences(verdict.kafka.parents[1] / "closed", verdict.here)
    epochs = verdict.here / "leader-epoch-checkpoint"
    if epochs.exists() and b" %d\n" % verdict.found["log_end_offset"] in epochs.read_bytes():
        of_files = [line for line in of_files if not line.startswith("leader-epoch-checkpoint")]
    return differences + of_files


@pytest.mark.parametrize("name", PARTITIONS)
def test_kafka_opens_it_and_finds_the_same(name: str, verdicts: dict[tuple[str, bool], Verdict]) -> None:
    judged = {is_clean: verdicts[name, is_clean] for is_clean in (True, False) if (name, is_clean) in verdicts}
    assert {is_clean: found for is_clean, verdict in judged.items() if (found := differences(verdict))} == {}
    assert False in judged


def test_kafka_opens_what_we_recovered(verdicts: dict[tuple[str, bool], Verdict]) -> None:
    judged = {key: verdict for key, verdict in verdicts.items() if key[0].startswith("recovered-")}
    assert len(judged) > 200
    assert {key: found for key, verdict in judged.items() if (found := differences(verdict))} == {}


def test_we_go_on_with_what_kafka_appended(verdicts: dict[tuple[str, bool], Verdict]) -> None:
    for key, verdict in verdicts.items():
        answer = verdict.answer
        if "error" in answer:
            continue  # the tests above say what they think of it
        start, end = answer["log_start_offset"], answer["log_end_offset_after"]
        assert end == answer["appended"]["last_offset"] + 1
        with open_log(verdict.kafka, verdict.partition, last_shutdown_clean=True, recovery_point=end, log_start_offset=start) as log:
            assert (log.log_start_offset, log.log_end_offset) == (start, end), key
            assert not log.load_report.has_changed, (key, log.load_report)
            records = list(log.read())
            assert records[:-1] == verdict.records, key
            assert (records[-1].offset, records[-1].key, records[-1].value) == (end - 1, b"kafka", b"was here"), key
            assert log.append(numbered(77)).first_offset == end, key
            assert [record.offset for record in log.read(end)] == [end]


def test_kafka_leaves_our_own_files_alone(verdicts: dict[tuple[str, bool], Verdict]) -> None:
    kept = 0
    for key, verdict in verdicts.items():
        own = {path.name: path.read_bytes() for path in verdict.partition.directory.iterdir() if path.name.endswith(OWN_SUFFIX)}
        if "files" not in verdict.answer:
            continue
        assert own.keys() <= set(verdict.answer["files"]), key
        for name, content in own.items():  # as Kafka left them: we open the directory itself again, and the end is ours to withdraw
            assert (verdict.kafka.parents[1] / "closed" / name).read_bytes() == content, (key, name)
        kept += len(own)
    assert kept > 20


def test_the_referee_can_say_no(memory: Path, judge: Judge) -> None:
    """Damage in the middle, and an index that lies, are noticed by what is compared above."""
    partition = PARTITIONS["sparse-index"](memory / "referee")
    first, index = sorted(partition.directory.glob("*.log"))[0], sorted(partition.directory.glob("*.index"))[0]
    damaged = memory / "referee" / "damaged" / "tide-0"
    shutil.copytree(partition.directory, damaged)
    data = bytearray(first.read_bytes())
    data[300] ^= 1
    (damaged / first.name).write_bytes(data)
    (damaged / index.name).write_bytes(bytes.fromhex("00000005000003e8"))
    jobs = []
    for is_clean in (True, False):
        copy = memory / "referee" / str(is_clean) / "tide-0"
        shutil.copytree(damaged, copy)
        jobs.append(
            {
                "directory": str(copy),
                "config": partition.config,
                "log_start_offset": 0,
                "recovery_point": 0,
                "last_shutdown_clean": is_clean,
                "now_ms": TIME,
                "times": [],
                "closed": str(copy.parent / "closed"),
            }
        )
    clean, unclean = judge.open_logs(jobs)
    assert "CorruptRecordException" in clean["error"]
    assert unclean["log_end_offset"] < 10
    (dumped,) = judge.dump([damaged])
    assert "Mismatches in" in dumped["verify_index_only"]["err"] + dumped["verify_index_only"]["out"]


# Kafka dumps them


GAP = re.compile(r"^Non-consecutive offsets in |^  \d+ is followed by \d+$")


def test_kafkas_dump_tool_finds_nothing_wrong(ours: dict[str, OurPartition], judge: Judge) -> None:
    closed = {name: partition for name, partition in ours.items() if partition.was_closed and not name.startswith(("killed", "recovered-"))}
    for (name, partition), dumped in zip(closed.items(), judge.dump(partition.directory for partition in closed.values()), strict=True):
        batches = [batch for path in sorted(partition.directory.glob("*.log")) for batch in read_batches(path.read_bytes())]
        offsets = [record.offset for batch in batches for record in batch]
        has_gaps = offsets != list(range(offsets[0], offsets[0] + len(offsets))) if offsets else False
        for way in ("deep_iteration", "verify_index_only", "index_sanity_check"):
            assert "error" not in dumped[way], (name, way)
            said = dumped[way]["err"].splitlines()
            assert [line for line in said if not (has_gaps and GAP.search(line))] == [], (name, way)
        lines = dumped["deep_iteration"]["out"].splitlines()
        assert sum("isvalid: true" in line for line in lines) == len(batches), name
        assert not any("isvalid: false" in line for line in lines), name
        for index in map(Path, dumped["index_sanity_check"]["files"]):
            said = "passed sanity check." if index.stat().st_size or index.suffix == ".timeindex" else "is empty."
            assert f"{index} {said}" in dumped["index_sanity_check"]["out"].splitlines(), name
