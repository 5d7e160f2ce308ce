"""Cox models through the real roles: statsmodels' stratified PHReg, R's recorded values, and every degenerate case."""

import json
from pathlib import Path

import numpy as np
import pytest
import statsmodels.api as sm
from tests.kit import kit, r_said
from tests.survival_data import MADE, OF_R
from tests.survival_data import table as survival_table
from tests.tolerances import (
    COX_ERRORS_BAR,
    DIGITS_ERRORS_BAR,
    DIGITS_MORE_BAR,
    DIGITS_STEP_BAR,
    GLM_BAR,
    PRINTED_BAR,
    SCORE_TEST_BAR,
)

from fedsvd.errors import DataError, NotConverged, ReleaseRefused, Separated
from fedsvd.protocol.messages import SumShare
from fedsvd.protocol.model import Digits, ModelPlan
from fedsvd.protocol.openings import expected_bits, granted_bits
from fedsvd.protocol.parties import CSP
from fedsvd.protocol.tasks import Family, Split, Task
from fedsvd.testing.federation import Federation

pytestmark = pytest.mark.filterwarnings("ignore")


def drawn(rows=(160, 90, 50), p=3, seed=0, censored=0.4):
    """Tables of sites with their own baseline hazards, times in whole months, columns off centre."""
    rng = np.random.default_rng(seed)
    tables, labels = [], []
    for site, n in enumerate(rows):
        X = rng.normal(size=(n, p)) * 10.0 ** rng.integers(-2, 3, p) + rng.uniform(-50, 50, p)
        eta = (X - X.mean(axis=0)) / X.std(axis=0) @ rng.normal(0, 0.4, p)
        time = np.ceil(rng.exponential(20.0 * (1 + site) * np.exp(-eta)))
        event = (rng.random(n) > censored).astype(float)
        tables.append(X)
        labels.append(np.column_stack((time, event)))
    return tables, labels


def session(tables, labels, ties="efron", digits=Digits.TABLE, alpha=0.0, **keys):
    about = ModelPlan(Family.COX, "log", ties=ties, digits=digits, **keys)
    return Federation(tables, Task.COX, Split.HORIZONTAL, labels=labels, glm=about, alpha=alpha)


def reference(tables, labels, ties, more=None):
    """PHReg of the joint table, strata by site, after Newton steps at the end: it stops early.

    Columns are centred and scaled before: statsmodels' own rounding grows with their means.
    """
    X, L = np.concatenate(tables), np.concatenate(labels)
    site = np.repeat(np.arange(len(tables)), [len(own) for own in tables]).astype(float)
    centre, scale = X.mean(axis=0), X.std(axis=0)
    if more == "strata":
        site = 100.0 * site + L[:, 2]
    given = {"entry": L[:, 2]} if more == "entry" else {"offset": L[:, 2]} if more == "offset" else {}
    model = sm.PHReg(L[:, 0], (X - centre) / scale, L[:, 1], ties=ties, strata=site, **given)
    beta = model.fit().params
    for _ in range(4):
        beta = beta - np.linalg.solve(model.hessian(beta), model.score(beta))
    errors = np.sqrt(np.diag(np.linalg.inv(-model.hessian(beta))))
    return beta / scale, errors / scale, model.loglike(beta)


def by_pairs(tables, labels, effects):
    """Harrell's concordance within sites, pair by pair."""
    concordant = pairs = 0.0
    for X, own in zip(tables, labels, strict=True):
        eta, (time, event) = (X - X.mean(axis=0)) @ effects, own.T
        for i in np.flatnonzero(event):
            later = (time > time[i]) | ((time == time[i]) & (event == 0))
            concordant += np.sum(eta[i] > eta[later]) + 0.5 * np.sum(eta[i] == eta[later])
            pairs += np.sum(later)
    return concordant / pairs


def apart(model, effects, errors):
    return (
        float((np.abs(model.coefficients - effects) / errors).max()),
        float(np.abs(model.standard_errors / errors - 1.0).max()),
    )


CASES = [("efron", Digits.TABLE, 1), ("breslow", Digits.MORE, 2)]
KINDS = [(ties, digits) for ties in ("efron", "breslow") for digits in (Digits.TABLE, Digits.MORE)]
MORE = [(*KINDS[seed % 4], seed) for seed in range(3, 65)]


@pytest.mark.parametrize(
    ("ties", "digits", "seed"), [*CASES, *(pytest.param(*case, marks=pytest.mark.slow) for case in MORE)]
)
def test_a_cox_model_is_statsmodels_with_strata_by_site(ties, digits, seed):
    rng = np.random.default_rng(seed)
    tables, labels = drawn(tuple(rng.integers(30, 200, int(rng.integers(2, 6)))), int(rng.integers(1, 6)), seed)
    federation = session(tables, labels, ties, digits)
    results = federation.run()
    model = results[0].models[0]
    effects, errors, likelihood = reference(tables, labels, ties)
    step, relative = apart(model, effects, errors)
    assert step < DIGITS_STEP_BAR
    assert relative < (DIGITS_MORE_BAR if digits is Digits.MORE else DIGITS_ERRORS_BAR)
    assert abs(model.log_likelihood / likelihood - 1.0) < DIGITS_ERRORS_BAR
    assert model.events == int(np.concatenate(labels)[:, 1].sum())
    assert abs(model.concordance - by_pairs(tables, labels, effects)) < DIGITS_ERRORS_BAR
    assert results[0].bits < granted_bits(federation.plan)
    assert results[0].bits <= expected_bits(federation.plan)


