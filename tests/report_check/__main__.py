"""Look at reports in a real browser: `make report-check`, or `python -m tests.report_check [--keep DIRECTORY] [REPORT.html …]`.

Without a report of yours it makes three: of a store that is in order, of one that is damaged, and of a directory with names that are made
to do harm. Each is looked at in three widths, light with scripts turned off, and dark with scripts allowed: it must fetch nothing, say
nothing on the console, not scroll sideways, show its parts, and be readable. Pictures are kept in the directory that is named, otherwise
thrown away.
"""

import argparse
import base64
import sys
import tempfile
from pathlib import Path

from tests.report_check.browser import Browser, find_browser
from tests.report_check.looks import look, looks
from tests.report_check.sample_store import NOW_MS, build_hostile, build_sample
from tidelog.cli import main


def run(arguments: list[str] | None = None) -> int:
    """Look at all of them: 0 if nothing is wrong, 1 if something is, 3 without a browser."""
    parser = argparse.ArgumentParser(prog="make report-check", description=__doc__)
    parser.add_argument("pages", nargs="*", type=Path)
    parser.add_argument("--keep", type=Path, help="keep the pictures here")
    parser.add_argument("--picture", type=Path, help="only make this picture, that of the README")
    options = parser.parse_args(arguments)
    program = find_browser()
    if program is None:
        print("report-check: no browser; on Debian or Ubuntu: apt-get install chromium", file=sys.stderr)  # noqa: T201
        return 3
    with tempfile.TemporaryDirectory() as scratch:
        if options.picture is not None:
            _picture(program, Path(scratch), options.picture)
            return 0
        home = options.keep or Path(scratch)
        home.mkdir(parents=True, exist_ok=True)
        pages = options.pages or sample_pages(Path(scratch))
        with Browser(program) as browser:
            wrong = sum(_check(browser, page, home) for page in pages)
    print(f"report-check: {len(pages)} pages, {wrong} things wrong")  # noqa: T201
    return 1 if wrong else 0


def sample_pages(scratch: Path) -> list[Path]:
    """Reports of the stores that are made for it."""
    build_sample(scratch / "shop", scale=1.5)
    build_sample(scratch / "damaged", days=12, scale=0.3, damage=True)
    build_hostile(scratch / "hostile")
    pages = []
    for name in ("shop", "damaged", "hostile"):
        pages.append(scratch / f"{name}.html")
        code = main.run(["-q", "report", str(scratch / name), "-o", str(pages[-1]), "--records", "--now", f"@{NOW_MS}"])
        assert code == 0, f"tidelog report ended with {code}"
    return pages


def _picture(program: str, scratch: Path, output: Path) -> None:
    """The beginning of a page, as of a store in /data."""
    page = sample_pages(scratch)[0]
    page.write_text(page.read_text().replace(str(scratch), "/data"))
    with Browser(program) as browser:
        look(browser, page, 1440, "light")
        end = browser.evaluate("document.querySelector('.topic .cores').getBoundingClientRect().bottom + scrollY + 12")
        clip = {"x": 0, "y": 0, "width": 1440, "height": round(end), "scale": 1}
        shot = browser.tell("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
    output.write_bytes(base64.b64decode(shot["data"]))


def _check(browser: Browser, page: Path, home: Path) -> int:
    wrong = 0
    for one in looks(browser, page):
        (home / f"{page.stem}-{one.width}-{one.scheme}.png").write_bytes(one.picture)
        words, faintest = one.measured["words"], one.measured["faintest"][0]
        print(f"{page.name} at {one.width} px, {one.scheme}: {words} texts, contrast {faintest:.1f} and more")  # noqa: T201
        for trouble in one.troubles:
            print(f"  WRONG: {trouble}")  # noqa: T201
            wrong += 1
    for width in (360, 1440):
        (home / f"{page.stem}-{width}-whole.png").write_bytes(look(browser, page, width, "light", whole=True).picture)
    return wrong


if __name__ == "__main__":
    sys.exit(run())
