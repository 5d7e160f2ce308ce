"""Joint counts: what passes has no records or five outside of each party, and what does not is joined or left out."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsvd.data.open import open_source
from fedsvd.errors import DataError
from fedsvd.prepare.categories import JointLevels
from fedsvd.prepare.described import described
from fedsvd.prepare.dictionary import dictionary_of
from fedsvd.prepare.joint_counts import Counted, CountRule, joined, own_counts
from fedsvd.prepare.recipe import of_record
from fedsvd.prepare.rule import CategoryRule, Rule, planned_steps
from fedsvd.prepare.script import AskSum, play_together, prepare, prepared_again
from fedsvd.randomness.seed import Seed

KEY = Seed(bytes(32))
LEVELS = ("I", "II", "III", "IV")


def table(stages, rare=0, gaps=0, rows=40):
    """``stages``: records of each level; ``rare``: records that are 1 in a column of zeros; gaps in another."""
    rng = np.random.default_rng(sum(stages) + rare)
    stage = np.repeat(LEVELS, stages)
    found = pd.DataFrame({"x": rng.normal(size=len(stage)), "rare": 0.0, "lab": rng.normal(size=len(stage))})
    found.loc[: rare - 1, "rare"] = 1.0
    found.loc[: gaps - 1, "lab"] = np.nan
    return found.assign(stage=stage)


def rule(parties, drop=False, pool=(), **more):
    counts = CountRule(parties > 2, drop, pool)
    return Rule(categories=(CategoryRule("stage", levels=LEVELS),), counts=counts, **more)


def played(tables, asked):
    return play_together([prepare(open_source(each), asked, KEY) for each in tables])


# --- own counts ------------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([0.0, 1.0, 2.0, np.nan]), min_size=1, max_size=40), st.integers(0, 30))
def test_counts_off_the_commonest_value_are_those_by_hand(values, zeros):
    column = np.random.default_rng(zeros).permutation([*values, *[0.0] * zeros])
    frame = pd.DataFrame({"x": column, "z": 1.0})
    items = [("x", "gap"), ("x", "off"), ("z", "off")]
    found = own_counts(items, open_source(frame), open_source(frame))
    held = frame["x"].dropna()
    most = held.value_counts().max() if len(held) else 0
    off = len(held) - most if most >= 5 else len(held)
    assert found["x", "gap"] == min(int(frame["x"].isna().sum()), 5)
    assert found["x", "off"] == min(off, 5)
    assert found["z", "off"] == (0 if len(frame) >= 5 else len(frame))


def test_persons_are_counted_and_of_a_column_that_was_made_its_own_rows():
    words = {"columns": {"who": {"role": "id"}, "x": {"range": [0, 9]}, "sex": {"levels": ["f", "m"]}}}
    frame = pd.DataFrame({"who": np.repeat(range(10), 4), "x": 0.0, "sex": "f"})
    frame.loc[:7, ["x", "sex"]] = [3.0, "m"]  # eight rows of two persons
    whole = described(open_source(frame), dictionary_of(words))
    made = open_source(pd.DataFrame({"x_missing": [1.0, 1.0, *[0.0] * 20]}))
    items = [("x", "off"), ("x_missing", "off"), ("sex", "level f"), ("sex", "level m")]
    assert list(own_counts(items, made, whole).values()) == [2, 2, 5, 2]


# --- what all decide alike -------------------------------------------------------------------------------------------


@settings(max_examples=12, deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 7)] * 3, st.integers(12, 14)), min_size=2, max_size=5))
def test_every_column_that_is_made_has_no_records_or_five_outside_of_each_party(counts):
    try:
        found = played([table(each) for each in counts], rule(len(counts), pool=("stage",)))
    except DataError:
        return  # nothing is common enough to be joined
    names = found[0].table.names
    held = np.array([each.table.rows(0, each.table.shape[0])[:, 3:].sum(axis=0) for each in found])
    assert names[3].startswith("stage_")
    for party in range(len(counts)):
        outside = np.delete(held, party, axis=0)
        assert all(count == 0 or count >= 5 for count in outside.sum(axis=0))


def test_rare_levels_and_columns_are_left_out_where_factors_are_the_study_and_listed():
    tables = [table((20, 20, 1, 9), rare=1), table((20, 20, 1, 9), rare=1), table((20, 20, 0, 9), rare=1)]
    found = played(tables, rule(3, drop=True))
    assert all(each.table.names == ("x", "lab", "stage_I", "stage_II", "stage_IV") for each in found)
    assert found[0].recipe.rare.lines() == found[2].recipe.rare.lines()
    assert "'rare'" in found[0].recipe.rare.lines()[0]
    assert "level 'III' of column 'stage'" in found[0].recipe.rare.lines()[1]
    again = of_record(found[0].recipe.record())
    assert again.rare == found[0].recipe.rare
    new = prepared_again(open_source(tables[0]), rule(3, drop=True), again).table
    np.testing.assert_array_equal(new.rows(0, 50), found[0].table.rows(0, 50))


def test_without_a_word_in_the_dictionary_a_model_ends_and_names_the_level():
    with pytest.raises(DataError, match=r"level 'III' of column 'stage'[^\n]*\n?.*pool = true"):
        played([table((20, 20, 1, 9))] * 3, rule(3))
    with pytest.raises(DataError, match="another value than most in column 'rare'"):
        played([table((20, 20, 0, 9), rare=1)] * 3, rule(3))
    assert played([table((20, 20, 3, 9), rare=3)] * 3, rule(3))  # nine, six of them outside of each


def test_one_record_at_each_of_six_parties_passes_and_a_single_one_does_not():
    assert played([table((20, 20, 1, 9))] * 6, rule(6))
    with pytest.raises(DataError):
        played([table((20, 20, 1, 9)), *[table((20, 20, 0, 9))] * 5], rule(6))


def test_two_parties_add_up_nothing_and_each_judges_its_own():
    scripts = [
        prepare(open_source(table(each)), rule(2, pool=("stage",)), KEY) for each in [(20, 9, 2, 9), (9, 20, 0, 9)]
    ]
    asked = [next(script) for script in scripts]
    assert [each.what for each in asked] == ["rare", "rare"]
    assert all(set(each.vector.tolist()) <= {0.0, 1.0} for each in asked)
    first, other = played([table((20, 9, 2, 9)), table((9, 20, 0, 9))], rule(2, pool=("stage",)))
    assert first.table.names[-3:] == other.table.names[-3:] == ("stage_I", "stage_II", "stage_other")


def test_an_indicator_of_few_gaps_is_left_out():
    tables = [table((20, 20, 9, 9), gaps=1), table((20, 20, 9, 9), gaps=1), table((20, 20, 9, 9))]
    found = played(tables, rule(3, mean=True, indicators=True))
    assert "lab_missing" not in found[0].table.names
    more = played([table((20, 20, 9, 9), gaps=4)] * 3, rule(3, mean=True, indicators=True))
    assert "lab_missing" in more[0].table.names


def test_what_is_counted_is_in_the_plan_and_what_was_counted_before_is_sent_again():
    asked = rule(3, drop=True)
    steps = planned_steps(asked, 4)
    assert [(step.name, step.size) for step in steps] == [("joint counts", 11), ("rare", 11)]
    source = open_source(table((20, 20, 3, 9), rare=2))
    counted = Counted(source, own_counts(asked.counted(source.names), source, source))
    assert counted.current == source.names
    counted.counts = counted.now | {("rare", "off"): 0}
    first = next(prepare(counted, asked, KEY))
    assert isinstance(first, AskSum)
    assert first.vector.size == 11
    assert first.vector.tolist()[3] == 0.0
    assert "rare" not in counted.current


def test_records_that_went_since_counts_were_added_are_objected_to():
    def party(before, now):
        source = open_source(table((20, 20, now, 9)))
        counts = own_counts(asked.counted(source.names), source, source)
        counted = Counted(source, counts)
        counted.counts = counts | {("stage", "level III"): before}
        return prepare(counted, asked, KEY)

    asked = rule(3, drop=True)
    there = play_together([party(5, 5), party(1, 1), party(5, 5)])
    assert "stage_III" in there[1].table.names
    gone = play_together([party(5, 0), party(1, 1), party(5, 0)])  # the one record is alone now
    assert "stage_III" not in gone[1].table.names
    came = play_together([party(5, 5), party(1, 2), party(5, 5)])
    assert "stage_III" in came[1].table.names


def test_where_a_study_leaves_rows_out_no_column_counts_as_passed_at_home():
    source = open_source(table((20, 20, 3, 9)))
    items = rule(3).counted(source.names)
    assert Counted(source, own_counts(items, source, source), whole=False).current == ()


def test_a_pool_is_no_column_of_its_own_and_has_a_common_level_in_it():
    joint = JointLevels("stage", LEVELS)
    assert joined(joint, ["III"], {"I": 15.0, "IV": 10.0}).all == ("I", "II", "other")
    with pytest.raises(DataError, match="common enough"):
        joined(joint, ["III"], {})
