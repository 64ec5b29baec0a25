"""Kafka writes: every case through its own clients, then a clean stop; then more, and a crash.

What is left are copies of the broker's directory, and what a consumer got from it:

    home/clean       after a clean stop
    home/killed      after kill -9, while producers were busy
    home/recovered   what a broker made of the second
"""

import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from interop.broker.broker import INDEX_BYTES, Broker
from interop.broker.cases import CASES, Case, Clean, DeleteBefore, Send, Step
from interop.broker.clients import Clients, Consumed
from interop.broker.judging import ISOLATIONS
from interop.broker.python_client import write_with_python
from tidelog.disk.checkpoints import read_offsets
from tidelog.disk.disk import OS
from tidelog.disk.names import CLEANER_CHECKPOINT, TopicPartition
from tidelog.log.log_reading import Isolation

INTERNAL = ("__consumer_offsets", "__transaction_state")
PYTHON = "python"

FLOODS: dict[str, dict[str, str]] = {
    "flood-plain": {},
    "flood-idempotent": {"enable.idempotence": "true"},
    "flood-lz4": {"compression.type": "lz4"},
    "flood-transactional": {"enable.idempotence": "true", "transactional.id": "flood"},
}
FLOOD_CONFIG = {"internal.segment.bytes": "20000", "index.interval.bytes": "100"}
FLOOD_S = 1.5


@dataclass
class KafkaWrote:
    """What Kafka left behind, and what its consumer saw of it."""

    version: str
    home: Path
    consumed: dict[Isolation, dict[str, Consumed]] = field(default_factory=dict, repr=False)
    """By our isolation, then by topic: before the clean stop."""
    acknowledged: dict[str, int] = field(default_factory=dict, repr=False)
    """The highest offsets that producers were told before the crash."""
    after_crash: dict[Isolation, dict[str, Consumed]] = field(default_factory=dict, repr=False)
    """What the consumer saw after Kafka's own recovery."""
    configs: dict[str, dict[str, str]] = field(default_factory=dict, repr=False)
    """Settings of the topics, as our log takes them."""
    python_read: list[tuple[bytes | None, bytes | None]] = field(default_factory=list, repr=False)
    """What the Python client read of its own topic."""

    @property
    def topics(self) -> list[str]:
        return [*CASES, PYTHON, *INTERNAL]

    def partition(self, state: str, topic: str) -> Path:
        """A partition directory; state is "clean", "killed" or "recovered"."""
        return self.home / state / f"{topic}-0"


def let_kafka_write(home: Path, version: str) -> KafkaWrote:
    """Three starts of a broker. None is running afterwards."""
    wrote = KafkaWrote(version, home)
    floods = {topic: Case(topic, FLOOD_CONFIG) for topic in FLOODS}
    cases = CASES | floods | {PYTHON: Case(PYTHON)}
    wrote.configs = {name: case.config | {"segment.index.bytes": str(INDEX_BYTES)} for name, case in cases.items()}
    with Broker(home / "broker", version=version) as broker:
        broker.start()
        clients = broker.clients
        clients.create_topics({name: case.settings(version) for name, case in cases.items()})
        for case in CASES.values():
            for step in case.steps:
                take_step(broker, case, step)
        wrote.python_read = write_with_python(broker.bootstrap, PYTHON)
        for number in range(3):
            clients.ask("group", topic="defaults", group=f"group-{number}", offset=number + 5, metadata=f"of {number}")
        wrote.consumed = consume(clients, wrote.topics)
        broker.stop()
        copy_data(broker.data, home / "clean")

        broker.start()
        clients.ask("flood", topics=FLOODS)
        time.sleep(FLOOD_S)
        broker.kill()
        wrote.acknowledged = clients.ask("flood", stop=True)
        copy_data(broker.data, home / "killed")

        broker.start()
        wrote.after_crash = consume(clients, [*wrote.topics, *FLOODS])
        broker.stop()
        copy_data(broker.data, home / "recovered")
    return wrote


def consume(clients: Clients, topics: Iterable[str], *, partition: int = 0) -> dict[Isolation, dict[str, Consumed]]:
    """A partition of all of them, with both isolations, by our names of these."""
    topics = list(topics)
    return {ours: clients.consume(topics, kafkas, partition=partition) for ours, kafkas in ISOLATIONS.items()}


def copy_data(data: Path, target: Path) -> None:
    """A broker's directory, as it is."""
    shutil.copytree(data, target, ignore=shutil.ignore_patterns(".lock"))


def take_step(broker: Broker, case: Case, step: Step) -> None:
    """One step of a case, through Kafka's clients."""
    match step:
        case Send():
            config = {"compression.type": step.compression, "enable.idempotence": str(step.is_idempotent).lower()}
            name = f"{case.name}-{step.producer}"
            if step.producer in _transactional(case):
                config["transactional.id"] = name
                config["transaction.timeout.ms"] = _OPEN_MS
            broker.clients.produce(case.name, step.batches, producer=name, config=config, transaction=step.transaction)
        case DeleteBefore():
            broker.clients.ask("delete_records", topic=case.name, offset=step.offset)
        case Clean():
            wait_for_cleaner(broker, case.name)


_OPEN_MS = "900000"
"""How long a transaction may stay open. After a minute, which is Kafka's default, a broker that runs on such a directory ends it."""


def _transactional(case: Case) -> set[str]:
    return {step.producer for step in case.steps if isinstance(step, Send) and step.transaction}


def wait_for_cleaner(broker: Broker, topic: str, timeout_s: float = 30) -> None:
    """Until the cleaner has come to the active segment, which it never cleans."""
    deadline = time.monotonic() + timeout_s
    while True:
        active = max(int(path.stem) for path in broker.partition(topic).glob("*.log"))
        cleaned = read_offsets(OS, str(broker.data / CLEANER_CHECKPOINT))
        if cleaned.get(TopicPartition(topic, 0), -1) >= active:
            return
        assert time.monotonic() < deadline, f"the cleaner did not come to offset {active} of {topic}, it is at {cleaned}"
        time.sleep(0.05)
