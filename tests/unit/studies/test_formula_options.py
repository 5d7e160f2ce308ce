"""A formula in a job file says keys of ``[job]``: times, events, strata, offsets, subjects, groups."""

from pathlib import Path

import pytest

from fedsvd.errors import ConfigError
from fedsvd.studies.job_file import job_from, study_of
from fedsvd.studies.submitted import submitted_file, submitted_job

PARTIES = [{"name": "north"}, {"name": "south"}, {"name": "west"}]


def job(task, formula, prepare=(), **words):
    given = {"name": "s", "task": task, **words}
    return job_from({"job": given, "prepare": {"formula": formula, **dict(prepare)}, "party": PARTIES}, Path())


def test_a_cox_model_has_its_columns_from_the_formula():
    found = job("cox", "Surv(came, left, died) ~ age + C(sex) + strata(clinic) + offset(o)")
    keys = found.study
    assert (keys.event, keys.entry, keys.strata, keys.offset) == ("died", "came", "clinic", "o")
    assert found.targets == ("left",)
    assert found.prepare.rule.columns == ("left", "age", "sex")
    assert study_of(found).glm.beside == ("event", "entry", "strata")
    assert study_of(found).targets == 5


def test_a_mixed_model_has_its_subjects_from_the_formula():
    found = job("mixed", "value ~ year + (year || patient)")
    assert (found.study.subject, found.study.slope, found.study.correlated) == ("patient", ("year",), False)
    assert study_of(found).glm.correlated is False


def test_curves_are_of_the_formulas_times_events_and_groups_alone():
    found = job("survival", "Surv(left, died) ~ arm", times=[1.0, 2.0], groups=["a", "b"])
    assert found.study.counted_columns == ("left", "died", "arm")
    assert found.prepare.formula == ""
    alone = job("survival", "Surv(left, died) ~ 1", times=[1.0, 2.0])
    assert alone.study.counted_columns == ("left", "died")


@pytest.mark.parametrize(
    ("task", "formula", "words"),
    [
        ("cox", "Surv(left, died) ~ age + strata(clinic)", {}),
        ("mixed", "value ~ year + (year || patient)", {}),
        ("survival", "Surv(left, died) ~ arm", {"times": [1.0, 2.0], "groups": ["a", "b"]}),
    ],
)
def test_a_job_that_is_submitted_is_read_as_the_same_job(task, formula, words):
    found = job(task, formula, **words)
    again = submitted_job(submitted_file(found))
    assert (again.study, again.prepare, again.targets) == (found.study, found.prepare, found.targets)
    assert submitted_file(again) == submitted_file(found)


@pytest.mark.parametrize(
    ("task", "formula", "words", "fault"),
    [
        ("cox", "Surv(left, died) ~ age", {"event": "seen"}, "event and the formula do not say the same"),
        ("glm", "Surv(left, died) ~ age", {"family": "poisson"}, "Surv(time, event), which does not apply to"),
        ("glm", "y ~ age + strata(clinic)", {"family": "poisson"}, "take it out of the formula; it is for cox"),
        ("cox", "Surv(left, died) ~ age + (1 | id)", {}, "the formula has (1 | person), which does not"),
        ("cox", "left ~ age", {}, "task 'cox' needs the column of events"),
        ("survival", "Surv(left, died) ~ arm + age", {"times": [1.0]}, "at most one column of groups"),
        ("survival", "Surv(left, died) ~ log(age)", {"times": [1.0]}, "at most one column of groups"),
        ("survival", "left ~ arm", {"times": [1.0], "event": "died"}, "at most one column of groups"),
        ("survival", "Surv(came, left, died) ~ arm", {"times": [1.0]}, "has Surv(start, stop, event), which does not"),
        ("cox", "Surv(left, left) ~ age", {}, "of different columns"),
    ],
)
def test_what_a_task_does_not_have_is_refused(task, formula, words, fault):
    with pytest.raises(ConfigError) as found:
        job(task, formula, **words)
    assert fault in f"{found.value.fault} {found.value.fix}"
