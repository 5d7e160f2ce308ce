"""AUC by pairs within sites with its error, and the Brier score, of all parties: by one sum of four numbers."""

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, roc_auc_score
from tests.tolerances import EPS, assert_close

import fedsvd
from fedsvd import FederatedGLM, FederatedLogisticRegression
from fedsvd.errors import ConfigError
from fedsvd.protocol.model import QUALITY_BITS
from fedsvd.protocol.openings import expected_bits
from fedsvd.statistics.newton import NOISE
from fedsvd.statistics.ranking import LEAST, within

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning", "ignore:events")


def parties(sizes=(60, 80, 50), seed=1):
    rng = np.random.default_rng(seed)
    tables = [rng.normal(size=(n, 3)) for n in sizes]
    return tables, [(rng.random(len(X)) < 1.0 / (1.0 + np.exp(-X @ [1.0, -1.0, 0.5]))).astype(int) for X in tables]


def bar(k):
    """Relative: every party rounds to a unit of k 2^(e - 24) and adds four, 2^e at most twice the largest number."""
    return 2.0 * k * (NOISE + 0.5) * k * 2.0**-QUALITY_BITS


def delong(outcome, score):
    """The variance of an AUC by every single pair."""
    case, control = score[outcome == 1], score[outcome == 0]
    order = (case[:, None] > control) + 0.5 * (case[:, None] == control)
    return order.mean(axis=1).var(ddof=1) / len(case) + order.mean(axis=0).var(ddof=1) / len(control)


@pytest.mark.parametrize("ties", [False, True])
def test_pairs_of_one_party_are_counted_and_have_delongs_variance(ties):
    rng = np.random.default_rng(5)
    outcome, score = (rng.random(90) < 0.4).astype(float), rng.normal(size=90)
    score = np.round(score + outcome) if ties else score + outcome
    concordant, pairs, variance = within(outcome, score)
    assert pairs == outcome.sum() * (1 - outcome).sum()
    assert_close(concordant / pairs, roc_auc_score(outcome, score), 90 * EPS)
    assert_close(variance / pairs**2, delong(outcome, score), 1e3 * EPS)


def test_a_party_with_few_cases_or_controls_adds_no_pairs():
    score = np.arange(40.0)
    for cases in range(LEAST):
        outcome = (np.arange(40) < cases).astype(float)
        assert within(outcome, score) == within(1.0 - outcome, score) == (0.0, 0.0, 0.0)
    assert within((np.arange(40) < LEAST).astype(float), score)[1] == LEAST * (40 - LEAST)


@pytest.mark.parametrize("digits", ["all", "table"])
def test_the_quality_of_all_parties_is_that_of_pairs_within_them(digits):
    tables, outcomes = parties()
    found = FederatedLogisticRegression(quality=True, digits=digits).fit(tables, outcomes)
    scores = [found.decision_function(X) for X in tables]
    pairs = np.array([y.sum() * (1 - y).sum() for y in outcomes])
    areas = np.array([roc_auc_score(y, score) for y, score in zip(outcomes, scores, strict=True)])
    errors = np.array([delong(y, score) for y, score in zip(outcomes, scores, strict=True)])
    measured = found.quality_
    assert_close(measured.pairs, pairs.sum(), bar(3))
    assert_close(measured.auc, (pairs @ areas) / pairs.sum(), 2 * bar(3))
    assert_close(measured.auc_error, np.sqrt(pairs**2 @ errors) / pairs.sum(), 2 * bar(3))
    shares = np.concatenate([found.predict_proba(X)[:, 1] for X in tables])
    assert_close(measured.brier, brier_score_loss(np.concatenate(outcomes), shares), bar(3))
    plain = FederatedLogisticRegression(digits=digits).fit(tables, outcomes)
    assert expected_bits(found.plan_) - expected_bits(plain.plan_) == 4 * (24 + 7)
    assert not hasattr(plain, "quality_")


def test_of_two_parties_one_learns_nothing_of_the_few_cases_of_the_other():
    """Joint less own is the other's: with four cases its pairs would place them among its controls."""
    tables, outcomes = parties((80, 60))
    outcomes[1][:] = 0
    outcomes[1][:4] = 1
    measured = FederatedLogisticRegression(quality=True, digits="table").fit(tables, outcomes).quality_
    own = outcomes[0].sum() * (1 - outcomes[0]).sum()
    assert measured.pairs == own  # whatever the other's four cases are
    assert measured.auc is not None


def test_without_pairs_there_is_a_brier_score_alone():
    tables, outcomes = parties((40, 40, 40))
    for y in outcomes:
        y[:] = 0
        y[[3, 8, 20, 30]] = 1
    measured = FederatedLogisticRegression(quality=True).fit(tables, outcomes).quality_
    assert (measured.pairs, measured.auc, measured.auc_error) == (0.0, None, None)
    assert 0.0 < measured.brier < 0.25


@pytest.mark.parametrize("kind", [FederatedGLM("poisson", quality=True), FederatedLogisticRegression(quality=True)])
def test_quality_is_of_two_classes(kind):
    tables, outcomes = parties()
    three = [y + (X[:, 0] > 1.0) for X, y in zip(tables, outcomes, strict=True)]
    with pytest.raises(ConfigError, match="quality is of a binomial model of two classes"):
        kind.fit(tables, three)


def test_a_folder_has_the_quality_for_all_and_the_report_says_it(tmp_path):
    from tests.studies import hospitals
    from tests.unit.results.report.pages import page, study

    files = hospitals(tmp_path, classes=("no", "yes"))
    keys = {"family": "binomial", "label": "outcome", "id": "patient", "classes": ["no", "yes"], "quality": True}
    out = study(files.job(task="glm", **keys))
    shared, own = fedsvd.load(out), fedsvd.load(out / "parties" / "north")
    assert shared.quality_ == own.quality_
    assert f"area under the ROC curve {shared.quality_.auc:.4f}" in page(out).text
    assert "pairs of a case and a control within sites" in page(out).text
