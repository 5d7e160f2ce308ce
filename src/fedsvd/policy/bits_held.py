"""Bits that a study opens against bits that records hold: what a party's owner is shown, asked or refused.

Users who open more bits than the others' records hold may be able to compute these records. How many there are is
public (``protocol/openings.py``), how many records hold follows from entropies that each party measures in its own
table, before a share is made. Ratios are for the owner alone. What is proved of them: the threat model, "Counting".
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fedsvd.policy.rules import ANY, Finding, Policy
from fedsvd.protocol.directions import RECORDS_A_DIRECTION, fewer_in_words, most_directions
from fedsvd.protocol.held import LISTED, held_bits
from fedsvd.protocol.openings import Per, all_openings, judged_bits, opened
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.steps import What
from fedsvd.protocol.tasks import Split

FINE, MOST = 1.5, 3.0
"""Bits opened for each bit held, up to which nothing is said, and up to which the owner is asked. Lattice reduction
read tables of 0/1 columns from 1.8 on."""

MOST_RARE = 0.2
"""Of the own records, in patterns of 1 to 4 of them, up to which the owner is asked."""

_NAMED = 6  # columns that a sentence names


@dataclass(frozen=True)
class Earlier:
    """What an earlier study of the same table opened, and the columns it was of, with the bits of one record."""

    bits: int
    columns: Mapping[str, float]
    directions: int = 0  # by steps


@dataclass(frozen=True)
class OwnBits:
    """What is measured of a party's own rows, in the columns of the design."""

    records: int
    columns: Mapping[str, float]  # bits of one record in each
    few: tuple[str, ...] = ()  # columns of at most 20 values
    listed: bool = False  # whether all columns are such
    rare: int = 0  # own records in patterns of 1 to 4, where all columns are such
    rows_each: float = 1.0  # of a record, where sums are of groups of rows

    @property
    def record(self) -> float:
        """Bits of one record."""
        return sum(self.columns.values())


@dataclass(frozen=True)
class Balance:
    """Bits that are opened, by this study and earlier ones of the same table, and that the records hold."""

    opened: int
    held: float
    outside: int  # records outside of the largest other party

    @property
    def ratio(self) -> float:
        return self.opened / self.held if self.held > 0.0 else float("inf")


def judged_by_bits(plan: SessionPlan) -> bool:
    """Whether each row is one record, of which users open sums or factors. Sessions before a study are judged by their
    own rules, and where columns are split a number for each record is what is asked about."""
    beforehand = opened(plan) & {What.PREPARED, What.CAPPED, What.RECORDS}
    return plan.split is Split.HORIZONTAL and not beforehand


def per_record(plan: SessionPlan) -> bool:
    """Whether users see numbers of single records that others' columns went into."""
    return any(each.per is Per.RECORD and each.what is not What.RECORDS for each in all_openings(plan))


def takes_label(plan: SessionPlan) -> bool:
    """Whether labels are columns like others of what is opened: where products of a linear model's scores are."""
    return plan.adds_labels and What.SQUARED_SCORES in opened(plan)


def with_and_without_label(plan: SessionPlan) -> tuple[bool, ...]:
    """The ways in which records are judged: without labels, with them, or both, of which the graver counts.

    Squared scores of a model are linear in how often features and outcome occur together; its gradient is counted
    without the outcome.
    """
    if plan.glm is not None and What.SQUARED_SCORES in opened(plan):
        return False, True
    return (takes_label(plan),)


def balance(plan: SessionPlan, own: OwnBits, earlier: Sequence[Earlier] = ()) -> Balance:
    """What this plan opens, with earlier studies of these columns, or of these and others, against what records hold;
    of both counts the one that leaves less."""
    opens = judged_bits(plan, takes_label(plan))
    within = [each.bits for each in earlier if each.columns.keys() <= own.columns.keys()]
    every = {name: bits for each in earlier for name, bits in each.columns.items()} | dict(own.columns)
    outside = _outside(plan, own)
    these = Balance(opens + sum(within), held_bits(outside, own.record), outside)
    all_of_them = Balance(opens + sum(each.bits for each in earlier), held_bits(outside, sum(every.values())), outside)
    return max(these, all_of_them, key=lambda each: each.ratio)


