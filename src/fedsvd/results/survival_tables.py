"""Survival curves as tables: R's ``tidy(survfit)``, medians and restricted means by group, and the comparison."""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fedsvd.protocol.counted import CURVE_COLUMNS, GROUP_COLUMNS, STATE, STRATA, CurvesPlan
from fedsvd.protocol.plan import SessionPlan
from fedsvd.results.outputs import Values
from fedsvd.results.result import PartyResult
from fedsvd.roles.user.survival import SurvivalResult
from fedsvd.statistics.fives import deviation, most_off
from fedsvd.statistics.incidence import Group, groups_of
from fedsvd.statistics.life_table import Curve
from fedsvd.statistics.log_rank import GroupTest
from fedsvd.statistics.summary import Summary
from fedsvd.types import Float

ALL = "all"


@dataclass(frozen=True, repr=False)
class Curves:
    """The curves of joint counts, and of causes that compete their incidences, by the words of a plan."""

    about: CurvesPlan
    groups: tuple[Group, ...]
    names: tuple[str, ...]  # of the groups
    causes: tuple[str, ...]

    @classmethod
    def of(
        cls, plan: SessionPlan, counts: Float, names: tuple[str, ...] = (), causes: tuple[str, ...] = ()
    ) -> "Curves":
        """Under these names, or those of the plan."""
        about = CurvesPlan.of(plan)
        groups = groups_of(counts, about.edges, about.kinds, about.interval, about.level)
        return cls(about, groups, names or about.groups or (ALL,), causes or about.causes)

    @classmethod
    def in_result(cls, result: PartyResult) -> "Curves":
        """Of the counts that the reader holds."""
        return cls.of(result.plan, result.arrays["counts"])

    @property
    def drawn(self) -> tuple[Curve, ...]:
        """The share of records without any event, of each group."""
        return tuple(group.curve for group in self.groups)

    def columns(self) -> dict[str, Any]:
        """Columns of R's ``tidy(survfit)``, and the cumulative hazard by Nelson and Aalen; of causes that compete rows
        for each, with its name as ``state``: ``estimate`` is the share that had it up to each time."""
        found = [
            (curve.time, curve.at_risk, events, curve.censored, *rest, *(np.full(len(curve.time), each) for each in of))
            for group, name in zip(self.groups, self.names, strict=True)
            for curve, events, rest, of in self._lines(group, name)
        ]
        names = (*CURVE_COLUMNS, STRATA, *((STATE,) if self.causes else ()))
        return {name: np.concatenate(parts) for name, parts in zip(names, zip(*found, strict=True), strict=True)}

    def _lines(self, group: Group, name: str) -> Iterator[tuple[Curve, Float, tuple[Float, ...], tuple[str, ...]]]:
        curve = group.curve
        if not self.causes:
            yield curve, curve.events, (curve.survival, curve.error, curve.high, curve.low, curve.hazard), (name,)
        for cause, of in zip(self.causes, group.causes, strict=True):
            hazard = np.cumsum(of.events / _exposed(curve))
            yield curve, of.events, (of.share, of.error, of.high, of.low, hazard), (name, cause)

    def rows(self) -> dict[str, Any]:
        """A row for each curve: records, events, median, restricted mean."""
        found = [
            (curve.records, curve.events.sum(), *curve.median(), *curve.restricted_mean(self.about.until))
            for curve in self.drawn
        ]
        numbers = zip(GROUP_COLUMNS, map(np.array, zip(*found, strict=True)), strict=True)
        return {STRATA: np.array(self.names), **dict(numbers)}

    def summary(self, test: GroupTest | None, off: float) -> Summary:
        """The table of all curves, for a person."""
        about, columns = self.about, self.rows()
        tail = 50.0 * (1.0 - about.level)
        heads = {
            "conf.low": f"{tail:g}%",
            "conf.high": f"{100.0 - tail:g}%",
            "rmean": f"mean to {about.until:g}",
            "std.error": "std error",
        }
        cells = {heads.get(name, name): tuple(map(float, columns[name])) for name in GROUP_COLUMNS}
        facts = [("target", "time"), ("rows", f"{sum(columns['records']):.0f}"), ("intervals", about.interval)]
        if test is not None:
            chi = "-" if math.isnan(test.statistic) else f"{test.statistic:.4g} ({test.df} df)"
            facts += [(f"{test.test} within sites", chi), ("p", "-" if math.isnan(test.p) else f"{test.p:.3g}")]
        notes = (f"counts are in multiples of {about.least}, each off by at most {off:.0f} records",) if off else ()
        return Summary("Survival curves", tuple(facts), self.names, cells, notes)


def _exposed(curve: Curve) -> Float:
    return np.maximum(np.maximum(curve.at_risk - curve.censored / 2.0, curve.events), 1.0)


def curves(to: PartyResult, computed: SurvivalResult) -> Values:
    """What a session gives, under the names that the task declares."""
    found = Curves.of(to.plan, computed.counts)
    about, arrays = found.about, {"counts": computed.counts}
    arrays |= {f"curve {name}": column for name, column in found.columns().items()}
    arrays |= {f"group {name}": column for name, column in found.rows().items()}
    facts: dict[str, Any] = {"groups": list(found.names), **({"causes": list(found.causes)} if found.causes else {})}
    if about.least > 1:
        facts["rounded"] = {
            "least_count": about.least,
            "most_off": most_off(about.least, to.plan.k),
            "deviation": deviation(about.least, to.plan.k),
        }
    if computed.test is not None:
        plain = {key: None if value != value else value for key, value in asdict(computed.test).items()}
        facts["test"] = {**plain, "difference": list(computed.test.difference)}
    return Values(arrays, facts)
