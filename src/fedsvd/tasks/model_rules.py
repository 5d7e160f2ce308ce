"""What a regression, a model or a choice of components cannot ask for: the second half of the rules of a study."""

import json
import math
from typing import Any

from fedsvd.protocol.model import FEW
from fedsvd.protocol.propensity import TRIMS
from fedsvd.protocol.tasks import (
    MODEL_TASKS,
    Answer,
    ChosenBy,
    Clusters,
    ComponentRule,
    Item,
    Mode,
    Scheme,
    Split,
    Task,
    is_rule,
)
from fedsvd.tasks.declared import declared
from fedsvd.tasks.option import Rule


def vertical(study: Any) -> bool:
    """Whether columns are split over the parties."""
    return study.split is Split.VERTICAL


def releases(study: Any, item: Item) -> bool:
    """Whether a study asks for this by name."""
    return item in (study.release or ())


def _option(study: Any, key: str, default: object) -> object:
    """What a study says by an option that its script alone reads."""
    return dict(study.options).get(key, default)


OWN_CLUSTERS = Rule(
    lambda asked: asked.clusters is Clusters.JOINT,
    "clusters at several parties are not offered: rows of one name would be added up over parties before they "
    "are squared, and parties would learn which names others have",
    'set clusters = "own", where a name at two parties is two clusters, or bring the rows of a cluster to one party',
)
"""Scores of clusters that lie at several parties would have to be added by name, then squared."""

# --- standard errors: the parties open the joint Gram matrix, or the CSP splits its inverse ---------------------------


def _table_of_rows(study: Any) -> bool:
    return _table(study) and not vertical(study)


def _table_of_columns(study: Any) -> bool:
    return _table(study) and vertical(study)


def _table(study: Any) -> bool:
    return study.task is Task.LR and releases(study, Item.INFERENCE)


INFERENCE = (
    Rule(
        lambda study: _table(study) and study.alphas,
        "a ridge shrinks the coefficients, so that their usual standard errors do not describe them",
        "leave inference or alphas out",
    ),
    # On split columns each party has the table of its own columns, from a matrix that the CSP splits among them.
    Rule(
        lambda study: _table_of_columns(study) and study.alpha,
        "a ridge leaves no standard errors to compute",
        'leave inference out; release "score" gives R2',
    ),
    Rule(
        lambda study: _table_of_columns(study) and study.robust is not None,
        "robust errors need the residual of every row next to its features, and on split columns no party has both",
        "leave cov_type and cluster out, or split the rows",
    ),
    Rule(
        lambda study: _table_of_rows(study) and study.scheme == Scheme.MASK,
        lambda study: (
            f"inference follows from the exact sum of Gram matrices, and scheme {str(study.scheme)!r} has none"
        ),
        'set scheme = "sum", or leave inference out',
    ),
    Rule(
        lambda study: _table_of_rows(study) and study.mode is Mode.B,
        "inference shows every party the joint Gram matrix, and mode 'B' shows it to none",
        'leave mode out (mode "A": the parties open the sum), or leave inference out',
    ),
)


def _opens_digits(study: Any) -> bool:
    return _table_of_rows(study) or study.task is Task.SURVIVAL or study.scheme == Scheme.STEPS


DIGITS = (
    Rule(
        lambda study: study.digits in FEW and declared(study.task).by_steps and study.scheme != Scheme.STEPS,
        'fewer digits of vectors are those of scheme "steps"',
        'leave digits out, or set scheme = "steps"',
    ),
    Rule(
        lambda study: study.digits in FEW and not _opens_digits(study),
        "digits are those of a model's sums, or of a regression table's on split rows",
        "leave digits out, or set inference = true",
    ),
)
"""Without a table a regression opens its coefficients alone; U and S of a Gram matrix have all digits."""

# --- weights, robust errors, the choice of a ridge --------------------------------------------------------------------

