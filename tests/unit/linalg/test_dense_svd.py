"""The dense SVD: LAPACK's accuracy on every shape, loud beyond its sizes."""

import array_api_strict
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsvd.errors import ConfigError, NotFinite, NotNumeric, NumericalError, ShapeError
from fedsvd.linalg import backend, blas
from fedsvd.linalg.dense_svd import SVD, dense_svd, fits, least_squares, rank, require_fit

EPS = np.finfo(float).eps


def _with_spectrum(rng, m, n, sigma):
    k = len(sigma)
    left, right = np.linalg.qr(rng.normal(size=(m, k)))[0], np.linalg.qr(rng.normal(size=(n, k)))[0]
    return left * sigma @ right.T


def _assert_is_svd_of(A, U, sigma, Vt, bar=1e-13):
    k = min(A.shape)
    assert U.shape == (A.shape[0], k)
    assert sigma.shape == (k,)
    assert Vt.shape == (k, A.shape[1])
    reference = scipy.linalg.svd(A, compute_uv=False, lapack_driver="gesvd")
    scale = reference[0] if k and reference[0] > 0 else 1.0
    np.testing.assert_allclose(sigma / scale, reference / scale, rtol=0, atol=bar)
    np.testing.assert_allclose(U * (sigma / scale) @ Vt, A / scale, rtol=0, atol=bar)
    np.testing.assert_allclose(U.T @ U, np.eye(k), rtol=0, atol=bar)
    np.testing.assert_allclose(Vt @ Vt.T, np.eye(k), rtol=0, atol=bar)


# Square, mildly and very tall or wide: both sides of the ratio at which QR comes first.
@pytest.mark.parametrize("shape", [(1, 1), (7, 7), (20, 25), (40, 20), (20, 40), (300, 8), (8, 300), (1, 50), (50, 1)])
def test_the_thin_svd_is_lapacks_on_every_shape(shape):
    A = np.random.default_rng(sum(shape)).normal(size=shape)
    _assert_is_svd_of(A, *dense_svd(A))


@pytest.mark.parametrize("shape", [(60, 60), (400, 30), (30, 400)])
@pytest.mark.parametrize("condition", [1e6, 1e12, 1e15])
def test_small_singular_values_keep_their_absolute_accuracy(shape, condition):
    # A Gram matrix would lose everything below 1e-8.
    expected = np.logspace(0, -np.log10(condition), min(shape))
    A = _with_spectrum(np.random.default_rng(1), *shape, expected)
    svd = dense_svd(A)
    np.testing.assert_allclose(svd.sigma, expected, rtol=0, atol=20 * EPS)
    _assert_is_svd_of(A, *svd)


@pytest.mark.parametrize(
    "A",
    [
        np.zeros((5, 9)),
        np.ones((30, 4)),
        np.vstack([np.eye(4), np.eye(4), np.zeros((8, 4))]),
        np.repeat(np.random.default_rng(2).normal(size=(3, 40)), 5, axis=0),
    ],
    ids=["zero", "constant", "duplicated and zero rows", "rank 3"],
)
def test_rank_deficient_matrices_are_factorised(A):
    svd = dense_svd(A)
    _assert_is_svd_of(A, *svd)
    assert rank(svd.sigma, *A.shape) == np.linalg.matrix_rank(A)


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e154, 1e300])
@pytest.mark.parametrize("shape", [(9, 8), (40, 6), (6, 40)])
def test_extreme_scales_do_no_harm(scale, shape):
    A = np.random.default_rng(3).normal(size=shape) * scale
    _assert_is_svd_of(A, *dense_svd(A))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_an_empty_matrix_has_no_singular_values(shape):
    svd = dense_svd(np.zeros(shape))
    assert (svd.U.shape, svd.sigma.shape, svd.Vt.shape) == ((shape[0], 0), (0,), (0, shape[1]))
    assert rank(svd.sigma, *shape) == 0


@given(m=st.integers(1, 12), n=st.integers(1, 40), r=st.integers(0, 12), seed=st.integers(0, 2**16))
@settings(max_examples=60, deadline=None)
def test_rank_counts_what_is_above_rounding(m, n, r, seed):
    rng = np.random.default_rng(seed)
    r = min(r, m, n)
    A = _with_spectrum(rng, m, n, np.logspace(0, -6, r)) if r else np.zeros((m, n))
    svd = dense_svd(A)
    assert rank(svd.sigma, m, n) == r
    _assert_is_svd_of(A, *svd)


def test_rank_by_hand():
    level = 100 * EPS
    sigma = np.array([2.0, 1.0, 2.0 * level * 1.01, 2.0 * level * 0.99, 0.0])
    assert rank(sigma, 5, 100) == rank(sigma, 100, 5) == 3
    assert rank(np.zeros(4), 4, 4) == 0
    assert rank(np.zeros(0), 4, 0) == 0
    assert rank(np.array([1e-300, 1e-310]), 10, 2) == 2


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("shape", [(4, 4), (40, 4), (4, 40)])
def test_non_finite_entries_are_refused(bad, shape):
    A = np.ones(shape)
    A[-1, -1] = bad
    with pytest.raises(NotFinite):
        dense_svd(A)


def test_what_is_no_real_matrix_is_refused():
    with pytest.raises(ShapeError, match="3 dimensions"):
        dense_svd(np.ones((2, 2, 2)))
    with pytest.raises(NotNumeric, match="complex128"):
        dense_svd(np.ones((2, 2), complex))
    with pytest.raises(NotNumeric, match="int64"):
        dense_svd(np.ones((2, 2), np.int64))


