"""The disk fails at each call of everything that a log does: nothing acknowledged is lost, and the log goes on, or says why it does not.

Each case is done once to see which calls it makes, then once for each of them with a fault there. Afterwards: a typed error or success; the
log as before, or closed to writes where that is allowed; another append; every crash image of that moment; close and open.
"""

import errno
import itertools
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.support.crash_check import Opened, check_directory, check_recording, recovered
from tests.support.crash_images import FEWER, scratch_directory
from tests.support.crash_model import Model
from tests.support.crash_session import Session, make_batch
from tests.support.faulty_disk import Call, FaultyDisk
from tests.support.readers import open_reader
from tests.support.recording_disk import Note, RecordingDisk
from tidelog.disk.file_pool import FilePool
from tidelog.disk.published_end import PUBLISHED_END
from tidelog.errors import DiskFullError, LogClosedError, LogFailedError, TidelogError
from tidelog.log.flushing import Flushing
from tidelog.log.log import Log

SYNCS = ("sync", "sync_directory")
KINDS_OF = {errno.ENOSPC: ("write", "create", "truncate", "rename", "make_directory"), errno.EMFILE: ("open", "create", "list", "map")}
"""Which calls run out of space, and which out of descriptors."""
OPENED: dict[str, dict[str, Opened]] = {}
"""By the settings: most faults lead to one of a few states, which need to be opened only once."""
Fault = Callable[[FaultyDisk], None]


@dataclass(frozen=True, slots=True)
class Case:
    """Something that a log does."""

    name: str
    work: Callable[[Session], None]
    prepare: Callable[[Session], None] = lambda session: session.append_many(2)
    settings: dict[str, object] = field(default_factory=dict)
    max_open: int = 400
    may_close: bool = False
    """Whether it changes so much that any failure closes the log to writes, until it is opened again."""
    is_plain_append: bool = False
    """Whether a failure leaves every file as it was."""


def with_epoch(work: Callable[[Session], None]) -> Callable[[Session], None]:
    def wrapped(session: Session) -> None:
        session.epoch += 1
        work(session)

    return wrapped


def three(session: Session) -> None:
    session.append_many(3)


def nine(session: Session) -> None:
    session.append_many(9)


APPENDS = [
    Case("append", lambda session: session.append(), is_plain_append=True),
    Case("append, new epoch", with_epoch(lambda session: session.append()), is_plain_append=True),
    Case("append, few open files", lambda session: session.append(), max_open=1, is_plain_append=True),
    Case("append that rolls", lambda session: session.append(), prepare=three),
    Case("append that rolls, new epoch", with_epoch(lambda session: session.append()), prepare=three),
    Case("run", lambda session: session.run(1), is_plain_append=True),
    Case("run, new epoch", with_epoch(lambda session: session.run(1)), is_plain_append=True),
    Case("run that rolls", lambda session: session.run(5)),
    Case("follower", lambda session: session.follow(1), is_plain_append=True),
    Case("follower, new epoch", with_epoch(lambda session: session.follow(1)), is_plain_append=True),
    Case("follower that rolls", lambda session: session.follow(2, gap=3)),
    Case("roll", lambda session: session.roll()),
    Case("flush", lambda session: session.flush()),
    Case("flush, few open files", lambda session: session.flush(), max_open=1),
    Case("checkpoint", lambda session: session.checkpoint()),
]
OTHERS = [
    Case("truncate in the last segment", lambda session: session.truncate(1), may_close=True),
    Case("truncate to an earlier segment", lambda session: session.truncate(1), prepare=nine, may_close=True),
    Case("truncate fully", lambda session: session.truncate_fully(20), prepare=nine, may_close=True),
    Case("delete records", lambda session: session.delete_before(1)),
    Case("delete segments", lambda session: session.delete_segments(2), prepare=nine, may_close=True),
    Case("replace", lambda session: session.replace(0, 2, dropped=(1,)), prepare=nine, may_close=True),
    Case("close", lambda session: session.close(), may_close=True),
    Case("close and open", lambda session: session.reopen(), may_close=True),
]
WEAK = [
    Case("weak append that rolls", lambda session: session.append(), prepare=three, settings={"flush.messages": 1000}),
    Case("weak flush", lambda session: session.flush(), prepare=three, settings={"flush.messages": 1000}),
]


