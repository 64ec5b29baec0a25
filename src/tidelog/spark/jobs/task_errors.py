"""What went wrong in a task, as the error that it was.

Executors are other processes, and behind Spark's: of an exception only its text comes back, in the midst of stacks of Java. The line that
counts begins with the name of its class. Errors about the data are not raised by tasks at all, they are their answers.
"""

import re

from tidelog import errors
from tidelog.errors import JobFailedError, TidelogError

_LINE = re.compile(r"^(?:.*?\s)?((?:[A-Za-z_]\w*\.)+[A-Za-z_]\w*(?:Error|Exception|Exit|Interrupt)): (.+)$", re.MULTILINE)
_PYTHON_FRAMES = ("pyspark.", "py4j.", "org.", "java.", "scala.")
_WORKER_GONE = ("Python worker exited unexpectedly", "ExecutorLostFailure", "Python worker process", "Connection reset")


def typed_error(error: Exception, where: str) -> TidelogError:
    """The error that stopped a stage: ours if a task has raised one of ours, otherwise what Spark says, in one line."""
    if isinstance(error, TidelogError):
        return error
    text = str(error)
    found = [(name, message) for name, message in _LINE.findall(text) if not name.startswith(_PYTHON_FRAMES)]
    if found:
        name, message = found[-1]
        module, _, kind = name.rpartition(".")
        if module == errors.__name__ and isinstance(getattr(errors, kind, None), type):
            return _rebuilt(getattr(errors, kind), message.strip(), where)
        return JobFailedError(f"{where}: {kind}: {message.strip()}", hint=_HINT)
    if any(sign in text for sign in _WORKER_GONE):
        return JobFailedError(f"{where}: a worker process ended unexpectedly", hint=f"was it killed, or out of memory? {_HINT}")
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return JobFailedError(f"{where}: {first}", hint=_HINT)


_HINT = "nothing was changed; running it again is safe"


def _rebuilt(kind: type[TidelogError], message: str, where: str) -> TidelogError:
    """An error of that kind with that text. Its facts are in the text: they did not come back one by one."""
    error = kind.__new__(kind)
    TidelogError.__init__(error, f"{where}: {message}")
    return error
