"""The ``fedsvd`` command: one file per verb, joined here; errors and exit codes are in ``group.py``."""

from typing import Annotated

import typer

from fedsvd import __version__
from fedsvd.cli import start
from fedsvd.cli.audit import audit
from fedsvd.cli.audit_log import audit_log
from fedsvd.cli.bench import bench
from fedsvd.cli.demo import demo
from fedsvd.cli.doctor import doctor
from fedsvd.cli.federation import federation
from fedsvd.cli.group import Commands
from fedsvd.cli.init import init
from fedsvd.cli.job import job
from fedsvd.cli.join import join
from fedsvd.cli.lr import lr
from fedsvd.cli.lsa import lsa
from fedsvd.cli.pca import pca
from fedsvd.cli.plan import plan
from fedsvd.cli.predict import predict
from fedsvd.cli.reports import report
from fedsvd.cli.reproduce import reproduce
from fedsvd.cli.run import run
from fedsvd.cli.svd import svd
from fedsvd.cli.verify import verify

cli = typer.Typer(cls=Commands, no_args_is_help=True, add_completion=True, pretty_exceptions_enable=False)
for verb in (demo, init, run, svd, pca, lsa, lr, plan, predict, report, verify, doctor, audit, reproduce):
    cli.command()(verb)
for name, group in (
    ("federation", federation),
    ("join", join),
    ("csp", start.csp),
    ("authority", start.authority),
    ("party", start.party),
    ("job", job),
    ("audit-log", audit_log),
    ("bench", bench),
):
    cli.add_typer(group, name=name)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"fedsvd {__version__}")
        raise typer.Exit


@cli.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and stop.")
    ] = False,
) -> None:
    """Exact federated matrix factorisation."""


def app() -> None:
    """The console entry point."""
    cli()
