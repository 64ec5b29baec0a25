"""The records of `__transaction_state` as we write and read them: Kafka's, with a header that says which store has written them.

A broker passes the header over, and writes none of its own: by it, what we have to bring to an end is known from what a broker has.
"""

import logging
from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from crc32c import crc32c

from tidelog.disk.partition_metadata import format_topic_id
from tidelog.errors import TidelogError
from tidelog.record.kernel.header_list import encode_headers
from tidelog.record.kernel.record import Record
from tidelog.record.kernel.single_batch import encode_single
from tidelog.schema.transaction_state import TransactionLogValue, format_key, format_value, parse_key, parse_value
from tidelog.store.transactions.decisions import IdState

HEADER_NAME = "tidelog"
_logger = logging.getLogger(__name__)


class StateWriting(NamedTuple):
    """What all state records of a store have in common."""

    header: bytes
    """The value of ours."""
    headers: bytes
    """The encoded list."""

    @classmethod
    def of(cls, store_id: UUID) -> "StateWriting":
        """For a store."""
        header = format_topic_id(store_id).encode()
        return cls(header, encode_headers(((HEADER_NAME, header),), 0))

    def batch(self, transactional_id: str, value: TransactionLogValue | None, now_ms: int) -> bytearray:
        """A batch with one state, or with the tombstone of an id."""
        formatted = None if value is None else format_value(value)
        return encode_single(crc32c, format_key(transactional_id), formatted, self.headers, now_ms, 0, -1)


class RawState(NamedTuple):
    """The last record of an id, not parsed yet: most are replaced by a later one."""

    value: bytes
    headers: tuple[tuple[str, bytes | None], ...]


def fold(records: Iterable[Record], into: dict[bytes, RawState]) -> int | None:
    """Take in records in their order, by key; tombstones forget. The offset behind the last, None without any."""
    last = None
    for record in records:
        last = record.offset
        if record.key is None:
            continue
        if record.value is None:
            into.pop(record.key, None)
        else:
            into[record.key] = RawState(record.value, record.headers)
    return None if last is None else last + 1


def parse_state(key: bytes, raw: RawState, header: bytes | None, where: str) -> IdState | None:
    """A state; None of one that cannot be parsed, which is said in the log. `header` is that of the store, None without a store."""
    try:
        name, value = parse_key(key), parse_value(raw.value)
    except TidelogError as error:
        _logger.warning("%s: a state record is passed over: %s", where, error)
        return None
    return IdState(name, value, header is not None and (HEADER_NAME, header) in raw.headers)
