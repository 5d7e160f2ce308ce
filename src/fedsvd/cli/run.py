"""``fedsvd run``: a study from its job file."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fedsvd.cli.options import FormatOption, Out, Overwrite, Quiet, Scratch
from fedsvd.cli.study import carry_out
from fedsvd.cli.voice import Format, Voice
from fedsvd.runtime.job import read_job


class Environment(StrEnum):
    """Where the roles of a study run."""

    SIM = "sim"


def run(
    job: Annotated[Path, typer.Argument(help="The job file.")],
    env: Annotated[Environment, typer.Option(help="sim: all roles in one process, no sockets.")] = Environment.SIM,
    out: Out = None,
    overwrite: Overwrite = False,
    scratch: Scratch = None,
    quiet: Quiet = False,
    format: FormatOption = Format.TEXT,
) -> None:
    """Run the study that a job file describes."""
    carry_out(Voice(format, quiet), read_job(job), out, overwrite, scratch)
