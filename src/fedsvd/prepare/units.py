"""Columns that are in another unit at one party: its own means and deviations next to those of the others together.

Exact results of a column in mg/dL at two sites and in umol/L at a third are those of a table that no one meant. What is
compared follows from sums that the parties take anyway, or from tables that one person has; a finding is shown to the
party whose column it is, before the study goes on where tables or their means are there by then. It is never an error:
patients differ between sites too. Likely factors are those of laboratory and body units (``unit_factors.py``), by
name of the column where it is one of them.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import accumulate
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import MatrixSource
from fedsvd.data.suspects import Finding, in_three_decimals
from fedsvd.data.written import map_line
from fedsvd.prepare.codings import coded_apart, coded_here, of_both, often, two_values
from fedsvd.prepare.derived import row_panels
from fedsvd.prepare.missing import Totals
from fedsvd.prepare.unit_factors import OF_A_UNIT, Change, likely, scales_of, shifts, units_of
from fedsvd.prepare.unit_scales import column_of, is_product, on_own_scale
from fedsvd.types import Float

MEANS_APART = 3.0
"""Deviations of the others between the means, from which on a unit is asked about."""
DEVIATIONS_APART = 2.2
"""The ratio of deviations from which on a unit is asked about: kilograms and pounds."""

_FEWEST = 10  # entries here, and elsewhere: of fewer a deviation says little
_SURE = 5.0  # standard errors of a mean from zero
_ALIKE = 1.55  # means whose ratio is below differ by patients, or deviations by heavy tails: no unit is as near
_MEANS_ALONE = 2.0  # the ratio of means from which on a unit is asked about, where deviations are not summed
_TOLD_APART = math.log(1.2)  # by how much better the means fit another unit at one other site than one here, to say so
_SURE_OF_HERE = math.log(1.4)  # the same of one here: a site that is right is not to be asked to change its column
_POINTS = math.log(OF_A_UNIT)  # how near to a thousandth means are where 1564 was written 1.564
_OF_ONE_VALUE = 0.5  # share of zeros beyond which a column is of events, whose deviation is their frequency
_BEGINNING = 1 << 24  # bytes of a table that are looked at, where no sum is taken
_SHOWN = 10
_FIRST = 64  # rows, in which a measurement mostly has more than two values


@dataclass(frozen=True, repr=False)
class Spread:
    """Means of columns, how many entries each has, and deviations where they are known."""

    means: Float
    counts: Float
    deviations: Float | None = None
    events: NDArray[np.bool_] | None = None  # columns of two values or mostly zeros, whose unit no moment says
    ends: Float | None = None  # the values of columns of two, NaN for others
    points: NDArray[np.bool_] | None = None  # columns whose decimals may be thousands, 1.564 for 1564

    @classmethod
    def of(cls, source: MatrixSource) -> Self:
        """Those of the first rows of a table; all of them where it is small."""
        rows = max(1, min(source.shape[0], _BEGINNING // (8 * max(1, source.shape[1]))))
        total = cls(np.zeros(source.shape[1]), np.zeros(source.shape[1]), np.zeros(source.shape[1]))
        for part, panel in row_panels(source):
            total = total.joined(cls.of_rows(panel[: max(0, rows - part.start)]))
            if part.stop >= rows:
                break
        return total

    @classmethod
    def of_rows(cls, rows: Float) -> Self:
        known = np.isfinite(rows)
        held = None if known.all() else known
        counts = np.full(rows.shape[1], float(len(rows))) if held is None else held.sum(axis=0).astype(np.float64)
        some = np.maximum(counts, 1.0)

        def present(values: Float, otherwise: float) -> Float:
            return values if held is None else np.where(held, values, otherwise)

        means = present(rows, 0.0).sum(axis=0) / some
        off = present(rows - means, 0.0)
        deviations = np.sqrt(np.einsum("ij,ij->j", off, off) / some)
        zeros = len(rows) - np.count_nonzero(rows, axis=0)
        of_two, ends = _of_two(rows, held)
        return cls(means, counts, deviations, of_two | (zeros > _OF_ONE_VALUE * some), ends, in_three_decimals(rows))

    def joined(self, other: "Spread") -> Self:
        """Those of both together."""
        counts = self.counts + other.counts
        some = np.maximum(counts, 1.0)
        means = (self.means * self.counts + other.means * other.counts) / some
        deviations = events = None
        if self.deviations is not None and other.deviations is not None:
            ours = self.counts * (self.deviations**2 + (self.means - means) ** 2)
            theirs = other.counts * (other.deviations**2 + (other.means - means) ** 2)
            deviations = np.sqrt((ours + theirs) / some)
        if other.events is not None:
            events = other.events if self.events is None else self.events & other.events
        points = other.points if self.points is None or other.points is None else self.points & other.points
        return type(self)(means, counts, deviations, events, of_both(self.ends, other.ends), points)

    def beside(self, other: "Spread") -> Self:
        """Those of the columns of both, of the same rows."""
        means, counts = np.concatenate((self.means, other.means)), np.concatenate((self.counts, other.counts))
        if self.deviations is None or other.deviations is None or self.events is None or other.events is None:
            return type(self)(means, counts)
        deviations = np.concatenate((self.deviations, other.deviations))
        ends = None if self.ends is None or other.ends is None else np.hstack((self.ends, other.ends))
        points = None if self.points is None or other.points is None else np.concatenate((self.points, other.points))
        return type(self)(means, counts, deviations, np.concatenate((self.events, other.events)), ends, points)

    def columns(self, wanted: NDArray[np.intp]) -> Self:
        """Of these columns alone."""
        deviations = None if self.deviations is None else self.deviations[wanted]
        events = None if self.events is None else self.events[wanted]
        ends = None if self.ends is None else self.ends[:, wanted]
        points = None if self.points is None else self.points[wanted]
        return type(self)(self.means[wanted], self.counts[wanted], deviations, events, ends, points)


def _of_two(rows: Float, held: NDArray[np.bool_] | None) -> tuple[NDArray[np.bool_], Float]:
    """Columns of at most two values, and these."""
    least = (rows if held is None else np.where(held, rows, np.inf)).min(axis=0, initial=np.inf)
    most = (rows if held is None else np.where(held, rows, -np.inf)).max(axis=0, initial=-np.inf)
    found = np.ones(rows.shape[1], np.bool_)
    for part in (slice(0, _FIRST), slice(_FIRST, None)):  # most columns of measurements show it in a few rows
        places = np.flatnonzero(found)
        some = rows[part, places] if len(places) < len(found) else rows[part]
        either = (some == least[places]) | (some == most[places])
        found[places] = (either if held is None else either | ~held[part][:, places]).all(axis=0)
    return found, two_values(least, most, found)


def summed_elsewhere(own: Totals, joint: Totals, squares: tuple[Float, Float] | None = None) -> Spread:
    """The others' by differences of sums; ``squares`` are this party's and all parties' about the joint means."""
    counts = joint.present - own.present
    with np.errstate(divide="ignore", invalid="ignore"):
        means = (joint.totals - own.totals) / counts
        if squares is None:
            return Spread(means, counts)
        about = joint.totals / joint.present
        return Spread(means, counts, np.sqrt((squares[1] - squares[0]) / counts - (means - about) ** 2))


