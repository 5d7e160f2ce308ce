"""Table 1 at a user: own counts and sums, which levels pass, and what all users open of them.

Levels that too few records have outside of some party are joined before anything is counted: each party sees counts
that are cut at five, and says which it objects to (``prepare/joint_counts.py``, here for levels in groups). Then counts
of the levels that are left are opened as whole numbers, sums of numbers in as many digits as the size of a group
allows, and counts on grids in multiples of five. Ranks are those among a party's own records.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import DataError, LocalProtocolError
from fedsvd.prepare.categories import OTHER
from fedsvd.prepare.joint_counts import too_few
from fedsvd.protocol.steps import CAPPED_AT
from fedsvd.protocol.table import EXACT, FEWEST_QUANTILES, FEWEST_RANGE, TablePlan, Variable
from fedsvd.roles.user.digits import DigitSums
from fedsvd.roles.user.requests import Local, Script
from fedsvd.roles.user.sums import any_of, sum_of_fives, whole_sum
from fedsvd.roles.user.work import Work
from fedsvd.statistics import describe
from fedsvd.statistics.describe import OVERALL, Category, Description, Moments, Number, OwnNumber
from fedsvd.statistics.fives import most_off
from fedsvd.statistics.group_tests import rank_test
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


@dataclass(frozen=True, repr=False)
class _Own:
    """A user's own table, by groups before any are pooled."""

    sizes: Float  # (G,)
    numbers: tuple[OwnNumber, ...]
    counts: tuple[Float, ...]  # of each category, (levels, G)
    complete: float = 0.0  # records that miss no number, and what their numbers sum up to
    sums: Float | None = None
    products: Float | None = None

    def pooled(self, member: Float) -> "_Own":
        """With groups joined."""
        counts = tuple(each @ member.T for each in self.counts)
        numbers = tuple(each.pooled(member) for each in self.numbers)
        return _Own(member @ self.sizes, numbers, counts, self.complete, self.sums, self.products)


@dataclass(frozen=True)
class _Pool:
    """Levels as they are shown: each is one level, or the last of them several."""

    levels: tuple[str, ...]
    joined: tuple[str, ...] = ()
    places: tuple[tuple[int, ...], ...] = ()  # of the levels that each is made of

    @property
    def member(self) -> Float:
        width = 1 + max(place for each in self.places for place in each)
        found = np.zeros((len(self.places), width))
        for row, each in enumerate(self.places):
            found[row, list(each)] = 1.0
        return found


def script(work: Work) -> Script:
    """Pool what is rare, count, add up, rank."""
    about = work.plan.table
    if about is None:
        raise LocalProtocolError("a description needs the columns that it is of", "plan it again")
    if work.plan.m != about.columns:
        fault = f"the tables have {work.plan.m} columns, and those of the plan's description are {about.columns}"
        raise LocalProtocolError(fault, "prepare the table as the plan says")
    own: _Own = yield Local("describe", lambda: _own(work, about))
    groups = _Pool(about.groups, places=tuple((g,) for g in range(len(about.groups))))
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


def _own(work: Work, about: TablePlan) -> _Own:
    """One pass over the columns, one at a time."""
    group = np.zeros(work.n_i, np.intp)
    if about.by:
        values, missing = _column(work, about, about.place)
        group = np.where(missing, -1, _codes(values, about.variables[about.place]))
    groups, numbers, counts = len(about.groups), [], []
    for place, variable in enumerate(about.variables):
        if place == about.place:
            continue
        values, missing = _column(work, about, place)
        if variable.levels:
            codes = _codes(values, variable)
            counts.append(describe.own_counts(codes, missing, len(variable.levels), group, groups))
        else:
            own = describe.own_number(values, missing, group, groups, variable.middle, variable.edges)
            numbers.append(own)
    sizes = np.bincount(group[group >= 0], minlength=groups).astype(np.float64)
    found = _Own(sizes, tuple(numbers), tuple(counts))
    return _with_products(work, about, group, found) if about.correlations else found


def _column(work: Work, about: TablePlan, place: int) -> tuple[Float, NDArray[np.bool_]]:
    values: Float = np.asarray(work.source.rows(place, place + 1))[0]
    if not about.gaps:
        return values, np.zeros(len(values), np.bool_)
    flag = place + len(about.variables)
    return values, np.asarray(work.source.rows(flag, flag + 1))[0] != 0.0


