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
    return [each for each in FACTORS if each.of and any(re.search(each.of, word) for word in (low, *low.split()))]


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
