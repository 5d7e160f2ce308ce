"""The regression table of a report, where the plan released inference, and the choice of a ridge in words."""

from collections.abc import Iterator

from fedsvd.results.drawings.models import METHODS
from fedsvd.results.regression_table import models_of
from fedsvd.results.report.sections import Grid, facts_of, grid
from fedsvd.results.result import PartyResult
from fedsvd.statistics.inference import LinearInference
from fedsvd.statistics.summary import Summary, linear_summary
from fedsvd.statistics.undefined import is_array, is_number

_TERMS = 200  # of the table; the file has all


def tables(result: PartyResult) -> Iterator[Grid]:
    """For each target its coefficients with their statistics, and what is said of the model as one."""
    names = _names(result)
    for target, model in zip(result.targets, models_of(result), strict=False):
        summary = linear_summary(model, names, target)
        yield _coefficients(target, model, summary)
        yield facts_of(f"The model of {target}", summary.facts)


def joint_in_words(result: PartyResult) -> list[str]:
    """How well the model fits the rows of all parties, where the plan released that."""
    found = []
    for target, model in zip(result.targets, models_of(result), strict=False):
        if not is_number(model.r2):
            continue
        adjusted = f" (adjusted {model.adjusted_r2:.4g})" if is_number(model.adjusted_r2) else ""
        test = ""
        if is_number(model.f) and is_number(model.f_p):
            p = f"= {model.f_p:.3f}" if model.f_p >= 0.001 else "< 0.001"
            test = f"; F {model.f:.4g} on {model.df_model} and {model.df_residual} degrees of freedom, p {p}"
        found.append(f"{target}, over all parties: R² {model.r2:.4g}{adjusted}, {model.n} rows{test}.")
    return found


def _names(result: PartyResult) -> list[str]:
    """Of the features in this result; of split columns a party has its own, and what is shared has none."""
    coefficients = result.arrays.get("coefficients")
    return [] if coefficients is None else list(result.feature_names(coefficients.shape[1]))


def fit_in_words(result: PartyResult) -> list[str]:
    """What the label holder of split columns knows of the model as one."""
    names = {
        "sigma": "sigma",
        "adjusted_r2": "adjusted R²",
        "f": "F",
        "f_p": "p of F",
        "log_likelihood": "log-likelihood",
    }
    names |= {"aic": "AIC", "bic": "BIC"}
    found = []
    for target, said in (result.facts.get("fit") or {}).items():
        numbers = ", ".join(f"{name} {said[key]:.6g}" for key, name in names.items() if said[key] is not None)
        found.append(f"{target}, the model as one: {said['df_residual']} degrees of freedom, {numbers}.")
    return found


def notes(result: PartyResult) -> list[str]:
    """Whose clusters there are, and why a statistic is missing, a sentence each."""
    names = _names(result)
    clusters = {model.clusters for model in models_of(result)} - {0}
    found = [own_clusters(count) for count in clusters]
    found += [
        f"Not defined for {target}: {note}."
        for target, model in zip(result.targets, models_of(result), strict=False)
        for note in linear_summary(model, names, target).notes
    ]
    return found


def own_clusters(count: int) -> str:
    """Whose clusters errors are robust to."""
    return f"Clusters are each party's own: {count} clusters. A name at two parties is two of them."


def ridge_in_words(result: PartyResult) -> list[str]:
    """Which penalty was chosen, in a sentence."""
    said = result.facts.get("ridge")
    if said is None:
        return []
    found = [f"Ridge: alpha {said['alpha']:.6g} of {len(said['alphas'])}, chosen by {METHODS[said['chosen_by']]}."]
    if "within" in said:
        found.append(f"Rounding moves no coefficient by more than {max(said['within']):.0e}.")
    if said.get("uncertain"):
        found.append(
            f"{said['uncertain']} of this party's coefficients may be off in their first two digits: columns are in "
            f"units far apart. A regression with alpha = {said['alpha']:.6g} as its one penalty has all digits."
        )
    return found


def _coefficients(target: str, model: LinearInference, summary: Summary) -> Grid:
    cells = summary.rows()
    header = ["term", *summary.cells]
    if is_array(model.vif):
        vif = [*(["-"] if model.intercept else []), *(f"{value:.4g}" for value in model.vif)]
        header, cells = [*header, "VIF"], [[*row, cell] for row, cell in zip(cells, vif, strict=True)]
    title = f"Coefficients of {target}"
    if len(cells) > _TERMS:
        title += f": the first {_TERMS} of {len(cells)} terms, coefficients.csv has all"
    return grid(title, header, cells[:_TERMS])
