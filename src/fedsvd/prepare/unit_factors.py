"""Laboratory and body units by the names of columns: the factors that a ratio of two means may be."""

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

OF_A_UNIT = 1.4  # by how much the ratio of means may differ from the factor of a unit, as patients differ
OF_ANY_UNIT = 1.2  # the same of a column whose name says nothing of its units


class Factor(NamedTuple):
    """A number of the smaller unit's name times ``by`` is one in the other's; ``of`` finds names it is likely for."""

    of: str
    by: float
    units: str


class Scale(NamedTuple):
    """A unit with another zero: a number in the first unit times ``by`` plus ``plus`` is one in the second."""

    of: str
    by: float
    plus: float
    units: str
    least: float  # means of people and of the air, in the first unit
    most: float
    near: tuple[float, float]  # by how much means may differ in the first unit and in the second, as patients differ


class Change(NamedTuple):
    """A number in the one unit times ``by``, plus ``plus``, is one in the other; how near the data must be to it."""

    by: float
    plus: float
    said: str
    within: float
    scale: Scale | None = None  # of units with another zero


SCALES = (
    Scale(r"", 1.8, 32.0, "degrees Celsius to Fahrenheit", 10.0, 45.0, (4.0, 4.0)),
    # NGSP to IFCC: Hoelzel et al., Clinical Chemistry 50 (2004), the master equation.
    Scale(r"a1c|glyk|glyc.*h(a?e)?mo", 10.93, -23.5, "per cent to mmol/mol", 4.0, 16.0, (2.0, 22.0)),
)

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
    Factor(r"heig|groe|größe|stature|length|laenge|länge|(?<!weig)ht$|waist|circum", 2.54, "inches to cm"),
    Factor(r"heig|groe|größe|stature|length|laenge|länge|(?<!weig)ht$|waist|circum", 100.0, "m to cm"),
    Factor(r"heig|groe|größe|stature|length|laenge|länge|(?<!weig)ht$|waist|circum", 10.0, "cm to mm"),
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


def likely(name: str, ratio: float) -> list[tuple[float, str]]:
    """The factors of the table that this ratio may be, the nearest first: those of the column's name, else the rest."""
    if math.isnan(ratio) or not 0.0 < ratio < math.inf:
        return []
    unnamed = [each for each in FACTORS if not each.of]
    found = _near(named_factors(name), ratio, OF_A_UNIT) or _near(unnamed, ratio, OF_ANY_UNIT)
    return [(by, said) for _, by, said in sorted(found)[:2]]


def named_factors(name: str) -> list[Factor]:
    """The factors of columns that are called so."""
    low = re.sub(r"[\s_.\-()]+", " ", name.lower()).strip()
    low = re.sub(r"\balk\w* ?p\w*", "enzyme", low)  # alkaline phosphatase, which is not phosphate
    low = re.sub(r"\bhb ?a1c|\ba1c|glyc\w* h(a?e)?moglobin", "share", low)  # a share of the haemoglobin
    return [each for each in FACTORS if each.of and any(re.search(each.of, word) for word in (low, *low.split()))]


def scales_of(name: str) -> list[Scale]:
    """Units with another zero that a column of this name may be in: those of its name first."""
    low = name.lower()
    return sorted((each for each in SCALES if re.search(each.of, low)), key=lambda each: not each.of)


def _near(table: Sequence[Factor], ratio: float, within: float) -> list[tuple[float, float, str]]:
    found = []
    for each in table:
        for by, said in ((each.by, each.units), (1.0 / each.by, reversed_units(each.units))):
            distance = abs(math.log(ratio / by))
            # A factor that is nearer to no change at all than the data explains nothing.
            if distance < math.log(within) and distance < abs(math.log(ratio)):
                found.append((distance, by, said))
    return found


def reversed_units(units: str) -> str:
    first, _, second = units.partition(" to ")
    return f"{second} to {first}" if second else units


def units_of(name: str) -> list[list[Change]]:
    """Units that a column of this name may be in, both ways; where the name says nothing, those of any column."""
    named = named_factors(name)
    shifted = [change for scale in scales_of(name) for change in shifts(scale)]
    rest = [] if named else [_both_ways([each for each in FACTORS if not each.of], OF_ANY_UNIT)]
    return [shifted + _both_ways(named, OF_A_UNIT), *rest]


def _both_ways(table: Sequence[Factor], within: float) -> list[Change]:
    forth = [Change(each.by, 0.0, each.units, within) for each in table]
    return forth + [Change(1.0 / each.by, 0.0, reversed_units(each.units), within) for each in table]


def shifts(scale: Scale) -> list[Change]:
    """Into the second unit, and back."""
    back = Change(1.0 / scale.by, -scale.plus / scale.by, reversed_units(scale.units), OF_A_UNIT, scale)
    return [Change(scale.by, scale.plus, scale.units, OF_A_UNIT, scale), back]
