"""What the data directory of a broker says about what belongs into it: which broker it is, and what its topics are.

`meta.properties` names the broker. Its metadata log has the topics with their ids, and the brokers that each partition is assigned to. Of a
directory without that log, as all but one of a broker's have none, partitions that are there tell the id of their topic.
"""

import re
from collections.abc import Mapping
from uuid import UUID

from tidelog.disk.disk import Disk
from tidelog.disk.names import TopicPartition
from tidelog.disk.partition_metadata import format_topic_id, read_metadata
from tidelog.errors import InconsistentTopicIdError, NotAStoreError, UnknownTopicError
from tidelog.store.cluster_metadata import DescribedTopic

META_PROPERTIES = "meta.properties"
_NODE_ID = re.compile(r"^\s*(?:node|broker)\.id\s*[=:]\s*(\d+)\s*$", re.MULTILINE)


def node_id_of(disk: Disk, path: str) -> int:
    """By which the brokers know the one whose directory it is."""
    found = _NODE_ID.search(disk.read_file(f"{path}/{META_PROPERTIES}").decode("latin-1"))
    if found is None:
        raise NotAStoreError(
            "the directory does not say which broker it belongs to", path=f"{path}/{META_PROPERTIES}", expected="node.id", found="none"
        )
    return int(found[1])


def topic_id_for(disk: Disk, path: str, partition: TopicPartition, described: Mapping[str, DescribedTopic]) -> UUID:
    """The id that the broker knows the topic of a partition by: that of its metadata log, or of a directory that it has made."""
    known = described.get(partition.topic)
    here = read_metadata(disk, f"{path}/{partition}")
    if known is not None and here is not None and here != known.topic_id:
        raise InconsistentTopicIdError(
            "the partition belongs to another topic of this name",
            path=f"{path}/{partition}",
            expected=format_topic_id(known.topic_id),
            found=format_topic_id(here),
        )
    if known is not None and partition.partition < known.partitions:
        return known.topic_id
    if known is None and here is not None:
        return here
    raise UnknownTopicError(
        f"the broker knows no {'topic ' + repr(partition.topic) if known is None else f'partition {partition}'}",
        path=path,
        hint="make it with Kafka's own tools while the broker runs, then stop the broker",
    )


def check_assigned(disk: Disk, path: str, partition: TopicPartition, described: Mapping[str, DescribedTopic]) -> None:
    """Raise if the brokers' log says that the partition belongs to others: this one would take it for a stray, and not serve it."""
    known = described.get(partition.topic)
    replicas = None if known is None else known.replicas.get(partition.partition)
    if replicas is None:
        return
    node_id = node_id_of(disk, path)
    if node_id not in replicas:
        raise UnknownTopicError(
            f"{partition} is not assigned to this broker",
            path=path,
            expected=f"a directory of broker {', '.join(map(str, replicas)) or 'none'}",
            found=f"that of broker {node_id}",
            hint="copy it there, or assign it to this one with Kafka's own tools while the brokers run",
        )
