"""What is declared of a task: one object in the file of its name, found by its word.

``svd.py``, ``pca.py``, ... each have a ``TASK``; ``declared`` finds it. ``studies`` makes plans from declarations, and
puts into a plan what roles, costs, policies and results need to know (``facts``, ``with_steps``): they read the plan
and no declaration. A declaration imports ``protocol`` alone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from typing import Any

from fedsvd.errors import ConfigError
from fedsvd.protocol.outputs import RECORD, Output, To, fact, hidden
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.reasons import Why
from fedsvd.protocol.steps import PlannedStep
from fedsvd.protocol.tasks import Answer, Item, Labels, Own, Scheme, Split, Task


@dataclass(frozen=True)
class Declared:
    """Everything that is said of one task; options say themselves which tasks heed them (``option.py``)."""

    task: Task
    answer: Answer
    splits: tuple[Split, ...]
    released: tuple[Item, ...] = ()  # what it cannot do without, in the plan's order
    on_request: tuple[Item, ...] = ()  # what may be released beyond that
    labels: Mapping[Split, Labels] = field(default_factory=dict)  # where they are, on each split that has some
    own: Own = Own.NONE
    centred: bool = False  # the usual understanding of it: joint means are taken off, or an intercept is fitted
    c: int = 0  # bytes of the sum family for each entry of an M x M matrix (``protocol/budget.py``)
    held: int = 0  # tables as large as its own that a party holds in memory; 0 where it reads panels
    by_steps: bool = False  # whether the top of many features, found by steps, is all that it needs
    opened_by_users: Why | None = None  # why the users open the sum, whatever is released; None: the release decides
    steps: Callable[[SessionPlan], tuple[PlannedStep, ...]] | None = None  # None where the study brings them
    outputs: tuple[Output, ...] = ()
    by_dictionary: bool = False  # whether it is of columns that a dictionary describes
    # What ``fedsvd init`` writes: the name of the label column, and lines of [job] with what each says.
    first_label: str = "outcome"
    first_lines: tuple[tuple[str, str], ...] = ()

    @property
    def labelled(self) -> bool:
        """Whether parties bring labels."""
        return bool(self.labels)

    @property
    def sums_rows(self) -> bool:
        """Whether split rows are of the sum family alone: a regression, or what follows from the Gram matrix."""
        return self.labelled or self.answer is Answer.GRAM

    def label_place(self, split: Split) -> Labels:
        """Where the labels are on this split."""
        return self.labels.get(split, Labels.NONE)

    def facts(self, split: Split, scheme: Scheme | None = None) -> dict[str, Any]:
        """The fields of a plan that all who read it know the task by."""
        labels = self.label_place(split)
        if labels is Labels.JOINED and scheme is Scheme.STEPS:
            labels = Labels.PROJECTED
        return {"answer": self.answer, "labels": labels, "own": self.own}


@cache
def declared(task: Task) -> Declared:
    """The declaration of a task: ``TASK`` in the file of its name."""
    found: Declared = import_module(f"fedsvd.tasks.{task}").TASK
    return found


_EVERY = (
    hidden("row_ids", RECORD, to=To.OWN),
    fact("preparation"),
    fact("matching", to=To.OWN),
    fact("prepared", to=To.OWN),
    fact("recipe", to=To.OWN),
    fact("table", to=To.OWN),
    fact("look_at", to=To.OWN),
)
"""What any study may give: ids of a party's rows, how records were matched, how tables were prepared."""


def outputs_of(task: Task) -> tuple[Output, ...]:
    """Every output of a task."""
    return declared(task).outputs + _EVERY


def with_steps(plan: SessionPlan) -> SessionPlan:
    """The plan with its steps; those of a preparation, and of a foreign task, are there already."""
    steps = declared(plan.task).steps
    if steps is not None:
        return replace(plan, steps=steps(plan))
    if (plan.foreign is None) == (plan.task is Task.FOREIGN):
        raise ConfigError("a plan of another task than its declaration", "plan it again")
    if not plan.steps:
        raise ConfigError("nothing of this preparation takes a sum", "prepare the tables at home")
    return plan
