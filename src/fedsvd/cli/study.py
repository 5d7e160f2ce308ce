"""What ``run`` and the task verbs share: a job from options, its run, and how its outcome is shown."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.console import Console

from fedsvd.cli import reports
from fedsvd.cli.cost import cost_table, estimate, roughly
from fedsvd.cli.output import Output, duration, facts, number, top_of
from fedsvd.cli.signals import if_interrupted
from fedsvd.policy.learned import how_rows_belong, in_scheme
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Split
from fedsvd.results.folder import expect_free
from fedsvd.results.model_table import summaries
from fedsvd.results.regression_table import models_of
from fedsvd.results.result import PartyResult
from fedsvd.results.vector_files import file_for, fits_memory, folder_next_to
from fedsvd.results.write import PARTIES, write_job
from fedsvd.statistics.summary import linear_summary
from fedsvd.studies.doubts import doubts, warn_of
from fedsvd.studies.job_data import Prepared, prepare
from fedsvd.studies.job_file import Job
from fedsvd.studies.jobs import plan_job, plan_matching, results_of, run_job
from fedsvd.studies.resume import Resumable
from fedsvd.studies.run import UserFiles
from fedsvd.types import byte_size

_ROWS_SHOWN = 5


def carry_out(output: Output, job: Job, out: Path | None, overwrite: bool, scratch: Path | None) -> None:
    """Run a job in this process, write its results, and show what came of it."""
    target = out or Path("results") / job.study.name
    expect_free(target, overwrite)  # before the work, not after it
    with output.notices_of_warnings(tuple(party.name for party in job.parties)):
        prepared = prepare(job, scratch)
    point_out(output, prepared)
    show_estimate(output, prepared)
    resumable = Resumable(target)
    with if_interrupted(lambda: left_behind(target, resumable)), resumable, folder_next_to(target) as folder:
        show_resumption(output, resumable)

        def files(plan: SessionPlan, i: int) -> UserFiles:
            own = folder / str(i + 1)
            own.mkdir(mode=0o700, exist_ok=True)
            checkpoint = resumable.checkpoint(job, job.parties[i]) if plan.compress else None
            return UserFiles(sink=file_for(plan, i, prepared.write, own), checkpoint=checkpoint)

        with output.notices_of_warnings(prepared.names), output.progress(prepared.names) as progress:
            study, started = job.study, perf_counter()
            outcome = run_job(prepared, scratch, progress, device=study.device, engine=study.engine, files=files)
            seconds = perf_counter() - started
        if outcome.matched is not None:
            for name, report in zip(prepared.names, outcome.matched.reports, strict=True):
                output.line(f"{name}: {report}")
        results = results_of(prepared, outcome)
        write_job(target, results, overwrite, reports.drawing())
    output.answer(_record(results, seconds, target), lambda console: _show(console, results, seconds, target))


def point_out(output: Output, prepared: Prepared) -> None:
    """What a person should look at before the numbers are there: what was done to the tables, rows not compared,
    columns that look like ids."""
    if prepared.agreed is not None:
        agreed = prepared.agreed
        moved = byte_size(agreed.certificate.bytes_total)
        output.line(f"tables were prepared together: {len(agreed.plan.steps)} sums, {moved} between the roles")
    for name, party in zip(prepared.names, prepared.parties, strict=True):
        if party.prepared is not None:
            output.line(f"{name}: {party.prepared}")
    with output.notices_of_warnings(prepared.names):
        warn_of(doubts(prepared.study, prepared.parties, prepared.targets))


def about_rows(plan: SessionPlan) -> dict[str, str]:
    """A line of the summary, where columns are split: by what rows belong together."""
    return {"rows": how_rows_belong(plan)} if plan.split is Split.VERTICAL else {}


def left_behind(target: Path, resumable: Resumable) -> str:
    """What an interrupted run leaves, for a person."""
    if resumable.found:
        return f"no results were written to {target}; the same command goes on from what was compressed so far"
    return f"no results were written to {target}; nothing else was stored"


def show_resumption(output: Output, resumable: Resumable) -> None:
    """That an earlier run was interrupted, and is gone on with."""
    if resumable.found:
        output.line("an earlier run was interrupted: going on from what it compressed")


def show_estimate(output: Output, prepared: Prepared, plan: SessionPlan | None = None, apart: bool = False) -> None:
    """What the run will cost on this machine, before it begins; ``apart`` where every role has a process to start."""
    if output.quiet:
        return
    plan, matching = plan or plan_job(prepared).plan, plan_matching(prepared)
    if matching is not None:
        first = estimate(matching.plan).cost
        moved = f"{byte_size(first.bytes_total)} between the roles"
        output.line(f"records are matched first: {moved}, {roughly(first.seconds_on_one_machine)}")
    estimated = estimate(plan, in_memory=all(fits_memory(plan, i, prepared.write) for i in range(plan.k)))
    cost = estimated.cost
    without = "without starting the processes" if apart else "no network"
    cores = "1 core" if cost.cores == 1 else f"{cost.cores} cores"
    seconds = roughly(cost.seconds_in_processes if apart else cost.seconds_on_one_machine)
    moved = f"{byte_size(cost.bytes_total)} between the roles"
    output.line(f"expected: {moved}, {seconds} with all roles on {cores} ({estimated.rates}; {without})")
    output.table(cost_table(plan, cost, prepared.names))


def own_parts(verified: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """What the parties measured of their own parts, where the job asked them to, for a person."""
    figures_of = {}
    for name, part in verified.items():
        looked_at = "all" if part["columns"] == part["of"] else f"{part['columns']:,} of"
        measures = [(word, part[word]) for word in ("residual", "orthogonality") if part[word] is not None]
        figures = "".join(f", {word} {value:.1e}" for word, value in measures)
        figures_of[f"verified by {name}"] = f"{looked_at} {part['of']:,} of its own{figures}"
    return figures_of


def _score(results: Sequence[PartyResult]) -> dict[str, Any] | None:
    """How well the label holder's labels are fitted, where the plan released a score."""
    holder = next((each for each in results if each.party and each.party == each.label_holder), None)
    return None if holder is None else holder.facts.get("score")


