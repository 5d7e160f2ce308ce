"""The exact Gram matrix equals Python's integers bit for bit: any width, any panel, any entry up to half a unit."""

from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ring128 import add, to_host, to_ints
from tests.unit.linalg import wide_cases

from fedsvd.errors import ConfigError, FixedPointOverflow, ShapeError
from fedsvd.linalg import exact_gram
from fedsvd.linalg.exact_gram import MOST_DITHER, sliced

WIDTHS = (1, 2, 3, 17, 200, 1791, 1792, 1793, 5000)


def grid(A, D=None):
    """``round(2^63 A) + D`` by exact fractions, as lists of Python integers."""
    whole = [[round(Fraction(a) * 2**63) for a in row] for row in A.tolist()]
    return (
        whole
        if D is None
        else [[a + int(d) for a, d in zip(*pair, strict=True)] for pair in zip(whole, D, strict=True)]
    )


def triangle(Z, start=0, stop=None):
    """The upper triangle of ``Z Z^T`` in rows start to stop, as signed integers modulo 2^128."""
    sums = (
        sum(a * b for a, b in zip(Z[i], Z[j], strict=True))
        for i in range(start, len(Z) if stop is None else stop)
        for j in range(i, len(Z))
    )
    return [(value + 2**127) % 2**128 - 2**127 for value in sums]


def entries(rng, m, q):
    """Entries of all sizes, of them some that reach half of the unit and some that lie between two grid points."""
    A = rng.uniform(-0.5, 0.5, (m, q)) * 2.0 ** -rng.integers(0, 70, (m, q))
    A[0] = 0.5 * rng.choice([-1.0, 1.0], q)
    A[-1] = np.nextafter(0.5, 0.0) * rng.choice([-1.0, 1.0], q)
    A[1, ::3] = 1.5 * 2.0**-63
    return A


def ints(library, words):
    return to_ints(to_host(words))


@pytest.mark.parametrize("q", WIDTHS)
def test_the_gram_matrix_equals_python_integers_bit_for_bit(library, q):
    rng = np.random.default_rng(q)
    A, D = entries(rng, 6, q), np.rint(300.0 * rng.standard_normal((6, q)))
    D[2], D[3] = MOST_DITHER, -MOST_DITHER
    for dither in (None, D):
        found = sliced(library.array(A), None if dither is None else library.array(dither)).rows(0, 6)
        assert ints(library, found) == triangle(grid(A, dither))


def test_the_largest_inner_products_are_exact():
    A = np.full((3, 1792), 0.5)
    A[1] = -0.5
    A[2] = 0.5 - 2.0**-22 - 2.0**-43 - 2.0**-54  # all three slices near their largest
    D = np.full((3, 1792), float(MOST_DITHER))
    assert to_ints(sliced(A, D).rows(0, 3)) == triangle(grid(A, D))


def largest_rows(q):
    """Rows of half a unit in which all three slices are as large as they can be."""
    A = np.full((4, q), 2.0**-22 - 2.0**-43 - 2.0**-63)  # S_0 is 0 and S_1, S_2 are at their ends
    A[1] *= -1.0
    A[2, ::2] *= -1.0
    A[3, :] = 0.0
    A[3, 0] = 0.5
    A[:3, 0] = np.sqrt(0.25 - np.sum(A[:3, 1:] ** 2, axis=1)) * (1.0 - 2.0**-40)
    return A


@pytest.mark.parametrize("q", [16, 799, 800, 801, 1601])
def test_rows_of_half_a_unit_are_exact_in_long_panels(q):
    A = largest_rows(q)
    for D in (None, np.full(A.shape, float(MOST_DITHER)), np.full(A.shape, -float(MOST_DITHER))):
        found = sliced(A, D)
        assert found.short
        assert to_ints(found.rows(0, 4)) == triangle(grid(A, D))