def test_sizes_that_32_bit_lapack_miscounts_are_refused_before_it_is_called():
    # 46340^2 < 2^31 - 1 entries, but gesdd's workspace of 4 k^2 + 7 k is beyond it; 23169 is the last k inside.
    assert fits(23169, 23169)
    assert not fits(23170, 23170)
    assert fits(1000, 2_147_483)
    assert not fits(1000, 2_147_484)
    with pytest.raises(ConfigError, match="streaming factor"):
        require_fit(1, 2**31)
    with pytest.raises(ConfigError, match="1000 x 3000000"):
        require_fit(1000, 3_000_000)


def test_the_guard_stands_before_the_svd(monkeypatch):
    monkeypatch.setattr("fedsvd.linalg.dense_svd.LARGEST_COUNT", 99)
    assert dense_svd(np.ones((4, 4))).sigma.shape == (4,)
    with pytest.raises(ConfigError, match="10 x 10"):
        dense_svd(np.ones((10, 10)))


class _LinAlgError(RuntimeError):
    """As PyTorch's: of this name, and no relation of NumPy's."""


@pytest.mark.parametrize("shape", [(12, 10), (50, 6), (6, 50)])
@pytest.mark.parametrize("array_of", [np.asarray, array_api_strict.asarray], ids=["numpy", "strict"])
@pytest.mark.parametrize("error", [NumericalError, _LinAlgError])
def test_when_gesdd_does_not_converge_gesvd_answers(monkeypatch, shape, array_of, error):
    def fails(A):
        raise error("the SVD did not converge")

    A = np.random.default_rng(4).normal(size=shape)
    monkeypatch.setattr(backend, "svd", fails)
    _assert_is_svd_of(A, *(np.asarray(part) for part in dense_svd(array_of(A))))


def test_when_neither_converges_the_error_says_so(monkeypatch):
    def fails(*args, **kwargs):
        raise np.linalg.LinAlgError("SVD did not converge")

    monkeypatch.setattr(blas, "gesdd", lambda A: (A, A[0], A, 1))
    monkeypatch.setattr(scipy.linalg, "svd", fails)
    with pytest.raises(NumericalError, match="neither gesdd nor gesvd"):
        dense_svd(np.ones((3, 3)))


def test_errors_that_are_not_about_convergence_pass_through(monkeypatch):
    def fails(A):
        raise RuntimeError("device lost")

    monkeypatch.setattr(backend, "svd", fails)
    with pytest.raises(RuntimeError, match="device lost"):
        dense_svd(np.ones((3, 3)))


@pytest.mark.parametrize("shape", [(7, 7), (40, 5), (5, 40)])
def test_the_kernel_needs_only_the_array_api_standard(shape):
    A = np.random.default_rng(5).normal(size=shape)
    svd = dense_svd(array_api_strict.asarray(A))
    _assert_is_svd_of(A, *(np.asarray(part) for part in svd))
    assert rank(svd.sigma, *shape) == min(shape)


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_input_is_not_changed(order):
    A = np.array(np.random.default_rng(6).normal(size=(30, 12)), order=order)
    before = A.copy()
    dense_svd(A)
    dense_svd(A.T)
    np.testing.assert_array_equal(A, before)


def test_repr_shows_shapes_and_no_entry():
    assert repr(SVD(np.ones((4, 2)), np.ones(2), np.ones((2, 3)))) == "SVD(m=4, n=3, k=2)"


@pytest.mark.parametrize("condition", [1e0, 1e6, 1e11])
def test_least_squares_of_full_rank_is_one_solve_as_exact_as_lapacks(condition, monkeypatch):
    rng = np.random.default_rng(7)
    A, y = _with_spectrum(rng, 60, 40, np.geomspace(1.0, 1.0 / condition, 40)), rng.normal(size=(60, 2))
    expected = scipy.linalg.lstsq(A, y, lapack_driver="gelsd")[0]

    def no_svd(A):
        raise AssertionError("an SVD was made")

    monkeypatch.setattr(backend, "svd", no_svd)
    fit = least_squares(A, y, 60, 40)
    # Two backward stable solutions: eps times the condition, and its square where y is not in the range of A.
    bar = 60 * EPS * condition**2 * np.linalg.norm(expected)
    np.testing.assert_allclose(fit.w, expected, rtol=0, atol=bar)
    assert (fit.rank, fit.null.shape) == (40, (40, 0))


def test_full_rank_is_never_claimed_where_a_singular_value_is_below_the_cut():
    rng = np.random.default_rng(8)
    ranks = []
    for _ in range(150):
        least = 10.0 ** rng.uniform(-17, -10)
        A = _with_spectrum(rng, 30, 20, np.append(np.geomspace(1.0, 0.1, 19), least))
        fit = least_squares(A, rng.normal(size=(30, 1)), 30, 20)
        sigma = scipy.linalg.svd(A, compute_uv=False, lapack_driver="gesvd")
        assert fit.rank <= rank(sigma, 30, 20)
        assert fit.null.shape == (20, 20 - fit.rank)
        if fit.rank < 20:
            assert np.linalg.norm(A @ fit.null) <= 100 * EPS * sigma[0]
        ranks.append(fit.rank)
    assert set(ranks) == {19, 20}
