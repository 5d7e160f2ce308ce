"""What a role computed, as the result of a party: arrays and tables under names a person knows.

The names of the formulas end here. A table has samples in rows, whichever way it was split, and the names say what they
would on the joint table: ``components`` (r, features) and ``left_vectors`` (samples, r) of an SVD, ``mean``,
``scores``, ``coefficients``. Only the split decides which of them all users share and which one party alone gets: with
split rows the components are shared and every party has the left vectors of its rows; with split columns it is the
other way round.
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import MatrixSource
from fedsvd.policy.earlier_studies import Table as Brought
from fedsvd.prepare.at_home import HomeReport
from fedsvd.prepare.matching import MatchReport
from fedsvd.prepare.missing import Totals
from fedsvd.prepare.sites import scale_findings
from fedsvd.protocol.parties import Party
from fedsvd.protocol.tasks import Split
from fedsvd.results import canonical_tables, component_tables, model_table, regression_table
from fedsvd.results.folder import Table
from fedsvd.results.result import PartyResult
from fedsvd.results.vector_files import VectorFile
from fedsvd.roles.user.cca import CCAResult
from fedsvd.roles.user.glm import GLMResult
from fedsvd.roles.user.pca import PCAResult
from fedsvd.roles.user.pcr import PCRResult
from fedsvd.roles.user.prediction import RegressionResult
from fedsvd.roles.user.svd import FactorsResult
from fedsvd.types import Float

_PANEL_BYTES = 1 << 26
_VARIANCES = ("explained_variance", "explained_variance_ratio")
# Arrays and tables that all users have; what is not listed belongs to one party.
SHARED = {
    Split.HORIZONTAL: (
        *("components", "singular_values", "spectrum", "mean", "scale", "coefficients", "intercept"),
        *_VARIANCES,
        *regression_table.ARRAYS,
        *component_tables.ARRAYS,
        *model_table.ARRAYS,
    ),
    Split.VERTICAL: ("left_vectors", "singular_values", "spectrum", "intercept", *canonical_tables.SHARED),
}
_SHARED_FACTS: dict[Split, tuple[str, ...]] = {
    Split.HORIZONTAL: (
        *("constant_columns", "total_energy", "inference", "ridge", "preparation", "choice", "components"),
        *model_table.FACTS,
    ),
    Split.VERTICAL: ("preparation", "ranks", "wilks", "no_tests"),
}


class Data(Brought, Protocol):
    """What a party brought to the study, and how it was prepared at its site."""

    @property
    def row_weights(self) -> Float | None: ...
    @property
    def prepared(self) -> HomeReport | None: ...
    @property
    def matched(self) -> MatchReport | None: ...


def shared_result(about: PartyResult, computed: Any, data: Data) -> PartyResult:
    """What all users share, and the researcher who asked may read, from the first user's copy: without row ids.

    Copies differ in their last bits at most. ``about`` is the study: a result without arrays.
    """
    by_rows = about.split is Split.HORIZONTAL
    names = data.table.names if by_rows else None
    to = replace(about, features=None if names is None else tuple(names), rank=rank_of(about, computed))
    return _shared(to, computed, None)


def party_result(about: PartyResult, me: Party, computed: Any, data: Data) -> PartyResult:
    """What one user gets: its copy of what all share, and what belongs to its own rows or columns."""
    names, seen = data.table.names, about.certificate.seen_by(me)
    features = None if names is None else tuple(names)
    to = replace(about, reader=me, certificate=seen, features=features, rank=rank_of(about, computed))
    to = _shared(to, computed, data.ids)
    if data.ids is not None:
        to = to.adding({"row_ids": np.asarray(data.ids, np.str_)})
    if data.matched is not None:
        to = to.adding(facts={"matching": data.matched.record()})
    if data.prepared is not None:
        to = to.adding(facts={"prepared": data.prepared.record()})
        if data.prepared.recipe is not None:
            to = to.adding(facts={"recipe": data.prepared.recipe.record()})
    if isinstance(computed, FactorsResult) and computed.verified is not None:
        to = to.adding(facts={"verified": asdict(computed.verified)})
    known = () if data.prepared is None or data.prepared.recipe is None else data.prepared.recipe.findings
    found = [text for text in units_found(about, me, computed, names) if text not in known]
    if found:
        to = to.adding(facts={"look_at": found})
    match computed:
        case FactorsResult(Vt_i=VectorFile() as file):
            return to.adding(files={"left_vectors" if _by_rows(to) else "components": file})
        case PCAResult(scores_i=VectorFile() as file):
            return to.adding(files={"scores": file})
        case FactorsResult(Vt_i=Vt_i) if Vt_i is not None:
            return by_sample(to, "left_vectors", Vt_i.T, data.ids) if _by_rows(to) else _components(to, Vt_i.T)
        case PCAResult(scores_i=scores_i) if scores_i is not None:
            to = by_sample(to, "scores", scores_i, data.ids)
            return component_tables.with_outliers(to, computed, data.table, data.ids)
        case CCAResult():
            return canonical_tables.with_own_columns(to, computed, data.ids)
        case PCRResult():
            return scored(to, "fitted", _fitted(data.table, computed), data)
        case RegressionResult() if _by_rows(to):
            # With all coefficients a party fits its own rows, which no other has: one more pass, and no message.
            to = scored(to, "fitted", _fitted(data.table, computed), data)
            return regression_table.with_diagnostics(to, computed, data)
        case GLMResult():
            return _own_rows(to, computed, data)
        case RegressionResult(fitted=fitted):
            to = _coefficients(to, computed)
            if fitted is None:
                return to
            to = scored(to, "fitted", fitted, data)
            return to if data.labels is None else regression_table.with_fit(to, computed.rank, data.labels, fitted)
    return to


def units_found(about: PartyResult, me: Party, computed: Any, names: Sequence[str] | None) -> tuple[str, ...]:
    """Columns of this party alone that may be in another unit than at the others, where the study took joint means."""
    if not isinstance(computed, PCAResult) or computed.own is None or names is None:
        return ()
    n, n_i = float(about.plan.n), float(about.plan.counts[me.index - 1])
    means = (computed.own.mean, n_i), (computed.mean, n)
    own, joint = (Totals(mean * rows, np.full(len(mean), rows), rows) for mean, rows in means)
    return scale_findings(names, own, joint, computed.own.deviation)


def shared_part(result: PartyResult) -> PartyResult:
    """What all users share, from one party's result as it was read back."""
    by_rows = result.split is Split.HORIZONTAL
    arrays = {name: array for name, array in result.arrays.items() if name in SHARED[result.split]}
    facts = {name: fact for name, fact in result.facts.items() if name in _SHARED_FACTS[result.split]}
    return replace(result, reader=None, features=result.features if by_rows else None, arrays=arrays, facts=facts)


