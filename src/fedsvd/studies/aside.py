"""Columns of a party's table that are no features: labels, weights, an offset, ids, clusters; classes of a label."""

from collections.abc import Sequence

from fedsvd.data.source import MatrixSource
from fedsvd.errors import ConfigError
from fedsvd.prepare.derived import names_of
from fedsvd.studies.job_file import Job
from fedsvd.studies.prepare_section import PrepareSection
from fedsvd.studies.study_section import StudySection
from fedsvd.types import near


def expect_columns(source: MatrixSource, names: Sequence[str]) -> None:
    """Raise where this table lacks a column that every party's table needs."""
    lacking = [name for name in names if name not in (source.names or ())]
    if lacking:
        fix = "every party needs it; rename what is called otherwise (rename)"
        raise ConfigError(f"there is no column {lacking[0]!r} here", f"{fix}{near(lacking[0], source.names or ())}")


def needed_numbers(study: StudySection, source: MatrixSource, labels: Sequence[str]) -> tuple[str, ...]:
    """Columns of numbers that are no features: labels, and where this table has them an offset and weights."""
    held = set(names_of(source))
    return (*labels, *(name for name in study.at_side if name not in labels and name in held))


def text_columns(study: StudySection) -> tuple[str, ...]:
    """Columns that may hold text and are no features: ids and clusters."""
    return tuple(name for name in (study.id_name, study.cluster) if name is not None)


def coded(job: Job, source: MatrixSource, labels: Sequence[str]) -> str | None:
    """The label of text, or the outcome of a formula, that preparation turns into the numbers of its classes."""
    if not job.study.classes or job.prepare.asks_nothing:
        return None
    name = next(iter(job.prepare.targets or labels), None)
    if name is None or name not in names_of(source) or source.column(name).dtype.kind in "iuf":
        return None
    return name


def with_classes(job: Job, source: MatrixSource, labels: Sequence[str]) -> PrepareSection:
    """What ``[prepare]`` asks for; a label of text has its classes as an ordinal map."""
    words, name = job.prepare, coded(job, source, labels)
    if name is None:
        return words
    return words.model_copy(update={"ordinal": {**words.ordinal, name: job.study.classes}})
