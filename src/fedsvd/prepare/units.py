"""Columns that are in another unit at one party: its own means and deviations next to those of the others together.

Exact results of a column in mg/dL at two sites and in umol/L at a third are those of a table that no one meant. What is
compared follows from sums that the parties take anyway, or from tables that one person has; a finding is shown to the
party whose column it is, before the study goes on where tables or their means are there by then. It is never an error:
patients differ between sites too. Likely factors are those of laboratory and body units (``FACTORS``), by name of the
column where it is one of them.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import MatrixSource
from fedsvd.data.suspects import Finding
from fedsvd.data.written import map_line
from fedsvd.prepare.derived import row_panels
from fedsvd.prepare.missing import Totals
from fedsvd.types import Float

MEANS_APART = 3.0
"""Deviations of the others between the means, from which on a unit is asked about."""
DEVIATIONS_APART = 2.2
"""The ratio of deviations from which on a unit is asked about: kilograms and pounds."""

_FEWEST = 10  # entries here, and elsewhere: of fewer a deviation says little
_SURE = 5.0  # standard errors of a mean from zero
_ALIKE = 1.55  # means whose ratio is below differ by patients, or deviations by heavy tails: no unit is as near
_MEANS_ALONE = 2.0  # the ratio of means from which on a unit is asked about, where deviations are not summed
_OF_A_UNIT = 1.4  # by how much the ratio of means may differ from the factor of a unit, as patients differ
_OF_ONE_VALUE = 0.5  # share of zeros beyond which a column is of events, whose deviation is their frequency
_BEGINNING = 1 << 24  # bytes of a table that are looked at, where no sum is taken
_SHOWN = 10
_FIRST = 64  # rows, in which a measurement mostly has more than two values


class Factor(NamedTuple):
    """A number of the smaller unit's name times ``by`` is one in the other's; ``of`` finds names it is likely for."""

    of: str
    by: float
    units: str


_TIMES = r"^age|alter|time|zeit|day|tag|week|month|year|jahr|durat|dauer|follow|stay|surv"

# Conventional to SI units: AMA Manual of Style, 11th ed., table of conversion factors; molar masses by IUPAC (glucose
# 180.16, cholesterol 386.65, triglycerides as triolein 885.4, creatinine 113.12, bilirubin 584.66, calcium 40.08).
FACTORS = (
    Factor(r"gluc|glyc[ae]|blood.?sugar|zucker|plasma.?sugar", 18.02, "mmol/L to mg/dL"),
    Factor(r"chol|ldl|hdl", 38.67, "mmol/L to mg/dL"),
    Factor(r"trig|tgl?$|trigly", 88.57, "mmol/L to mg/dL"),
    Factor(r"crea|krea|scr$", 88.4, "mg/dL to umol/L"),
    Factor(r"bili", 17.1, "mg/dL to umol/L"),
    Factor(r"album|alb$|protein", 10.0, "g/dL to g/L"),
    Factor(r"calc|^ca$|kalz", 4.008, "mmol/L to mg/dL"),
    Factor(r"h(a?e)?moglo|^hgb|^hb", 10.0, "g/dL to g/L"),
    Factor(r"h(a?e)?moglo|^hgb|^hb", 1.611, "mmol/L to g/dL"),
    Factor(r"h(a?e)?moglo|^hgb|^hb", 16.11, "mmol/L to g/L"),
    Factor(r"urea|harnstoff", 6.006, "mmol/L to mg/dL"),
    Factor(r"bun$|urea.?n|urea", 2.801, "mmol/L of urea to mg/dL of urea nitrogen"),
    Factor(r"uric|urate|harnsaeure|harnsäure", 59.48, "mg/dL to umol/L"),
    Factor(r"phos(?!phat)|phosph", 3.097, "mmol/L to mg/dL"),
    Factor(r"magn|^mg$", 2.431, "mmol/L to mg/dL"),
    Factor(r"iron|eisen|^fe$", 5.585, "umol/L to ug/dL"),
    Factor(r"copper|kupfer|^cu$", 6.355, "umol/L to ug/dL"),
    Factor(r"crp|c.?reactive", 10.0, "mg/dL to mg/L"),
    Factor(r"vit.*d|25.?oh", 2.496, "ng/mL to nmol/L"),
    Factor(r"testost", 28.84, "nmol/L to ng/dL"),
    Factor(r"cortis", 27.59, "ug/dL to nmol/L"),
    Factor(r"weig|gewicht|wt$|mass", 2.2046, "kg to lb"),
    Factor(r"weig|gewicht|wt$|mass", 1000.0, "kg to g"),
    Factor(r"weig|gewicht|wt$|mass", 35.274, "kg to oz"),
    Factor(r"heig|groe|größe|stature|length|laenge|länge|ht$|waist|circum", 2.54, "inches to cm"),
    Factor(r"heig|groe|größe|stature|length|laenge|länge|ht$|waist|circum", 100.0, "m to cm"),
    Factor(r"heig|groe|größe|stature|length|laenge|länge|ht$|waist|circum", 10.0, "cm to mm"),
    Factor(r"press|sbp|dbp|bp$|druck|po2|pco2", 7.501, "kPa to mmHg"),
    Factor(r"energ|kcal|calor", 4.184, "kcal to kJ"),
    Factor(_TIMES, 7.0, "weeks to days"),
    Factor(_TIMES, 12.0, "years to months"),
    Factor(_TIMES, 30.44, "months to days"),
    Factor(_TIMES, 52.18, "years to weeks"),
    Factor(_TIMES, 365.25, "years to days"),
    Factor(_TIMES, 24.0, "days to hours"),
    Factor(_TIMES, 60.0, "hours to minutes"),
    Factor(r"", 10.0, "a tenfold unit"),
    Factor(r"", 100.0, "a share to per cent"),
    Factor(r"", 1000.0, "a thousandfold unit"),
    Factor(r"", 1e6, "a millionfold unit"),
)


@dataclass(frozen=True, repr=False)
class Spread:
    """Means of columns, how many entries each has, and deviations where they are known."""

    means: Float
    counts: Float
    deviations: Float | None = None
    events: NDArray[np.bool_] | None = None  # columns of two values or mostly zeros, whose unit no moment says

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
        return cls(means, counts, deviations, _of_two(rows, held) | (zeros > _OF_ONE_VALUE * some))

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
        return type(self)(means, counts, deviations, events)

    def beside(self, other: "Spread") -> Self:
        """Those of the columns of both, of the same rows."""
        means, counts = np.concatenate((self.means, other.means)), np.concatenate((self.counts, other.counts))
        if self.deviations is None or other.deviations is None or self.events is None or other.events is None:
            return type(self)(means, counts)
        deviations = np.concatenate((self.deviations, other.deviations))
        return type(self)(means, counts, deviations, np.concatenate((self.events, other.events)))

    def columns(self, wanted: NDArray[np.intp]) -> Self:
        """Of these columns alone."""
        deviations = None if self.deviations is None else self.deviations[wanted]
        events = None if self.events is None else self.events[wanted]
        return type(self)(self.means[wanted], self.counts[wanted], deviations, events)


def _of_two(rows: Float, held: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
    """Columns of at most two values."""
    least = (rows if held is None else np.where(held, rows, np.inf)).min(axis=0, initial=np.inf)
    most = (rows if held is None else np.where(held, rows, -np.inf)).max(axis=0, initial=-np.inf)
    found = np.ones(rows.shape[1], np.bool_)
    for part in (slice(0, _FIRST), slice(_FIRST, None)):  # most columns of measurements show it in a few rows
        places = np.flatnonzero(found)
        some = rows[part, places] if len(places) < len(found) else rows[part]
        either = (some == least[places]) | (some == most[places])
        found[places] = (either if held is None else either | ~held[part][:, places]).all(axis=0)
    return found


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


def likely(name: str, ratio: float) -> list[tuple[float, str]]:
    """The factors of the table that this ratio may be, the nearest first: those of the column's name, else the rest."""
    if math.isnan(ratio) or not 0.0 < ratio < math.inf:
        return []
    low = re.sub(r"[\s_.\-()]+", " ", name.lower()).strip()
    low = re.sub(r"\balk\w* ?p\w*", "enzyme", low)  # alkaline phosphatase, which is not phosphate
    named = [each for each in FACTORS if each.of and any(re.search(each.of, word) for word in (low, *low.split()))]
    found = _near(named, ratio, _OF_A_UNIT) or _near([each for each in FACTORS if not each.of], ratio, 1.2)
    return [(by, said) for _, by, said in sorted(found)[:2]]


