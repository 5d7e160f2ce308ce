"""Drawings of how well a model of classes ranks and predicts records: ROC curve and calibration.

Of all parties' records where their counts were released, with own records as a second line where they are here; of own
records, or of rows that a caller gave, otherwise. Titles say which.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from fedsvd.protocol.families import Outcome
from fedsvd.results import model_table
from fedsvd.results.drawings.picture import USUAL, Band, Line, Mark, Picture, Plane, Wish, points, whose
from fedsvd.results.report.sections import Grid, grid
from fedsvd.results.result import PartyResult
from fedsvd.statistics.pooled_roc import Group, HosmerLemeshow, PooledROC
from fedsvd.statistics.ranking import area_under, calibration, roc
from fedsvd.types import Float

ALL = "records of all parties"
_GROUPS = 10
_SIDE = 300.0
_CHANCE = Line(points([0.0, 1.0], [0.0, 1.0]), dashed=True)
_UNIT = (0.0, 1.0)


def pooled(result: PartyResult) -> PooledROC | None:
    """The counts of all parties, where they were released."""
    return PooledROC.read(result.arrays["roc"], result.facts["roc_curve"]) if "roc" in result.arrays else None


def outcomes(result: PartyResult) -> Iterator[tuple[str, Float, Float]]:
    """What each model of classes predicts, which records have it (0 or 1), and its probability."""
    about = result.plan.glm
    if about is None or about.facts.outcome is not Outcome.CLASSES or "residuals" not in result.arrays:
        return
    fitted, residuals = result.arrays["fitted"], result.arrays["residuals"]
    observed = np.rint(fitted + residuals)
    if not np.allclose(observed, fitted + residuals):
        return  # shares of trials
    names = [_outcome(result)]
    if fitted.shape[1] > 1:
        names = [f"{result.targets[0]} = {name}" for name in model_table.classes_of(result)]
    for k, name in enumerate(names):
        if 0.0 < observed[:, k].sum() < len(observed):
            yield name, observed[:, k], fitted[:, k]


def _outcome(result: PartyResult) -> str:
    return model_table.outcome(result.targets[0], model_table.classes_of(result))


# --- the ROC curve ----------------------------------------------------------------------------------------------------


def roc_curve(result: PartyResult, wish: Wish = USUAL) -> Iterator[Picture]:
    """True against false positives of records, at every threshold."""
    joint, of = pooled(result), whose(result, "fitted")
    if joint is not None and joint.both:
        yield _pooled_roc(result, joint)
        return
    for name, observed, share in outcomes(result):
        title = f"ROC curve of {name}: {of}"
        marks = (_CHANCE, _ranked(observed, share))
        caption = (
            f"ROC curve of {name}, of {len(observed)} {of}: the area under it is {area_under(observed, share):.4f}. "
            f"{_BY_CHANCE}"
        )
        yield Picture("roc", title, caption, _roc_plane(marks), of=name)


_BY_CHANCE = (
    "The dashed line is chance. Where the model was fitted on these records too, new ones will do somewhat worse."
)


def _pooled_roc(result: PartyResult, joint: PooledROC) -> Picture:
    """The curve of all parties' counts, and that of own records."""
    name, of = _outcome(result), _next_to(result)
    false, true = (np.append(1.0, each)[::-1] for each in (1.0 - joint.specificity, joint.sensitivity))
    marks = [_CHANCE, Line(points(false, true), label=f"all parties: area {joint.area:.4f}")]
    marks += [_ranked(observed, share, of, 2) for _, observed, share in outcomes(result)]
    rows = [
        (f"{at:.4f}", f"{sensitivity:.4f}", f"{specificity:.4f}")
        for at, sensitivity, specificity in zip(joint.probabilities, joint.sensitivity, joint.specificity, strict=False)
    ]
    numbers = grid(f"ROC curve of {name}: {ALL}", ("probability above", "sensitivity", "specificity"), rows)
    caption = (
        f"ROC curve of {name}, of {joint.cases[-1]:.0f} cases and {joint.controls[-1]:.0f} controls of all parties: "
        f"the area under it is {joint.area:.4f}. {off_in_words(joint)} {_BY_CHANCE}"
    )
    return Picture("roc", f"ROC curve of {name}: {ALL}", caption, _roc_plane(tuple(marks)), numbers, of=name)


def _next_to(result: PartyResult) -> str:
    """Of which records the second line is; where all parties are in this process, of each of theirs."""
    of = whose(result, "fitted")
    return "every single record" if of == ALL else of


def off_in_words(joint: PooledROC) -> str:
    """How far the area is off, at most, by what is known beforehand."""
    bins = f"the order of records inside {len(joint.cells)} bins by {joint.area_in_cells:.4f}"
    if joint.least == 1:
        return f"Counts are exact: it is off by at most what is unknown of {bins}."
    return (
        f"Counts are in multiples of {joint.least}, each off by at most {joint.most_off} records: that moves the area "
        f"by at most {joint.area_off:.4f}, and {bins}."
    )


def _ranked(observed: Float, share: Float, of: str = "", series: int = 1) -> Line:
    label = f"area {area_under(observed, share):.4f}"
    return Line(points(*roc(observed, share)), series, label=f"{of}: {label}" if of else label)