class Apart(NamedTuple):
    """How one column differs: the ratio of means or deviations, here over there."""

    column: int
    what: str  # "mean" or "deviation"
    ratio: float  # NaN where means have different signs, or are about zero


def apart(own: Spread, others: Spread) -> Iterator[Apart]:
    """The columns whose unit may be another one here."""
    assert own.deviations is not None
    events = np.zeros(len(own.means), np.bool_) if own.events is None else own.events
    if others.events is not None:
        events = events | others.events
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        possible = ~events & (own.counts >= _FEWEST) & (others.counts >= _FEWEST)
        if others.deviations is not None:  # what `_apart` asks of any column that it finds
            far = np.abs(own.means - others.means) > MEANS_APART * others.deviations
            wide = np.abs(np.log(own.deviations / others.deviations)) >= math.log(DEVIATIONS_APART)
            possible &= far | wide
        for j in np.flatnonzero(possible).tolist():
            found = _apart(j, own, others)
            if found is not None:
                yield found


def _apart(j: int, own: Spread, others: Spread) -> Apart | None:
    assert own.deviations is not None
    here, there, spread = float(own.means[j]), float(others.means[j]), float(own.deviations[j])
    settled = abs(here) > _SURE * spread / math.sqrt(own.counts[j]) and here * there > 0.0
    ratio = here / there if settled else math.nan
    if others.deviations is None:
        far = abs(here - there) > MEANS_APART * spread > 0.0 and not _near_one(ratio)
        return Apart(j, "mean", ratio) if far or _beyond(ratio, _MEANS_ALONE) else None
    elsewhere = float(others.deviations[j])
    if not elsewhere > 0.0 or not spread > 0.0:
        return None  # the same everywhere: what a dictionary or a look at the table says
    if settled and abs(there) <= _SURE * elsewhere / math.sqrt(others.counts[j]):
        ratio = math.nan
    if _near_one(ratio):
        return None
    if abs(here - there) > MEANS_APART * elsewhere:
        return Apart(j, "mean", ratio)
    wide = spread / elsewhere
    # Where no mean says it too, by more than deviations of so few entries differ by chance.
    doubt = 3.0 * math.sqrt(0.5 / own.counts[j] + 0.5 / others.counts[j]) if math.isnan(ratio) else 0.0
    if _beyond(wide, DEVIATIONS_APART * math.exp(doubt)):
        return Apart(j, "deviation" if math.isnan(ratio) else "mean", wide if math.isnan(ratio) else ratio)
    return None


