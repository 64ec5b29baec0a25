"""The state machines of a log and of its producers, with those in them who look on or mend: readers in another process, damage and repair,
rot and salvage.

    a reader    sees what the model has: at the log's end, up to what was flushed, and of that what is committed
    repair      of side files that were removed or written over while the log was closed: verify is content, the log is the model's
    salvage     of a log with one batch that is rotten: all others with their offsets, and it says which offsets are lost

What repair does not notice is put back: `docs/verify.md` lists what the format cannot show.
"""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.property.test_log_model import LogMachine, Model, ModelBatch
from tests.property.test_producer_model import ProducerMachine
from tests.support.logs import FakeClock, QuietDisk, files_of, numbered, open_log, state_of
from tests.support.reader_process import SeenLog, reader_process
from tests.support.readers import state_of_files
from tidelog.config import LogConfig
from tidelog.disk.checkpoints import parse_offsets
from tidelog.disk.names import TopicPartition
from tidelog.errors import DamagedLogError
from tidelog.inspection import verify
from tidelog.inspection.repair import apply_repair, plan_repair
from tidelog.inspection.salvage import salvage
from tidelog.inspection.salvage_report import LostRange, SalvageReport
from tidelog.log.log import Log

SIDE_FILES = (".index", ".timeindex", ".txnindex", ".snapshot", "leader-epoch-checkpoint")
CRC_START = 17
ALLOWED = ("epoch-falls",)
"""See `has_lost_epochs`."""

pytestmark = pytest.mark.leaves  # both machines do to logs what verify minds; where it must not, it is asked here


def seen_elsewhere(log: Log) -> list[SeenLog]:
    """What a reader in another process sees that is new, and one that has been there for long. Nothing changes by it."""
    for task in state_of(log)._pending:
        task.exception()  # how far the background came must not decide what is seen
    before = state_of_files(Path(log.directory).parent)
    answer = reader_process().ask(log.directory)
    assert state_of_files(Path(log.directory).parent) == before
    return [answer["new"], answer["old"]]


def break_side_files(data: st.DataObject, directory: Path) -> dict[Path, bytes]:
    """Remove, cut or write over some of them: what they were."""
    found = sorted(path for path in directory.iterdir() if path.name.endswith(SIDE_FILES))
    chosen = data.draw(st.lists(st.sampled_from(found), min_size=1, max_size=3, unique=True)) if found else []
    before = {}
    for path in chosen:
        content = before[path] = path.read_bytes()
        how = data.draw(st.sampled_from(("remove", "rubbish", "byte", "cut")))
        if how == "remove":
            path.unlink()
        elif how == "rubbish":
            path.write_bytes(b"what is this")
        elif content:
            place = data.draw(st.integers(0, len(content) - 1))
            path.write_bytes(content[:place] + (bytes([content[place] ^ 0x11]) + content[place + 1 :] if how == "byte" else b""))
    return before


def repaired(directory: Path, config: dict[str, Any], before: dict[Path, bytes]) -> None:
    """Plan, put back what the plan does not notice, repair; then nothing is wrong any more."""
    disk = QuietDisk()
    plan = plan_repair(directory, config=config, disk=disk)
    named = {name for action in plan.actions for name in action.files}
    unnoticed = [path for path in before if path.name not in named]
    for path in unnoticed:
        is_rubbish = path.exists() and path.read_bytes() == b"what is this"
        assert not is_rubbish, f"{path.name} is rubbish, and repair does not mind: {plan}"
        path.write_bytes(before[path])
    if unnoticed:
        plan = plan_repair(directory, config=config, disk=disk)
    report = apply_repair(plan, disk=disk)
    assert plan.unrepaired == report.unrepaired == ()
    assert all((directory / name).exists() for name in report.kept_aside)
    again = plan_repair(directory, config=config, disk=disk)
    assert again.is_empty, f"{report}\n{again}"
    errors = [finding for finding in verify(directory, level="records") if finding.severity == "error" and finding.code not in ALLOWED]
    assert not errors, "\n".join(map(str, errors))


