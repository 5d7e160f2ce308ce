"""Survival curves as tables: R's ``tidy(survfit)``, medians and restricted means by group, and the comparison."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from fedsvd.protocol.counted import CurvesPlan
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


def curves(to: PartyResult, computed: SurvivalResult) -> Values:
    """What a session gives, under the names that the task declares."""
    about = CurvesPlan.of(to.plan)
    groups, names = stored_groups(about, computed.counts), group_names(about)
    drawn = tuple(group.curve for group in groups)
    columns = incidence_columns(groups, names, about.causes) if about.causes else curve_columns(drawn, names)
    arrays = {"counts": computed.counts}
    arrays |= {f"curve {name}": column for name, column in columns.items()}
    arrays |= {f"group {name}": column for name, column in group_columns(about, drawn, names).items()}
    facts: dict[str, Any] = {"groups": list(names), **({"causes": list(about.causes)} if about.causes else {})}
    if about.least > 1:
        facts["rounded"] = {
            "least_count": about.least,
            "most_off": most_off(about.least, to.plan.k),
            "deviation": deviation(about.least, to.plan.k),
        }
    if computed.test is not None:
        found = asdict(computed.test)
        plain = {key: None if value != value else value for key, value in found.items()}
        facts["test"] = {**plain, "difference": list(computed.test.difference)}
    return Values(arrays, facts)


def group_names(about: CurvesPlan) -> tuple[str, ...]:
    """What the curves are called."""
    return about.groups or (ALL,)


def stored_groups(about: CurvesPlan, counts: Float) -> tuple[Group, ...]:
    """Curves of joint counts, and of causes that compete their incidences, by the words of the plan."""
    return groups_of(counts, about.edges, about.kinds, about.interval, about.level)


def stored_curves(about: CurvesPlan, counts: Float) -> tuple[Curve, ...]:
    """The curves alone: the share of records without any event."""
    return tuple(group.curve for group in stored_groups(about, counts))


def curve_columns(drawn: Sequence[Curve], names: Sequence[str]) -> dict[str, Any]:
    """Columns of R's ``tidy(survfit)``, and the cumulative hazard by Nelson and Aalen."""
    parts = {
        "time": [curve.time for curve in drawn],
        "n.risk": [curve.at_risk for curve in drawn],
        "n.event": [curve.events for curve in drawn],
        "n.censor": [curve.censored for curve in drawn],
        "estimate": [curve.survival for curve in drawn],
        "std.error": [curve.error for curve in drawn],
        "conf.high": [curve.high for curve in drawn],
        "conf.low": [curve.low for curve in drawn],
        "cumhaz": [curve.hazard for curve in drawn],
    }
    found: dict[str, Any] = {name: np.concatenate(columns) for name, columns in parts.items()}
    return {**found, "strata": np.repeat(np.array(names), len(drawn[0].time))}


def curves_summary(
    about: CurvesPlan, drawn: Sequence[Curve], names: Sequence[str], test: GroupTest | None, off: float
) -> Summary:
    """The table of all curves, for a person."""
    columns = group_columns(about, drawn, names)
    tail = 50.0 * (1.0 - about.level)
    heads = {
        "conf.low": f"{tail:g}%",
        "conf.high": f"{100.0 - tail:g}%",
        "rmean": f"mean to {about.until:g}",
        "std.error": "std error",
    }
    cells = {heads.get(name, name): tuple(map(float, column)) for name, column in columns.items() if name != "strata"}
    facts = [("target", "time"), ("rows", f"{sum(columns['records']):.0f}"), ("intervals", about.interval)]
    if test is not None:
        chi = "-" if math.isnan(test.statistic) else f"{test.statistic:.4g} ({test.df} df)"
        facts += [(f"{test.test} within sites", chi), ("p", "-" if math.isnan(test.p) else f"{test.p:.3g}")]
    notes = (f"counts are in multiples of {about.least}, each off by at most {off:.0f} records",) if off else ()
    return Summary("Survival curves", tuple(facts), tuple(names), cells, notes)


def incidence_columns(groups: Sequence[Group], names: Sequence[str], causes: Sequence[str]) -> dict[str, Any]:
    """The same for each cause that competes with others: ``estimate`` is the share that had it up to each time."""
    found = []
    for group, name in zip(groups, names, strict=True):
        curve, hazards = group.curve, [np.cumsum(each.events / _exposed(group.curve)) for each in group.causes]
        for cause, of, hazard in zip(causes, group.causes, hazards, strict=True):
            parts = (curve.time, curve.at_risk, of.events, curve.censored, of.share, of.error, of.high, of.low, hazard)
            found.append((*parts, np.full(len(curve.time), name), np.full(len(curve.time), cause)))
    keys = (*curve_columns([groups[0].curve], names[:1]), "state")
    return {key: np.concatenate(columns) for key, columns in zip(keys, zip(*found, strict=True), strict=True)}


def _exposed(curve: Curve) -> Float:
    return np.maximum(np.maximum(curve.at_risk - curve.censored / 2.0, curve.events), 1.0)


def group_columns(about: CurvesPlan, drawn: Sequence[Curve], names: Sequence[str]) -> dict[str, Any]:
    """A row for each curve: records, events, median, restricted mean."""
    medians = np.array([curve.median() for curve in drawn])
    means = np.array([curve.restricted_mean(about.until) for curve in drawn])
    return {
        "strata": np.array(names),
        "records": np.array([curve.records for curve in drawn]),
        "events": np.array([curve.events.sum() for curve in drawn]),
        "median": medians[:, 0],
        "conf.low": medians[:, 1],
        "conf.high": medians[:, 2],
        "rmean": means[:, 0],
        "std.error": means[:, 1],
    }
