"""Principal components among results: how many were taken and why, loadings, and which own rows stand out.

Where a rule took some components, the spectrum has all singular values, and ``spectrum.csv`` says of each what it had
to exceed and whether it was taken. ``loadings`` are the components times the deviations of their scores, so that of
standardised features they are correlations. ``outliers`` are T2 and Q of the reader's own rows; no one else has them.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import MatrixSource
from fedsvd.results.folder import Table
from fedsvd.results.outputs import Values
from fedsvd.results.result import PartyResult
from fedsvd.roles.user.checks import Checked
from fedsvd.roles.user.pca import PCAResult
from fedsvd.roles.user.pcr import PCRResult
from fedsvd.statistics.components import Choice
from fedsvd.statistics.inference import LinearInference
from fedsvd.statistics.projection import Components, Outliers, outliers, standardised
from fedsvd.statistics.table import columns, model_from, values
from fedsvd.statistics.undefined import Undefined, is_array, is_number
from fedsvd.types import Float

_PANEL_BYTES = 1 << 26
LEVEL = 0.95


def components(to: PartyResult, computed: PCAResult) -> Values:
    """What a PCA gives."""
    found = _moments(to, computed) | _spectrum(to, computed) | Values({}, searched(computed.checked))
    return found if computed.scores_i is None else found | Values({"scores": computed.scores_i})


def searched(checked: Checked | None) -> dict[str, Any]:
    """How many steps and directions the vectors were found in, where they were found by steps."""
    record = {} if checked is None else checked.order.record()
    return {"found": record} if record else {}


def regression(to: PartyResult, computed: PCRResult, tables: bool) -> Values:
    """What a regression on components gives."""
    coefficients = Values({"coefficients": computed.coefficients, "intercept": computed.intercept})
    found = _moments(to, computed) | _spectrum(to, computed) | _models(to, computed, tables) | coefficients
    return found | Values({}, searched(computed.checked))


def _moments(to: PartyResult, computed: PCAResult | PCRResult) -> Values:
    arrays = {"components": computed.U.T, "mean": computed.mean}
    if computed.scales is None:
        return Values(arrays)
    features = to.feature_names(len(computed.mean))
    constant = [features[int(j)] for j in np.flatnonzero(computed.scales == 0)]
    return Values({**arrays, "scale": computed.scales}, {"constant_columns": constant})


def _spectrum(to: PartyResult, computed: PCAResult | PCRResult) -> Values:
    """The spectrum, variances and what the rule made of them, as far as they are released."""
    sigma = computed.sigma if computed.spectrum is None else computed.spectrum
    if sigma is None or computed.sigma is None:
        return Values()
    variance = sigma**2 / max(to.plan.n - 1, 1)
    ratio = sigma**2 / computed.total_energy if computed.total_energy > 0 else np.zeros_like(variance)
    arrays: dict[str, Any] = {"singular_values": sigma, "explained_variance": variance}
    arrays["explained_variance_ratio"] = ratio
    facts: dict[str, Any] = {"total_energy": computed.total_energy}
    choice = computed.choice
    if choice is not None:
        facts["choice"] = {"rule": choice.rule, "count": choice.count}
        arrays["taken"] = np.arange(len(sigma)) < choice.count
        if choice.threshold is not None:
            arrays["spectrum_threshold"] = _as_long(choice, len(sigma))
    if len(computed.sigma):
        found = Components(computed.U.T, computed.sigma, np.zeros(len(computed.U)), to.plan.n)
        arrays["loadings"] = found.loadings()
    return Values(arrays, facts)


def _as_long(choice: Choice, count: int) -> Float:
    assert choice.threshold is not None
    return np.pad(choice.threshold[:count], (0, max(0, count - len(choice.threshold))))


def _models(to: PartyResult, computed: PCRResult, tables: bool) -> Values:
    """The regression table of the components, one below the other where there are several targets."""
    said = {name: values(model) for name, model in zip(to.targets, computed.inference, strict=True)}
    arrays = {"component_coefficients": np.stack([model.coefficients for model in computed.inference])}
    matrices = [model.covariance for model in computed.inference if is_array(model.covariance)]
    if len(matrices) == len(computed.inference):
        arrays["component_covariance"] = np.stack(matrices)
    shown = (_table(to, computed),) if tables else ()
    return Values(arrays, {"components": said}, shown, {"components": computed.inference})


def _table(to: PartyResult, computed: PCRResult) -> Table:
    names = [f"component_{j + 1}" for j in range(len(computed.sigma))]
    each = [columns(model, names) for model in computed.inference]
    joined: dict[str, Any] = {name: [cell for own in each for cell in own[name]] for name in each[0]}
    if len(each) > 1:
        joined = {"target": [name for name in to.targets for _ in each[0]["term"]]} | joined
    return Table("component_coefficients", joined)


def component_models(result: PartyResult) -> tuple[LinearInference, ...]:
    """The tables of the components of a result, as written or as read back."""
    if "components" in result.objects:
        return tuple(result.objects["components"])
    said, found = result.facts["components"], result.arrays["component_coefficients"]
    covariance = result.arrays.get("component_covariance")
    models = []
    for k, name in enumerate(result.targets):
        # Scores are uncorrelated, so that none inflates the variance of another.
        vif = None if "vif" in said[name]["not_defined"] else np.ones(found.shape[1] - 1)
        models.append(model_from(said[name], found[k], True, None if covariance is None else covariance[k], vif))
    return tuple(models)


def own_outliers(to: PartyResult, computed: PCAResult, table: MatrixSource, ids: NDArray[Any] | None) -> Values:
    """T2 and Q of own rows and their limits, where the variances of the scores are known."""
    if computed.sigma is None or not len(computed.sigma):
        return Values()
    found = outliers_of(computed, table, to.plan.n, to.plan.components is None)
    far = [
        values > limit if is_number(limit) else np.zeros(len(values), bool)
        for values, limit in ((found.t2, found.t2_limit), (found.q, found.q_limit))
    ]
    index = np.arange(len(found.t2)) if ids is None else ids
    label = "row" if ids is None else "id"
    shown = Table("outliers", {label: index, "t2": found.t2, "q": found.q, "t2_beyond": far[0], "q_beyond": far[1]})
    limits: dict[str, Any] = {"level": found.level, "t2_beyond": int(far[0].sum()), "q_beyond": int(far[1].sum())}
    for name, limit in (("t2_limit", found.t2_limit), ("q_limit", found.q_limit)):
        limits |= {name: None, f"{name}_why": limit.reason} if isinstance(limit, Undefined) else {name: limit}
    return Values({"outliers": np.column_stack((found.t2, found.q))}, {"outliers": limits}, (shown,))


def outliers_of(computed: PCAResult, table: MatrixSource, n: int, complete: bool) -> Outliers:
    """T2 and Q of the rows of a table, panel by panel; ``complete`` where all singular values are known."""
    assert computed.sigma is not None
    known = computed.sigma if computed.spectrum is None else computed.spectrum
    others = known[len(computed.sigma) :] if complete else None
    components = Components(computed.U.T, computed.sigma, np.zeros(len(computed.U)), n)
    height = max(1, _PANEL_BYTES // (8 * table.shape[1]))
    parts = [
        outliers(components, standardised(panel, computed.mean, computed.scales), others, level=LEVEL)
        for panel in table.panels(0, height)
    ]
    t2, q = (np.concatenate([getattr(part, name) for part in parts]) for name in ("t2", "q"))
    return Outliers(t2, q, parts[0].t2_limit, parts[0].q_limit, LEVEL)