class FaultySession(Session):
    """A session on a disk that fails."""

    def __init__(self, root: Path, settings: Mapping[str, object] | None = None, *, max_open: int = 400) -> None:
        self.faulty = FaultyDisk(RecordingDisk(root))
        self._max_open = max_open
        inner = self.faulty._inner
        assert isinstance(inner, RecordingDisk)
        super().__init__(root, inner, settings, disk=self.faulty)

    def make_pool(self) -> FilePool:
        return FilePool(self.disk, self._max_open)


@contextmanager
def prepared(case: Case) -> Iterator[tuple[FaultySession, Path]]:
    with scratch_directory() as scratch:
        root = scratch / "root"
        root.mkdir()
        session = FaultySession(root, case.settings, max_open=case.max_open)
        try:
            case.prepare(session)
            yield session, scratch
        finally:
            session.faulty.heal()
            with suppress(TidelogError):
                session.drop()


def calls_of(case: Case) -> list[Call]:
    """The calls that can fail, in their order."""
    with prepared(case) as (session, _):
        before = len(session.faulty.calls)
        case.work(session)
        return [call for call in session.faulty.calls[before:] if call.kind != "close"]


def contents(session: Session) -> dict[str, bytes]:
    """The files of the log, without what is preallocated; not what it tells other processes."""
    paths = (path for path in sorted(Path(session.directory).iterdir()) if path.suffix != ".tmp" and path.name != PUBLISHED_END)
    return {path.name: path.read_bytes().rstrip(b"\0") for path in paths}


def model_of(session: Session) -> Model:
    flush_messages = session.settings.get("flush.messages", 1)
    assert isinstance(flush_messages, int)
    model = Model(flush_messages)
    for event in session.recording.recording().events:
        if isinstance(event, Note):
            model.follow(event.label, event.payload)
    return model


def faults_after(
    case: Case, order: Fault, *, allows: tuple[type[BaseException], ...] = (TidelogError,), may_close: bool = False
) -> list[str]:
    """Do the case with a fault: what is wrong then."""
    wrong: list[str] = []
    with prepared(case) as (session, scratch):
        disk = session.faulty
        before = contents(session)
        order(disk)
        raised: BaseException | None = None
        try:
            case.work(session)
        except BaseException as error:
            raised = error
        disk.heal()
        after = contents(session)
        fired = [call.kind for call in disk.fired]
        if raised is not None and not isinstance(raised, allows):
            wrong.append(f"raised {type(raised).__name__}: {raised}")
        if isinstance(raised, OSError) and not raised.args:
            wrong.append("an error without words")

        # The log as it is
        wrong += free_locks(session.log)
        if not session.log.is_closed:
            try:
                wrong += [f"while open: {fault}" for fault in model_of(session).faults_of(recovered(session.log))]
            except TidelogError:
                if not case.may_close:  # half of it may be gone
                    raise
            is_closed_to_writes = False
            try:
                session.append()
            except (LogFailedError, LogClosedError) as error:
                is_closed_to_writes = True
                if not (case.may_close or may_close or any(kind in SYNCS for kind in fired)):
                    wrong.append(f"closed to writes after {fired}: {error}")
                if not str(error):
                    wrong.append("closed to writes without a reason")
            except BaseException as error:
                wrong.append(f"the next append raised {type(error).__name__}: {error}")
            # From the sync on, also when its end is published, the batch is in.
            is_synced = "sync" in fired or any(call.path.endswith(PUBLISHED_END) for call in disk.fired)
            is_written = isinstance(raised, KeyboardInterrupt) and is_synced
            if case.is_plain_append and raised is not None and not is_closed_to_writes and not is_written and before != after:
                wrong.append(f"not rolled back: {[name for name in before | after if before.get(name) != after.get(name)]}")
            if not is_closed_to_writes:
                wrong += [f"after the next append: {fault}" for fault in model_of(session).faults_of(recovered(session.log))]

        # What a power cut would leave now
        events = session.recording.recording()
        with suppress_violation(wrong):
            model, opened = model_from_start(session), OPENED.setdefault(repr(session.settings), {})
            check_recording(events, model, session.settings, scratch, bounds=FEWER, first_cut=len(events.events), opened=opened)

        # Close and open
        try:
            if not session.log.is_closed:
                session.close()
        except TidelogError:
            if raised is None:
                wrong.append("closing failed")
        except BaseException as error:
            wrong.append(f"closing raised {type(error).__name__}: {error}")
        try:
            found = check_directory(scratch / "root", session.settings)
        except Exception as error:
            wrong.append(f"opening raised {type(error).__name__}: {error}")
        else:
            wrong += [f"opened again: {fault}" for fault in model_of(session).faults_of(found)]
    return wrong


