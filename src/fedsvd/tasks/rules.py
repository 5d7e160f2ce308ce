"""What a study cannot ask for, before any data is known: one list of rules between options, in the order of checks.

Rules look at a study as job files, estimators and simulations come to it (``studies/study.py``), so that all of them
are refused in the same words. Rules between the keys of a job file are in ``job_rules.py``.
"""

import json
import math
from collections.abc import Callable
from typing import Any

from fedsvd.protocol.tasks import (
    IN_THE_LAB,
    MODEL_TASKS,
    PUBLISHED,
    RENAMED,
    Align,
    Check,
    Item,
    Scheme,
    Split,
    Task,
    share_in,
)
from fedsvd.tasks.declared import declared
from fedsvd.tasks.model_rules import (
    COLUMNS,
    COMPONENTS,
    DIGITS,
    INFERENCE,
    MODELS,
    PROPENSITY,
    QUALITY,
    REGRESSION,
    ROBUST_MODELS,
    releases,
    vertical,
)
from fedsvd.tasks.option import Rule
from fedsvd.tasks.options import option_of


def does_not_apply(key: str, asked: Callable[[Any], Any], tasks: tuple[Task, ...]) -> Rule:
    """An option that its task does not heed is refused: it would look as if it had been done."""
    return Rule(
        lambda study: asked(study) and study.task not in tasks,
        lambda study: f"{key} does not apply to task {str(study.task)!r}",
        f"leave {key} out",
    )


def _heeding(key: str) -> tuple[Task, ...]:
    return option_of("job", key).tasks


# --- schemes and numbers ----------------------------------------------------------------------------------------------

_SCHEME = (
    Rule(
        lambda study: study.scheme in RENAMED,
        lambda study: f"the scheme {study.scheme!r} is protocol 1's",
        lambda study: f'write scheme = "{RENAMED[study.scheme]}" instead',
    ),
    Rule(
        lambda study: study.scheme == PUBLISHED,
        IN_THE_LAB,
        "leave scheme out, or run fedsvd reproduce (pip install ./lab)",
    ),
    Rule(
        lambda study: study.scheme not in ("auto", *Scheme),
        lambda study: f"scheme is {study.scheme!r}",
        f"one of auto, {', '.join(Scheme)}",
    ),
    Rule(
        lambda study: study.mode is not None and study.scheme in (Scheme.MASK, Scheme.STEPS),
        lambda study: f"a mode says who opens a sum of Gram matrices, and scheme {str(study.scheme)!r} has none",
        "leave mode out",
    ),
)


_BY_STEPS = tuple(task for task in Task if declared(task).by_steps)


def _by_steps(study: Any) -> bool:
    return bool(study.scheme == Scheme.STEPS)


_STEPS = (
    Rule(
        lambda study: _by_steps(study) and study.task not in _BY_STEPS,
        lambda study: f'scheme "steps" is of {", ".join(_BY_STEPS)}, and this is task {str(study.task)!r}',
        "leave scheme out",
    ),
    Rule(
        lambda study: _by_steps(study) and study.components is None and share_in(study.components_by) is None,
        'scheme "steps" finds a number of components, or those that hold a share of the variance',
        "set components = 10 or 0.9, say, or leave scheme out",
    ),
    Rule(
        lambda study: _by_steps(study) and Item.SPECTRUM not in (study.release or declared(study.task).released),
        'scheme "steps" shows every party the singular values, and the release leaves them out',
        "release spectrum as well (release_spectrum=True of an estimator), or leave scheme out",
    ),
    Rule(
        lambda study: _by_steps(study) and study.check is not Check.NONE,
        'scheme "steps" certifies its vectors by sums of its own',
        "leave verify out",
    ),
)


def _at_least(name: str, least: int, unset: bool = False) -> Rule:
    """A plan is compared digit by digit: what is no whole number is refused before one is made."""

    def wrong(study: Any) -> bool:
        value = getattr(study, name)
        return not (unset and value is None) and (not isinstance(value, int) or value < least)

    return Rule(wrong, lambda study: f"{name} = {getattr(study, name)!r}", f"a whole number, at least {least}")


_NUMBERS = (
    # A NaN equals nothing, itself included.
    Rule(lambda study: not 0.0 <= study.alpha < math.inf, "alpha is negative or not finite", "a finite alpha >= 0"),
    _at_least("components", 1, unset=True),
    *(_at_least(name, 0) for name in ("targets", "label_user", "block_size")),
    _at_least("memory", 1, unset=True),
    _at_least("least_overlap", 0),
)

# --- what the task heeds ----------------------------------------------------------------------------------------------

_HEEDED = (
    does_not_apply("components", lambda study: study.components is not None, _heeding("components")),
    does_not_apply("unit_variance", lambda study: study.unit_variance, _heeding("unit_variance")),
    does_not_apply("label", lambda study: study.targets > 0, (*_heeding("label"), Task.PREDICT)),
    does_not_apply("alpha", lambda study: study.alpha > 0, _heeding("alpha")),
    does_not_apply("alphas", lambda study: study.alphas, _heeding("alphas")),
    does_not_apply("weights", lambda study: study.weighted, (Task.LR,)),  # those of a model are part of it
    does_not_apply("cov_type", lambda study: study.robust is not None, _heeding("cov_type")),
    # A PCA may say that its data is centred.
    does_not_apply("intercept", lambda study: study.centre is not None, (*_heeding("intercept"), Task.PCA)),
    does_not_apply("verify", lambda study: study.check is not Check.NONE, _heeding("verify")),
    does_not_apply("family", lambda study: study.glm is not None, MODEL_TASKS),
    Rule(
        lambda study: study.task is Task.PCA and study.centre is False,
        "task 'pca' is of centred data",
        "centre nothing: choose task svd",
    ),
)