def _roc_plane(marks: tuple[Line, ...]) -> Plane:
    return Plane("false positive rate", "true positive rate", marks, _UNIT, _UNIT, height=_SIDE, square=True)


# --- calibration ------------------------------------------------------------------------------------------------------


def calibration_curve(result: PartyResult, wish: Wish = USUAL) -> Iterator[Picture]:
    """How often records have the outcome, against how probable it was."""
    joint, of = pooled(result), whose(result, "fitted")
    if joint is not None and joint.both:
        yield _pooled_calibration(result, joint)
        return
    for name, observed, share in outcomes(result):
        curve, rows = _calibrated(observed, share)
        caption = (
            f"Calibration of {name}, of {of} in {len(rows)} groups of about equal size, by predicted probability: "
            f"{_ON_THE_LINE}."
        )
        numbers = grid(f"Calibration of {name}", ("predicted", "found", "rows"), rows)
        plane = _calibration_plane((_CHANCE, curve))
        yield Picture("calibration", f"Calibration of {name}: {of}", caption, plane, numbers, of=name)


_ON_THE_LINE = "on the dashed line, what was predicted is what was found"


def _pooled_calibration(result: PartyResult, joint: PooledROC) -> Picture:
    """Of all parties' counts, and of own records."""
    name, of, groups = _outcome(result), _next_to(result), joint.calibration()
    says = tuple(f"{each.records:.0f} rows: predicted {each.predicted:.4g}, found {each.found:.4g}" for each in groups)
    at = points([each.predicted for each in groups], [each.found for each in groups])
    rounded = joint.least > 1
    marks: list[Mark] = [_CHANCE, Line(at, marked=True, says=says, label="all parties")]
    if rounded:
        marks.insert(0, _rounding(groups))
    for _, observed, share in outcomes(result):
        marks.append(replace(_calibrated(observed, share)[0], series=2, label=of))
    header = ("predicted", "found", "rows", *(("found is off by at most",) if rounded else ()))
    rows = [
        (f"{each.predicted:.4f}", f"{each.found:.4f}", f"{each.records:.0f}", f"{each.most_off:.4f}")[: len(header)]
        for each in groups
    ]
    caption = (
        f"Calibration of {name}, of records of all parties in {len(groups)} groups of about equal size, by predicted "
        f"probability: {_ON_THE_LINE}.{_ROUNDED if rounded else ''}{_tested(joint)}"
    )
    plane, title = _calibration_plane(tuple(marks)), f"Calibration of {name}: {ALL}"
    return Picture("calibration", title, caption, plane, grid(title, header, rows), of=name)


_ROUNDED = " Shaded is what rounding of counts may do to the line: two standard deviations to each side."


def _rounding(groups: Sequence[Group]) -> Band:
    """What rounded counts may move each share by."""
    across = [each.predicted for each in groups]
    low, high = ([min(max(each.found + side * each.deviation, 0.0), 1.0) for each in groups] for side in (-2.0, 2.0))
    return Band(points(across, low), points(across, high))


def _tested(joint: PooledROC) -> str:
    test = joint.hosmer_lemeshow()
    return "" if test is None else f" {test_in_words(test, joint.least)}"


def test_in_words(test: HosmerLemeshow, least: int) -> str:
    """The test, and what rounding does to it."""
    rounded = "; the covariance of rounded counts is added" if least > 1 else ""
    return (
        f"Hosmer-Lemeshow test: chi-squared {test.statistic:.4g} on {test.df} degrees of freedom, p = "
        f"{test.p:.3g}{rounded}."
    )


def _calibrated(observed: Float, share: Float) -> tuple[Line, list[tuple[str, str, int]]]:
    groups = calibration(observed, share, _GROUPS)
    says = tuple(f"{count} rows: predicted {p:.4g}, found {found:.4g}" for p, found, count in groups)
    rows = [(f"{p:.4f}", f"{found:.4f}", count) for p, found, count in groups]
    return Line(np.array([(p, found) for p, found, _ in groups]), marked=True, says=says), rows


def _calibration_plane(marks: tuple[Mark, ...]) -> Plane:
    return Plane("predicted probability", "share of records", marks, _UNIT, _UNIT, height=_SIDE, square=True)


# --- thresholds -------------------------------------------------------------------------------------------------------


def thresholds(result: PartyResult) -> Iterator[Grid]:
    """Sensitivity and specificity at the thresholds of the study, as a table."""
    joint = pooled(result)
    if joint is None or not joint.at_thresholds:
        return
    header = ("probability above", "sensitivity (95 % interval)", "specificity (95 % interval)", "PPV", "NPV")
    rows = [
        (
            f"{each.threshold:g}",
            f"{each.sensitivity:.3f} ({each.sensitivity_low:.3f} to {each.sensitivity_high:.3f})",
            f"{each.specificity:.3f} ({each.specificity_low:.3f} to {each.specificity_high:.3f})",
            f"{each.positive:.3f}",
            f"{each.negative:.3f}",
        )
        for each in joint.at_thresholds
    ]
    moved = "" if joint.least == 1 else ", off by at most {:.3f} and {:.3f} by rounding".format(*joint.rates_off)
    yield grid(f"Sensitivity and specificity for {_outcome(result)}, {ALL}{moved}", header, rows)
