"""The ``fedsvd`` command: one file per verb, imported when it is called; errors and exit codes are in ``group.py``.

A verb's file brings along what it needs, and that may be SciPy, gRPC or the attacks of an audit. The list of commands
must not: it has its own line about each verb.
"""

from importlib.metadata import entry_points
from typing import Annotated, Any

import typer

from fedsvd import __version__
from fedsvd.cli.group import Commands
from fedsvd.errors import MissingExtra
from fedsvd.protocol.tasks import Task

_TASKS = {str(task): f"{task.line}, without a job file." for task in Task if task.line}
VERBS = {
    "demo": "Three hospitals factorise one table, each in a process of its own; no one hands over a row.",
    "init": "Write a job.toml and a policy.toml to begin with; asks for what options do not say.",
    "run": "Run the study that a job file describes.",
    **_TASKS,
    "look": "Say what tables hold and what a study would refuse; exit code 1 when it would.",
    "dictionary": "A consortium's codebook: propose one, check one.",
    "table": "A site's own table: register it by a dictionary, see its history.",
    "plan": "Say what a job will do, what it reveals and what it costs, before anything is sent.",
    "predict": "Apply a result to new tables: predictions, scores, coordinates.",
    "report": "Draw the report of a results folder again, and its figures as files.",
    "verify": "Check every signature of a study's certificate, and every file next to it; exit code 1 unless all hold.",
    "doctor": "Check this machine, and with a kit keys, network, clock and data; exit code 1 when something is wrong.",
    "audit": "Attack your own data as the CSP and the other parties of a job could, before you join it.",
    "audit-openings": "Read your own records from sums that studies open, and say which rule stops it.",
    "reproduce": "The paper's tables and figures: its own numbers, our run of its scheme, our default, side by side.",
    "federation": "Found a federation, approve and revoke members; or rehearse one.",
    "join": "Become a member: request, accept, renew, pin.",
    "csp": "The computing server, the one role that listens.",
    "authority": "The Trusted Authority, which deals masks and sees no data.",
    "party": "A party, which owns data.",
    "job": "Jobs of a federation: submit, approve, watch, resume, stop, results.",
    "tasks": "Foreign tasks that are installed here: list them, show one.",
    "audit-log": "A role's audit log: JSON lines, chained by hashes.",
    "bench": "Speed, memory and bytes, measured on this machine.",
}

HEADINGS = {
    "Start here": "demo look init",
    "Studies of tables on this machine": f"{' '.join(_TASKS)} run",
    "Before a study": "plan audit audit-openings dictionary table",
    "After a study": "predict report verify",
    "Between institutions": "federation join csp authority party job audit-log",
    "This installation": "doctor tasks bench reproduce",
}


def _verb(name: str) -> Any:
    # Written out, not importlib with a computed name: the import rules read this file.
    match name:
        case "demo":
            from fedsvd.cli import demo

            return demo.demo
        case "init":
            from fedsvd.cli import init

            return init.init
        case "run":
            from fedsvd.cli import run

            return run.run
        case task if task in _TASKS:
            from fedsvd.cli import tasks

            return tasks.command(name)
        case "look":
            from fedsvd.cli import look

            return look.look
        case "dictionary":
            from fedsvd.cli import dictionary

            return dictionary.dictionary
        case "table":
            from fedsvd.cli import table

            return table.table
        case "plan":
            from fedsvd.cli import plan

            return plan.plan
        case "predict":
            from fedsvd.cli import predict

            return predict.predict
        case "report":
            from fedsvd.cli import reports

            return reports.report
        case "verify":
            from fedsvd.cli import verify

            return verify.verify
        case "doctor":
            from fedsvd.cli import doctor

            return doctor.doctor
        case "audit":
            from fedsvd.cli import audit

            return audit.audit
        case "audit-openings":
            from fedsvd.cli import audit_openings

            return audit_openings.audit_openings
        case "federation":
            from fedsvd.cli import federation

            return federation.federation
        case "join":
            from fedsvd.cli import join

            return join.join
        case "csp":
            from fedsvd.cli import start

            return start.csp
        case "authority":
            from fedsvd.cli import start

            return start.authority
        case "party":
            from fedsvd.cli import start

            return start.party
        case "job":
            from fedsvd.cli import job

            return job.job
        case "audit-log":
            from fedsvd.cli import audit_log

            return audit_log.audit_log
        case "tasks":
            from fedsvd.cli import statistics

            return statistics.tasks
        case "reproduce" | "bench":
            return _of_lab(name)
    raise KeyError(name)


def _of_lab(name: str) -> Any:
    """A command of the distribution ``fedsvd-lab``, which the product neither needs nor imports."""
    for found in entry_points(group="fedsvd.commands", name=name):
        return found.load()
    raise MissingExtra(f"fedsvd {name} is part of fedsvd-lab, which is not installed", "pip install ./lab in a clone")


class Verbs(Commands):
    """Every verb by its one line; its file is imported when it is resolved, to be run or completed."""

    LINES = VERBS
    HEADINGS = HEADINGS

    @classmethod
    def load(cls, name: str) -> Any:
        return _verb(name)


cli = typer.Typer(cls=Verbs, no_args_is_help=True, add_completion=True, pretty_exceptions_enable=False)


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
    """Exact federated matrix factorisation, and the statistics that follow from it.

    No party hands over data; results are those of the joint table. Begin with: fedsvd look a.csv b.csv
    """


def app() -> None:
    """The console entry point."""
    cli()