# --- which options go together ----------------------------------------------------------------------------------------


def _rows_alone(study: Any) -> bool:
    return Split.VERTICAL not in declared(study.task).splits


_SAYS_WHY = (*MODEL_TASKS, Task.FOREIGN)  # by rules of their own

_TOGETHER = (
    Rule(
        lambda study: study.align is not None and not vertical(study),
        "records are matched where columns are split",
        'set split = "vertical", or leave align out',
    ),
    Rule(
        lambda study: study.align is not None and study.trust_rows,
        "records that are matched need no word that they stand in one order",
        "leave ids out",
    ),
    Rule(
        lambda study: study.task is Task.MATCH and study.align is None,
        "a matching without a way to match",
        f"align is one of {', '.join(Align)}",
    ),
    Rule(
        lambda study: (study.rule is not None) != (study.task is Task.PREPARE),
        "a rule of preparation goes with task 'prepare'",
        "prepare tables before the study",
    ),
    Rule(
        lambda study: (study.table is not None) != (study.task is Task.DESCRIBE),
        "a description goes with the columns that it is of",
        'task = "describe", with a dictionary',
    ),
    Rule(
        lambda study: study.task is Task.PREPARE and vertical(study),
        "tables are prepared together where rows are split",
        "prepare split columns at home",
    ),
    Rule(
        lambda study: vertical(study) and _rows_alone(study) and study.task not in _SAYS_WHY,
        lambda study: f"{study.task.upper()} needs samples split over the parties",
        'set split = "horizontal"',
    ),
    Rule(
        lambda study: study.task is Task.PREDICT and not vertical(study),
        "a prediction together is of columns split over the parties",
        "predict at each party alone",
    ),
    Rule(
        lambda study: (declared(study.task).labelled or study.task is Task.PREDICT) and study.targets < 1,
        lambda study: f"task {str(study.task)!r} needs the name of the label column",
        'label = "outcome", say',
    ),
)

# --- what is released -------------------------------------------------------------------------------------------------


def _needed(study: Any) -> list[Item]:
    spared = (Item.OWN_PART, Item.INTERCEPT) if study.centre is False else (Item.OWN_PART,)
    return [item for item in declared(study.task).released if item not in spared]


def _left_out(study: Any) -> list[Item]:
    return [] if study.release is None else [item for item in _needed(study) if item not in study.release]


def _completed(study: Any) -> str:
    """What is asked for with what the task needs, as a job file spells it."""
    items = dict.fromkeys((*_needed(study), *(item for item in study.release if item in _allowed(study))))
    return json.dumps([str(item) for item in items])


def _allowed(study: Any) -> tuple[Item, ...]:
    return (*declared(study.task).released, *declared(study.task).on_request)


def _foreign(study: Any) -> list[Item]:
    return [item for item in study.release or () if item not in _allowed(study)]


# A plan that does not list what every user comes to hold would be a promise that is not kept.
_RELEASE = (
    Rule(
        _left_out,
        lambda study: f"release leaves out {', '.join(_left_out(study))}, without which there is no {study.task}",
        lambda study: f"release = {_completed(study)}",
    ),
    Rule(
        _foreign,
        lambda study: f"release names {', '.join(_foreign(study))}, which {study.task} does not have",
        lambda study: f"for this task, some of {', '.join(_allowed(study))}",
    ),
    Rule(
        lambda study: releases(study, Item.SCORE) and not vertical(study),
        "a score is released to the label holder of split columns alone",
        "leave score out",
    ),
)

# --- foreign tasks ----------------------------------------------------------------------------------------------------

_DECLARED = (
    Rule(
        lambda study: (study.foreign is not None) != (study.task is Task.FOREIGN),
        "task 'foreign' goes with the name of a task",
        '[foreign] name = "group-variance", say',
    ),
    Rule(
        lambda study: study.task is Task.FOREIGN and vertical(study),
        "a foreign task adds up over rows that are split",
        'set split = "horizontal"',
    ),
    Rule(
        lambda study: (
            study.task is Task.FOREIGN and (study.scheme not in ("auto", Scheme.SUM) or study.mode is not None)
        ),
        "the parties open the sums of a foreign task",
        "leave scheme and mode out",
    ),
)

RULES: tuple[Rule, ...] = (
    *_SCHEME,
    *_NUMBERS,
    *_HEEDED,
    *_TOGETHER,
    *_RELEASE,
    *INFERENCE,
    *DIGITS,
    *REGRESSION,
    *MODELS,
    *ROBUST_MODELS,
    *PROPENSITY,
    *QUALITY,
    *COMPONENTS,
    *COLUMNS,
    *_STEPS,
    *_DECLARED,
)
"""Every rule of a study, in the order of its checks."""
