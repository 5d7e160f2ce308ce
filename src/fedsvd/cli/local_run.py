"""A job on the ``local`` rung at the command line: who may see what is settled first, then processes are started."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console

from fedsvd.cli import reports
from fedsvd.cli.output import Output, duration, facts, number, top_of
from fedsvd.cli.signals import if_interrupted
from fedsvd.cli.study import (
    about_rows,
    left_behind,
    own_parts,
    point_out,
    point_out_units,
    show_estimate,
    show_resumption,
    show_tables,
)
from fedsvd.cli.watch import watched
from fedsvd.errors import ReleaseRefused
from fedsvd.policy.learned import how_rows_belong
from fedsvd.policy.rules import Policy
from fedsvd.protocol.tasks import Split
from fedsvd.results.folder import Table, expect_free
from fedsvd.results.result import PartyResult
from fedsvd.results.write import PARTIES, party_folders, read_result
from fedsvd.service.local import LocalRun, local_federation
from fedsvd.studies.job_data import prepare
from fedsvd.studies.job_file import Job
from fedsvd.studies.jobs import all_faults_named, plan_job
from fedsvd.studies.planning import guard
from fedsvd.studies.problems import parties_named
from fedsvd.studies.resume import Resumable
from fedsvd.types import byte_size

_ROWS_SHOWN = 5


def carry_out_locally(
    output: Output, job: Job, out: Path | None, overwrite: bool, scratch: Path | None, policy: Policy
) -> None:
    """Run a job with one process to each role, write its results, and show what came of it."""
    target = out or Path("results") / job.study.name
    expect_free(target, overwrite)
    prepared = prepare(job, scratch)
    planned = plan_job(prepared)
    with output.notices_of_warnings(prepared.names), parties_named(prepared.names):
        # The parties look again, each by itself; here it is reported before anything is started.
        try:
            guard(planned.plan, replace(policy, enforce=True))
        except ReleaseRefused as refused:
            fix = "--consent, if all of this data is yours to show; or --policy FILE with rules that allow it"
            raise ReleaseRefused(refused.fault, fix) from None
    point_out(output, prepared)
    show_estimate(output, prepared, planned.plan, apart=True)
    output.line(f"starting {len(planned.plan.parties)} processes on this machine")
    resumable = Resumable(target)
    with if_interrupted(lambda: left_behind(target, resumable)), ended_by_signals(), resumable:
        show_resumption(output, resumable)
        with local_federation(job, policy=policy, scratch=scratch) as federation:
            with watched(output) as seen, all_faults_named(prepared):
                run = federation.run(job, seen, resumable)
            run.write(target, planned.why, overwrite, reports.drawing())
    result = read_result(target)
    point_out_units(output, [read_result(folder) for folder in party_folders(target)])
    score = _score(target)
    output.answer(
        _record(result, run, target, score, planned.why),
        lambda console: _show(console, result, run, target, score, planned.why),
    )


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


def _score(target: Path) -> dict[str, Any] | None:
    """How well the label holder's values are fitted, where the plan released a score."""
    if read_result(target).split is not Split.VERTICAL:
        return None  # every party has one of its own, on its own rows
    found = [read_result(folder).facts.get("score") for folder in party_folders(target)]
    return next((score for score in found if score is not None), None)


def _record(result: PartyResult, run: LocalRun, target: Path, score: dict[str, Any] | None, why: str) -> dict[str, Any]:
    plan, certificate = result.plan, result.certificate
    return {
        "job": result.job,
        "task": plan.task,
        "split": plan.split,
        "scheme": plan.scheme,
        "why": why,
        "trust": plan.trust,
        "released": plan.release,
        "rows": how_rows_belong(plan) or None,
        "rank": certificate.rank,
        "residual": certificate.residual,
        "orthogonality": certificate.orthogonality,
        "bytes": certificate.bytes_total,
        "seconds": run.seconds,
        "seconds_of_work": certificate.seconds_total,
        "peak_memory": certificate.record()["peak_memory"],
        "plan_digest": plan.digest,
        "out": str(target),
        "parties": {folder.name: str(folder) for folder in party_folders(target)},
        "report": reports.drawn(target),
        "score": score,
        "inference": result.facts.get("inference"),
    }


def _show(
    console: Console, result: PartyResult, run: LocalRun, target: Path, score: dict[str, Any] | None, why: str
) -> None:
    plan, certificate = result.plan, result.certificate
    processes, messages = len(plan.parties), sum(certificate.messages_by_link.values())
    held = {folder.name: read_result(folder).facts.get("verified") for folder in party_folders(target)}
    console.print(
        facts(
            {
                "job": f"{result.job}: {plan.task}, {plan.split} split, {plan.k} parties in {processes} processes",
                "scheme": f"{plan.scheme} ({why}), masks dealt by {plan.trust}",
                **about_rows(plan),
                "rank": certificate.rank,
                "verified": f"residual {certificate.residual:.1e}, orthogonality {certificate.orthogonality:.1e}",
                **own_parts({name: part for name, part in held.items() if part is not None}),
                "moved": f"{byte_size(certificate.bytes_total)} in {messages} messages",
                "time": f"{duration(run.seconds)}, over mutual TLS",
                "memory": f"at most {byte_size(max(certificate.peak_memory.values(), default=0))} in one process",
                "results": f"{target}/, each party's in {target / PARTIES}/",
                "report": reports.drawn(target) or reports.WITHOUT,
            }
        )
    )
    for name in ("singular_values", "intercept"):
        values = result.arrays.get(name)
        if values is not None:
            console.print(top_of(Table(name, {"": range(1, 1 + len(values)), name: values}), _ROWS_SHOWN))
    show_tables(console, result)
    for name, fit in (score or {}).items():
        console.print(f"{name}: mean squared error {number(fit['mse'])}, R^2 {number(fit['r2'])}")
