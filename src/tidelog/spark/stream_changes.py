"""What has happened to the topics of a stream since its last micro-batch: grown, trimmed, cut off, deleted, made again. Pure.

A topic that was deleted and made again under its name is another topic: offsets of the old one mean nothing in it, so that is an error,
whatever the options say. The rest is loss of data, about which `failOnDataLoss` decides.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidelog.disk.names import TopicPartition
from tidelog.errors import DataLossError, InconsistentTopicIdError
from tidelog.spark.stream_offsets import Offsets, StreamOffset

_GO_ON = "failOnDataLoss=false goes on with what is there"


@dataclass(frozen=True, slots=True)
class Visible:
    """What readers can have of a partition."""

    topic_id: str | None
    start_offset: int
    end_offset: int
    """The bound that cannot be taken back any more."""
    directory: str = ""


@dataclass(frozen=True, slots=True)
class Loss:
    """Offsets that a stream should have read and cannot: all from `start_offset` on where `end_offset` is None."""

    partition: TopicPartition
    start_offset: int
    end_offset: int | None
    why: str
    directory: str = ""

    def __str__(self) -> str:
        behind = "and all behind them" if self.end_offset is None else f"to {self.end_offset - 1}"
        return f"offsets from {self.start_offset} {behind} of {self.partition} are gone: {self.why}"


def check_topic_ids(offset: StreamOffset, found: Mapping[TopicPartition, Visible]) -> None:
    """Raise if a topic of the stream is another one by now."""
    for at, visible in found.items():
        known = offset.topic_ids.get(at.topic)
        if known is not None and visible.topic_id is not None and known != visible.topic_id:
            raise InconsistentTopicIdError(
                f"topic {at.topic!r} was deleted and made again since the last micro-batch: its offsets begin anew",
                path=visible.directory,
                expected=f"topic id {known}",
                found=visible.topic_id,
                hint="to read the new topic start the query with a new checkpoint; or put the old one back",
            )


def beyond_reach(next_offsets: Offsets, found: Mapping[TopicPartition, Visible]) -> list[Loss]:
    """Partitions of the stream that are gone, or end before the offset that is next for it."""
    losses = []
    for at, offset in sorted(next_offsets.items()):
        visible = found.get(at)
        if visible is None:
            losses.append(Loss(at, offset, None, "the partition was deleted"))
        elif visible.end_offset < offset:
            why = f"the log was cut off at {visible.end_offset}, and the stream has read up to {offset}"
            losses.append(Loss(at, visible.end_offset, offset, why, visible.directory))
    return losses


def out_of_reach(begins: Offsets, ends: Offsets, found: Mapping[TopicPartition, Visible]) -> list[Loss]:
    """What of a planned micro-batch is gone: below the start of a log by now, or above its end."""
    losses = []
    for at, end in sorted(ends.items()):
        begin, visible = begins[at], found.get(at)
        if begin >= end:
            continue
        if visible is None:
            losses.append(Loss(at, begin, end, "the partition was deleted"))
            continue
        if visible.start_offset > begin:
            behind = min(end, visible.start_offset)
            losses.append(Loss(at, begin, behind, f"they have expired, the log starts at {visible.start_offset}", visible.directory))
        if visible.end_offset < end:
            first = max(begin, visible.end_offset)
            losses.append(Loss(at, first, end, f"the log was cut off at {visible.end_offset}", visible.directory))
    return losses


def refuse(losses: Iterable[Loss | str], directory: str | None = None) -> None:
    """Raise for the first, and say how many more there are."""
    found = list(losses)
    if found:
        first = found[0]
        more = f"; {len(found) - 1} more" if len(found) > 1 else ""
        path = first.directory if isinstance(first, Loss) else directory
        raise DataLossError(f"{first}{more}", path=path or None, hint=_GO_ON)
