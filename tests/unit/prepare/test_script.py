"""Preparations, played by all parties, equal pandas, formulaic, scikit-learn and neuroCombat on the joint table."""

import json

import formulaic
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import statsmodels.api as sm
from neuroCombat import neuroCombat
from numpy.testing import assert_array_equal
from sklearn.preprocessing import StandardScaler
from tests.tolerances import RESULT_BAR, assert_close, digits_lost

from fedsvd.data.open import open_source
from fedsvd.data.source import MatrixSource
from fedsvd.errors import ConfigError, DataError, NotFinite
from fedsvd.prepare.recipe import of_record
from fedsvd.prepare.rule import CategoryRule, LowRank, Rule, planned_steps
from fedsvd.prepare.script import AskSum, play_together, prepare, prepared_again, prepared_alone
from fedsvd.prepare.sites import Over
from fedsvd.randomness.seed import Seed

KEY = Seed(bytes(32))
NUMBERS = ("a", "b", "c", "age")


@pytest.fixture
def frames():
    rng = np.random.default_rng(31)
    frame = pd.DataFrame(rng.normal(size=(90, 3)), columns=list("abc"))
    frame["age"] = rng.integers(20, 80, 90).astype(float)
    frame["sex"] = rng.choice(["f", "m"], 90)
    frame["stage"] = rng.choice(["I", "II", "III"], 90)
    frame["y"] = rng.normal(size=90)
    return [frame[:25], frame[25:60], frame[60:]]


@pytest.fixture
def gappy(frames):
    rng = np.random.default_rng(32)
    return [frame.assign(**frame[list("abc")].mask(rng.random((len(frame), 3)) < 0.1)) for frame in frames]


def played(frames, rule, columns=None):
    tables = [open_source(frame if columns is None else frame[list(columns)]) for frame in frames]
    return play_together([prepare(table, rule, KEY) for table in tables])


def stacked(prepared):
    return np.vstack([each.table.rows(0, each.table.shape[0]) for each in prepared])


def test_gaps_and_categories_together(gappy):
    rule = Rule(mean=True, indicators=True, categories=(CategoryRule("sex", reference="m"), CategoryRule("stage")))
    found = played(gappy, rule, (*NUMBERS, "sex", "stage"))
    whole = pd.concat(gappy)
    numbers = whole[list(NUMBERS)]
    expected = pd.concat(
        [
            numbers.fillna(numbers.mean()),
            numbers[list("abc")].isna().astype(float).add_suffix("_missing"),
            (whole["sex"] == "f").astype(float).rename("sex_f"),
            pd.get_dummies(whole["stage"], prefix="stage", dtype=float),
        ],
        axis=1,
    )
    assert found[0].table.names == tuple(expected.columns)
    assert_close(stacked(found), expected.to_numpy(), digits_lost(2))
    missing = int(whole[list("abc")].isna().sum().sum())
    assert sum(each.gaps.total for each in found) == missing
    assert {each.recipe.joint.missing for each in found} == {missing}


def test_means_to_fill_gaps_with_have_the_decimals_of_the_dictionary(gappy):
    found = played(gappy, Rule(mean=True, decimals=(("a", 1), ("age", 0))), NUMBERS)
    numbers = pd.concat(gappy)[list(NUMBERS)]
    means = numbers.mean()
    expected = numbers.fillna(means.where(means.index != "a", means.round(1)))  # of age none is missing
    assert_close(stacked(found), expected.to_numpy(), RESULT_BAR)
    assert set(stacked(found)[numbers["a"].isna(), 0]) == {round(numbers["a"].mean(), 1)}


def test_a_formula_over_filled_gaps(gappy):
    text = "y ~ age * C(sex) + a + log(age)"
    found = played(gappy, Rule(mean=True, formula=text))
    whole = pd.concat(gappy)
    whole = whole.assign(a=whole["a"].fillna(whole["a"].mean()))
    expected = formulaic.Formula(text).get_model_matrix(whole, context=vars(np))
    names = [name for name in expected.rhs.columns if name != "Intercept"]
    assert list(found[0].table.names) == names
    assert_close(stacked(found), expected.rhs[names].to_numpy(dtype=float), digits_lost(2))
    assert_array_equal(np.vstack([each.outcome for each in found]), expected.lhs.to_numpy(dtype=float))


def test_numbers_may_be_categories(frames):
    coded = [frame.assign(sex=(frame["sex"] == "f").astype(int)) for frame in frames]
    found = played(coded, Rule(formula="~ a + C(sex)"))
    assert found[0].table.names == ("a", "C(sex)[T.1]")
    assert_array_equal(stacked(found)[:, 1], pd.concat(coded)["sex"].to_numpy())


def test_covariates_partialled_out_then_scaled(frames):
    rule = Rule(covariates=("age",), centre=Over.JOINT, scale=Over.JOINT)
    whole = pd.concat(frames)
    Z = sm.add_constant(whole[["age"]])
    residuals = np.column_stack([sm.OLS(whole[name], Z).fit().resid for name in "abc"])
    found = played(frames, rule, NUMBERS)
    assert found[0].table.names == ("a", "b", "c")
    assert_close(stacked(found), StandardScaler().fit_transform(residuals), digits_lost(4))


