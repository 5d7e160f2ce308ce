"""Which columns of a party's own file go into a study, and what they are called there: for its owner to read.

A job may rename columns (``[prepare.rename]``), and so may the site. The owner who approves a job must see under which
name each column of its file goes in: a name in the study says nothing of what is in the column.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fedsvd.studies.job_file import Job


@dataclass(frozen=True)
class OwnColumn:
    """A column of the file, its name in the study, and what it is there."""

    own: str
    study: str
    use: str  # feature, label, id, weights, clusters

    def __str__(self) -> str:
        renamed = f"{self.own!r}" if self.own == self.study else f"{self.own!r}, which the study calls {self.study!r}"
        return renamed if self.use == "feature" else f"{renamed} ({self.use})"


def own_columns(job: Job, own: Sequence[str], study: Sequence[str], labels: Sequence[str]) -> tuple[OwnColumn, ...]:
    """All columns that are taken, in the order of the file; ``study`` are their names after every renaming."""
    words, rule = job.study, job.prepare.rule
    uses = dict.fromkeys((*labels, *job.prepare.targets), "label")
    uses |= dict.fromkeys(words.id_columns, "id")
    beside = {"weights": words.weights, "offset": words.offset, "clusters": words.cluster}
    uses |= {name: use for use, name in beside.items() if name is not None}
    taken, dropped = set(rule.columns), set(rule.drop)
    found = []
    for name, called in zip(own, study, strict=False):  # a column of sites may have been put behind them
        use = uses.get(called)
        if use is None and called not in dropped and (not taken or called in taken):
            use = "feature"
        if use is not None:
            found.append(OwnColumn(name, called, use))
    return tuple(found)