def free_locks(log: Log) -> list[str]:
    """Locks that are held when nobody is at work: everybody would wait for ever. They are released, so that the test can go on."""
    state = log._state
    for task in state._pending:
        task.exception(timeout=10)
    held = [name for name, lock in (("lock", state._lock), ("mutex", state.commit._mutex)) if lock.locked()]
    if state._lock.locked():
        state._lock.release()
    if state.commit._mutex.locked():
        state.commit._mutex.release()
    return [f"the {name} of the log stays held" for name in held]


def model_from_start(session: Session) -> Model:
    """A model that has yet to follow the notes."""
    flush_messages = session.settings.get("flush.messages", 1)
    assert isinstance(flush_messages, int)
    return Model(flush_messages)


@contextmanager
def suppress_violation(wrong: list[str]) -> Iterator[None]:
    try:
        yield
    except AssertionError as error:
        wrong.append(f"after a power cut: {str(error).partition('what happened last')[0]}")


def report(case: Case, failures: list[tuple[str, list[str]]]) -> None:
    assert not failures, f"{case.name}: {len(failures)} faults do harm\n" + "\n".join(
        f"- {what}:\n    " + "\n    ".join(wrong) for what, wrong in failures[:6]
    )


ALL = pytest.mark.parametrize("case", [*APPENDS, *OTHERS, *WEAK], ids=lambda case: case.name)


@ALL
@pytest.mark.parametrize("moment", ["before", "after"])
def test_one_call_fails(case: Case, moment: Any) -> None:
    failures = []
    for (number, call), error in itertools.product(enumerate(calls_of(case), 1), (errno.EIO, errno.ENOSPC, errno.EMFILE)):
        if error != errno.EIO and (moment == "after" or call.kind not in KINDS_OF[error]):
            continue
        wrong = faults_after(case, lambda disk, n=number, e=error: disk.fail(n, error=e, moment=moment))  # type: ignore[misc]
        if wrong:
            failures.append((f"{errno.errorcode[error]} {moment} call {number}, {call.kind} {Path(call.path).name}", wrong))
    report(case, failures)


@pytest.mark.parametrize("case", APPENDS, ids=lambda case: case.name)
def test_everything_fails_from_a_call_on(case: Case) -> None:
    """A roll-back can fail too then, which closes the log."""
    failures = []
    for number, call in enumerate(calls_of(case), 1):
        wrong = faults_after(case, lambda disk, n=number: disk.fail(n, until_healed=True), may_close=True)  # type: ignore[misc]
        if wrong:
            failures.append((f"EIO from call {number} on, {call.kind} {Path(call.path).name}", wrong))
    report(case, failures)


