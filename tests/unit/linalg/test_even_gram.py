"""Even data on a device is factored from its Gram matrix; what is not even, from whichever column on, is not."""

import numpy as np
import pytest
from tests.tolerances import RESULT_BAR, assert_close

from fedsvd.linalg import foreign as kernels
from fedsvd.linalg.backend import namespace
from fedsvd.linalg.streaming_factor import even_factor

RNG = np.random.default_rng(9)


def panels(library, X, *ends):
    return [library.array(part) for part in np.split(X, ends, axis=1)]


@pytest.mark.parametrize("ends", [(), (300,), (7, 50, 290), (100, 200, 300)])
def test_the_factor_has_the_gram_matrix_of_all_columns(foreign, ends):
    X = RNG.normal(size=(30, 400))
    R = foreign.numpy(even_factor(panels(foreign, X, *ends), 30))
    np.testing.assert_array_equal(np.tril(R, -1), 0.0)
    assert_close(R.T @ R, X @ X.T, RESULT_BAR)


def test_large_gram_matrices_are_added_up_in_place(foreign):
    X = RNG.normal(size=(2100, 40))
    there = foreign.array(X)
    xp, K = namespace(there), None
    for _ in range(2):
        K = kernels.add_gram(xp, K, there)
    assert_close(foreign.numpy(kernels.mirrored(xp, K)), 2 * X @ X.T, RESULT_BAR)


def test_data_of_many_scales_has_no_such_factor(foreign):
    X = RNG.normal(size=(30, 400)) * 10.0 ** -np.linspace(0, 3, 30)[:, None]
    assert even_factor(panels(foreign, X, 100), 30) is None


def test_a_direction_that_grows_late_is_found_at_the_end(foreign):
    X = RNG.normal(size=(30, 400))
    X[:, 390:] *= 100.0
    assert even_factor(panels(foreign, X, 100, 390), 30) is None


@pytest.mark.parametrize("columns", [1, 29, 30])
def test_too_few_columns_have_no_such_factor(foreign, columns):
    assert even_factor([foreign.array(RNG.normal(size=(30, columns)))], 30) is None


def test_it_stops_reading_where_the_first_columns_are_not_even(foreign):
    asked = []

    def made():
        for number in range(5):
            asked.append(number)
            yield foreign.array(RNG.normal(size=(30, 200)) * 10.0 ** -np.linspace(0, 3, 30)[:, None])

    assert even_factor(made(), 30) is None
    assert asked == [0]
