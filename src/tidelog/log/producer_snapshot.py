"""Producer snapshots: what a log knows about its producers up to an offset, so that opening it need not read everything again.

    00000000000000000042.snapshot      the state before offset 42

      0  version            i16   1
      2  crc                u32   CRC-32C of everything behind it
      6  entries            i32
     10  then 46 bytes for each producer:
          0  producer id              i64
          8  producer epoch           i16
         10  last sequence            i32   -1 without a batch
         14  last offset              i64   -1 without a batch
         22  offset delta             i32   of that batch: its last offset minus its first
         26  timestamp                i64   the producer's last one, which is a marker's if that came last
         34  coordinator epoch        i32
         38  first offset of the open transaction   i64   -1 without one

Only the newest batch of a producer is kept, so after a restart duplicates of older ones are not recognised: Kafka's rule.
"""

import struct
from collections.abc import Iterable

from crc32c import crc32c

from tidelog.errors import CorruptFileError
from tidelog.log.producers import NO_EPOCH, BatchMetadata, ProducerEntry

VERSION = 1
HEAD = struct.Struct(">hIi")
ENTRY = struct.Struct(">qhiqiqiq")
_CRC_END = 6


def format_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """The file."""
    body = bytearray()
    count = 0
    for entry in entries:
        count += 1
        last = entry.batches[-1] if entry.batches else None
        body += ENTRY.pack(
            entry.producer_id,
            entry.epoch,
            -1 if last is None else last.last_sequence,
            -1 if last is None else last.last_offset,
            0 if last is None else last.offset_delta,
            entry.last_timestamp_ms,
            entry.coordinator_epoch,
            entry.transaction_start,
        )
    behind_crc = struct.pack(">i", count) + bytes(body)
    return struct.pack(">hI", VERSION, crc32c(behind_crc)) + behind_crc


def parse_snapshot(content: bytes, path: str) -> list[ProducerEntry]:
    """The producers in a file."""
    if len(content) < HEAD.size:
        raise CorruptFileError("a producer snapshot is cut off", path=path, expected=f"at least {HEAD.size} bytes", found=len(content))
    version, checksum, count = HEAD.unpack_from(content)
    if version != VERSION:
        raise CorruptFileError("a producer snapshot of another version", path=path, position=0, expected=VERSION, found=version)
    computed = crc32c(content[_CRC_END:])
    if computed != checksum:
        raise CorruptFileError(
            "the CRC of a producer snapshot does not match", path=path, position=2, expected=f"{checksum:#010x}", found=f"{computed:#010x}"
        )
    if HEAD.size + count * ENTRY.size != len(content):
        raise CorruptFileError(
            "a producer snapshot of another size than its entries", path=path, position=6, expected=f"{count} entries", found=len(content)
        )
    return [_entry(fields) for fields in ENTRY.iter_unpack(content[HEAD.size :])]


def _entry(fields: tuple[int, ...]) -> ProducerEntry:
    producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp_ms, coordinator_epoch, transaction_start = fields
    batches = (BatchMetadata(last_sequence, last_offset, offset_delta, timestamp_ms),) if last_offset >= 0 else ()
    return ProducerEntry(producer_id, max(epoch, NO_EPOCH), coordinator_epoch, timestamp_ms, transaction_start, batches)
