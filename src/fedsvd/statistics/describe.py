"""Table 1: what a party counts and adds up of its own records, and what follows from the joint numbers.

``OwnNumber`` and ``OwnCategory`` are a party's own and are never sent as they are; ``describe`` makes a ``Description``
of joint counts, sums, staircases and rank sums. Means, deviations, shares, standardised differences, t, Welch, analysis
of variance, chi-squared and Fisher's test follow from counts and sums; quartiles from counts on a public grid. Columns
of every array are the groups and then all records together, or these alone where there are no groups.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.statistics import group_tests
from fedsvd.statistics.group_tests import Test
from fedsvd.statistics.ranking import ranks_of
from fedsvd.types import Float

OVERALL = "Overall"
PROBABILITIES = (0.05, 0.25, 0.5, 0.75, 0.95)


# --- a party's own ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class OwnNumber:
    """One column of numbers at one party, by groups as they are before any are pooled."""

    present: Float  # (G,)
    sums: Float  # (G,), of x less the middle of the range
    squares: Float  # (G,)
    grid: Float  # (G, edges), records at or below each edge
    ranks: Float  # (G,), sums of ranks among all own records with a group
    tied: float  # 1 less what ties take off the variance of ranks

    def pooled(self, member: Float) -> "OwnNumber":
        """With groups joined: ``member`` is (pooled groups, groups), of zeros and ones."""
        return OwnNumber(
            member @ self.present,
            member @ self.sums,
            member @ self.squares,
            member @ self.grid,
            member @ self.ranks,
            self.tied,
        )

    def rank_parts(self) -> tuple[Float, Float]:
        """Rank sums less what is expected, and their covariance, without the last group."""
        return group_tests.weighted_ranks(self.present, self.ranks, self.tied)


def own_number(
    values: Float, missing: NDArray[np.bool_], group: NDArray[np.intp], groups: int, middle: float, edges: Float
) -> OwnNumber:
    """One column of numbers; records without a group have the group -1 and are left out."""
    there = ~missing & (group >= 0)
    x, g = values[there], group[there]
    off = x - middle
    bins = np.minimum(np.searchsorted(edges, x, side="left"), len(edges) - 1)
    counts = np.bincount(g * len(edges) + bins, minlength=groups * len(edges)).reshape(groups, len(edges))
    ranks, ties = ranks_of(x)
    n = len(x)
    tied = 1.0 - float((ties**3 - ties).sum()) / (n**3 - n) if n > 1 else 0.0
    grid = np.cumsum(counts, axis=1).astype(np.float64)
    present, sums, squares = _sums(g, groups), _sums(g, groups, off), _sums(g, groups, off * off)
    return OwnNumber(present, sums, squares, grid, _sums(g, groups, ranks), tied)


def _sums(group: NDArray[np.intp], groups: int, values: Float | None = None) -> Float:
    """Records of each group, or the sums of their values."""
    found: Float = np.bincount(group, weights=values, minlength=groups).astype(np.float64)
    return found


def own_counts(
    codes: NDArray[np.intp], missing: NDArray[np.bool_], levels: int, group: NDArray[np.intp], groups: int
) -> Float:
    """Records of each level in each group, (levels, G)."""
    there = ~missing & (group >= 0)
    counts = np.bincount(codes[there] * groups + group[there], minlength=levels * groups)
    return counts.reshape(levels, groups).astype(np.float64)


@dataclass(frozen=True, repr=False)
class OwnTable:
    """A party's own table, by groups; with sums of products where correlations are asked for."""

    sizes: Float  # (G,)
    numbers: tuple[OwnNumber, ...]
    counts: tuple[Float, ...]  # of each category, (levels, G)
    complete: float = 0.0  # records that miss no number, and what their numbers sum up to
    sums: Float | None = None
    products: Float | None = None

    def pooled(self, member: Float) -> "OwnTable":
        """With groups joined."""
        numbers = tuple(each.pooled(member) for each in self.numbers)
        counts = tuple(each @ member.T for each in self.counts)
        return replace(self, sizes=member @ self.sizes, numbers=numbers, counts=counts)

    def standardised(self, means: Float, scale: Float) -> tuple[Float, Float]:
        """Sums and products of the numbers less ``means``, times ``scale``."""
        assert self.sums is not None
        assert self.products is not None
        crossed = np.outer(self.sums, means)
        products = self.products - crossed - crossed.T + self.complete * np.outer(means, means)
        return (self.sums - self.complete * means) * scale, products * np.outer(scale, scale)


# --- what all have ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Number:
    """One column of numbers of all parties; NaN where too few records have a value."""

    name: str
    present: Float  # (columns,)
    missing: Float
    mean: Float
    sd: Float
    quantiles: Float | None = None  # (probabilities, columns)
    edges: Float | None = None
    grid: Float | None = None  # (columns, edges), records at or below each edge
    tests: tuple[Test, ...] = ()
    smd: Mapping[str, float] = field(default_factory=dict)  # by pairs of groups, "a vs b"
    low: float | None = None  # where the first bin begins; None where the edges are all values

    def __repr__(self) -> str:
        return f"Number({self.name!r})"


