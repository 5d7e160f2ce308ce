"""What PCA and regression on principal components both give: means, scales, a spectrum."""

from fedsvd.protocol.outputs import COMPONENT, FEATURE, Kind, array, column, fact

COMPONENTS = (
    column("mean", FEATURE, "mean", "mean", attribute="mean_"),
    column("scale", FEATURE, "mean", "scale"),
    fact("constant_columns"),
    column("singular_values", COMPONENT, "spectrum", "singular_value", draws=("scree", "cumulative")),
    column("explained_variance", COMPONENT, "spectrum", "explained_variance"),
    column("explained_variance_ratio", COMPONENT, "spectrum", "explained_variance_ratio"),
    column("taken", COMPONENT, "spectrum", "taken", kind=Kind.COLUMN),
    column("spectrum_threshold", COMPONENT, "spectrum", "threshold"),
    fact("total_energy"),
    fact("choice"),
    array("loadings", FEATURE, COMPONENT, draws=("correlations",)),
)
