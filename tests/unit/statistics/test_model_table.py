"""The tables of generalised linear models as columns and values, and models read back from them."""

import json

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, roc_auc_score, roc_curve
from tests.tolerances import RESULT_BAR, assert_close, assert_each_close
from tests.unit.statistics.driving import drive
from tests.unit.statistics.test_glm import drawn, fitted

from fedsvd.errors import ShapeError
from fedsvd.statistics import glm, multinomial
from fedsvd.statistics.families import GAMMA, LOGIT
from fedsvd.statistics.irls import Proposal
from fedsvd.statistics.model_table import at_level, columns, model_from, values
from fedsvd.statistics.ranking import area_under, brier, calibration, roc

FEATURES = ["a", "b", "c", "d"]


def several():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 2))
    codes = np.argmax(X @ rng.normal(size=(2, 3)) + rng.gumbel(size=(300, 3)), axis=1).astype(float)
    answer = lambda request, rows: multinomial.contribution(request, X[rows], codes[rows], 3)  # noqa: E731
    return drive(multinomial.fit(3, 2), answer, 300)[0]


@pytest.mark.parametrize("family", [LOGIT, GAMMA])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_a_model_is_read_back_from_its_values(family, alpha):
    X, targets, _, _ = drawn()
    model, _ = fitted(family, X, targets[family.name], alpha=alpha)
    said = json.loads(json.dumps(values(model)))
    covariance = model.covariance if isinstance(model.covariance, np.ndarray) else None
    again = model_from(said, model.coefficients, True, covariance)
    assert values(again) == said
    assert repr(again) == repr(model)
    if alpha == 0.0:
        assert_each_close(again.intervals, model.intervals, RESULT_BAR)
    else:
        assert again.standard_errors == model.standard_errors


def test_a_model_of_several_classes_is_read_back_and_has_a_row_to_each_class_but_the_first():
    model = several()
    said = json.loads(json.dumps(values(model)))
    again = model_from(said, model.coefficients, True, model.covariance)
    assert_close(again.p, model.p, RESULT_BAR)
    table = columns(model, ["a", "b"], ["x", "y", "z"])
    assert table["class"] == ["y"] * 3 + ["z"] * 3
    assert table["term"] == ["(intercept)", "a", "b"] * 2
    assert_close(table["coef"], model.coefficients.ravel(), RESULT_BAR)


def test_columns_are_those_of_the_coefficients_and_another_level_moves_the_intervals_alone():
    X, targets, _, _ = drawn()
    model, _ = fitted(LOGIT, X, targets["binomial"])
    table = columns(model, FEATURES)
    assert tuple(table) == ("term", "coef", "se", "z", "p", "low", "high")
    assert "t" in columns(fitted(GAMMA, X, targets["gamma"])[0], FEATURES)  # its scale is estimated
    wide = columns(at_level(model, 0.99), FEATURES)
    assert wide["se"] == table["se"]
    assert all(a < b for a, b in zip(wide["low"], table["low"], strict=True))
    with pytest.raises(ShapeError, match="names"):
        columns(model, FEATURES[:2])


def test_a_proposal_is_accepted_to_rounding_and_no_further():
    X, targets, _, _ = drawn()
    found = []

    def watched(generator):
        answer = yield next(generator)
        while True:
            try:
                asked = generator.send(answer)
            except StopIteration as end:
                return end.value
            if isinstance(asked, Proposal):
                found.append(asked)
            answer = yield asked

    y = targets["binomial"]
    drive(watched(glm.fit(LOGIT)), lambda request, rows: glm.contribution(request, LOGIT, X[rows], y[rows]), len(y))
    assert len(found) > 3
    for proposal in found:
        close, far, other = (proposal.numbers.copy() for _ in range(3))
        close[:-4] *= 1.0 + 1e-15
        far[:-4] *= 1.0 + 1e-6
        other[-1] -= 1.0
        assert proposal.accepts(close)
        assert not proposal.accepts(far)
        assert not proposal.accepts(other)  # another rank
        assert not proposal.accepts(proposal.numbers[:-1])


def test_ranks_and_probabilities_are_measured_as_scikit_learn_measures_them():
    rng = np.random.default_rng(0)
    share = np.round(rng.random(500), 2)
    outcome = (rng.random(500) < share).astype(float)
    assert_close(area_under(outcome, share), roc_auc_score(outcome, share), RESULT_BAR)
    assert_close(brier(outcome[:, None], share[:, None]), brier_score_loss(outcome, share), RESULT_BAR)
    false, true = roc(outcome, share)
    theirs = roc_curve(outcome, share, drop_intermediate=False)
    assert_close(false, theirs[0], RESULT_BAR)
    assert_close(true, theirs[1], RESULT_BAR)
    groups = calibration(outcome, share, 10)
    assert sum(count for _, _, count in groups) == 500
    assert [predicted for predicted, _, _ in groups] == sorted(predicted for predicted, _, _ in groups)
    assert_close(sum(found * count for _, found, count in groups), outcome.sum(), RESULT_BAR)
    assert area_under(np.ones(5), share[:5]) is None