@dataclass(frozen=True, repr=False)
class Category:
    """One category of all parties, with its levels as they could be shown."""

    name: str
    levels: tuple[str, ...]
    counts: Float  # (levels, columns)
    missing: Float
    pooled: tuple[str, ...] = ()  # levels that were joined, since some party would have seen fewer than five records
    tests: tuple[Test, ...] = ()
    smd: Mapping[str, float] = field(default_factory=dict)
    few: bool = False  # whether a cell is expected to have fewer than five records

    def __repr__(self) -> str:
        return f"Category({self.name!r}, levels={len(self.levels)})"

    @property
    def present(self) -> Float:
        found: Float = self.counts.sum(axis=0)
        return found


@dataclass(frozen=True, repr=False)
class Correlations:
    """Pearson's correlations among records that miss none of these columns, with Fisher's intervals."""

    names: tuple[str, ...]
    n: float
    r: Float
    low: Float
    high: Float

    def __repr__(self) -> str:
        return f"Correlations({self.names})"


@dataclass(frozen=True, repr=False)
class Description:
    """Everything that Table 1 and its drawings are made of."""

    by: str
    columns: tuple[str, ...]  # groups, then all records
    sizes: Float  # (columns,)
    variables: tuple[Number | Category, ...]
    pooled: tuple[str, ...] = ()  # groups that were joined
    nonnormal: tuple[str, ...] = ()
    off: float = 0.0  # records by which a count on a grid may be off
    correlations: Correlations | None = None

    def __repr__(self) -> str:
        return f"Description(by={self.by!r}, columns={self.columns}, variables={len(self.variables)})"

    @property
    def groups(self) -> tuple[str, ...]:
        return self.columns[:-1] if self.by else ()

    def of(self, name: str) -> Number | Category:
        """One variable."""
        return next(each for each in self.variables if each.name == name)

    def record(self) -> dict[str, Any]:
        """As JSON has it; what is not a number is None there."""
        found: dict[str, Any] = _plain(asdict(self))
        return found


def description_of(record: Mapping[str, Any]) -> Description:
    """The inverse of ``record``."""
    values = {key: _value(key, value) for key, value in record.items() if key not in ("variables", "correlations")}
    values["variables"] = tuple(_variable(each) for each in record["variables"])
    if record["correlations"] is not None:
        values["correlations"] = Correlations(
            **{key: _value(key, each) for key, each in record["correlations"].items()}
        )
    return Description(**values)


_TEXTS = ("columns", "pooled", "nonnormal", "levels", "names")


def _variable(record: Mapping[str, Any]) -> Number | Category:
    values = {key: _value(key, value) for key, value in record.items() if key not in ("tests", "smd")}
    values["tests"] = tuple(Test(**{**each, **_test(each)}) for each in record["tests"])
    values["smd"] = {key: math.nan if each is None else each for key, each in record["smd"].items()}
    return Category(**values) if "levels" in record else Number(**values)


def _test(record: Mapping[str, Any]) -> dict[str, Any]:
    statistic = math.inf if record["statistic"] is None else record["statistic"]
    return {"freedom": tuple(record["freedom"]), "statistic": statistic}


def _value(key: str, value: Any) -> Any:
    if key in _TEXTS:
        return tuple(value)
    return np.array(value, dtype=np.float64) if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# --- from joint numbers -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Moments:
    """Joint sums of one number by groups; NaN where none were opened."""

    sums: Float  # (G,), less the middle
    squares: Float


def number(
    name: str,
    present: Float,
    sizes: Float,
    moments: Moments,
    middle: float,
    *,
    overall: bool,
    edges: Float | None = None,
    grid: Float | None = None,
    low: float | None = None,
    exact: bool = False,
    fewest: tuple[int, int] = (40, 200),
    ranked: Test | None = None,
    groups: Sequence[str] = (),
) -> Number:
    """One column of numbers; ``present`` and ``sizes`` are of the groups, ``grid`` of all columns that are shown."""
    mean, variance = _spread(present, moments.sums, moments.squares)
    tests, smd = _number_tests(present, mean, variance, ranked, groups)
    if overall:
        some = present > 0  # a group without a value adds nothing, whose sums are not opened
        joint = _spread(*(each[some].sum(keepdims=True) for each in (present, moments.sums, moments.squares)))
        mean, variance = np.append(mean, joint[0]), np.append(variance, joint[1])
        present, sizes = np.append(present, present.sum()), np.append(sizes, sizes.sum())
    quantiles = None if grid is None or edges is None else _quantiles(grid, edges, present, low, exact, fewest)
    spread = np.sqrt(variance)
    return Number(name, present, sizes - present, mean + middle, spread, quantiles, edges, grid, tests, smd, low)


