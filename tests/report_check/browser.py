"""A real browser, without a window, told what to do through a pair of pipes: Chromium's own protocol, and no package for it."""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_WAIT_S = 60
_FLAGS = (
    "--headless=new", "--remote-debugging-pipe", "--no-first-run", "--no-default-browser-check", "--disable-gpu", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions", "--force-color-profile=srgb",
    "--disable-dev-shm-usage",
)  # fmt: skip


def find_browser() -> str | None:
    """Where one is: on the path, or where Playwright puts it."""
    for name in NAMES:
        found = shutil.which(name)
        if found is not None:
            return found
    homes = [Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH", Path.home() / ".cache" / "ms-playwright"))]
    return next((str(path) for home in homes for path in sorted(home.glob("chromium-*/chrome-linux*/chrome"))), None)


class BrowserError(Exception):
    """The browser did not do what it was told."""


class Browser:
    """One page of a browser. A context manager; ends the process that it has started."""

    def __init__(self, program: str) -> None:
        self.events: list[dict[str, Any]] = []
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # root cannot have one
        # It reads from 3 and writes to 4, whatever numbers the pipes have here.
        shell = f'exec 3<&{to_browser} 4>&{from_browser}; exec "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", shell, "bash", program, *_FLAGS, *sandbox, f"--user-data-dir={self._profile.name}", "about:blank"],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._reader = os.fdopen(self._in, "rb")
        self._number = 0
        self._session: str | None = None
        target = self.tell("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.tell("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.tell(f"{domain}.enable")

    def tell(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command, and wait for its answer; events that come meanwhile are kept."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def wait_for(self, method: str) -> None:
        """Wait until an event has come."""
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self._next())

    def evaluate(self, expression: str) -> Any:
        """What an expression is worth in the page."""
        result = self.tell("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise BrowserError(f"{expression[:60]}: {result['exceptionDetails']['text']}")
        return result["result"].get("value")

    def _next(self) -> dict[str, Any]:
        data = bytearray()
        while (byte := self._reader.read(1)) != b"\0":
            if not byte:
                raise BrowserError(f"the browser has ended, with {self._process.poll()}")
            data += byte
        message: dict[str, Any] = json.loads(data)
        return message

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self._out)
        self._reader.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_WAIT_S)
        self._profile.cleanup()
