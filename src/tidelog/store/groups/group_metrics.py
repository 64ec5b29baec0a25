"""Groups among what there is to measure: how far each is behind."""

import logging
from typing import NamedTuple

from tidelog.disk.names import TopicPartition
from tidelog.errors import TidelogError
from tidelog.store.groups.group import lag_of
from tidelog.store.groups.positions import Positions
from tidelog.store.groups.source import Source
from tidelog.store.prometheus_family import Family

_logger = logging.getLogger(__name__)


class GroupMetrics(NamedTuple):
    """A group in one partition."""

    group: str
    partition: TopicPartition
    position: int
    """The offset that it has committed."""
    log_end_offset: int | None
    """None if the partition is not in the store."""
    lag: int | None


def measure_groups(source: Source) -> tuple[GroupMetrics, ...]:
    """All groups as they are now. What cannot be read is left out, and said in the log."""
    found = []
    try:
        for group, positions in sorted(Positions(source).all().items()):
            for partition, position in positions.items():
                found.append(GroupMetrics(group, partition, *lag_of(source, partition, position.offset)))
    except TidelogError as error:
        _logger.warning("groups are left out of the metrics: %s", error)
    return tuple(found)


def of_groups(groups: tuple[GroupMetrics, ...]) -> list[Family]:
    """The same for Prometheus."""
    labels = [{"group": one.group, "topic": one.partition.topic, "partition": str(one.partition.partition)} for one in groups]
    positions = [(label, float(one.position)) for label, one in zip(labels, groups, strict=True)]
    lags = [(label, float(one.lag)) for label, one in zip(labels, groups, strict=True) if one.lag is not None]
    return [
        Family("tidelog_group_position", "gauge", "The offset that a group has committed", positions),
        Family("tidelog_group_lag", "gauge", "How many offsets a group is behind the end of a partition", lags),
    ]
