"""The site that `make docs` builds: strict about links, whole, and without anything from elsewhere. It takes some seconds a build."""

import importlib.util
import logging
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ELSEWHERE = re.compile(r"<(?:script|img|link|iframe)\b[^>]*(?:src|href)=[\"'](?:https?:)?//[^\"']*")


def on_page(page: Path, text: str) -> str:
    """What the hook makes of the text of a page."""
    spec = importlib.util.spec_from_file_location("hooks", DOCS / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    file = SimpleNamespace(abs_src_path=str(page), src_path=page.name)
    changed: str = hooks.on_page_markdown(text, SimpleNamespace(file=file), {"docs_dir": str(DOCS)}, None)
    return changed


def test_links_out_of_the_docs_become_text(caplog: pytest.LogCaptureFixture) -> None:
    text = "[code](../src/tidelog/errors.py), [a page](store.md#topics), [here](#below), [web](https://kafka.apache.org)"
    assert on_page(DOCS / "log.md", text) == text.replace("[code](../src/tidelog/errors.py)", "code")
    assert caplog.records == []


def test_a_link_to_nothing_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    on_page(DOCS / "playbooks" / "restore.md", "[code](../../src/nothing.py)")
    assert [(record.levelno, "src/nothing.py" in record.getMessage()) for record in caplog.records] == [(logging.WARNING, True)]


@pytest.mark.slow
def test_the_site(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings")
    done = build(ROOT, tmp_path / "site")
    assert (done.returncode, "WARNING" in done.stderr) == (0, False), done.stderr
    pages = {path.relative_to(tmp_path / "site").with_suffix(".md") for path in (tmp_path / "site").rglob("*.html")}
    assert {path.relative_to(DOCS) for path in DOCS.rglob("*.md")} <= pages
    store = (tmp_path / "site" / "api" / "store.html").read_text()
    assert "tidelog.store.Store.create_topic" in store  # by its docstring, wherever it is inherited from
    for path in (tmp_path / "site").rglob("*.html"):
        assert ELSEWHERE.findall(path.read_text()) == [], path.name


@pytest.mark.slow
@pytest.mark.parametrize("link", ["[gone](gone.md)", "[gone](store.md#gone)", "[gone](../gone.py)"])
def test_a_link_to_nothing_fails(link: str, tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings")
    shutil.copytree(DOCS, tmp_path / "docs", ignore=shutil.ignore_patterns("api"))
    nav = re.sub(r"^ +- API:\n(?: {10}- .*\n)+", "", (ROOT / "mkdocs.yml").read_text(), flags=re.MULTILINE)
    (tmp_path / "mkdocs.yml").write_text(nav)
    for name in ("api.md", "architecture.md", "interop.md"):
        (tmp_path / "docs" / name).write_text(f"# {name}\n\nThe heading is there.\n")
    (tmp_path / "docs" / "metrics.md").write_text(f"# Metrics\n\n{link}\n")
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode == 1
    assert [line for line in done.stderr.splitlines() if "WARNING" in line and "gone" in line], done.stderr


def build(root: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """`make docs`, elsewhere. Never with `--quiet`: what is not shown is no warning either."""
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(site)]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=120)
