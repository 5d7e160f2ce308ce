"""Table 1 at a user: own counts and sums, which levels pass, and what all users open of them.

Levels that too few records have outside of some party are joined before anything is counted: each party sees counts
that are cut at five, and says which it objects to (``prepare/joint_counts.py``, here for levels in groups). Then counts
of the levels that are left are opened as whole numbers, sums of numbers in as many digits as the size of a group
allows, and counts on grids in multiples of five. Ranks are those among a party's own records.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedsvd.errors import DataError, LocalProtocolError
from fedsvd.prepare.categories import JointLevels
from fedsvd.prepare.described_columns import DescribedColumns
from fedsvd.prepare.joint_counts import too_few
from fedsvd.protocol.steps import CAPPED_AT
from fedsvd.protocol.table import EXACT, FEWEST_QUANTILES, FEWEST_RANGE, TablePlan
from fedsvd.roles.user.digits import DigitSums
from fedsvd.roles.user.packed import Spaced, packed, unpacked
from fedsvd.roles.user.requests import Local, Script
from fedsvd.roles.user.sums import any_of, from_upper_triangle, sum_of_fives, upper_triangle, whole_sum
from fedsvd.roles.user.work import Work
from fedsvd.statistics import describe
from fedsvd.statistics.describe import OVERALL, Category, Description, Moments, Number, OwnTable
from fedsvd.statistics.fives import most_off
from fedsvd.statistics.group_tests import rank_test
from fedsvd.statistics.level_pools import Places, membership, objections, order_of_joining, places_shown
from fedsvd.statistics.newton import NOISE
from fedsvd.types import Float


@dataclass(frozen=True, repr=False)
class DescribedResult:
    """What every user ends with."""

    description: Description
    record: dict[str, Any]  # the same as JSON has it
    bits: float  # of sums in few digits
    rank: int = 0

    def __repr__(self) -> str:
        return f"DescribedResult({self.description})"


@dataclass(frozen=True)
class _Pool:
    """Levels as they are shown: each is one level, or the last of them several."""

    levels: tuple[str, ...]
    joined: tuple[str, ...]  # levels that are one
    member: Float  # (shown, levels)

    @classmethod
    def of(cls, levels: tuple[str, ...], places: Places, pooled: bool = False) -> "_Pool":
        """Levels in these places; ``pooled`` where the last of them are joined."""
        alone = tuple(levels[place] for (place,) in (places[:-1] if pooled else places))
        shown = (*alone, JointLevels("", alone).pool) if pooled else alone
        joined = tuple(levels[place] for place in places[-1]) if pooled else ()
        return cls(shown, joined, membership(places, len(levels)))


def script(work: Work) -> Script:
    """Pool what is rare, count, add up, rank."""
    about = work.plan.table
    if about is None:
        raise LocalProtocolError("a description needs the columns that it is of", "plan it again")
    if work.plan.m != about.columns:
        fault = f"the tables have {work.plan.m} columns, and those of the plan's description are {about.columns}"
        raise LocalProtocolError(fault, "prepare the table as the plan says")
    own: OwnTable = yield Local("describe", lambda: _own(work, about))
    groups = _Pool.of(about.groups, tuple((g,) for g in range(len(about.groups))))
    if about.by:
        found: list[_Pool] = yield from _pooled(work, "groups", [about.groups], [own.sizes[:, None]])
        groups = found[0]
        if len(groups.levels) < 2:
            fault = f"fewer than two levels of {about.by!r} have enough records to be groups"
            raise DataError(fault, "name another column, or a group of the dictionary that joins levels")
    own = own.pooled(groups.member)
    levels: list[_Pool] = []
    if about.categories:
        names = [each.levels for each in about.categories]
        levels = yield from _pooled(work, "levels", names, [*own.counts], len(about.groups))
    return (yield from _opened(work, about, own, groups, levels))


# --- a user's own table -----------------------------------------------------------------------------------------------


def _own(work: Work, about: TablePlan) -> OwnTable:
    """One pass over the columns, one at a time."""
    columns, groups = DescribedColumns(work.source, about), len(about.groups)
    group, numbers, counts = columns.group, [], []
    for place, variable in enumerate(about.variables):
        if place == about.place:
            continue
        if variable.levels:
            codes, missing = columns.codes(place)
            counts.append(describe.own_counts(codes, missing, len(variable.levels), group, groups))
        else:
            values, missing = columns.values(place)
            numbers.append(describe.own_number(values, missing, group, groups, variable.middle, variable.edges))
    sizes = np.bincount(group[group >= 0], minlength=groups).astype(np.float64)
    found = OwnTable(sizes, tuple(numbers), tuple(counts))
    return _with_products(work, columns, found) if about.correlations else found


def _with_products(work: Work, own: DescribedColumns, found: OwnTable) -> OwnTable:
    """Products of numbers over records that miss none of them and have a group."""
    about = own.about
    places = [j for j, each in enumerate(about.variables) if each.is_number]
    middle = np.array([about.variables[j].middle for j in places])[:, None]
    n, sums, products = 0.0, np.zeros(len(places)), np.zeros((len(places), len(places)))
    for columns, panel in work.panels("describe"):
        there = own.group[columns] >= 0
        if about.gaps:
            there &= ~(np.asarray(panel)[[j + len(about.variables) for j in places]] != 0.0).any(axis=0)
        rows = (np.asarray(panel)[places] - middle)[:, there]
        n, sums, products = n + rows.shape[1], sums + rows.sum(axis=1), products + rows @ rows.T
    return replace(found, complete=n, sums=sums, products=products)


# --- which levels are joined ------------------------------------------------------------------------------------------


def _pooled(work: Work, of: str, names: list[tuple[str, ...]], own: list[Float], width: int = 1) -> Script:
    """The levels of each variable as they may be counted, from own counts (levels, groups) of each.

    All users decide alike: by sums of counts cut at five, and by an OR of what any of them objects to.
    """
    cut = [np.minimum(each, CAPPED_AT) for each in own]
    parts = [(each, (len(each), width)) for each in cut]
    capped, total = packed(parts), None
    if work.plan.k > 2:
        total = yield from whole_sum(work.plan, f"joint counts of {of}", capped)
    flagged = yield from any_of(f"rare {of}", too_few(capped, total), work.own)
    rare = [np.asarray(each.any(axis=1), np.bool_) for each in unpacked(flagged, parts)]
    joint: list[Float | None] = [None] * len(own) if total is None else [*unpacked(total, parts)]
    others = [mine if every is None else every - few for mine, few, every in zip(own, cut, joint, strict=True)]
    orders = [order_of_joining(each, every) for each, every in zip(rare, joint, strict=True)]
    judged = zip(rare, orders, others, strict=True)
    found = [objections(flags, order, each, CAPPED_AT) for flags, order, each in judged]
    failed = yield from any_of(f"pools of {of}", np.concatenate(found), work.own)
    bad = np.split(failed, np.cumsum([len(each) for each in names])[:-1])
    return [
        _Pool.of(levels, places_shown(flags, order, each), bool(flags.any()))
        for levels, flags, order, each in zip(names, rare, orders, bad, strict=True)
    ]


# --- what is opened ---------------------------------------------------------------------------------------------------


def _opened(work: Work, about: TablePlan, own: OwnTable, groups: _Pool, levels: list[_Pool]) -> Script:
    """Counts, sums, grids and ranks; the description of all parties' records."""
    most, categories = len(about.groups), about.categories
    counts = [pool.member @ each for pool, each in zip(levels, own.counts, strict=True)]
    parts: list[Spaced] = [(own.sizes, (most,)), *((each.present, (most,)) for each in own.numbers)]
    parts += [(each, (len(named.levels), most)) for each, named in zip(counts, categories, strict=True)]
    parts += [(np.array([own.complete]), (1,))] if about.correlations else []
    total: Float = yield from whole_sum(work.plan, "counts", packed(parts))
    sizes, *joint = unpacked(total, parts)
    present, cells = joint[: len(own.numbers)], joint[len(own.numbers) :]
    sums = DigitSums(work)
    numbers = (yield from _numbers(work, about, own, groups, sizes, present, sums)) if about.numbers else []
    names = groups.levels if about.by else ()
    shown = [
        describe.category(named.name, pool.levels, each, sizes, pool.joined, names)
        for named, pool, each in zip(categories, levels, cells, strict=False)
    ]
    correlated = None
    if about.correlations and about.numbers:
        correlated = yield from _correlations(about, own, float(cells[-1][0]), numbers, sums)
    found = _description(work, about, groups, sizes, [*numbers, *shown], correlated)
    return DescribedResult(found, found.record(), sums.bits)


