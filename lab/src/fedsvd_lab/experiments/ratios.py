"""One method's value over another's at the same case, as rows of their own: what "so many times faster" is about."""

from collections.abc import Iterator, Sequence

from fedsvd_lab.experiments.experiment import Experiment
from fedsvd_lab.experiments.rows import EXTRAPOLATED, MEASURED, PREDICTED, QUOTED, Row

_LESS_SURE = (MEASURED, PREDICTED, EXTRAPOLATED)


def ratios(experiment: Experiment, rows: Sequence[Row]) -> list[Row]:
    """Every ratio that the experiment asks for and the rows allow; it is as sure as the less sure of its two."""
    found = []
    for asked in experiment.ratios:
        for one, other in _pairs(asked.of, asked.over, asked.metric, rows):
            how = max((one["how"], other["how"]), key=lambda word: _LESS_SURE.index(word))
            what = {"method": f"{asked.of} over {asked.over}", "metric": f"ratio of {asked.metric}"}
            found.append({**one, **what, "value": one["value"] / other["value"], "unit": "", "how": how})
    return found


def _pairs(of: str, over: str, metric: str, rows: Sequence[Row]) -> Iterator[tuple[Row, Row]]:
    chosen = [row for row in rows if row["metric"] == metric and row["how"] != QUOTED]
    there = {str(sorted(row["case"].items())): row for row in chosen if row["method"] == over and row["value"]}
    for row in chosen:
        partner = there.get(str(sorted(row["case"].items())))
        if row["method"] == of and partner is not None:
            yield row, partner