def _near_one(ratio: float) -> bool:
    return not math.isnan(ratio) and not _beyond(ratio, _ALIKE)


def _beyond(ratio: float, bar: float) -> bool:
    return not math.isnan(ratio) and abs(math.log(ratio)) >= math.log(bar)


class Side(Enum):
    """Where a column is likely in another unit, as far as one party can see."""

    HERE = "here"
    ELSEWHERE = "at one other site"
    EITHER = "here or there"


class UnitFinding(NamedTuple):
    """What a party is shown of one of its columns, and where the other unit likely is."""

    text: str
    side: Side = Side.EITHER

    def __str__(self) -> str:
        return self.text


class _Unit(NamedTuple):
    """A number times ``by``, plus ``plus``, is one in the other unit; how far the data is from that, in logarithms."""

    distance: float
    by: float
    plus: float
    said: str
    fits: bool = False


def unit_findings(
    names: Sequence[str], own: Spread, others: Spread, sizes: Sequence[float] = ()
) -> tuple[UnitFinding, ...]:
    """A finding for each column that may be in another unit, here or at one other site, with likely factors.

    ``sizes`` are the other parties' rows. A party knows the others' means together alone; but one site of several in
    another unit moves that mean by its share, and this site by the whole factor, which tells them apart.
    """
    enough = (own.counts >= _FEWEST) & often(own.means, own.counts, own.ends) & (others.counts >= _FEWEST)
    coded = [UnitFinding(text) for text in coded_here(names, own.ends, others.means, enough)]
    own, others = _on_own_scale(names, own), _on_own_scale(names, others)
    names = [column_of(name) for name in names]
    found = [each for each in apart(own, others) if not is_product(names[each.column], names)]
    said = [_at_home(names[each.column], each, own, others, sizes) for each in found[:_SHOWN]]
    rest = [UnitFinding(text) for text in _rest([names[each.column] for each in found[_SHOWN:]])]
    return (*said, *rest, *coded[:_SHOWN])


def _on_own_scale(names: Sequence[str], spread: Spread) -> Spread:
    """Columns of a formula on the scale of the columns that they are functions of."""
    means, deviations = on_own_scale(names, spread.means, spread.deviations)
    return replace(spread, means=means, deviations=deviations)


def unit_findings_of_means(
    names: Sequence[str], own: Spread, counts: Sequence[int], me: int, joint: Float
) -> tuple[UnitFinding, ...]:
    """The same where all parties' means alone are known; ``counts`` are all parties' rows, those at ``me`` our own."""
    n, n_i, rest = float(sum(counts)), float(counts[me]), [float(c) for i, c in enumerate(counts) if i != me]
    others = (n * joint[: len(names)] - n_i * own.means) / (n - n_i)
    return unit_findings(names, own, Spread(others, np.full(len(names), n - n_i)), rest)


