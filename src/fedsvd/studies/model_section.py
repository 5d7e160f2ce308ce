"""The keys of ``[job]`` that describe a generalised linear model, and the plan of it."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, WithJsonSchema

from fedsvd.errors import ConfigError
from fedsvd.policy.rules import Policy
from fedsvd.protocol.model import ModelPlan
from fedsvd.protocol.tasks import LINKS, Family
from fedsvd.studies.job_faults import one_of
from fedsvd.studies.job_values import Column

_ASKED = Policy()
_MOST_CLASSES = 100
_EVERY_LINK = tuple(dict.fromkeys(link for links in LINKS.values() for link in links))


def _class(value: object) -> object:
    """A class as text: 1, 1.0 and "1" are the same."""
    if isinstance(value, bool):
        raise ValueError("a text or a number")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, int | float) else value


_Class = Annotated[
    str,
    BeforeValidator(_class),
    Field(min_length=1, max_length=200),
    WithJsonSchema({"anyOf": [{"type": "string", "minLength": 1, "maxLength": 200}, {"type": "number"}]}),
]


class ModelKeys(BaseModel):
    """What ``[job]`` says of a generalised linear model."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, hide_input_in_errors=True)

    family: Annotated[Family, BeforeValidator(lambda value: one_of(value, Family))] | None = None
    link: Annotated[str, BeforeValidator(lambda value: one_of(value, _EVERY_LINK))] | None = None
    classes: Annotated[tuple[_Class, ...], Field(max_length=_MOST_CLASSES)] = ()
    offset: Column | None = None
    weights: Column | None = None
    tolerance: Annotated[float, Field(gt=0, lt=1)] = 1e-9
    max_iterations: Annotated[StrictInt, Field(ge=1, le=1000)] = 25
    least_class: Annotated[StrictInt, Field(ge=0)] = _ASKED.least_class
    least_events: Annotated[StrictInt, Field(ge=0)] = _ASKED.least_events

    @property
    def at_side(self) -> tuple[str, ...]:
        """Columns that every party brings next to its label: the offset, then the weights."""
        return tuple(name for name in (self.offset, self.weights) if name is not None)

    @property
    def model_texts(self) -> tuple[str, ...]:
        """Texts that a person reads before approving."""
        return (*self.at_side, *self.classes)

    @property
    def about(self) -> dict[str, Any]:
        """What a result says of its model: classes, and the columns next to the label; empty for other tasks."""
        if self.family is None:
            return {}
        named = {"offset": self.offset, "weights": self.weights}
        columns = {key: name for key, name in named.items() if name is not None}
        return {"classes": list(self.classes), "columns": columns}


def model_of(keys: ModelKeys) -> ModelPlan:
    """The model that a job file asks for."""
    if keys.family is None:
        raise ConfigError("task 'glm' needs a family", f"family = one of {', '.join(Family)}")
    if len(set(keys.classes)) < len(keys.classes):
        raise ConfigError("a class is named twice", "name every class once")
    if keys.family is Family.MULTINOMIAL and len(keys.classes) < 3:
        raise ConfigError("a multinomial model needs the names of three classes or more", 'classes = ["a", "b", "c"]')
    return ModelPlan(
        keys.family,
        keys.link or LINKS[keys.family][0],
        classes=len(keys.classes),
        offset=keys.offset is not None,
        weighted=keys.weights is not None,
        tolerance=keys.tolerance,
        max_iterations=keys.max_iterations,
        least_class=keys.least_class,
        least_events=keys.least_events,
    )
