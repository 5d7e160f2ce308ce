"""A study in stages: where tables are prepared by joint numbers, a session that finds them comes before the study.

For every rung the parts are these, in this order:

1. ``preparation_of(job)`` is the study of that first session (``Task.PREPARE``), or None where none is needed: nothing
   of ``[prepare]`` takes a sum, or columns are split and every party prepares its own.
2. ``home_data(job, source)`` is what a party brings to it: its table after what it does alone, with gaps and text. Its
   shape and names are what the party enlists with; ``plan_study`` makes the plan of both sessions from such facts.
3. A user's result of that session is a ``PreparedTable``, whose ``recipe`` is all that is needed later. It belongs to
   this party; ``recipe.record()`` and ``of_record`` make JSON of it and back.
4. ``job_party_data(job, source, labels, recipe=recipe)`` (``job_data.py``) is what the party brings to the study.

``agree`` is the first session of the ``sim`` rung, all parties in this process.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedsvd.data.source import MatrixSource
from fedsvd.errors import ConfigError, DataError, StorageError
from fedsvd.policy.rules import Policy, what_each_role_learns
from fedsvd.prepare.at_home import HomeReport, HomeTable, prepared_at_home
from fedsvd.prepare.columns import arranged
from fedsvd.prepare.derived import names_of
from fedsvd.prepare.joint_counts import Counted, own_counts
from fedsvd.prepare.missing import Missing
from fedsvd.prepare.recipe import Recipe
from fedsvd.prepare.script import PreparedTable, prepared_again, prepared_alone
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Split, Task, Trust
from fedsvd.studies.aside import needed_numbers, text_columns, with_classes
from fedsvd.studies.job_file import Job
from fedsvd.studies.matching import with_record_ids
from fedsvd.studies.parties import PartyData
from fedsvd.studies.planning import guard, plan_study
from fedsvd.studies.prepare_section import PrepareSection
from fedsvd.studies.run import Outcome, Progress, run_study
from fedsvd.studies.study import Study
from fedsvd.types import Float, SessionId

_NO_SESSION = SessionId("0" * 32)


def preparation_of(job: Job) -> Study | None:
    """The study of the session that prepares the tables of this job together; None where none is needed."""
    trust = Trust.PEERS if job.authority is None else Trust.AUTHORITY
    return preparation_study(job.prepare, job.study.split, trust, job.study.memory)


def preparation_study(
    words: PrepareSection, split: Split, trust: Trust = Trust.PEERS, memory: int | None = None
) -> Study | None:
    """The same by the words of ``[prepare]``."""
    rule = words.joint
    if rule is None or not rule.takes_sums or split is Split.VERTICAL:
        return None
    return Study(Task.PREPARE, Split.HORIZONTAL, trust=trust, memory=memory, rule=rule)


def home_data(job: Job, source: MatrixSource) -> PartyData:
    """What a party brings to the preparation of a job."""
    table, labels = with_record_ids(job, source).table, job.study.label
    words, needed = with_classes(job, source, labels), needed_numbers(job.study, source, labels)
    home = home_table(words, table, needed, text_columns(job.study), stays=job.study.slope)
    return PartyData(with_counts(home.table, table, words), prepared=home.report)


def with_counts(table: MatrixSource, whole: MatrixSource, words: PrepareSection) -> MatrixSource:
    """A table after what its party does alone, with counts of the whole one where joint counts are taken."""
    rule = words.joint
    if rule is None or rule.counts is None:
        return table
    counts = own_counts(rule.counted(names_of(table)), table, whole)
    return Counted(table, counts, whole=words.missing is not Missing.DROP)


def home_table(
    words: PrepareSection,
    source: MatrixSource,
    labels: Sequence[str],
    ids: str | Sequence[str] | None,
    partly: bool = False,
    stays: Sequence[str] = (),
) -> HomeTable:
    """A table after all that its party does alone; categories are still text, and gaps may be gaps."""
    rule = words.joint
    text: Mapping[str, str | None] = {} if rule is None else {name: rule.category(name).missing for name in rule.text}
    return prepared_at_home(source, words.rule, labels, ids, partly, text=text, stays=stays)


@dataclass(frozen=True, repr=False)
class Made:
    """A table as ``[prepare]`` wants it, the outcome of its formula, and what was done to it."""

    table: MatrixSource
    report: HomeReport | None
    outcome: Float | None = None


def prepared_for(
    words: PrepareSection,
    source: MatrixSource,
    labels: Sequence[str],
    ids: str | Sequence[str] | None,
    alone: bool,
    recipe: Recipe | None = None,
    partly: bool | None = None,
    stays: Sequence[str] = (),
) -> Made:
    """A table as ``[prepare]`` wants it; labels and ids are still read by their names, and ``stays`` are features too.

    Where it is prepared by joint numbers these are in ``recipe``, but for one that stands ``alone``: where columns are
    split, a column is one party's, and so are its numbers. ``partly`` as in ``home_table``, where that is another.
    """
    if words.asks_nothing:
        return Made(source, None)
    home, rule = home_table(words, source, labels, ids, alone if partly is None else partly, stays), words.joint
    if rule is None:
        return Made(home.table, home.report)
    if alone or not rule.takes_sums:
        found = prepared_alone(home.table, rule.of_columns(names_of(home.table)))
    elif recipe is None:
        raise ConfigError(
            "this table is prepared together with the other parties', and was not yet", "prepare it first"
        )
    else:
        found = prepared_again(home.table, rule, recipe)
    report = replace(home.report, recipe=found.recipe, alone=recipe is None)
    return Made(found.table, report, found.outcome)


def new_rows(
    words: PrepareSection, source: MatrixSource, id: str | None, recipe: Recipe | None, features: Sequence[str]
) -> MatrixSource:
    """New rows, under their names in the study, prepared as its rows were, by the numbers that were found then.

    No row is left out, so that every row has its prediction: one with a gap that nothing fills is refused. The outcome
    of a formula need not be known, and columns that the study did not have are left out.
    """
    if words.missing is Missing.DROP:
        words = words.model_copy(update={"missing": Missing.ERROR})
    if words.targets:
        words = words.model_copy(update={"formula": f"~{words.formula.partition('~')[2]}"})
    rule = words.joint
    read = {*features, *(() if recipe is None else recipe.numbers), *(() if rule is None else rule.text)}
    source = arranged(source, [name for name in names_of(source) if name in read])
    home = home_table(words, source, (), id, partly=True)
    if rule is None or recipe is None:
        return home.table
    return prepared_again(home.table, rule.of_columns(names_of(home.table)), recipe).table


def preparation_facts(words: PrepareSection, agreed: SessionPlan | None) -> dict[str, Any]:
    """What results say of how tables were prepared, to every reader: nothing of any table."""
    if words.asks_nothing:
        return {}
    facts: dict[str, Any] = {
        "steps": words.description(),
        "words": words.model_dump(mode="json", exclude_defaults=True),
    }
    if agreed is not None:
        facts["session"] = {"plan_digest": agreed.digest, "sums": [step.name for step in agreed.steps]}
        facts["learned"] = what_each_role_learns(agreed)
    return {"preparation": facts}


def expect_study_allowed(study: Study, tables: Sequence[tuple[int, int]], policy: Policy) -> None:
    """Judge the study that comes after a joint preparation before that one is run, by the policy of its owners.

    ``tables`` are the records and columns of every party, prepared alone. Records are what they will be; joint levels
    and gaps may make more columns than any party has alone, so each party's own count is judged here, as its owner
    would, and the plan of the study once more when the joint tables are known.
    """
    rows = tuple(rows for rows, _ in tables)
    for columns in sorted({columns for _, columns in tables}):
        try:
            plan = plan_study(study, columns, rows, _NO_SESSION).plan
        except (ConfigError, StorageError):
            continue  # with so few columns there would be no such study; with those of all there may be
        guard(plan, policy)


def agree(
    study: Study,
    parties: Sequence[PartyData],
    random_state: int | None = None,
    scratch: Path | None = None,
    progress: Progress | None = None,
    policy: Policy | None = None,
    record: bool = False,
    asked: str = "",
) -> Outcome:
    """Run a preparation among these parties, in this process; ``recipes_of`` says what each of them holds then."""
    how: dict[str, Any] = {"scratch": scratch, "progress": progress, "policy": policy}
    try:
        return run_study(study, parties, random_state=random_state, record=record, asked=asked, **how)
    except DataError as error:
        if error.of:
            error.fault = f"party {error.of}: {error.fault}"
        raise


def recipes_of(outcome: Outcome) -> tuple[Recipe, ...]:
    """Every party's recipe, in the order of the parties."""
    found: tuple[PreparedTable, ...] = outcome.parties
    return tuple(each.recipe for each in found)
