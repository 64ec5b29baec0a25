"""A Python client of Kafka as a second opinion: kafka-python produces with every codec, and reads it again.

It runs in a process of its own, since it has threads and warnings of its own: `python -m interop.broker.python_client HOST:PORT TOPIC`
prints what it read, a line of JSON a record.
"""

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from interop.broker.cases import CODECS, ROWS

SENT = [row for row in ROWS if row.key is not None or row.value is not None]
"""What this client takes: not a record that has neither key nor value, and no header without a value."""

Pair = tuple[bytes | None, bytes | None]


def write_with_python(bootstrap: str, topic: str) -> list[Pair]:
    """Every shape of a record, with every codec, with and without idempotence. Gives back keys and values as a consumer got them."""
    command = [sys.executable, "-m", "interop.broker.python_client", bootstrap, topic]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return [(_bytes(key), _bytes(value)) for key, value in map(json.loads, done.stdout.splitlines())]


def produce(bootstrap: str, topic: str) -> int:
    """How many records there are then."""
    from kafka import KafkaProducer

    for codec in CODECS:
        for is_idempotent in (False, True):
            producer = KafkaProducer(
                bootstrap_servers=bootstrap,
                compression_type=None if codec == "none" else codec,
                enable_idempotence=is_idempotent,
                acks="all",
                linger_ms=1000,
            )
            for row in SENT:
                headers = [(name, content) for name, content in row.headers if content is not None]
                producer.send(topic, key=row.key, value=row.value, headers=headers, partition=0, timestamp_ms=row.timestamp_ms)
            producer.flush()
            producer.close()
    return len(CODECS) * 2 * len(SENT)


def consume(bootstrap: str, topic: str, count: int) -> Iterator[Pair]:
    """The first records of a topic."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", enable_auto_commit=False)
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    while count > 0:
        for records in consumer.poll(timeout_ms=500).values():
            yield from ((record.key, record.value) for record in records)
            count -= len(records)
    consumer.close()


def main(bootstrap: str, topic: str) -> None:
    """Both."""
    for pair in consume(bootstrap, topic, produce(bootstrap, topic)):
        sys.stdout.write(json.dumps([None if part is None else base64.b64encode(part).decode() for part in pair]) + "\n")


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
