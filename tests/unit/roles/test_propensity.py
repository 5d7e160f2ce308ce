"""Propensity weights through the real roles: R's weighted models and cobalt's balance, and what has no answer."""

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special
from tests.propensity_data import by_site, covariates, table
from tests.tolerances import DIGITS_MORE_BAR, DIGITS_STEP_BAR, ROBUST_BAR

from fedsvd.errors import ConfigError, DataError, NotConverged
from fedsvd.protocol.model import Digits, ModelPlan
from fedsvd.protocol.openings import expected_bits, granted_bits, opened
from fedsvd.protocol.propensity import TRIMS
from fedsvd.protocol.steps import What
from fedsvd.protocol.tasks import Estimand, Family, Item, Split, Task
from fedsvd.statistics.propensity import left_out, stands_out
from fedsvd.testing.federation import Federation

pytestmark = pytest.mark.filterwarnings("ignore")
SAID = json.loads((Path(__file__).parents[2] / "vectors" / "propensity-r.json").read_text(encoding="utf-8"))
RELEASE = (Item.COEFFICIENTS, Item.INFERENCE, Item.ROBUST)
BARS = {Digits.TABLE: ROBUST_BAR, Digits.MORE: DIGITS_MORE_BAR}
SETS = {
    "made": ("gaussian", "binomial", "poisson", "cox"),
    "birthwt": ("gaussian", "binomial"),
    "nhefs": ("gaussian", "binomial"),
    "lung": ("cox",),
}
CASES = [(name, effect) for name, effects in SETS.items() for effect in effects]
ALONE = ("birthwt", Estimand.ATE)
"""At one site a treated record has a quarter of its group's weight."""
WEIGHTED = [(*case, estimand) for case in CASES for estimand in Estimand if (case[0], estimand) != ALONE]


def session(name, effect, estimand="overlap", digits=Digits.TABLE, robust="HC0", tables=None, labels=None, **more):
    of_times = effect == "cox"
    outcome = ("time", "treated", "event") if of_times else (effect, "treated")
    about = ModelPlan(
        Family.PROPENSITY,
        "logit",
        digits=digits,
        effect=effect,
        beside=("treatment", "event") if of_times else ("treatment",),
    )
    options = {"estimand": estimand, "stabilised": False, "trim": 0.0} | more
    return Federation(
        tables or by_site(name, *covariates(name)),
        Task.PROPENSITY,
        Split.HORIZONTAL,
        labels=labels or by_site(name, *outcome),
        glm=about,
        robust=robust,
        release=RELEASE,
        options=tuple(sorted(options.items())),
        clusters=[own[:, 0] for own in by_site(name, "cluster")] if robust == "cluster" else None,
    )


def met(model, said, kind, bar):
    errors = np.atleast_1d(said[kind])
    assert (np.abs(model.coefficients - np.atleast_1d(said["coef"])) / errors).max() < DIGITS_STEP_BAR
    assert np.abs(model.standard_errors / errors - 1.0).max() < bar
    assert model.errors.kind == kind


@pytest.mark.parametrize(("name", "effect", "estimand"), WEIGHTED)
def test_weighted_effects_and_their_errors_are_rs(name, effect, estimand):
    for digits, bar in BARS.items():
        (model,) = session(name, effect, estimand, digits).run()[0].models
        met(model, SAID[name][estimand][effect], "HC0", bar)


@pytest.mark.parametrize(("kind", "effect"), [("cluster", "gaussian"), ("cluster", "cox"), ("HC3", "binomial")])
def test_other_robust_errors_are_rs(kind, effect):
    (model,) = session("made", effect, "ATE", Digits.MORE, kind).run()[0].models
    met(model, SAID["made"]["ATE"][effect], kind, DIGITS_MORE_BAR)


def test_errors_are_those_of_surveys_but_for_their_correction():
    """R's svyglm: one cluster a record, with n / (n - 1)."""
    (model,) = session("nhefs", "binomial", "ATE", Digits.MORE).run()[0].models
    n = len(table("nhefs"))
    expected = np.array(SAID["nhefs"]["ATE"]["binomial"]["survey"]) / np.sqrt(n / (n - 1))
    assert np.abs(model.standard_errors / expected - 1.0).max() < DIGITS_MORE_BAR


def test_stabilised_weights_matter_for_hazards_alone():
    said = SAID["made"]["ATE"]
    (model,) = session("made", "cox", "ATE", Digits.MORE, stabilised=True).run()[0].models
    met(model, said["stabilised"], "HC0", DIGITS_MORE_BAR)
    (model,) = session("made", "gaussian", "ATE", Digits.MORE, stabilised=True).run()[0].models
    met(model, said["gaussian"], "HC0", DIGITS_MORE_BAR)