def _at_home(name: str, found: Apart, own: Spread, others: Spread, sizes: Sequence[float]) -> UnitFinding:
    shares = sorted({size / sum(sizes) for size in sizes})
    here = there = _NO_UNIT
    for units in units_of(name):
        here = _moved(units, found, own, others, 1.0, here=True)
        there = min((_moved(units, found, own, others, share, here=False) for share in shares), default=_NO_UNIT)
        if here.fits or there.fits:
            break
    side = Side.EITHER
    if shares and here.fits and there.distance - here.distance > _SURE_OF_HERE:
        side = Side.HERE
    elif there.fits and here.distance - there.distance > _TOLD_APART:
        side = Side.ELSEWHERE
    text = _differs(name, found, own, others, "here", "at the other sites together")
    if side is Side.ELSEWHERE:
        hint = f" ({_number(there.by)}: {there.said}?)" if not there.plus else f" ({there.said}?)"
        return UnitFinding(
            f"{text}, as if one of them had it in another unit{hint}. This column is likely right: nothing is to be "
            "done here but to ask the others for their unit",
            side,
        )
    hint, fix, words = _remedy(name, found, own, others)
    if side is Side.HERE:
        return UnitFinding(f"{text}: likely in another unit here{hint} If so, {fix} ({words}); else all is well", side)
    return UnitFinding(
        f"{text}: another unit, here or at one of them?{hint} Compare it with the unit that the study agreed on. "
        f"Where it is another one, {fix} ({words}); where it is that one, nothing is to be done",
        side,
    )


_NO_UNIT = _Unit(math.inf, 1.0, 0.0, "")


def _moved(units: list[Change], found: Apart, own: Spread, others: Spread, share: float, *, here: bool) -> _Unit:
    """The unit that explains the others' mean best, were it here, or at one site with this share of their rows.

    Means that are about zero say nothing, and deviations of laboratory values have tails too long to tell units apart.
    """
    mean, joint = float(own.means[found.column]), float(others.means[found.column])
    best = _NO_UNIT
    for by, plus, said, within, scale in [] if math.isnan(found.ratio) or found.what != "mean" else units:
        other = (mean - plus) / by if here else by * mean + plus
        at = other if here else mean + share * (other - mean)
        off = _distance(at, joint)
        if scale is not None:  # by how many units the means are apart
            possible = scale.least < min(mean, other) < scale.most
            near = scale.near[0 if by > 1.0 else 1]
            off = math.log(within) * abs(at - joint) / near if possible else math.inf
        best = min(best, _Unit(off, by, plus, said, off < math.log(within)))
    return best


def _distance(one: float, other: float) -> float:
    return abs(math.log(one / other)) if one * other > 0.0 else math.inf


def units_between(names: Sequence[str], spreads: Mapping[str, Spread]) -> list[Finding]:
    """The same where all tables are at hand: one finding for a column, of the table that differs most, by its name."""
    most: dict[int, tuple[float, str, Apart, Spread]] = {}
    enough = {
        who: (each.counts >= _FEWEST) & often(each.means, each.counts, each.ends) for who, each in spreads.items()
    }
    coded = list(coded_apart(names, {who: spread.ends for who, spread in spreads.items()}, enough))
    spreads = {who: _on_own_scale(names, spread) for who, spread in spreads.items()}
    names = [column_of(name) for name in names]
    each_one, pair = list(spreads.values()), list(spreads) if len(spreads) == 2 else []
    before: list[Spread] = list(accumulate(each_one, Spread.joined))  # of all up to a table, and from it on
    after: list[Spread] = list(accumulate(reversed(each_one), Spread.joined))[::-1]
    for place, (who, own) in enumerate(spreads.items()):
        sides = [*before[place - 1 : place], *after[place + 1 : place + 2]]
        others = sides[0].joined(sides[1]) if len(sides) == 2 else sides[0]
        for each in apart(own, others):
            if is_product(names[each.column], names):
                continue
            far = math.inf if math.isnan(each.ratio) else abs(math.log(each.ratio))
            if each.column not in most or far >= most[each.column][0]:
                most[each.column] = far, who, each, others
    said = [
        Finding(
            names[j],
            _sentence(names[j], each, spreads[who], others, who, next((other for other in pair if other != who), "")),
            _mapping(names[j], each, spreads[who], others),
            who,
        )
        for j, (_, who, each, others) in sorted(most.items())
    ]
    rest = [Finding("", text) for text in _rest([names[j] for j in sorted(most)[_SHOWN:]])]
    return said[:_SHOWN] + rest + coded[:_SHOWN]


def _rest(left: Sequence[str]) -> list[str]:
    more = f" and {len(left) - 3} more" if len(left) > 3 else ""
    return [f"so may be {len(left)} more columns: {', '.join(map(repr, left[:3]))}{more}"] if left else []