REGRESSION = (
    Rule(
        lambda study: releases(study, Item.ROBUST) != (study.robust is not None),
        "robust errors are released where cov_type or cluster names them, and nowhere else",
    ),
    Rule(
        lambda study: study.robust is not None and not releases(study, Item.INFERENCE),
        "robust errors are those of a regression table",
        "set inference = true",
    ),
    Rule(
        lambda study: releases(study, Item.RIDGE_PATH) != bool(study.alphas),
        "a ridge path is released where alphas names its penalties, and nowhere else",
    ),
    Rule(
        lambda study: not study.alphas and study.chosen_by is not None,
        "choose_by says how one of several penalties is chosen",
        "name them: alphas = [...]",
    ),
    Rule(
        lambda study: (
            not all(0.0 < alpha < math.inf for alpha in study.alphas) or len(set(study.alphas)) < len(study.alphas)
        ),
        "alphas are different finite numbers above 0",
        "alphas = [0.1, 1.0, 10.0], say",
    ),
    Rule(
        lambda study: study.alphas and study.alpha,
        "alpha is one penalty, alphas are several to choose among",
        "leave one of them out",
    ),
    Rule(
        lambda study: study.alphas and vertical(study) and study.chosen_by is not ChosenBy.GCV,
        "leave-one-out needs the leverage of every row, and on split columns no party has it",
        'set choose_by = "gcv"',
    ),
    Rule(
        lambda study: study.alphas and study.mode is Mode.B,
        "a ridge is chosen from the joint Gram matrix, which the parties open",
        'leave mode and scheme out (scheme "sum", mode "A")',
    ),
)

# --- generalised linear models: iterations would show more than sums over rows ----------------------------------------


def _glm(study: Any) -> bool:
    return study.task in MODEL_TASKS


MODELS = (
    Rule(
        lambda study: _glm(study) and vertical(study),
        lambda study: (
            f"task {str(study.task)!r} is of split rows: on split columns every iteration would show each party one "
            "more combination of its partners' columns, and after as many iterations as they have columns, all of them"
        ),
        'set split = "horizontal"; task lr fits a linear model of split columns',
    ),
    Rule(lambda study: _glm(study) and study.glm is None, "task 'glm' needs a family", 'family = "binomial", say'),
    Rule(
        lambda study: _glm(study) and study.glm.facts.task is not study.task,
        lambda study: f"the family {str(study.glm.family)!r} is of task {str(study.glm.facts.task)!r}, and of no other",
        lambda study: f"choose task {study.glm.facts.task}, or another family",
    ),
    Rule(
        lambda study: _glm(study) and study.targets != study.glm.labels,
        lambda study: f"task {str(study.task)!r} has one target",
        "name one label column",
    ),
    Rule(
        lambda study: _glm(study) and study.scheme not in ("auto", Scheme.SUM),
        lambda study: f"task {str(study.task)!r} adds up Gram matrices, one to each iteration",
        'set scheme = "sum", or leave it out',
    ),
    Rule(
        lambda study: _glm(study) and study.mode is Mode.B,
        lambda study: f"the parties of task {str(study.task)!r} open the sum of each iteration, for the next one",
        'leave mode out (mode "A")',
    ),
)

PROPENSITY = (
    Rule(
        lambda study: study.task is Task.PROPENSITY and study.robust is None,
        "the errors of a weighted effect are robust",
        'set cov_type = "HC0", or name clusters',
    ),
    Rule(
        lambda study: study.task is Task.PROPENSITY and dict(study.options).get("trim", 0.0) not in TRIMS,
        lambda study: f"trim = {dict(study.options)['trim']:g}: a limit of a job's own could be moved past one person",
        f"one of {', '.join(f'{trim:g}' for trim in TRIMS)}",
    ),
)
"""Of treatments, scores and weights."""

