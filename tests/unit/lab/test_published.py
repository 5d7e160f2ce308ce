"""The paper's scheme in the lab: what it finds is NumPy's, what it moves is counted, and it plays over a slow line."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tolerances import ORTHONORMAL_BAR, RESULT_BAR, VALUES_BAR, assert_close, digits_lost

import fedsvd_lab.published
from fedsvd.cost.rates import DEFAULT
from fedsvd.errors import ConfigError, StorageError
from fedsvd.randomness.seed import Seed
from fedsvd_lab.network.link import open_link
from fedsvd_lab.published.cost import predicted
from fedsvd_lab.published.play import play
from fedsvd_lab.published.provider import stored_in
from fedsvd_lab.published.setting import Setting
from fedsvd_lab.published.wired import play_over

WIDTHS = (7, 1, 12, 3)


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def columns(X, widths):
    return np.split(X, np.cumsum(widths)[:-1], axis=1)


def expect_svd(X, users, r=None):
    """U and S of all users, and their parts of V together, against NumPy's on the joint matrix."""
    exact = np.linalg.svd(X, compute_uv=False)
    r = int(np.linalg.matrix_rank(X)) if r is None else r
    U, sigma, Vt = users[0].U, users[0].sigma, np.hstack([own.Vt_i for own in users])
    assert (U.shape, sigma.shape, Vt.shape) == ((len(X), r), (r,), (r, X.shape[1]))
    assert np.abs(sigma - exact[:r]).max() <= VALUES_BAR * exact[0]
    assert np.abs(U.T @ U - np.eye(r)).max() <= ORTHONORMAL_BAR
    assert np.abs(Vt @ Vt.T - np.eye(r)).max() <= ORTHONORMAL_BAR
    rest = exact[r] if r < len(exact) else 0.0
    assert abs(np.linalg.norm(U * sigma @ Vt - X, 2) - rest) <= RESULT_BAR * exact[0]
    for other in users[1:]:
        np.testing.assert_array_equal(other.U, U)


@settings(max_examples=30)
@given(
    m=st.integers(1, 25),
    widths=st.lists(st.integers(1, 9), min_size=2, max_size=4).map(tuple),
    b=st.integers(1, 9),
    seed=st.integers(0, 99),
)
def test_an_svd_is_that_of_the_joint_matrix_however_blocks_straddle_users(m, widths, b, seed):
    X = normal(seed, m, sum(widths))
    expect_svd(X, play(columns(X, widths), b=b).users)


@pytest.mark.parametrize(
    "X",
    [
        normal(1, 12, 23) * np.logspace(0, -12, 12)[:, None],
        normal(2, 12, 3) @ normal(3, 3, 23),
        1e100 * normal(4, 12, 23),
        1e-100 * normal(5, 12, 23),
    ],
    ids=["condition 1e12", "rank 3", "huge", "tiny"],
)
def test_hard_matrices_lose_no_digit(X):
    expect_svd(X, play(columns(X, WIDTHS), b=4).users)


def test_the_top_is_that_of_the_joint_matrix():
    X = normal(6, 30, 23) * np.logspace(0, -3, 23)
    expect_svd(X, play(columns(X, WIDTHS), b=6, components=4).users, 4)


def test_a_long_matrix_that_memory_does_not_hold_is_factorised_in_two_passes(tmp_path):
    X = normal(7, 10, 900) * np.logspace(0, -6, 10)[:, None]
    played = play(columns(X, (400, 500)), b=40, memory=8 * 8 * 10 * 10 * 8, storage=stored_in(tmp_path))
    expect_svd(X, played.users)
    assert played.residual <= digits_lost(3)
    assert len(played.setting.batches) > 20
    assert list(tmp_path.iterdir()) == []


def test_the_top_of_a_matrix_long_on_both_sides_comes_from_a_store(tmp_path):
    rng = np.random.default_rng(8)
    X = rng.normal(size=(300, 20)) * np.geomspace(1, 1e-3, 20) @ np.linalg.qr(rng.normal(size=(700, 700)))[0][:20]
    expect_svd(
        X, play(columns(X, (300, 400)), b=50, memory=1 << 20, components=3, storage=stored_in(tmp_path)).users, 3
    )


def test_what_fits_no_memory_is_refused():
    X = normal(9, 200, 300)
    with pytest.raises(StorageError, match="number of components"):
        play(columns(X, (100, 200)), memory=1 << 18)


