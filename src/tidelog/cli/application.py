"""The parser of options: the program as Typer knows it, and how what it raises is told. Loaded as soon as there is something to parse."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from tidelog.cli.output import FAILED, INTERRUPTED, WRONG_USE, note, show_traces, silence
from tidelog.cli.registry import CommandGroup

app = typer.Typer(
    name="tidelog",
    cls=CommandGroup,
    help="The Apache Kafka log as a library: look into, verify and rewrite log directories, with no broker.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

# Newer Typers bring a copy of click of their own, older ones use the real one: these are the classes of either.
_UsageError = typer.BadParameter.__bases__[0]
_ClickException = _UsageError.__bases__[0]
_NO_COMMAND = "NoArgsIsHelpError"
"""Nothing was asked for: what it says is the help, and no error."""


def _print_version(asked: bool) -> None:
    if asked:
        from tidelog import __version__, kernel_mode

        typer.echo(f"tidelog {__version__} (kernel: {kernel_mode()})")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version, and whether the kernel is compiled."),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", envvar="TIDELOG_QUIET", help="Say nothing but results and errors.")] = False,
    debug: Annotated[bool, typer.Option("--debug", envvar="TIDELOG_DEBUG", help="Show where in the program an error was met.")] = False,
) -> None:
    """Options before the command."""
    silence(quiet)
    show_traces(debug)


def parse_and_run(arguments: Sequence[str]) -> Any:
    """Run what the arguments ask for: the exit code, if the command gives one."""
    return app(list(arguments), prog_name="tidelog", standalone_mode=False)


def code_of(error: BaseException) -> int | None:
    """The exit code for what the parser raises, which is told; None for an error of anybody else."""
    if isinstance(error, typer.Abort):
        return INTERRUPTED
    if not isinstance(error, _ClickException):
        return None
    said: Any = error
    context, text = getattr(said, "ctx", None), said.format_message()
    if type(error).__name__ == _NO_COMMAND:
        note(text)
        return WRONG_USE
    note(f"error: {text}")
    note(f"hint: {context.command_path if context is not None else 'tidelog'} --help")
    return WRONG_USE if isinstance(error, _UsageError) else FAILED
