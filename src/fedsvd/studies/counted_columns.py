"""The columns of survival curves: times, events and groups, and what a dictionary says of them and of thresholds.

They are the whole table of such a study, in this order; a group is the number of its place among ``groups``. Where
persons have several rows, of starts and stops, the last of them says when they left.
"""

from collections.abc import Sequence

import numpy as np

from fedsvd.errors import ConfigError
from fedsvd.prepare.columns import arranged
from fedsvd.prepare.dictionary import Dictionary
from fedsvd.protocol.tasks import Baseline
from fedsvd.studies.parties import PartyData
from fedsvd.studies.party_rows import some_rows
from fedsvd.studies.prepare_section import PrepareSection
from fedsvd.studies.study_section import StudySection


def counted_by(dictionary: Dictionary | None, study: StudySection, targets: Sequence[str]) -> StudySection:
    """The study with the times, groups and thresholds that a dictionary says; refused where its own are others."""
    if study.roc:
        return study.model_copy(update=_agreed(dictionary, study, "thresholds", targets))
    if not study.counted_columns:
        joint = study.baseline is not Baseline.SITE
        study = study.model_copy(update=_agreed(dictionary, study, "times", targets)) if joint else study
        if joint and not study.times:
            fix = "times = [30, 60, 90], or times of the label column in the dictionary"
            raise ConfigError("a baseline of all parties needs the times between which it is level", fix)
        return study
    said = _agreed(dictionary, study, "times", targets)
    if dictionary is not None:
        dictionary.expect_groups_of(study.group)
    if study.group is not None and not study.groups and dictionary is not None and study.group in dictionary.names:
        said["groups"] = dictionary.levels_of(study.group)
    study = study.model_copy(update=said) if said else study
    if not study.times:
        fix = "times = [30, 60, 90], or times of the label column in the dictionary"
        raise ConfigError("survival curves need the times at which counts are opened", fix)
    if study.group is not None and len(study.groups) < 2:
        fix = 'groups = ["A", "B"], or levels of the column in the dictionary'
        raise ConfigError("the column of groups needs the names of two groups or more", fix)
    return study


def _agreed(dictionary: Dictionary | None, study: StudySection, key: str, targets: Sequence[str]) -> dict[str, object]:
    """Times or thresholds of the label column in the dictionary, where the job names none of its own."""
    column = None if dictionary is None else dictionary.described.get(next(iter(targets), ""))
    agreed, asked = (getattr(each, key, None) or () for each in (column, study))
    if agreed and not set(asked) <= set(agreed):
        raise ConfigError(
            f"the job counts at {key} that are not the dictionary's", f"leave {key} out, or take some of its"
        )
    return {key: agreed} if agreed and not asked else {}


def with_counted(study: StudySection, prepare: PrepareSection) -> PrepareSection:
    """``[prepare]`` of such a study: these columns alone, its groups as numbers from 0."""
    columns = study.counted_columns
    if not columns:
        return prepare
    more = () if prepare.columns == columns else prepare.columns  # a job that was submitted names them itself
    asked = {"formula": prepare.formula, "categories": prepare.categories, "columns": more}
    if any(asked.values()):
        word = next(key for key, value in asked.items() if value)
        raise ConfigError(
            f"survival curves are of the columns label, event and group, and {word} names others", "leave it out"
        )
    ordinal = {} if study.group is None else {study.group: study.groups}
    if study.causes and study.event is not None:
        ordinal[study.event] = ("0", *study.causes)
    return prepare.model_copy(update={"columns": columns, "ordinal": {**prepare.ordinal, **ordinal}})


def counted_data(study: StudySection, party: PartyData) -> PartyData:
    """A party's table in the order of these columns, a row for each person."""
    columns = study.counted_columns
    if not columns:
        return party
    found = PartyData(**{**vars(party), "table": arranged(party.table, columns)})
    from fedsvd.studies.persons import persons_of  # which brings SciPy along, and --help reads this file

    of_person = persons_of(found)
    if of_person is None:
        return found
    time = found.table.column(columns[0]).astype(np.float64)
    order = np.lexsort((time, of_person))
    last = order[np.append(np.diff(of_person[order]) != 0, True)]
    return some_rows(found, np.sort(last))
