"""Every Python example in the README and the docs runs as printed, and prints what the page says."""

import contextlib
import io
import re
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\s*prints\s*```text\n(.*?)^```)?", re.DOTALL | re.MULTILINE)
DAMAGE = {"repair.md", "verify.md"}
"""Pages that show what to do about it."""
EXAMPLES = [
    pytest.param(match[1], match[2], id=f"{page.name}-{number}", marks=[pytest.mark.leaves] if page.name in DAMAGE else [])
    for page in PAGES
    for number, match in enumerate(BLOCK.finditer(page.read_text()), start=1)
]


@pytest.mark.parametrize(("code", "printed"), EXAMPLES)
def test_example(code: str, printed: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # examples leave what they make
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "example", "exec"), {})  # noqa: S102
    assert out.getvalue() == (printed or "")


def test_examples_were_found() -> None:
    assert len(EXAMPLES) >= 30
