"""What a role computed, as the result of a party: values under declared names, which ``outputs.written`` writes.

The names of the formulas end here. A table has samples in rows, whichever way it was split, and the names say what they
would on the joint table: ``components`` (r, features) and ``left_vectors`` (samples, r) of an SVD, ``mean``,
``scores``, ``coefficients``. Who gets them is declared by the task. What a party computes alone from its own rows, with
one more pass and no message, is added when its result is made (``_at_home``).
"""

from dataclasses import asdict, replace
from typing import Any, Protocol

import numpy as np

from fedsvd.data.source import MatrixSource
from fedsvd.policy.source_digest import Table as Brought
from fedsvd.prepare.at_home import HomeReport
from fedsvd.prepare.matching import MatchReport
from fedsvd.prepare.table_map import TableMap
from fedsvd.prepare.units import Spread, unit_findings_of_means
from fedsvd.protocol.outputs import Named
from fedsvd.protocol.parties import Party
from fedsvd.protocol.tasks import Split, Task
from fedsvd.results import (
    canonical_tables,
    component_tables,
    describe_table,
    foreign_tables,
    model_table,
    propensity_table,
    regression_table,
    survival_tables,
)
from fedsvd.results.outputs import Values, stored, written
from fedsvd.results.result import PartyResult
from fedsvd.results.vector_files import VectorFile
from fedsvd.roles.user.cca import CCAResult
from fedsvd.roles.user.describe import DescribedResult
from fedsvd.roles.user.glm import GLMResult
from fedsvd.roles.user.pca import PCAResult
from fedsvd.roles.user.pcr import PCRResult
from fedsvd.roles.user.prediction import RegressionResult
from fedsvd.roles.user.propensity import PropensityResult
from fedsvd.roles.user.survival import SurvivalResult
from fedsvd.roles.user.svd import FactorsResult
from fedsvd.types import Float

_PANEL_BYTES = 1 << 26


class Data(Brought, Protocol):
    """What a party brought to the study, and how it was prepared at its site."""

    @property
    def row_weights(self) -> Float | None: ...
    @property
    def prepared(self) -> HomeReport | None: ...
    @property
    def mapped(self) -> TableMap: ...
    @property
    def matched(self) -> MatchReport | None: ...


def shared_result(about: PartyResult, computed: Any, data: Data) -> PartyResult:
    """What all users share, and the researcher who asked may read, from the first user's copy: without row ids.

    Copies differ in their last bits at most. ``about`` is the study: a result without arrays.
    """
    by_rows = about.split is Split.HORIZONTAL
    names = data.table.names if by_rows else None
    to = replace(about, features=None if names is None else tuple(names), rank=rank_of(about, computed))
    return written(to, _values(to, computed, tables=True))


def party_result(about: PartyResult, me: Party, computed: Any, data: Data) -> PartyResult:
    """What one user gets: its copy of what all share, and what belongs to its own rows or columns."""
    names, seen = data.table.names, about.certificate.seen_by(me)
    features = None if names is None else tuple(names)
    to = replace(about, reader=me, certificate=seen, features=features, rank=rank_of(about, computed))
    values = _values(to, computed, tables=True) | _of_its_table(to, me, computed, data) | _at_home(to, computed, data)
    return written(to, values, data.ids)


def session_result(about: PartyResult, me: Party, computed: Any) -> PartyResult:
    """What one user has at the end of a session, without tables and before another pass over its rows."""
    to = replace(about, reader=me, rank=rank_of(about, computed))
    return stored(to, _values(to, computed, tables=False))


def rank_of(about: PartyResult, computed: Any) -> int:
    """The rank the users found; with square factors the CSP cannot cut at it."""
    return int(getattr(computed, "rank", about.certificate.rank))


def _values(to: PartyResult, computed: Any, tables: bool) -> Values:
    """What a session gives, under declared names; with ``tables``, also those whose cells no declaration says."""
    match computed:
        case FactorsResult():
            return _factors(to, computed)
        case PCAResult():
            return component_tables.components(to, computed)
        case PCRResult():
            return component_tables.regression(to, computed, tables)
        case CCAResult():
            return canonical_tables.canonical(to, computed, tables)
        case RegressionResult():
            return regression_table.regression(to, computed, tables)
        case PropensityResult():
            return propensity_table.effect(to, computed, tables)
        case GLMResult():
            return model_table.model(to, computed, tables)
        case SurvivalResult():
            return survival_tables.curves(to, computed)
        case DescribedResult():
            return describe_table.described(computed, tables)
        case Named():
            return foreign_tables.outputs(to, computed, tables)
    return Values()


