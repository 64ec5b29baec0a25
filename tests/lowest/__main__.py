"""Try the package with the oldest versions that it says it works with: `python -m tests.lowest`.

    the wheel is built from this tree, as a user would build it
    an environment gets it with every direct dependency, those of the extras too, at the oldest version that pyproject.toml allows
    tests are copied beside it, without the sources, and run there

What the dependencies need themselves is whatever pip chooses. `--spark` adds the extra `spark`, whose package alone is half a gigabyte,
and tests on a real session. `--instead typer==0.27` tries another version than the bound: to find one that holds. The environment is
removed at the end unless it is to be kept.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from packaging.requirements import Requirement

from tests.lowest.bounds import ROOT, development_tools, listed_versions, oldest, requirements

EXTRAS = ("avro", "protobuf")
PROPERTIES = tuple(f"tests/property/test_{name}.py" for name in ("round_trip", "peers", "producing", "retain", "kernel_modes"))
LOGS = tuple(f"tests/unit/log/test_{name}.py" for name in ("append", "golden_partitions", "read_only", "indexes"))
"""Those that write and read with all codecs, and Kafka's own files. The others hardly use a package, and take minutes."""
TESTS = ("tests/unit/record", "tests/unit/schema", "tests/unit/disk", *LOGS, *PROPERTIES, "tests/cli")
NEEDS_SPARK = ("tests/cli/test_on_spark.py",)
SPARK_TESTS = ("tests/spark/test_read_batch.py", "tests/spark/test_sink_batch.py", "tests/spark/test_stream_queries.py")
TOOLS = ("pytest", "hypothesis")
PEERS = ("aiokafka", "kafka-python", "lz4", "python-snappy", "kio")
"""Which tests of properties hold the format against."""
_QUIET = ("--quiet", "--disable-pip-version-check")
_TREE = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "NOTICE")


def main(arguments: Sequence[str] | None = None) -> int:
    """Build, install, run: with the exit code of pytest."""
    parser = argparse.ArgumentParser(prog="python -m tests.lowest", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--spark", action="store_true", help="the extra spark too, and tests on a session")
    parser.add_argument("--keep", action="store_true", help="leave the environment where it was made")
    parser.add_argument("--instead", action="append", default=[], metavar="NAME==VERSION", help="this version of a dependency")
    parser.add_argument("tests", nargs="*", help="other tests than the usual ones")
    given = parser.parse_args(arguments)
    home = Path(tempfile.mkdtemp(prefix="lowest-"))
    try:
        pins = find_pins((*EXTRAS, "spark") if given.spark else EXTRAS, given.instead)
        python = make_environment(home, pins, given.spark)
        show_versions(python, pins)
        tests = given.tests or [*TESTS, *(SPARK_TESTS if given.spark else ())]
        return run_tests(python, home, tests, () if given.spark else NEEDS_SPARK)
    finally:
        if given.keep:
            print(f"kept: {home}")  # noqa: T201
        else:
            shutil.rmtree(home)


def find_pins(extras: Sequence[str], instead: Sequence[str] = ()) -> dict[str, str]:
    """The oldest version that satisfies each direct dependency, by its name; or another that was asked for."""
    others = {asked.name: asked for asked in map(Requirement, instead)}
    return {needed.name: _oldest_there_is(others.get(needed.name, needed)) for needed in requirements(*extras)}


def _oldest_there_is(needed: Requirement) -> str:
    command = [sys.executable, "-m", "pip", "index", "versions", needed.name, "--only-binary", ":all:", "--disable-pip-version-check"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return str(oldest(needed, listed_versions(answer.stdout)))


def make_environment(home: Path, pins: dict[str, str], with_spark: bool) -> Path:
    """The interpreter of a new environment with the wheel, its dependencies at these versions, and what the tests need."""
    tree = home / "tree"
    tree.mkdir()
    for name in _TREE:
        shutil.copy(ROOT / name, tree)
    shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("*.so", "*.c", "__pycache__", "*.egg-info"))
    built = {**os.environ, "TIDELOG_REQUIRE_KERNEL": "1", "TIDELOG_OPTIMIZE": "0"}
    _run([sys.executable, "-m", "build", "--wheel", "--outdir", home / "dist", tree], home, built)
    (wheel,) = (home / "dist").glob("*.whl")
    assert any(name.endswith(".so") for name in zipfile.ZipFile(wheel).namelist())
    _run([sys.executable, "-m", "venv", home / "venv"], home)
    python = home / "venv" / "bin" / "python"
    constraints = home / "constraints.txt"
    constraints.write_text("".join(f"{name}=={version}\n" for name, version in pins.items()))
    extras = ",".join((*EXTRAS, "spark") if with_spark else EXTRAS)
    tools = development_tools(*TOOLS, *PEERS, *(("pandas",) if with_spark else ()))
    _run([python, "-m", "pip", "install", *_QUIET, "-c", constraints, f"{wheel}[{extras}]", *tools], home)
    shutil.rmtree(tree)
    return python


def show_versions(python: Path, pins: dict[str, str]) -> None:
    """Print what is installed; an environment with another version than was asked for would prove nothing."""
    script = "import sys; from importlib.metadata import version; print(*(f'{name}=={version(name)}' for name in sys.argv[1:]))"
    answer = subprocess.run([python, "-c", script, *pins], capture_output=True, text=True, check=True, timeout=60)
    print(f"Python {sys.version.split()[0]}:", answer.stdout.strip(), flush=True)  # noqa: T201
    found = dict(part.split("==") for part in answer.stdout.split())
    assert found == pins, (found, pins)


def run_tests(python: Path, home: Path, tests: Sequence[str], ignored: Sequence[str] = ()) -> int:
    """Run tests in a copy that has no sources beside it: what they import is what was installed."""
    place = home / "there"
    place.mkdir()
    shutil.copy(ROOT / "pyproject.toml", place)
    shutil.copy(ROOT / "README.md", place)
    for name in ("tests", "interop", "docs"):
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__", ".jars", ".classes"))
    left_out = [f"--ignore={path}" for path in ignored]
    command = [python, "-m", "pytest", "-m", "not slow", "-p", "no:cacheprovider", *left_out, *tests]
    return subprocess.run([str(part) for part in command], cwd=place, check=False).returncode


def _run(command: Sequence[str | Path], home: Path, environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        [str(part) for part in command], cwd=home, env=environment, capture_output=True, text=True, check=False, timeout=1200
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    sys.exit(main())
