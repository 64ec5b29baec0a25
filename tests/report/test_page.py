"""The page: well formed, by itself, small, and nothing that came from a disk is markup in it."""

import json
import re
from pathlib import Path

import pytest

from tests.report.support import Page, made
from tests.report_check.sample_store import HOSTILE, NOW_MS, build_hostile, build_sample
from tests.support.logs import a_batch
from tidelog.report.facts import Fate
from tidelog.report.fates import FATES
from tidelog.report.markup import embedded, text
from tidelog.report.page import POLICY
from tidelog.report.style import style_sheet
from tidelog.report.words import FATE_MEANING, FATE_WORDS

ELEMENTS = {
    "html", "head", "meta", "link", "title", "style", "script", "body", "div", "header", "main", "section", "article", "footer", "h1", "h2",
    "h3", "h4", "p", "span", "strong", "i", "br", "a", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "caption", "figure",
    "figcaption", "svg", "path", "rect", "details", "summary",
}  # fmt: skip


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    home = tmp_path_factory.mktemp("page")
    build_sample(home / "shop", days=5, scale=0.1)
    return made(home / "shop", home / "shop.html", "--records", "--now", f"@{NOW_MS}")


def assert_alone(page: Page) -> None:
    """Nothing but our own elements, no script, no handler, nothing that is fetched."""
    assert set(page.elements) <= ELEMENTS
    assert page.elements["script"] == 1
    for tag, name, value in page.attributes:
        assert not name.startswith("on")
        assert name != "src"
        if name == "href":
            assert value == "data:," if tag == "link" else re.fullmatch(r"#[a-z]+\d*", value or ""), value
        if name == "style":
            assert "url(" not in (value or "")
    assert ("meta", "content", POLICY) in page.attributes
    assert POLICY.startswith("default-src 'none'; style-src 'unsafe-inline';")
    assert "script-src" not in POLICY


def test_it_stands_by_itself(page: Page) -> None:
    assert_alone(page)
    assert "url(" not in style_sheet()
    assert "@import" not in style_sheet()
    assert len(page.ids) == len(set(page.ids))
    targets = {value[1:] for _, name, value in page.attributes if name == "href" and value and value.startswith("#")}
    assert targets <= set(page.ids)


def test_the_table_says_what_the_picture_shows(page: Page) -> None:
    """A row for every stratum, with its figures; and every layer leads to one."""
    number = 0
    for partition in page.facts["partitions"]:
        for stratum in partition["strata"]:
            cells = page.rows[f"s{number}"]
            assert cells[0] == str(partition["partition"])
            assert cells[1].replace("\u202f", "").startswith(str(stratum["base_offset"]))
            assert cells[3].replace("\u202f", "") == str(stratum["records"])
            assert ("active" in "".join(cells)) == stratum["is_active"]
            assert ("dirty" in cells[-2]) == bool(stratum["is_dirty"])
            number += 1
    assert page.elements["path"] >= number / 2


def test_the_first_screen_answers(page: Page) -> None:
    shown = " ".join(page.texts[:60])
    for answer in ("How much is here", "Is it sound", "What goes when", "✓ Sound", "All bytes by when they go"):
        assert answer in shown


@pytest.mark.parametrize("records", [True, False])
def test_hostile_names_stay_names(tmp_path: Path, *, records: bool) -> None:
    build_hostile(tmp_path / "bad")
    found = made(tmp_path / "bad", tmp_path / "bad.html", "--now", f"@{NOW_MS}", *(["--records"] if records else []))
    assert_alone(found)
    assert {one["topic"] for one in found.facts["topics"]} == set(HOSTILE)
    shown = "".join(found.texts)
    for name in HOSTILE[:3]:
        assert name in shown
    assert "\\udcff" in shown
    assert "\\u202e" in shown  # said, not obeyed
    assert "\u202e" not in shown
    if records:
        keys = {one["key"] for topic in found.facts["topics"] for one in topic["keys"]["hottest"]}
        assert "</script><script>document.title=1</script>" in keys
        assert "</script><script>document.title=1</script>" in shown
    content = (tmp_path / "bad.html").read_text()
    assert content.count("</script") == 1
    assert "<!--" not in content.replace("<!doctype", "")


