"""What pyproject.toml says about dependencies holds together: bounds are there, a lock keeps to them, the version is in one place."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import tidelog
from tests.lowest.bounds import ROOT, development_tools, listed_versions, locked_versions, lower_bound, oldest, requirements

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCK = ROOT / "requirements-dev.lock"
EXTRAS = tuple(PROJECT["optional-dependencies"])
IMPORTED_AS = {"fastavro": "fastavro", "google": "protobuf"}
OPTIONAL = {"pandas", "polars", "duckdb", "deltalake", "pyiceberg", "cython", "Cython"}
"""Packages that are used if the user has them, and asked for by name otherwise; and what the kernel does without."""


@pytest.mark.parametrize("needed", requirements(*EXTRAS), ids=str)
def test_the_lock_keeps_to_every_bound(needed: Requirement) -> None:
    assert lower_bound(needed) > Version("0")
    locked = locked_versions(LOCK.read_text())
    assert canonicalize_name(needed.name) in locked
    assert needed.specifier.contains(locked[canonicalize_name(needed.name)])


def test_the_lock_names_versions_and_nothing_else() -> None:
    lines = [line for line in LOCK.read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line) for line in lines), lines
    assert lines == sorted(lines, key=str.lower)
    assert len(lines) == len(locked_versions(LOCK.read_text())) > 40
    assert not re.search(r"://|@|\s/", LOCK.read_text())


def test_an_extra_repeats_its_bounds_in_dev() -> None:
    """So that what is tried here is what users are told."""
    dev = {needed.name: needed for needed in requirements("dev")}
    for extra in ("spark", "avro", "protobuf", "docs"):
        for text in PROJECT["optional-dependencies"][extra]:
            needed = Requirement(text)
            assert lower_bound(dev[needed.name]) == lower_bound(needed), text


def test_everything_that_is_imported_is_declared() -> None:
    """A package that only comes along with another may be gone with its next release."""
    declared = {canonicalize_name(needed.name) for needed in requirements("spark", "avro", "protobuf")}
    imported = {name for path in (ROOT / "src").rglob("*.py") for name in top_level_imports(path)}
    others = imported - set(sys.stdlib_module_names) - {"tidelog", "pyspark_tidelog"} - OPTIONAL
    missing = {name for name in others if canonicalize_name(IMPORTED_AS.get(name, name)) not in declared}
    assert missing <= KNOWN_TO_COME_ALONG, missing


KNOWN_TO_COME_ALONG = {"py4j"}
"""A part of pyspark."""


def top_level_imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def test_the_version_is_in_one_place() -> None:
    assert "version" in PROJECT["dynamic"]
    assert "version" not in PROJECT
    assert Version(tidelog.__version__) >= Version("0.1")
    where = [path for path in (ROOT / "src").rglob("*.py") if re.search(rf"['\"]{re.escape(tidelog.__version__)}['\"]", path.read_text())]
    assert [path.name for path in where] == ["version.py"]


def test_licences_are_shipped_and_there() -> None:
    for name in PROJECT["license-files"]:
        assert (ROOT / name).read_text().strip()


def test_bounds_are_read_as_pip_reads_them() -> None:
    assert lower_bound(Requirement("mkdocs>=1.6,<2")) == Version("1.6")
    with pytest.raises(ValueError, match="no lower bound"):
        lower_bound(Requirement("numpy<3"))
    assert oldest(Requirement("protobuf>=5"), ["7.1", "5.26.1", "5.27", "4.25", "5.26.0rc1"]) == Version("5.26.1")
    with pytest.raises(ValueError, match="no version there is"):
        oldest(Requirement("protobuf>=9"), ["7.1"])
    assert listed_versions("cramjam (2.14.0)\nAvailable versions: 2.14.0, 2.9.0\n") == ["2.14.0", "2.9.0"]
    assert listed_versions("nothing") == []
    assert development_tools("pytest") == [
        str(Requirement(text)) for text in PROJECT["optional-dependencies"]["dev"] if text[:8] == "pytest>="
    ]