@pytest.mark.parametrize("case", APPENDS, ids=lambda case: case.name)
@pytest.mark.parametrize("then", [None, errno.ENOSPC], ids=["goes on", "ENOSPC"])
def test_a_short_write(case: Case, then: int | None) -> None:
    failures = []
    writes = sum(call.kind == "write" for call in calls_of(case))
    for number, size in itertools.product(range(1, writes + 1), (1, 40)):
        allowed: tuple[type[BaseException], ...] = () if then is None else (TidelogError,)
        wrong = faults_after(case, lambda disk, n=number, s=size: disk.shorten(n, size=s, then=then), allows=allowed)  # type: ignore[misc]
        if wrong:
            failures.append((f"write {number} takes {size} bytes", wrong))
    report(case, failures)


@pytest.mark.parametrize("case", APPENDS, ids=lambda case: case.name)
@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_interrupt_at_a_call(case: Case, moment: Any) -> None:
    failures = []
    for number, call in enumerate(calls_of(case), 1):
        wrong = faults_after(
            case,
            lambda disk, n=number: disk.interrupt(n, moment=moment),  # type: ignore[misc]
            allows=(KeyboardInterrupt,),
            may_close=True,
        )
        if wrong:
            failures.append((f"KeyboardInterrupt {moment} call {number}, {call.kind} {Path(call.path).name}", wrong))
    report(case, failures)


NEVER = ("OpenFile.__init__", "OpenFile.__del__", "Log.__del__", "<genexpr>")
"""What is interrupted too in life, but there the exception is printed and dropped."""


class Interrupt:
    """Raises KeyboardInterrupt at the nth moment at which Python would: at the beginning of a function, or behind a call of one in C."""

    def __init__(self, nth: int) -> None:
        self.nth = nth
        self.moments = 0
        self.where = ""

    def __enter__(self) -> "Interrupt":
        sys.setprofile(self._event)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _event(self, frame: FrameType, event: str, argument: Any) -> None:
        name = frame.f_code.co_filename
        is_ours = "/tidelog/log/" in name or (
            "/tidelog/disk/" in name and not name.endswith(("/disk.py", "/plain_files.py", "/file_locks.py"))
        )
        if event not in ("call", "c_return") or not is_ours or frame.f_code.co_qualname.endswith(NEVER):
            return
        self.moments += 1
        if self.moments == self.nth:
            behind = f" behind {argument.__qualname__}" if event == "c_return" else ""
            self.where = f"{Path(name).name}:{frame.f_lineno} {frame.f_code.co_qualname}{behind}"
            sys.setprofile(None)
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    "case",
    [case for case in APPENDS if case.name in ("append", "append, new epoch", "append that rolls", "flush", "run")],
    ids=lambda c: c.name,
)
def test_an_interrupt_at_any_moment(case: Case) -> None:
    failures = []
    with prepared(case) as (session, _), Interrupt(0) as counted:
        case.work(session)
    assert counted.moments > 20
    for number in range(1, counted.moments + 1):
        interrupt = Interrupt(number)

        def work(session: Session, interrupt: Interrupt = interrupt) -> None:
            with interrupt:
                case.work(session)

        interrupted = Case(case.name, work, case.prepare, case.settings, case.max_open, may_close=True)
        wrong = faults_after(interrupted, lambda disk: None, allows=(KeyboardInterrupt,), may_close=True)
        if wrong:
            failures.append((f"KeyboardInterrupt at moment {number}, {interrupt.where}", wrong))
    report(case, failures)


