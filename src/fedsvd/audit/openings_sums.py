"""Attacks that read a record, or a party's sums, from exact sums and their differences.

Whatever a study releases of a Gram matrix in all digits, a party subtracts its own part of it. Here sums are those of
the table itself, in float64, and what is read is compared with the true record. An attacker knows that it has one
record and no more from the sums alone: a count of 1, or a column whose squared sum is its sum of squares.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations, combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from fedsvd.audit.openings_table import (
    OpenedTable,
    Played,
    Stop,
    Verdict,
    at_home,
    gravest,
    judged,
    mildest,
    not_played,
)
from fedsvd.data.arrays import ArraySource
from fedsvd.errors import ConfigError
from fedsvd.policy.earlier_rules import BY_COLUMNS, Asked, OwnRows, record_findings
from fedsvd.policy.rosters import roster_findings
from fedsvd.policy.row_sets import taken
from fedsvd.policy.rules import Policy, settled
from fedsvd.prepare.formula import LONGEST, parse
from fedsvd.prepare.formula_table import FormulaTable
from fedsvd.protocol.tasks import Item, Split, Task
from fedsvd.studies.parties import PartyData
from fedsvd.studies.planning import plan_study
from fedsvd.studies.study import Study
from fedsvd.types import Float, SessionId

SINGLED = "a column, or a product of two, that one record has, and standard errors"
GAPS = 'studies with missing = "drop", whose columns choose rows'
ROSTERS = "rosters {A, B, C}, {A, B, D}, {A, C, D}"
CUTS = "two cuts of a column a step apart"
_MOST_JUDGED = 20  # studies of one kind that rules are asked about
_MOST_PAIRED = 20  # columns of whose products a study is tried
_ROUNDING = 1e-9
_SAME_SUMS = 1e-6
_TABLE = (Item.COEFFICIENTS, Item.INTERCEPT, Item.INFERENCE)
_SESSION = SessionId("00" * 16)
_NOTHING_READ = Verdict(Stop.NOT_JUDGED)
_NOT_REMEMBERED = Verdict(Stop.NOT, (), "the policy remembers no studies")


# --- one record alone in a column -------------------------------------------------------------------------------------


def singled(table: OpenedTable, policy: Policy) -> Played:
    """Each column, and each product of two, as a column of a regression whose Gram matrix is opened."""
    parts, rows = table.dealt(3), table.rows
    own, names = rows[parts[0]], table.names
    paired = range(min(len(names), _MOST_PAIRED))
    sources = [(j,) for j in range(len(names))] + list(combinations(paired, 2))
    read: set[int] = set()
    made: list[tuple[tuple[int, ...], int]] = []
    for columns in sources:
        D = np.prod(table.X[:, columns], axis=1)
        if len(columns) > 1 and any((table.X[:, j] == D).all() for j in columns):
            continue  # no other column than the data has
        # Opened: products of the joint table with D, and D's own; the attacker takes its part away.
        products = rows.T @ D - own.T @ D[parts[0]]
        squares = float(D @ D - D[parts[0]] @ D[parts[0]])
        value = products[0]
        if squares <= 0.0 or abs(value * value - squares) > _ROUNDING * squares or (D < 0.0).any():
            continue  # no record, or several
        alone = parts[1].start + np.flatnonzero(D[parts[1].start :])
        if len(alone) == 1 and table.same(products / value, record := int(alone[0])):
            read.add(record)
            made.append((columns, record))
    of = len(rows) - len(own)
    if not made:
        return Played(SINGLED, 1, 0, of, "records", _NOTHING_READ, note="no column and no product has one record")
    verdict = mildest(_of_regression(table, policy, *each) for each in made[:_MOST_JUDGED])
    return Played(SINGLED, 1, len(read), of, "records", verdict)


def _of_regression(table: OpenedTable, policy: Policy, columns: tuple[int, ...], record: int) -> Verdict:
    """What the party of this record says of the regression that has the column."""
    parts = table.dealt(3)
    rows = next(part for part in parts if part.start <= record < part.stop)
    kept = sorted({*columns, *range(min(len(table.names), _MOST_PAIRED))})
    party = table.party(rows, kept)
    if len(columns) > 1:
        called = {j: f"`{table.names[j].replace('`', ' ')}`" for j in kept}
        while len(" + ".join(called.values())) > LONGEST // 2 and len(called) > len(columns):
            called.pop(next(j for j in reversed(called) if j not in columns))
        data = ArraySource(table.X[rows][:, list(called)], [name.strip("`") for name in called.values()])
        text = " + ".join([*called.values(), ":".join(called[j] for j in columns)])
        party = PartyData(FormulaTable(data, parse(text), {}), labels=table.y[rows][:, None])
    counts = tuple(part.stop - part.start for part in parts)
    study = Study(Task.LR, Split.HORIZONTAL, targets=1, release=_TABLE)
    return at_home(plan_study(study, party.table.shape[1], counts, _SESSION).plan, party, policy)


# --- rows that gaps choose --------------------------------------------------------------------------------------------


def dropped(table: OpenedTable, policy: Policy, seed: int) -> Played:
    """Sums of all records, of those with p, of those with q, of those with both: what is left are those with neither.

    Played a second time with the records that memory lets each of these studies have.
    """
    if not table.gaps:
        return not_played(GAPS, "no column has a gap")
    parts, of = table.dealt(3), len(table.y) - table.dealt(3)[0].stop
    pairs = list(combinations_with_replacement(list(table.gaps)[:_MOST_PAIRED], 2))
    read, remembered = set[int](), set[int]()
    for p, q in pairs:
        wanted = [np.ones(len(table.y), np.bool_), ~table.gaps[p], ~table.gaps[q], ~(table.gaps[p] | table.gaps[q])]
        read |= _by_differences(table, parts, wanted)
        remembered |= _by_differences(table, parts, _row_sets(wanted, parts, policy.least_count, seed))
    if not read:
        return Played(GAPS, 4, 0, of, "records", _NOTHING_READ, note="no record is alone in missing two columns")
    if not policy.remember:
        return Played(GAPS, 4, len(read), of, "records", _NOT_REMEMBERED)
    verdict = _of_choosers(policy)
    if verdict.stop is Stop.NOT and not remembered:
        verdict = Verdict(Stop.LEFT_OUT, ("rows",), "further records are left out with those that have gaps")
    note = f"with an owner's yes: {len(remembered)} read, since further records are left out"
    return Played(GAPS, 4, len(read), of, "records", verdict, note=note)


def _by_differences(table: OpenedTable, parts: Sequence[slice], wanted: Sequence[NDArray[np.bool_]]) -> set[int]:
    """The record that all - with p - with q + with both is a sum of, where it is one."""
    rows, first = table.rows, parts[0]
    every, with_p, with_q, with_both = (_opened(rows[flags]) - _opened(rows[first][flags[first]]) for flags in wanted)
    left = every - with_p - with_q + with_both
    if round(left[0, 0]) != 1:
        return set()
    found = left[0]
    return {record for record in range(first.stop, len(rows)) if table.same(found, record)}


def _opened(rows: Float) -> Float:
    return rows.T @ rows


def _row_sets(
    wanted: Sequence[NDArray[np.bool_]], parts: Sequence[slice], least: int, seed: int
) -> list[NDArray[np.bool_]]:
    """The records that each party's memory lets these studies have, one after the other."""
    order = np.random.default_rng(seed).integers(0, 2**63, len(wanted[0]), dtype=np.uint64)
    found = [np.zeros(len(flags), np.bool_) for flags in wanted]
    for part in parts:
        classes = np.zeros(part.stop - part.start, np.int64)
        for study, flags in enumerate(wanted):
            classes, found[study][part] = taken(classes, flags[part], order[part], least)
    return found