def _factors(to: PartyResult, computed: FactorsResult) -> Values:
    shared, own = ("components", "left_vectors") if to.split is Split.HORIZONTAL else ("left_vectors", "components")
    by_rows, Vt_i = to.split is Split.HORIZONTAL, computed.Vt_i
    arrays: dict[str, Any] = {shared: computed.U.T if by_rows else computed.U, "singular_values": computed.sigma}
    if Vt_i is not None:
        arrays[own] = Vt_i.T if by_rows and not isinstance(Vt_i, VectorFile) else Vt_i
    facts = {} if computed.verified is None else {"verified": asdict(computed.verified)}
    return Values(arrays, facts | component_tables.searched(computed.checked))


def _of_its_table(to: PartyResult, me: Party, computed: Any, data: Data) -> Values:
    """The ids of a party's rows, how they were matched and prepared, and what its owner should look at."""
    facts: dict[str, Any] = {}
    if data.matched is not None:
        facts["matching"] = data.matched.record()
    if not data.mapped.asks_nothing:
        facts["table"] = data.mapped.record()
    recipe = None
    if data.prepared is not None:
        facts["prepared"], recipe = data.prepared.record(), data.prepared.recipe
    if recipe is not None:
        facts["recipe"] = recipe.record()
    known = () if recipe is None else recipe.findings
    found = [text for text in units_found(to, me, computed, data) if text not in known]
    if found:
        facts["look_at"] = found
    return Values({} if data.ids is None else {"row_ids": np.asarray(data.ids, np.str_)}, facts)


def units_found(about: PartyResult, me: Party, computed: Any, data: Data) -> tuple[str, ...]:
    """Columns of this party alone that may be in another unit than at the others, where the study took joint means."""
    joint, names = _joint_means(computed), data.table.names
    if about.split is not Split.HORIZONTAL or joint is None or names is None:
        return ()
    found = unit_findings_of_means(names, Spread.of(data.table), about.plan.counts, me.index - 1, joint)
    return tuple(each.text for each in found)


def _joint_means(computed: Any) -> Float | None:
    match computed:
        case PCAResult(mean=means) | PCRResult(mean=means):
            return means
        case GLMResult(means=means) | RegressionResult(means=means):
            return means
    return None


def _at_home(to: PartyResult, computed: Any, data: Data) -> Values:
    """What a party computes alone of its own rows, which no other has: one more pass, and no message."""
    match computed:
        case PCAResult(scores_i=scores_i) if scores_i is not None and not isinstance(scores_i, VectorFile):
            return component_tables.own_outliers(to, computed, data.table, data.ids)
        case PCRResult():
            return scored(to, "fitted", _fitted(data.table, computed), data.labels)
        case RegressionResult() if to.split is Split.HORIZONTAL:
            found = scored(to, "fitted", _fitted(data.table, computed), data.labels)
            return found | regression_table.diagnostics(computed, data)
        case RegressionResult(fitted=fitted) if fitted is not None:
            found = scored(to, "fitted", fitted, data.labels)
            return found if data.labels is None else found | regression_table.fit(to, computed, data.labels, fitted)
        case PropensityResult():
            return propensity_table.own_weights(to, computed)
        case GLMResult():
            eta = _fitted(data.table, computed)
            if data.labels is not None and to.plan.glm is not None and to.plan.glm.offset:
                eta = eta + data.labels[:, [to.plan.glm.offset_at]]
            if to.plan.task is Task.COX and data.labels is not None:
                return model_table.martingale(to, computed.models, data.table, eta, data.labels)
            if to.plan.task is Task.MIXED and data.labels is not None:
                return model_table.with_random_effects(to, data.table, computed.models[0], data.labels)
            return model_table.own_fit(to, computed.models, eta, data.labels)
    return Values()


def _fitted(table: MatrixSource, computed: RegressionResult | PCRResult | GLMResult) -> Float:
    height = max(1, _PANEL_BYTES // (8 * table.shape[1]))
    panels = [panel @ computed.coefficients.T for panel in table.panels(0, height)]
    fitted: Float = np.concatenate(panels) + computed.intercept
    return fitted


def scored(to: PartyResult, name: str, values: Float, labels: Float | None) -> Values:
    """Fitted values, their residuals, and how well they fit, where the party has labels."""
    if labels is None:
        return Values({name: values})
    return Values({name: values, "residuals": labels - values}, {"score": score(to.targets, labels, values)})


def score(targets: tuple[str, ...], y: Float, fitted: Float) -> dict[str, dict[str, float | None]]:
    """Mean squared error and R^2 of every target; R^2 is None where the labels have no variance."""
    mse = np.mean((y - fitted) ** 2, axis=0)
    variance = np.var(y, axis=0)
    return {
        name: {"mse": float(mse[j]), "r2": float(1 - mse[j] / variance[j]) if variance[j] > 0 else None}
        for j, name in enumerate(targets)
    }
