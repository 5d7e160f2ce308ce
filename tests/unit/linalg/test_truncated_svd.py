"""The truncated SVD: the same triplets as the whole one, at a stated residual and a counted number of passes."""

import array_api_strict
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tolerances import assert_close, digits_lost

from fedsvd.errors import ConfigError, NotConverged, NotFinite, ShapeError
from fedsvd.linalg.operators import PanelOperator, as_operator
from fedsvd.linalg.truncated_svd import TruncatedSVD, crowded, truncated_svd

M, N = 420, 560
I = np.arange(1, M + 1.0)  # noqa: E741

SPECTRA = {
    "power law of the paper": I**-0.01,
    "slow": I**-0.1,
    "harmonic": 1 / I,
    "exponential": np.exp(-I / 8),
    "down to rounding at once": 10.0 ** -np.minimum(I, 300),
    "condition 1e12": np.logspace(0, -12, M),
    "clusters wider than the block": np.repeat([1.0, 0.9, 0.5, 0.1], [40, 40, 40, M - 120]),
    "a pair at the cut": np.r_[np.linspace(2, 1, 7), 1.0, 0.999 / I[: M - 8]],
    "rank 5": np.r_[1 / I[:5], np.zeros(M - 5)],
}


def _with_spectrum(sigma, m=M, n=N, seed=0):
    rng = np.random.default_rng(seed)
    left = np.linalg.qr(rng.normal(size=(m, len(sigma))))[0]
    right = np.linalg.qr(rng.normal(size=(n, len(sigma))))[0]
    return left * sigma @ right.T, left, right


def _start(rows, b, seed=1):
    return np.random.default_rng(seed).normal(size=(rows, b))


def _assert_top(A, svd, r, tolerance=1e-12):
    """The triplets are those of NumPy's full SVD of A: values, residuals on A itself, orthonormality."""
    U, sigma, Vt, residuals, _ = svd
    dense = A.toarray() if scipy.sparse.issparse(A) else A
    expected = np.linalg.svd(dense, compute_uv=False)
    k = min(r, int(np.sum(expected > max(A.shape) * np.finfo(float).eps * expected[0])))
    assert sigma.shape == residuals.shape == (k,)
    assert U.shape == (A.shape[0], k)
    assert Vt.shape == (k, A.shape[1])
    scale = expected[0] if k else 1.0
    assert_close(sigma, expected[:k], digits_lost(4), scale)
    assert_close(U.T @ U, np.eye(k), digits_lost(4))
    assert_close(Vt @ Vt.T, np.eye(k), digits_lost(4))
    if k:
        right, left = dense @ Vt.T - U * sigma, dense.T @ U - Vt.T * sigma
        measured = np.hypot(np.linalg.norm(right, axis=0), np.linalg.norm(left, axis=0)) / scale
        assert measured.max() <= tolerance + digits_lost(3)
        assert residuals.max() <= tolerance
        assert_close(residuals, measured, digits_lost(3), 1.0)  # both are relative to S_1


@pytest.mark.parametrize("spectrum", SPECTRA.values(), ids=SPECTRA)
@pytest.mark.parametrize("start", ["normals", "columns of A"])
@pytest.mark.parametrize("orientation", ["wide", "tall"])
def test_the_triplets_are_the_largest_whatever_the_decay(spectrum, start, orientation):
    A, _, _ = _with_spectrum(spectrum)
    A = A if orientation == "wide" else np.ascontiguousarray(A.T)
    columns = np.random.default_rng(2).permutation(A.shape[1])[:14]
    block = _start(A.shape[1], 14) if start == "normals" else A[:, columns]
    svd = truncated_svd(A, 8, block, basis=128)
    assert svd.passes > 1  # not through the dense SVD
    _assert_top(A, svd, 8)


def test_singular_vectors_are_numpys_where_the_gaps_permit():
    sigma = 0.8 ** np.arange(60.0)
    A, left, right = _with_spectrum(sigma)
    svd = truncated_svd(A, 10, _start(N, 16), basis=100)
    # An angle is at most residual / gap; the smallest gap among the ten is 0.2 * 0.8^9.
    atol = 1e-12 / (0.2 * 0.8**9)
    assert_close(np.abs(np.sum(svd.U * left[:, :10], axis=0)), 1.0, digits_lost(4))
    sines_U = svd.U - left[:, :10] * np.sum(svd.U * left[:, :10], axis=0)
    sines_V = svd.Vt.T - right[:, :10] * np.sum(svd.Vt.T * right[:, :10], axis=0)
    assert np.linalg.norm(sines_U, axis=0).max() < atol
    assert np.linalg.norm(sines_V, axis=0).max() < atol


