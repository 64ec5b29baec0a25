"""Kafka's own log on the JVM, alive between two passes (interop/java/LogBench.java), so that both sides can take turns.

Reproduce: `echo pass | interop/run-java LogBench open folder=DIR clean=true`
"""

import json
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.jvm import ROOT, RUN_JAVA, CannotRunError

Answer = dict[str, Any]


class LogJvm:
    """One job in one process. Options are given with underscores for hyphens, topic settings by their Kafka names."""

    def __init__(self, job: str, *, settings: dict[str, str] | None = None, **options: object) -> None:
        words = {name.replace("_", "-"): str(value) for name, value in options.items()} | (settings or {})
        self._command = [str(RUN_JAVA), "LogBench", job, *(f"{name}={value}" for name, value in words.items())]
        self.version = ""
        """Known after the first answer."""

    def __enter__(self) -> Self:
        self._errors = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            self._command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait()
        self._errors.close()

    def go(self) -> Answer:
        """One pass, timed by the other side."""
        return self._ask("pass")

    def check(self) -> Answer:
        """The same work, untimed, with something to compare."""
        return self._ask("check")

    def warm_up(self, seconds: float) -> None:
        """Passes until the clock of the other side has run for so long."""
        while seconds > 0:
            answer = self.go()
            seconds -= answer["seconds"] if "seconds" in answer else answer["count"] * answer["median_ns"] / 1e9

    def _ask(self, command: str) -> Answer:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            print(command, file=stdin, flush=True)
            line = stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            code = self._process.wait()
            self._errors.seek(0)
            raise CannotRunError(f"{' '.join(self._command)} failed with exit code {code}:\n{self._errors.read().strip()}")
        answer: Answer = json.loads(line)
        self.version = f"Apache Kafka {answer['kafka_version']}, Java {answer['java_version']}"
        return answer


def temporary_file(folder: Path, name: str, content: bytes) -> Path:
    """Something to hand over that is too long for the command line."""
    path = folder / name
    path.write_bytes(content)
    return path
