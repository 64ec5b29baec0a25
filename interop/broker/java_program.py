"""A program of interop/java that runs beside us, for as long as we want it, and no longer.

Its standard input is a pipe that we hold. The programs end with it, so none is left behind, whatever happens to us. What they say on
standard error, and what Kafka logs, goes to a file, which is shown when one of them fails.
"""

import os
import subprocess
from pathlib import Path
from typing import IO

RUN_JAVA = Path(__file__).parents[1] / "run-java"

SMALL_JVM = "-Xmx512m -XX:TieredStopAtLevel=1"
"""It starts faster when it does not compile as well as it can."""


class JavaProgram:
    """Started when it is made. One that has answers prints them; what others print goes where their messages go."""

    def __init__(self, program: str, *arguments: str | Path, version: str, messages: Path, has_answers: bool) -> None:
        self.name = program
        self.messages = messages
        environment = os.environ | {"KAFKA_VERSION": version, "KAFKA_LOG": "warn", "JAVA_FLAGS": SMALL_JVM}
        with messages.open("ab") as file:
            self._process = subprocess.Popen(
                [RUN_JAVA, program, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if has_answers else file,
                stderr=file,
                env=environment,
            )

    @property
    def pid(self) -> int:
        """Its process; the script that starts the JVM becomes it."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def requests(self) -> IO[bytes]:
        """What it reads."""
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def answers(self) -> IO[bytes]:
        """What it prints."""
        assert self._process.stdout is not None
        return self._process.stdout

    def terminate(self, timeout_s: float = 60) -> int:
        """Ask it to end, and wait; if it does not, it is killed. Gives back its exit status."""
        self._process.terminate()
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        finally:
            self._close()

    def kill(self) -> None:
        """End it at once, if it has not ended yet."""
        self._process.kill()
        self._process.wait()
        self._close()

    def wait(self, timeout_s: float) -> int:
        """Its exit status."""
        return self._process.wait(timeout_s)

    def last_words(self, count: int = 60) -> str:
        """The end of what it said on standard error."""
        return "\n".join([f"{self.name} said in {self.messages}:", *self.messages.read_text(errors="replace").splitlines()[-count:]])

    def _close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
