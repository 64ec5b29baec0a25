"""What `dump` is asked for in plain words is understood without the parser, and means the same."""

from itertools import combinations
from pathlib import Path

import pytest

from tests.cli.commands import Done, run
from tidelog.cli import main
from tidelog.cli.plain_arguments import DumpOptions, plain_dump
from tidelog.record import encode_batches

FLAGS = ("--records", "--deep", "--skip-damage", "--json", "--raw")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    batches = [encode_batches([(b"k", b"v%d" % number, [("h", b"x")], 5)], base_offset=number) for number in range(3)]
    path = tmp_path / "t-0" / f"{0:020}.log"
    path.parent.mkdir()
    path.write_bytes(batches[0] + batches[1] + b"no batch follows here, for sure" + batches[2])
    return path


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TIDELOG_QUIET", "TIDELOG_DEBUG", "TIDELOG_IO_LIMIT", "TIDELOG_KERNEL"):
        monkeypatch.delenv(name, raising=False)


def by_parser(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> Done:
    with monkeypatch.context() as patch:
        patch.setattr(main, "plain_dump", lambda _: None)
        return run(*arguments)


def test_it_means_what_the_parser_takes_it_for(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set()
    for flags in (chosen for count in range(len(FLAGS) + 1) for chosen in combinations(FLAGS, count)):
        arguments = [*flags[:1], str(log), *flags[1:]]
        assert plain_dump(["dump", *arguments]) is not None
        done = run("dump", *arguments)
        assert done == by_parser(monkeypatch, "dump", *arguments)
        seen.add(done)
    assert len(seen) > 8


def test_files_and_directories(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for paths in ([log, log], [log.parent], [tmp_path], [tmp_path / "no such"], [log, tmp_path / "no such"], [__file__]):
        assert plain_dump(["dump", *map(str, paths)]) is not None
        done = run("dump", *paths)
        assert done == by_parser(monkeypatch, "dump", *paths)
    assert done.returncode == 2


@pytest.mark.parametrize(
    "arguments",
    [[], ["dump"], ["ls", "x"], ["-q", "dump", "x"], ["dump", "x", "-q"], ["dump", "x", "--help"], ["dump", "x", "--io-limit", "1MiB/s"],
     ["dump", "--", "x"], ["dump", "-"], ["dump", "--jsn", "x"], ["dump", "--json"], ["dump", ""], ["dump", "--json=1", "x"]],
    ids=" ".join,
)  # fmt: skip
def test_anything_else_is_for_the_parser(arguments: list[str]) -> None:
    assert plain_dump(arguments) is None


def test_variables_are_for_the_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    assert plain_dump(["dump", "x", "--raw", "--json"]) == ([Path("x")], DumpOptions(as_json=True, raw=True))
    monkeypatch.setenv("TIDELOG_IO_LIMIT", "1MiB/s")
    assert plain_dump(["dump", "x"]) is None