def _codes(values: Float, variable: Variable) -> NDArray[np.intp]:
    codes = values.astype(np.intp)
    if codes.size and not (codes.min() >= 0 and codes.max() < len(variable.levels)):
        raise DataError(f"column {variable.name!r} has codes of no level", "prepare the table again")
    return codes


def _with_products(work: Work, about: TablePlan, group: NDArray[np.intp], own: _Own) -> _Own:
    """Products of numbers over records that miss none of them and have a group."""
    places = [j for j, each in enumerate(about.variables) if each.is_number]
    middle = np.array([about.variables[j].middle for j in places])[:, None]
    n, sums, products = 0.0, np.zeros(len(places)), np.zeros((len(places), len(places)))
    for columns, panel in work.panels("describe"):
        there = group[columns] >= 0
        if about.gaps:
            there &= ~(np.asarray(panel)[[j + len(about.variables) for j in places]] != 0.0).any(axis=0)
        rows = (np.asarray(panel)[places] - middle)[:, there]
        n, sums, products = n + rows.shape[1], sums + rows.sum(axis=1), products + rows @ rows.T
    return _Own(own.sizes, own.numbers, own.counts, n, sums, products)


# --- which levels are joined ------------------------------------------------------------------------------------------


def _pooled(work: Work, of: str, names: list[tuple[str, ...]], own: list[Float], width: int = 1) -> Script:
    """The levels of each variable as they may be counted, from own counts (levels, groups) of each.

    What is rare is joined, and with the rarest of the others while what is joined is rare itself. All users decide
    alike: by sums of counts cut at five, and by an OR of what any of them objects to.
    """
    padded = [np.pad(each, ((0, 0), (0, width - each.shape[1]))) for each in own]
    capped = np.minimum(np.concatenate([each.ravel() for each in padded]), CAPPED_AT)
    total: Float | None = None
    if work.plan.k > 2:
        total = yield from whole_sum(work.plan, f"joint counts of {of}", capped)
    flagged = yield from any_of(f"rare {of}", too_few(capped, total), work.own)
    cuts = np.cumsum([each.size for each in padded])[:-1]
    shapes = [each.shape for each in padded]
    rare = [_any(each, shape[0]) for each, shape in zip(np.split(flagged, cuts), shapes, strict=True)]
    totals = [None] * len(names) if total is None else np.split(total, cuts)
    orders = [_order(each, joint) for each, joint in zip(rare, totals, strict=True)]
    judged = (
        own
        if total is None
        else [
            (joint - mine).reshape(shape)
            for joint, mine, shape in zip(np.split(total, cuts), np.split(capped, cuts), shapes, strict=True)
        ]
    )
    objections = [_objections(each, order, others) for each, order, others in zip(rare, orders, judged, strict=True)]
    failed = yield from any_of(f"pools of {of}", np.concatenate(objections), work.own)
    lengths = np.cumsum([len(each) for each in names])[:-1]
    pools = zip(names, rare, orders, np.split(failed, lengths), strict=True)
    return [_pool(levels, flags, order, bad) for levels, flags, order, bad in pools]


def _any(flags: NDArray[np.bool_], rows: int) -> NDArray[np.bool_]:
    """Whether a level is flagged in any group."""
    return np.asarray(flags.reshape(rows, -1).any(axis=1), np.bool_)


def _order(rare: NDArray[np.bool_], total: Float | None) -> list[int]:
    """Levels that are not rare, in the order in which they would be joined: the rarest first, else the last first."""
    others: list[int] = np.flatnonzero(~rare)[::-1].tolist()
    if total is None:
        return others
    size = total.reshape(len(rare), -1).sum(axis=1)
    return sorted(others, key=lambda place: float(size[place]))


def _objections(rare: NDArray[np.bool_], order: list[int], others: Float) -> NDArray[np.bool_]:
    """For each number of further levels whether what would be joined has one to four records of the others."""
    found = np.zeros(len(rare), np.bool_)
    joined = others[rare].sum(axis=0)
    for more in range(len(rare)):
        if more:
            if more > len(order):
                break
            joined = joined + others[order[more - 1]]
        found[more] = bool(((joined > 0) & (joined < CAPPED_AT)).any())
    return found