def test_longer_rows_are_multiplied_in_short_panels():
    A = np.full((2, 400), 0.5)
    A[1, :] = -0.5
    assert not sliced(A).short
    A *= 0.1
    assert not sliced(A).short  # each row is as long as a unit
    assert sliced(0.5 * A).short


def test_no_product_of_a_panel_is_above_what_float64_holds():
    for q, short in ((exact_gram.PANEL, True), (exact_gram.NARROW, False)):
        A = largest_rows(q) if short else np.full((1, q), 0.5 - 2.0**-22 - 2.0**-43)
        for part in sliced(A, np.full(A.shape, float(MOST_DITHER))).parts:
            assert np.sum(np.square(part, dtype=np.float64), axis=1).max() < 2.0**53


def test_rows_of_many_blocks_equal_python_integers():
    rng = np.random.default_rng(2)
    A = entries(rng, 300, 3)
    assert to_ints(sliced(A).rows(0, 300)) == triangle(grid(A))
    assert to_ints(sliced(A).rows(131, 299)) == triangle(grid(A), 131, 299)


@settings(max_examples=40, deadline=None)
@given(m=st.integers(1, 9), q=st.integers(1, 9), seed=st.integers(0, 999), exponent=st.integers(-80, -1))
def test_small_gram_matrices_equal_python_integers(m, q, seed, exponent):
    A = np.random.default_rng(seed).uniform(-1.0, 1.0, (m, q)) * 2.0**exponent
    assert to_ints(sliced(A).rows(0, m)) == triangle(grid(A))


def test_zeros_right_of_the_diagonal_need_not_be_multiplied(library):
    A = np.tril(entries(np.random.default_rng(3), 200, 200))
    plain, short = sliced(library.array(A)), sliced(library.array(A), triangular=True)
    np.testing.assert_array_equal(library.numpy(short.rows(0, 200)), library.numpy(plain.rows(0, 200)))


@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray, lambda A: np.repeat(A, 2, axis=0)[::2]])
def test_the_order_in_memory_changes_no_bit(layout):
    A = entries(np.random.default_rng(4), 150, 40)
    np.testing.assert_array_equal(sliced(layout(A)).rows(0, 150), sliced(A).rows(0, 150))


def test_panels_of_rows_make_up_the_triangle_in_order():
    A = entries(np.random.default_rng(5), 90, 11)
    slices = sliced(A)
    panels = exact_gram.row_panels(90, most=500)
    assert panels[0][0] == 0
    assert panels[-1][1] == 90
    assert all(a[1] == b[0] for a, b in pairwise(panels))
    sizes = [slices.rows(*panel).shape[0] for panel in panels]
    assert max(sizes) <= 500 < min(a + b for a, b in pairwise(sizes))
    np.testing.assert_array_equal(np.concatenate([slices.rows(*panel) for panel in panels]), slices.rows(0, 90))


def test_a_triangle_of_a_thousand_rows_is_one_panel_and_of_four_thousand_nine():
    assert exact_gram.row_panels(1000) == [(0, 1000)]
    assert len(exact_gram.row_panels(4096)) == 9
    assert exact_gram.row_panels(3, most=1) == [(0, 1), (1, 2), (2, 3)]


def test_order_of_users_and_of_batches_changes_no_bit_of_the_sum():
    rng = np.random.default_rng(6)
    shares = [sliced(entries(rng, 40, q) * 0.1) for q in (5, 300, 40, 1)]
    panels = exact_gram.row_panels(40, most=100)

    def total(users, order):
        batches = {panel: shares[users[0]].rows(*panel) for panel in order}
        for user in users[1:]:
            batches = {panel: add(words, shares[user].rows(*panel)) for panel, words in batches.items()}
        return np.concatenate([batches[panel] for panel in panels])

    np.testing.assert_array_equal(total([0, 1, 2, 3], panels), total([2, 0, 3, 1], panels[::-1]))


