"""What each party holds when a study is over, under names a person knows, and what everybody holds.

The letters end here. A table has samples in rows, whichever way it was split, and the names say what they would on the
joint table: ``components`` (r, features) and ``left_vectors`` (samples, r) of an SVD, ``mean``, ``scores``,
``coefficients``. Only the split decides which of them is everybody's and which is one party's own (02-protocol,
section 2): with split rows the components are shared and every party has the left vectors of its rows; with split
columns it is the other way round.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.protocol.tasks import Split
from fedsvd.results.folder import Table
from fedsvd.results.own_part import OwnFile
from fedsvd.roles.user.fit import RegressionResult
from fedsvd.roles.user.pca import PCAResult
from fedsvd.roles.user.prediction import PredictionResult
from fedsvd.roles.user.svd import FactorsResult
from fedsvd.studies.job_data import Prepared
from fedsvd.studies.run import Outcome
from fedsvd.types import Float

_PANEL_BYTES = 1 << 26


@dataclass(frozen=True, repr=False)
class Holding:
    """Named arrays, the same as tables for people, and what is worth saying about them.

    Arrays and columns are views of the outcome: a party's own part may be as large as its data.
    """

    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    tables: tuple[Table, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    files: dict[str, OwnFile] = field(default_factory=dict)  # written already, to be moved to the results

    def __or__(self, other: "Holding") -> "Holding":
        return Holding(
            self.arrays | other.arrays,
            self.tables + other.tables,
            self.facts | other.facts,
            self.files | other.files,
        )


def shared_by_all(prepared: Prepared, outcome: Outcome) -> Holding:
    """What every party holds, and the researcher who asked may read: without row ids, which are the parties'."""
    return _common(prepared, outcome, 0, None)


def held_by(prepared: Prepared, outcome: Outcome, i: int) -> Holding:
    """What party ``i`` (from 0) holds: its copy of what all share, and its own part."""
    result, data, features = outcome.parties[i], prepared.parties[i], prepared.features[i]
    holding = _common(prepared, outcome, i, data.ids)
    if data.ids is not None:
        holding |= Holding({"row_ids": np.asarray(data.ids, np.str_)})
    if data.prepared is not None:
        holding |= Holding(facts={"prepared": data.prepared.record()})
    if isinstance(result, FactorsResult) and result.verified is not None:
        holding |= Holding(facts={"verified": asdict(result.verified)})
    match result:
        case FactorsResult(Vt_i=OwnFile() as file):
            own = Holding(files={"left_vectors" if _by_rows(prepared) else "components": file})
        case PCAResult(scores_i=OwnFile() as file):
            own = Holding(files={"scores": file})
        case FactorsResult(Vt_i=Vt_i) if Vt_i is not None:
            own = by_sample("left_vectors", Vt_i.T, data.ids) if _by_rows(prepared) else _components(features, Vt_i.T)
        case PCAResult(scores_i=scores_i) if scores_i is not None:
            own = by_sample("scores", scores_i, data.ids)
        case RegressionResult() if not _by_rows(prepared):
            own = _coefficients(prepared, features, result) | _fitted(prepared, result, i)
        case RegressionResult():
            own = _fitted_at_home(prepared, result, i)
        case PredictionResult(predictions=predictions) if predictions is not None:
            own = _scored(prepared, "predictions", predictions, i)
        case _:
            own = Holding()
    return holding | own


def _common(prepared: Prepared, outcome: Outcome, i: int, ids: NDArray[Any] | None) -> Holding:
    """Party ``i``'s copy of what all hold; copies differ in their last bits at most."""
    features = prepared.features[i]
    match outcome.parties[i]:
        case FactorsResult(U=U, sigma=sigma):
            factor = _components(features, U) if _by_rows(prepared) else by_sample("left_vectors", U, ids)
            return factor | _spectrum(sigma)
        case PCAResult() as result:
            return _components(features, result.U) | _moments(features, result) | _pca_spectrum(outcome, result)
        case RegressionResult() as result:
            shared = _intercept(prepared, result)
            return shared | _coefficients(prepared, features, result) if _by_rows(prepared) else shared
        case _:
            return Holding()


def _by_rows(prepared: Prepared) -> bool:
    return prepared.study.split is Split.HORIZONTAL


def _numbered(stem: str, count: int) -> list[str]:
    return [f"{stem}_{j + 1}" for j in range(count)]


def _table(name: str, label: str, index: Sequence[object] | NDArray[Any], columns: dict[str, Any]) -> Table:
    while label in columns:  # a target may be called what we call the rows
        label += "_"
    return Table(name, {label: index, **columns})


def _components(features: Sequence[str], U: Float) -> Holding:
    columns = dict(zip(_numbered("component", U.shape[1]), U.T, strict=True))
    table = _table("components", "feature", features, columns)
    return Holding({"components": U.T}, (table,))


