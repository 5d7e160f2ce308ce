"""A prepared job, planned or run in this process, and its results; errors use the parties' names in the job file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedsvd.errors import DataError, FedSVDError
from fedsvd.policy.rules import Policy
from fedsvd.protocol.parties import named as named
from fedsvd.randomness.seed import Seed
from fedsvd.results.result import PartyResult
from fedsvd.studies.job_data import Prepared
from fedsvd.studies.parties import Problems, expect_readable, expect_shapes
from fedsvd.studies.planning import Planned
from fedsvd.studies.run import Files, Outcome, Progress, plan_for, run_study


def plan_job(prepared: Prepared) -> Planned:
    """The plan of this job; a session that will never be opened, so its id and identities are thrown away."""
    with parties_named(prepared.names):
        _expect_fitting(prepared)
        planned, _ = plan_for(prepared.study, prepared.parties, Seed.fresh())
        return planned


def _expect_fitting(prepared: Prepared) -> None:
    """The tables' shapes fit together; where not, what else is wrong with the tables is said at the same time."""
    try:
        expect_shapes(prepared.study, prepared.parties)
    except FedSVDError as error:
        problems = Problems()
        problems.note(error)
        tables = enumerate(prepared.parties, start=1)
        problems.read((str(index), party.file, party.table) for index, party in tables)
        problems.expect_none()


def run_job(
    prepared: Prepared,
    scratch: Path | None = None,
    progress: Progress | None = None,
    policy: Policy | None = None,
    device: str | None = None,
    engine: str | None = None,
    files: Files | None = None,
) -> Outcome:
    """Run the job among its parties, all roles in this process, on this device or with this engine."""
    with parties_named(prepared.names):
        return run_study(
            prepared.study,
            prepared.parties,
            scratch=scratch,
            progress=progress,
            policy=policy,
            device=device,
            engine=engine,
            files=files,
        )


def results_of(prepared: Prepared, outcome: Outcome) -> tuple[PartyResult, ...]:
    """The results of a job that was run here, one for each reader: all parties, each of them, the CSP, the TA."""
    # Imported here: a plan is made, and shown, without any role.
    from fedsvd.results.tables import party_result, shared_result

    about = PartyResult(
        job=prepared.name,
        names=prepared.names,
        plan=outcome.plan,
        certificate=outcome.certificate,
        targets=prepared.targets,
        id=prepared.id,
        why=outcome.why,
        agreement=outcome.agreement,
        facts=prepared.about,
    )
    users = zip(outcome.plan.users, outcome.parties, prepared.parties, strict=True)
    roles = [party for party in outcome.plan.parties if party not in outcome.plan.users]
    return (
        shared_result(about, outcome.parties[0], prepared.parties[0]),
        *(party_result(about, me, computed, data) for me, computed, data in users),
        *(about.for_role(role) for role in roles),
    )


@contextmanager
def all_faults_named(prepared: Prepared) -> Iterator[None]:
    """Where a party's process refused its table, every table is read here: the error names all that is wrong.

    Each process finds the faults of its own table, and the first of them ends the job.
    """
    try:
        yield
    except DataError:
        with parties_named(prepared.names):
            expect_readable(prepared.parties)
        raise


@contextmanager
def parties_named(names: tuple[str, ...]) -> Iterator[None]:
    """Errors in this block call a party by its name, not by its number."""
    try:
        yield
    except FedSVDError as error:
        for each in (error, *error.problems):
            each.fault = named(each.fault, names)
        raise
