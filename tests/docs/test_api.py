"""The API reference has every public name, and names nothing that is not there."""

import ast
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from tests.docs.test_examples import EXAMPLES
from tidelog.log.positions import End

PAGES = sorted((Path(__file__).parents[2] / "docs" / "api").glob("*.md"))
NAMES = {page.stem: re.findall(r"^::: ([\w.]+)$", page.read_text(), re.MULTILINE) for page in PAGES}
PUBLIC = (
    "tidelog",
    "tidelog.store",
    "tidelog.log",
    "tidelog.record",
    "tidelog.inspection",
    "tidelog.retention",
    "tidelog.aio",
    "tidelog.spark",
    "tidelog.spark.jobs",
)
NO_PAGE = {"__version__", "aio"}
"""A text, and a module that has its own page."""
HANDED_ON = {"tidelog.disk.disk.OS"}
"""What an example imports only to hand it on."""


def resolve(path: str) -> Any:
    """What a name in the reference stands for."""
    home, _, name = path.rpartition(".")
    return getattr(importlib.import_module(home), name)  # first of all a name: `verify` is a function, and the module that it is in


def documented() -> list[Any]:
    """All that is in the reference; of a module that it has as a whole, what is in there."""
    found = [resolve(path) for paths in NAMES.values() for path in paths]
    return found + [value for one in found if inspect.ismodule(one) for value in vars(one).values()]


@pytest.mark.parametrize("page", NAMES)
def test_names_are_there_and_say_what_they_are(page: str) -> None:
    assert NAMES[page]
    for path in NAMES[page]:
        found = resolve(path)
        if inspect.isclass(found) or inspect.isfunction(found):
            assert found.__doc__, path


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_is_in_the_reference(module: str) -> None:
    found = documented()
    public = importlib.import_module(module)
    for name in set(public.__all__) - NO_PAGE:
        value = getattr(public, name)
        wanted = End if isinstance(value, End) else value  # EARLIEST and LATEST are shown where they are made
        assert any(one is wanted for one in found), f"{module}.{name}"


@pytest.mark.parametrize(("code", "printed"), EXAMPLES)
def test_what_an_example_imports_is_in_the_reference(code: str, printed: str | None) -> None:
    """What is not there may change with any release: nobody is shown how to build on that."""
    found = documented()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("tidelog"):
            for path in (f"{node.module}.{name.name}" for name in node.names):
                value = resolve(path)
                assert inspect.ismodule(value) or path in HANDED_ON or any(one is value for one in found), path