def _differs(name: str, found: Apart, own: Spread, others: Spread, who: str, where: str) -> str:
    assert own.deviations is not None
    ratio, j = found.ratio, found.column
    if math.isnan(ratio):
        spread = own.deviations[j] if others.deviations is None else others.deviations[j]
        far = abs(float(own.means[j] - others.means[j])) / float(spread)
        return f"the mean of column {name!r} {who} is {far:.2g} deviations from that {where}"
    return f"the {found.what} of column {name!r} {who} is {_number(ratio)} times that {where}"


def _remedy(name: str, found: Apart, own: Spread, others: Spread) -> tuple[str, str, str]:
    """What unit it may be, what is done about it, and how a map says so."""
    words = _mapping(name, found, own, others)
    shift, factors = _shift(name, own, others, found.column), _factors(name, found, own)
    if factors and not _is_named(shift):
        hint = f" ({' or '.join(f'{_number(by)}: {said}' for by, said in factors)}?)"
        written = "; each entry has three decimals: was 1564 written 1.564?" if _by_points(found, own) else ""
        return (
            hint,
            f"multiply it by {_number(1.0 / factors[0][0])}",
            f"{map_line(name, words)} in the map of the table{written}",
        )
    if shift is not None and shift.scale is not None:
        by, plus = shift.scale.by, shift.scale.plus
        off, on = ("add {}", "take {} off") if plus < 0.0 else ("take {} off", "add {}")
        fix = f"multiply it by {_number(by)} and {on.format(_number(abs(plus)))}"
        if shift.by == by:
            fix = f"{off.format(_number(abs(plus)))} and divide it by {_number(by)}"
        return f" ({shift.said}?)", fix, f"{map_line(name, words)} in the map of the table"
    return "", "change it", f"{map_line(name, {'factor': ..., 'offset': ...})} in the map of the table"


def _sentence(name: str, found: Apart, own: Spread, others: Spread, who: str, other: str) -> str:
    """Of several tables, who has another unit; of two, either may, and ``other`` is the second."""
    text = _differs(name, found, own, others, f"of {who}", f"of {other}" if other else "of the others together")
    hint, fix, words = _remedy(name, found, own, others)
    if other:
        turned = found._replace(ratio=1.0 / found.ratio)
        _, back, line = _remedy(name, turned, replace(others, events=own.events), own)
        return (
            f"{text}: another unit at one of them?{hint} If at {who}, {fix} ({words}); if at {other}, {back} ({line}); "
            "else all is well"
        )
    return f"{text}: another unit?{hint} If so, {fix} ({words}); else all is well"


def _mapping(name: str, found: Apart, own: Spread, others: Spread) -> dict[str, object]:
    """What the map of a table says of a column that is in the likeliest other unit; nothing where none is likely."""
    shift, factors = _shift(name, own, others, found.column), _factors(name, found, own)
    if factors and not _is_named(shift):
        return {"factor": float(f"{1.0 / factors[0][0]:.12g}")}
    if shift is None:
        return {}
    return {"factor": float(f"{1.0 / shift.by:.12g}"), "offset": float(f"{-shift.plus / shift.by:.12g}")}


def _factors(name: str, found: Apart, own: Spread) -> list[tuple[float, str]]:
    """The likely factors; a thousand, too, where decimals may be thousands."""
    known = likely(name, found.ratio)
    return known or ([(1e-3, "a thousandfold unit")] if _by_points(found, own) else [])


def _by_points(found: Apart, own: Spread) -> bool:
    """Whether 1564 may have been written 1.564 here, and read as a decimal."""
    near = found.ratio > 0.0 and abs(math.log(found.ratio * 1000.0)) < _POINTS
    return near and own.points is not None and bool(own.points[found.column])


def _is_named(shift: Change | None) -> bool:
    """Whether the unit is one of this column's name, which says more than a factor that is near."""
    return shift is not None and shift.scale is not None and bool(shift.scale.of)


def _shift(name: str, own: Spread, others: Spread, j: int) -> Change | None:
    """The unit with another zero that makes the others' mean of what is here; None where none does."""
    here, there = float(own.means[j]), float(others.means[j])
    for scale in scales_of(name):
        forth, back = shifts(scale)
        for first, second, change in ((there, here, forth), (here, there, back)):
            if scale.least < first < scale.most and abs(second - (scale.by * first + scale.plus)) < scale.near[1]:
                return change
    return None


def _number(value: float) -> str:
    return f"{value:,.4g}" if value < 1000.0 else f"{value:,.0f}"