def show_tables(console: Console, shared: PartyResult) -> None:
    """The regression table of every target, where the plan released inference."""
    names = list(shared.feature_names(shared.plan.m))
    tables = [
        linear_summary(model, names, name) for name, model in zip(shared.targets, models_of(shared), strict=False)
    ]
    for table in (*tables, *(summary for _, summary in summaries(shared))):
        console.print(table.text(), markup=False, highlight=False, soft_wrap=True)


def _record(results: Sequence[PartyResult], seconds: float, target: Path) -> dict[str, Any]:
    shared = results[0]
    plan, certificate = shared.plan, shared.certificate
    return {
        "job": shared.job,
        "task": plan.task,
        "split": plan.split,
        "scheme": plan.scheme,
        "mode": plan.mode,
        "why": shared.why,
        "trust": plan.trust,
        "released": plan.release,
        "rows": how_rows_belong(plan) or None,
        "rank": shared.rank,
        "residual": certificate.residual,
        "orthogonality": certificate.orthogonality,
        "bytes": certificate.bytes_total,
        "seconds": seconds,
        "seconds_of_work": certificate.seconds_total,
        "plan_digest": plan.digest,
        "out": str(target),
        "parties": {name: str(target / PARTIES / name) for name in shared.names},
        "report": reports.drawn(target),
        "score": _score(results),
        "inference": shared.facts.get("inference"),
        "choice": shared.facts.get("choice"),
        "wilks": shared.facts.get("wilks"),
    }


def _show(console: Console, results: Sequence[PartyResult], seconds: float, target: Path) -> None:
    shared = results[0]
    plan, certificate = shared.plan, shared.certificate
    messages = sum(certificate.messages_by_link.values())
    measured = {each.party: each.facts["verified"] for each in results if each.party and "verified" in each.facts}
    console.print(
        facts(
            {
                "job": f"{shared.job}: {plan.task}, {plan.split} split, {plan.k} parties",
                "scheme": f"{in_scheme(plan.scheme, plan.mode)} ({shared.why}), masks dealt by {plan.trust}",
                **about_rows(plan),
                "rank": shared.rank,
                "verified": f"residual {certificate.residual:.1e}, orthogonality {certificate.orthogonality:.1e}",
                **own_parts(measured),
                "moved": f"{byte_size(certificate.bytes_total)} in {messages} messages",
                "time": duration(seconds),
                "results": f"{target}{'' if str(target).endswith('/') else '/'}",
                "report": reports.drawn(target) or reports.WITHOUT,
            }
        )
    )
    for table in shared.tables:
        if table.name in ("spectrum", "intercept", "correlations", "wilks", "component_coefficients"):
            console.print(top_of(table, _ROWS_SHOWN))
    show_tables(console, shared)
    for target_name, score in (_score(results) or {}).items():
        console.print(f"{target_name}: mean squared error {number(score['mse'])}, R^2 {number(score['r2'])}")