def _near(table: Sequence[Factor], ratio: float, within: float) -> list[tuple[float, float, str]]:
    found = []
    for each in table:
        first, _, second = each.units.partition(" to ")
        for by, said in ((each.by, each.units), (1.0 / each.by, f"{second} to {first}" if second else each.units)):
            distance = abs(math.log(ratio / by))
            # A factor that is nearer to no change at all than the data explains nothing.
            if distance < math.log(within) and distance < abs(math.log(ratio)):
                found.append((distance, by, said))
    return found


_HERE = "here"


def unit_findings(names: Sequence[str], own: Spread, others: Spread) -> tuple[str, ...]:
    """A sentence for each column that may be in another unit here, with the factors that it may be."""
    found = [*apart(own, others)]
    said = [_sentence(names[each.column], each, own, others, _HERE, "at the other sites together") for each in found]
    return tuple(said[:_SHOWN] + _rest([names[each.column] for each in found[_SHOWN:]]))


def unit_findings_of_means(
    names: Sequence[str], own: Spread, rows: tuple[float, float], joint: Float
) -> tuple[str, ...]:
    """The same where all parties' means alone are known, of own and of all rows."""
    n_i, n = rows
    others = (n * joint[: len(names)] - n_i * own.means) / (n - n_i)
    return unit_findings(names, own, Spread(others, np.full(len(names), n - n_i)))


