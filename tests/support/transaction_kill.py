"""Kill a process that does transactions, and look at what is left."""

import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.crash.transactor import GROUP, INPUT, OUTPUT, PARTITIONS, id_of, is_aborted, open_store
from tests.crash.writer import PER_THREAD
from tests.support.crash_kill import Writers
from tidelog.disk.names import TopicPartition
from tidelog.inspection import verify
from tidelog.store.store import Store

ByPartition = Mapping[int, list[bytes]]


class Transactors(Writers):
    """The fork server of `tests.crash.transactor`. A context manager."""

    program = "tests.crash.transactor"


class Killed(NamedTuple):
    """What processes said before they were killed, one behind the other in one directory."""

    acknowledged: set[int]
    threads: list[int]

    def faults_of(self, found: ByPartition, store: Store) -> list[str]:
        """What is wrong with what a reader of committed records has found."""
        positions = {thread: positions_of(store, id_of(thread)) for thread in self.threads}
        return faults_of_transactions(found, positions, self.acknowledged, self.threads)


def kill_some(transactors: Transactors, directory: Path, draw: Random) -> Killed:
    """Kill one, and perhaps the next one that goes on with its ids."""
    killed = Killed(set(), [])
    for turn in range(draw.choice([1, 2, 3])):
        threads, first = draw.choice([1, 2, 4]), turn * 10
        pause_s = draw.random() * 0.01  # into the middle of one
        after = draw.randrange(1, 30)
        killed.acknowledged.update(
            transactors.kill_one(directory, threads=threads, first=first, after=after, then=partial(time.sleep, pause_s))
        )
        killed.threads.extend(range(first, first + threads))
    return killed


def transaction_kill_round(transactors: Transactors, root: Path, draw: Random) -> list[str]:
    """Kill some, and open what they left: what is wrong then."""
    root.mkdir()
    killed = kill_some(transactors, root / "data", draw)
    with open_store(str(root / "data")) as store:
        faults = [f"{partition}: {error}" for partition, error in store.failures.items()]
        faults += killed.faults_of(found_in(store, OUTPUT), store)
        faults += open_ones(store)
    return faults + complaints(root / "data")


def faults_of_transactions(
    found: ByPartition, positions: Mapping[int, Mapping[int, int]], acknowledged: set[int], threads: list[int]
) -> list[str]:
    """Each number is in all partitions or in none; what was answered is there, what was aborted is not; positions are those of the last."""
    faults = []
    numbers = {partition: [int(value) for value in values] for partition, values in found.items()}
    for partition, own in numbers.items():
        if len(own) != len(set(own)):
            faults.append(f"partition {partition} has something twice")
        if set(own) != set(numbers[0]):
            faults.append(f"half of a transaction is there: {sorted(set(own) ^ set(numbers[0]))}, in partition 0 or {partition}")
    there = set(numbers[0])
    faults += [f"{number} is missing, which was answered" for number in sorted(acknowledged - there)]
    faults += [f"{number} is there, which was aborted" for number in sorted(there) if is_aborted(number)]
    for thread in threads:
        own = [number for number in numbers[0] if number // PER_THREAD == thread]
        answered = [number for number in acknowledged if number // PER_THREAD == thread]
        if own != sorted(own):
            faults.append(f"thread {thread} is out of order: {own}")
        if len(set(own) - set(answered)) > 1:
            faults.append(f"of thread {thread} more than one is there that was not answered: {sorted(set(own) - set(answered))}")
    for thread in threads:
        same_id = [number for number in numbers[0] if id_of(number // PER_THREAD) == id_of(thread)]
        wanted = dict.fromkeys(range(PARTITIONS), max(same_id)) if same_id else {}
        if positions[thread] != wanted:
            faults.append(f"the positions of {id_of(thread)} are {positions[thread]}, not {wanted} as by the output")
    return faults


def exactly_once(transactors: Transactors, root: Path, draw: Random, *, kills: int, records: int) -> list[str]:
    """Consume, transform, produce, over so many kills in one directory: what is wrong, at any time or in the end.

    Some children find what the former left as it is, others after this process has opened it, and looked at it.
    """
    root.mkdir()
    directory = root / "data"
    inputs = {number: [b"%d of %d" % (place, number) for place in range(records // PARTITIONS)] for number in range(PARTITIONS)}
    with open_store(str(directory)) as store:
        for number, values in inputs.items():
            with store.topic(INPUT).writer(batch_bytes=1000) as writer:
                for value in values:
                    writer.append(value, partition=number)
    for turn in range(kills):
        # Into opening, into the middle of a transaction, or between two.
        pause_s, after = draw.random() * draw.choice([0.005, 0.05]), draw.choice([0, 1, 2, 5])
        transactors.kill_one(directory, threads=0, first=turn, after=after, until="consumed", then=partial(time.sleep, pause_s))
        if draw.randrange(3) == 0:
            faults = look_at_output(directory, inputs, is_done=False)
            if faults:
                return [f"after {turn + 1} kills: {fault}" for fault in faults]
    idle = transactors.others["consumed"]
    if idle > kills // 4:
        return [f"{idle} of {kills} kills found nothing to do: {records} records are too few"]
    transactors.kill_one(directory, threads=0, first=kills, after=1 << 30, until="consumed")
    return look_at_output(directory, inputs, is_done=True) + complaints(directory)


def look_at_output(directory: Path, inputs: ByPartition, *, is_done: bool) -> list[str]:
    """Every input has one output, in order, up to the position of the group, which is the end once all is done."""
    with open_store(str(directory)) as store:
        faults = [f"{partition}: {error}" for partition, error in store.failures.items()]
        found = found_in(store, OUTPUT)
        faults += open_ones(store)
        return faults + faults_of_output(found, positions_of(store, GROUP), inputs, is_done=is_done)


def faults_of_output(found: ByPartition, positions: Mapping[int, int], inputs: ByPartition, *, is_done: bool) -> list[str]:
    """What is not exactly once."""
    faults = []
    for partition, values in inputs.items():
        position = positions.get(partition, 0)
        wanted = [b"of " + value for value in values[:position]]
        if found[partition] != wanted:
            place = next((place for place, pair in enumerate(zip(found[partition], wanted, strict=False)) if pair[0] != pair[1]), "the end")
            faults.append(f"partition {partition}: {len(found[partition])} outputs at position {position}, they differ at {place}")
        if is_done and position != len(values):
            faults.append(f"partition {partition}: all is consumed, at position {position} of {len(values)}")
    return faults


def found_in(store: Store, topic: str) -> ByPartition:
    """What a reader of committed records gets."""
    return {number: [record.value or b"" for record in store.topic(topic).read(partition=number)] for number in range(PARTITIONS)}


def positions_of(store: Store, group: str) -> dict[int, int]:
    """By partition of the input."""
    found = store.group(group).positions()
    return {partition.partition: position.offset for partition, position in found.items() if partition.topic == INPUT}


def open_ones(store: Store) -> list[str]:
    """Partitions in which something is still open: nothing is, once the store was opened."""
    logs = {TopicPartition(topic.name, number): topic.log(number) for topic in store.topics() for number in topic.partition_ids()}
    return [f"in {partition} is open {log.open_transactions}" for partition, log in logs.items() if log.open_transactions]


def complaints(directory: Path) -> list[str]:
    """Of verify, about any partition."""
    partitions = [path for path in sorted(directory.iterdir()) if path.is_dir() and not path.name.endswith("-delete")]
    findings = [finding for path in partitions for finding in verify(path, level="records")]
    return [str(finding) for finding in findings if finding.severity != "note"]
