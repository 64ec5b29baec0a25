"""Files of a partition that hold no records: whether one is what its format says, numbers and ids and nothing else."""

import numpy as np

from tidelog.disk.checkpoints import parse_epochs
from tidelog.disk.disk import Disk
from tidelog.disk.names import INDEX, LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, SNAPSHOT, TIME_INDEX, TXN_INDEX, parse_segment_file
from tidelog.disk.partition_metadata import parse_metadata
from tidelog.disk.published_end import PUBLISHED_END, parse_flushed_end
from tidelog.errors import TidelogError
from tidelog.log.producer_snapshot import parse_snapshot
from tidelog.log.txn_index import AbortedTxn

_OFFSET_ENTRY = np.dtype([("offset", ">i4"), ("position", ">i4")])
_TIME_ENTRY = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])
_TXN_BYTES = len(AbortedTxn(0, 0, 0, 0).pack())


def side_content(disk: Disk, path: str) -> bytes | None:
    """What is in an index, a snapshot, a checkpoint or an id; None of a file that is none of these, by its name or by its content.

    Zeros at the end are left out: the indexes of an active segment have mebibytes of them.
    """
    name = path.rpartition("/")[2]
    parsed = parse_segment_file(name)
    kind = parsed.kind if parsed is not None and not parsed.stage else None
    is_one = kind in (INDEX, TIME_INDEX, TXN_INDEX, SNAPSHOT) or name in (LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, PUBLISHED_END)
    if not is_one:
        return None
    content = disk.read_file(path)
    shown = _without_zeros(content)
    return shown if _is_as_it_should_be(name, kind, content, len(shown), path) else None


def _is_as_it_should_be(name: str, kind: str | None, content: bytes, shown: int, path: str) -> bool:
    try:
        if kind == INDEX:
            return _rises(content, shown, _OFFSET_ENTRY, "offset", "position")
        if kind == TIME_INDEX:
            return _rises(content, shown, _TIME_ENTRY, "timestamp", "offset")
        if kind == TXN_INDEX:
            return len(content) % _TXN_BYTES == 0
        if kind == SNAPSHOT:
            parse_snapshot(content, path)
        elif name == LEADER_EPOCH_CHECKPOINT:
            parse_epochs(content, path)
        elif name == PARTITION_METADATA:
            parse_metadata(content, path)
        else:
            return parse_flushed_end(content) is not None
    except TidelogError:
        return False
    return True


def _rises(content: bytes, shown: int, entry: "np.dtype[np.void]", *names: str) -> bool:
    """Whether entries are whole, and none goes back; behind the last one there may be zeros."""
    if len(content) % entry.itemsize:
        return False
    rows = np.frombuffer(content, entry, -(-shown // entry.itemsize))
    return all(bool((rows[name] >= 0).all() and (np.diff(rows[name].astype(np.int64)) >= 0).all()) for name in names)


def _without_zeros(content: bytes) -> bytes:
    """Up to the last byte that is not zero, or a little behind it."""
    words = np.flatnonzero(np.frombuffer(content, np.uint64, len(content) // 8))
    end = len(content) if any(content[len(content) // 8 * 8 :]) else 0 if len(words) == 0 else 8 * (int(words[-1]) + 1)
    return content[:end]