def _pool(levels: tuple[str, ...], rare: NDArray[np.bool_], order: list[int], failed: NDArray[np.bool_]) -> _Pool:
    if not rare.any():
        return _Pool(levels, places=tuple((place,) for place in range(len(levels))))
    more = next((t for t in range(len(order) + 1) if t < len(levels) and not failed[t]), len(order))
    joined = sorted([*np.flatnonzero(rare).tolist(), *order[:more]])
    alone = [place for place in range(len(levels)) if place not in joined]
    name = OTHER if OTHER not in [levels[place] for place in alone] else f"{OTHER} (pooled)"
    places = (*((place,) for place in alone), tuple(joined))
    return _Pool((*(levels[place] for place in alone), name), tuple(levels[place] for place in joined), places)


# --- what is opened ---------------------------------------------------------------------------------------------------


def _opened(work: Work, about: TablePlan, own: _Own, groups: _Pool, levels: list[_Pool]) -> Script:
    """Counts, sums, grids and ranks; the description of all parties' records."""
    most, shown = len(about.groups), len(groups.levels)
    counts = [pool.member @ each for pool, each in zip(levels, own.counts, strict=True)]
    parts = [_wide(own.sizes, most), *(_wide(each.present, most) for each in own.numbers)]
    parts += [_tall(each, len(variable.levels), most) for each, variable in zip(counts, about.categories, strict=True)]
    parts += [np.array([own.complete])] if about.correlations else []
    total: Float = yield from whole_sum(work.plan, "counts", np.concatenate(parts))
    cut = np.split(total, np.cumsum([len(part) for part in parts])[:-1])
    sizes, present = cut[0][:shown], [each[:shown] for each in cut[1 : 1 + len(own.numbers)]]
    joint = [
        each.reshape(len(variable.levels), most)[: len(pool.levels), :shown]
        for each, variable, pool in zip(cut[1 + len(own.numbers) :], about.categories, levels, strict=False)
    ]
    sums = DigitSums(work)
    numbers = (yield from _numbers(work, about, own, groups, sizes, present, sums)) if about.numbers else []
    names = groups.levels if about.by else ()
    categories = [
        describe.category(variable.name, pool.levels, each, sizes, pool.joined, names)
        for variable, pool, each in zip(about.categories, levels, joint, strict=True)
    ]
    correlated = None
    if about.correlations and about.numbers:
        correlated = yield from _correlations(about, own, float(cut[-1][0]), numbers, sums)
    found = _description(work, about, groups, sizes, [*numbers, *categories], correlated)
    return DescribedResult(found, found.record(), sums.bits)


def _wide(values: Float, width: int) -> Float:
    return np.pad(values, (0, width - len(values)))


def _tall(values: Float, height: int, width: int) -> Float:
    return np.pad(values, ((0, height - values.shape[0]), (0, width - values.shape[1]))).ravel()


def _description(
    work: Work,
    about: TablePlan,
    groups: _Pool,
    sizes: Float,
    found: list[Number | Category],
    correlated: describe.Correlations | None,
) -> Description:
    order = {each.name: place for place, each in enumerate(about.described)}
    columns = (*groups.levels, OVERALL) if about.by else (OVERALL,)
    return Description(
        about.by,
        columns,
        np.append(sizes, sizes.sum()) if about.by else sizes,
        tuple(sorted(found, key=lambda each: order[each.name])),
        groups.joined,
        about.nonnormal,
        most_off(about.multiple, work.plan.k) if about.quantiles and about.multiple > 1 else 0.0,
        correlated,
    )


def _numbers(
    work: Work, about: TablePlan, own: _Own, groups: _Pool, sizes: Float, present: list[Float], sums: DigitSums
) -> Script:
    """Means, deviations, quantiles and rank tests of all numbers."""
    most, shown, names = len(about.groups), len(groups.levels), groups.levels if about.by else ()
    moments = yield from _moments(about, own, present, sums, most)
    grids = yield from _grids(work, about, own, sizes, present)
    tests = (yield from _ranks(work.plan.k, about, own, sizes, sums)) if about.by else [None] * len(own.numbers)
    found = []
    for variable, there, moment, grid, test in zip(about.numbers, present, moments, grids, tests, strict=True):
        made = describe.number(
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
            groups=names[:shown],
        )
        found.append(made)
    return found