def in_time(work: Callable[[], object], seconds: float = 10) -> BaseException | None:
    """Do something in a thread: what it raised. It has to come to an end."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "it hangs"
    return raised[0] if raised else None


@pytest.mark.parametrize("kind", ["interrupted", "failed"])
def test_nobody_waits_for_a_sync_that_does_not_come(kind: str) -> None:
    """Five threads wait for the sync of a sixth, which is interrupted, or fails."""
    case = Case("several threads", lambda session: None, settings={"internal.segment.bytes": 10_000})
    with prepared(case) as (session, _):
        arrived = threading.Event()
        answers: dict[int, object] = {}

        def hold() -> None:
            arrived.wait(5)
            if kind == "failed":
                raise OSError(errno.EIO, "ordered by a test")
            raise KeyboardInterrupt

        session.faulty.run(1, hold, kind="sync", on=".log")

        def append(number: int) -> None:
            try:
                answers[number] = session.log.append(make_batch(100 + number))
            except BaseException as error:
                answers[number] = error

        threads = [threading.Thread(target=append, args=(number,), daemon=True) for number in range(6)]
        for thread in threads:
            thread.start()
        deadline = 500
        while session.log.log_end_offset < 8 and deadline:
            deadline -= 1
            threading.Event().wait(0.01)
        arrived.set()
        for thread in threads:
            thread.join(10)
            assert not thread.is_alive(), "a waiter hangs"
        failed = [answer for answer in answers.values() if isinstance(answer, BaseException)]
        if kind == "interrupted":
            assert [type(error) for error in failed] == [KeyboardInterrupt]
            assert session.log.high_watermark == session.log.log_end_offset == 8
        else:
            assert failed
            assert all(isinstance(error, LogFailedError) for error in failed)
            assert session.log.high_watermark <= 8


def test_who_waits_for_what_is_truncated_does_not_hang() -> None:
    case = Case("truncate under a waiter", lambda session: None, settings={"internal.segment.bytes": 10_000})
    with prepared(case) as (session, _):
        log = session.log
        go = threading.Event()
        session.faulty.run(1, lambda: go.wait(10), kind="sync", on=".log")
        waiters = [threading.Thread(target=_quietly(lambda: log.append(make_batch(50))), daemon=True) for _ in range(2)]
        for waiter in waiters:
            waiter.start()
        while log.log_end_offset < 4:
            threading.Event().wait(0.01)
        cut = threading.Thread(target=lambda: log.truncate_to(1), daemon=True)
        cut.start()
        while log.log_end_offset > 1:
            threading.Event().wait(0.01)
        go.set()
        cut.join(10)
        try:
            for waiter in waiters:
                waiter.join(5)
                assert not waiter.is_alive(), "an append waits for ever for what was truncated away"
        finally:
            while log.log_end_offset < 4:  # so that a thread that does hang comes to an end
                log.append(make_batch(60))
            for waiter in waiters:
                waiter.join(10)


_CUT_BEHIND_A_ROLL = """
import sys, tempfile, time
from tidelog.disk.disk import Disk
from tidelog.disk.file_pool import FilePool
from tidelog.log.log import Log
from tidelog.record.new_batch import NewBatch

class Slow(Disk):
    def sync(self, fd):
        time.sleep(0.05)

with tempfile.TemporaryDirectory() as root:
    config = {"flush.messages": 1000, "internal.segment.bytes": 300}
    with Log.open(root + "/t-0", config=config, pool=FilePool(Slow())) as log:
        for _ in range(20):
            log.append(NewBatch([(b"k", b"v")]).encode())
        log.truncate_to(1)
    print("closed")
