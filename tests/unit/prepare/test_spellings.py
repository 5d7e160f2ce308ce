"""Levels and classes in another spelling at one party: told at home, and refused where they are most of its records."""

import numpy as np
import pandas as pd
import pytest

from fedsvd import FederatedLogisticRegression, Policy, Simulation
from fedsvd.data.open import open_source
from fedsvd.errors import DataError, for_log
from fedsvd.prepare.rule import CategoryRule, Rule
from fedsvd.prepare.script import play_together, prepare
from fedsvd.prepare.spellings import expect_one_spelling, like, spelt_apart
from fedsvd.randomness.seed import Seed
from fedsvd.tasks.surface import Surface, spell


@pytest.mark.parametrize(
    ("level", "levels", "found"),
    [
        ("Female", ("f", "m"), "f"),
        ("MALE ", ("female", "male"), "male"),
        ("male", ("female", "male "), "male "),
        ("m", ("Frau", "Mann"), "Mann"),
        ("never smoker", ("never", "current"), "never"),
        ("currrent", ("never", "current"), "current"),
        ("1.0", ("1", "2"), "1"),
        ("Stage-II", ("stage ii", "stage iii"), "stage ii"),
        ("1", ("female", "male"), None),
        ("east", ("north", "south"), None),
        ("s", ("surgery", "sleep"), None),  # two may be meant
        ("II", ("I", "IV"), None),  # numbers are other levels, not other spellings
        ("grade 10", ("grade 1", "grade 2"), None),
        ("ii", ("I", "II"), "II"),
    ],
)
def test_a_level_is_like_one_other_or_none(level, levels, found):
    assert like(level, levels) == found


def test_a_table_of_numbers_for_words_is_refused_and_few_levels_are_pointed_out():
    words = {"north": {"f": 50, "m": 40}, "south": {"f": 30, "m": 20}}
    with pytest.raises(DataError, match="they are numbers, and the others have 'f', 'm'"):
        expect_one_spelling("sex", {**words, "west": {"1": 30, "2": 40, "f": 1}})
    few = {**words, "west": {"f": 40, "m": 20, "Female": 7}}
    expect_one_spelling("sex", few)
    (said,) = spelt_apart("sex", few)
    assert said.startswith("west: levels of column 'sex' that no other table has: 'Female' (7) looks like 'f'.")
    assert 'sex = { levels = { Female = "f" } }' in said
    grades = {"north": {"I": 50, "II": 40, "III": 9}, "south": {"I": 30}}
    expect_one_spelling("stage", grades)
    assert not [*spelt_apart("stage", grades)]


def played(columns):
    rng = np.random.default_rng(0)
    frames = [pd.DataFrame({"x": rng.normal(size=len(each)), "sex": each}) for each in columns]
    rule = Rule(categories=(CategoryRule("sex"),), minimum=5)
    return play_together([prepare(open_source(frame), rule, Seed(bytes(32))) for frame in frames])


def test_a_party_is_told_how_many_of_its_records_become_other():
    third = ["f"] * 30 + ["m"] * 20 + ["Male"] * 7 + ["unknown"] * 4
    found = played([["f", "m"] * 30, ["m", "f", "f"] * 20, third])
    told = "11 of 61 own records of column 'sex' become 'other': 'Male' (7), 'm' in another spelling?, 'unknown' (4)"
    assert [each.recipe.findings for each in found] == [(), (), (told,)]
    assert found[2].recipe.summary()["look_at"] == [told]
    assert not found[2].recipe.compared_units
    (logged,) = map(for_log, found[2].recipe.findings)
    assert logged == (
        "11 of 61 own records of column 'sex' become 'other': the report of this study here names their levels"
    )


def test_most_records_in_another_spelling_end_the_study_with_the_line_that_recodes_them():
    with pytest.raises(DataError) as caught:
        played([["f", "m"] * 30, ["m", "f", "f"] * 20, ["Female", "Male"] * 100])
    assert caught.value.fault == (
        "200 of 200 records of column 'sex' have levels that no other party has or that are rare, and would all be "
        "'other'; the joint levels are 'f', 'm', and some of its own look like 'f', 'm' in another spelling"
    )
    assert 'sex = { levels = { Female = "f", Male = "m" } } in the map of the table' in caught.value.at_home
    assert 'sex = { levels = { "..." = "f" } } in the map of the table' in caught.value.fix
    assert "Female" not in str(caught.value)  # which a site logs
    assert "Female" in spell(caught.value, Surface.OPTIONS).fix  # whose reader has the table
    with pytest.raises(DataError, match="the joint levels are 'f', 'm', and its own are numbers"):
        played([["f", "m"] * 30, ["m", "f", "f"] * 20, ["1", "2"] * 100])
    with pytest.raises(DataError) as caught:  # levels that look like none of the joint ones are not shown
        played([["f", "m"] * 30, ["m", "f", "f"] * 20, ["Kowalski", "Zhang"] * 100])
    assert 'sex = { levels = { "..." = "f" } } in the map of the table' in caught.value.at_home
    assert "Kowalski" not in caught.value.at_home


def test_a_party_whose_levels_are_half_its_own_takes_part():
    found = played([["f", "m"] * 30, ["m", "f", "f"] * 20, ["f", "x"] * 20])
    assert found[2].recipe.findings[0].startswith("20 of 40 own records")


@pytest.mark.parametrize(
    ("third", "fault"),
    [
        (["Yes", "no"], "labels differ in case, blanks or zeros alone: 3 classes, of which 1 pairs are alike"),
        (["no", "yes "], "labels differ in case"),
        (["J", "N"], "no other party has any of the labels of party 3: 4 classes at 3 parties"),
    ],
)
def test_labels_in_another_spelling_make_no_more_classes(third, fault):
    rng = np.random.default_rng(1)
    X = [rng.normal(size=(40, 2)) for _ in range(3)]
    y = [np.array(labels)[rng.integers(0, 2, 40)] for labels in (["no", "yes"], ["yes", "no"], third)]
    model = FederatedLogisticRegression(federation=Simulation(policy=Policy.permissive()))
    with pytest.raises(DataError, match=fault):
        model.fit(X, y)
    y[2] = np.array(["no", "yes"])[rng.integers(0, 2, 40)]
    assert model.fit(X, y).classes_.tolist() == ["no", "yes"]
