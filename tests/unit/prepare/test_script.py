"""Preparations, played by all parties, equal pandas, formulaic, scikit-learn and neuroCombat on the joint table."""

import formulaic
import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from neuroCombat import neuroCombat
from numpy.testing import assert_array_equal
from sklearn.preprocessing import StandardScaler
from tests.tolerances import assert_close, digits_lost

from fedsvd.data.open import open_source
from fedsvd.errors import ConfigError, DataError, NotFinite
from fedsvd.prepare.columns import ColumnChoice
from fedsvd.prepare.missing import Missing
from fedsvd.prepare.script import AskShare, AskSum, AskUnion, CategoryRule, Rule, play_together, prepare
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


def played(frames, rule):
    scripts = [prepare(open_source(frame), rule, KEY, i, len(frames)) for i, frame in enumerate(frames)]
    return play_together(scripts)


def stacked(prepared):
    return np.vstack([each.table.rows(0, each.table.shape[0]) for each in prepared])


def test_gaps_categories_and_ordinals_together(gappy):
    rule = Rule(
        columns=ColumnChoice(drop=("y",)),
        missing=Missing.MEAN,
        indicators=True,
        categories=(CategoryRule("sex", reference="m"), CategoryRule("stage", order=("I", "II", "III"))),
    )
    found = played(gappy, rule)
    whole = pd.concat(gappy)
    numbers = whole[list(NUMBERS)]
    expected = pd.concat(
        [
            numbers.fillna(numbers.mean()),
            numbers[list("abc")].isna().astype(float).add_suffix("_missing"),
            (whole["sex"] == "f").astype(float).rename("sex_f"),
            whole["stage"].map({"I": 0.0, "II": 1.0, "III": 2.0}),
        ],
        axis=1,
    )
    assert found[0].table.names == tuple(expected.columns)
    assert_close(stacked(found), expected.to_numpy(), digits_lost(2))
    assert sum(each.report.filled for each in found) == int(whole[list("abc")].isna().sum().sum())


def test_rows_with_gaps_are_left_out_and_the_others_are_known(gappy):
    rule = Rule(columns=ColumnChoice(drop=("sex", "stage", "y")), missing=Missing.DROP)
    found = played(gappy, rule)
    assert_array_equal(stacked(found), pd.concat(gappy)[list(NUMBERS)].dropna().to_numpy())
    for each, frame in zip(found, gappy, strict=True):
        kept = frame[list(NUMBERS)].notna().all(axis=1).to_numpy()
        assert_array_equal(each.rows, np.flatnonzero(kept))
        assert each.report.dropped == int((~kept).sum())


def test_a_formula_over_filled_gaps(gappy):
    text = "y ~ age * C(sex) + a + log(age)"
    found = played(gappy, Rule(missing=Missing.MEAN, formula=text))
    whole = pd.concat(gappy)
    whole = whole.assign(a=whole["a"].fillna(whole["a"].mean()))
    expected = formulaic.Formula(text).get_model_matrix(whole, context=vars(np))
    names = [name for name in expected.rhs.columns if name != "Intercept"]
    assert list(found[0].table.names) == names
    assert_close(stacked(found), expected.rhs[names].to_numpy(dtype=float), digits_lost(2))
    assert_array_equal(np.vstack([each.outcome for each in found]), expected.lhs.to_numpy(dtype=float))


def test_covariates_partialled_out_then_scaled(frames):
    rule = Rule(columns=ColumnChoice(columns=NUMBERS), covariates=("age",), centre=Over.JOINT, scale=Over.JOINT)
    whole = pd.concat(frames)
    Z = sm.add_constant(whole[["age"]])
    residuals = np.column_stack([sm.OLS(whole[name], Z).fit().resid for name in "abc"])
    found = played(frames, rule)
    assert found[0].table.names == ("a", "b", "c")
    assert_close(stacked(found), StandardScaler().fit_transform(residuals), digits_lost(4))


def test_combat_with_a_preserved_covariate(frames, capsys):
    shifted = [frame.assign(a=frame["a"] + i, b=frame["b"] * (1 + i)) for i, frame in enumerate(frames)]
    found = played(shifted, Rule(columns=ColumnChoice(columns=NUMBERS), combat=True, preserve=("age",)))
    whole = pd.concat(shifted, ignore_index=True)
    covars = whole[["age"]].assign(site=np.repeat([0, 1, 2], [25, 35, 30]))
    expected = neuroCombat(
        dat=whole[list("abc")].to_numpy().T.copy(), covars=covars, batch_col="site", continuous_cols=["age"]
    )["data"].T
    assert_close(stacked(found), expected, digits_lost(5))


def test_what_is_asked_for_follows_from_the_rule_and_says_what_it_is(gappy):
    rule = Rule(
        columns=ColumnChoice(drop=("stage", "y")),
        missing=Missing.MEAN,
        categories=(CategoryRule("sex"),),
        centre=Over.JOINT,
    )
    script = prepare(open_source(gappy[0]), rule, KEY, 0, 1)
    asks, answer = [], None
    try:
        while True:
            ask = next(script) if answer is None else script.send(answer)
            asks.append(ask)
            answer = ask.vector if isinstance(ask, AskSum) else ask.digests if isinstance(ask, AskUnion) else ask.texts
            if isinstance(ask, AskSum) and ask.what == "counts of sex":
                answer = answer * 2  # as if another party had the same
    except StopIteration:
        pass
    assert [(type(ask), ask.what) for ask in asks] == [
        (AskUnion, "levels of sex"),
        (AskSum, "counts of sex"),
        (AskShare, "names of sex"),
        (AskSum, "totals and counts"),
        (AskSum, "means for scaling"),
        (AskSum, "squares for scaling"),
    ]


def test_nothing_is_asked_for_where_nothing_is_to_be_done(frames):
    rule = Rule(columns=ColumnChoice(columns=NUMBERS))
    found = played(frames, rule)
    assert_array_equal(stacked(found), pd.concat(frames)[list(NUMBERS)].to_numpy())


def test_gaps_and_text_without_a_rule_are_refused(frames, gappy):
    with pytest.raises(NotFinite, match="missing = "):
        played(gappy, Rule(columns=ColumnChoice(columns=NUMBERS)))
    with pytest.raises(DataError, match="column 'sex', 'stage' holds text"):
        played(frames, Rule())
    with pytest.raises(ConfigError, match="'a' is no text"):
        played(frames, Rule(columns=ColumnChoice(columns=NUMBERS), categories=(CategoryRule("a"),)))
    with pytest.raises(DataError, match="no column 'weight'"):
        played(frames, Rule(formula="y ~ weight"))
    with pytest.raises(ConfigError, match="ordinal map"):
        Rule(formula="y ~ a", categories=(CategoryRule("stage", order=("I",)),))
    with pytest.raises(ConfigError, match="ComBat"):
        Rule(preserve=("age",))


def test_parties_with_different_rules_do_not_go_on(frames):
    rules = [Rule(columns=ColumnChoice(columns=NUMBERS), centre=over) for over in (Over.JOINT, Over.SITE, Over.SITE)]
    scripts = [prepare(open_source(f), r, KEY, i, 3) for i, (f, r) in enumerate(zip(frames, rules, strict=True))]
    with pytest.raises(DataError, match="different sums"):
        play_together(scripts)
