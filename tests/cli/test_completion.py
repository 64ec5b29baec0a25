"""Completion in the shell: scripts, commands, options, and topics of the directory that is typed already."""

import subprocess
from pathlib import Path

import pytest

from tests.cli.commands import COMMAND, run_process
from tests.support.golden import GOLDEN

BROKER = GOLDEN / "broker" / "data"


def completed(line: str) -> list[str]:
    """What bash offers at the end of a line."""
    words = line.split(" ")
    done = run_process(_TIDELOG_COMPLETE="complete_bash", COMP_WORDS="\n".join(words), COMP_CWORD=str(len(words) - 1))
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_commands_and_options() -> None:
    assert completed("tidelog d") == ["describe", "dump"]
    assert "--value-regex" in completed("tidelog cat --value")


def test_topics_of_the_directory() -> None:
    assert completed(f"tidelog cat {BROKER} ") == ["__cluster_metadata", "again", "emails", "plain", "profiles"]
    assert completed(f"tidelog describe {BROKER} p") == ["plain", "profiles"]
    assert completed("tidelog cat /nowhere e") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_are_shown(shell: str) -> None:
    done = run_process("--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert done.returncode == 0, done.stderr
    assert "_TIDELOG_COMPLETE" in done.stdout


def test_bash_takes_the_script(tmp_path: Path) -> None:
    script = run_process("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1").stdout
    (tmp_path / "script").write_text(script)
    words = f"COMP_WORDS=(tidelog cat {BROKER} em); COMP_CWORD=3"
    asked = f'set -e; source {tmp_path}/script; {words}; _tidelog_completion {COMMAND}; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, "emails\n"), done.stderr