def test_combat_with_a_preserved_covariate(frames, capsys):
    shifted = [frame.assign(a=frame["a"] + i, b=frame["b"] * (1 + i)) for i, frame in enumerate(frames)]
    found = played(shifted, Rule(combat=True, preserve=("age",)), NUMBERS)
    whole = pd.concat(shifted, ignore_index=True)
    covars = whole[["age"]].assign(site=np.repeat([0, 1, 2], [25, 35, 30]))
    expected = neuroCombat(
        dat=whole[list("abc")].to_numpy().T.copy(), covars=covars, batch_col="site", continuous_cols=["age"]
    )["data"].T
    assert_close(stacked(found), expected, digits_lost(4))


RULES = [
    Rule(mean=True, indicators=True, categories=(CategoryRule("sex", drop_first=True), CategoryRule("stage"))),
    Rule(mean=True, categories=(CategoryRule("sex"), CategoryRule("stage", missing="none")), centre=Over.JOINT),
    Rule(mean=True, indicators=("a",), categories=(CategoryRule("sex"), CategoryRule("stage")), scale=Over.JOINT),
    Rule(mean=True, formula="y ~ age * C(sex) + C(stage):a", covariates=("age",)),
    Rule(mean=True, categories=(CategoryRule("sex"), CategoryRule("stage")), combat=True),
    Rule(
        mean=True,
        categories=(CategoryRule("sex", drop_first=True), CategoryRule("stage", reference="II")),
        combat=True,
        preserve=("age", "sex_m"),
        covariates=("y",),
        centre=Over.JOINT,
        scale=Over.SITE,
    ),
]


@pytest.mark.parametrize("rule", RULES)
def test_every_sum_stands_in_the_plan_with_its_name_and_is_no_longer_than_there(gappy, rule):
    frames = [frame.drop(columns="age") if "age" not in str(rule) else frame for frame in gappy]
    steps = planned_steps(rule, frames[0].shape[1])
    asks = [[] for _ in frames]

    def watched(script, seen):
        answer = None
        while True:
            try:
                ask = next(script) if answer is None else script.send(answer)
            except StopIteration as end:
                return end.value
            seen.append(ask)
            answer = yield ask

    tables = [open_source(frame) for frame in frames]
    scripts = [watched(prepare(table, rule, KEY), seen) for table, seen in zip(tables, asks, strict=True)]
    play_together(scripts)
    for seen in asks:
        assert [ask.what for ask in seen] == [step.name for step in steps]
        for ask, step in zip(seen, steps, strict=True):
            assert isinstance(ask, AskSum)
            assert ask.vector.size <= step.size
            assert_array_equal(ask.vector[ask.whole :], np.rint(ask.vector[ask.whole :]))
            assert (step.kind == "whole") == (ask.whole == 0)


@pytest.mark.parametrize("rule", RULES)
def test_a_recipe_prepares_the_same_table_again_and_new_rows_of_it(gappy, rule):
    found = played(gappy, rule)
    for frame, each in zip(gappy, found, strict=True):
        recipe = of_record(json.loads(json.dumps(each.recipe.record())))
        again = prepared_again(open_source(frame), rule, recipe)
        assert again.table.names == each.table.names
        rows = each.table.rows(0, len(frame))
        assert_array_equal(again.table.rows(0, len(frame)), rows)
        new = prepared_again(open_source(frame[5:9]), rule, recipe)
        assert_array_equal(new.table.rows(0, 4), rows[5:9])
        assert (again.outcome is None) == (each.outcome is None)


def test_no_sum_of_combat_holds_what_one_site_has(frames):
    """Each sum is the same when two sites exchange their shifts: none says which site is shifted."""
    rule = Rule(combat=True)
    totals = []
    for shifts in ((0.0, 5.0, 0.0), (0.0, 0.0, 5.0 * 35 / 30)):
        shifted = [frame[["a", "b"]] + shift for frame, shift in zip(frames, shifts, strict=True)]
        scripts, seen = [prepare(open_source(frame), rule, KEY) for frame in shifted], []
        asks = [next(script) for script in scripts]
        try:
            while True:
                seen.append(np.sum([ask.vector for ask in asks], axis=0))
                asks = [script.send(seen[-1]) for script in scripts]
        except StopIteration:
            totals.append(seen)
    assert len(totals[0]) == 2
    for one, other in zip(*totals, strict=True):
        assert_close(one, other, digits_lost(3))


def test_a_table_of_split_columns_is_prepared_with_its_own_numbers(gappy):
    whole = pd.concat(gappy, ignore_index=True)[["a", "b", "stage"]]
    found = prepared_alone(open_source(whole), Rule(mean=True, categories=(CategoryRule("stage"),), centre=Over.JOINT))
    expected = whole[["a", "b"]].fillna(whole[["a", "b"]].mean()).join(pd.get_dummies(whole["stage"], prefix="stage"))
    expected = expected.astype(float) - expected.astype(float).mean()
    assert found.table.names == tuple(expected.columns)
    assert_close(found.table.rows(0, len(whole)), expected.to_numpy(), digits_lost(3))