def _moments(about: TablePlan, own: _Own, present: list[Float], sums: DigitSums, most: int) -> Script:
    """Joint sums of each number less the middle of its range, and of squares; NaN where too few have a value."""
    values, units = [], []
    for variable, mine, there in zip(about.numbers, own.numbers, present, strict=True):
        scale = np.array([n * 2.0**-bits if (bits := about.bits(n)) else 0.0 for n in there.tolist()])
        values += [_wide(mine.sums, most), _wide(mine.squares, most)]
        units += [_wide(scale * variable.reach, most), _wide(scale * variable.reach**2, most)]
    total, _ = yield from sums.total("moments", np.concatenate(values), np.concatenate(units))
    found = np.where(np.concatenate(units) > 0.0, total, np.nan).reshape(len(own.numbers), 2, most)
    shown = len(present[0])
    return [Moments(each[0, :shown], each[1, :shown]) for each in found]


def _grids(work: Work, about: TablePlan, own: _Own, sizes: Float, present: list[Float]) -> Script:
    """Joint counts at or below the edges of every number, of each group that is large enough and of all records."""
    if not about.quantiles:
        return [None] * len(own.numbers)
    parts = []
    for mine, there in zip(own.numbers, present, strict=True):
        shown = np.where((there >= FEWEST_QUANTILES)[:, None], mine.grid, 0.0)
        every = mine.grid.sum(axis=0, keepdims=True) * float(there.sum() >= FEWEST_QUANTILES)
        lines = np.vstack((shown, every)) if about.by else every
        parts.append(np.pad(lines, ((0, about.columns_shown - len(lines)), (0, 0))).ravel())
    counts = np.concatenate(parts)
    total = yield from sum_of_fives(work.plan, "grid", counts, about.multiple)
    cut = np.split(total, np.cumsum([len(part) for part in parts])[:-1])
    lines_shown = len(sizes) + int(bool(about.by))
    return [each.reshape(about.columns_shown, -1)[:lines_shown] for each in cut]


def _ranks(k: int, about: TablePlan, own: _Own, sizes: Float, sums: DigitSums) -> Script:
    """A test of ranks for each number: rank sums and their covariance, each party's among its own records."""
    free, most, n = len(sizes) - 1, len(about.groups) - 1, float(sizes.sum())
    upper = np.triu_indices(free)
    length, unit = most + most * (most + 1) // 2, n * 2.0**-about.rank_bits
    values = []
    for mine in own.numbers:
        ranks, covariance = mine.rank_parts()
        values.append(_wide(np.concatenate((ranks, covariance[upper])), length))
    least = (NOISE + 0.5) * k * free * unit / 2  # an eigenvalue that rounding and noise of all can make
    asked = np.arange(length) < free + len(upper[0])
    units = np.tile(np.where(asked, unit / 2, 0.0), len(values))
    total, _ = yield from sums.total("ranks", np.concatenate(values), units)
    found = []
    for each in total.reshape(len(values), length):
        covariance = np.zeros((free, free))
        covariance[upper] = each[free : free + len(upper[0])]
        found.append(rank_test(each[:free], covariance + np.triu(covariance, 1).T, least))
    return found


def _correlations(about: TablePlan, own: _Own, n: float, numbers: list[Number], sums: DigitSums) -> Script:
    """Pearson's correlations, from products of columns less their means, over their deviations."""
    means = np.array([each.mean[-1] - variable.middle for each, variable in zip(numbers, about.numbers, strict=True)])
    spread = np.array([each.sd[-1] for each in numbers])
    usable = np.isfinite(means) & (spread > 0) & (n > 0)
    scale = np.where(usable, 1.0 / np.where(usable, spread, 1.0), 0.0)
    means = np.where(usable, means, 0.0)
    assert own.sums is not None
    assert own.products is not None
    shifted = (own.sums - own.complete * means) * scale
    crossed = np.outer(own.sums, means)
    products = own.products - crossed - crossed.T + own.complete * np.outer(means, means)
    upper = np.triu_indices(len(numbers))
    values = np.concatenate((shifted, (products * np.outer(scale, scale))[upper]))
    total, _ = yield from sums.total("products", values, np.full(len(values), max(n, 1.0) * 2.0**-about.product_bits))
    joint = np.zeros((len(numbers), len(numbers)))
    joint[upper] = total[len(numbers) :]
    found = describe.correlations(
        tuple(each.name for each in numbers), n, total[: len(numbers)], joint + np.triu(joint, 1).T
    )
    return found
