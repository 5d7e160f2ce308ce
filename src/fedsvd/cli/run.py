"""``fedsvd run``: a study from its job file."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fedsvd.cli.local_run import Consent, PolicyOption, carry_out_locally, policy_of
from fedsvd.cli.options import FormatOption, Out, Overwrite, Quiet, Scratch
from fedsvd.cli.study import carry_out
from fedsvd.cli.voice import Format, Voice
from fedsvd.errors import ConfigError
from fedsvd.runtime.job import read_job


class Environment(StrEnum):
    """Where the roles of a study run."""

    SIM = "sim"
    LOCAL = "local"


def run(
    job: Annotated[Path, typer.Argument(help="The job file.")],
    env: Annotated[
        Environment,
        typer.Option(
            help="sim: all roles in one process, no sockets. local: one process to each role, mutual TLS on 127.0.0.1."
        ),
    ] = Environment.SIM,
    policy: PolicyOption = None,
    consent: Consent = False,
    out: Out = None,
    overwrite: Overwrite = False,
    scratch: Scratch = None,
    quiet: Quiet = False,
    format: FormatOption = Format.TEXT,
) -> None:
    """Run the study that a job file describes."""
    voice, rules = Voice(format, quiet), policy_of(policy, consent)
    if env is Environment.LOCAL:
        carry_out_locally(voice, read_job(job), out, overwrite, scratch, rules)
    elif policy is not None or consent:
        raise ConfigError("--policy and --consent are for --env local", "the sim rung warns, and refuses nothing")
    else:
        carry_out(voice, read_job(job), out, overwrite, scratch)