class InspectedLogMachine(LogMachine):
    @property
    def directory(self) -> Path:
        return self.home / "tide-0"

    def reader_bound(self) -> int:
        """Readers see what the owner has flushed, or has checkpointed as the high watermark."""
        checkpoint = self.home / "replication-offset-checkpoint"
        found = parse_offsets(checkpoint.read_bytes(), str(checkpoint)) if checkpoint.exists() else {}
        known = max(self.model.start, self.log.flushed_end, found.get(TopicPartition("tide", 0), 0))
        return min(known, self.model.end)

    @rule()
    def read_elsewhere(self) -> None:
        model = self.model
        last_end = max(self.stored[-1].last_offset + 1 if self.stored else 0, self.log.segments[-1].base_offset, model.start)
        for seen in seen_elsewhere(self.log):
            # Cut inside of a batch, a log goes on where it was told; what is not flushed is not published, so nobody else knows.
            assert seen.end == model.end or (seen.end == last_end and not self.log.config.is_durable)
            bound = min(self.reader_bound(), seen.end)
            assert (seen.start, seen.bound, seen.stable) == (model.start, bound, bound)
            assert seen.log_end == model.records(model.start, model.end)
            visible = [record for batch in model.visible(bound) for record in batch.records if record[0] >= model.start]
            assert seen.high_watermark == seen.committed == visible

    @rule(data=st.data())
    def repair(self, data: st.DataObject) -> None:
        self.will_reload()
        self.log.close()
        try:
            repaired(self.directory, self.config, break_side_files(data, self.directory))
        finally:
            self.log = self.open()
        assert self.log.load_report.was_clean

    @precondition(lambda self: self.model.batches)
    @rule(data=st.data(), goes_on_salvaged=st.booleans())
    def salvage(self, data: st.DataObject, goes_on_salvaged: bool) -> None:
        """One batch is rotten, in a copy. The machine goes on with what was salvaged, or as if nothing had been."""
        place = data.draw(st.integers(0, len(self.stored) - 1))
        stored = self.stored[place]
        self.will_reload()
        self.log.close()
        if not self.model.batches:
            self.log = self.open()
            return  # all of it was deleted
        self.homes += 1
        rotten, target = self.work / f"rotten-{self.homes}" / "tide-0", self.work / f"home-{self.homes}" / "tide-0"
        shutil.copytree(self.home, rotten.parent, ignore=shutil.ignore_patterns(".lock"))
        path = rotten / f"{stored.segment_base:020d}.log"
        content = bytearray(path.read_bytes())
        content[stored.position + data.draw(st.integers(CRC_START, len(stored.data) - 1))] ^= data.draw(st.sampled_from((1, 0x80, 0xFF)))
        path.write_bytes(content)
        before = files_of(rotten)
        report = salvage(rotten, target, disk=QuietDisk())
        assert files_of(rotten) == before
        left = [batch for number, batch in enumerate(self.model.batches) if number != place]
        check_lost(report, self.stored[0].segment_base, left, self.model.batches[place])
        self.open_rotten(rotten, stored.segment_base, stored.base_offset)
        if goes_on_salvaged:
            self.home = target.parent
            end = max(report.log_end_offset, left[-1].last_offset + 1 if left else 0)
            self.model = Model(left, report.log_start_offset, end, end, has_lost_epochs=self.model.has_lost_epochs)
        self.log = self.open()

    def open_rotten(self, directory: Path, segment_base: int, offset: int) -> None:
        """Recovery cuts rot off at the very end, as if it were torn; with data behind it, it refuses, and leaves all batches alone."""
        bases = [int(path.stem) for path in sorted(directory.glob("*.log")) if path.stat().st_size]
        before = files_of(directory)
        logs = {name: content for name, content in before.items() if name.endswith(".log")}
        options: dict[str, Any] = {"config": self.config, "clock": FakeClock(), "pool": self.pool}
        if LogConfig.of(self.config).is_durable and bases[-1] > segment_base:
            with pytest.raises(DamagedLogError):
                Log.open(directory, last_shutdown_clean=False, recovery_point=0, **options)
            after = files_of(directory)
            assert {name: after.get(name) for name in before if name.endswith(".log")} == logs
            return
        with Log.open(directory, last_shutdown_clean=False, recovery_point=0, log_start_offset=0, **options) as log:
            kept = [batch for batch in self.model.batches if batch.last_offset < offset]
            first = log.log_start_offset
            assert [record.offset for record in log.read(isolation="log_end")] == [
                record[0] for batch in kept for record in batch.records if record[0] >= first
            ]
            assert log.load_report.cuts


