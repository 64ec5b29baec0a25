"""A broker's logs are cleaned by us and by its own cleaner, in turn.

A broker without a cleaner writes topics that are to be compacted, and is stopped. One copy of its directory is adopted by a store and
compacted, all topics of it, the broker's own too; another is cleaned by a broker's own cleaner. A broker reads both: a consumer cannot tell
them apart. Then, on ours, it goes on: it appends, and its cleaner cleans behind us; it stops, and we clean behind it, log by log.

    home/writer      as it was written
    home/kafka       cleaned by Kafka
    home/ours        cleaned by us, then by Kafka, then by us
"""

from dataclasses import dataclass, field
from pathlib import Path

import tidelog
from interop.broker.broker import INDEX_BYTES, Broker
from interop.broker.cases import CODECS, COMPACTED, Case, Clean, Send, numbers, tombstones, transactions
from interop.broker.clients import Consumed, Read
from interop.broker.judging import POOL, read_all
from interop.broker.kafka_writes import consume, copy_data, take_step
from interop.broker.store_moves import STORE_CONFIG
from tidelog.compaction.cleaning import CleanedLog, clean_log
from tidelog.compaction.offset_map import OffsetMap
from tidelog.compaction.plan import plan_cleaning
from tidelog.compaction.results import CompactResult
from tidelog.disk.checkpoints import read_offsets, write_offsets
from tidelog.disk.names import CLEANER_CHECKPOINT, TopicPartition
from tidelog.log.load_report import LoadReport
from tidelog.log.log import Log
from tidelog.log.log_reading import Isolation
from tidelog.record.kernel.clock import wall_clock

MAP_BYTES = 1 << 20


def _cases() -> dict[str, Case]:
    found = [
        Case("plain", COMPACTED, (Send(numbers(0, 60, keys=7)), Send(tombstones((5, 6))), Send(numbers(60, 20, keys=5)))),
        Case("larger-batches", COMPACTED | {"internal.segment.bytes": "2000"}, (Send(numbers(0, 200, keys=11, batch=5)),)),
        Case(
            "tombstones",
            COMPACTED | {"delete.retention.ms": "0"},
            (Send(numbers(0, 30, keys=5)), Send(tombstones((0, 2))), Send(numbers(30, 9, keys=1))),
        ),
        Case("transactional", COMPACTED, (*transactions("begin-abort"), Send(numbers(0, 20, keys=2)))),
        Case("transaction-open", COMPACTED, (Send(numbers(0, 20, keys=2)), *transactions("begin"))),
        Case("idempotent", COMPACTED, (Send(numbers(0, 40, keys=3), "one", is_idempotent=True), Send(numbers(40, 20, keys=2)))),
    ]
    found += [
        Case(f"in-{codec}", COMPACTED | {"internal.segment.bytes": "1000"}, (Send(numbers(0, 60, keys=7, batch=4), compression=codec),))
        for codec in CODECS[1:]
    ]
    return {case.name: case for case in found}


TO_CLEAN = _cases()
MORE = Send(numbers(1000, 40, keys=4), "more")
"""What the broker appends to each topic behind our cleaning."""

Seen = dict[Isolation, dict[str, Consumed]]


@dataclass
class CleanedByUs:
    """One of our rounds over all topics."""

    rounds: dict[str, CleanedLog] = field(default_factory=dict, repr=False)
    reports: dict[str, LoadReport] = field(default_factory=dict, repr=False)
    """What opening found."""
    records: dict[str, list[Read]] = field(default_factory=dict, repr=False)
    """What is left, up to the end of the log."""


@dataclass
class CleanedInTurn:
    """What a consumer saw, and what we did in between."""

    written: Seen
    by_kafka: Seen
    ours: CompactResult
    left_by_us: dict[str, list[Read]]
    """What was left when we had compacted, before any broker saw it."""
    by_us: Seen
    """From the broker that found what we had cleaned."""
    data: Path
    """The directory after all of it, closed by us."""
    by_both: Seen
    """After the broker had appended, and cleaned behind us."""
    ours_again: CleanedByUs
    configs: dict[str, dict[str, str]]


def let_both_clean(home: Path, version: str) -> CleanedInTurn:
    """Three starts of a broker. None is running afterwards."""
    configs = {name: case.config | {"segment.index.bytes": str(INDEX_BYTES)} for name, case in TO_CLEAN.items()}
    with Broker(home / "writer", version=version, settings={"log.cleaner.enable": "false"}) as broker:
        broker.start()
        broker.clients.create_topics({name: case.settings(version) for name, case in TO_CLEAN.items()})
        for case in TO_CLEAN.values():
            for step in case.steps:
                take_step(broker, case, step)
        written = consume(broker.clients, TO_CLEAN)
        broker.stop()
        copy_data(broker.data, home / "kafka" / "data")
        copy_data(broker.data, home / "ours" / "data")
    with Broker(home / "kafka", version=version) as broker:
        broker.start()
        for name in TO_CLEAN:
            _wait(broker, name)
        by_kafka = consume(broker.clients, TO_CLEAN)
        broker.stop()
    ours, left_by_us = compact_all(home / "ours" / "data", configs, has_small_segments=version.startswith("3."))
    with Broker(home / "ours", version=version) as broker:
        broker.start()
        by_us = consume(broker.clients, TO_CLEAN)
        for case in TO_CLEAN.values():
            take_step(broker, case, MORE)
            _wait(broker, case.name)
        by_both = consume(broker.clients, TO_CLEAN)
        broker.stop()
    ours_again = clean_all(home / "ours" / "data", configs)
    return CleanedInTurn(written, by_kafka, ours, left_by_us, by_us, home / "ours" / "data", by_both, ours_again, configs)


def _wait(broker: Broker, name: str) -> None:
    """For the cleaner, where no open transaction is in its way."""
    if name != "transaction-open":
        take_step(broker, TO_CLEAN[name], Clean())


def compact_all(data: Path, configs: dict[str, dict[str, str]], *, has_small_segments: bool) -> tuple[CompactResult, dict[str, list[Read]]]:
    """A store compacts everything, by the settings that it finds; and what is in the topics of ours then.

    Before 4.1 small segments had no name of their own. A store does not take that from a broker, and has to be told.
    """
    with tidelog.open(data, config=STORE_CONFIG, adopt="cluster-metadata") as store:  # which cleans nothing unasked
        for name in TO_CLEAN if has_small_segments else ():
            store.topic(name).alter(configs[name] | {"segment.bytes": str(1 << 20)})
        result = store.compact()
        return result, {name: read_all(store.log(name, 0), "log_end") for name in TO_CLEAN}


def clean_all(data: Path, configs: dict[str, dict[str, str]]) -> CleanedByUs:
    """A round over every topic, and what is in them then. The cleaner's checkpoint goes on from round to round, Kafka's or ours."""
    done = CleanedByUs()
    path = str(data / CLEANER_CHECKPOINT)
    for name, config in configs.items():
        partition = TopicPartition(name, 0)
        with Log.open(data / f"{name}-0", config=config, pool=POOL) as log:
            done.reports[name] = log.load_report
            checkpoints = read_offsets(POOL.disk, path)
            now_ms = wall_clock()
            plan = plan_cleaning(log, log.config, checkpoints.get(partition), now_ms)
            if plan.cleanable_bytes > 0:
                cleaned = clean_log(log, plan, OffsetMap(MAP_BYTES), now_ms)
                done.rounds[name] = cleaned
                write_offsets(POOL.disk, str(data), CLEANER_CHECKPOINT, checkpoints | {partition: cleaned.next_dirty_offset})
            done.records[name] = read_all(log, "log_end")
    return done
