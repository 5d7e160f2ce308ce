"""A regression table as columns and values says what the model says, and the model can be had from them again."""

import json

import numpy as np
import pytest
from tests.tolerances import assert_close, assert_each_close, digits_lost
from tests.unit.statistics.test_centred import drawn, opened

from fedsvd.errors import ConfigError, ShapeError
from fedsvd.statistics.centred import infer_centred
from fedsvd.statistics.inference import predict
from fedsvd.statistics.table import COLUMNS, at_level, columns, model_from, values
from fedsvd.statistics.undefined import NO_FREEDOM, PENALISED, is_array


def held(**options):
    X, y = drawn(n=options.pop("n", 80))
    X = np.column_stack((X, X[:, 0])) if options.pop("lost", False) else X
    return X, infer_centred(**opened(X, y, **options))[0]


def back(model):
    said = json.loads(json.dumps(values(model), allow_nan=False))
    covariance = model.covariance if is_array(model.covariance) else None
    vif = model.vif if is_array(model.vif) else None
    return model_from(said, model.coefficients, model.intercept, covariance, vif)


def test_columns_have_one_row_to_each_term_the_intercept_first():
    _, model = held()
    table = columns(model, list("abcd"))
    assert tuple(table) == COLUMNS
    assert table["term"] == ["(intercept)", "a", "b", "c", "d"]
    np.testing.assert_array_equal(table["coef"], model.coefficients)
    np.testing.assert_array_equal(np.column_stack((table["low"], table["high"])), model.intervals)
    _, without = held(intercept=False)
    assert columns(without, list("abcd"))["term"] == list("abcd")


def test_what_is_not_defined_is_no_number_and_its_reason_is_among_the_values():
    for options, reason in (({"alpha": 1.0}, PENALISED), ({"n": 5}, NO_FREEDOM)):
        X, model = held(**options)
        assert np.isnan(columns(model, [str(j) for j in range(X.shape[1])])["se"]).all()
        said = values(model)
        assert said["not_defined"]["standard_errors"] == reason.reason
        assert all(said[name] is None for name in said["not_defined"] if name in said)


def test_names_that_do_not_fit_are_refused():
    with pytest.raises(ShapeError):
        columns(held()[1], ["a", "b"])


def test_another_level_changes_the_intervals_alone():
    _, model = held()
    wider = at_level(model, 0.99)
    assert np.all(np.ptp(wider.intervals, axis=1) > np.ptp(model.intervals, axis=1))
    np.testing.assert_array_equal(wider.p, model.p)
    with pytest.raises(ConfigError):
        at_level(model, 95.0)


@pytest.mark.parametrize("options", [{}, {"intercept": False}])
def test_a_model_read_back_predicts_with_the_same_intervals(options):
    X, model = held(**options)
    again = back(model)
    for name in ("standard_errors", "t", "p", "intervals"):
        assert_each_close(getattr(again, name), getattr(model, name), digits_lost(3))
    assert (again.sigma, again.r2, again.aic, again.n) == (model.sigma, model.r2, model.aic, model.n)
    assert_close(predict(again, X).prediction, predict(model, X).prediction, digits_lost(4))


def test_a_model_without_standard_errors_is_read_back_with_the_reason():
    _, model = held(alpha=1.0)
    again = back(model)
    assert (again.standard_errors, again.p, again.covariance) == (PENALISED, PENALISED, PENALISED)
    assert np.isnan([model.condition, again.condition]).all()  # a ridge has none


def test_a_model_with_an_aliased_column_is_read_back_as_such():
    X, model = held(lost=True)
    again = back(model)
    assert again.aliased == (5,)
    np.testing.assert_array_equal(again.coefficients, model.coefficients)
    assert_each_close(again.standard_errors, model.standard_errors, digits_lost(3))
    assert_close(predict(again, X).prediction, predict(model, X).prediction, digits_lost(4))
    assert again.condition == np.inf
