"""``fedsvd run``: a study from its job file."""

from pathlib import Path
from typing import Annotated

import typer

from fedsvd.cli.option_table import asked
from fedsvd.cli.options import Figures, FormatOption, Out, Overwrite, Quiet, Scratch
from fedsvd.cli.output import Format, Output
from fedsvd.cli.rungs import Consent, Env, Environment, PolicyOption, carry_out_on
from fedsvd.studies.job_file import read_job


def run(
    job: Annotated[Path, typer.Argument(help="The job file.")],
    env: Env = Environment.SIM,
    policy: PolicyOption = None,
    consent: Consent = False,
    out: Out = None,
    overwrite: Overwrite = False,
    figures: Figures = None,
    scratch: Scratch = None,
    device: Annotated[str | None, asked("job", "device")] = None,
    engine: Annotated[str | None, asked("job", "engine")] = None,
    quiet: Quiet = False,
    format: FormatOption = Format.TEXT,
) -> None:
    """Run the study that a job file describes."""
    chosen = read_job(job, tables_here=True).computed_with(device, engine)
    carry_out_on(env, Output(format, quiet), chosen, out, overwrite, scratch, policy, consent, figures)
