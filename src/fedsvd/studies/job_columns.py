"""Which columns of a party's table a job reads beside its features: labels, offsets and weights, ids and clusters.

A label of text, whose classes the job names, is an ordinal map of them where tables are prepared.
"""

from collections.abc import Sequence
from dataclasses import replace

from fedsvd.data.source import MatrixSource
from fedsvd.prepare.at_home import HomeRule
from fedsvd.prepare.derived import names_of
from fedsvd.studies.job_file import Job


def needed(job: Job, source: MatrixSource, labels: Sequence[str]) -> tuple[str, ...]:
    """Columns of numbers that are no features: labels, and where this table has them an offset and weights."""
    held = set(names_of(source))
    return (*labels, *(name for name in job.study.at_side if name not in labels and name in held))


def aside(job: Job) -> tuple[str, ...]:
    """Columns that may hold text and are no features: ids and clusters."""
    return tuple(name for name in (job.study.id, job.study.cluster) if name is not None)


def coded(job: Job, source: MatrixSource, labels: Sequence[str]) -> bool:
    """Whether preparation turns a label of text into the numbers of its classes."""
    if not (job.study.classes and labels) or job.prepare.asks_nothing:
        return False
    return labels[0] in names_of(source) and source.column(labels[0]).dtype.kind not in "iuf"


def home_rule(job: Job, source: MatrixSource, labels: Sequence[str]) -> HomeRule:
    """What ``[prepare]`` has a party do alone; a label of text has its classes as an ordinal map."""
    rule = job.prepare.rule
    if not coded(job, source, labels):
        return rule
    return replace(rule, ordinal=(*rule.ordinal, (labels[0], job.study.classes)))