def units_between(names: Sequence[str], spreads: Mapping[str, Spread]) -> list[Finding]:
    """The same where all tables are at hand: one finding for a column, of the table that differs most, by its name."""
    most: dict[int, tuple[float, str, Apart, Spread]] = {}
    each_one = list(spreads.values())
    before: list[Spread] = list(accumulate(each_one, Spread.joined))  # of all up to a table, and from it on
    after: list[Spread] = list(accumulate(reversed(each_one), Spread.joined))[::-1]
    for place, (who, own) in enumerate(spreads.items()):
        sides = [*before[place - 1 : place], *after[place + 1 : place + 2]]
        others = sides[0].joined(sides[1]) if len(sides) == 2 else sides[0]
        for each in apart(own, others):
            far = math.inf if math.isnan(each.ratio) else abs(math.log(each.ratio))
            if each.column not in most or far >= most[each.column][0]:
                most[each.column] = far, who, each, others
    said = [
        Finding(
            names[j],
            _sentence(names[j], each, spreads[who], others, f"of {who}", "of the others together"),
            _factor(names[j], each),
            who,
        )
        for j, (_, who, each, others) in sorted(most.items())
    ]
    return said[:_SHOWN] + [Finding("", text) for text in _rest([names[j] for j in sorted(most)[_SHOWN:]])]


def _rest(left: Sequence[str]) -> list[str]:
    more = f" and {len(left) - 3} more" if len(left) > 3 else ""
    return [f"so may be {len(left)} more columns: {', '.join(map(repr, left[:3]))}{more}"] if left else []


def _sentence(name: str, found: Apart, own: Spread, others: Spread, who: str, where: str) -> str:
    assert own.deviations is not None
    ratio, j = found.ratio, found.column
    if math.isnan(ratio):
        spread = own.deviations[j] if others.deviations is None else others.deviations[j]
        far = abs(float(own.means[j] - others.means[j])) / float(spread)
        text = f"the mean of column {name!r} {who} is {far:.2g} deviations from that {where}"
    else:
        text = f"the {found.what} of column {name!r} {who} is {_number(ratio)} times that {where}"
    factors = likely(name, ratio)
    hint = f" ({' or '.join(f'{_number(by)}: {said}' for by, said in factors)}?)" if factors else ""
    if not factors and _in_fahrenheit(own, others, j):
        hint = " (1.8 and 32: degrees Celsius to Fahrenheit?)"
    if not factors and _in_fahrenheit(others, own, j):
        hint = " (degrees Fahrenheit to Celsius: less 32, then by 1.8?)"
    by = f"multiply it by {_number(1.0 / factors[0][0])}" if factors else "change it"
    words = map_line(name, _factor(name, found))
    # The others are known together alone: one of them in another unit moves their mean too.
    doubt, end = ("another unit?", "else all is well")
    if who == _HERE:
        doubt = "another unit, here or at one of them?"
        end = "if this column is in the unit that the study agreed on, nothing is to be done here"
        by = f"{by}, if it is here" if others.deviations is None else by
    how = f"{words} in the map of the table" if factors else f"factor and offset of {name!r} in the map of the table"
    return f"{text}: {doubt}{hint} If so, {by} ({how}); {end}"


def _factor(name: str, found: Apart) -> dict[str, object]:
    """What the map of a table says of a column that is in the likeliest other unit; nothing where none is likely."""
    factors = likely(name, found.ratio)
    return {"factor": float(f"{1.0 / factors[0][0]:.12g}")} if factors else {}


def _in_fahrenheit(one: Spread, other: Spread, j: int) -> bool:
    """Whether the first mean is the second in degrees Fahrenheit, of bodies or of the air."""
    here, there = float(one.means[j]), float(other.means[j])
    return 10.0 < there < 45.0 and abs(here - (1.8 * there + 32.0)) < 4.0


def _number(value: float) -> str:
    return f"{value:,.4g}" if value < 1000.0 else f"{value:,.0f}"
