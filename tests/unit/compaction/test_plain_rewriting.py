"""The way through the kernel and the way batch by batch give the same files, whatever the log."""

import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.batches import varint, with_crc
from tests.support.cleaning import DELETE_RETENTION_MS, a_map, left, open_compacted, plan
from tests.support.logs import TIME, FakeClock, check_log, copy_home, files_of
from tests.support.producers import abort, commit, producers_of
from tidelog.compaction import batch_runs, output, plain_rewriting, survivor_bits
from tidelog.compaction.cleaning import CleanedLog, clean_log
from tidelog.compaction.plan import plan_cleaning
from tidelog.compaction.segment_chunks import ChunkReader
from tidelog.log.log import Log
from tidelog.record import BatchSettings, Compression, NewBatch
from tidelog.record.plain_records import are_plain

CONFIG = {"internal.segment.bytes": 1500, "message.timestamp.after.max.ms": 1 << 62}


def write_random(log: Log, rng: random.Random, batches: int) -> None:
    """Batches of all kinds: transactions, tombstones, codecs, headers, times that jump."""
    sequences = {producer: entry.last_sequence + 1 for producer, entry in producers_of(log).items()}
    in_transaction: set[int] = set()
    append_time = {"message.timestamp.type": rng.choice(["CreateTime", "CreateTime", "LogAppendTime"])}
    log.reconfigure(log.config.with_changes(append_time))
    for _ in range(batches):
        producer = rng.choice([-1, -1, 7, 8, 9])
        if producer in in_transaction and rng.random() < 0.4:
            (commit if rng.random() < 0.5 else abort)(log, producer)
            in_transaction.discard(producer)
            continue
        rows = []
        for _ in range(rng.choice([1, 1, 2, 5, 12])):
            key = b"key-%d" % rng.randrange(15)
            value = None if rng.random() < 0.15 else rng.randbytes(rng.choice([0, 1, 20, 90]))
            headers = ((f"h{rng.randrange(3)}", b"v"),) if rng.random() < 0.2 else ()
            rows.append((key, value, headers, TIME + rng.choice([0, 5, -100, 100_000, 1 << 33])))
        settings: dict[str, Any] = {"compression": rng.choice([Compression.NONE] * 5 + [Compression.LZ4])}
        if producer >= 0:
            is_transactional = producer in in_transaction or (producer == 9 or rng.random() < 0.3)
            settings |= {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequences.get(producer, 0)}
            settings["is_transactional"] = is_transactional
            sequences[producer] = sequences.get(producer, 0) + len(rows)
            if is_transactional:
                in_transaction.add(producer)
        log.append(NewBatch(rows, settings=BatchSettings(**settings)).encode())
        if rng.random() < 0.05:
            log.roll()
    for producer in in_transaction:
        abort(log, producer)
    log.roll()


def passes(log: Log, rng: random.Random) -> list[CleanedLog]:
    """Some passes, with maps of all sizes and a clock that goes on."""
    checkpoint: int | None = None
    done = []
    now_ms = TIME
    for turn in range(4):
        cleaned = clean_log(log, plan_cleaning(log, log.config, checkpoint, now_ms), a_map(rng.choice([1, 4, 9, 30, 1000])), now_ms)
        checkpoint = cleaned.next_dirty_offset
        done.append(cleaned)
        now_ms += rng.choice([0, DELETE_RETENTION_MS - 1, DELETE_RETENTION_MS + 1])
        if turn == 1:
            write_random(log, random.Random(rng.randrange(1 << 30)), 10)
    return done


def without_times(cleaned: CleanedLog) -> Any:
    return cleaned.next_dirty_offset, cleaned.stats._replace(map_ms=0, elapsed_ms=0)


def one_by_one(headers: Any) -> Any:
    return np.zeros_like(are_plain(headers))


@pytest.mark.parametrize("seed", range(25))
def test_both_ways_give_the_same_files(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    config = CONFIG | {"internal.segment.bytes": rng.choice([1200, 2500, 6000])}
    with open_compacted(tmp_path / "made", config) as log:
        write_random(log, rng, 60)
        log.flush()
        homes = [copy_home(log, tmp_path / name) for name in ("kernel", "single", "windows")]
    outcomes = []
    for home in homes:
        if home.name == "single":
            monkeypatch.setattr(batch_runs, "are_plain", one_by_one)
        elif home.name == "windows":
            monkeypatch.setattr(batch_runs, "are_plain", are_plain)
            monkeypatch.setattr(survivor_bits.SurvivorBits.__init__, "__defaults__", (20,))
            monkeypatch.setattr(output, "WRITE_BYTES", 300)
            monkeypatch.setattr(output, "_FIRST_BYTES", 700)
            monkeypatch.setattr(plain_rewriting, "_SCRATCH_RECORDS", 4)
            monkeypatch.setattr(ChunkReader.__init__, "__defaults__", (400,))
        with open_compacted(home, config, clock=FakeClock(), last_shutdown_clean=True) as log:
            done = passes(log, random.Random(seed))
            check_log(log)
            outcomes.append(([without_times(cleaned) for cleaned in done], left_files(log)))
    (by_kernel, kernel_files), (by_one, single_files), (by_windows, windowed_files) = outcomes
    assert kernel_files == single_files
    assert by_kernel == by_one
    assert windowed_files == kernel_files
    assert [cleaned[0] for cleaned in by_windows] == [cleaned[0] for cleaned in by_kernel]


def left_files(log: Log) -> dict[str, bytes]:
    log.flush()
    return {name: data for name, data in files_of(log).items() if name.endswith((".log", ".index", ".timeindex", ".txnindex"))}


@pytest.mark.leaves
def test_offsets_that_do_not_rise_are_looked_up(tmp_path: Path) -> None:
    """A record may carry an offset that is not its turn: Kafka stores what a client sends uncompressed as it is."""

    def record(delta: int, key: bytes, value: bytes) -> bytes:
        body = b"\0" + varint(0) + varint(delta) + varint(len(key)) + key + varint(len(value)) + value + varint(0)
        return varint(len(body)) + body

    payload = record(1, b"a", b"later") + record(0, b"a", b"earlier") + record(2, b"b", b"x")
    header = struct.pack(">qiibIhiqqqhii", 0, 49 + len(payload), 0, 2, 0, 0, 2, TIME, TIME, -1, -1, -1, 3)
    with open_compacted(tmp_path) as log:
        log.append_as_follower(with_crc(header + payload))
        log.high_watermark = log.log_end_offset
        log.roll()
        clean_log(log, plan(log), a_map(), TIME)
        # The map has the offset that came last, 0; the record at 1 is not below it, and stays, as in Kafka.
        assert sorted(left(log)) == ["0:a=earlier", "1:a=later", "2:b=x"]


@pytest.mark.parametrize("gap", [100, 10_000])
def test_batches_far_apart(tmp_path: Path, gap: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survivor_bits.SurvivorBits.__init__, "__defaults__", (50,))
    with open_compacted(tmp_path) as log:
        for number in range(10):
            rows = [(b"a", b"%d" % number), (b"k%d" % number, b"x")]
            log.append_as_follower(NewBatch(rows, base_offset=number * gap, settings=BatchSettings(partition_leader_epoch=0)).encode())
        log.high_watermark = log.log_end_offset
        log.roll()
        clean_log(log, plan(log), a_map(), TIME)
        assert left(log) == [*(f"{number * gap + 1}:k{number}=x" for number in range(9)), f"{9 * gap}:a=9", f"{9 * gap + 1}:k9=x"]
        check_log(log)
