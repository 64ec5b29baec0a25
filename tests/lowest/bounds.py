"""The lower bounds that pyproject.toml promises, and the oldest versions that keep to them."""

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
_AVAILABLE = re.compile(r"^Available versions: (.+)$", re.MULTILINE)


def requirements(*extras: str) -> list[Requirement]:
    """What the package depends on directly, and its extras with it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    texts = [*project["dependencies"], *(text for extra in extras for text in project["optional-dependencies"][extra])]
    return [Requirement(text) for text in texts]


def development_tools(*names: str) -> list[str]:
    """Requirements of the extra `dev`, by the names of their packages, as they are written there."""
    return [str(found) for found in requirements("dev") if found.name in names]


def lower_bound(requirement: Requirement) -> Version:
    """The version from which on a requirement is satisfied."""
    bounds = [Version(clause.version) for clause in requirement.specifier if clause.operator in (">=", "==", "~=")]
    if not bounds:
        raise ValueError(f"{requirement} has no lower bound: nobody knows with what it was ever tried")
    return max(bounds)


def oldest(requirement: Requirement, available: Iterable[str]) -> Version:
    """The oldest of these versions that satisfies a requirement."""
    fitting = [version for version in map(Version, available) if requirement.specifier.contains(version, prereleases=False)]
    if not fitting:
        raise ValueError(f"no version there is satisfies {requirement}")
    return min(fitting)


def listed_versions(answer: str) -> list[str]:
    """The versions in what `pip index versions` prints."""
    found = _AVAILABLE.search(answer)
    return [] if found is None else found[1].split(", ")


def locked_versions(text: str) -> dict[str, Version]:
    """Versions by the name of the package, of a file that `pip freeze` has written."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {canonicalize_name(name): Version(version) for name, _, version in (line.partition("==") for line in lines)}
