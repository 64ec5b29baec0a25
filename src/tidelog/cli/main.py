"""`tidelog`: the entry point and the options that every command shares."""

from typing import Annotated

import typer

app = typer.Typer(
    name="tidelog",
    help="The Apache Kafka log as a library: look into, verify and rewrite log directories, with no broker.",
    no_args_is_help=True,
    add_completion=False,
)


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
) -> None:
    """Options before the command."""


def main() -> None:
    """Run the command line."""
    app()