def test_the_columns_may_be_dealt_to_users_in_any_way():
    Z = entries(np.random.default_rng(7), 12, 60) * 0.1
    whole = sliced(Z).rows(0, 12)
    halves = add(sliced(Z[:, ::2]).rows(0, 12), sliced(Z[:, 1::2]).rows(0, 12))
    np.testing.assert_array_equal(whole, halves)


@pytest.mark.parametrize("value", [0.5000001, -0.6, np.nan, np.inf])
def test_an_entry_beyond_half_of_the_unit_is_an_overflow(library, value):
    A = np.zeros((4, 3))
    A[2, 1] = value
    with np.errstate(invalid="ignore"), pytest.raises(FixedPointOverflow, match="beyond half") as caught:
        sliced(library.array(A))
    assert "0.6" not in str(caught.value)


@pytest.mark.parametrize("value", [0.5, MOST_DITHER + 1.0, np.nan])
def test_dither_that_is_not_a_small_whole_number_is_refused(library, value):
    D = np.zeros((2, 2))
    D[1, 1] = value
    with np.errstate(invalid="ignore"), pytest.raises(ConfigError, match="whole numbers"):
        sliced(library.array(np.zeros((2, 2))), library.array(D))


def test_empty_matrices_and_rows_that_do_not_exist_are_refused():
    with pytest.raises(ShapeError, match="at least 1 x 1"):
        sliced(np.zeros((3, 0)))
    with pytest.raises(ShapeError, match="D has shape"):
        sliced(np.zeros((3, 2)), np.zeros((2, 3)))
    with pytest.raises(ShapeError, match="rows 2 to 4"):
        sliced(np.zeros((3, 2))).rows(2, 4)


def test_this_machines_products_are_exact(library):
    assert exact_gram.exact_products_hold(library.array(np.zeros(0)))


def test_products_of_fewer_bits_are_found_out(monkeypatch):
    class Emulated(np.ndarray):
        """float64 whose products have 52 bits: one too few."""

        def __matmul__(self, other):
            product = np.asarray(self) @ np.asarray(other)
            mantissa, power = np.frexp(product)
            return np.ldexp(np.rint(np.ldexp(mantissa, 52)), power - 52)

    monkeypatch.setattr(exact_gram, "like", lambda A, on: A.view(Emulated))
    assert not exact_gram.exact_products_hold(np.zeros(0))


def test_shares_print_no_entries():
    assert repr(sliced(np.full((2, 3), 0.25))) == "Slices(shape=(2, 3))"


def test_a_user_can_send_batches_without_holding_the_triangle():
    rng = np.random.default_rng(8)
    parts = [rng.standard_normal((30, 20)), rng.standard_normal((30, 50))]
    slices, _ = wide_cases.shares(parts, np.random.default_rng(9), masked=True)
    whole, _ = wide_cases.opened(parts, np.random.default_rng(9), masked=True)
    sums = [add(slices[0].rows(*panel), slices[1].rows(*panel)) for panel in exact_gram.row_panels(30, most=64)]
    np.testing.assert_array_equal(np.concatenate(sums), whole)


def test_threads_make_the_same_words(monkeypatch):
    rng = np.random.default_rng(7)
    A, D = entries(rng, 300, 200), rng.integers(-MOST_DITHER, MOST_DITHER, (300, 200)).astype(float)
    with ThreadPoolExecutor(3) as pool:
        monkeypatch.setattr(exact_gram, "WORTH_THREADS", 1)
        found = sliced(A, D).rows(10, 290, lambda work, pieces: list(pool.map(work, pieces)))
    np.testing.assert_array_equal(found, sliced(A, D).rows(10, 290))
    lower = np.tril(A[:, :200][:200])
    with ThreadPoolExecutor(3) as pool:
        found = sliced(lower, triangular=True).rows(0, 200, lambda work, pieces: list(pool.map(work, pieces)))
    np.testing.assert_array_equal(found, sliced(lower).rows(0, 200))
