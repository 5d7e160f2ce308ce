"""On which rung a study runs: all roles in one process, or each in one of its own on this machine."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedsvd.cli.output import Output
from fedsvd.cli.reports import draw_figures, expect_figures
from fedsvd.errors import ConfigError
from fedsvd.policy.rules import Policy

if TYPE_CHECKING:
    from fedsvd.studies.job_file import Job


class Environment(StrEnum):
    """Where the roles of a study run."""

    SIM = "sim"
    LOCAL = "local"


Env = Annotated[
    Environment,
    typer.Option(
        "--env",
        help="sim: all roles in one process, no sockets. local: one process per role, mutual TLS on 127.0.0.1.",
    ),
]
PolicyOption = Annotated[
    Path | None, typer.Option("--policy", help="local: the policy.toml that every party enforces; the default's rules.")
]
Consent = Annotated[
    bool,
    typer.Option(
        "--consent", help="local: all data here is yours to show; no rule on sizes, parties or schemes holds."
    ),
]


def carry_out_on(
    env: Environment,
    output: Output,
    job: "Job",
    out: Path | None,
    overwrite: bool,
    scratch: Path | None,
    policy: Path | None,
    consent: bool,
    figures: Path | None = None,
) -> None:
    """Run a job on a rung, write its results and figures, and show what came of it."""
    rules = _policy_of(policy, consent)
    if figures is not None:
        expect_figures(figures)  # before the work, not after it
    # Imported here: --help needs neither, and they bring all of the computation along.
    if env is Environment.LOCAL:
        from fedsvd.cli.local_run import carry_out_locally

        carry_out_locally(output, job, out, overwrite, scratch, rules)
    elif policy is not None or consent:
        raise ConfigError("--policy and --consent are for --env local", "the sim rung warns, and refuses nothing")
    else:
        from fedsvd.cli.study import carry_out

        carry_out(output, job, out, overwrite, scratch)
    if figures is not None:
        drawn = draw_figures(out or Path("results") / job.study.name, figures)
        output.line(f"{len(drawn)} figures: {figures}")


def _policy_of(policy: Path | None, consent: bool) -> Policy:
    """The policy that the parties of a local run enforce."""
    if policy is not None and consent:
        raise ConfigError("--policy and --consent exclude each other", "leave one of them out")
    if consent:
        return Policy.permissive()
    if policy is None:
        return Policy()
    from fedsvd.policy.policy_file import read_policy

    return read_policy(policy)
