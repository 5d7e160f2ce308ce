"""NIST's certified regressions, from a float64 factor and with the exact Gram matrix that a study sums."""

import numpy as np
import pytest
from tests.tolerances import SEVEN_DIGITS, TEN_DIGITS, assert_each_close, digits_lost
from tests.unit.statistics.certified import Certified, exact_integers, filip_set, longley_set, wampler_set

from fedsvd.errors import ShapeError
from fedsvd.linalg import exact_gram, ring128, wide_factor
from fedsvd.statistics.inference import infer
from fedsvd.statistics.refine import ExactGram


def table(data: Certified) -> np.ndarray:
    return np.column_stack((np.ones(len(data.y)), data.X, data.y))


def exact(data: Certified):
    M = table(data)
    return infer(np.linalg.qr(M, mode="r"), len(data.y), gram=ExactGram(*exact_integers(M)))[0]


def test_longley_has_ten_certified_digits_from_a_float64_factor():
    data = longley_set()
    model = infer(np.linalg.qr(table(data), mode="r"), len(data.y))[0]
    assert_each_close(model.coefficients, data.coefficients, TEN_DIGITS)
    assert_each_close(model.standard_errors, data.errors, TEN_DIGITS)
    assert_each_close([model.sigma, model.r2, model.f], [data.sigma, data.r2, data.f], TEN_DIGITS)


def test_longley_has_all_certified_digits_from_the_exact_gram_matrix():
    data = longley_set()
    model = exact(data)
    assert_each_close(model.coefficients, data.coefficients, digits_lost(2))
    assert_each_close([model.sigma, model.r2, model.f], [data.sigma, data.r2, data.f], digits_lost(2))


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
def test_wampler_has_ten_certified_digits_from_the_exact_gram_matrix(number):
    data = wampler_set(number)
    model = exact(data)
    assert_each_close(model.coefficients, data.coefficients, TEN_DIGITS)
    if data.f is None:
        assert np.max(model.standard_errors) < TEN_DIGITS
        assert model.r2 == 1.0
    else:
        assert_each_close(model.standard_errors, data.errors, TEN_DIGITS)
        assert_each_close([model.sigma, model.r2, model.f], [data.sigma, data.r2, data.f], TEN_DIGITS)


@pytest.mark.parametrize("number", [3, 4, 5])
def test_wampler_errors_do_not_need_the_exact_gram_matrix(number):
    data = wampler_set(number)
    model = infer(np.linalg.qr(table(data), mode="r"), len(data.y))[0]
    assert_each_close(model.standard_errors, data.errors, TEN_DIGITS)


def test_filip_has_seven_certified_digits_from_a_float64_factor():
    data = filip_set()
    model = infer(np.linalg.qr(table(data), mode="r"), len(data.y))[0]
    assert_each_close(model.coefficients, data.coefficients, SEVEN_DIGITS)
    assert_each_close(model.standard_errors, data.errors, SEVEN_DIGITS)
    assert_each_close([model.sigma, model.r2, model.f], [data.sigma, data.r2, data.f], SEVEN_DIGITS)


@pytest.mark.parametrize("data", [longley_set(), filip_set(), wampler_set(5)], ids=["longley", "filip", "wampler5"])
def test_the_sum_of_a_study_reaches_the_certified_digits(data):
    """Columns scaled by powers of two, three parties, words of 2^-126, the wide factor: as a study has them."""
    M = table(data)
    exponents = tuple(int(np.frexp(np.linalg.norm(column))[1]) + 1 for column in M.T)
    scaled = M * 2.0 ** -np.array(exponents)
    words = sum_of_words([part.T for part in np.array_split(scaled, 3)])
    R = wide_factor.factor(words).R * 2.0 ** np.array(exponents)
    gram = ExactGram.of_words(words, exact_gram.UNIT_BITS, exponents)
    digits = SEVEN_DIGITS if len(data.coefficients) == 11 else TEN_DIGITS
    model = infer(R, len(data.y), gram=gram)[0]
    assert_each_close(model.coefficients, data.coefficients, digits)
    assert_each_close(model.standard_errors, data.errors, digits)
    assert_each_close([model.sigma, model.r2, model.f], [data.sigma, data.r2, data.f], digits)


def sum_of_words(parts: list[np.ndarray]) -> np.ndarray:
    m = parts[0].shape[0]
    shares = [exact_gram.sliced(part).rows(0, m) for part in parts]
    total = shares[0]
    for share in shares[1:]:
        total = ring128.add(total, share)
    return total


def test_a_gram_matrix_must_fit_its_exponents():
    with pytest.raises(ShapeError):
        ExactGram(np.zeros((2, 2), dtype=object), (0, 0, 0))
    with pytest.raises(ShapeError):
        ExactGram.of_words(np.zeros((3, 2), dtype=np.uint64), 126, (0, 0, 0))
