"""What a job with a dictionary may say: its columns, its views, its levels, and nothing else."""

from pathlib import Path

import pytest

from fedsvd.errors import ConfigError
from fedsvd.prepare.rule import planned_steps
from fedsvd.studies.job_dictionary import expect_own
from fedsvd.studies.job_file import job_from
from fedsvd.studies.submitted import asked_of, submitted_job, written_file

SAYS = {
    "name": "liver",
    "columns": {
        "age": {"range": [18, 110], "groups": {"age_group": [40, 65]}},
        "sex": {"levels": ["male", "female"]},
        "score": {"range": [0, 9], "role": "label"},
        "patient": {"role": "id"},
    },
    "views": {"all": ["age", "sex", "score"], "few": ["age"]},
}


def job(prepare=None, says=SAYS, **study):
    record = {"job": {"name": "j", "task": "pca", **study}, "party": [{"name": "a"}, {"name": "b"}]}
    record["dictionary"] = {"says": says}
    return job_from(record | ({} if prepare is None else {"prepare": prepare}), Path())


def test_a_job_that_names_no_columns_takes_the_features_with_the_levels_in_the_order_of_the_dictionary():
    words = job().prepare
    assert words.columns == ("age", "sex")
    assert words.joint.category("sex").levels == ("male", "female")
    assert [step.name for step in planned_steps(words.joint, 2)] == ["rare"]  # two parties, and no sum of levels


@pytest.mark.parametrize(
    ("prepare", "study", "fault", "fix"),
    [
        ({"columns": ["ages"]}, {}, "columns names 'ages'", "did you mean 'age'?"),
        ({"drop": ["sexx"]}, {}, "drop names 'sexx'", "did you mean 'sex'?"),
        ({"covariates": ["sites"]}, {}, "covariates names 'sites'", "alone"),
        ({"formula": "score ~ agee"}, {"task": "lr"}, "the formula names 'agee'", "did you mean 'age'?"),
        ({}, {"id": "patent"}, "names 'patent'", "did you mean 'patient'?"),
        ({"rename": {"x": "age"}}, {}, "renames no columns", "[table.map]"),
        ({"missing": "drop"}, {}, "left out by a view", "'all'"),
        ({"missing": "drop", "view": "al"}, {}, "view names 'al'", "did you mean 'all'?"),
        ({"view": "few", "columns": ["sex"]}, {}, "'sex', which is not in the view 'few'", "'age'"),
        ({"view": "few"}, {"task": "lr", "label": "score"}, "'score', which is not in the view 'few'", "'age'"),
        ({"columns": ["age", "patient"]}, {}, "'patient' is a column of role id", "leave it out"),
        ({"categories": {"sex": {"levels": ["f", "m"]}}}, {}, "other levels of 'sex'", "leave levels out"),
    ],
)
def test_what_is_not_in_the_dictionary_is_refused_with_its_place_and_the_nearest(prepare, study, fault, fix):
    with pytest.raises(ConfigError) as refused:
        job(prepare, **study)
    assert fault in refused.value.fault
    assert fix in refused.value.fix


def tabled(*names, **study):
    return job(says={**SAYS, "tables": list(names)}, **study)


def test_groups_are_made_by_tables_of_the_dictionary_where_it_has_some():
    curves = {"task": "survival", "label": "score", "event": "age", "times": [1, 2]}
    for study in {"task": "describe", "by": "sex"}, {**curves, "group": "sex"}:
        job(**study)
        tabled("sex", **study)
        with pytest.raises(ConfigError, match="not among the tables of the dictionary liver") as refused:
            tabled("age_group", **study)
        assert "name one of 'age_group'" in refused.value.fix
    tabled(task="describe")


def test_a_job_is_the_same_once_it_was_submitted_and_another_dictionary_is_another_job():
    asked = job({"missing": "drop", "view": "all"})
    again = submitted_job(written_file(asked))
    assert again.dictionary == asked.dictionary
    assert again.prepare == asked.prepare
    assert again.prepare.rule.view == ("age", "sex", "score")
    other = {**SAYS, "columns": {**SAYS["columns"], "age": {"range": [18, 111]}}}
    assert asked_of(job(says=other)).digest != asked_of(job()).digest


def test_a_site_with_another_dictionary_or_none_refuses():
    asked = job().dictionary
    expect_own(asked, asked)
    expect_own(None, None)
    with pytest.raises(ConfigError, match="this site has none"):
        expect_own(asked, None)
    other = job(says={**SAYS, "columns": {**SAYS["columns"], "age": {"range": [18, 111]}}}).dictionary
    with pytest.raises(ConfigError, match="they differ in range and groups of the column 'age'"):
        expect_own(asked, other)


def test_any_columns_of_numbers_will_do_where_the_dictionary_says_so():
    assert job({"columns": ["x1"]}, says={"columns": "*"}).prepare.columns == ("x1",)


def test_a_view_without_a_dictionary_is_refused():
    record = {"job": {"name": "j", "task": "pca"}, "prepare": {"view": "all"}, "party": [{"name": "a"}, {"name": "b"}]}
    with pytest.raises(ConfigError, match="the job has none"):
        job_from(record, Path())