def _description(
    work: Work,
    about: TablePlan,
    groups: _Pool,
    sizes: Float,
    found: list[Number | Category],
    correlated: describe.Correlations | None,
) -> Description:
    order = {each.name: place for place, each in enumerate(about.described)}
    return Description(
        about.by,
        (*groups.levels, OVERALL) if about.by else (OVERALL,),
        np.append(sizes, sizes.sum()) if about.by else sizes,
        tuple(sorted(found, key=lambda each: order[each.name])),
        groups.joined,
        about.nonnormal,
        most_off(about.multiple, work.plan.k) if about.quantiles and about.multiple > 1 else 0.0,
        correlated,
    )


def _numbers(
    work: Work, about: TablePlan, own: OwnTable, groups: _Pool, sizes: Float, present: list[Float], sums: DigitSums
) -> Script:
    """Means, deviations, quantiles and rank tests of all numbers."""
    moments = yield from _moments(about, own, present, sums)
    grids = yield from _grids(work, about, own, present)
    tests = (yield from _ranks(work.plan.k, about, own, sizes, sums)) if about.by else [None] * len(own.numbers)
    return [
        describe.number(
            variable.name,
            there,
            sizes,
            moment,
            variable.middle,
            overall=bool(about.by),
            edges=variable.edges,
            grid=grid,
            low=None if variable.every_value else variable.low,
            exact=about.counts == EXACT,
            fewest=(FEWEST_QUANTILES, FEWEST_RANGE),
            ranked=test,
            groups=groups.levels if about.by else (),
        )
        for variable, there, moment, grid, test in zip(about.numbers, present, moments, grids, tests, strict=True)
    ]


