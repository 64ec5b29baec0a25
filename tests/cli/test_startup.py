"""What a command loads: `--help` next to nothing, and no command Spark."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import run, run_process
from tests.support.small_stores import open_store
from tidelog.cli import registry

HEAVY = {"numpy", "pyarrow", "pyspark", "rich", "pandas", "crc32c", "zstandard", "cramjam", "logging.config", "asyncio"}
OURS = {"tidelog.log", "tidelog.record", "tidelog.store", "tidelog.inspection", "tidelog.compaction"}
PROGRAM = (
    "import json, sys; from tidelog.cli.main import run; code = run(json.loads(sys.argv[1])); print(code, *sys.modules, file=sys.stderr)"
)


def modules(*arguments: str | Path) -> set[str]:
    """Those that a process has when a command is done."""
    given = json.dumps([str(argument) for argument in arguments])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, given], capture_output=True, text=True, check=True, timeout=60, stdin=subprocess.DEVNULL
    )
    code, *loaded = done.stderr.splitlines()[-1].split()
    assert code == "0", done.stderr
    return set(loaded)


@pytest.mark.parametrize("arguments", [["--help"], *([command.name, "--help"] for command in registry.COMMANDS)], ids=" ".join)
def test_help_loads_next_to_nothing(arguments: list[str]) -> None:
    loaded = modules(*arguments)
    assert "typer" in loaded
    assert not loaded & (HEAVY | OURS)


def test_no_command_loads_spark(tmp_path: Path) -> None:
    with open_store(tmp_path / "s") as made:
        made.create_topic("t").append(b"x", key=b"k")
    asked: dict[str, list[str]] = {
        "ls": [], "describe": ["t"], "cat": ["t"], "tail": ["t", "--no-follow"], "find": ["t", "--key", "k"], "dump": ["--records"],
        "produce": ["t"], "stats": ["--records"], "verify": [], "explain": [], "what-if": ["t", "--config", "retention.ms=1"],
        "compact": ["--apply"], "retain": ["--apply"], "trim": ["t", "--before", "0", "--apply"], "repair": ["--apply"],
        "reindex": ["--apply"], "salvage": ["-o", str(tmp_path / "new")], "report": ["--json"], "topics list": [], "config get": ["t"],
        "groups list": [], "export": ["-o", str(tmp_path / "exported")], "table": ["t"], "copy": ["-o", str(tmp_path / "copied")],
        "restore": ["-o", str(tmp_path / "restored")], "forget": ["t", "--key", "some key", "--apply"], "history": ["t"],
        "ingest": ["new", str(tmp_path / "rows.csv")],
    }  # fmt: skip
    (tmp_path / "rows.csv").write_text("key,value\n1,2\n")
    assert {command.name for command in registry.COMMANDS} == {name.split()[0] for name in asked}
    program = (
        "import json, sys; from tidelog.cli.main import run; codes = [run(one) for one in json.loads(sys.argv[1])];"
        "print(codes, any(name.split('.')[0] in ('pyspark', 'py4j') for name in sys.modules), file=sys.stderr)"
    )
    given = json.dumps([[*name.split(), str(tmp_path / "s"), *more] for name, more in asked.items()])
    done = subprocess.run(
        [sys.executable, "-c", program, given], capture_output=True, text=True, check=True, timeout=60, stdin=subprocess.DEVNULL
    )
    assert done.stderr.splitlines()[-1] == f"{[0] * len(asked)} False"


def test_a_sound_segment_needs_neither_the_log_layer_nor_arrow(tmp_path: Path) -> None:
    with open_store(tmp_path / "s") as made:
        made.create_topic("t").append(b"x", key=b"k")
    loaded = modules("dump", tmp_path / "s" / "t-0" / f"{0:020}.log", "--deep")
    assert "tidelog.record" in loaded
    assert not loaded & {
        "tidelog.log",
        "tidelog.store",
        "tidelog.inspection",
        "tidelog.schema.decoders",
        "pyarrow",
        "rich",
        "typer",
        "pydantic",
    }


def test_each_line_of_help_is_that_of_its_command() -> None:
    for command in registry.COMMANDS:
        loaded = registry.load(command)
        assert loaded.help.split("\n\n")[0].replace("\n", " ") == command.help
        assert command.help.endswith(".")


@pytest.mark.parametrize("command", ["cat", "verify", "dump", "ingest", "config get", "config set", "config unset"])
def test_usage_marks_what_may_be_left_out_once(command: str) -> None:
    """Typer has marks of its own: `[[TOPIC]]` and `{PATH…}...` were printed."""
    usage = run(*command.split(), "--help").stdout.splitlines()[0]
    assert usage.startswith(f"Usage: tidelog {command} [OPTIONS] ")
    assert "[[" not in usage
    assert "…" not in usage


def test_help_lists_all_commands_by_section() -> None:
    done = run("--help")
    assert done.returncode == 0
    for command in registry.COMMANDS:
        assert f"  {command.name} " in done.stdout
    assert done.stdout.index("Look:") < done.stdout.index("Write:")


def test_options_of_the_program_may_stand_anywhere(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    assert run("ls", tmp_path).stderr != ""
    for arguments in (["-q", "ls", str(tmp_path)], ["ls", str(tmp_path), "-q"], ["ls", "--quiet", str(tmp_path)]):
        done = run(*arguments)
        assert (done.returncode, done.stdout, done.stderr) == (0, "no topics\n", "")
    assert run_process("ls", tmp_path, TIDELOG_QUIET="1").stderr == ""
    done = run("ls", "--", "-q")
    assert done.returncode == 2
    assert "-q" in done.stderr


def test_a_command_that_is_nearly_one() -> None:
    done = run("dumb")
    assert done.returncode == 2
    assert "'dumb'" in done.stderr
    assert "dump" in done.stderr.splitlines()[0]