def test_ratings_are_factorised_without_becoming_dense():
    rng = np.random.default_rng(3)
    popularity = 1 / np.arange(1, 701.0)
    counts = scipy.sparse.random(900, 700, density=0.05, random_state=rng, format="csr")
    counts.data = rng.integers(1, 6, size=counts.nnz).astype(float)
    ratings = (counts @ scipy.sparse.diags(popularity**0.3)).tocsr()
    for matrix in (ratings, ratings.tocsc(), ratings.tocoo()):
        _assert_top(matrix, truncated_svd(matrix, 10, _start(700, 18), basis=160), 10)


def _row_panels(A, height):
    places = [slice(i, min(i + height, A.shape[0])) for i in range(0, A.shape[0], height)]
    return lambda: ((place, A[place, :]) for place in places)


def _column_panels(A, width):
    places = [slice(j, min(j + width, A.shape[1])) for j in range(0, A.shape[1], width)]
    return lambda: ((place, A[:, place]) for place in places)


@pytest.mark.parametrize("panels", [_row_panels, _column_panels])
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_matrix_in_panels_is_read_once_per_pass(panels, side):
    A, _, _ = _with_spectrum(1 / I)
    read = []

    def counted():
        read.append(1)
        return panels(A, 97)()

    block = _start(M if side == "left" else N, 12)
    svd = truncated_svd(PanelOperator(A.shape, counted), 6, block, basis=100)
    _assert_top(A, svd, 6)
    # The residual checks and the restarts cost no pass: all reads are products, and all are counted.
    assert len(read) == svd.passes
    assert svd.passes <= 16


@pytest.mark.parametrize("panels", [_row_panels, _column_panels])
@pytest.mark.parametrize("shape", [(5, 5), (7, 3), (3, 7), (1, 6), (6, 1), (1, 1)])
@pytest.mark.parametrize("size", [1, 2, 3, 10])
def test_products_by_panels_are_the_products(panels, shape, size):
    rng = np.random.default_rng(4)
    A = rng.normal(size=shape)
    operator = PanelOperator(shape, panels(A, size))
    B, C = rng.normal(size=(shape[1], 4)), rng.normal(size=(shape[0], 2))
    assert_close(operator.matmul(B), A @ B, digits_lost(2))
    assert_close(operator.rmatmul(C), A.T @ C, digits_lost(2))


def test_panels_that_do_not_make_up_the_matrix_are_refused():
    A = np.ones((6, 4))
    with pytest.raises(ShapeError, match="hold 12 entries of 6 x 4"):
        PanelOperator((6, 4), lambda: [(slice(0, 3), A[:3])]).matmul(np.ones((4, 1)))
    with pytest.raises(ShapeError, match=r"\(3, 3\) is no part of 6 x 4"):
        PanelOperator((6, 4), lambda: [(slice(0, 3), A[:3, :3])]).matmul(np.ones((4, 1)))


def test_equal_singular_values_are_all_found():
    # Multiplicity 9 beyond r = 8, then 30 more: a narrow block or a fixed number of sweeps returns too few ones.
    A, _, _ = _with_spectrum(np.r_[np.ones(9), np.full(30, 0.999), np.full(M - 39, 0.5)])
    assert_close(truncated_svd(A, 8, _start(N, 8), basis=120).sigma, np.ones(8), digits_lost(4))
    sigma = truncated_svd(A, 12, _start(N, 12), basis=120).sigma
    assert_close(sigma, np.r_[np.ones(9), np.full(3, 0.999)], digits_lost(4))


def test_the_identity_is_found_at_once():
    svd = truncated_svd(scipy.sparse.eye_array(2000, format="csr"), 5, _start(2000, 7))
    assert_close(svd.sigma, np.ones(5), digits_lost(2))
    assert svd.passes == 2


@pytest.mark.parametrize("scale", [1e-200, 1e-150, 1e150, 1e200])
def test_scale_does_not_matter(scale):
    A, _, _ = _with_spectrum(1 / I)
    plain, scaled = (truncated_svd(X, 5, _start(N, 9), basis=80) for X in (A, A * scale))
    assert_close(scaled.sigma / scale, 1 / I[:5], digits_lost(4))
    assert scaled.passes == plain.passes