def by_sample(
    name: str, values: Float, ids: NDArray[Any] | None = None, columns: Sequence[str] | None = None
) -> Holding:
    """Numbers with one row for each sample, under its id where it has one."""
    by_column = dict(zip(columns or _numbered("component", values.shape[1]), values.T, strict=True))
    index = np.arange(len(values)) if ids is None else ids
    table = _table(name, "row" if ids is None else "id", index, by_column)
    return Holding({name: values}, (table,))


def by_feature(name: str, values: Float, features: Sequence[str] | None) -> Holding:
    """Numbers with one row for each feature, under its name."""
    names = features if features is not None else [f"x{j}" for j in range(len(values))]
    by_column = dict(zip(_numbered("component", values.shape[1]), values.T, strict=True))
    return Holding({name: values}, (_table(name, "feature", names, by_column),))


def _spectrum(sigma: Float) -> Holding:
    table = Table("spectrum", {"component": np.arange(1, len(sigma) + 1), "singular_value": sigma})
    return Holding({"singular_values": sigma}, (table,))


def _moments(features: Sequence[str], result: PCAResult) -> Holding:
    if result.scales is None:
        return Holding({"mean": result.mean}, (Table("mean", {"feature": features, "mean": result.mean}),))
    constant = [features[int(j)] for j in np.flatnonzero(result.scales == 0)]
    table = Table("mean", {"feature": features, "mean": result.mean, "scale": result.scales})
    return Holding({"mean": result.mean, "scale": result.scales}, (table,), {"constant_columns": constant})


def _pca_spectrum(outcome: Outcome, result: PCAResult) -> Holding:
    if result.sigma is None:
        return Holding()
    variance = result.sigma**2 / max(outcome.plan.n - 1, 1)
    ratio = result.sigma**2 / result.total_energy if result.total_energy > 0 else np.zeros_like(variance)
    arrays = {
        "singular_values": result.sigma,
        "explained_variance": variance,
        "explained_variance_ratio": ratio,
    }
    names = ("singular_value", "explained_variance", "explained_variance_ratio")
    columns = dict(zip(names, arrays.values(), strict=True))
    table = Table("spectrum", {"component": np.arange(1, len(variance) + 1), **columns})
    return Holding(arrays, (table,), {"total_energy": result.total_energy})


def _intercept(prepared: Prepared, result: RegressionResult) -> Holding:
    table = Table("intercept", {"target": prepared.targets, "intercept": result.intercept})
    return Holding({"intercept": result.intercept}, (table,))


def _coefficients(prepared: Prepared, features: Sequence[str], result: RegressionResult) -> Holding:
    columns = dict(zip(prepared.targets, result.coefficients, strict=True))
    table = _table("coefficients", "feature", features, columns)
    constant = [features[j] for j in result.constant]
    return Holding({"coefficients": result.coefficients}, (table,), {"constant_columns": constant})


def _fitted(prepared: Prepared, result: RegressionResult, i: int) -> Holding:
    """The label holder's fitted values, and how well they fit, where the plan releases a score."""
    if result.fitted is None:
        return Holding()
    return _scored(prepared, "fitted", result.fitted, i)


def _scored(prepared: Prepared, name: str, values: Float, i: int) -> Holding:
    data = prepared.parties[i]
    holding = by_sample(name, values, data.ids, prepared.targets)
    if data.labels is None:
        return holding
    residuals = by_sample("residuals", data.labels - values, data.ids, prepared.targets)
    return holding | residuals | Holding(facts={"score": score(prepared.targets, data.labels, values)})


def _fitted_at_home(prepared: Prepared, result: RegressionResult, i: int) -> Holding:
    """A party with all coefficients fits its own rows, which are nobody else's: one more pass, and no message."""
    table = prepared.parties[i].table
    height = max(1, _PANEL_BYTES // (8 * table.shape[1]))
    panels = [panel @ result.coefficients.T for panel in table.panels(0, height)]
    return _scored(prepared, "fitted", np.concatenate(panels) + result.intercept, i)


def score_of(prepared: Prepared, outcome: Outcome) -> dict[str, dict[str, float | None]] | None:
    """How well the label holder's labels are fitted, where the plan released a score."""
    if not prepared.study.label_user:
        return None
    place = prepared.study.label_user - 1
    result, labels = outcome.parties[place], prepared.parties[place].labels
    if not isinstance(result, RegressionResult) or result.fitted is None or labels is None:
        return None
    return score(prepared.targets, labels, result.fitted)


def score(targets: tuple[str, ...], y: Float, fitted: Float) -> dict[str, dict[str, float | None]]:
    """Mean squared error and R^2 of every target; R^2 is None where the labels have no variance."""
    mse = np.mean((y - fitted) ** 2, axis=0)
    variance = np.var(y, axis=0)
    return {
        name: {"mse": float(mse[j]), "r2": float(1 - mse[j] / variance[j]) if variance[j] > 0 else None}
        for j, name in enumerate(targets)
    }
