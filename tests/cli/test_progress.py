"""Progress: when it is shown, what it says, and where it is silent."""

import io
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc
from pyarrow import parquet as pq

from tests.cli.commands import run
from tests.support.small_stores import open_store
from tidelog.cli import output
from tidelog.cli.progress import Progress, clear_drawn, progress_line


class Terminal(io.StringIO):
    """A stream that says it is one."""

    def isatty(self) -> bool:
        return True


class Clock:
    """Seconds that pass when a test says so."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def shown(stream: io.StringIO, steps: list[tuple[float, int]], total: int | None) -> str:
    clock = Clock()
    with Progress("dump", total, stream=stream, clock=clock) as progress:
        for seconds, size in steps:
            clock.now += seconds
            progress.add(size)
    return stream.getvalue()


def test_bytes_rate_and_what_is_left() -> None:
    assert progress_line("dump", 1 << 30, 4 << 30, 2.0) == "dump: 1.0 GiB of 4.0 GiB (25%), 512.0 MiB/s, 6 s left"
    assert progress_line("cat", 1 << 20, None, 2.0) == "cat: 1.0 MiB, 512.0 KiB/s"
    assert progress_line("cat", 0, 10, 0.0) == "cat: 0 B of 10 B (0%), 0 B/s"
    assert progress_line("cat", 10, 10, 1.0) == "cat: 10 B of 10 B (100%), 10 B/s"


def test_a_terminal_has_one_line_that_goes_away() -> None:
    text = shown(Terminal(), [(0.5, 100), (0.4, 100), (0.2, 100), (0.1, 100), (0.2, 100)], 1000)
    assert text.split("\r\x1b[K")[1:] == [
        "dump: 300 B of 1000 B (30%), 273 B/s, 3 s left",
        "dump: 500 B of 1000 B (50%), 357 B/s, 1 s left",
        "",
    ]


def test_elsewhere_there_is_a_line_every_ten_seconds() -> None:
    assert shown(io.StringIO(), [(5, 100), (4, 100)], 1000) == ""
    text = shown(io.StringIO(), [(11, 100), (5, 100), (6, 100)], None)
    assert text.splitlines() == ["dump: 100 B, 9 B/s", "dump: 300 B, 14 B/s"]


def test_quick_or_quiet_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(Terminal(), [(0.9, 100)], 1000) == ""
    monkeypatch.setitem(output._shared, "quiet", True)
    assert shown(Terminal(), [(20, 100)], 1000) == ""


def test_quiet_ends_with_the_command(tmp_path: Path) -> None:
    with open_store(tmp_path) as made:
        made.create_topic("t").append(b"1")
    assert run("-q", "--debug", "ls", tmp_path).returncode == output.DONE
    assert run("-q", "ls", tmp_path / "gone").returncode != output.DONE
    assert (output.is_quiet(), output.is_debugging()) == (False, False)


def test_results_take_the_line_away_before_they_are_printed() -> None:
    stream, clock = Terminal(), Clock()
    with Progress("ls", None, stream=stream, clock=clock) as progress:
        clock.now += 2
        progress.add(10)
        clear_drawn()
        assert stream.getvalue() == "\r\x1b[Kls: 10 B, 5 B/s\r\x1b[K"
        clear_drawn()
    assert stream.getvalue().count("\r") == 2


def test_whatever_is_printed_takes_the_line_away(capsys: pytest.CaptureFixture[str]) -> None:
    for show in (output.print_line, output.print_json, output.note):
        stream, clock = Terminal(), Clock()
        with Progress("compact", None, stream=stream, clock=clock) as progress:
            clock.now += 2
            progress.add(10)
            show("x")
            assert stream.getvalue() == "\r\x1b[Kcompact: 10 B, 5 B/s\r\x1b[K"
    assert capsys.readouterr() == ('x\n"x"\n', "x\n")


def test_who_waits_for_what_comes_shows_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`tail` told every ten seconds how much it had read, for as long as it followed."""
    with open_store(tmp_path) as made:
        topic = made.create_topic("t")
        for number in range(5):
            topic.append(b"%d" % number)
    monkeypatch.setattr("tidelog.cli.progress._LINE_S", 0.0)
    for command in (["tail"], ["cat", "--follow"]):
        done = run(*command, tmp_path, "t", "-c", "5")
        assert (done.returncode, len(done.stdout.splitlines()), done.stderr) == (0, 5, "")
    assert "tail: " in run("tail", tmp_path, "t", "--no-follow").stderr


