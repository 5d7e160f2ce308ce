"""NIST's certified regressions from a float64 factor, as the statistics of a table that is not refined has them."""

import numpy as np
import pytest
from tests.tolerances import SEVEN_DIGITS, TEN_DIGITS, assert_each_close
from tests.unit.statistics.certified import Certified, filip_set, longley_set, wampler_set

from fedsvd.statistics.inference import infer


def table(data: Certified) -> np.ndarray:
    return np.column_stack((np.ones(len(data.y)), data.X, data.y))


def test_longley_has_ten_certified_digits_from_a_float64_factor():
    data = longley_set()
    model = infer(np.linalg.qr(table(data), mode="r"), len(data.y))[0]
    assert_each_close(model.coefficients, data.coefficients, TEN_DIGITS)
    assert_each_close(model.standard_errors, data.errors, TEN_DIGITS)
    assert_each_close([model.sigma, model.r2, model.f], [data.sigma, data.r2, data.f], TEN_DIGITS)


@pytest.mark.parametrize("number", [3, 4, 5])
def test_wampler_errors_need_no_refinement(number):
    data = wampler_set(number)
    model = infer(np.linalg.qr(table(data), mode="r"), len(data.y))[0]
    assert_each_close(model.standard_errors, data.errors, TEN_DIGITS)


def test_filip_has_seven_certified_digits_from_a_float64_factor():
    data = filip_set()
    model = infer(np.linalg.qr(table(data), mode="r"), len(data.y))[0]
    assert_each_close(model.coefficients, data.coefficients, SEVEN_DIGITS)
    assert_each_close(model.standard_errors, data.errors, SEVEN_DIGITS)
    assert_each_close([model.sigma, model.r2, model.f], [data.sigma, data.r2, data.f], SEVEN_DIGITS)
