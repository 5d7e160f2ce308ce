"""PCA, and regression on principal components: means first, then the opening of ``factors.py``."""

from fedsvd.protocol.outputs import (
    COMPONENT,
    FEATURE,
    MEASURE,
    RECORD,
    TARGET,
    TERM,
    Kind,
    To,
    array,
    column,
    fact,
    hidden,
)
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.steps import PlannedStep, What, bound, from_user_1, total, triangle, wide
from fedsvd.protocol.tasks import PERMUTED_TABLES
from fedsvd.tasks.factors import opening

_COMPONENTS = (
    column("mean", FEATURE, "mean", "mean", attribute="mean_"),
    column("scale", FEATURE, "mean", "scale"),
    fact("constant_columns"),
    column("singular_values", COMPONENT, "spectrum", "singular_value"),
    column("explained_variance", COMPONENT, "spectrum", "explained_variance"),
    column("explained_variance_ratio", COMPONENT, "spectrum", "explained_variance_ratio"),
    column("taken", COMPONENT, "spectrum", "taken", kind=Kind.COLUMN),
    column("spectrum_threshold", COMPONENT, "spectrum", "threshold"),
    fact("total_energy"),
    fact("choice"),
    array("loadings", FEATURE, COMPONENT),
)
PCA_OUTPUTS = (
    array("components", COMPONENT, FEATURE, attribute="components_", padded=True),
    *_COMPONENTS,
    array("scores", RECORD, COMPONENT, to=To.OWN),
    array("outliers", RECORD, MEASURE, to=To.OWN),
    fact("outliers", to=To.OWN),
)
"""What a PCA gives: scores, and how far out a row lies, are of a party's own rows."""
PCR_OUTPUTS = (
    array("components", COMPONENT, FEATURE, attribute="components_"),
    *_COMPONENTS,
    array("component_coefficients", TARGET, TERM),
    hidden("component_covariance", TARGET, TERM, TERM),
    fact("components"),
    array("coefficients", TARGET, FEATURE, attribute="coef_"),
    column("intercept", TARGET, "intercept", "intercept", attribute="intercept_"),
    array("fitted", RECORD, TARGET, to=To.OWN),
    array("residuals", RECORD, TARGET, to=To.OWN),
    fact("score", to=To.OWN),
)
"""What a regression on components gives."""


def pca(plan: SessionPlan) -> tuple[PlannedStep, ...]:
    """Every step of a PCA."""
    found = [wide("mean", plan.m, What.MEAN)] if plan.centre else []
    found.append(bound("bound"))
    if plan.unit_variance:
        found.append(wide("energy", plan.m, What.ENERGY))
    found += [total("norm", 1, What.NORM), *opening(plan, What.VECTORS)]
    if plan.permutes:
        found.append(total("permuted", PERMUTED_TABLES * plan.m * (plan.m + 1) // 2, What.PERMUTED))
    return tuple(found)


def pcr(plan: SessionPlan) -> tuple[PlannedStep, ...]:
    """Every step of a regression on components."""
    found = [wide("mean", plan.M, What.MEAN)] if plan.centre else []
    found += [
        bound("bound"),
        wide("energy", plan.M, What.ENERGY),
        total("norm", 1, What.NORM),
        triangle("gram", plan.M),
    ]
    return (*found, from_user_1("answer", 8 * (plan.m + 1) * plan.planned_rank, what=What.COMPONENTS))
