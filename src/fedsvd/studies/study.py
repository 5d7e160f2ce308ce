"""What a person asks for, and the one check of whether it can be asked for at all, before any data is known.

Job files, estimators and simulations come to the same ``Study`` and pass the same check, with the same texts: an option
that its task does not heed is refused, because it would look as if it had been done. What depends on the shapes of the
data is decided in ``planning.py``; whether the parties' tables fit together, in ``parties.py``.
"""

import math
from dataclasses import dataclass

from fedsvd.errors import ConfigError
from fedsvd.prepare.rule import Rule
from fedsvd.protocol.model import ModelPlan
from fedsvd.protocol.tasks import (
    FACTORS,
    LABELLED,
    RELEASED_BY_DEFAULT,
    RENAMED,
    Align,
    Check,
    ChosenBy,
    ComponentRule,
    Item,
    Mode,
    Robust,
    Scheme,
    Split,
    Task,
    Trust,
    is_rule,
)
from fedsvd.studies.regression_rules import expect_regression

ON_REQUEST: dict[Task, tuple[Item, ...]] = {
    Task.SVD: (),
    Task.LSA: (),
    Task.PCA: (Item.SPECTRUM,),
    Task.LR: (Item.SCORE, Item.INFERENCE, Item.ROBUST, Item.RIDGE_PATH),
    **dict.fromkeys((Task.GLM, Task.PREDICT, Task.CCA, Task.PCR, Task.MATCH, Task.PREPARE), ()),
}
"""What may be released beyond what a task needs to be that task."""

ONLY_FOR = {
    "components": (*FACTORS, Task.PCR),
    "unit_variance": (Task.PCA, Task.PCR),
    "full_matrices": (Task.SVD,),
    "label": (*LABELLED, Task.PREDICT),
    "alpha": (Task.LR, Task.GLM),
    "alphas": (Task.LR,),
    "weights": (Task.LR,),
    "cov_type": (Task.LR,),
    "intercept": (Task.LR, Task.GLM, Task.PCA),
    "verify": (Task.SVD, Task.LSA),
    "family": (Task.GLM,),
}
"""Options, by their names in a job file, and the tasks that heed them."""


@dataclass(frozen=True)
class Study:
    """What a person asks for; everything else follows from the data's shapes."""

    task: Task
    split: Split = Split.HORIZONTAL
    components: int | None = None
    components_by: str = ""  # how many are taken at home of all there are: a ``ComponentRule``, or a share of variance
    scheme: str = "auto"
    mode: Mode | None = None  # who opens the sum of Gram matrices; None: by what is released
    trust: Trust = Trust.PEERS
    release: tuple[Item, ...] | None = None
    centre: bool | None = None  # None: as the task is usually understood
    unit_variance: bool = False
    full_matrices: bool = False
    alpha: float = 0.0
    alphas: tuple[float, ...] = ()  # penalties to choose among
    chosen_by: ChosenBy | None = None  # how, where there are some; None: by leaving out each row
    weighted: bool = False  # every party brings weights of its rows
    robust: Robust | None = None  # standard errors that do not assume equal variances
    targets: int = 0
    label_user: int = 0
    block_size: int = 0
    memory: int | None = None  # None: as much as the plan needs, 2 GiB at least
    check_ids: bool = False
    trust_rows: bool = False
    align: Align | None = None  # how records are matched before the study; None: they are taken as they are
    id_rule: str = ""  # how ids are normalised for that, in words
    least_overlap: int = 0  # fewer common records than this end the study
    check: Check = Check.NONE
    certain_bound: bool = False
    glm: ModelPlan | None = None  # the family, the link, what parties bring
    rule: Rule | None = None  # of a joint preparation

    def __post_init__(self) -> None:
        # Roles compare by identity: a word that only equals a choice would silently choose the other one.
        for name, kind in (("task", Task), ("split", Split), ("trust", Trust), ("check", Check)):
            try:
                object.__setattr__(self, name, kind(getattr(self, name)))
            except ValueError:
                raise ConfigError(f"{name} is {getattr(self, name)!r}", f"one of {', '.join(kind)}") from None
        if self.mode is not None and self.mode not in tuple(Mode):
            raise ConfigError(f"mode is {self.mode!r}", f"one of {', '.join(Mode)}, or leave it out")
        object.__setattr__(self, "mode", None if self.mode is None else Mode(self.mode))
        for name, choices in (("robust", Robust), ("chosen_by", ChosenBy), ("align", Align)):
            value = getattr(self, name)
            if value is not None and value not in tuple(choices):
                raise ConfigError(f"{name} is {value!r}", f"one of {', '.join(choices)}, or leave it out")
            object.__setattr__(self, name, None if value is None else choices(value))


