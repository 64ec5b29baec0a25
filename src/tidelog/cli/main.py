"""`tidelog`: the entry point, and what a command ends with, however it ends."""

import io
import os
import re
import sys
from collections.abc import Sequence

from tidelog.cli.closed_streams import lead_closed_nowhere
from tidelog.cli.interrupts import interrupts_kept
from tidelog.cli.output import DONE, INTERRUPTED, close_quietly, flush_or_give_up, is_debugging, print_error, show_traces, silence
from tidelog.cli.plain_arguments import plain_dump

_EVERYWHERE = ("-q", "--quiet", "--debug")
"""Options of the program that may also stand behind the command."""
_SPARK = "--spark"
_MASTER = re.compile(r"(local(\[.*\])?|yarn|[a-z0-9]+://.*)\Z")


def main() -> None:
    """Run the command line."""
    lead_closed_nowhere()
    # Numpy starts a thread for each core, for matrices that nobody multiplies here: that takes longer than to load it.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with interrupts_kept():
        code = run()
    sys.exit(code)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command, that of the process if none is given: its exit code. Errors are two lines, and no traceback.

    What `-q` and `--debug` ask for ends with the command: a program may run several.
    """
    try:
        return _run(sys.argv[1:] if arguments is None else arguments)
    finally:
        silence(False)
        show_traces(False)


def _run(arguments: Sequence[str]) -> int:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")  # JSON is UTF-8, whatever the locale
    try:
        code = _start(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        close_quietly()  # `tidelog cat … | head` has what it wanted
        return DONE
    except SystemExit as error:
        try:
            return _end(error)
        except OSError as unwritten:
            return _tell(unwritten, arguments)
    except KeyboardInterrupt:
        flush_or_give_up()
        return INTERRUPTED
    except Exception as error:
        return _tell(error, arguments)
    return code


def _start(arguments: Sequence[str]) -> int:
    """Do what is asked for, by the shortest way."""
    asked = plain_dump(arguments)
    if asked is not None:
        from tidelog.cli.dump_files import dump_files

        dump_files(*asked)
        return DONE
    from tidelog.cli.application import parse_and_run

    code = parse_and_run(in_front(arguments))
    return code if isinstance(code, int) else DONE


def in_front(arguments: Sequence[str]) -> list[str]:
    """The same arguments, with options of the program before the command wherever they were; behind `--` everything stays."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    own = [argument for argument in arguments[:end] if argument in _EVERYWHERE]
    others = [argument for argument in arguments[:end] if argument not in _EVERYWHERE]
    return [*own, *_with_master(others), *arguments[end:]]


def _with_master(arguments: Sequence[str]) -> list[str]:
    """`--spark` with the master that follows it; without one, with that of this machine: what follows is a topic then."""
    found: list[str] = []
    for argument in arguments:
        if found and found[-1] == _SPARK and _MASTER.match(argument):
            found[-1] = f"{_SPARK}={argument}"
        else:
            found.append(argument)
    return [f"{_SPARK}=local[*]" if argument == _SPARK else argument for argument in found]


def _end(error: SystemExit) -> int:
    """What click ends itself with: a pipe that was closed, which it has met before us, or completion, which has printed its answer."""
    if isinstance(error.__context__, BrokenPipeError):
        close_quietly()
        return DONE
    sys.stdout.flush()
    return error.code if isinstance(error.code, int) else DONE


def _tell(error: Exception, arguments: Sequence[str]) -> int:
    """The exit code for an error, which is told; with `--debug` it is raised again."""
    flush_or_give_up()  # or what a full disk has refused would be tried once more when the interpreter ends, and told by it
    if "typer" in sys.modules:
        from tidelog.cli.application import code_of

        code = code_of(error)
        if code is not None:
            return code
    if is_debugging():
        raise error
    return print_error(error, arguments)
