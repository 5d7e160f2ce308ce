"""Which columns of a party's own file go into a study, and what they are called there: for its owner to read.

A job may rename columns (``[prepare.rename]``), and so may the site, which also changes units and codes. The owner who
approves a job must see under which name each column of its file goes in, and what is done to it: a name in the study
says nothing of what is in the column.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fedsvd.prepare.table_map import NOTHING, TableMap
from fedsvd.studies.job_file import Job


@dataclass(frozen=True)
class OwnColumn:
    """A column of the file, its name in the study, what it is there, and how the site maps it."""

    own: str
    study: str
    use: str  # feature, label, id, weights, clusters
    how: str = ""

    def __str__(self) -> str:
        renamed = f"{self.own!r}" if self.own == self.study else f"{self.own!r}, which the study calls {self.study!r}"
        used = renamed if self.use == "feature" else f"{renamed} ({self.use})"
        return f"{used}: {self.how}" if self.how else used


def own_columns(
    job: Job, names: Sequence[str], words: TableMap = NOTHING, labels: Sequence[str] = ()
) -> tuple[OwnColumn, ...]:
    """All columns that are taken, in the order of the file; ``names`` are those that the site has mapped them to."""
    study, rule = job.study, job.prepare.rule
    uses = dict.fromkeys((*labels, *job.prepare.targets), "label")
    uses |= dict.fromkeys(study.id_columns, "id")
    beside = {"weights": study.weights, "offset": study.offset, "clusters": study.cluster}
    beside |= {"event": study.event, "entry": study.entry, "strata": study.strata, "subject": study.subject}
    uses |= {name: use for use, name in beside.items() if name is not None}
    groups = {} if job.dictionary is None else job.dictionary.groups
    taken, dropped = {groups[name].of if name in groups else name for name in rule.columns}, set(rule.drop)
    before = {new: old for old, new in words.names().items()}
    found = []
    for name in names:
        own, called = before.get(name, name), job.prepare.rename.get(name, name)
        use = uses.get(called)
        if use is None and called not in dropped and (not taken or called in taken):
            use = "feature"
        if use is not None:
            how = "; ".join(words.map[own].lines()) if own in words.map else ""
            found.append(OwnColumn(own, called, use, how))
    return tuple(found)
