"""Links lead somewhere: to a file that is there, and to a heading that it has. And every page can be found."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
LINK = re.compile(r"\]\(([^)\s#]*)(?:#([^)\s]*))?\)")
CODE = re.compile(r"^```.*?^```|^ {4}.*?$", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#{1,6} (.*)$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """As the repository's web pages and the site make them: small letters, digits and hyphens; a second one of a name is numbered."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in HEADING.findall(CODE.sub("", page.read_text())):
        slug = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def links(text: str) -> Iterator[tuple[str, str]]:
    """Where a page leads to: file and heading, either of which may be empty."""
    for target, anchor in LINK.findall(re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)):
        if not target.startswith("https://"):
            yield target, anchor


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in links(page.read_text()):
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), f"{page.name} links to {target}"
        assert path.is_relative_to(ROOT), f"{page.name} links to {target}, which is outside"
        if anchor:
            assert anchor in anchors(path), f"{page.name} links to {target}#{anchor}; there are {sorted(anchors(path))}"


def test_links_were_found() -> None:
    found = [link for page in PAGES for link in links(page.read_text())]
    assert len(found) > 100
    assert sum(1 for _, anchor in found if anchor) > 20


@pytest.mark.parametrize("page", [page for page in PAGES if DOCS in page.parents], ids=lambda page: page.relative_to(DOCS).as_posix())
def test_a_page_is_in_the_table_of_the_site_and_linked_from_another(page: Path) -> None:
    name = page.relative_to(DOCS).as_posix()
    assert re.search(rf": {re.escape(name)}$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE), f"mkdocs.yml does not have {name}"
    others = (other for other in PAGES if other != page)
    leads = {(other.parent / target).resolve() for other in others for target, _ in links(other.read_text()) if target}
    assert page in leads