def most_bits(plan: SessionPlan, own: OwnBits, policy: Policy, earlier: Sequence[Earlier] = ()) -> float:
    """Bits that a party lets a study by few digits open before it ends the session, however many the plan grants.

    What is judged is how many are expected; data that is nearly separated, or nearly dependent columns, take more. None
    are opened beyond what would have been refused, or, where patterns can be listed and some are rare, beyond what
    makes these a question.
    """
    if policy.openings == ANY or not judged_by_bits(plan) or not plan.few_digits:
        return math.inf
    found, opens = balance(plan, own, earlier), judged_bits(plan, takes_label(plan))
    times = MOST
    if own.listed and own.record < LISTED:
        times = 1.0 if own.rare and found.ratio <= 1.0 else math.inf
    left = times * found.held - (found.opened - opens)
    return max(left, opens) + judged_bits(plan, label=True) - opens


def _outside(plan: SessionPlan, own: OwnBits) -> int:
    """Records that the largest other party does not have; of groups, as many as the own rows have for theirs."""
    others = list(plan.counts)
    if own.records in others:
        others.remove(own.records)
    return round((plan.n - max(others)) / own.rows_each)


def bit_findings(
    plan: SessionPlan, own: OwnBits, policy: Policy, earlier: Sequence[Earlier] = ()
) -> tuple[Finding, ...]:
    """What bits opened and held say against a study; nothing where the owner's policy allows any opening."""
    if policy.openings == ANY:
        return ()
    found = [*_per_record(own)] if per_record(plan) else []
    if What.PRODUCTS in opened(plan):
        found += [*_of_products(plan, own, sum(each.directions for each in earlier))]
    if judged_by_bits(plan):
        found += [*_of_sums(balance(plan, own, earlier), own)]
    return tuple(found)


def _of_sums(found: Balance, own: OwnBits) -> Iterator[Finding]:
    if own.listed and own.record < LISTED:
        if found.ratio > 1.0:
            yield from _patterns(found, own)
    elif found.ratio > FINE:
        below = found.ratio > MOST
        text = (
            f"about {found.opened:,} bits are opened of {found.outside:,} records that hold about {found.held:,.0f}, "
            f"{found.ratio:.1f} times as many: from {MOST:g} times on users can be expected to compute records. "
            'Take fewer columns, or digits = "table"'
        )
        yield Finding("bits", text, below=below, asks=not below)


def _of_products(plan: SessionPlan, own: OwnBits, before: int) -> Iterator[Finding]:
    """Whole numbers times a few unknown weights are a lattice problem: eight records for each direction are far off.

    Directions of earlier studies of the same table are further equations for the same records, and count.
    """
    rows = plan.split is Split.HORIZONTAL
    what, outside = ("records", _outside(plan, own)) if rows else ("columns", plan.n - max(plan.counts))
    most = before + most_directions(plan)
    if own.few and outside < RECORDS_A_DIRECTION * most:
        fewer = fewer_in_words(outside / RECORDS_A_DIRECTION - before, plan.m)
        earlier = f", {before} of them in earlier studies" if before else ""
        yield Finding(
            "directions",
            f"users open up to {most} directions of {outside:,} {what}{earlier}, of columns with few values "
            f"({_names(own.few)}): from fewer than {RECORDS_A_DIRECTION} {what} a direction lattice reduction can "
            f'compute such records. Of these {fewer}; or set scheme = "sum"',
        )


def _patterns(found: Balance, own: OwnBits) -> Iterator[Finding]:
    if own.rare == 0:
        return
    below = own.rare > MOST_RARE * own.records
    text = (
        f"users can compute how often each combination of these columns occurs ({_names(own.few)}); {own.rare:,} of "
        f"your {own.records:,} records are in combinations of fewer than 5. Pool levels, or take fewer columns"
    )
    yield Finding("patterns", text, below=below, asks=not below)


def _per_record(own: OwnBits) -> Iterator[Finding]:
    few = f", of columns with few values often the value itself: {_names(own.few)}" if own.few else ""
    text = f"users see a number for each record that your columns went into{few}"
    yield Finding("per record", text, below=False, asks=True)


def _names(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(map(repr, names[:_NAMED]))}{more}"
