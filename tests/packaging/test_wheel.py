"""A wheel, built as a user would build it, in an environment with nothing else in it."""

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SCRIPT = """
from tidelog.record import Compression, encode_batches, read_batches, to_arrow
for codec in Compression:
    data = encode_batches([(b"k", b"v")] * 3, compression=codec)
    assert [record.value for batch in read_batches(data) for record in batch] == [b"v"] * 3
    assert to_arrow(data).num_rows == 3
print("works")
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The sources alone, without anything that was compiled in place."""
    copy = tmp_path_factory.mktemp("tree") / "tidelog"
    copy.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("*.so", "*.c", "__pycache__", "*.egg-info"))
    yield copy
    shutil.rmtree(copy)


def run(*command: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("TIDELOG_", "PYTEST_", "CC"))}
    return subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False, env={**plain, **environment}, timeout=500
    )


def only_wheel(folder: Path) -> Path:
    (wheel,) = folder.glob("*.whl")
    return wheel


def test_a_wheel_works_in_an_empty_environment(tree: Path, tmp_path: Path) -> None:
    # As the documentation of `build` says: an sdist first, the wheel from it, in an isolated environment.
    built = run(sys.executable, "-m", "build", "--outdir", tmp_path / "dist", cwd=tree, TIDELOG_REQUIRE_KERNEL="1", TIDELOG_OPTIMIZE="0")
    assert built.returncode == 0, built.stdout + built.stderr
    wheel = only_wheel(tmp_path / "dist")
    names = zipfile.ZipFile(wheel).namelist()
    assert any(name.startswith("tidelog/record/kernel/records.") and name.endswith((".so", ".pyd")) for name in names)
    assert {"tidelog/py.typed", "tidelog/record/kernel/records.py", "tidelog/record/kernel/records.pxd"} <= set(names)
    assert {"pyspark_tidelog/__init__.py", "tidelog/spark/quiet-log4j2.properties"} <= set(names)
    assert {Path(name).name for name in names if ".dist-info/licenses/" in name} == {"LICENSE", "NOTICE"}

    assert run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path).returncode == 0
    python = tmp_path / "venv" / "bin" / "python"
    installed = run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel, cwd=tmp_path)
    assert installed.returncode == 0, installed.stderr
    said = run(tmp_path / "venv" / "bin" / "tidelog", "--version", cwd=tmp_path)
    assert said.stdout.endswith("(kernel: compiled)\n"), said
    for kernel in ("", "interpreted"):
        done = run(python, "-W", "error", "-c", SCRIPT, cwd=tmp_path, TIDELOG_KERNEL=kernel)
        assert done.stdout == "works\n", done.stderr
    _try_as_a_user(tmp_path / "venv" / "bin", tmp_path)

    (sdist,) = (tmp_path / "dist").glob("*.tar.gz")
    command = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--force-reinstall", "--no-deps", sdist)
    installed = run(*command, cwd=tmp_path, TIDELOG_REQUIRE_KERNEL="1", TIDELOG_OPTIMIZE="0")
    assert installed.returncode == 0, installed.stderr
    _try_as_a_user(tmp_path / "venv" / "bin", tmp_path)


def _try_as_a_user(programs: Path, folder: Path) -> None:
    """A store and its commands, with nothing there but what the package asks for."""
    shutil.rmtree(folder / "data", ignore_errors=True)
    script = "import tidelog\nwith tidelog.open('data') as store: store.create_topic('emails').append(b'ann@example.com', key=b'1')"
    done = run(programs / "python", "-W", "error", "-c", script, cwd=folder)
    assert done.returncode == 0, done.stderr
    said = {name: run(programs / "tidelog", name, "data", *more, cwd=folder) for name, *more in (("ls",), ("cat", "emails"), ("verify",))}
    assert {name: one.returncode for name, one in said.items()} == dict.fromkeys(said, 0), said
    assert "ann@example.com" in said["cat"].stdout
    assert run(programs / "tidelog", "--version", cwd=folder).stdout.endswith("(kernel: compiled)\n")


def test_without_a_compiler_the_same_source_runs(tree: Path, tmp_path: Path) -> None:
    command = (sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path / "dist")
    required = run(*command, cwd=tree, CC="/bin/false", TIDELOG_REQUIRE_KERNEL="1")
    assert required.returncode != 0
    assert "/bin/false" in required.stdout + required.stderr

    optional = run(*command, cwd=tree, CC="/bin/false")
    assert optional.returncode == 0, optional.stderr
    unpacked = tmp_path / "unpacked"
    zipfile.ZipFile(only_wheel(tmp_path / "dist")).extractall(unpacked)
    assert not list(unpacked.rglob("*.so"))
    done = run(sys.executable, "-c", SCRIPT, cwd=tmp_path, PYTHONPATH=str(unpacked))
    assert done.stdout == "works\n", done.stderr
    assert "kernel is not compiled and runs interpreted" in done.stderr