@pytest.mark.parametrize(
    ("name", "estimand"), [(name, each) for name in SETS for each in Estimand if (name, each) != ALONE]
)
def test_scores_and_balance_are_rs_by_cobalts_definitions(name, estimand):
    said = SAID[name]
    for digits, bar in ((Digits.TABLE, 0.02), (Digits.MORE, DIGITS_MORE_BAR)):
        result = session(name, SETS[name][0], estimand, digits).run()[0]
        assert (np.abs(result.treated.coefficients - said["score"]) / said["score.se"]).max() < DIGITS_STEP_BAR
        columns, expected = result.balance.columns(), said[estimand]["balance"]
        for key in ("Diff.Un", "Diff.Adj"):
            assert np.abs(np.array(columns[key]) - np.array(expected[key])).max() < bar
        for key in ("V.Ratio.Un", "V.Ratio.Adj"):
            ratios = np.array(expected[key], dtype=float)
            known = np.isfinite(ratios)
            assert np.abs(np.array(columns[key])[known] / ratios[known] - 1.0).max() < 4.0 * bar
            assert [kind == "Binary" for kind in columns["Type"]] == (~known).tolist()
        assert np.abs(result.balance.sizes[1] / np.array(expected["ESS"]) - 1.0).max() < max(ROBUST_BAR, bar / 1e3)


@pytest.mark.parametrize("name", ["birthwt", "nhefs"])
def test_trimmed_effects_are_rs_on_the_same_records(name):
    """A site that would leave out one to four records of a group leaves out five, as the script of R does."""
    said = SAID[name]["ATE"]["trimmed"]
    results = session(name, "gaussian", "ATE", Digits.MORE, trim=0.1).run()
    met(results[0].models[0], said, "HC0", DIGITS_MORE_BAR)
    assert sum(each.own_weights["left_out"] for each in results) == said["out"]


@given(st.lists(st.floats(0.001, 0.999), min_size=1, max_size=60), st.integers(0, 2**32 - 1))
def test_two_limits_of_trimming_differ_in_none_or_in_five_own_records_of_a_group(scores, seed):
    score = np.array(scores)
    treated = np.random.default_rng(seed).integers(0, 2, len(score)).astype(float)
    out = [left_out(score, treated, TRIMS[: j + 1], 5) for j in range(len(TRIMS))]
    assert not out[0].any()
    for limit, each in zip(TRIMS, out, strict=True):
        assert each[np.minimum(score, 1.0 - score) < limit].all()
    for less, more in combinations(out, 2):
        assert not (less & ~more).any()
        for group in (0.0, 1.0):
            between = np.count_nonzero((more & ~less)[treated == group])
            rest = np.count_nonzero(treated == group) - np.count_nonzero(less[treated == group])
            assert between == 0 or between >= min(5, rest)


def test_bits_stay_within_what_is_expected_and_balance_is_declared():
    for name, effect in CASES:
        for digits in BARS:
            federation = session(name, effect, digits=digits)
            bits = federation.run()[0].bits
            assert bits < expected_bits(federation.plan), (name, effect, digits)
            assert bits < granted_bits(federation.plan)
            assert {What.BALANCE, What.SQUARED_SCORES, What.SCORE} <= opened(federation.plan)


def drawn(seed, slope, skewed):
    """A problem of one to seven covariates at two to four hospitals, and what it is: tables, labels, outcome, weights.

    Skewed covariates are exponential, rarely 1, or counts, next to normal ones; some are nearly dependent.
    """
    rng = np.random.default_rng(seed)
    p, sizes = int(rng.integers(1, 8)), rng.integers(80, 400, int(rng.integers(2, 5)))
    kinds = rng.integers(0, 4, p) if skewed else np.zeros(p, int)
    makers = (
        lambda n: rng.normal(size=n),
        lambda n: rng.exponential(size=n) ** 1.5,
        lambda n: (rng.random(n) < 0.15).astype(float),
        lambda n: rng.poisson(2.0, n).astype(float),
    )
    X = [np.column_stack([makers[kind](n) for kind in kinds]) for n in sizes]
    if skewed and p > 2 and seed % 4 == 0:
        X = [np.column_stack((own[:, :1], own[:, :1] + 0.05 * rng.normal(size=(len(own), 1)), own[:, 2:])) for own in X]
    b, effect = rng.normal(0.0, slope, p), ("gaussian", "binomial", "poisson", "cox")[seed % 4]
    labels = []
    for own in X:
        treated = (rng.random(len(own)) < special.expit(own @ b - 0.5 * skewed)).astype(float)
        eta = -0.5 + 0.8 * treated + 0.3 * own[:, 0]
        y = {
            "gaussian": eta + rng.normal(size=len(own)),
            "binomial": (rng.random(len(own)) < special.expit(eta)).astype(float),
            "poisson": rng.poisson(np.exp(np.minimum(eta, 4.0))).astype(float),
            "cox": rng.exponential(np.exp(-np.clip(eta, -4.0, 4.0))),
        }[effect]
        gone = rng.exponential(2.0, len(own))
        columns = (np.minimum(y, gone), treated, (y <= gone).astype(float)) if effect == "cox" else (y, treated)
        labels.append(np.column_stack(columns))
    return X, labels, effect, ("overlap", "ATE", "ATT")[seed // 4 % 3]


SEEDS = [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 64))]