def test_nothing_is_asked_for_where_nothing_is_to_be_done(frames):
    assert Rule().asks_nothing
    assert planned_steps(Rule(), 4) == ()
    assert_array_equal(stacked(played(frames, Rule(), NUMBERS)), pd.concat(frames)[list(NUMBERS)].to_numpy())


def test_gaps_and_text_without_a_rule_are_refused(frames, gappy):
    with pytest.raises(NotFinite, match="missing = "):
        played(gappy, Rule(), NUMBERS)
    with pytest.raises(DataError, match="column 'sex', 'stage' holds text"):
        played(frames, Rule())
    with pytest.raises(DataError, match=r"holds text") as refused:
        played(frames, Rule(formula="y ~ a + sex"))
    assert "C(sex)" in refused.value.fix
    with pytest.raises(DataError, match="no column 'weight'"):
        played(frames, Rule(formula="y ~ weight"))
    with pytest.raises(NotFinite, match="entries are missing"):
        played(gappy, Rule(mean=True, formula="a ~ b"))
    with pytest.raises(ConfigError, match="ComBat"):
        Rule(preserve=("age",))
    with pytest.raises(ConfigError, match="none are filled in"):
        Rule(indicators=True)
    with pytest.raises(ConfigError, match="every column is a category"):
        played(frames, Rule(categories=(CategoryRule("sex"),)), ("sex",))


def test_a_mean_of_few_entries_is_refused(gappy):
    few = [frame.assign(b=frame["b"].where(np.arange(len(frame)) == 0)) for frame in gappy]
    with pytest.raises(DataError, match="column 'b' has fewer than 10 entries"):
        played(few, Rule(mean=True, minimum=10), NUMBERS)


def test_parties_with_different_rules_do_not_go_on(frames):
    rules = [Rule(centre=over) for over in (Over.JOINT, Over.SITE, Over.SITE)]
    tables = [open_source(frame[list(NUMBERS)]) for frame in frames]
    with pytest.raises(DataError, match="different sums"):
        play_together([prepare(table, rule, KEY) for table, rule in zip(tables, rules, strict=True)])


@pytest.mark.parametrize(
    "words",
    [
        {"mean": True},
        {"low_rank": LowRank(0.5, 60)},
        {"centre": Over.JOINT},
        {"scale": Over.JOINT},
        {"covariates": ("age",)},
        {"combat": True},
        {"combat": True, "preserve": ("age",), "covariates": ("b",), "centre": Over.JOINT},
    ],
    ids=str,
)
def test_a_column_in_another_unit_is_pointed_out_at_its_site_wherever_means_are_summed(frames, words):
    """Whatever the preparation: the first means of a session are compared."""
    given = [frame.assign(a=frame["a"] + 9, c=frame["c"] + 9) for frame in frames]
    given[1] = given[1].assign(a=given[1]["a"] * 1000)
    rule = Rule(categories=(CategoryRule("sex"),), **words)
    found = [" ".join(each.recipe.findings) for each in played(given, rule, (*NUMBERS, "sex"))]
    assert rule.compares_units
    assert "the mean of column 'a' here is " in found[1]
    assert not any(f"'{name}'" in text for text in found for name in ("c", "age", "sex_f", "sex_m"))


def test_units_are_not_compared_where_no_means_are_summed(frames):
    rule = Rule(categories=(CategoryRule("sex"),), centre=Over.SITE)
    given = [frame.assign(a=frame["a"] + 9) for frame in frames]
    given[1] = given[1].assign(a=given[1]["a"] * 1000)
    found = played(given, rule, (*NUMBERS, "sex"))
    assert not rule.compares_units
    assert not any(each.recipe.findings for each in found)


@pytest.mark.parametrize("form", ["frame", "sparse"])
@pytest.mark.parametrize(
    "words",
    [
        {"combat": True, "preserve": ("age",)},
        {"covariates": ("age", "a")},
        {"low_rank": LowRank(0.5, 10)},
        {"formula": "~ a + b * age + asinh(c)"},
        {"mean": True, "centre": Over.SITE, "scale": Over.JOINT},
    ],
    ids=lambda words: " ".join(words),
)
def test_no_step_reads_more_than_a_panel_at_once(frames, monkeypatch, words, form):
    """Sparse files and files that are streamed are never dense as a whole, whatever is done to them."""
    monkeypatch.setattr("fedsvd.prepare.derived.PANEL_CELLS", 40)
    largest, read = [], MatrixSource.raw

    def counting(self, rows, columns):
        cells = read(self, rows, columns)
        largest.append(cells.size)
        return cells

    monkeypatch.setattr(MatrixSource, "raw", counting)
    given = [frame[list(NUMBERS)] for frame in frames]
    if form == "sparse":
        given = [open_source(scipy.sparse.csr_array(frame.to_numpy()), names=list(NUMBERS)) for frame in given]
    found = play_together([prepare(open_source(each), Rule(**words), KEY) for each in given])
    for each in found:
        for start in range(0, each.table.shape[0], 5):
            each.table.rows(start, min(start + 5, each.table.shape[0]))
    assert max(largest) <= 40