def _spread(n: Float, sums: Float, squares: Float) -> tuple[Float, Float]:
    """Mean less the middle, and variance; digits that were not opened may bring a variance below 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = sums / n
        variance = np.maximum((squares - n * np.square(mean)) / (n - 1), 0.0)
    return mean, variance


_SEVERAL = (group_tests.anova, group_tests.welch_anova)


def _number_tests(
    n: Float, mean: Float, variance: Float, ranked: Test | None, groups: Sequence[str]
) -> tuple[tuple[Test, ...], dict[str, float]]:
    if len(groups) < 2:
        return (), {}
    there = n > 0  # R too compares the groups that have a value
    of_these = n[there], mean[there], variance[there]
    made: list[Test | None] = []
    if there.sum() > 1 and np.isfinite(of_these).all():
        compared = (group_tests.welch_t, group_tests.pooled_t) if len(groups) == 2 else _SEVERAL
        made = [test(*of_these) for test in compared]
    smd = {
        f"{groups[a]} vs {groups[b]}": group_tests.number_smd(mean[[a, b]], variance[[a, b]])
        for a in range(len(groups))
        for b in range(a + 1, len(groups))
    }
    return tuple(test for test in (*made, ranked) if test is not None), smd


def _quantiles(
    grid: Float, edges: Float, present: Float, low: float | None, exact: bool, fewest: tuple[int, int]
) -> Float:
    """Quantiles of every column; NaN below ``fewest`` records, of the outer ones below the second number."""
    found = np.full((len(PROBABILITIES), len(grid)), np.nan)
    for column, counts in enumerate(grid):
        for row, share in enumerate(PROBABILITIES):
            outer = row in (0, len(PROBABILITIES) - 1)
            if counts[-1] > 0 and present[column] >= fewest[int(outer)]:
                known = exact and low is None  # all that R's usual quantile needs
                found[row, column] = type_7(counts, edges, share) if known else quantile(counts, edges, share, low)
    return found


def quantile(counts: Float, edges: Float, share: float, low: float | None = None) -> float:
    """The smallest grid value that this share of records is at or below (R's type 1); in a bin by a straight line, the
    first of which begins at ``low``."""
    counts = np.maximum.accumulate(counts)
    wanted = share * float(counts[-1])
    place = min(int(np.searchsorted(counts, wanted * (1 - 1e-12), side="left")), len(edges) - 1)
    if low is None:
        return float(edges[place])
    begins, below = (float(edges[place - 1]), float(counts[place - 1])) if place else (low, 0.0)
    width = float(edges[place]) - begins
    inside = float(counts[place]) - below
    return float(edges[place]) - width * (1.0 - (wanted - below) / inside if inside > 0 else 0.0)


def type_7(counts: Float, edges: Float, share: float) -> float:
    """R's default quantile, from exact counts at every value there is."""
    n = float(counts[-1])
    h = (n - 1) * share
    low, high = (
        float(edges[np.searchsorted(counts, place + 1, side="left")]) for place in (math.floor(h), math.ceil(h))
    )
    return low + (h - math.floor(h)) * (high - low)


def category(
    name: str, levels: tuple[str, ...], counts: Float, sizes: Float, pooled: tuple[str, ...], groups: Sequence[str]
) -> Category:
    """One category; ``counts`` and ``sizes`` are of the groups."""
    tests: tuple[Test, ...] = ()
    smd: dict[str, float] = {}
    few = False
    if len(groups) > 1:
        few = group_tests.few_expected(counts)
        plain, corrected = (group_tests.chi_squared(counts, continuity=each) for each in (False, True))
        exact = group_tests.fisher(counts)
        # The first is the one that tables print: Fisher's where 2 x 2 cells are small, as tableone has it.
        order = [exact, corrected, plain] if few and exact is not None else [corrected, plain, exact]
        found = {test.name: test for test in order if test is not None}
        tests = tuple(found.values())
        smd = {
            f"{groups[a]} vs {groups[b]}": group_tests.category_smd(counts[:, [a, b]])
            for a in range(len(groups))
            for b in range(a + 1, len(groups))
        }
        counts, sizes = np.column_stack((counts, counts.sum(axis=1))), np.append(sizes, sizes.sum())
    return Category(name, levels, counts, sizes - counts.sum(axis=0), pooled, tests, smd, few)


def correlations(names: tuple[str, ...], n: float, sums: Float, products: Float) -> Correlations:
    """From joint sums and products of standardised columns, (p,) and (p, p)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        covariance = products - np.outer(sums, sums) / n
        root = np.sqrt(np.diag(covariance))
        r = np.clip(covariance / np.outer(root, root), -1.0, 1.0)
    np.fill_diagonal(r, 1.0)
    low, high = group_tests.correlation_interval(r, n)
    return Correlations(names, n, r, low, high)
