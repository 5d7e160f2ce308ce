"""The factor of an exact Gram matrix has the singular values of the joint table to a few eps, or is refused.

The witness is LAPACK's SVD of the joint table itself, which the Gram matrix never sees; where a table is exact and
small, Python's integers. The cases are those that a Gram matrix in float64 fails on.
"""

import math
import tracemalloc

import numpy as np
import pytest
from tests import tolerances
from tests.ring128 import from_ints, to_device
from tests.tolerances import digits_lost
from tests.unit.linalg.wide_cases import CASES, RANK_DEFICIENT, integers_of, opened, words_of

from fedsvd.errors import FixedPointOverflow, PrecisionLost, ShapeError
from fedsvd.linalg import wide_factor
from fedsvd.linalg.exact_gram import UNIT_BITS, sliced

EPS = 2.0**-53
MODES = pytest.mark.parametrize("masked", [False, True], ids=["opened by users", "under P and c"])


def spectrum(parts, m):
    """The joint singular values, descending, with zeros up to m."""
    found = np.linalg.svd(np.hstack(parts), compute_uv=False)[:m]
    return np.concatenate([found, np.zeros(m - found.size)])


def worst_error(parts, rng, masked):
    """The largest error of a singular value, in units of the first one."""
    G, unit = opened(parts, rng, masked)
    m = parts[0].shape[0]
    expected = spectrum(parts, m)
    found = np.linalg.svd(wide_factor.factor(G).R, compute_uv=False) * unit
    return float(np.abs(found - expected).max() / expected[0])


def difference(G, R):
    """``||G - R^T R||_F / ||G||_F`` by Python's integers, for R on the grid."""
    exact = integers_of(G)
    whole = [[int(x) for x in row] for row in np.ldexp(R, 63)]
    columns = list(zip(*whole, strict=True))
    m = len(exact)
    error = [
        exact[i][j] - sum(a * b for a, b in zip(columns[i], columns[j], strict=True))
        for i in range(m)
        for j in range(m)
    ]
    size = [value for row in exact for value in row]
    return math.sqrt(sum(x * x for x in error) / sum(x * x for x in size))


