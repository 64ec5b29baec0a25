"""Kafka's Java clients, in a JVM of their own: a line of JSON asks, a line of JSON answers (`interop/java/Clients.java`)."""

import base64
import json
import select
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from interop.broker.java_program import JavaProgram

Headers = tuple[tuple[str, bytes | None], ...]

TIMEOUT_S = 90.0


class Row(NamedTuple):
    """A record to be written."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None


class Read(NamedTuple):
    """A record that was read, by whomever."""

    offset: int
    timestamp_ms: int
    timestamp_type: str
    key: bytes | None
    value: bytes | None
    headers: Headers


class Consumed(NamedTuple):
    """A partition as a consumer saw it."""

    start: int
    end: int
    records: list[Read]
    times: list[tuple[int, int | None, int | None]]
    """Timestamps that were looked up, with the offset and timestamp of what was found."""


class ClientError(Exception):
    """Kafka's client threw, or is gone."""


class Clients:
    """A context manager. One request at a time."""

    def __init__(self, bootstrap: str, *, version: str, messages: Path) -> None:
        self._program = JavaProgram("Clients", bootstrap, version=version, messages=messages, has_answers=True)

    def __enter__(self) -> "Clients":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the JVM; what its producers have under way is dropped."""
        self._program.kill()

    def ask(self, job: str, *, is_alive: Callable[[], bool] = lambda: True, timeout_s: float = TIMEOUT_S, **fields: Any) -> Any:
        """The answer of a job. Nobody waits for it once `is_alive` says no."""
        self._program.requests.write(json.dumps({"job": job, **fields}).encode() + b"\n")
        self._program.requests.flush()
        deadline = time.monotonic() + timeout_s
        while not select.select([self._program.answers], [], [], 0.2)[0]:
            if not is_alive() or not self._program.is_running or time.monotonic() > deadline:
                raise ClientError(f"no answer to {job}; {self._program.last_words()}")
        line = self._program.answers.readline()
        if not line:
            raise ClientError(f"ended during {job}; {self._program.last_words()}")
        answer = json.loads(line)
        if "error" in answer:
            raise ClientError(f"{job}: {answer['error']}")
        return answer["answer"]

    def create_topics(self, topics: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
        """Topics of one partition, with their settings. Gives back their ids."""
        ids: dict[str, str] = self.ask("topics", topics=topics)
        return ids

    def produce(
        self, topic: str, batches: Iterable[Sequence[Row]], *, producer: str, config: Mapping[str, str], transaction: str = ""
    ) -> list[int]:
        """Send batches; see `ProduceJob.java` for what a transaction can be. Gives back the offsets."""
        written = [[[_base64(row.key), _base64(row.value), _headers(row.headers), row.timestamp_ms] for row in batch] for batch in batches]
        offsets: list[int] = self.ask("produce", topic=topic, batches=written, producer=producer, config=config, transaction=transaction)
        return offsets

    def consume(self, topics: Iterable[str], isolation: str) -> dict[str, Consumed]:
        """Everything in partition 0 of topics, with isolation "read_committed" or "read_uncommitted"."""
        answer = self.ask("consume", topics=list(topics), isolation=isolation)
        return {topic: _consumed(found) for topic, found in answer.items()}


def _consumed(found: dict[str, Any]) -> Consumed:
    records = [
        Read(offset, timestamp_ms, kind, _bytes(key), _bytes(value), tuple((name, _bytes(content)) for name, content in headers))
        for offset, timestamp_ms, kind, key, value, headers in found["records"]
    ]
    return Consumed(found["start"], found["end"], records, [tuple(time) for time in found["times"]])


def _base64(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _headers(headers: Headers) -> list[list[str | None]]:
    return [[name, _base64(content)] for name, content in headers]
