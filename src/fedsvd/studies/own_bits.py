"""A party's own columns as bits, measured for ``policy/bits_held.py`` before anything is sent.

Entropies are of at most 16,384 own rows, spread over the table: a column has the bits that are seen there. Patterns are
counted in all rows, where every column has few values.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.linalg.pools import one_thread
from fedsvd.policy.bits_held import (
    Earlier,
    OwnBits,
    bit_findings,
    judged_by_bits,
    per_record,
    takes_label,
    with_and_without_label,
)
from fedsvd.policy.rules import ANY, Finding, Policy
from fedsvd.prepare.derived import PANEL_CELLS, names_of
from fedsvd.prepare.rule import ROUND_BITS
from fedsvd.prepare.soft_impute import numbers_of_a_round
from fedsvd.protocol.held import LISTED
from fedsvd.protocol.model import Digits
from fedsvd.protocol.plan import SessionPlan
from fedsvd.statistics.patterns import column_bits, columns_of, evenly, in_rare_patterns, rank_share
from fedsvd.studies.job_file import Job
from fedsvd.studies.parties import PartyData
from fedsvd.studies.persons import groups_of, persons_of
from fedsvd.types import Float

_ROWS = 1 << 14
WIDE = 50  # columns from which their dependence on each other is counted
_MOST_CELLS = 1 << 18  # of the rows that entropies are measured in
_RANK_ROWS = 1 << 10
LABEL = "the label"


def judged_at_home(plan: SessionPlan, policy: Policy) -> bool:
    """Whether this study has to be measured at all."""
    return policy.openings != ANY and (judged_by_bits(plan) or per_record(plan))


def findings_of_bits(
    plan: SessionPlan, party: PartyData, policy: Policy, earlier: Sequence[Earlier] = ()
) -> tuple[Finding, ...]:
    """What bits opened and held say against a study by this plan, at this party, after ``earlier`` ones."""
    if not judged_at_home(plan, policy):
        return ()
    found: dict[str, Finding] = {}
    for own in measured_ways(plan, party):
        for each in bit_findings(plan, own, policy, earlier):
            if each.rule not in found or each.below > found[each.rule].below:
                found[each.rule] = each
    return tuple(found.values())


def measured_ways(plan: SessionPlan, party: PartyData) -> tuple[OwnBits, ...]:
    """The bits of a party's columns, in every way in which they are judged; with labels only where all have few
    values, so that their patterns can be listed."""
    first, *others = (measured_bits(plan, party, label) for label in with_and_without_label(plan))
    return (first, *(own for own in others if own.listed and own.record < LISTED))


def imputation_bits(job: Job, party: PartyData) -> int:
    """What the rounds of a low-rank imputation before a study opened of its columns: each a matrix of products."""
    rule, report = job.prepare.joint, party.prepared
    if rule is None or rule.low_rank is None or report is None or report.recipe is None:
        return 0
    completion, how = report.recipe.completion, rule.low_rank
    columns = 0 if completion is None else len(completion.means)
    return how.played(columns) * numbers_of_a_round(columns, how.rank) * ROUND_BITS


def measured_bits(plan: SessionPlan, party: PartyData, with_label: bool | None = None) -> OwnBits:
    """The bits of a party's columns, and of its labels where these are among them; a pass over all rows where patterns
    can be listed, else over some."""
    label = takes_label(plan) if with_label is None else with_label
    rows, names = _some(party, label), _names(party, label)
    found = columns_of(rows)
    few = tuple(names[place] for place in np.flatnonzero(found.few & (found.values > 1)).tolist())
    if not judged_by_bits(plan):
        return OwnBits(party.table.shape[0], {}, few)
    columns, groups = column_bits(rows, names, found), groups_of(party, plan)
    if len(names) > WIDE:
        with one_thread():  # a few hundred rows: threads of another BLAS pool would spin into the session that follows
            share = rank_share(rows[:: -(-len(rows) // _RANK_ROWS)])
        columns = {name: share * bits for name, bits in columns.items()}
    listed = bool(found.few.all())
    own = OwnBits(party.table.shape[0], columns, few, listed)
    if groups is not None:
        own = _of_groups(own, dict(zip(names, rows.T, strict=True)), groups)
    # Patterns are not counted where no rule asks for them: long sparse tables have as many as they have rows.
    if not listed or own.record >= LISTED:
        return own
    return replace(own, rare=in_rare_patterns(_panels(party, label), persons_of(party, plan)))


def _of_groups(own: OwnBits, rows: Mapping[str, Float], groups: NDArray[Any]) -> OwnBits:
    """Where sums are of groups a record is a group with all of its rows: a column has its bits once for each value that
    it has there, so that what does not change in a group counts once."""
    some = np.concatenate([groups[run] for run in _runs(len(groups), len(rows))])
    values = {name: len(np.unique(np.column_stack((some, rows[name])), axis=0)) for name in own.columns}
    columns = {name: bits * values[name] / len(np.unique(some)) for name, bits in own.columns.items()}
    return replace(own, columns=columns, rows_each=len(groups) / len(np.unique(groups)))


def as_between(plan: SessionPlan, policy: Policy) -> SessionPlan:
    """The plan by which a study in one process is judged: where nothing is enforced, a model's sums have all digits
    there, and it is judged by those that it would have between institutions."""
    if policy.enforce:
        return plan
    if plan.glm is not None:
        return replace(plan, glm=replace(plan.glm, digits=Digits.TABLE))
    return plan if plan.sum_digits is None else replace(plan, digits=Digits.TABLE)


def _names(party: PartyData, label: bool) -> tuple[str, ...]:
    labels = 0 if party.labels is None or not label else party.labels.shape[1]
    return (*names_of(party.table), *(f"{LABEL} {place + 1}" if place else LABEL for place in range(labels)))


def _some(party: PartyData, label: bool) -> Float:
    """Rows that are spread over the table."""
    n, p = party.table.shape
    runs = _runs(n, p)
    cells = np.concatenate([party.table.raw(run, slice(0, p)) for run in runs])
    if not label or party.labels is None:
        return cells
    return np.hstack([cells, np.concatenate([party.labels[run] for run in runs])])


def _runs(n: int, p: int) -> list[slice]:
    return list(evenly(n, max(16, min(_ROWS, _MOST_CELLS // max(1, p)))))


def _panels(party: PartyData, label: bool) -> Iterator[Float]:
    start = 0
    for cells in party.table.panels(0, max(1, PANEL_CELLS // party.table.shape[1])):
        rows = slice(start, start := start + len(cells))
        yield cells if not label or party.labels is None else np.hstack([cells, party.labels[rows]])
