"""What lies in the small files beside a log, as plain objects: indexes, producer snapshots, checkpoints, ids, what a store keeps."""

import json
from collections.abc import Callable, Iterator
from uuid import UUID

from tidelog.disk.checkpoints import parse_epochs, parse_offsets
from tidelog.disk.clean_shutdown import parse_broker_epoch
from tidelog.disk.disk import Disk
from tidelog.disk.names import CLEAN_SHUTDOWN, INDEX, LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, SNAPSHOT, TIME_INDEX, TXN_INDEX
from tidelog.disk.partition_metadata import format_topic_id, parse_metadata
from tidelog.disk.published_end import PUBLISHED_END, fault_of, parse_flushed_end
from tidelog.errors import CorruptFileError
from tidelog.inspection.index_entries import OFFSET_LAYOUT, TIME_LAYOUT, read_entries
from tidelog.inspection.record_object import Object
from tidelog.inspection.side_file_checks import load_txn_index, read_side_file
from tidelog.log.producer_snapshot import parse_snapshot

OFFSET_CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
)

META_PROPERTIES = "meta.properties"
QUORUM_STATE = "quorum-state"
STORE_FILE = "tidelog.json"

Entries = Callable[[Disk, str, int], Iterator[Object]]


def offset_index(disk: Disk, path: str, base_offset: int) -> Iterator[Object]:
    """Where batches lie. Zeros behind the last entry are room that is not used yet."""
    entries, findings = read_entries(disk, path, OFFSET_LAYOUT, is_active=True)
    for offset, position in zip(entries.columns["offset"].tolist(), entries.columns["position"].tolist(), strict=True):
        yield {"type": "offset_index_entry", "offset": base_offset + offset, "position": position}
    for finding in findings:
        yield dict(finding.to_json())


def time_index(disk: Disk, path: str, base_offset: int) -> Iterator[Object]:
    """Up to which offset no record is younger."""
    entries, findings = read_entries(disk, path, TIME_LAYOUT, is_active=True)
    for timestamp_ms, offset in zip(entries.columns["timestamp"].tolist(), entries.columns["offset"].tolist(), strict=True):
        yield {"type": "time_index_entry", "timestamp_ms": timestamp_ms, "offset": base_offset + offset}
    for finding in findings:
        yield dict(finding.to_json())


def transaction_index(disk: Disk, path: str, base_offset: int) -> Iterator[Object]:
    """Transactions that were aborted."""
    for version, producer_id, first_offset, last_offset, last_stable_offset in load_txn_index(disk, path)[1]:
        yield {
            "type": "aborted_transaction",
            "version": version,
            "producer_id": producer_id,
            "first_offset": first_offset,
            "last_offset": last_offset,
            "last_stable_offset": last_stable_offset,
        }


def producers(disk: Disk, path: str, offset: int) -> Iterator[Object]:
    """What a log knew of its producers before an offset."""
    for entry in parse_snapshot(read_side_file(disk, path), path):
        last = entry.batches[-1] if entry.batches else None
        yield {
            "type": "producer",
            "producer_id": entry.producer_id,
            "producer_epoch": entry.epoch,
            "coordinator_epoch": entry.coordinator_epoch,
            "current_txn_first_offset": entry.transaction_start,
            "last_timestamp_ms": entry.last_timestamp_ms,
            "first_sequence": -1 if last is None else last.first_sequence,
            "last_sequence": -1 if last is None else last.last_sequence,
            "last_offset": -1 if last is None else last.last_offset,
            "offset_delta": 0 if last is None else last.offset_delta,
        }


def offset_checkpoint(disk: Disk, path: str, base_offset: int) -> Iterator[Object]:
    """An offset for each partition."""
    for (topic, partition), offset in parse_offsets(read_side_file(disk, path), path).items():
        yield {"type": "checkpoint_entry", "topic": topic, "partition": partition, "offset": offset}


def epoch_checkpoint(disk: Disk, path: str, base_offset: int) -> Iterator[Object]:
    """Where each leader epoch begins."""
    for epoch, start_offset in parse_epochs(read_side_file(disk, path), path):
        yield {"type": "checkpoint_entry", "epoch": epoch, "start_offset": start_offset}


def topic_id(disk: Disk, path: str, base_offset: int) -> Iterator[Object]:
    """The id of the topic."""
    found: UUID = parse_metadata(read_side_file(disk, path), path)
    yield {"type": "partition_metadata", "topic_id": format_topic_id(found)}


def properties(disk: Disk, path: str, base_offset: int) -> Iterator[Object]:
    """A file of properties: which broker, which cluster, which directory it is."""
    for line in read_side_file(disk, path).decode("utf-8", "replace").splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.lstrip().startswith(("#", "!")):
            yield {"type": "property", "name": name.strip(), "value": value.strip()}


def clean_shutdown(disk: Disk, path: str, base_offset: int) -> Iterator[Object]:
    """That all logs were closed in order; older brokers say nothing else."""
    epoch = parse_broker_epoch(read_side_file(disk, path))
    yield {"type": "clean_shutdown", "broker_epoch": -1 if epoch is None else epoch}


def flushed_end(disk: Disk, path: str, base_offset: int) -> Iterator[Object]:
    """How far a log is flushed, as its owner tells readers in other processes."""
    content = read_side_file(disk, path)
    found = parse_flushed_end(content)
    if found is None:
        raise CorruptFileError(f"no published end: {fault_of(content)}", path=path)
    yield {"type": "flushed_end", **found._asdict()}


def quorum_state(disk: Disk, path: str, base_offset: int) -> Iterator[Object]:
    """What a controller knows of the election of its leader."""
    yield {"type": "quorum_state", **_json_object(disk, path)}


def store_file(disk: Disk, path: str, base_offset: int) -> Iterator[Object]:
    """What a store has written down: itself, its topics, and those that are still to be removed."""
    content = _json_object(disk, path)
    topics, deleted = content.pop("topics", {}), content.pop("deleted", [])
    yield {"type": "store", **content}
    for name, topic in topics.items() if isinstance(topics, dict) else ():
        yield {"type": "store_topic", "topic": name, **(topic if isinstance(topic, dict) else {"value": topic})}
    for topic in deleted if isinstance(deleted, list) else ():
        yield {"type": "deleted_topic", **(topic if isinstance(topic, dict) else {"value": topic})}


def _json_object(disk: Disk, path: str) -> Object:
    try:
        found = json.loads(read_side_file(disk, path))
    except ValueError as error:
        raise CorruptFileError(f"no JSON: {error}", path=path) from error
    if not isinstance(found, dict):
        raise CorruptFileError("no JSON object", path=path)
    return found


BY_SUFFIX: dict[str, Entries] = {INDEX: offset_index, TIME_INDEX: time_index, TXN_INDEX: transaction_index, SNAPSHOT: producers}
BY_NAME: dict[str, Entries] = {
    LEADER_EPOCH_CHECKPOINT: epoch_checkpoint,
    PARTITION_METADATA: topic_id,
    PUBLISHED_END: flushed_end,
    CLEAN_SHUTDOWN: clean_shutdown,
    META_PROPERTIES: properties,
    QUORUM_STATE: quorum_state,
    STORE_FILE: store_file,
    **dict.fromkeys(OFFSET_CHECKPOINTS, offset_checkpoint),
}
