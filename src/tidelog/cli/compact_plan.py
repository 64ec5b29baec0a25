"""What `compact` would do, as steps of a plan: from headers and indexes alone, or with every record looked at."""

from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.cli.amounts import format_size
from tidelog.cli.caring import place
from tidelog.cli.targets import Target
from tidelog.plurals import counted

if TYPE_CHECKING:
    from tidelog.compaction.plan import CleaningPlan
    from tidelog.disk.names import TopicPartition
    from tidelog.log.read_only import ReadOnlyLog
    from tidelog.store.read_only_store import ReadOnlyStore

_NOT_COMPACTED = "does not have compact"


class CompactionSteps(NamedTuple):
    """What would be done, and to what nothing."""

    steps: tuple[dict[str, Any], ...]
    left_alone: "list[tuple[TopicPartition, str]]"

    def worth_telling(self, target: Target) -> "list[tuple[TopicPartition, str]]":
        """Of what nothing is done to: that a topic is not compacted is news only to who has named it."""
        return [one for one in self.left_alone if target.topic is not None or not one[1].endswith(_NOT_COMPACTED)]


def compaction_steps(store: "ReadOnlyStore", target: Target, *, roll: bool) -> CompactionSteps:
    """By what headers and indexes say: what would be read, and into how many segments it goes."""
    from tidelog.store.compacting import why_nothing

    steps, left_alone = [], []
    for partition, found in store.compaction_plans(target.topic):
        if not target.has(partition.partition):
            continue
        if isinstance(found, str):
            left_alone.append((partition, found))
            continue
        log = store.log(*partition)
        if roll and log.segments[-1].size_bytes:
            steps.append(_rolled(found, log))
        elif found.is_empty:
            left_alone.append((partition, why_nothing(log, found, can_roll=False).replace("a dry run does not roll it", "--roll ends it")))
        else:
            steps.append(_planned(found))
    return CompactionSteps(tuple(steps), left_alone)


def _planned(plan: "CleaningPlan") -> dict[str, Any]:
    before, after = sum(len(group.base_offsets) for group in plan.groups), len(plan.groups)
    what = (
        f"{plan.partition}: clean offsets {plan.first_dirty_offset} to {plan.bound - 1}, {format_size(plan.cleanable_bytes)} never "
        f"cleaned, {format_size(plan.clean_bytes)} cleaned before; {counted(before, 'segment')} into {after}"
    )
    return {"what": what} | place(plan.partition) | _facts(plan) | {"segments_before": before, "segments_after": after}


def _rolled(plan: "CleaningPlan", log: "ReadOnlyLog") -> dict[str, Any]:
    """With the active segment, which is only ended when it is done."""
    active, end = log.segments[-1], log.log_end_offset
    size_bytes = plan.cleanable_bytes + active.size_bytes
    what = (
        f"{plan.partition}: end the active segment ({format_size(active.size_bytes)}), then clean offsets {plan.first_dirty_offset} to "
        f"{end - 1}, {format_size(size_bytes)} never cleaned, as far as they may be"
    )
    facts = _facts(plan) | {"bound": end, "size_bytes": plan.clean_bytes + size_bytes}
    facts["most_extra_bytes"] = max(plan.most_extra_bytes, active.size_bytes)
    return {"what": what} | place(plan.partition) | facts | {"segments_before": len(log.segments), "segments_after": None}


def _facts(plan: "CleaningPlan") -> dict[str, Any]:
    return {
        "first_dirty_offset": plan.first_dirty_offset,
        "bound": plan.bound,
        "size_bytes": plan.clean_bytes + plan.cleanable_bytes,
        "cleanable_bytes": plan.cleanable_bytes,
        "dirty_ratio": plan.dirty_ratio,
        "most_extra_bytes": plan.most_extra_bytes,
    }


def exact_steps(store: "ReadOnlyStore", target: Target, *, drop_null_keys: bool) -> CompactionSteps:
    """By every record: how many would go. The active segments do not take part."""
    result = store.compact(target.topic, dry_run=True, drop_null_keys=drop_null_keys)
    steps = []
    left_alone = list(result.left_alone)
    left_alone += [(failure.partition, f"cannot be compacted: {failure.error}") for failure in result.failures]
    for one in result.partitions:
        if not target.has(one.partition.partition):
            continue
        if not one.passes:
            left_alone.append((one.partition, one.why or ""))
            continue
        plan, stats = one.passes[0].plan, one.passes[0].stats
        what = (
            f"{one.partition}: {one.records_removed} of {stats.messages_read} records would go, {format_size(one.bytes_removed)} of "
            f"{format_size(stats.bytes_read)}; {counted(one.tombstones_removed, 'tombstone')} among them"
        )
        facts = _facts(plan) | {"records_removed": one.records_removed, "bytes_removed": one.bytes_removed}
        steps.append({"what": what} | place(one.partition) | facts | {"tombstones_removed": one.tombstones_removed})
    return CompactionSteps(tuple(steps), [(partition, why) for partition, why in left_alone if target.has(partition.partition)])
