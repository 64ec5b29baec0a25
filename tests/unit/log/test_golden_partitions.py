"""Every call that a real UnifiedLog answered is answered alike here, and leaves the same bytes."""

from pathlib import Path

import pytest

from tests.support.golden_partitions import Replay, file_differences, golden_cases

PART_AT = {
    "leader-epochs": (32, "we refuse an epoch below the newest, Kafka drops the newer entries"),
    "refused-framing": (5, "we refuse bytes behind a batch, Kafka cuts them off"),
    "opened-torn": (0, "a torn batch that was taken for a clean stop: we recover it, Kafka writes behind it"),
    "opened-torn-full": (0, "the same"),
}
"""Cases in which we part from Kafka on purpose: from which step on, and why."""

LEGACY_APPENDS = {"legacy", "legacy-v1"}
"""Made by a call that only Kafka's tests have; `legacy-from-disk` goes on with what it wrote."""


def cases() -> list[Path]:
    return [folder for folder in golden_cases("partitions") if folder.name not in LEGACY_APPENDS]


LEAVES = {
    "append-time-flag-cleared": "record-timestamps",
    "refused-records": "record-offsets",
    "refused-timestamps-default": "timestamp-1970",
    "follower-refused": "*",
    "opened-after-crash": "index-not-trimmed",
}
"""What Kafka itself leaves that is not in order."""


@pytest.mark.parametrize(
    "folder",
    [pytest.param(path, id=path.name, marks=[pytest.mark.leaves(LEAVES[path.name])] if path.name in LEAVES else []) for path in cases()],
)
def test_same_answers_and_same_files(folder: Path, tmp_path: Path) -> None:
    replay = Replay(folder, tmp_path)
    is_recompressed = folder.name.startswith("codec-to-") and not folder.name.endswith("uncompressed")
    replay.compare_bytes = not is_recompressed
    try:
        differences = replay.run(PART_AT.get(folder.name, (None, ""))[0])
        if folder.name not in PART_AT and replay.compare_bytes:
            replay.log.flush()
            differences += file_differences(folder / "open", replay.directory, used_prefix=True)
    finally:
        replay.log.close()
    if folder.name not in PART_AT and replay.compare_bytes:
        differences += file_differences(folder / "closed", replay.directory)
    assert differences == []
