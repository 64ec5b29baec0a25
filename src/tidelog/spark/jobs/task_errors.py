"""What went wrong in a task, as the error that it was.

Executors are other processes, and behind Spark's: of an exception only its text comes back, in the midst of stacks of Java. The line that
counts begins with the name of its class. Errors about the data are not raised by tasks at all, they are their answers.

    tidelog.errors.DiskFullError: /data/…: …      one of ours: as it was
    OSError: [Errno 28] No space left on device   what the operating system refused: a storage error of ours
    KeyError: 'x'                                 anything else: the job has failed, and says why
"""

import builtins
import re

from tidelog import errors
from tidelog.errors import JobFailedError, TidelogError
from tidelog.log.storage_errors import storage_error

_NAME = r"[A-Za-z_]\w*(?:Error|Exception|Exit|Interrupt)"
_LINE = re.compile(rf"^(?:(?:.*?\s)?((?:[A-Za-z_]\w*\.)+{_NAME}): (.+)|({_NAME})(?:: (.+))?)$", re.MULTILINE)
"""Names with their modules may stand behind something, as "Caused by:". Python's own have none, and stand alone where they have no text:
they count only where a line begins, since a stack also shows lines of code."""
_ERRNO = re.compile(r"\[Errno (\d+)\] (.*?)(?:: '([^']*)'(?: -> '[^']*')?)?")
_NOT_OF_FILES = (ConnectionError, TimeoutError)
_PYTHON_FRAMES = ("pyspark.", "py4j.", "org.", "java.", "scala.")
NOTHING_CHANGED = "nothing was changed; running it again is safe"
"""What holds for nearly every stage: what changes something comes behind the last of them."""
_CALLING = "An error occurred while calling "
"""How Py4J begins: the method that was called, which says nothing. What was wrong is in the next line."""
_WORKER_GONE = ("Python worker exited unexpectedly", "ExecutorLostFailure", "Python worker process", "Connection reset")


def typed_error(error: Exception, where: str) -> TidelogError:
    """The error that stopped a stage: ours if a task has raised one of ours, otherwise what Spark says, in one line."""
    if isinstance(error, TidelogError):
        return error
    text = str(error)
    lines = [(with_module or alone, said or said_alone) for with_module, said, alone, said_alone in _LINE.findall(text)]
    found = [(name, message.strip()) for name, message in lines if not name.startswith(_PYTHON_FRAMES)]
    if found:
        name, message = found[-1]
        module, _, kind = name.rpartition(".")
        if module == errors.__name__ and isinstance(getattr(errors, kind, None), type):
            return _rebuilt(getattr(errors, kind), message, where)
        own = None if module else getattr(builtins, kind, None)
        if isinstance(own, type) and issubclass(own, OSError) and not issubclass(own, _NOT_OF_FILES):
            return _refused(message or kind, where)
        return JobFailedError(f"{where}: {kind}: {message}" if message else f"{where}: {kind}", hint=NOTHING_CHANGED)
    if any(sign in text for sign in _WORKER_GONE):
        return JobFailedError(f"{where}: a worker process ended unexpectedly", hint=f"was it killed, or out of memory? {NOTHING_CHANGED}")
    said = (line.strip().removeprefix(": ") for line in text.splitlines() if not line.startswith(_CALLING))
    first = next(filter(None, said), type(error).__name__)
    return JobFailedError(f"{where}: {first}", hint=NOTHING_CHANGED)


def with_hint(error: TidelogError, hint: str) -> TidelogError:
    """The error of a stage by which something has changed, or may have: with that instead of `NOTHING_CHANGED`."""
    if error.hint is not None:
        error.hint = error.hint.replace(NOTHING_CHANGED, hint)
    return error


def _rebuilt(kind: type[TidelogError], message: str, where: str) -> TidelogError:
    """An error of that kind with that text. Its facts are in the text: they did not come back one by one."""
    error = kind.__new__(kind)
    TidelogError.__init__(error, f"{where}: {message}")
    return error


def _refused(message: str, where: str) -> TidelogError:
    """What the operating system has refused a task, as it would have been raised here."""
    parsed = _ERRNO.fullmatch(message)
    refused = OSError(message) if parsed is None else OSError(int(parsed[1]), parsed[2])
    error = storage_error(refused, None if parsed is None else parsed[3], where)
    error.hint = NOTHING_CHANGED
    return error
