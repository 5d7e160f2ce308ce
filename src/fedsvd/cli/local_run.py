"""A job on the ``local`` rung at the command line: who may see what is settled first, then processes are started."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType

from fedsvd.cli import reports
from fedsvd.cli.outcome import show_outcome
from fedsvd.cli.output import Output
from fedsvd.cli.signals import if_interrupted
from fedsvd.cli.study import keep_dictionary, left_behind, point_out, show_estimate, show_resumption
from fedsvd.cli.watch import watched
from fedsvd.errors import ReleaseRefused
from fedsvd.policy.foreign import to_allow
from fedsvd.policy.rules import Policy
from fedsvd.results.folder import expect_free
from fedsvd.service.local import local_federation
from fedsvd.studies.job_data import prepare
from fedsvd.studies.job_file import Job
from fedsvd.studies.jobs import all_faults_named, plan_job
from fedsvd.studies.own_rows import guard_rows
from fedsvd.studies.planning import guard
from fedsvd.studies.problems import parties_named
from fedsvd.studies.resume import Resumable


def carry_out_locally(
    output: Output, job: Job, out: Path | None, overwrite: bool, scratch: Path | None, policy: Policy
) -> None:
    """Run a job with one process per role, write its results, and show what came of it."""
    target = out or Path("results") / job.study.name
    expect_free(target, overwrite)
    names = tuple(party.name for party in job.parties)
    with output.notices_of_warnings(names), parties_named(names):
        # The parties look again, each by itself; here it is reported before anything is started.
        try:
            prepared = prepare(job, scratch, replace(policy, enforce=True))
            planned = plan_job(prepared)
            guard(planned.plan, replace(policy, enforce=True))
            guard_rows(planned.plan, prepared.parties, replace(policy, enforce=True))
        except ReleaseRefused as refused:
            raise ReleaseRefused(refused.fault, _way_out(job, policy)) from None
    point_out(output, prepared)
    show_estimate(output, prepared, planned.plan, apart=True)
    output.line(f"starting {len(planned.plan.parties)} processes on this machine")
    resumable = Resumable(target)
    with if_interrupted(lambda: left_behind(target, resumable)), ended_by_signals(), resumable:
        show_resumption(output, resumable)
        # A throw-away site has no earlier study to compare records with, and writing them down takes seconds.
        here = replace(policy, remember=False)
        with local_federation(job, policy=here, scratch=scratch, resumable=resumable) as federation:
            with watched(output) as seen, all_faults_named(prepared):
                run = federation.run(job, seen)
            results = run.write(target, overwrite, reports.drawing())
    show_outcome(output, results, run.seconds, target, apart=True)
    keep_dictionary(output, job, target)


def _way_out(job: Job, policy: Policy) -> str:
    """What lets a refused job run here: consent, but for the code of others, which a policy must name."""
    if job.foreign is not None and job.foreign.name not in policy.foreign:
        return to_allow(job.foreign.name)
    return "--consent, if all of this data is yours to show; or --policy FILE with rules that allow it"


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM ends the block as Ctrl-C does: with everything put away."""

    def end(signum: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + signum)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