@pytest.mark.parametrize("more", ["entry", "strata", "offset"])
def test_entry_strata_and_offset_are_statsmodels(more):
    tables, labels = drawn(seed=5)
    rng = np.random.default_rng(6)
    for place, own in enumerate(labels):
        third = {
            "entry": np.maximum(0.5, own[:, 0] - rng.integers(1, 30, len(own))) - 0.5,
            "strata": rng.integers(0, 3, len(own)).astype(float),
            "offset": rng.normal(0, 0.5, len(own)),
        }
        labels[place] = np.column_stack((own, third[more]))
    model = (
        session(tables, labels, **({"offset": True} if more == "offset" else {"beside": (more,)})).run()[0].models[0]
    )
    step, relative = apart(model, *reference(tables, labels, "efron", more)[:2])
    assert step < DIGITS_STEP_BAR
    assert relative < DIGITS_ERRORS_BAR


def test_weights_are_numbers_of_records_with_breslows_ties():
    tables, labels = drawn(seed=7)
    rng = np.random.default_rng(8)
    often = [rng.integers(1, 4, len(own)) for own in labels]
    weighted = [np.column_stack((own, w.astype(float))) for own, w in zip(labels, often, strict=True)]
    model = session(tables, weighted, "breslow", weighted=True).run()[0].models[0]
    repeated = [np.repeat(X, w, axis=0) for X, w in zip(tables, often, strict=True)]
    again = [np.repeat(own, w, axis=0) for own, w in zip(labels, often, strict=True)]
    step, relative = apart(model, *reference(repeated, again, "breslow")[:2])
    assert step < DIGITS_STEP_BAR
    assert relative < DIGITS_ERRORS_BAR
    assert model.events == int(np.concatenate(labels)[:, 1].sum()), "events are counted, not weighted"


# --- R ----------------------------------------------------------------------------------------------------------------

# Effects and standard errors that R 4.2.2 with survival 3.5.3 printed for coxph(Surv(time, status) ~ ... +
# strata(site)) on tables that come with survival, each cut into sites (``tests/kit.py``).


@pytest.mark.parametrize(
    ("name", "ties"), [("lung", "efron"), ("pbc", "efron"), ("veteran", "breslow"), ("colon", "efron")]
)
def test_recorded_values_of_r_are_met(name, ties):
    data = kit(name)
    table, head = data.to_numpy(float), list(data.columns)
    features = [j for j, column in enumerate(head) if column not in ("time", "status", "site")]
    beside = [head.index("time"), head.index("status")]
    sites = [table[table[:, head.index("site")] == s] for s in np.unique(table[:, head.index("site")])]
    model = session([own[:, features] for own in sites], [own[:, beside] for own in sites], ties).run()[0].models[0]
    if ties == "efron":
        assert abs(model.concordance - r_said(name, "concordance_site")[0]) < DIGITS_ERRORS_BAR
    step, relative = apart(model, *(r_said(name, "cox_site", ties, kind) for kind in ("coef", "se")))
    assert step < DIGITS_STEP_BAR
    assert relative < DIGITS_ERRORS_BAR


# --- what has no answer -----------------------------------------------------------------------------------------------


def test_a_site_without_events_changes_nothing_but_the_rows():
    tables, labels = drawn(seed=9)
    alone = reference(tables[:2], labels[:2], "efron")
    labels[2][:, 1] = 0.0
    model = session(tables, labels).run()[0].models[0]
    step, relative = apart(model, *alone[:2])
    assert step < DIGITS_STEP_BAR
    assert relative < DIGITS_ERRORS_BAR


def test_a_site_of_eight_rows_takes_part():
    tables, labels = drawn((160, 90, 8), seed=10)
    step, _ = apart(session(tables, labels).run()[0].models[0], *reference(tables, labels, "efron")[:2])
    assert step < DIGITS_STEP_BAR


def test_no_event_at_all_is_an_error_before_any_score():
    tables, labels = drawn()
    for own in labels:
        own[:, 1] = 0.0
    federation = session(tables, labels)
    with pytest.raises(DataError, match="no event was seen by any party"):
        federation.run()
    assert not any(m.name.startswith("score") for _, m in federation.views.of(CSP, SumShare))


def test_few_events_end_the_session_before_any_score():
    tables, labels = drawn(censored=0.97)
    federation = session(tables, labels, least_class=10, least_events=5)
    with pytest.raises(ReleaseRefused, match="fewer than this study asks for"):
        federation.run()
    assert not any(m.name.startswith("score") for _, m in federation.views.of(CSP, SumShare))


