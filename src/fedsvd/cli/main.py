"""The ``fedsvd`` command: one file per verb, joined here.

Errors of the house end a command with their code, their text and exit status 1; misuse of the command line is
status 2, as everywhere.
"""

import sys
from typing import Annotated

import typer

from fedsvd import __version__
from fedsvd.cli.demo import demo
from fedsvd.errors import FedSVDError

cli = typer.Typer(no_args_is_help=True, add_completion=True, help="Exact federated matrix factorisation.")
cli.command()(demo)


@cli.callback()
def main(
    version: Annotated[bool, typer.Option("--version", is_eager=True, help="Print the version and stop.")] = False,
) -> None:
    """Exact federated matrix factorisation."""
    if version:
        typer.echo(f"fedsvd {__version__}")
        raise typer.Exit


def app() -> None:
    """The console entry point."""
    try:
        cli()
    except FedSVDError as error:
        typer.echo(str(error), err=True)
        sys.exit(1)
