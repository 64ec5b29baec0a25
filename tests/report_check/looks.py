"""Look at a page in a browser: at three widths, light and dark, with scripts allowed and without. What is wrong is told in words."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.report_check.browser import Browser

WIDTHS = (360, 820, 1440)
SCHEMES = ("light", "dark")
LEAST_CONTRAST = 4.5
_HEIGHTS = {360: 780, 820: 1180, 1440: 900}
_SEEN = (
    "h1",
    "#summary .answer",
    "#summary .fatebar span",
    ".topic h3",
    ".core .rock",
    ".core svg path",
    "#throughput .chart svg",
    "#findings h2",
)
_MEASURE = """(() => {
  const seen = (one) => { const r = one.getBoundingClientRect(); const s = getComputedStyle(one);
    return r.width > 0 && r.height > 0 && s.visibility !== 'hidden' && s.opacity !== '0'; };
  const part = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (rgb) => { const f = rgb.map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * f[0] + 0.7152 * f[1] + 0.0722 * f[2]; };
  const ground = (one) => { for (; one; one = one.parentElement) { const c = part(getComputedStyle(one).backgroundColor);
    if (c.length < 4 || c[3] > 0.99) return c; } return [255, 255, 255]; };
  const contrast = (one) => { const a = light(part(getComputedStyle(one).color)), b = light(ground(one));
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); };
  const words = [...document.querySelectorAll('body *')].filter((one) => !one.closest('svg,script,.rock') && seen(one)
    && [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim()));
  const faint = words.map((one) => [contrast(one), one.textContent.trim().slice(0, 40)]).sort((a, b) => a[0] - b[0]);
  const wide = [...document.querySelectorAll('body *')].filter((one) => !one.closest('.scroll,svg,.rock') && seen(one)
    && one.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map((one) => one.tagName + '.' + one.className);
  return JSON.stringify({page: document.documentElement.scrollWidth, window: document.documentElement.clientWidth,
    height: document.documentElement.scrollHeight,
    unseen: %s.filter((name) => ![...document.querySelectorAll(name)].some(seen)), faintest: faint[0], wide: wide.slice(0, 5),
    small: words.filter((one) => parseFloat(getComputedStyle(one).fontSize) < 10).length,
    background: getComputedStyle(document.body).backgroundColor, words: words.length,
    title: document.title, scripts: document.scripts.length, facts: JSON.parse(document.getElementById('facts').textContent).type});
})()"""


class Look(NamedTuple):
    """One look at the page."""

    width: int
    scheme: str
    measured: dict[str, Any]
    troubles: tuple[str, ...]
    picture: bytes


def looks(browser: Browser, page: Path) -> Iterator[Look]:
    """The page in every width and scheme."""
    for scheme in SCHEMES:
        for width in WIDTHS:
            yield look(browser, page, width, scheme)


def look(browser: Browser, page: Path, width: int, scheme: str, *, whole: bool = False) -> Look:
    """The page as it is in one width and scheme; the picture shows what is seen first, or the `whole` page."""
    browser.tell(
        "Emulation.setDeviceMetricsOverride", width=width, height=_HEIGHTS.get(width, 900), deviceScaleFactor=1, mobile=width < 500
    )
    browser.tell("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    # The page has to do without scripts; and where they are allowed, none may run that a name has smuggled in.
    browser.tell("Emulation.setScriptExecutionDisabled", value=scheme == "light")
    browser.events.clear()
    browser.tell("Page.navigate", url=page.absolute().as_uri())
    browser.wait_for("Page.loadEventFired")
    measured = json.loads(browser.evaluate(_MEASURE % json.dumps(_SEEN)))
    options = {"clip": {"x": 0, "y": 0, "width": width, "height": min(measured["height"], 16_000), "scale": 1}} if whole else {}
    shot = browser.tell("Page.captureScreenshot", format="png", captureBeyondViewport=whole, **options)
    return Look(width, scheme, measured, tuple(troubles(browser.events, measured, page, scheme)), base64.b64decode(shot["data"]))


def troubles(events: list[dict[str, Any]], measured: dict[str, Any], page: Path, scheme: str) -> Iterator[str]:
    """What is wrong."""
    for event in events:
        method, told = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent" and told["request"]["url"] not in (page.absolute().as_uri(), "data:,"):
            yield f"asks for {told['request']['url']}"
        elif method in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
            yield f"the console has {json.dumps(told)[:200]}"
        elif method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            yield f"the console has {told['entry']['text'][:200]}"
    if measured["page"] > measured["window"]:
        yield f"is {measured['page']} pixels wide in a window of {measured['window']}: {', '.join(measured['wide'])}"
    if measured["wide"]:
        yield f"something sticks out on the right: {', '.join(measured['wide'])}"
    if measured["unseen"]:
        yield f"cannot be seen: {', '.join(measured['unseen'])}"
    if measured["faintest"][0] < LEAST_CONTRAST:
        yield f"a contrast of {measured['faintest'][0]:.2f}: {measured['faintest'][1]!r}"
    if measured["small"]:
        yield f"{measured['small']} texts are smaller than 10 pixels"
    is_dark = max(map(int, measured["background"].removeprefix("rgb(").removesuffix(")").split(", "))) < 80
    if is_dark != (scheme == "dark"):
        yield f"its background is {measured['background']} where it should be {scheme}"
    if measured["facts"] != "report":
        yield "its facts are none"
    if measured["scripts"] != 1 or not measured["title"].endswith(": tidelog report"):
        yield f"something has come out of its place: {measured['scripts']} scripts, title {measured['title']!r}"
