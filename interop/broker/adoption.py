"""A store adopts the directory of a broker that has stopped, appends to its topics, and gives it back; then the store has it again."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import tidelog
from interop.broker.broker import Broker
from interop.broker.cases import CASES
from interop.broker.clients import Consumed
from interop.broker.kafka_writes import KafkaWrote, consume, copy_data
from interop.broker.store_moves import OUR_BATCH, STORE_CONFIG, StoreBack, open_behind_broker
from interop.broker.we_write import KAFKAS_ROW
from tidelog.disk.names import TopicPartition
from tidelog.log.load_report import LoadReport
from tidelog.log.log_reading import Isolation

LEFT_ALONE = ("__consumer_offsets-0", "__transaction_state-0", "__cluster_metadata-0", "python-0", "meta.properties")
"""What nobody asks the store for."""
SET = ("append-time", "tiny-segments", "compacted")
"""Topics whose settings the store is told. Of the others it knows none."""


@dataclass
class Adopted:
    """What the store found in the broker's directory, and what the broker found when it had it back."""

    data: Path
    before: Path
    """A copy of the directory as the broker left it."""
    given_back: Path
    """A copy of the directory as the store left it."""
    topic_ids: dict[str, UUID | None] = field(default_factory=dict)
    reports: dict[str, LoadReport] = field(default_factory=dict)
    appended: dict[str, int] = field(default_factory=dict)
    """The offset of the record that the store appended to each topic."""
    consumed: dict[Isolation, dict[str, Consumed]] = field(default_factory=dict)
    """When the broker had it back."""
    seen: Path = Path()
    """A copy of the directory from then."""
    appended_by_broker: dict[str, int] = field(default_factory=dict)
    back: StoreBack = field(default_factory=StoreBack)


def let_it_be_adopted(home: Path, kafka: KafkaWrote) -> Adopted:
    """One start of a broker. It is not running afterwards."""
    adopted = Adopted(home / "data", kafka.home / "clean", home / "given-back")
    copy_data(adopted.before, adopted.data)
    with tidelog.open(adopted.data, config=STORE_CONFIG, adopt=True) as store:
        adopted.topic_ids = {topic.name: topic.topic_id for topic in store.topics()}
        for name in SET:
            store.topic(name).alter(CASES[name].config)
        for name in CASES:
            log = store.log(name, 0)
            adopted.reports[name] = log.load_report
            adopted.appended[name] = log.append(OUR_BATCH).first_offset
    copy_data(adopted.data, adopted.given_back)
    # Without a cleaner: what is read then is exactly what the store left.
    with Broker(home, version=kafka.version, settings={"log.cleaner.enable": "false"}) as broker:
        broker.start()
        adopted.consumed = consume(broker.clients, CASES)
        adopted.seen = home / "seen"
        copy_data(adopted.data, adopted.seen)
        for name in CASES:
            config = {"enable.idempotence": "true"}
            (adopted.appended_by_broker[name],) = broker.clients.produce(name, [[KAFKAS_ROW]], producer="kafka", config=config)
        broker.stop()
    adopted.back = open_behind_broker(adopted.data, [TopicPartition(name, 0) for name in CASES])
    return adopted


def files_left_alone(data: Path) -> Iterator[tuple[Path, bytes]]:
    """What the store had no business with."""
    for name in LEFT_ALONE:
        for path in [data / name] if (data / name).is_file() else sorted((data / name).iterdir()):
            yield path.relative_to(data), path.read_bytes()
