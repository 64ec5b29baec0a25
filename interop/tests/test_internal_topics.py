"""What a live broker has left in its internal topics: our decoders against those of Kafka's dump tool, record by record."""

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import tidelog
from interop.broker.broker import Broker
from interop.broker.live_groups import make_groups
from interop.broker.scenarios import NEWER
from interop.judge import Judge
from tests.unit.schema.test_golden_records import snake_case
from tidelog.inspection.dump import dump

DECODERS = {
    "__consumer_offsets-0": "--offsets-decoder",
    "__transaction_state-0": "--transaction-log-decoder",
    "__cluster_metadata-0": "--cluster-metadata-decoder",
}
RECORD = re.compile(r"\| offset: (\d+) .*?(?: key: (\{.*?\}))?(?: payload: (\{.*\}|<DELETE>))?$")
CLASSIC_MEMBER_BYTES = ("subscription", "assignment")
"""Kafka's tool looks into these; to the schema they are bytes."""


@pytest.fixture(scope="module")
def data(memory: Path) -> Iterator[Path]:
    """Of a broker that has groups of both protocols and transactions, and was stopped."""
    with Broker(memory / "decoded", version=NEWER) as broker:
        broker.start()
        make_groups(broker.clients, has_new_protocol=True)
        broker.stop()
        yield broker.data


@pytest.mark.parametrize("partition", DECODERS)
def test_every_record_is_decoded_as_by_kafkas_dump_tool(partition: str, data: Path, judge: Judge) -> None:
    told = theirs(judge.decode(data / partition, DECODERS[partition]))
    found = {
        one["offset"]: one
        for one in dump(str(data / partition), records=True)
        if one["type"] == "record" and "control_type" not in one and one["path"].endswith(".log")
    }
    assert found.keys() == told.keys()
    assert len(found) > 10
    for offset, (key, value) in told.items():
        ours = found[offset]
        assert ours.get("notes") is None, (ours["notes"], ours["value"], value)
        if partition.startswith("__cluster"):
            assert (ours["kind"].upper(), ours["value_version"]) == (value["type"], value["version"])
            assert shown(ours["value"]) == snake_case(value["data"])
            continue
        assert (str(ours["key_version"]), shown(ours["key"])) == (str(key["type"]), snake_case(key["data"]))
        if value is None:
            assert ours["value"] is None
        else:
            assert str(ours["value_version"]) == str(value["version"])
            assert without_member_bytes(shown(ours["value"])) == without_member_bytes(snake_case(value["data"]))


def test_kinds_of_both_protocols_were_there(data: Path) -> None:
    kinds = {one.get("kind") for one in dump(str(data / "__consumer_offsets-0"), records=True)}
    assert {"offset_commit", "group_metadata", "consumer_group_metadata", "consumer_group_current_member_assignment"} <= kinds


def test_topics_are_described_by_the_brokers_log(data: Path) -> None:
    with tidelog.open(data, "r") as store:
        for name, count, policy in (("orders", 3, None), ("__consumer_offsets", 1, "compact"), ("__transaction_state", 1, "compact")):
            topic = store.topic(name).describe()
            assert (topic.partitions, topic.partitions_from, topic.settings_from) == (count, "__cluster_metadata", "__cluster_metadata")
            assert {setting.name: setting.value for setting in topic.settings}.get("cleanup.policy") == policy


def theirs(answer: dict[str, Any]) -> dict[int, tuple[Any, Any]]:
    """Key and value of each record, as the tool prints them."""
    assert "error" not in answer, answer
    found = {}
    for line in answer["out"].splitlines():
        match = RECORD.match(line)
        if match is not None and "endTxnMarker" not in line and (match[2] or match[3]):
            parts = re.match(r".*? key: (\{.*\}) payload: (.*)$", line)
            key, value = (parts[1], parts[2]) if parts else (None, match[3])
            is_deleted = value in (None, "<DELETE>", "null")
            found[int(match[1])] = (json.loads(key) if key else None, None if is_deleted else json.loads(value))
    return found


def shown(value: Any) -> Any:
    """As Kafka prints it."""
    if isinstance(value, dict):
        return {name: shown(item) for name, item in value.items()}
    if isinstance(value, list):
        return [shown(item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=") if isinstance(value, UUID) else value


def without_member_bytes(value: dict[str, Any]) -> dict[str, Any]:
    members = value.get("members")
    if members is None:
        return value
    return {**value, "members": [{name: item for name, item in one.items() if name not in CLASSIC_MEMBER_BYTES} for one in members]}