@MODES
@pytest.mark.parametrize("m", [60, 200, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", CASES)
def test_singular_values_are_those_of_the_joint_table(case, m, masked):
    rng = np.random.default_rng(5)
    parts = CASES[case](m, rng)
    assert worst_error(parts, rng, masked) <= tolerances.wide_spectrum(m)


def test_a_thousand_features_that_are_nearly_alike_are_not_refused():
    m = 1000
    parts = CASES["Laeuchli"](m, None)
    G, unit = opened(parts, np.random.default_rng(6))
    found = wide_factor.factor(G)
    sigma = np.linalg.svd(found.R, compute_uv=False) * unit
    assert sigma[0] == pytest.approx(math.sqrt(m + 1e-18), rel=tolerances.wide_spectrum(m))
    tolerances.assert_close(sigma[1:], spectrum(parts, m)[1:], tolerances.wide_spectrum(m), scale=sigma[0])


@pytest.mark.parametrize("rank", [*range(1, 13), 20])
def test_a_singular_gram_matrix_of_every_rank_has_its_factor(rank):
    rng = np.random.default_rng(rank)
    Z = rng.integers(-9, 10, (20, rank)) @ rng.integers(-9, 10, (rank, 25))
    scale = 2.0 ** -math.ceil(math.log2(4 * np.linalg.norm(Z)))
    G = sliced(Z * scale).rows(0, 20)
    found = wide_factor.factor(G)
    assert difference(G, found.R) <= 16 * EPS
    assert found.residual == pytest.approx(difference(G, found.R), rel=digits_lost(10))
    sigma = np.linalg.svd(found.R, compute_uv=False)
    assert np.count_nonzero(sigma > digits_lost(2) * sigma[0]) == rank


@pytest.mark.parametrize("m", [10, 60])
@pytest.mark.parametrize("kind", RANK_DEFICIENT)
def test_of_two_hundred_rank_deficient_tables_none_is_refused(kind, m):
    rng = np.random.default_rng(7)
    worst = max(worst_error(RANK_DEFICIENT[kind](m, rng), rng, masked=k % 2 == 1) for k in range(200))
    assert worst <= tolerances.RANK_DEFICIENT_BAR


def test_a_table_whose_gram_matrix_is_indefinite_in_float64_has_its_small_singular_values():
    # Two users of one column each, 1e-10 apart: a float64 Gram matrix would say 0 or a negative number.
    rng = np.random.default_rng(8)
    a, b = np.linalg.qr(rng.standard_normal((30, 2)))[0].T
    parts = [a[:, None], (a + 1e-10 * b)[:, None]]
    G, unit = opened(parts, rng)
    sigma = np.linalg.svd(wide_factor.factor(G).R, compute_uv=False) * unit
    assert sigma[1] == pytest.approx(1e-10 / math.sqrt(2), rel=1e-4)


def test_every_library_gives_a_factor_of_the_same_gram_matrix(library):
    rng = np.random.default_rng(9)
    G, _ = opened(CASES["condition 1e12"](40, rng), rng)
    there = to_device(G, library.array(np.zeros(0)))
    found = wide_factor.factor(there)
    assert difference(G, library.numpy(found.R)) <= 16 * EPS
    assert 0.0 < found.shifts[0] < digits_lost(3)


def test_every_entry_is_rounded_once(library):
    G = from_ints([2**120 + 1, -(2**119) - 2**66 - 1, 2**54 + 3])
    there = to_device(G, library.array(np.zeros(0)))
    expected = [[2.0**120, -(2.0**119) - 2.0**67], [-(2.0**119) - 2.0**67, 2.0**54 + 4.0]]
    np.testing.assert_array_equal(library.numpy(wide_factor.rounded(there)), np.array(expected) * 2.0**-UNIT_BITS)


def test_a_zero_gram_matrix_has_the_factor_zero(library):
    G = library.array(np.zeros((6, 2), np.int64))
    found = wide_factor.factor(G)
    np.testing.assert_array_equal(library.numpy(found.R), np.zeros((3, 3)))
    assert found.residual == 0.0


def test_one_feature_has_its_square_root():
    found = wide_factor.factor(from_ints([2**120]))
    assert found.R.item() == pytest.approx(0.125, rel=4 * EPS)


INDEFINITE = {
    "an eigenvalue of -1/8": [[2**120, 2**123], [2**123, 2**120]],
    "a negative diagonal": [[-(2**120), 0], [0, -(2**120)]],
    "no diagonal": [[0, 2**100], [2**100, 0]],
    "an eigenvalue of -1e-9": [[2**122, 2**122 + 2**92], [2**122 + 2**92, 2**122]],
    "an eigenvalue of -1e-12": [[2**122, 2**122 + 2**82], [2**122 + 2**82, 2**122]],
}


@pytest.mark.parametrize("case", INDEFINITE)
def test_an_indefinite_matrix_is_refused(case):
    with pytest.raises(PrecisionLost, match="no factor") as caught:
        wide_factor.factor(words_of(INDEFINITE[case]))
    assert not any(character.isdigit() for character in str(caught.value).removeprefix("FSVD-303"))


def test_an_eigenvalue_below_zero_by_less_than_rounding_takes_a_second_shift():
    # No sum of squares has one; it is refused only from where it would show in the singular values.
    found = wide_factor.factor(words_of([[2**122, 2**122 + 2**19], [2**122 + 2**19, 2**122]]))
    assert 0.0 < found.shifts[1] < digits_lost(2)
    assert found.residual <= 64 * math.sqrt(2) * EPS


def test_a_gram_matrix_beyond_its_unit_is_an_overflow():
    with pytest.raises(FixedPointOverflow, match="1/4"):
        wide_factor.factor(words_of([[2**124 + 2**120, 0], [0, 1]]))
    with pytest.raises(FixedPointOverflow, match="2\\^125"):
        wide_factor.factor(words_of([[2**120, 2**126], [2**126, 2**120]]))


@pytest.mark.parametrize("shape", [(0, 2), (2, 2), (4, 2), (3, 3), (3,)])
def test_what_is_no_triangle_of_words_is_refused(shape):
    with pytest.raises(ShapeError, match="triangle"):
        wide_factor.factor(np.zeros(shape, np.uint64))


@pytest.mark.slow
def test_memory_stays_within_48_bytes_an_entry_beside_the_words():
    m = 2500
    X = np.random.default_rng(10).standard_normal((m, m))
    G = sliced(X / (2.1 * np.linalg.norm(X))).rows(0, m)
    tracemalloc.start()
    wide_factor.factor(G)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 48 * m * m


def test_a_factor_prints_no_entries():
    assert repr(wide_factor.factor(from_ints([2**120]))) == "WideFactor(m=1)"
