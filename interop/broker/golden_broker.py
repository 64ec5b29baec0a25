"""The data directory of a broker, for `tests/golden/broker`: topics with settings of their own, altered, removed, made anew.

    python -m interop.broker.golden_broker tests/golden/broker

The broker is stopped in order. Ids, times and the order of internal records differ from run to run; `expected.json` beside the directory
says what there is, as the broker's own answers had it.
"""

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from uuid import UUID

from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewPartitions, NewTopic

from interop.broker.broker import Broker
from interop.broker.clients import Row
from tidelog.disk.partition_metadata import format_topic_id

VERSION = "4.2.0"
SNAPSHOTS = {"metadata.log.max.snapshot.interval.ms": "0", "metadata.log.max.record.bytes.between.snapshots": "2500"}
"""Soon enough that there are some among so few records."""


def main(target: Path) -> None:
    """Make the directory anew."""
    with tempfile.TemporaryDirectory() as scratch, Broker(Path(scratch), version=VERSION, settings=SNAPSHOTS) as broker:
        broker.start()
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        admin.create_topics(
            [
                NewTopic("emails", 3, 1, topic_configs={"retention.ms": "86400000", "segment.bytes": "1048576"}),
                NewTopic("profiles", 1, 1, topic_configs={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"}),
                NewTopic("plain", 1, 1),
                NewTopic("gone", 2, 1, topic_configs={"retention.ms": "1000"}),
                NewTopic("again", 2, 1, topic_configs={"retention.ms": "1000", "flush.messages": "7"}),
            ]
        )
        admin.delete_topics(["gone", "again"])
        _wait_until_gone(admin, {"gone", "again"})
        admin.create_topics([NewTopic("again", 1, 1, topic_configs={"max.message.bytes": "2000000"})])
        _alter(admin, "emails", {"retention.ms": "172800000", "leader.replication.throttled.replicas": "*"})
        _alter(admin, "plain", {"flush.ms": "1000", "retention.bytes": "1000000000"})
        admin.reset_configs([ConfigResource(ConfigResourceType.TOPIC, "plain", configs={"flush.ms": None})])
        admin.create_partitions({"profiles": NewPartitions(2)})
        for number in range(8):  # until there is a snapshot, and something behind it
            _alter(admin, "profiles", {"min.cleanable.dirty.ratio": f"0.{number + 1}"})
            time.sleep(0.3)
        old_ms = 1_577_836_800_000
        for topic in ("emails", "profiles", "plain", "again"):
            rows = [Row(b"k%d" % (number % 3), b"%s %d" % (topic.encode(), number), (), old_ms + number) for number in range(10)]
            broker.clients.produce(topic, [rows], producer="p", config={})
        expected = {name: _described(admin, name) for name in ("emails", "profiles", "plain", "again")}
        admin.close()
        broker.stop()
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        shutil.copytree(broker.data, target / "data", ignore=shutil.ignore_patterns(".lock"))
        (target / "expected.json").write_text(json.dumps({"kafka_version": VERSION, "topics": expected}, indent=2) + "\n")


def _alter(admin: KafkaAdminClient, topic: str, config: dict[str, str]) -> None:
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs=config)])


def _wait_until_gone(admin: KafkaAdminClient, topics: set[str]) -> None:
    while topics & set(admin.list_topics()):
        time.sleep(0.1)


def _described(admin: KafkaAdminClient, topic: str) -> dict[str, object]:
    answer = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])["topic"][topic]
    config = {name: found["value"] for name, found in answer.items() if found["config_source"] == "DYNAMIC_TOPIC_CONFIG"}
    (described,) = admin.describe_topics([topic])
    topic_id = format_topic_id(UUID(described["topic_id"]))
    return {"topic_id": topic_id, "partitions": len(described["partitions"]), "config": dict(sorted(config.items()))}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
