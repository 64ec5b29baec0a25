"""The commands in the guides and playbooks, typed as they are printed there, print what is printed there."""

import re
from pathlib import Path

import pytest

from tests.docs.scenes import SCENES, scene_of
from tests.docs.session import EXIT_CODE, HOME, Session, matches, typed_in

DOCS = Path(__file__).parents[2] / "docs"
ELSEWHERE = {"command-line.md"}
"""Its session is in `tests/cli/test_documented.py`."""
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if page.name not in ELSEWHERE and list(typed_in(page.read_text()))]
OTHER_BLOCK = re.compile(r"^```(?:sh|bash|shell)\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.leaves
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page(page: Path, tmp_path: Path) -> None:
    scene_of(page)(tmp_path)
    session, lines = Session(tmp_path), list(typed_in(page.read_text()))
    for number, (line, printed) in enumerate(lines):
        found = session.type(line)
        assert matches(printed, found), f"$ {line}\n{found}"
        is_asked = [following.line for following in lines[number + 1 : number + 2]] == [EXIT_CODE]
        assert session.exit_code == 0 or is_asked or line == EXIT_CODE, f"$ {line}\nexit code {session.exit_code}"


def test_pages_and_scenes_were_found() -> None:
    assert {page.stem for page in PAGES} >= SCENES.keys()
    assert len(PAGES) >= len(SCENES) >= 7


def test_commands_of_ours_are_nowhere_else() -> None:
    """A block for the shell has what others do: Kafka's tools, the system's."""
    for page in DOCS.rglob("*.md"):
        for block in OTHER_BLOCK.findall(page.read_text()):
            assert not re.search(r"^\s*(?:\$ )?tidelog\b", block, re.MULTILINE), f"{page.name}: {block}"


def test_no_path_of_this_machine_is_on_a_page() -> None:
    for page in PAGES:
        for _, printed in typed_in(page.read_text()):
            assert re.findall(r"(?<![\w.])/(?!srv\b)(?:tmp|dev|root|work)\b\S*", printed) == [], page.name
    assert HOME == "/srv"


@pytest.mark.parametrize(
    ("printed", "found", "is_same"),
    [("a … c\n", "a b c\n", True), ("a … c\n", "a b\nb c\n", False), ("a\n", "a\nb\n", False), ("(a)…\n", "(a)\n", True)],
)
def test_an_ellipsis_is_for_one_line(printed: str, found: str, *, is_same: bool) -> None:
    assert matches(printed, found) == is_same
