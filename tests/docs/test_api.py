"""The API reference has every public name, and names nothing that is not there."""

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

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


def resolve(path: str) -> Any:
    """What a name in the reference stands for."""
    home, _, name = path.rpartition(".")
    return getattr(importlib.import_module(home), name)  # first of all a name: `verify` is a function, and the module that it is in


@pytest.mark.parametrize("page", NAMES)
def test_names_are_there_and_say_what_they_are(page: str) -> None:
    assert NAMES[page]
    for path in NAMES[page]:
        found = resolve(path)
        if inspect.isclass(found) or inspect.isfunction(found):
            assert found.__doc__, path


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_is_in_the_reference(module: str) -> None:
    documented = [resolve(path) for paths in NAMES.values() for path in paths]
    documented += [value for one in documented if inspect.ismodule(one) for value in vars(one).values()]
    public = importlib.import_module(module)
    for name in set(public.__all__) - NO_PAGE:
        value = getattr(public, name)
        wanted = End if isinstance(value, End) else value  # EARLIEST and LATEST are shown where they are made
        assert any(one is wanted for one in documented), f"{module}.{name}"
