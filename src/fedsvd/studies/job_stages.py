"""The sessions of one job, in order: records are matched, tables prepared together, then the study itself runs.

The shapes of a study's plan follow from what its parties found together before, so each stage is a session of its own,
with its own plan, keys, agreement and certificate. Most jobs have one. All stages belong to one job: they are approved
together, and a failure at any of them breaks the attempt.
"""

from enum import StrEnum

from fedsvd.protocol.tasks import Split
from fedsvd.studies.job_file import Job


class Stage(StrEnum):
    """Which session of a job."""

    MATCH = "match"  # which records are common, where columns are split
    PREPARE = "prepare"  # the joint numbers that every table is prepared with
    STUDY = "study"

    @property
    def earlier(self) -> tuple["Stage", ...]:
        """The stages that come before this one in a job that has them."""
        every = tuple(Stage)
        return every[: every.index(self)]


def stages_of(job: Job) -> tuple[Stage, ...]:
    """The stages that a job file asks for; the study is the last. Split columns are prepared at home."""
    if job.match.align is not None:
        return Stage.MATCH, Stage.STUDY
    rule = job.prepare.joint
    prepares = rule is not None and rule.takes_sums and job.study.split is Split.HORIZONTAL
    return (Stage.PREPARE, Stage.STUDY) if prepares else (Stage.STUDY,)
