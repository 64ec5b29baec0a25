"""Tasks that follow a whole log read what other tasks have left piece by piece: no more of it is in memory. No Spark is needed for it."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tidelog.compaction import parts_tasks
from tidelog.compaction.parts_tasks import FollowItem
from tidelog.compaction.transaction_events import FIELDS, Followed
from tidelog.inspection.reindex import ReindexFacts
from tidelog.inspection.reindex_scan import SegmentIndexed
from tidelog.log.segment_piece import SegmentPiece
from tidelog.spark.jobs import reindex_job


def test_reindex_reads_a_segment_when_it_comes_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = SegmentIndexed(0, 10, 10, 5, [], None)
    (tmp_path / "first").write_bytes(pickle.dumps(one))
    asked: list[Any] = []

    def replay(_disk: Any, _facts: Any, outlines: Any, scanned: Any) -> list[Any]:
        asked.extend((outlines, next(iter(scanned))))
        return []

    monkeypatch.setattr(reindex_job, "replay_files", replay)
    item = reindex_job._ReplayItem(0, ReindexFacts("nowhere", 1, 0, 0), (one, one), (f"{tmp_path}/first", f"{tmp_path}/not-there-yet"))
    assert reindex_job._replay([item], "task") == [[]]
    assert asked == [(one, one), one]


def test_compact_reads_events_when_it_comes_to_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "first").write_bytes(np.ones((2, FIELDS), np.int64).tobytes())
    asked: list[Any] = []

    def follow(pieces: Any, **_: Any) -> Followed:
        asked.append(next(iter(pieces)))
        return Followed(np.empty((0, 2), np.int64))

    monkeypatch.setattr(parts_tasks, "follow", follow)
    pieces = tuple((SegmentPiece("nowhere", 0, 9, 0, 9), f"{tmp_path}/{name}", ()) for name in ("first", "not-there-yet"))
    parts_tasks.follow_transactions([FollowItem(0, pieces, 0, 0, (), 0, ())], f"{tmp_path}/task")
    assert asked[0].events.shape == (2, FIELDS)
