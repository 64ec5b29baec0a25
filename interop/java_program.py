"""A program of interop/java that runs beside us, for as long as we want it, and no longer. The only module that starts a JVM.

Its standard input is a pipe that we hold. The programs end with it, so none is left behind, whatever happens to us. What they say on
standard error, and what Kafka logs, goes to a file, which is shown when one of them fails.

One that can be asked is asked line by line: a line of JSON is a request, a line of JSON the answer (`interop/java/Jobs.java`).
"""

import contextlib
import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

RUN_JAVA = Path(__file__).parent / "run-java"

SMALL_JVM = "-Xmx512m -XX:TieredStopAtLevel=1"
"""It starts faster when it does not compile as well as it can."""


class JavaError(Exception):
    """A job failed, or the program is gone."""


class JavaProgram:
    """Started when it is made. One that has answers prints them; what others print goes where their messages go."""

    def __init__(
        self,
        program: str,
        *arguments: str | Path,
        version: str,
        messages: Path,
        has_answers: bool = False,
        log_level: str = "warn",
        jvm: str = SMALL_JVM,
    ) -> None:
        self.name = program
        self.messages = messages
        # Codecs unpack their native code, and do not get to remove it when the JVM is killed.
        self._scratch = tempfile.TemporaryDirectory(prefix="tidelog-java-")
        flags = f"{jvm} -Djava.io.tmpdir={self._scratch.name}"
        environment = os.environ | {"KAFKA_VERSION": version, "KAFKA_LOG": log_level, "JAVA_FLAGS": flags}
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
                with contextlib.suppress(BrokenPipeError):  # a request that it did not live to read
                    pipe.close()
        self._scratch.cleanup()


class AskedProgram(JavaProgram):
    """A context manager. One request at a time."""

    def __init__(
        self, program: str, *arguments: str | Path, version: str, messages: Path, log_level: str = "warn", timeout_s: float = 90
    ) -> None:
        super().__init__(program, *arguments, version=version, messages=messages, has_answers=True, log_level=log_level)
        self._timeout_s = timeout_s

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()

    def ask(self, job: str, *, is_alive: Callable[[], bool] = lambda: True, **fields: Any) -> Any:
        """The answer of a job. Nobody waits for it once `is_alive` says no."""
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        try:
            requests.write(json.dumps({"job": job, **fields}).encode() + b"\n")
            requests.flush()
        except BrokenPipeError as error:
            raise JavaError(f"ended before {job}; {self.last_words()}") from error
        deadline = time.monotonic() + self._timeout_s
        while not select.select([answers], [], [], 0.2)[0]:
            if not is_alive() or not self.is_running or time.monotonic() > deadline:
                raise JavaError(f"no answer to {job}; {self.last_words()}")
        line = answers.readline()
        if not line:
            raise JavaError(f"ended during {job}; {self.last_words()}")
        answer = json.loads(line)
        if "error" in answer:
            raise JavaError(f"{job}: {answer['error']}")
        return answer["answer"]