def check_lost(report: SalvageReport, first_base: int, left: list[ModelBatch], rotten: ModelBatch) -> None:
    """What is not there is told: as lost the rotten batch, as lost or as a gap what a follower was never sent.

    Behind the last batch that is left nobody knows where it ends.
    """
    present = {offset for batch in left for offset in range(batch.base_offset, batch.last_offset + 1)}
    assert report.batch_count == len(left)
    missing = set(range(first_base, report.log_end_offset)) - present
    lost = offsets_of(report.lost)
    assert lost | offsets_of(report.gaps) == missing, (report.lost, report.gaps, rotten, left)
    assert lost >= missing & set(range(rotten.base_offset, rotten.last_offset + 1)), (report.lost, rotten)
    is_open = [found.first_offset for found in report.lost if found.last_offset is None]
    assert is_open == ([report.log_end_offset] if rotten.last_offset >= report.log_end_offset else []), (report.lost, rotten)


def offsets_of(ranges: tuple[LostRange, ...]) -> set[int]:
    """All of those whose end is known."""
    return {offset for found in ranges if found.last_offset is not None for offset in range(found.first_offset, found.last_offset + 1)}


class InspectedProducerMachine(ProducerMachine):
    @rule()
    def read_elsewhere(self) -> None:
        """All of it is flushed before. Of transactions that began before the start of the log, a reader may know less than its owner."""
        self.log.flush()
        for seen in seen_elsewhere(self.log):
            assert (seen.start, seen.end, seen.bound) == (self.start, self.end, self.end)
            numbers = [int((record[2] or b"").rstrip(b".")) for record in seen.committed]
            if self.start == 0:
                assert seen.stable == self.log.last_stable_offset
                assert numbers == self.committed(seen.stable)
            else:
                assert numbers == [number for number in self.committed(seen.stable) if number in numbers]

    @rule(data=st.data())
    def repair(self, data: st.DataObject) -> None:
        """Snapshots and transaction indexes among others."""
        self.log.close()
        directory = self.home / "t-0"
        try:
            repaired(directory, self.config, break_side_files(data, directory))
        finally:
            self.log = self.open()
        self.has_shrunk()
        self.look_what_is_known()


def test_repair_comes_to_an_end_where_all_of_the_log_was_deleted(tmp_path: Path) -> None:
    """Its files end before the offset at which it starts, and so before its only epoch does."""
    with open_log(tmp_path, disk=QuietDisk()) as log:
        for number in range(5):
            log.append(numbered(number))
        log.delete_records_before(5)
    directory = tmp_path / "tide-0"
    path = directory / f"{0:020d}.log"
    path.write_bytes(path.read_bytes()[: 3 * len(numbered(0))])
    repaired(directory, {}, {})
    (directory / "leader-epoch-checkpoint").unlink()
    repaired(directory, {}, {})


STEPS = int(os.environ.get("TIDELOG_MODEL_STEPS", "40"))
TestInspectedLogModel = InspectedLogMachine.TestCase
TestInspectedLogModel.settings = settings(
    stateful_step_count=STEPS, max_examples=max(60, settings().max_examples), phases=(Phase.generate, Phase.shrink)
)
TestInspectedProducerModel = InspectedProducerMachine.TestCase
TestInspectedProducerModel.settings = settings(
    stateful_step_count=STEPS, max_examples=max(40, settings().max_examples), phases=(Phase.generate, Phase.shrink)
)