@pytest.mark.parametrize(
    "command",
    [
        ["cat"], ["find", "--key", "key 3"], ["table"], ["stats", "--records"], ["compact", "--roll", "--apply"], ["repair"], ["reindex"],
        ["reindex", "--apply"], ["export", "-o", "{new}"], ["copy", "-o", "{new}"], ["restore", "-o", "{new}"], ["history"],
        ["forget", "--key", "key 3"], ["forget", "--key", "key 3", "--apply"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_what_is_read_is_told_with_what_is_left(command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all that reads whole logs: how much there is was looked up before, and is about what is read then."""
    with open_store(tmp_path / "s", config={"log.segment.bytes": 1 << 20}) as made:
        topic = made.create_topic("t", 2, {"cleanup.policy": "compact"})
        for first in range(0, 4000, 40):
            topic.append_many([(b"key %d" % (number % 1000), bytes(1000)) for number in range(first, first + 40)])
    if command[-1] == "--apply" and command[0] == "reindex":
        next((tmp_path / "s" / "t-0").glob("*.index")).unlink()
    ended: list[Progress] = []
    monkeypatch.setattr(Progress, "__exit__", lambda self, *_: ended.append(self))
    monkeypatch.setattr("tidelog.cli.progress._LINE_S", 0.0)
    name, *more = (word.format(new=tmp_path / "new") for word in command)
    done = run(name, tmp_path / "s", "t", *more)
    assert done.returncode == 0, done.stderr
    assert " left\n" in done.stderr
    [*_, last] = [one for one in ended if one.total_bytes]
    assert last.total_bytes is not None
    assert last.done_bytes / last.total_bytes >= 0.7
    if command[0] != "forget":  # which also looks through ten mebibytes of each new index: much beside so small a log
        assert last.done_bytes / last.total_bytes <= 3  # where segments are small, the begin of each is read twice


@pytest.mark.parametrize("form", ["json", "csv", "txt", "parquet", "orc"])
def test_what_is_ingested_is_told_with_what_is_left(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the bytes of the files; lines of JSON are read twice."""
    values = [f"value {number} " + "v" * 100 for number in range(50_000)]
    table, path = pa.table({"value": values}), tmp_path / f"rows.{form}"
    if form == "parquet":
        pq.write_table(table, path)
    elif form == "orc":
        orc.write_table(table, path, stripe_size=1 << 18)
    else:
        header, line = {"json": ("", '{{"value": "{}"}}'), "csv": ("value\n", "{}"), "txt": ("", "{}")}[form]
        path.write_text(header + "".join(line.format(value) + "\n" for value in values))
    told: list[Progress] = []
    monkeypatch.setattr(Progress, "__exit__", lambda self, *_: told.append(self))
    monkeypatch.setattr("tidelog.cli.progress._LINE_S", 0.0)
    done = run("ingest", tmp_path / "s", "t", path)
    assert done.returncode == 0, done.stderr
    assert " left\n" in done.stderr or form == "csv"  # of which Arrow reads some mebibytes ahead
    (last,) = told
    assert last.total_bytes == path.stat().st_size * (2 if form == "json" else 1)
    assert 0.99 * last.total_bytes <= last.done_bytes <= last.total_bytes
    with open_store(tmp_path / "s") as made:
        assert [(record.value or b"").decode() for record in made.topic("t").read()] == values