@pytest.mark.parametrize("seed", SEEDS)
def test_bits_of_random_problems_stay_within_what_is_expected(seed):
    """Covariates of which none is nearly a combination of others, and treatments that they do not nearly decide."""
    X, labels, effect, _ = drawn(seed, 0.4, skewed=False)
    for digits in BARS:
        federation = session("", effect, "overlap", digits, tables=X, labels=labels)
        assert federation.run()[0].bits < expected_bits(federation.plan)


@pytest.mark.parametrize("seed", SEEDS)
def test_beyond_the_model_of_the_treatment_bits_stay_within_what_is_expected_of_any_covariates(seed):
    """That model is a GLM, which takes more where columns are nearly dependent; a fifth of a group's weight ends some.

    Of the same covariates it opens a few bits more or less alone, by the luck of its noise.
    """
    X, labels, effect, estimand = drawn(seed, 0.6, skewed=True)
    for digits in BARS:
        federation = session("", effect, estimand, digits, tables=X, labels=labels)
        try:
            bits = federation.run()[0].bits
        except NotConverged:
            continue
        alone = Federation(
            X,
            Task.GLM,
            Split.HORIZONTAL,
            labels=[own[:, [1]] for own in labels],
            glm=ModelPlan(Family.BINOMIAL, "logit", digits=digits),
            release=(Item.COEFFICIENTS, Item.INTERCEPT, Item.INFERENCE),
        )
        usual = alone.run()[0].bits
        assert bits - usual < expected_bits(federation.plan) - expected_bits(alone.plan)
        assert bits < granted_bits(federation.plan)


# --- what has no answer -----------------------------------------------------------------------------------------------


def test_a_record_with_more_than_a_fifth_of_its_groups_own_weight_ends_the_study():
    """R fits these. Overlap weights are bounded, and trimming leaves the record out."""
    name, estimand = ALONE
    with pytest.raises(NotConverged, match="more than 20% of a group's weight at a party"):
        session(name, "gaussian", estimand).run()
    for words in ({"estimand": "overlap"}, {"estimand": estimand, "trim": 0.1}):
        (model,) = session(name, "gaussian", **words).run()[0].models
        assert np.isfinite(model.standard_errors).all()


@pytest.mark.parametrize(
    ("weights", "verdict"),
    [
        ([1.0] * 10, False),
        ([1.0] * 9 + [2.25], False),  # a fifth of all
        ([1.0] * 9 + [2.3], True),
        ([1.0] * 4 + [2.0], False),  # of five records one may have twice its share: its owner was asked
        ([1.0] * 4 + [3.0], True),
        ([0.0] * 12, True),  # all left out
        ([1.0], False),
    ],
)
def test_a_fifth_is_judged_within_each_group(weights, verdict):
    other = np.ones(40)
    for treated in (0.0, 1.0):
        group = np.concatenate((np.full(len(weights), treated), np.full(40, 1.0 - treated)))
        assert stands_out(np.concatenate((weights, other)), group) is verdict


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"treated": 2.0}, "a treatment is neither 0 nor 1"),
        ({"binomial": 3.0}, "must be 0 or 1"),
    ],
)
def test_treatments_and_outcomes_are_what_they_say(change, text):
    labels = by_site("made", "binomial", "treated")
    (column, value), place = next(iter(change.items())), {"binomial": 0, "treated": 1}
    labels[1][4, place[column]] = value
    with pytest.raises(DataError, match=text):
        session("made", "binomial", labels=labels).run()


def test_a_limit_that_a_job_chooses_is_refused():
    with pytest.raises(ConfigError, match=r"trim = 0.07: a limit of a job's own could be moved past one person"):
        session("made", "gaussian", trim=0.07).run()
