"""``[job]`` of a job file: what follows from its keys, and the plan of a model they describe."""

from collections.abc import Mapping
from typing import Any

from pydantic import model_validator

from fedsvd.prepare.identifiers import BETWEEN
from fedsvd.protocol.families import FACTS, Outcome, effect_on
from fedsvd.protocol.model import ModelPlan
from fedsvd.protocol.tasks import LINKS, MODEL_TASKS, OWN_FAMILY, Baseline, Criterion, Item, Robust, Split, Task, Ties
from fedsvd.studies.sections import Section, with_keys
from fedsvd.studies.study import released
from fedsvd.tasks.job_rules import MODEL_RULES
from fedsvd.tasks.option import expect


@with_keys("job")
class StudySection(Section):
    """``[job]``: what is computed, from which columns, and what is released."""

    @model_validator(mode="before")
    @classmethod
    def _columns_are_split(cls, record: Any) -> Any:
        """Canonical correlations are of split columns, and need not say so."""
        cca = isinstance(record, Mapping) and record.get("task") == Task.CCA
        return {"split": str(Split.VERTICAL), **record} if cca else record

    @property
    def components_by(self) -> str:
        """How the number of components is found; "" where it is given, or all are asked for."""
        return self.components if isinstance(self.components, str) else ""

    @property
    def label_columns(self) -> tuple[str, ...]:
        """Columns that are no features: the label, and an offset and weights next to it."""
        return () if self.counted_columns else (*self.label, *self.at_side)

    @property
    def counted_columns(self) -> tuple[str, ...]:
        """The columns of survival curves, in the order of their table; none for other tasks."""
        if self.task is not Task.SURVIVAL:
            return ()
        return tuple(name for name in (*self.label, self.event, self.group) if name is not None)

    @property
    def id_columns(self) -> tuple[str, ...]:
        """The columns that a row's id is made of; none where rows have none."""
        return () if self.id is None else (self.id,) if isinstance(self.id, str) else self.id

    @property
    def id_name(self) -> str | None:
        """What the ids are read by: the id column, or the names of several with a sign between them."""
        return BETWEEN.join(self.id_columns) or None

    @property
    def asked(self) -> tuple[Item, ...] | None:
        """What is asked to be released: ``inference = true``, or a rule, is short for its place in ``release``."""
        short_for = {
            Item.INFERENCE: self.inference,
            Item.ROBUST: self.robust is not None,
            Item.QUALITY: self.quality or self.roc > 0,
            Item.ROC: self.roc > 0,
            Item.RIDGE_PATH: bool(self.alphas),
            Item.SPECTRUM: bool(self.components_by) and self.task is Task.PCA,
        }
        more = tuple(item for item, wanted in short_for.items() if wanted)
        release: tuple[Item, ...] | None = self.release
        return tuple(dict.fromkeys((*(release or released(self.task, None)), *more))) if more else release

    @property
    def robust(self) -> Robust | None:
        """Which standard errors are asked for, beyond the usual ones."""
        if self.cluster is not None:
            return Robust.CLUSTER
        if self.cov_type == "nonrobust":
            return Robust.HC0 if self.task is Task.PROPENSITY else None  # weights need them
        return Robust(self.cov_type)

    @property
    def at_side(self) -> tuple[str, ...]:
        """Columns that every party brings next to its label, in the order of ``ModelPlan.labels``."""
        return () if self.counted_columns else tuple(name for _, name in self.sides)

    @property
    def sides(self) -> list[tuple[str, str]]:
        """Key and name of each; a key of several columns comes once for each."""
        keys = ("treatment", "event", "entry", "strata", "subject", "slope", "offset", "weights")
        listed = {key: named if isinstance(named := getattr(self, key), tuple) else (named,) for key in keys}
        return [(key, name) for key, names in listed.items() for name in names if name is not None]

    @property
    def about(self) -> dict[str, Any]:
        """What a result says of its model: classes, and the columns next to the label; empty for other tasks."""
        if self.task not in MODEL_TASKS:
            return {}
        named: dict[str, list[str]] = {}
        for key, name in self.sides:
            named.setdefault(key, []).append(name)
        columns = {key: names[0] if len(names) == 1 else names for key, names in named.items()}
        return {"classes": list(self.classes), "columns": columns}


def model_of(keys: StudySection) -> ModelPlan:
    """The model that a job file asks for."""
    expect(MODEL_RULES, keys)
    family = OWN_FAMILY.get(keys.task, keys.family)
    facts, bins = FACTS[family], len(keys.times) if keys.baseline is Baseline.BINS else 0
    grouped = bins > 0 and keys.ties is not Ties.BRESLOW
    return ModelPlan(
        family,
        keys.link or LINKS[family][int(grouped)],
        classes=len(keys.classes),
        offset=keys.offset is not None,
        weighted=keys.weights is not None,
        tolerance=keys.tolerance,
        max_iterations=keys.max_iterations,
        least_class=keys.least_class,
        least_events=keys.least_events,
        digits=keys.digits,
        ties=str(keys.ties) if facts.outcome is Outcome.TIMES else "",
        bins=bins,
        reml=keys.criterion is Criterion.REML,
        correlated=keys.correlated,
        effect=effect_on(keys.family, keys.event is not None) if facts.weighs else "",
        beside=tuple(key for key, _ in keys.sides if key in facts.beside),
    )