ROBUST_MODELS = (
    Rule(
        lambda study: _glm(study) and study.robust is not None and study.robust not in study.glm.facts.robust,
        lambda study: (
            f"{study.robust} divides by the leverage of one linear predictor, and this model has another form"
            if study.glm.facts.robust
            else f"a {study.glm.facts.name} model has no robust errors here"
        ),
        lambda study: (
            f"one of {', '.join(study.glm.facts.robust)}"
            if study.glm.facts.robust
            else "leave cov_type and cluster out"
        ),
    ),
    Rule(
        lambda study: _glm(study) and study.robust is not None and study.alpha > 0,
        "a ridge leaves no standard errors, and so no robust ones",
        "leave alpha out, or cov_type and cluster",
    ),
)
"""Scores are squared in the coordinates of a table's root."""

QUALITY = (
    Rule(
        lambda study: (
            releases(study, Item.QUALITY)
            and study.glm is not None
            and (not study.glm.facts.against_rest or study.glm.fits > 1 or study.glm.weighted)
        ),
        lambda study: (
            f"{'roc' if releases(study, Item.ROC) else 'quality'} is of a binomial model of two classes, without "
            "weights: it compares cases with controls"
        ),
        "leave quality and roc out, or make one class of all but the one that matters",
    ),
    Rule(
        lambda study: releases(study, Item.ROC) and not (releases(study, Item.QUALITY) and _option(study, "roc", 0)),
        "the release of roc goes with that of quality, and with what counts are multiples of",
        "roc = 5 (--roc 5), and leave roc out of release",
    ),
    Rule(
        lambda study: not releases(study, Item.ROC) and json.loads(str(_option(study, "thresholds", "[]"))),
        "thresholds are those of a ROC curve",
        "roc = 5 (--roc 5), or leave thresholds out",
    ),
)
"""Pairs are of a case and a control."""

# --- components: a rule looks at a spectrum that is released, all of it -----------------------------------------------

COMPONENTS = (
    Rule(
        lambda study: not study.components_by and study.task is Task.PCR and study.components is None,
        "task 'pcr' needs a number of components, or a rule",
        'components = 5, or "mle", say',
    ),
    Rule(
        lambda study: study.components_by and not is_rule(study.components_by),
        lambda study: f"components = {study.components_by!r}",
        f"a number, a share between 0 and 1, {', '.join(ComponentRule)}",
    ),
    Rule(
        lambda study: study.components_by and study.task not in (Task.PCA, Task.PCR),
        lambda study: f"task {str(study.task)!r} takes a number of components, no rule",
        "components = 10, say",
    ),
    Rule(
        lambda study: study.components_by and study.components is not None,
        "a number of components and a rule exclude each other",
        "leave one of them out",
    ),
    Rule(
        lambda study: study.components_by and study.release is not None and not releases(study, Item.SPECTRUM),
        lambda study: f"components = {study.components_by!r} needs the singular values",
        "release spectrum as well, or ask for a number of components",
    ),
    Rule(
        lambda study: study.components_by == ComponentRule.PARALLEL and study.task is not Task.PCA,
        "parallel analysis is of a PCA",
        "choose the number by a PCA, then ask for that number",
    ),
    Rule(
        lambda study: (
            study.components_by == ComponentRule.PARALLEL and (study.scheme == Scheme.MASK or study.mode is Mode.B)
        ),
        "parallel analysis adds up Gram matrices that all parties open (scheme sum, mode A)",
        "leave scheme and mode out, or choose the number by another rule",
    ),
)

# --- canonical correlations, and what follows from one joint Gram matrix ----------------------------------------------


def _one_gram(study: Any) -> bool:
    return declared(study.task).answer is Answer.GRAM and not _glm(study)


COLUMNS = (
    Rule(
        lambda study: study.task is Task.CCA and not vertical(study),
        "CCA is of columns split over the parties",
        'set split = "vertical"',
    ),
    Rule(
        lambda study: _one_gram(study) and (study.scheme == Scheme.MASK or study.mode is Mode.B),
        lambda study: (
            f"{study.task.upper()} follows from the joint Gram matrix of features and labels, which the parties open"
        ),
        'leave scheme and mode out (scheme "sum", mode "A")',
    ),
)