def test_a_column_that_is_constant_inside_every_site_is_named():
    tables, labels = drawn()
    for site, own in enumerate(tables):
        own[:, 1] = float(site)
    with pytest.raises(DataError, match="column 2 is a combination"):
        session(tables, labels).run()


def test_an_only_event_that_leaves_last_has_no_information():
    tables, labels = drawn()
    for own in labels:
        own[:, 1] = 0.0
    labels[0][:, 0] = np.arange(1.0, len(labels[0]) + 1)
    labels[0][-1, 1] = 1.0
    with pytest.raises(DataError, match="column 1 is a combination"):
        session(tables, labels).run()


def test_a_monotone_likelihood_ends_without_a_table():
    tables, labels = drawn(p=1, censored=0.0)
    for X, own in zip(tables, labels, strict=True):
        X[:, 0] = (own[:, 0] > np.median(own[:, 0])).astype(float)
        own[:, 1] = 1.0 - X[:, 0]  # records with a 1 leave after all events
    with pytest.raises((Separated, NotConverged)):
        session(tables, labels).run()


def test_ties_everywhere_have_the_effect_zero_as_in_r():
    tables, labels = drawn(censored=0.0)
    for own in labels:
        own[:, 0] = 7.0
    model = session(tables, labels).run()[0].models[0]
    assert np.abs(model.coefficients / model.standard_errors).max() < DIGITS_STEP_BAR
    assert np.isnan(model.concordance), "no pair can be compared"


def test_times_of_zero_and_below_are_times_like_others():
    tables, labels = drawn(seed=11)
    moved = [np.column_stack((own[:, 0] - 15.0, own[:, 1])) for own in labels]
    one, other = (session(tables, each, digits=Digits.MORE).run()[0].models[0] for each in (labels, moved))
    assert (np.abs(one.coefficients - other.coefficients) / one.standard_errors).max() < DIGITS_STEP_BAR


def test_a_ridge_has_its_effects_and_no_errors():
    tables, labels = drawn(seed=12)
    tables = [(X - X.mean(axis=0)) / X.std(axis=0) for X in tables]
    model = session(tables, labels, alpha=5.0).run()[0].models[0]
    X, L = np.concatenate(tables), np.concatenate(labels)
    site = np.repeat(np.arange(3.0), [len(own) for own in tables])
    plain = sm.PHReg(L[:, 0], X, L[:, 1], ties="efron", strata=site)
    beta = np.zeros(3)
    for _ in range(30):
        beta = beta - np.linalg.solve(plain.hessian(beta) - 5.0 * np.eye(3), plain.score(beta) - 5.0 * beta)
    assert np.abs(model.coefficients - beta).max() < DIGITS_STEP_BAR
    assert "penal" in str(model.standard_errors.reason)


RECORDED_R = json.loads((Path(__file__).parents[2] / "vectors" / "survival-r.json").read_text(encoding="utf-8"))


def of_sites(name, ties):
    """A data set as tables and labels by site, and R's answers with strata(site)."""
    data, said = survival_table(name), RECORDED_R[name][ties]
    terms = np.atleast_1d(said["terms"]).tolist()
    parts = [data[data["site"] == site] for site in sorted(data["site"].unique())]
    return (
        [own[terms].to_numpy(float) for own in parts],
        [own[["time", "status"]].to_numpy(float) for own in parts],
        said,
    )


@pytest.mark.parametrize("ties", ["efron", "breslow"])
@pytest.mark.parametrize("name", [*MADE, *OF_R])
def test_effects_errors_and_tests_are_rs_with_strata_by_site(name, ties):
    tables, labels, said = of_sites(name, ties)
    for digits, bar in ((Digits.TABLE, COX_ERRORS_BAR), (Digits.MORE, DIGITS_MORE_BAR)):
        found = session(tables, labels, ties, digits).run()[0].models[0]
        errors = np.atleast_1d(said["se"])
        assert (np.abs(found.coefficients - np.atleast_1d(said["coef"])) / errors).max() < DIGITS_STEP_BAR
        assert np.abs(np.sqrt(np.diag(found.covariance)) / errors - 1.0).max() < bar
        assert abs(found.wald[0] / said["wald"] - 1.0) < 2.0 * bar * len(errors)
        assert abs(found.likelihood_ratio[0] - said["lr"]) < PRINTED_BAR * found.deviance  # of sums of 24 bits
        assert abs(found.score[0] / said["score"] - 1.0) < SCORE_TEST_BAR
        assert abs(found.concordance - said["concordance"]) < PRINTED_BAR


@pytest.mark.parametrize("name", [*MADE, *OF_R])
def test_each_site_has_its_own_baseline_hazard_and_it_is_rs(name):
    tables, labels, said = of_sites(name, "efron")
    outcome = session(tables, labels, "efron", Digits.MORE).run()
    baselines = [party.own["baseline"] for party in outcome]
    own = baselines[0]
    place = np.searchsorted(np.array(said["base.time"]), own[:, 1], side="right") - 1
    assert np.abs(own[:, 2] / np.array(said["base.hazard"])[place] - 1.0).max() < GLM_BAR
    assert [len(each) for each in baselines] == [len(np.unique(y[y[:, 1] == 1.0, 0])) for y in labels]