def rank_of(about: PartyResult, computed: Any) -> int:
    """The rank the users found; with square factors the CSP cannot cut at it."""
    return int(getattr(computed, "rank", about.certificate.rank))


def _shared(to: PartyResult, computed: Any, ids: NDArray[Any] | None) -> PartyResult:
    match computed:
        case FactorsResult(U=U, sigma=sigma):
            to = _components(to, U) if _by_rows(to) else by_sample(to, "left_vectors", U, ids)
            return _spectrum(to, sigma)
        case PCAResult():
            return component_tables.with_spectrum(_moments(_components(to, computed.U), computed), computed)
        case PCRResult():
            to = component_tables.with_spectrum(_moments(_components(to, computed.U), computed), computed)
            to = component_tables.with_component_table(to, computed)
            return _feature_coefficients(_intercept(to, computed.intercept), computed)
        case CCAResult():
            return canonical_tables.with_correlations(by_sample(to, "left_vectors", computed.U, ids), computed)
        case RegressionResult():
            to = _intercept(to, computed.intercept)
            return _coefficients(to, computed) if _by_rows(to) else to
        case GLMResult():
            return model_table.with_model(to, computed)
    return to


def _by_rows(result: PartyResult) -> bool:
    return result.split is Split.HORIZONTAL


def _numbered(stem: str, count: int) -> list[str]:
    return [f"{stem}_{j + 1}" for j in range(count)]


def _table(name: str, label: str, index: Sequence[object] | NDArray[Any], columns: dict[str, Any]) -> Table:
    while label in columns:  # a target may be called what we call the rows
        label += "_"
    return Table(name, {label: index, **columns})


def _components(to: PartyResult, U: Float) -> PartyResult:
    columns = dict(zip(_numbered("component", U.shape[1]), U.T, strict=True))
    table = _table("components", "feature", to.feature_names(len(U)), columns)
    return to.adding({"components": U.T}, table)


