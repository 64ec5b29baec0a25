"""The command line as a user types it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidelog import __version__

COMMAND = Path(sys.executable).with_name("tidelog")


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, check=False, env={**os.environ, **environment}, timeout=60)


@pytest.mark.parametrize(("kernel", "said"), [("", "compiled"), ("interpreted", "interpreted")])
def test_version_says_which_kernel(kernel: str, said: str) -> None:
    done = run("--version", TIDELOG_KERNEL=kernel)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"tidelog {__version__} (kernel: {said})\n", "")


def test_python_dash_m() -> None:
    done = subprocess.run([sys.executable, "-m", "tidelog", "--version"], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.startswith(f"tidelog {__version__} ")


def test_wrong_use_is_exit_code_2_and_no_traceback() -> None:
    for arguments in (["--no-such-option"], ["no-such-command"]):
        done = run(*arguments)
        assert done.returncode == 2
        assert "no-such" in done.stderr
        assert "Traceback" not in done.stderr