"""


def test_a_segment_that_is_flushed_in_the_background_may_be_truncated_away() -> None:
    """In a process of its own, as what waits for ever keeps a process from ending."""
    done = subprocess.run([sys.executable, "-c", _CUT_BEHIND_A_ROLL], capture_output=True, timeout=15, check=True)
    assert done.stdout == b"closed\n"


def _quietly(work: Callable[[], object]) -> Callable[[], None]:
    def quiet() -> None:
        with suppress(TidelogError):
            work()

    return quiet


@pytest.mark.parametrize("room", [0, 512, 1024, 1536, 2048, 3072, 4096, 6144])
def test_a_full_disk_that_has_room_again(room: int) -> None:
    """The log refuses with `DiskFullError`, loses nothing, and goes on."""
    case = Case("full", lambda session: None)
    with prepared(case) as (session, scratch):
        disk = session.faulty
        disk.limit(room)
        refused = 0
        for number in range(60):
            if number % 9 == 8:
                session.epoch += 1
            try:
                session.append()
            except DiskFullError:
                refused += 1
        assert refused
        disk.heal()
        session.append_many(5)
        assert model_of(session).faults_of(recovered(session.log)) == []
        session.close()
        assert model_of(session).faults_of(check_directory(scratch / "root", session.settings)) == []


def test_a_log_that_failed_still_reads_and_says_why() -> None:
    case = Case("failed", lambda session: None)
    with prepared(case) as (session, _):
        session.faulty.fail(1, kind="sync", on=".log")
        with pytest.raises(LogFailedError, match="Input/output"):
            session.append()
        with pytest.raises(LogFailedError, match="Input/output"):
            session.append()
        with pytest.raises(LogFailedError):
            session.flush()
        assert [batch.base_offset for batch in recovered(session.log).batches][:2] == [0, 1]
        assert session.log.high_watermark == 2


@pytest.mark.parametrize("is_torn", [False, True], ids=["clean", "after a crash"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_opening_fails(is_torn: bool, moment: Any) -> None:
    """Every call of opening: a typed error, and the next try succeeds with all that was there."""
    failures = []

    def make(root: Path) -> tuple[dict[str, object], Model]:
        root.mkdir()
        session = FaultySession(root)
        session.append_many(5)
        model = model_of(session)
        session.close()
        if is_torn:
            (root / ".kafka_cleanshutdown").unlink()
            with (root / "t-0" / "00000000000000000003.log").open("ab") as file:
                file.write(make_batch(70)[:50])
        return session.settings, model

    with scratch_directory() as scratch:
        settings, _ = make(scratch / "count")
        disk = FaultyDisk()
        with Log.open(scratch / "count" / "t-0", config=settings, pool=FilePool(disk)):
            opening = len(disk.calls)
        calls = [call for call in disk.calls[:opening] if call.kind != "close"]
        for number, error in itertools.product(range(1, len(calls) + 1), (errno.EIO, errno.EMFILE, errno.ENOSPC)):
            root = scratch / f"{number}-{error}"
            settings, model = make(root)
            disk = FaultyDisk()
            disk.fail(number, error=error, moment=moment)
            what = f"{errno.errorcode[error]} {moment} call {number}, {calls[number - 1].kind} {Path(calls[number - 1].path).name}"
            log = None
            try:
                log = Log.open(root / "t-0", config=settings, pool=FilePool(disk))
            except TidelogError:
                pass
            except Exception as raised:
                failures.append((what, [f"raised {type(raised).__name__}: {raised}"]))
            disk.heal()
            if log is not None:
                with suppress(TidelogError):
                    log.close()
            try:
                wrong = model.faults_of(check_directory(root, settings))
            except Exception as raised:
                wrong = [f"opening again raised {type(raised).__name__}: {raised}"]
            if wrong:
                failures.append((what, wrong))
    report(Case("open", lambda session: None), failures)


def test_what_was_never_flushed_may_be_deleted() -> None:
    """The background is late: the flushed end lies before the first segment that is left."""
    case = Case("weak deletion", lambda session: None, prepare=nine, settings={"flush.messages": 1000})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Flushing, "flush_in_background", lambda *_: None)
        with prepared(case) as (session, _):
            assert session.log.flushed_end == 0
            session.delete_segments(1)
            session.delete_before(4)
            assert (session.log.log_start_offset, session.log.log_end_offset) == (4, 9)
            with open_reader(Path(session.directory)) as reader:
                assert reader.log_start_offset == 4