def released(task: Task, asked: tuple[Item, ...] | None) -> tuple[Item, ...]:
    """What a plan releases, in the plan's own order; a party's own part always goes to its owner."""
    return RELEASED_BY_DEFAULT[task] + tuple(item for item in ON_REQUEST[task] if item in (asked or ()))


def expect_legal(study: Study) -> None:
    """Raise ``ConfigError`` for a study that no plan can be made for, whatever the data."""
    _expect_scheme(study)
    _expect_numbers(study)
    _expect_heeded(study)
    _expect_matching(study)
    _expect_release(study)
    expect_regression(study)
    _expect_model(study)
    _expect_rule(study)
    _expect_columns(study)


def _expect_scheme(study: Study) -> None:
    if study.scheme in RENAMED:
        renamed = RENAMED[study.scheme]
        raise ConfigError(f"the scheme {study.scheme!r} is protocol 1's", f'write scheme = "{renamed}" instead')
    if study.scheme not in ("auto", *Scheme):
        raise ConfigError(f"scheme is {study.scheme!r}", f"one of auto, {', '.join(Scheme)}")
    if study.mode is not None and study.scheme in (Scheme.MASK, Scheme.PAPER):
        fault = f"a mode says who opens a sum of Gram matrices, and scheme {str(study.scheme)!r} has none"
        raise ConfigError(fault, "leave mode out")


def _expect_numbers(study: Study) -> None:
    """Refuse numbers no plan can hold: a plan is compared digit by digit, and a NaN equals nothing."""
    if not 0.0 <= study.alpha < math.inf:
        raise ConfigError("alpha is negative or not finite", "a finite alpha >= 0")
    least = {"components": 1, "targets": 0, "label_user": 0, "block_size": 0, "memory": 1, "least_overlap": 0}
    for name, smallest in least.items():
        value = getattr(study, name)
        if name in ("components", "memory") and value is None:
            continue
        if not isinstance(value, int) or value < smallest:
            raise ConfigError(f"{name} = {value!r}", f"a whole number, at least {smallest}")


def _expect_heeded(study: Study) -> None:
    """Refuse what the task would not heed."""
    asked = {
        "components": study.components is not None,
        "unit_variance": study.unit_variance,
        "full_matrices": study.full_matrices,
        "label": study.targets > 0,
        "alpha": study.alpha > 0,
        "alphas": bool(study.alphas),
        "weights": study.weighted,
        "cov_type": study.robust is not None,
        "intercept": study.centre is not None,
        "verify": study.check is not Check.NONE,
        "family": study.glm is not None,
    }
    for option, tasks in ONLY_FOR.items():
        if asked[option] and study.task not in tasks:
            raise ConfigError(f"{option} does not apply to task {str(study.task)!r}", f"leave {option} out")
    if study.task is Task.PCA and study.centre is False:
        raise ConfigError("task 'pca' is of centred data", "centre nothing: choose task svd")


def _expect_matching(study: Study) -> None:
    """Refuse options that exclude each other."""
    if study.align is not None and study.split is not Split.VERTICAL:
        raise ConfigError("records are matched where columns are split", 'set split = "vertical", or leave align out')
    if study.align is not None and study.trust_rows:
        raise ConfigError("records that are matched need no word that they stand in one order", "leave ids out")
    if study.task is Task.MATCH and study.align is None:
        raise ConfigError("a matching without a way to match", f"align is one of {', '.join(Align)}")
    if (study.rule is not None) != (study.task is Task.PREPARE):
        raise ConfigError("a rule of preparation goes with task 'prepare'", "prepare tables before the study")
    if study.task is Task.PREPARE and study.split is not Split.HORIZONTAL:
        raise ConfigError("tables are prepared together where rows are split", "prepare split columns at home")
    if study.task in (Task.PCA, Task.PCR) and study.split is not Split.HORIZONTAL:
        raise ConfigError(f"{study.task.upper()} needs samples split over the parties", 'set split = "horizontal"')
    if study.task is Task.PREDICT and study.split is not Split.VERTICAL:
        raise ConfigError("a prediction together is of columns split over the parties", "predict at each party alone")
    if study.task in (*LABELLED, Task.PREDICT) and study.targets < 1:
        raise ConfigError(f"task {str(study.task)!r} needs the name of the label column", 'label = "outcome", say')
    if study.full_matrices and study.scheme != Scheme.PAPER:
        raise ConfigError("full_matrices is there in the paper's scheme alone", 'set scheme = "paper"')
    if study.full_matrices and study.components is not None:
        raise ConfigError("full_matrices and components exclude each other", "leave one of them out")
    if study.check is not Check.NONE and study.scheme == Scheme.PAPER:
        raise ConfigError("the paper's scheme has its V from the CSP: there is nothing to verify", "leave verify out")


