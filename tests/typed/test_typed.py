"""The types of the API as somebody else's mypy sees them: strict, no settings of ours, and the wheel in an environment of its own."""

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("program.py")
ON_SPARK = Path(__file__).with_name("on_spark.py")
WRONG_USES = {
    "text for bytes": ('store.topic("orders").append("12")', 'Argument 1 to "append" of "TopicProducing" has incompatible type "str"'),
    "text for a key": ('store.topic("orders").append(b"12", key="ann")', 'Argument "key" to "append" of "TopicProducing"'),
    "a keyword that is none": ('store.topic("orders").append(b"12", keys=b"ann")', 'Unexpected keyword argument "keys"'),
    "a method that is none": ('store.topic("orders").add(b"12")', '"Topic" has no attribute "add"'),
    "a mode that is none": ('tidelog.open("data", mode="w")', 'No overload variant of "open" matches'),
    "writing to what is read": ('tidelog.open("data", mode="r").create_topic("orders")', '"ReadOnlyStore" has no attribute "create_topic"'),
    "null as a value": (
        'print(next(store.topic("orders").read()).value.upper())',
        'Item "None" of "bytes | None" has no attribute "upper"',
    ),
    "an isolation that is none": ('store.topic("orders").read(isolation="dirty")', 'Argument "isolation" to "read" of "TopicReading"'),
    "a name that is not exported": ("tidelog.Consumer", 'Module has no attribute "Consumer"'),
    "a name that Spark's part does not have": ("on_spark.stop()", 'Module has no attribute "stop"'),
    "a job that is none": ('jobs.vacuum(on_spark.session(), "data")', 'Module has no attribute "vacuum"'),
    "a keyword that a job does not have": (
        'jobs.compact(on_spark.session(), "data", topic="orders")',
        'Unexpected keyword argument "topic"',
    ),
}


def run(*command: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("TIDELOG_", "PYTEST_", "MYPY", "CC", "PYTHONPATH"))}
    return subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False, env={**plain, **environment}, timeout=300
    )


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with the wheel in it. What the package depends on is that of this environment; the package itself is not."""
    home = tmp_path_factory.mktemp("typed")
    tree = home / "tree"
    tree.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, tree)
    shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("*.so", "*.c", "__pycache__", "*.egg-info"))
    # Without a compiler: what is compiled has no types, and the sources are in the wheel either way.
    built = run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", home / "dist", tree, cwd=home, CC="/bin/false")
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = (home / "dist").glob("*.whl")
    assert run(sys.executable, "-m", "venv", "--without-pip", home / "venv", cwd=home).returncode == 0
    (site,) = (home / "venv").glob("lib/python*/site-packages")
    zipfile.ZipFile(wheel).extractall(site)
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")  # a path, whose own .pth files are not read
    return home / "venv" / "bin" / "python"


def checked(python: Path, program: str, home: Path) -> subprocess.CompletedProcess[str]:
    """What mypy says about a program, in an empty directory."""
    (home / "program.py").write_text(program)
    cache = python.parents[2] / "cache"  # the same for all: what is installed is looked at once
    options = ("--strict", "--no-color-output", "--config-file=", "--cache-dir", cache, "--python-executable", python)
    return run(sys.executable, "-m", "mypy", *options, "program.py", cwd=home)


@pytest.mark.parametrize("program", [PROGRAM, ON_SPARK], ids=lambda program: program.stem)
def test_a_program_is_typed(program: Path, python: Path, tmp_path: Path) -> None:
    found = checked(python, program.read_text(), tmp_path)
    assert (found.returncode, found.stdout) == (0, "Success: no issues found in 1 source file\n"), found.stdout + found.stderr


def test_the_program_runs(python: Path, tmp_path: Path) -> None:
    done = run(python, PROGRAM, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "runs interpreted" in done.stderr  # so it is the wheel that runs, and not the tree
    assert done.stdout.splitlines()[-1] == (
        "4 6 [b'ann', b'bob', b'eve'] ['__consumer_offsets', '__transaction_state', 'bills', 'orders'] [] 0 9"
    )


def test_wrong_uses_are_told_with_their_lines(python: Path, tmp_path: Path) -> None:
    head = ["import tidelog", "from tidelog import spark as on_spark", "from tidelog.spark import jobs", "store = tidelog.open('data')"]
    uses = [f"def use_{place}() -> None:\n    {use}" for place, (use, _) in enumerate(WRONG_USES.values())]
    found = checked(python, "\n".join([*head, *uses]) + "\n", tmp_path)
    assert found.returncode == 1, found.stdout + found.stderr
    errors = [line for line in found.stdout.splitlines() if ": error: " in line]
    for place, (name, (use, message)) in enumerate(WRONG_USES.items()):
        line = len(head) + 2 * place + 2
        assert any(error.startswith(f"program.py:{line}: error: ") and message in error for error in errors), (name, use, errors)
    assert {error.split(":")[1] for error in errors} == {str(len(head) + 2 * place + 2) for place in range(len(uses))}


def test_without_the_marker_there_are_no_types(python: Path, tmp_path: Path) -> None:
    """What is checked is the package that was installed, and `py.typed` is what makes it count."""
    (marker,) = python.parents[1].glob("lib/python*/site-packages/tidelog/py.typed")
    marker.unlink()
    try:
        found = checked(python, "import tidelog\n", tmp_path)
    finally:
        marker.touch()
    assert "missing library stubs or py.typed marker" in found.stdout
