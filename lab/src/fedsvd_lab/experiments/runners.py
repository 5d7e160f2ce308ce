"""Which function makes the cases of which kind of experiment."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fedsvd.errors import ConfigError
from fedsvd_lab.experiments import (
    dp_error,
    ica,
    large_scale,
    lossless,
    optimisations,
    regression_time,
    rivalry,
    shapes,
    sweeps,
)
from fedsvd_lab.experiments.context import Context
from fedsvd_lab.experiments.rows import Case

Cases = Callable[[Mapping[str, Any], Context], Iterator[Case]]
KINDS: dict[str, Cases] = {
    "lossless": lossless.cases,
    "dp_error": dp_error.cases,
    "rivalry": rivalry.cases,
    "sweep": sweeps.cases,
    "block_size": shapes.block_size_cases,
    "users": shapes.users_cases,
    "reconstruction": shapes.reconstruction_cases,
    "regression_time": regression_time.cases,
    "large_scale": large_scale.cases,
    "ica": ica.cases,
    "ablation": optimisations.cases,
}


def cases_of(kind: str, settings: Mapping[str, Any], context: Context) -> list[Case]:
    """The cases of an experiment; nothing of them has run."""
    if kind not in KINDS:
        raise ConfigError(f"no experiment is of the kind {kind!r}", f"one of {', '.join(KINDS)}")
    return list(KINDS[kind](settings, context))
