"""A prepared job, planned or run in this process, and its results; errors use the parties' names in the job file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fedsvd.errors import DataError, FedSVDError
from fedsvd.policy.rules import Policy
from fedsvd.protocol.outputs import Output, array
from fedsvd.protocol.plan import SessionPlan
from fedsvd.randomness.seed import Seed
from fedsvd.results.result import PartyResult
from fedsvd.studies.job_data import Prepared
from fedsvd.studies.matching import at_most_common, matching_of, run_stages
from fedsvd.studies.parties import expect_readable, expect_shapes
from fedsvd.studies.planning import Planned
from fedsvd.studies.problems import Problems, parties_named
from fedsvd.studies.run import Files, Outcome, Progress, plan_for
from fedsvd.studies.stages import preparation_facts
from fedsvd.tasks.declared import outputs_of

if TYPE_CHECKING:
    from fedsvd.roles.user.agreement import Agreement


def plan_job(prepared: Prepared) -> Planned:
    """The plan of this job; a session that will never be opened, so its id and identities are thrown away."""
    with parties_named(prepared.names):
        _expect_fitting(prepared)
        parties = prepared.parties if matching_of(prepared.study) is None else at_most_common(prepared.parties)
        planned, _ = plan_for(prepared.study, parties, Seed.fresh(), prepared.asked)
        return planned


def plan_matching(prepared: Prepared) -> Planned | None:
    """The plan of the session that matches the records of this job; None where none are matched."""
    study = matching_of(prepared.study)
    if study is None:
        return None
    with parties_named(prepared.names):
        expect_shapes(study, prepared.parties)
        return plan_for(study, prepared.parties, Seed.fresh(), prepared.asked)[0]


def _expect_fitting(prepared: Prepared) -> None:
    """The tables' shapes fit together; where not, what else is wrong with the tables is said at the same time."""
    try:
        study, parties = prepared.study, prepared.parties
        if matching_of(study) is not None:
            expect_shapes(matching_of(study) or study, parties)
            parties = at_most_common(parties)
        expect_shapes(study, parties)
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
        return run_stages(
            prepared.study,
            prepared.parties,
            scratch=scratch,
            progress=progress,
            policy=policy,
            device=device,
            engine=engine,
            files=files,
            asked=prepared.asked,
        )


def results_of(prepared: Prepared, outcome: Outcome) -> tuple[PartyResult, ...]:
    """The results of a job that was run here, one for each reader: all parties, each of them, the CSP, the TA."""
    # Imported here: a plan is made, and shown, without any role.
    from fedsvd.results.tables import party_result, shared_result

    agreed = None if prepared.agreed is None else prepared.agreed.plan
    about = PartyResult(
        job=prepared.name,
        names=prepared.names,
        plan=outcome.plan,
        certificate=outcome.certificate,
        targets=prepared.targets,
        id=prepared.id,
        why=outcome.why,
        file=prepared.file,
        agreement=outcome.agreement,
        proved="" if outcome.agreement is None else outcome.agreement.order,
        before=_signed_before(prepared, outcome),
        facts={**prepared.about, **preparation_facts(prepared.words, agreed)},
        outputs=declared_outputs(outcome.plan),
    )
    brought = prepared.parties if outcome.matched is None else outcome.matched.parties
    users = zip(outcome.plan.users, outcome.parties, brought, strict=True)
    roles = [party for party in outcome.plan.parties if party not in outcome.plan.users]
    return (
        shared_result(about, outcome.parties[0], brought[0]),
        *(party_result(about, me, computed, data) for me, computed, data in users),
        *(about.for_role(role) for role in roles),
    )


def declared_outputs(plan: SessionPlan) -> tuple[Output, ...]:
    """What a study of this plan gives, as its task declares it."""
    foreign = () if plan.foreign is None else plan.foreign.outputs
    return (*(array(output.name, *output.axes, says=output.says) for output in foreign), *outputs_of(plan.task))


def _signed_before(prepared: Prepared, outcome: Outcome) -> "dict[str, Agreement]":
    """What all signed in the sessions before the study."""
    sessions = (prepared.agreed, None if outcome.matched is None else outcome.matched.outcome)
    return {str(each.plan.task): each.agreement for each in sessions if each is not None and each.agreement is not None}


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
