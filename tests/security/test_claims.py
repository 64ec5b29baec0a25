"""docs/security.md proves its claims by naming tests: they are there, and so are the files."""

import ast
import re

from tests.lowest.bounds import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text()
NAMES = set(re.findall(r"`(test_\w+)`", PAGE))
PATHS = set(re.findall(r"`(tests/[\w/]+\.py)`", PAGE))


def test_every_test_that_is_named_is_there() -> None:
    files = [path for path in (ROOT / "tests").rglob("test_*.py") if "spark" not in path.parts]
    defined = {node.name for path in files for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}
    assert len(NAMES) > 15
    assert defined >= NAMES, NAMES - defined


def test_every_file_that_is_named_is_there() -> None:
    assert len(PATHS) > 3
    assert [path for path in PATHS if not (ROOT / path).is_file()] == []


def test_what_is_written_here_is_named_there() -> None:
    """A proof that nobody finds is none: each test of a single claim is named on the page, or its file is."""
    assert "tests/security/test_hostile_directory.py" in PATHS
    tree = ast.parse((ROOT / "tests/security/test_hostile_output.py").read_text())
    assert {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")} <= NAMES
