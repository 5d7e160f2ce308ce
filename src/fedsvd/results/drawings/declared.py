"""Which drawings a result has: those that its outputs declare, as far as the reader holds these outputs."""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain

from fedsvd.errors import ConfigError
from fedsvd.protocol.families import Outcome
from fedsvd.protocol.outputs import Kind, Output, To
from fedsvd.results.drawings import balanced, components, described, models, ranking, survival
from fedsvd.results.drawings.picture import USUAL, Picture, Wish
from fedsvd.results.result import PartyResult

DRAWINGS: Mapping[str, Callable[[PartyResult, Wish], Iterator[Picture]]] = {
    "scree": components.scree,
    "cumulative": components.cumulative,
    "loadings": components.loadings,
    "features": components.features,
    "scores": components.scores,
    "biplot": components.biplot,
    "outliers": components.outliers,
    "correlations": components.correlations,
    "canonical_loadings": components.canonical_loadings,
    "forest": models.forest,
    "coefficients": models.coefficients,
    "ridge": models.ridge,
    "roc": ranking.roc_curve,
    "calibration": ranking.calibration_curve,
    "residuals": models.residuals,
    "qq": models.qq,
    "leverage": models.leverage,
    "caterpillar": models.caterpillar,
    "survival": survival.survival,
    "love": lambda result, wish: chain(described.love(result, wish), balanced.love(result, wish)),
    "histogram": described.histograms,
}

_WITHOUT = {
    "forest": "standard errors are not defined for this model, or were not asked for (inference=True)",
    "biplot": "there are fewer than two components, or the components of the features are not here",
    "scores": "there are fewer than two components",
    "features": "there are fewer than two components",
    "correlations": "correlations need all components and their variances (n_components=None), of 60 features at most",
    "roc": "the target has no classes, or these records have one of them alone",
    "calibration": "the target has no classes, or these records have one of them alone",
    "qq": "residuals of this family do not follow a normal law",
    "ridge": "one penalty was tried",
    "caterpillar": "the variance of the random effects is 0, and all groups are alike",
    "love": "there are no groups, or no difference could be standardised",
    "histogram": "the table has no numbers, or no counts on grids were opened (quantiles=True)",
}


OF_ROWS = ("roc", "calibration", "residuals", "qq")
"""Drawings of records that a caller may give."""


def offered(result: PartyResult) -> list[str]:
    """The drawings that a task declares, less those of records that a model of this family has not."""
    declared = dict.fromkeys(name for output in result.outputs for name in output.draws)
    about = result.plan.glm
    return [name for name in declared if about is None or name not in OF_ROWS or name in about.facts.draws]


def declaring(result: PartyResult, name: str) -> list[Output]:
    """The outputs that a drawing is made of."""
    return [output for output in result.outputs if name in output.draws]


def pictures(result: PartyResult, name: str, wish: Wish = USUAL) -> list[Picture]:
    """The pictures of one drawing; none where the reader does not hold what it is made of."""
    if not any(_is_here(result, output) for output in declaring(result, name)):
        return []
    if name == "biplot" and "components" not in result.arrays:
        return []
    return list(DRAWINGS[name](result, wish))


def _is_here(result: PartyResult, output: Output) -> bool:
    return output.name in (result.facts if output.kind is Kind.FACT else result.arrays)


def all_pictures(result: PartyResult) -> list[Picture]:
    """Every picture of a result, in the order in which its task declares them."""
    names = dict.fromkeys(name for output in result.outputs for name in output.draws)
    return [picture for name in names for picture in pictures(result, name)]


def expected(result: PartyResult, name: str, wish: Wish = USUAL) -> list[Picture]:
    """The pictures of one drawing, or a ``ConfigError`` that says why there is none and who has it."""
    declared = declaring(result, name)
    if not declared:
        raise ConfigError(f"task {str(result.task)!r} has no {name} to draw", f"one of {', '.join(offered(result))}")
    if not any(_is_here(result, output) for output in declared):
        at_home = (output for output in declared if output.receiver(result.split) is not To.ALL)
        raise ConfigError(*_who_has(result, next(at_home, declared[0]), name))
    found = pictures(result, name, wish)
    if not found:
        why = _WITHOUT.get(name, "the reader does not hold what it is of")
        others = [other for other in offered(result) if other != name]
        raise ConfigError(f"{name} cannot be drawn of this result: {why}", f"one of {', '.join(others)}")
    return found


def _who_has(result: PartyResult, output: Output, name: str) -> tuple[str, str]:
    """That an output is not here, and where it is."""
    receiver, missing = output.receiver(result.split), f"this result has no {output.name}"
    if receiver is To.HOLDER:
        return missing, f"{result.label_holder or 'the party with the labels'} alone has it: load its own folder"
    if receiver is To.OWN:
        names, given = ", ".join(result.names), ", or give X and y" if name in OF_ROWS and not _of_times(result) else ""
        return missing, f"each party has its own records' or columns' ({names}): load a party's folder{given}"
    return missing, "the plan of this study did not release it"


def _of_times(result: PartyResult) -> bool:
    """Whether residuals need the risk sets of the fit, which rows that a caller gives have not."""
    about = result.plan.glm
    return about is not None and about.facts.outcome is Outcome.TIMES
