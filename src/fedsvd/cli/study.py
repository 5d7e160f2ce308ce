"""A job on the ``sim`` rung at the command line, and what is shown before a run on any rung."""

from pathlib import Path
from time import perf_counter

from fedsvd.cli import reports
from fedsvd.cli.cost import cost_table, estimate, roughly
from fedsvd.cli.outcome import show_outcome
from fedsvd.cli.output import Output
from fedsvd.cli.signals import if_interrupted
from fedsvd.data.sparse import share_stored
from fedsvd.protocol.certificate import WRITING
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Scheme
from fedsvd.results.folder import expect_free
from fedsvd.results.vector_files import file_for, fits_memory, folder_next_to
from fedsvd.results.write import write_job
from fedsvd.studies.doubts import doubts, warn_of
from fedsvd.studies.job_data import Prepared, prepare
from fedsvd.studies.job_file import Job
from fedsvd.studies.jobs import plan_job, plan_matching, results_of, run_job
from fedsvd.studies.made_dictionary import BETWEEN, write_made_dictionary
from fedsvd.studies.resume import Resumable
from fedsvd.studies.run import UserFiles
from fedsvd.types import byte_size

_WORTH_A_TABLE = 2.0  # seconds, of which a person wants to know where they go


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
            search = resumable.search(job, job.parties[i]) if plan.scheme is Scheme.STEPS else None
            return UserFiles(sink=file_for(plan, i, prepared.write, own), checkpoint=checkpoint, search=search)

        with output.notices_of_warnings(prepared.names), output.progress(prepared.names) as progress:
            study, started = job.study, perf_counter()
            outcome = run_job(prepared, scratch, progress, device=study.device, engine=study.engine, files=files)
            seconds = perf_counter() - started
        if outcome.matched is not None:
            for name, report in zip(prepared.names, outcome.matched.reports, strict=True):
                output.line(f"{name}: {report}")
        results = results_of(prepared, outcome)
        with output.progress(prepared.names) as shown:
            if shown is not None:
                for me in outcome.plan.users:
                    shown(me.name, WRITING, 0, 1)
            write_job(target, results, overwrite, reports.drawing())
    show_outcome(output, results, seconds, target)
    keep_dictionary(output, job, target)


def point_out(output: Output, prepared: Prepared) -> None:
    """What a person should look at before the numbers are there: what was done to the tables, rows not compared,
    columns that look like ids."""
    if prepared.agreed is not None:
        agreed = prepared.agreed
        moved = byte_size(agreed.certificate.bytes_total)
        output.line(f"tables were prepared together: {len(agreed.plan.steps)} sums, {moved} between the roles")
    for name, party in zip(prepared.names, prepared.parties, strict=True):
        for line in party.mapped.sentences():
            output.line(f"{name}: mapped: {line}")
        if party.prepared is not None and prepared.study.table is not None:
            output.line(f"{name}: {party.prepared.counted()}")  # nothing of a description is filled in
        elif party.prepared is not None:
            output.line(f"{name}: {party.prepared}")
    with output.notices_of_warnings(prepared.names):
        warn_of(doubts(prepared.study, prepared.parties, prepared.targets))


def keep_dictionary(output: Output, job: Job, target: Path) -> None:
    """Write a dictionary that was made of the tables next to the results, and say what it is for."""
    if not job.made_dictionary or job.dictionary is None:
        return
    kept = write_made_dictionary(target, job.dictionary)
    output.line(f"The dictionary was made of these tables, which are all here: {kept}. {BETWEEN}")


def left_behind(target: Path, resumable: Resumable) -> str:
    """What an interrupted run leaves, for a person."""
    if resumable.found:
        return f"no results were written to {target}; the same command goes on from what there is so far"
    return f"no results were written to {target}; nothing else was stored"


def show_resumption(output: Output, resumable: Resumable) -> None:
    """That an earlier run was interrupted, and is gone on with."""
    if resumable.found:
        output.line("an earlier run was interrupted: going on from what it left")


def show_estimate(output: Output, prepared: Prepared, plan: SessionPlan | None = None, apart: bool = False) -> None:
    """What the run will cost on this machine, before it begins; ``apart`` where every role has a process to start."""
    if output.quiet:
        return
    plan, matching = plan or plan_job(prepared).plan, plan_matching(prepared)
    if matching is not None:
        first = estimate(matching.plan).cost
        moved = f"{byte_size(first.bytes_total)} between the roles"
        output.line(f"records are matched first: {moved}, {roughly(first.seconds_on_one_machine)}")
    in_memory = all(fits_memory(plan, i, prepared.write) for i in range(plan.k))
    stored = tuple(share_stored(party.table) for party in prepared.parties)
    estimated = estimate(plan, in_memory=in_memory, stored=stored)
    cost = estimated.cost
    without = "without starting the processes" if apart else "no network"
    cores = "1 core" if cost.cores == 1 else f"{cost.cores} cores"
    seconds = roughly(cost.seconds_in_processes if apart else cost.seconds_on_one_machine)
    moved = f"{byte_size(cost.bytes_total)} between the roles"
    output.line(f"expected: {moved}, {seconds} with all roles on {cores} ({estimated.rates}; {without})")
    if max(cost.seconds_on_one_machine, cost.seconds_in_processes if apart else 0.0) > _WORTH_A_TABLE:
        output.table(cost_table(plan, cost, prepared.names))
