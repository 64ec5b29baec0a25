"""The session in docs/command-line.md, typed as it is printed there, prints what is printed there."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.cli.commands import run
from tidelog.cli.registry import COMMANDS

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"
HOME = "/srv/tide"


def typed(line: str) -> str:
    """What a line leaves on the screen. Our commands run in this process: to start a dozen takes longer than what they do."""
    data, screen = b"", ""
    for command in line.split(" | "):
        words = shlex.split(command)
        if words[0] != "tidelog":
            data = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, check=True, timeout=60).stdout
            continue
        done = run(*words[1:], stdin=data)
        data, screen = done.stdout.encode(), screen + done.stderr
    return data.decode() + screen


def test_the_session_in_the_docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```console\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    parts = [part for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    assert len(parts) >= 9
    for part in parts:
        line, _, expected = part.partition("\n")
        assert typed(line).replace(str(tmp_path.resolve()), HOME) == expected, line


def test_every_command_has_its_section() -> None:
    headings = re.findall(r"^## (.*)$", PAGE.read_text(), re.MULTILINE)
    assert {command.name for command in COMMANDS} - set(headings) == set()
