"""Arguments that are understood without a parser of options, because to load one takes longer than what is asked for.

`dump` is what scripts call by the thousand, with a file and a flag or two. As soon as there is anything else among its arguments, or in the
variables of the environment that stand for options, it is left to the parser, which has the words for what is wrong and for help.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_FLAGS = ("--records", "--deep", "--skip-damage", "--json", "--raw")
"""In the order of `DumpOptions`."""
_VARIABLES = ("TIDELOG_", "_TIDELOG_")
"""How those begin that stand for options, or ask for completion."""
_NOT_OPTIONS = {"TIDELOG_KERNEL", "TIDELOG_OPTIMIZE", "TIDELOG_REQUIRE_KERNEL"}
"""Variables that say how the package is built and which kernel it runs."""


class DumpOptions(NamedTuple):
    """What `dump` is asked for."""

    records: bool = False
    deep: bool = False
    skip_damage: bool = False
    as_json: bool = False
    raw: bool = False
    io_limit: str | None = None


def plain_dump(arguments: Sequence[str]) -> tuple[list[Path], DumpOptions] | None:
    """The paths and options of `dump`; None if they take a parser to tell."""
    if not arguments or arguments[0] != "dump" or any(map(_is_option, os.environ)):
        return None
    flags = {argument for argument in arguments[1:] if argument.startswith("-")}
    paths = [Path(argument) for argument in arguments[1:] if argument not in flags]
    if not paths or "" in arguments or not flags <= set(_FLAGS):
        return None
    records, deep, skip_damage, as_json, raw = (flag in flags for flag in _FLAGS)
    return paths, DumpOptions(records, deep, skip_damage, as_json, raw)


def _is_option(variable: str) -> bool:
    return variable.startswith(_VARIABLES) and variable not in _NOT_OPTIONS
