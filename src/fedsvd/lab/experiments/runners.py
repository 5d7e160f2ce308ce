"""Which function makes the cases of which kind of experiment."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fedsvd.errors import ConfigError
from fedsvd.lab.experiments import lossless, rivalry
from fedsvd.lab.experiments.context import Context
from fedsvd.lab.experiments.rows import Case

Cases = Callable[[Mapping[str, Any], Context], Iterator[Case]]
KINDS: dict[str, Cases] = {
    "lossless": lossless.cases,
    "rivalry": rivalry.cases,
}


def cases_of(kind: str, settings: Mapping[str, Any], context: Context) -> list[Case]:
    """The cases of an experiment; nothing of them has run."""
    if kind not in KINDS:
        raise ConfigError(f"no experiment is of the kind {kind!r}", f"one of {', '.join(KINDS)}")
    return list(KINDS[kind](settings, context))
