"""Whatever lies in a file, `dump` shows it or says what is wrong, and every object is a line of JSON."""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.golden import GOLDEN
from tidelog.cli.output import to_json, to_text
from tidelog.inspection.dump import dump

FIRST = "00000000000000000000"
LOGS = [
    GOLDEN / "batches" / f"{name}.log"
    for name in ("v2-create-time-none", "v2-create-time-gzip", "v2-kraft-control", "mixed-magic", "v1-gzip")
] + [GOLDEN / "broker" / "data" / "__cluster_metadata-0" / f"{FIRST}.log"]
SMALL_FILES = [
    *(f"{FIRST}{suffix}" for suffix in (".index", ".timeindex", ".txnindex", ".snapshot", ".index.deleted")),
    "leader-epoch-checkpoint",
    "recovery-point-offset-checkpoint",
    "partition.metadata",
    "00000000000000000005-0000000001.checkpoint",
]
HOMES = ["t-0", "__consumer_offsets-1", "__transaction_state-2", "__cluster_metadata-0"]


def check(home: str, name: str, content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / home / name
        path.parent.mkdir()
        path.write_bytes(content)
        for raw in (False, True):
            for found in dump(str(path), records=True, raw=raw):
                json.dumps(to_json(found))
                assert not any("\n" in to_text(value) for value in found.values())
                assert {"type", "path"} <= found.keys()
        assert path.read_bytes() == content


@pytest.mark.parametrize("source", LOGS, ids=lambda path: path.stem)
@given(data=st.data())
def test_changed_logs(source: Path, data: st.DataObject) -> None:
    content = bytearray(source.read_bytes())
    for _ in range(data.draw(st.integers(0, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(content)) | st.just(len(content)))
    check(data.draw(st.sampled_from(HOMES)), f"{FIRST}.log", bytes(content[:end]) + data.draw(st.binary(max_size=70)))


@given(st.sampled_from(HOMES), st.sampled_from(SMALL_FILES), st.binary(max_size=200))
def test_bytes_whatever_in_small_files(home: str, name: str, content: bytes) -> None:
    check(home, name, content)


@given(st.sampled_from(SMALL_FILES[5:8]), st.text(st.sampled_from("0123 \nabc-:_"), max_size=40))
def test_texts_whatever_in_small_files(name: str, content: str) -> None:
    check("t-0", name, content.encode())