def _expect_release(study: Study) -> None:
    """A plan that does not list what every user comes to hold would be a promise that is not kept."""
    if study.release is None:
        return
    spared = (Item.OWN_PART, Item.INTERCEPT) if study.centre is False else (Item.OWN_PART,)
    needed = [item for item in RELEASED_BY_DEFAULT[study.task] if item not in spared]
    missing = [item for item in needed if item not in study.release]
    if missing:
        fault = f"release leaves out {', '.join(missing)}, without which there is no {study.task}"
        raise ConfigError(fault, f"release = {[str(item) for item in needed]}")
    allowed = (*RELEASED_BY_DEFAULT[study.task], *ON_REQUEST[study.task])
    foreign = [item for item in study.release if item not in allowed]
    if foreign:
        fix = f"for this task, some of {', '.join(allowed)}"
        raise ConfigError(f"release names {', '.join(foreign)}, which {study.task} does not have", fix)
    if Item.SCORE in study.release and study.split is not Split.VERTICAL:
        raise ConfigError("a score is released to the label holder of split columns alone", "leave score out")


def _expect_rule(study: Study) -> None:
    """Refuse a rule for the number of components where the spectrum it looks at is not released, or not complete."""
    if not study.components_by:
        if study.task is Task.PCR and study.components is None:
            raise ConfigError("task 'pcr' needs a number of components, or a rule", 'components = 5, or "mle", say')
        return
    if not is_rule(study.components_by):
        raise ConfigError(
            f"components = {study.components_by!r}", f"a number, a share between 0 and 1, {', '.join(ComponentRule)}"
        )
    if study.task not in (Task.PCA, Task.PCR):
        raise ConfigError(f"task {str(study.task)!r} takes a number of components, no rule", "components = 10, say")
    if study.components is not None:
        raise ConfigError("a number of components and a rule exclude each other", "leave one of them out")
    if study.release is not None and Item.SPECTRUM not in study.release:
        raise ConfigError(
            f"components = {study.components_by!r} needs the singular values",
            "release spectrum as well, or ask for a number of components",
        )
    if study.components_by != ComponentRule.PARALLEL:
        return
    if study.task is not Task.PCA:
        raise ConfigError("parallel analysis is of a PCA", "choose the number by a PCA, then ask for that number")
    if study.scheme in (Scheme.MASK, Scheme.PAPER) or study.mode is Mode.B:
        raise ConfigError(
            "parallel analysis adds up Gram matrices that all parties open (scheme sum, mode A)",
            "leave scheme and mode out, or choose the number by another rule",
        )


def _expect_columns(study: Study) -> None:
    """Refuse what canonical correlations and component regression cannot be computed with."""
    if study.task is Task.CCA and study.split is not Split.VERTICAL:
        raise ConfigError("CCA is of columns split over the parties", 'set split = "vertical"')
    if study.task in (Task.CCA, Task.PCR) and study.scheme == Scheme.PAPER:
        raise ConfigError(f"{study.task.upper()} is not a task of the paper's scheme", "leave scheme out")
    if study.task is Task.PCR and (study.scheme == Scheme.MASK or study.mode is Mode.B):
        raise ConfigError(
            "PCR follows from the joint Gram matrix of features and labels, which the parties open",
            'leave scheme and mode out (scheme "sum", mode "A")',
        )


def _expect_model(study: Study) -> None:
    """Refuse a generalised linear model where its iterations would show more than sums over rows."""
    if study.task is not Task.GLM:
        return
    if study.split is Split.VERTICAL:
        raise ConfigError(
            "task 'glm' is of split rows: on split columns every iteration would show each party one more combination "
            "of its partners' columns, and after as many iterations as they have columns, all of them",
            'set split = "horizontal"; task lr fits a linear model of split columns',
        )
    if study.glm is None:
        raise ConfigError("task 'glm' needs a family", 'family = "binomial", say')
    if study.targets != study.glm.labels:
        raise ConfigError("task 'glm' has one target", "name one label column")
    if study.scheme not in ("auto", Scheme.SUM):
        raise ConfigError(
            "task 'glm' adds up Gram matrices, one to each iteration", 'set scheme = "sum", or leave it out'
        )
    if study.mode is Mode.B:
        raise ConfigError(
            "the parties of task 'glm' open the sum of each iteration, to weight their rows for the next",
            'leave mode out (mode "A")',
        )