@pytest.mark.parametrize("label_user", [1, 2])
@pytest.mark.parametrize("targets", [1, 3])
def test_a_regression_with_its_bias_is_least_squares_with_a_column_of_ones(targets, label_user):
    D = normal(10, 90, 8) + 3.0
    y = D @ normal(11, 8, targets) + 5.0 + 0.1 * normal(12, 90, targets)
    found = play(columns(D, (3, 5)), y, label_user=label_user, b=20).users
    exact = np.linalg.lstsq(np.hstack((D, np.ones((90, 1)))), y, rcond=None)[0]
    assert_close(np.concatenate([own.coefficients for own in found]), exact, RESULT_BAR)


def test_of_lost_rank_the_solution_is_that_of_least_norm():
    D = normal(13, 50, 4)
    D, y = np.hstack((D, D[:, :2])), normal(14, 50, 1)
    found = play(columns(D, (4, 2)), y, b=10, bias=False).users
    exact = np.linalg.lstsq(D, y, rcond=None)[0]
    assert_close(np.concatenate([own.coefficients for own in found]), exact, RESULT_BAR)


def test_the_csp_sees_p_x_q_and_p_y_and_no_share():
    X, y, seed = normal(15, 40, 23), normal(16, 40, 1), Seed(bytes(range(32)))
    played = play(columns(X, WIDTHS), y, label_user=2, b=6, bias=False, seed=seed, record=True)
    P, Q = played.masks
    masked = np.concatenate([Q.window(w).right(P.left(X)[:, window.outputs]) for w, window in enumerate(Q.windows)], 1)
    assert_close(played.seen.Y, masked, digits_lost(3))
    assert_close(played.seen.y, P.left(y), digits_lost(3))
    again = play(columns(X, WIDTHS), y, label_user=2, b=6, bias=False, seed=seed, record=True)
    np.testing.assert_array_equal(again.seen.Y, played.seen.Y)
    assert not played.seen.blinded


STUDIES = [{}, {"dense": True}, {"whole": True}, {"own_part": False}, {"components": 3}, {"memory": 1 << 14}]


@pytest.mark.parametrize("asked", STUDIES, ids=str)
def test_bytes_are_predicted(asked):
    X = normal(17, 9, 23)
    played = play(columns(X, WIDTHS), b=5, **asked)
    assert predicted(played.setting, DEFAULT).bytes_total == played.bytes_total
    y = normal(18, 9, 2)
    played = play(columns(X, WIDTHS), y, b=5)
    assert predicted(played.setting, DEFAULT).bytes_total == played.bytes_total


def test_the_papers_own_size_moves_more_than_1_6_gigabytes_and_takes_longer_than_a_tenth_of_it():
    sizes = [predicted(Setting(1000, (n // 2, n // 2)), DEFAULT) for n in (10_000, 100_000)]
    assert sizes[1].bytes_total > 1.6e9
    assert sizes[1].seconds > 5 * sizes[0].seconds


def test_a_user_waits_for_keys_norms_batches_factors_and_its_own_part():
    played = play(columns(normal(19, 9, 23), WIDTHS), b=5)
    assert played.rounds == 5 + len(played.setting.batches)
    assert played.sent_by("user-1") == sum(
        count for (sender, _), count in played.bytes_by_link.items() if sender == "user-1"
    )


def test_over_a_slow_line_the_result_is_the_same():
    X, D = normal(20, 9, 23), normal(21, 60, 5)
    y = D @ normal(22, 5, 1) + 1.0
    with open_link(1e9, 0.0, "relay") as link:
        done = play_over(link, columns(X, WIDTHS), b=5)
        fitted = play_over(link, columns(D, (2, 3)), y, b=20)
    expect_svd(X, done.users)
    in_process = play(columns(X, WIDTHS), b=5)
    # What the TA deals passes the CSP: up, and down again.
    assert done.bytes_total == in_process.bytes_total + in_process.sent_by("ta")
    exact = np.linalg.lstsq(np.hstack((D, np.ones((60, 1)))), y, rcond=None)[0]
    assert_close(np.concatenate([own.coefficients for own in fitted.users]), exact, RESULT_BAR)


@pytest.mark.parametrize("tables", [[np.eye(3)], [np.eye(3), np.eye(4)]], ids=["one user", "other rows"])
def test_tables_that_are_no_columns_of_one_matrix_are_refused(tables):
    with pytest.raises(ConfigError, match="the same rows"):
        play(tables)


LOW = {"data", "errors", "linalg", "masks", "randomness", "sealing", "secagg", "storage", "types"}


def test_it_takes_low_layers_of_the_product_and_no_plan_message_or_role():
    for file in Path(fedsvd_lab.published.__file__).parent.glob("*.py"):
        modules = re.findall(r"^(?:from|import) fedsvd\.(\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
        assert set(modules) <= LOW | ({"cost"} if file.name == "cost.py" else set()), file.name