def _moments(about: TablePlan, own: OwnTable, present: list[Float], sums: DigitSums) -> Script:
    """Joint sums of each number less the middle of its range, and of squares; NaN where too few have a value."""
    space, values, units = (2, len(about.groups)), [], []
    for variable, mine, there in zip(about.numbers, own.numbers, present, strict=True):
        scale = np.array([n * 2.0**-bits if (bits := about.bits(n)) else 0.0 for n in there.tolist()])
        values.append((np.stack((mine.sums, mine.squares)), space))
        units.append((np.stack((scale * variable.reach, scale * variable.reach**2)), space))
    asked = packed(units)
    total, _ = yield from sums.total("moments", packed(values), asked)
    return [Moments(*each) for each in unpacked(np.where(asked > 0.0, total, np.nan), values)]


def _grids(work: Work, about: TablePlan, own: OwnTable, present: list[Float]) -> Script:
    """Joint counts at or below the edges of every number, of each group that is large enough and of all records."""
    if not about.quantiles:
        return [None] * len(own.numbers)
    parts = []
    for mine, there in zip(own.numbers, present, strict=True):
        shown = np.where((there >= FEWEST_QUANTILES)[:, None], mine.grid, 0.0)
        every = mine.grid.sum(axis=0, keepdims=True) * float(there.sum() >= FEWEST_QUANTILES)
        lines = np.vstack((shown, every)) if about.by else every
        parts.append((lines, (about.columns_shown, lines.shape[1])))
    total = yield from sum_of_fives(work.plan, "grid", packed(parts), about.multiple)
    return [*unpacked(total, parts)]


def _ranks(k: int, about: TablePlan, own: OwnTable, sizes: Float, sums: DigitSums) -> Script:
    """A test of ranks for each number: rank sums and their covariance, each party's among its own records."""
    free, most, n = len(sizes) - 1, len(about.groups) - 1, float(sizes.sum())
    unit, space = n * 2.0**-about.rank_bits, (most + most * (most + 1) // 2,)
    found = [each.rank_parts() for each in own.numbers]
    parts = [(np.concatenate((ranks, upper_triangle(spread, free))), space) for ranks, spread in found]
    least = (NOISE + 0.5) * k * free * unit / 2  # an eigenvalue that rounding and noise of all can make
    units = packed([(np.full(len(each), unit / 2), space) for each, space in parts])
    total, _ = yield from sums.total("ranks", packed(parts), units)
    return [rank_test(each[:free], from_upper_triangle(each[free:], free), least) for each in unpacked(total, parts)]


def _correlations(about: TablePlan, own: OwnTable, n: float, numbers: list[Number], sums: DigitSums) -> Script:
    """Pearson's correlations, from products of columns less their means, over their deviations."""
    means = np.array([each.mean[-1] - variable.middle for each, variable in zip(numbers, about.numbers, strict=True)])
    spread = np.array([each.sd[-1] for each in numbers])
    usable = np.isfinite(means) & (spread > 0) & (n > 0)
    scale = np.where(usable, 1.0 / np.where(usable, spread, 1.0), 0.0)
    p = len(numbers)
    shifted, products = own.standardised(np.where(usable, means, 0.0), scale)
    values = np.concatenate((shifted, upper_triangle(products, p)))
    total, _ = yield from sums.total("products", values, np.full(len(values), max(n, 1.0) * 2.0**-about.product_bits))
    names = tuple(each.name for each in numbers)
    return describe.correlations(names, n, total[:p], from_upper_triangle(total[p:], p))