@pytest.mark.parametrize("shape", [(300, 400), (4, 6), (1, 5), (5, 1)])
def test_a_zero_matrix_has_no_triplets(shape):
    svd = truncated_svd(np.zeros(shape), 1, _start(shape[0], 3), basis=13)
    assert (svd.U.shape, svd.sigma.shape, svd.Vt.shape) == ((shape[0], 0), (0,), (0, shape[1]))


@pytest.mark.parametrize("shape", [(50, 1), (1, 50), (1, 1), (3, 2)])
def test_the_smallest_matrices(shape):
    A = np.random.default_rng(5).normal(size=shape)
    for rows in shape:
        _assert_top(A, truncated_svd(A, min(shape), _start(rows, 4)), min(shape))


@pytest.mark.parametrize("shape", [(90, 60), (60, 90)])
@pytest.mark.parametrize("r", [50, 59, 60])
def test_nearly_all_triplets_come_from_the_dense_svd_in_one_pass(shape, r):
    A = np.random.default_rng(6).normal(size=shape)
    svd = truncated_svd(A, r, _start(shape[0], r))
    _assert_top(A, svd, r)
    assert svd.passes == 1


def test_a_space_that_fills_up_ends_exactly(monkeypatch):
    # Without the dense route (a matrix beyond LAPACK's sizes) the basis grows until it is the whole space.
    monkeypatch.setattr("fedsvd.linalg.truncated_svd.fits", lambda m, n: False)
    A = np.random.default_rng(7).normal(size=(200, 18))
    for rows in A.shape:
        _assert_top(A, truncated_svd(A, 18, _start(rows, 18)), 18)
        _assert_top(A, truncated_svd(A, 7, _start(rows, 7)), 7)


def test_a_deficient_start_block_is_completed():
    A, _, _ = _with_spectrum(1 / I)
    for block in (np.zeros((M, 10)), np.repeat(A[:, :1], 10, axis=1), np.eye(M, 10)):
        _assert_top(A, truncated_svd(A, 6, block, basis=100), 6)


def test_a_start_block_from_one_part_of_the_matrix_suffices_when_it_is_deficient():
    # Two parts that do not mix; the start block's columns come from the first, which has rank 3, alone.
    A = np.zeros((M, N))
    A[:200, :200] = _with_spectrum(np.array([3.0, 2.0, 1.0]), 200, 200)[0]
    A[200:, 200:] = _with_spectrum(5.0 / I[:220], 220, 360)[0]
    _assert_top(A, truncated_svd(A, 6, A[:, :12], basis=100), 6)


def test_a_small_basis_restarts_and_still_converges():
    A, _, _ = _with_spectrum(I**-0.5)
    svd = truncated_svd(A, 6, _start(N, 10), basis=46)
    assert svd.passes > 2 * 46 / 10
    _assert_top(A, svd, 6)


def test_restarts_keep_enough_for_the_slowest_decay():
    # Restarting from r triplets alone throws away what converges next, and stalls: see the pass count.
    A, _, _ = _with_spectrum(I**-0.01)
    svd = truncated_svd(A, 6, _start(N, 12), basis=54, passes=200)
    _assert_top(A, svd, 6)


def test_a_looser_tolerance_takes_fewer_passes():
    A, _, _ = _with_spectrum(I**-0.3)
    passes = []
    for tolerance in (1e-3, 1e-6, 1e-12):
        svd = truncated_svd(A, 6, _start(N, 10), basis=100, tolerance=tolerance)
        assert svd.residuals.max() <= tolerance
        passes.append(svd.passes)
    assert passes == sorted(set(passes))


def test_a_pass_limit_is_an_error_that_tells_the_residual():
    A, _, _ = _with_spectrum(I**-0.01)
    with pytest.raises(NotConverged, match=r"6 passes reached a residual of \d\.\de-0\d sigma_1") as caught:
        truncated_svd(A, 6, _start(N, 10), basis=100, passes=7)
    assert "larger basis" in caught.value.fix


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_non_finite_entries_are_refused(bad):
    A, _, _ = _with_spectrum(1 / I)
    A[3, 5] = bad
    for basis in (60, 1000):
        with pytest.raises(NotFinite), np.errstate(invalid="ignore"):
            truncated_svd(A, 4, _start(N, 6), basis=basis)


