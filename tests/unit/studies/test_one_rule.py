"""One check of a study, one rule of who holds the labels, one check of whether tables fit: the same from everywhere."""

from pathlib import Path

import numpy as np
import pytest

from fedsvd.errors import ConfigError, ShapeError
from fedsvd.estimators.tables import given
from fedsvd.protocol.tasks import Check, Item, Mode, Split, Task
from fedsvd.service.enlist import plan_of
from fedsvd.service.records import EnlistedFacts
from fedsvd.studies.job_file import job_from
from fedsvd.studies.parties import Extent, brings_labels, expect_fitting, label_user, one_order
from fedsvd.studies.planning import plan_study
from fedsvd.studies.study import Study
from fedsvd.types import SessionId

TWO = [{"name": "a"}, {"name": "b"}]
H, V = Split.HORIZONTAL, Split.VERTICAL


@pytest.mark.parametrize(
    ("job", "masks", "study"),
    [
        ({"task": "svd", "unit_variance": True}, {}, Study(Task.SVD, unit_variance=True)),
        ({"task": "svd", "alpha": 1.0}, {}, Study(Task.SVD, alpha=1.0)),
        ({"task": "pca", "label": "y"}, {}, Study(Task.PCA, targets=1)),
        ({"task": "pca", "verify": "all"}, {}, Study(Task.PCA, check=Check.ALL)),
        ({"task": "lr", "label": "y", "components": 3}, {}, Study(Task.LR, targets=1, components=3)),
        ({"task": "pca", "split": "vertical"}, {}, Study(Task.PCA, V)),
        ({"task": "lr"}, {}, Study(Task.LR)),
        ({"task": "svd"}, {"scheme": "mask", "mode": "A"}, Study(Task.SVD, scheme="mask", mode=Mode.A)),
        ({"task": "pca", "release": ["components"]}, {}, Study(Task.PCA, release=(Item.COMPONENTS,))),
        (
            {"task": "svd", "release": ["components", "spectrum", "score"]},
            {},
            Study(Task.SVD, release=(Item.COMPONENTS, Item.SPECTRUM, Item.SCORE)),
        ),
    ],
)
def test_a_job_file_and_a_study_are_refused_by_one_check(job, masks, study):
    with pytest.raises(ConfigError) as of_the_file:
        job_from({"job": {"name": "j", **job}, "masks": masks, "party": TWO}, Path())
    with pytest.raises(ConfigError) as of_the_study:
        plan_study(study, 100, (50, 50), SessionId("00" * 16))
    assert str(of_the_file.value) == str(of_the_study.value)


@pytest.mark.parametrize(
    ("holding", "asked", "expected"),
    [
        ((False, True, False), None, 2),
        ((False, True, False), "b", 2),
        ((False, False, False), None, "no party's table has the label column"),
        ((True, True, False), None, "in the tables of a, b"),
        ((True, True, False), "b", "a has a column with the name of the label too"),
        ((True, False, False), "b", "party b has no label column"),
    ],
)
def test_the_labels_of_split_columns_are_at_one_party(holding, asked, expected):
    if isinstance(expected, int):
        assert label_user(Task.LR, V, "abc", holding, asked) == expected
        return
    with pytest.raises(ConfigError, match=expected):
        label_user(Task.LR, V, "abc", holding, asked)


@pytest.mark.parametrize(("task", "split"), [(Task.LR, H), (Task.SVD, V), (Task.PCA, H)])
def test_elsewhere_no_party_alone_holds_labels(task, split):
    assert label_user(task, split, "abc", (True, True, True), None) == 0


def test_a_party_knows_alone_what_all_would_find_together():
    assert [brings_labels(Task.LR, V, name, name == "b", None) for name in "abc"] == [False, True, False]
    assert all(brings_labels(Task.LR, H, name, False, None) for name in "abc")
    assert not brings_labels(Task.SVD, V, "a", True, None)
    with pytest.raises(ConfigError, match="a has a column with the name of the label too"):
        brings_labels(Task.LR, V, "a", True, "b")


def test_tables_that_do_not_fit_are_one_error_wherever_they_meet():
    tables = [np.ones((6, 4)), np.ones((6, 5))]
    facts = {
        f"party/{name}": EnlistedFacts(rows=6, columns=table.shape[1], signing=name)
        for name, table in zip("12", tables, strict=True)
    }
    job = job_from({"job": {"name": "j", "task": "svd"}, "party": [{"name": "1"}, {"name": "2"}]}, Path())
    texts = set()
    for meet in (
        lambda: expect_fitting(H, {"1": Extent(6, 4), "2": Extent(6, 5)}),
        lambda: given(tables, H),
        lambda: plan_of(job, facts, SessionId("00" * 16)),
    ):
        with pytest.raises(ShapeError) as misfit:
            meet()
        texts.add(str(misfit.value))
    assert texts == {
        "FSVD-101: parties have different numbers of columns: party 1 has 4, party 2 has 5. Fix: give all parties the "
        "same columns"
    }


def test_names_that_differ_are_pointed_at_and_digests_are_not():
    named = {"a": Extent(6, 2, ("x", "y")), "b": Extent(9, 2, ["x", "z"])}
    with pytest.raises(ShapeError, match="different columns: only party a has 'y'; only party b has 'z'"):
        expect_fitting(H, named)
    expect_fitting(V, {**named, "b": Extent(6, 7, ("q",))})  # split by columns, names are each party's own
    expect_fitting(H, {"a": named["a"], "b": Extent(9, 2, ["x", "y"])})
    with pytest.raises(ShapeError, match="party b has columns of other names than party a"):
        expect_fitting(H, {"a": Extent(6, 2, "digest"), "b": Extent(6, 2, "other")})


def test_what_every_party_lacks_or_has_alone_is_said_in_one_error():
    extents = {
        "a": Extent(6, 4, ("age", "sex", "bmi", "ldl")),
        "b": Extent(9, 3, ["sex", "bmi", "ldl"]),
        "c": Extent(5, 5, ["ldl", "age", "sex", "ward", "level"]),
    }
    with pytest.raises(ShapeError) as misfit:
        expect_fitting(H, extents)
    for said in ("party b has no column 'age'", "party c has no column 'bmi'", "only party c has 'ward', 'level'"):
        assert said in misfit.value.fault
    assert "a has 4, party b has 3, party c has 5" in misfit.value.fault


def test_the_same_columns_in_another_order_fit_and_go_by_their_names():
    named = {"a": ("sex", "age"), "b": ("age", "sex")}
    expect_fitting(H, {name: Extent(6, 2, features) for name, features in named.items()})
    assert one_order(named) == ("age", "sex")
    assert one_order({"a": ("sex", "age"), "b": ["sex", "age"]}) is None