@pytest.mark.parametrize("bad", ["</script>", "<!--<script>", "\u2028\u2029", "\udcff", "&amp;", '"', "\\", "]]>"])
def test_embedded_facts_cannot_end_early(bad: str) -> None:
    made_of = embedded({"x": bad})
    assert not set("<>&\u2028\u2029") & set(made_of)
    made_of.encode()
    assert json.loads(made_of)["x"].encode("utf-8", "backslashreplace") == bad.encode("utf-8", "backslashreplace")


def test_text_is_no_markup() -> None:
    assert text("<b a=\"1\" c='2'>&") == "&lt;b a=&quot;1&quot; c=&#x27;2&#x27;&gt;&amp;"
    assert text("\x00\x1b\u202e\udcff\ud800") == "\\x00\\x1b\\u202e\\udcff\\ud800"


def write_segments(path: Path, partitions: int, segments: int) -> None:
    """Segments of one batch each, as files: to append them would take minutes."""
    for partition in range(partitions):
        directory = path / f"many-{partition}"
        directory.mkdir(parents=True)
        for number in range(segments):
            batch = a_batch(3, base_offset=3 * number, timestamp_ms=NOW_MS - (segments - number) * 3_600_000)
            (directory / f"{3 * number:020d}.log").write_bytes(batch)


def test_a_thousand_segments_are_less_than_a_megabyte_and_more_are_summed_up(tmp_path: Path) -> None:
    write_segments(tmp_path / "many", 4, 250)
    found = made(tmp_path / "many", tmp_path / "many.html", "--now", f"@{NOW_MS}")
    assert [len(one["strata"]) for one in found.facts["partitions"]] == [250] * 4
    assert found.facts["totals"]["segments"] == 1000
    assert found.size_bytes < 1_000_000
    assert_alone(found)
    (tmp_path / "more").mkdir()
    for number in range(4):
        (tmp_path / "many" / f"many-{number}").rename(tmp_path / "more" / f"many-{number}")
    write_segments(tmp_path / "other", 1, 400)
    (tmp_path / "other" / "many-0").rename(tmp_path / "more" / "many-4")
    found = made(tmp_path / "more", tmp_path / "more.html", "--now", f"@{NOW_MS}")
    told = found.facts
    strata = [one for partition in told["partitions"] for one in partition["strata"]]
    assert told["totals"]["segments"] == sum(one["segments"] for one in told["fates"]) == sum(one["segments"] for one in strata) == 1400
    assert told["totals"]["size_bytes"] == sum(one["size_bytes"] for one in strata)
    assert len(strata) <= 1000
    assert {one["segments"] for one in strata} <= {1, 2}
    assert found.size_bytes < 1_000_000


def test_every_fate_has_its_words_and_its_colours() -> None:
    for fate in FATES:
        assert FATE_WORDS[fate]
        assert FATE_MEANING[fate]
        assert style_sheet().count(f"--{fate}:#") == 2


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_labels_can_be_read_on_every_layer(scheme: str) -> None:
    light, _, dark = style_sheet().partition("@media (prefers-color-scheme:dark)")
    colours = dict(re.findall(r"--([a-z0-9]+):(#[0-9a-f]{6})", light if scheme == "light" else dark))
    fates: tuple[Fate, ...] = FATES
    for fate in fates:
        assert contrast(colours["on"], colours[fate]) >= 4.5, fate
    for word in ("ink", "soft", "accent", "bad", "warn", "good"):
        for ground in ("paper", "card"):
            assert contrast(colours[word], colours[ground]) >= 4.5, (word, ground)