def _of_choosers(policy: Policy) -> Verdict:
    earlier, verdicts = list[Asked](), []
    for number, chooser in enumerate(("", f"{BY_COLUMNS}p", f"{BY_COLUMNS}q", f"{BY_COLUMNS}p q")):
        asked = Asked(str(number), frozenset("ABC"), chooser=chooser)
        verdicts.append(judged(settled(record_findings(asked, earlier, OwnRows(), policy), policy)))
        earlier.append(asked)
    return gravest(verdicts)


# --- rosters ----------------------------------------------------------------------------------------------------------


def rosters(table: OpenedTable, policy: Policy) -> Played:
    """Party A is in three studies, and computes each other party's own Gram matrix."""
    parts = dict(zip("ABCD", table.dealt(4), strict=True))
    own = {name: _opened(table.rows[part]) for name, part in parts.items()}
    studies = [frozenset(roster) for roster in ("ABC", "ABD", "ACD")]
    bc, bd, cd = (sum(own[name] for name in roster) - own["A"] for roster in studies)
    found = {"B": (bc + bd - cd) / 2.0, "C": (bc + cd - bd) / 2.0, "D": (bd + cd - bc) / 2.0}
    read = sum(_near(found[name], own[name]) for name in found)
    verdict = _NOT_REMEMBERED
    if policy.remember:
        verdict = gravest(each for name in found for each in _of_rosters(studies, name, policy))
    return Played(ROSTERS, 3, read, len(found), "parties' Gram matrices", verdict)


def _near(found: Float, true: Float) -> bool:
    scale = np.sqrt(np.multiply.outer(true.diagonal(), true.diagonal())) + 1.0
    return bool((np.abs(found - true) <= _SAME_SUMS * scale).all())


def _of_rosters(studies: Sequence[frozenset[str]], me: str, policy: Policy) -> Iterator[Verdict]:
    """What an honest party says of those it is in, one after the other."""
    earlier = list[frozenset[str]]()
    for roster in (each for each in studies if me in each):
        yield judged(settled(roster_findings(earlier, roster, me), policy))
        earlier.append(roster)


# --- cuts -------------------------------------------------------------------------------------------------------------


def cuts(table: OpenedTable) -> Played:
    """Sums of the records up to a cut, for cuts between all values of one column: whom two neighbours have between."""
    first, rows = table.dealt(3)[0], table.rows
    alone = [len(np.unique(column[first.stop :])) for column in table.X.T]
    column = table.X[:, int(np.argmax(alone))]
    read, before = 0, np.zeros(rows.shape[1])
    for value in np.unique(column):
        inside = column <= value
        opened = rows[inside].sum(axis=0) - rows[first][inside[first]].sum(axis=0)
        between, before = opened - before, opened
        if round(between[0]) == 1:
            record = first.stop + int(np.flatnonzero(column[first.stop :] == value)[0])
            read += table.same(between, record)
    try:
        parse("y ~ cut(x, 1.5)")
    except ConfigError as error:
        verdict = Verdict(Stop.REFUSED, ("formula",), error.fault)
    else:
        verdict = Verdict(Stop.NOT)
    return Played(CUTS, 2, read, len(rows) - first.stop, "records", verdict)
