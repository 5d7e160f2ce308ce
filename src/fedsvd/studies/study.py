"""What a person asks for, and the one check of whether it can be asked for at all, before any data is known.

Job files, estimators and simulations come to the same ``Study`` and pass the same check (``tasks/rules.py``), with the
same texts. What depends on the shapes of the
data is decided in ``planning.py``; whether the parties' tables fit together, in ``parties.py``.
"""

from dataclasses import dataclass, replace
from types import SimpleNamespace

from fedsvd.errors import ConfigError
from fedsvd.prepare.rule import Rule
from fedsvd.protocol.model import Digits, ModelPlan
from fedsvd.protocol.table import TablePlan
from fedsvd.protocol.tasks import (
    Align,
    Check,
    ChosenBy,
    Clusters,
    Item,
    Labels,
    Mode,
    Robust,
    Split,
    Task,
    Trust,
)
from fedsvd.studies.foreign import ForeignStudy
from fedsvd.tasks.declared import Declared, declared
from fedsvd.tasks.model_rules import OWN_CLUSTERS
from fedsvd.tasks.option import broken, expect
from fedsvd.tasks.rules import RULES
from fedsvd.types import Scalar


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
    alpha: float = 0.0
    alphas: tuple[float, ...] = ()  # penalties to choose among
    chosen_by: ChosenBy | None = None  # how, where there are some; None: by leaving out each row
    weighted: bool = False  # every party brings weights of its rows
    robust: Robust | None = None  # standard errors that do not assume equal variances
    digits: Digits = Digits.ALL  # of the sums of a regression table on split rows
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
    steps_ended: bool = False  # a search by steps, which no one asked for, ended without the components: now by sums
    glm: ModelPlan | None = None  # the family, the link, what parties bring
    table: TablePlan | None = None  # the columns that are described
    record_bits: float | None = None  # of one record by the dictionary of the job; None where nothing is known
    rule: Rule | None = None  # of a joint preparation
    foreign: ForeignStudy | None = None  # which foreign task, with which options
    options: tuple[tuple[str, Scalar], ...] = ()  # that the script of the task alone reads

    @property
    def about(self) -> Declared:
        """What is declared of its task."""
        return declared(self.task)

    @property
    def labels_at(self) -> Labels:
        """Where its labels are."""
        return self.about.label_place(self.split)

    def __post_init__(self) -> None:
        # Roles compare by identity: a word that only equals a choice would silently choose the other one.
        choices_of = (("task", Task), ("split", Split), ("trust", Trust), ("check", Check), ("digits", Digits))
        for name, kind in choices_of:
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


def with_all_digits(study: Study) -> Study:
    """The same study where no one chose the digits of its model or table: with all of them."""
    study = replace(study, digits=Digits.ALL) if study.digits is Digits.AUTO else study
    if study.table is not None and study.table.digits is Digits.AUTO:
        study = replace(study, table=replace(study.table, digits=Digits.ALL))
    about = study.glm
    if about is None or about.digits is not Digits.AUTO:
        return study
    return replace(study, glm=replace(about, digits=about.most_digits))


def opens_table(study: Study) -> bool:
    """Whether a regression table is made of sums over split rows, whose digits can be chosen."""
    return study.task is Task.LR and study.split is Split.HORIZONTAL and Item.INFERENCE in (study.release or ())


def released(task: Task, asked: tuple[Item, ...] | None) -> tuple[Item, ...]:
    """What a plan releases, in the plan's own order; a party's own part always goes to its owner."""
    about = declared(task)
    return about.released + tuple(item for item in about.on_request if item in (asked or ()))


def expect_legal(study: Study) -> None:
    """Raise ``ConfigError`` for a study that no plan can be made for, whatever the data."""
    expect(RULES, study)


def is_legal(study: Study) -> bool:
    """Whether a plan can be made for it, whatever the data."""
    return broken(RULES, study) is None


def expect_own_clusters(clusters: Clusters) -> None:
    """Refuse clusters that lie at several parties."""
    expect((OWN_CLUSTERS,), SimpleNamespace(clusters=clusters))
