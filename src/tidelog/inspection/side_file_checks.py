"""The small files: leader epochs, topic id, checkpoints, producer snapshots, transaction indexes, each by itself."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tidelog.disk.checkpoints import EpochEntry, parse_epochs, parse_offsets
from tidelog.disk.disk import Disk
from tidelog.disk.names import TopicPartition
from tidelog.disk.partition_metadata import parse_metadata
from tidelog.errors import CorruptFileError, TidelogError
from tidelog.inspection.finding import NOTHING, RECOVERY, REPAIR, Finding
from tidelog.inspection.walk_parts import Piece
from tidelog.log.producer_snapshot import parse_snapshot
from tidelog.log.producers import ProducerEntry
from tidelog.log.txn_index import ENTRY as TXN_ENTRY

MOST_SIDE_BYTES = 64 << 20
"""A small file that is larger is none."""


def read_side_file(disk: Disk, path: str) -> bytes:
    """A whole small file. `CorruptFileError` if it is not small."""
    fd = disk.open_plain(path)
    try:
        size = disk.size(fd)
        if size > MOST_SIDE_BYTES:
            raise CorruptFileError("a small file of an absurd size", path=path, expected=f"at most {MOST_SIDE_BYTES} bytes", found=size)
        return disk.read(fd, size, 0)
    finally:
        disk.close(fd)


def unreadable(error: TidelogError | OSError, path: str, code: str = "file-unreadable", mend: str = REPAIR) -> Finding:
    """A file that could not be read, or does not parse."""
    if isinstance(error, TidelogError):
        expected = None if error.expected is None else str(error.expected)
        found = None if error.found is None else str(error.found)
        return Finding("warning", code, path, error.what, mend, error.position, None, expected, found)
    return Finding("error", "file-unreadable", path, f"cannot be read: {error.strerror or error}", "access to the file")


@dataclass(slots=True)
class EpochChecks:
    """The `leader-epoch-checkpoint` held against the batches."""

    path: str
    entries: list[EpochEntry]
    _last: tuple[int, int] = (-1, -1)
    """The mismatch told last: (epoch in the batch, epoch by the file)."""

    def check_order(self) -> Iterator[Finding]:
        """Epochs and their starts both rise."""
        for line, (before, entry) in enumerate(zip(self.entries, self.entries[1:], strict=False), start=4):
            if entry.epoch <= before.epoch or entry.start_offset <= before.start_offset:
                what = f"line {line}: leader epochs or their start offsets do not rise"
                expected = f"above {before.epoch} and {before.start_offset}"
                yield Finding(
                    "warning", "epoch-order", self.path, what, REPAIR, None, None, expected, f"{entry.epoch} {entry.start_offset}"
                )

    def check_batches(self, piece: Piece, log_path: str) -> Iterator[Finding]:
        """Each batch has the epoch that its offset has by the file. Below the first entry nothing is known."""
        if not self.entries:
            return
        epochs, offsets = piece.headers.partition_leader_epoch, piece.headers.base_offset
        starts = np.array([entry.start_offset for entry in self.entries], np.int64)
        known = np.array([-1, *(entry.epoch for entry in self.entries)], np.int64)[np.searchsorted(starts, offsets, "right")]
        odd = (epochs != known) & (epochs >= 0) & (known >= 0)
        if not odd.any():
            return
        for row in np.flatnonzero(odd).tolist():
            pair = int(epochs[row]), int(known[row])
            if pair == self._last:
                continue
            self._last = pair
            what = "a batch has another leader epoch than its offset by the leader-epoch-checkpoint"
            position = int(piece.headers.position[row]) + piece.shift
            yield Finding("warning", "epoch-mismatch", log_path, what, REPAIR, position, int(offsets[row]), pair[1], pair[0])

    def check_end(self, first_offset: int | None, end_offset: int) -> Iterator[Finding]:
        """No epoch starts behind the end of the log; the first one starts where the log does, or before."""
        for entry in self.entries:
            if entry.start_offset > end_offset:
                what = f"leader epoch {entry.epoch} starts behind the end of the log"
                yield Finding(
                    "warning", "epoch-beyond-end", self.path, what, RECOVERY, None, None, f"at most {end_offset}", entry.start_offset
                )
        if self.entries and first_offset is not None and self.entries[0].start_offset > first_offset:
            what = "the first leader epoch starts behind the first batch: so it is if the start of the log was moved"
            yield Finding("note", "epoch-start", self.path, what, NOTHING, None, None, first_offset, self.entries[0].start_offset)


def load_epochs(disk: Disk, path: str) -> tuple[EpochChecks, list[Finding]]:
    """The epochs of a partition; no entries if the file does not parse."""
    try:
        return EpochChecks(path, parse_epochs(read_side_file(disk, path), path)), []
    except FileNotFoundError:
        return EpochChecks(path, []), []
    except (TidelogError, OSError) as error:
        return EpochChecks(path, []), [unreadable(error, path, "epochs-unreadable")]


def check_metadata(disk: Disk, path: str) -> Iterator[Finding]:
    """`partition.metadata`."""
    try:
        parse_metadata(read_side_file(disk, path), path)
    except FileNotFoundError:
        return
    except (TidelogError, OSError) as error:
        yield unreadable(error, path, "metadata-unreadable", "writing the topic's id anew")


def load_snapshot(disk: Disk, path: str) -> tuple[list[ProducerEntry] | None, list[Finding]]:
    """The producers of a snapshot; None if it cannot be used."""
    try:
        entries = parse_snapshot(read_side_file(disk, path), path)
    except FileNotFoundError:
        return None, []
    except (TidelogError, OSError) as error:
        return None, [unreadable(error, path, "snapshot-unreadable", RECOVERY)]
    findings = []
    if len({entry.producer_id for entry in entries}) < len(entries):
        findings.append(Finding("warning", "snapshot-twice", path, "a producer is in a snapshot twice", RECOVERY))
    return entries, findings


def load_checkpoint(disk: Disk, path: str) -> tuple[dict[TopicPartition, int], list[Finding]]:
    """The offsets of a checkpoint at the root of a log directory."""
    try:
        return parse_offsets(read_side_file(disk, path), path), []
    except FileNotFoundError:
        return {}, []
    except (TidelogError, OSError) as error:
        return {}, [unreadable(error, path, "checkpoint-unreadable", "a broker takes it for empty and recovers more")]


def load_txn_index(disk: Disk, path: str) -> tuple[bytes, list[tuple[int, ...]]]:
    """The bytes of a transaction index, and its whole entries with their version."""
    content = read_side_file(disk, path)
    return content, list(TXN_ENTRY.iter_unpack(content[: len(content) - len(content) % TXN_ENTRY.size]))