def test_impossible_requests_are_refused():
    A = np.ones((30, 40))
    for r in (0, 31):
        with pytest.raises(ConfigError, match="from 1 to 30"):
            truncated_svd(A, r, _start(40, 35))
    with pytest.raises(ConfigError, match="at least 5 columns"):
        truncated_svd(A, 5, _start(40, 4))
    with pytest.raises(ConfigError, match="at least r \\+ 4 b = 29"):
        truncated_svd(A, 5, _start(40, 6), basis=28)
    with pytest.raises(ShapeError, match=r"\(30, b\) or \(40, b\)"):
        truncated_svd(A, 5, _start(20, 6))
    with pytest.raises(ShapeError, match="neither a matrix nor an operator"):
        as_operator([[1.0, 2.0]])


@given(
    m=st.integers(25, 60),
    n=st.integers(25, 60),
    ranks=st.integers(0, 25),
    copies=st.integers(1, 4),
    decay=st.sampled_from([0.0, 0.1, 1.0, 6.0]),
    seed=st.integers(0, 999),
    left=st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_any_rank_any_multiplicity_any_shape(m, n, ranks, copies, decay, seed, left):
    sigma = np.repeat(np.arange(1, 26.0) ** -decay, copies)[: min(ranks, m, n)]
    A = _with_spectrum(sigma, m, n, seed)[0] if len(sigma) else np.zeros((m, n))
    block = _start(m if left else n, 2, seed + 1)
    svd = truncated_svd(A, 2, block, basis=10)
    _assert_top(A, svd, 2)


def test_the_kernel_needs_only_the_array_api_standard():
    A, _, _ = _with_spectrum(1 / I)
    strict = array_api_strict.asarray(A)
    for rows, basis in ((M, 46), (N, 46), (N, 1000)):
        svd = truncated_svd(strict, 6, array_api_strict.asarray(_start(rows, 10)), basis=basis)
        _assert_top(A, TruncatedSVD(*(np.asarray(part) for part in svd[:4]), svd.passes), 6)
    panels = PanelOperator(A.shape, _row_panels(strict, 100))
    _assert_top(A, TruncatedSVD(*map(np.asarray, truncated_svd(panels, 3, strict[:, :6], basis=60))), 3)


def test_repr_shows_shapes_and_no_entry():
    svd = TruncatedSVD(np.ones((4, 2)), np.ones(2), np.ones((2, 3)), np.ones(2), 6)
    assert repr(svd) == "TruncatedSVD(m=4, n=3, k=2, passes=6)"


@pytest.mark.parametrize("copies", [7, 8, 9, 30])
def test_a_narrow_block_misses_no_copy_of_an_equal_singular_value(copies):
    """Eight columns find eight copies; that there may be more is seen, and all of the start is used."""
    rng = np.random.default_rng(copies)
    sigma = np.concatenate((np.full(copies, 2.0), np.linspace(1.9, 0.1, 200 - copies)))
    U, V = (np.linalg.qr(rng.normal(size=(side, 200)))[0] for side in (400, 500))
    A = U * sigma @ V.T
    found = truncated_svd(A, 24, A[:, :32], basis=160, block=8)
    assert_close(found.sigma, sigma[:24], digits_lost(4))
    wide = truncated_svd(A, 24, A[:, :32], basis=160)
    # Narrow alone takes about as many passes as wide; where it is not enough, both are counted.
    assert (found.passes > 1.5 * wide.passes) is (copies >= 8)


def test_a_narrow_block_of_a_matrix_of_lower_rank_finds_it_all():
    rng = np.random.default_rng(2)
    A = rng.normal(size=(400, 5)) @ rng.normal(size=(5, 500))
    assert truncated_svd(A, 24, A[:, :32], basis=160, block=8).sigma.shape == (5,)


@pytest.mark.parametrize(
    ("sigma", "crowds"),
    [([5.0, 4.0, 3.0, 2.0], False), ([5.0, 4.0, 4.0, 4.0], True), ([5.0, 5.0, 4.0, 4.0], False), ([5.0, 5.0], False)],
)
def test_values_crowd_where_as_many_as_the_block_has_columns_are_equal(sigma, crowds):
    assert crowded(np.array(sigma), 3) is crowds
