"""AUC by pairs within sites, its error, Brier score, and by counts the ROC and calibration curves of all parties."""

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, roc_auc_score
from tests.studies import hospitals
from tests.tolerances import EPS, assert_close
from tests.unit.results.report.pages import page, study

import fedsvd
from fedsvd import FederatedGLM, FederatedLogisticRegression
from fedsvd.errors import ConfigError, DataError
from fedsvd.prepare.dictionary import dictionary_of
from fedsvd.protocol.openings import expected_bits
from fedsvd.protocol.quality import QUALITY_BITS
from fedsvd.statistics.newton import NOISE
from fedsvd.statistics.ranking import LEAST, within
from fedsvd.studies.counted_columns import counted_by
from fedsvd.studies.study_section import StudySection

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

    files = hospitals(tmp_path, classes=("no", "yes"))
    keys = {"family": "binomial", "label": "outcome", "id": "patient", "classes": ["no", "yes"], "quality": True}
    out = study(files.job(task="glm", **keys))
    shared, own = fedsvd.load(out), fedsvd.load(out / "parties" / "north")
    assert shared.quality_ == own.quality_
    assert f"area under the ROC curve {shared.quality_.auc:.4f}" in page(out).text
    assert "pairs of a case and a control within sites" in page(out).text


# --- curves of all parties --------------------------------------------------------------------------------------------


def counted(y, score, edges, least):
    """Cases, then controls, at or below each edge, in multiples."""
    own = [[np.count_nonzero(score[y == label] <= edge) for edge in (*edges, np.inf)] for label in (1, 0)]
    return least * np.rint(np.array(own) / least)


@pytest.mark.parametrize("digits", ["all", "table"])
@pytest.mark.parametrize("least", [1, 5, 10])
def test_the_counts_of_all_parties_are_sums_of_their_own_as_each_rounded_them(digits, least):
    tables, outcomes = parties()
    found = FederatedLogisticRegression(roc=least, digits=digits).fit(tables, outcomes)
    scores = [found.decision_function(X) for X in tables]
    own = [counted(y, score, found.roc_.edges, least) for y, score in zip(outcomes, scores, strict=True)]
    assert np.stack((found.roc_.cases, found.roc_.controls)).tolist() == sum(own).tolist()
    assert (found.roc_.least, found.roc_.parties) == (least, 3)
    assert found.quality_.auc is not None
    plain = FederatedLogisticRegression(digits=digits).fit(tables, outcomes)
    assert expected_bits(found.plan_) - expected_bits(plain.plan_) == 6 * (24 + 7) + 130 * (190 // least).bit_length()
    assert not hasattr(plain, "roc_")


@pytest.mark.parametrize("more", [{}, {"multi_class": "ovr"}])
def test_the_curve_is_of_two_classes(more):
    tables, outcomes = parties()
    three = [y + (X[:, 0] > 1.0) for X, y in zip(tables, outcomes, strict=True)]
    with pytest.raises(ConfigError, match="roc is of a binomial model of two classes"):
        FederatedLogisticRegression(roc=5, **more).fit(tables, three)
    with pytest.raises(ConfigError, match="without weights"):
        FederatedLogisticRegression(roc=5).fit(tables, outcomes, [np.full(len(y), 2.0) for y in outcomes])


@pytest.mark.filterwarnings("ignore::fedsvd.errors.DataWarning")
def test_shares_of_trials_are_neither_cases_nor_controls():
    tables, outcomes = parties()
    shares = [np.where(np.arange(len(y)) < 3, 0.5, y) for y in outcomes]
    with pytest.raises(DataError, match="cases or controls"):
        FederatedGLM("binomial", quality=True).fit(tables, shares)


@pytest.mark.parametrize("thresholds", [[1.0], [0.0], [0.5, 2.0]])
def test_a_threshold_is_a_probability(thresholds):
    with pytest.raises(ConfigError, match="thresholds is not usable"):
        FederatedLogisticRegression(roc=5, thresholds=thresholds).fit(*parties())


def test_a_folder_has_the_curve_of_all_and_draws_own_records_beside_it(tmp_path):

    files = hospitals(tmp_path, classes=("no", "yes"))
    keys = {"family": "binomial", "label": "outcome", "id": "patient", "classes": ["no", "yes"], "roc": 5}
    out = study(files.job(task="glm", thresholds=[0.3], **keys))
    shared, own = fedsvd.load(out), fedsvd.load(out / "parties" / "north")
    assert shared.roc_.record() == own.roc_.record()
    table = np.genfromtxt(out / "roc.csv", delimiter=",", names=True)
    assert table["cases"].tolist() == shared.roc_.cases.tolist()
    assert table["linear_predictor"][:-1].tolist() == shared.roc_.edges.tolist()
    text = page(out).text
    assert "ROC curve of outcome = yes: records of all parties" in text
    assert "Hosmer-Lemeshow test: chi-squared" in text
    assert f"{shared.roc_.at_thresholds[0].sensitivity:.3f} (" in text
    for drawing in ("roc", "calibration"):
        alone, both = (getattr(each.plot, drawing)() for each in (shared, own))
        assert alone.get_title() == both.get_title()
        assert "records of all parties" in both.get_title()
        for drawn, second in ((alone, "every single record"), (both, "own records")):
            said = [text.get_text() for text in drawn.get_legend().get_texts()]
            assert [each.partition(":")[0] for each in said] == ["all parties", second]


def test_without_the_counts_a_partys_own_rows_are_drawn_and_say_so(tmp_path):

    files = hospitals(tmp_path, classes=("no", "yes"))
    keys = {"family": "binomial", "label": "outcome", "id": "patient", "classes": ["no", "yes"]}
    out = study(files.job(task="glm", **keys))
    assert "own records" in fedsvd.load(out / "parties" / "north").plot.roc().get_title()
    tables, outcomes = parties()
    with pytest.raises(ConfigError, match="each party has its own records"):
        FederatedLogisticRegression().fit(tables, outcomes).plot.roc()


def test_rows_that_are_given_are_drawn_alone():
    tables, outcomes = parties()
    found = FederatedLogisticRegression(roc=5).fit(tables, outcomes)
    drawn = found.plot.roc(tables, outcomes)
    assert "records given" in drawn.get_title()
    assert "records of all parties" in found.plot.roc().get_title()


def test_thresholds_are_the_dictionarys():

    known = dictionary_of({"columns": {"age": {}, "ill": {"levels": ["no", "yes"], "thresholds": [0.1, 0.2]}}})
    words = {"name": "j", "task": "glm", "label": "ill", "family": "binomial", "roc": 5, "classes": ["no", "yes"]}
    assert counted_by(known, StudySection(**words), ("ill",)).thresholds == (0.1, 0.2)
    assert counted_by(known, StudySection(**words, thresholds=[0.2]), ("ill",)).thresholds == (0.2,)
    with pytest.raises(ConfigError, match="thresholds that are not the dictionary's"):
        counted_by(known, StudySection(**words, thresholds=[0.15]), ("ill",))
    assert counted_by(known, StudySection(**{**words, "roc": 0}), ("ill",)).thresholds == ()