def by_sample(
    to: PartyResult,
    name: str,
    values: Float,
    ids: NDArray[Any] | None = None,
    columns: Sequence[str] | None = None,
) -> PartyResult:
    """The result with numbers that have one row for each sample, under its id where it has one."""
    by_column = dict(zip(columns or _numbered("component", values.shape[1]), values.T, strict=True))
    index = np.arange(len(values)) if ids is None else ids
    return to.adding({name: values}, _table(name, "row" if ids is None else "id", index, by_column))


def by_feature(to: PartyResult, name: str, values: Float, features: Sequence[str] | None) -> PartyResult:
    """The result with numbers that have one row for each feature, under its name."""
    names = features if features is not None else [f"x{j}" for j in range(len(values))]
    by_column = dict(zip(_numbered("component", values.shape[1]), values.T, strict=True))
    return to.adding({name: values}, _table(name, "feature", names, by_column))


def _spectrum(to: PartyResult, sigma: Float) -> PartyResult:
    table = Table("spectrum", {"component": np.arange(1, len(sigma) + 1), "singular_value": sigma})
    return to.adding({"singular_values": sigma}, table)


def _intercept(to: PartyResult, intercept: Float) -> PartyResult:
    table = Table("intercept", {"target": to.targets, "intercept": intercept})
    return to.adding({"intercept": intercept}, table)


def _moments(to: PartyResult, computed: PCAResult | PCRResult) -> PartyResult:
    features = to.feature_names(len(computed.mean))
    if computed.scales is None:
        return to.adding({"mean": computed.mean}, Table("mean", {"feature": features, "mean": computed.mean}))
    constant = [features[int(j)] for j in np.flatnonzero(computed.scales == 0)]
    table = Table("mean", {"feature": features, "mean": computed.mean, "scale": computed.scales})
    return to.adding({"mean": computed.mean, "scale": computed.scales}, table, {"constant_columns": constant})


def _coefficients(to: PartyResult, computed: RegressionResult) -> PartyResult:
    features = to.feature_names(computed.coefficients.shape[1])
    constant = [features[j] for j in computed.constant]
    to = to if computed.path is None else regression_table.with_path(to, computed.path)
    if computed.inference:
        return regression_table.with_inference(to.adding(facts={"constant_columns": constant}), computed)
    return _feature_coefficients(to.adding(facts={"constant_columns": constant}), computed)


def _feature_coefficients(to: PartyResult, computed: RegressionResult | PCRResult) -> PartyResult:
    features = to.feature_names(computed.coefficients.shape[1])
    columns = dict(zip(to.targets, computed.coefficients, strict=True))
    table = _table("coefficients", "feature", features, columns)
    return to.adding({"coefficients": computed.coefficients}, table)


def _own_rows(to: PartyResult, computed: GLMResult, data: Data) -> PartyResult:
    """Fitted values, residuals and quality of a party's own rows, which no other has: one more pass, and no message."""
    eta = _fitted(data.table, computed)
    if data.labels is not None and to.plan.glm is not None and to.plan.glm.offset:
        eta = eta + data.labels[:, 1:2]
    fitted, residuals, said = model_table.own_rows(to, eta, data.labels)
    names = to.targets if fitted.shape[1] == 1 else model_table.classes_of(to)
    to = by_sample(to, "fitted", fitted, data.ids, names)
    if residuals is None:
        return to
    return by_sample(to, "residuals", residuals, data.ids, names).adding(facts={"own_rows": said})


def _fitted(table: MatrixSource, computed: RegressionResult | PCRResult | GLMResult) -> Float:
    height = max(1, _PANEL_BYTES // (8 * table.shape[1]))
    panels = [panel @ computed.coefficients.T for panel in table.panels(0, height)]
    fitted: Float = np.concatenate(panels) + computed.intercept
    return fitted


def scored(to: PartyResult, name: str, values: Float, data: Data) -> PartyResult:
    """The result with fitted values, residuals, and how well they fit, where the party has labels."""
    to = by_sample(to, name, values, data.ids, to.targets)
    if data.labels is None:
        return to
    to = by_sample(to, "residuals", data.labels - values, data.ids, to.targets)
    return to.adding(facts={"score": score(to.targets, data.labels, values)})


def score(targets: tuple[str, ...], y: Float, fitted: Float) -> dict[str, dict[str, float | None]]:
    """Mean squared error and R^2 of every target; R^2 is None where the labels have no variance."""
    mse = np.mean((y - fitted) ** 2, axis=0)
    variance = np.var(y, axis=0)
    return {
        name: {"mse": float(mse[j]), "r2": float(1 - mse[j] / variance[j]) if variance[j] > 0 else None}
        for j, name in enumerate(targets)
    }
