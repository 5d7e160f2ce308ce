"""The mask family is exact: every task on split columns, and factors on split rows, against NumPy on the joint data."""

import math

import numpy as np
import pytest
from tests.tolerances import EPS, ORTHONORMAL_BAR, RESULT_BAR, VALUES_BAR, digits_lost, spectrum

from fedsvd.cost.estimate import predict
from fedsvd.errors import AnswerRefused, ConfigError, StorageError, VerificationFailed
from fedsvd.linalg.windows import HAAR_LEFT_LIMIT, HAAR_RIGHT_LIMIT, Form
from fedsvd.protocol.messages import Factors, SumShare
from fedsvd.protocol.parties import user
from fedsvd.protocol.tasks import Item, Scheme, Split, Task
from fedsvd.studies.planning import plan_study
from fedsvd.studies.study import Study
from fedsvd.testing.federation import Federation
from fedsvd.types import SessionId

H, V = Split.HORIZONTAL, Split.VERTICAL
SHAPES = [(50, (7, 1)), (97, (13, 1, 5, 40)), (40, (60, 31)), (31, (1, 1, 1)), (4099, (5, 2))]
pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")


def parts(m, widths, condition=1e3, rank=None, seed=0):
    rng, n = np.random.default_rng(seed), sum(widths)
    r = min(m, n) if rank is None else rank
    U, W = (np.linalg.qr(rng.normal(size=(side, r)))[0] for side in (m, n))
    return np.split(U * np.logspace(0, -np.log10(condition), r) @ W.T, np.cumsum(widths)[:-1], axis=1)


def masked(tables, task=Task.SVD, split=V, **asked):
    return Federation(tables, task, split, scheme="mask", **asked)


@pytest.mark.parametrize(("m", "widths"), SHAPES, ids=str)
def test_an_svd_is_that_of_the_joint_matrix(m, widths):
    X = parts(m, widths)
    made = masked(X)
    found = made.run()
    assert made.plan.scheme is Scheme.MASK
    sigma = np.linalg.svd(np.hstack(X), compute_uv=False)
    assert np.abs(found[0].sigma - sigma).max() <= spectrum(m, sum(widths)) * sigma[0]
    for X_i, result in zip(X, found, strict=True):
        assert np.abs(result.U * result.sigma @ result.Vt_i - X_i).max() <= VALUES_BAR * sigma[0]
    for Q in (found[0].U, np.hstack([result.Vt_i for result in found]).T):
        assert np.abs(Q.T @ Q - np.eye(Q.shape[1])).max() <= ORTHONORMAL_BAR


@pytest.mark.parametrize("rank", [1, 5])
def test_lost_rank_leaves_no_columns_and_is_checked(rank):
    X = parts(60, (8, 9), rank=rank)
    found = masked(X).run()
    assert [result.rank for result in found] == [rank, rank]
    np.testing.assert_allclose(found[0].sigma, np.linalg.svd(np.hstack(X), compute_uv=False)[:rank], rtol=VALUES_BAR)
    np.testing.assert_allclose(found[1].U * found[1].sigma @ found[1].Vt_i, X[1], rtol=0, atol=VALUES_BAR)


def test_a_zero_matrix_has_rank_zero_and_nothing_is_uploaded():
    found = masked([np.zeros((30, 4)), np.zeros((30, 2))]).run()
    assert [(result.rank, result.U.shape) for result in found] == [(0, (30, 0))] * 2


@pytest.mark.parametrize("scale", [1e-300, 1e150])
def test_data_of_any_magnitude_passes(scale):
    X = [scale * X_i for X_i in parts(50, (7, 5))]
    sigma = np.linalg.svd(np.hstack(X) / scale, compute_uv=False)
    assert np.abs(masked(X).run()[0].sigma / scale - sigma).max() <= spectrum(50, 12) * sigma[0]


@pytest.mark.parametrize(("m", "counts"), [(25, (30, 41)), (60, (11, 7, 1)), (4999, (9, 8))], ids=str)
@pytest.mark.parametrize("unit_variance", [False, True])
def test_pca_is_that_of_the_joint_table(m, counts, unit_variance):
    rng = np.random.default_rng(m)
    tables = [rng.normal(size=(n_i, m)) * np.linspace(1, 5, m) + 1e4 for n_i in counts]
    release = (Item.COMPONENTS, Item.MEAN, Item.SPECTRUM, Item.OWN_PART)
    found = masked(tables, Task.PCA, H, components=3, unit_variance=unit_variance, release=release).run()
    D = np.vstack(tables)
    mean = [math.fsum(column) / len(D) for column in D.T]
    np.testing.assert_allclose(found[0].mean, mean, rtol=2 * EPS)
    D = (D - D.mean(axis=0)) / (D.std(axis=0) if unit_variance else 1.0)
    _, s, Vt = np.linalg.svd(D, full_matrices=False)
    np.testing.assert_allclose(found[0].sigma, s[:3], rtol=digits_lost(4))
    assert np.linalg.norm(found[0].U @ (found[0].U.T @ Vt[:3].T) - Vt[:3].T) <= digits_lost(6)
    np.testing.assert_allclose(found[0].total_energy, np.sum(D**2), rtol=digits_lost(4))
    scores = np.vstack([result.scores_i for result in found])
    np.testing.assert_allclose(np.abs(scores), np.abs(D @ Vt[:3].T), rtol=0, atol=digits_lost(6) * s[0])


@pytest.mark.parametrize(
    ("m", "widths"), [(60, (3, 1)), (101, (5, 1, 4)), (30, (20, 14)), (4099, (2, 1, 1, 3))], ids=str
)
@pytest.mark.parametrize("alpha", [0.0, 0.7])
@pytest.mark.parametrize("centre", [True, False])
def test_a_regression_on_split_columns_is_that_of_the_joint_table(m, widths, alpha, centre):
    rng, n = np.random.default_rng(m), sum(widths)
    X = [rng.normal(size=(m, w)) * 10.0 ** rng.integers(-3, 4, w) + 1.0 for w in widths]
    joint = np.hstack(X)
    y = joint @ (rng.normal(size=(n, 2)) / joint.std(axis=0)[:, None]) + rng.normal(size=(m, 2)) + 5.0
    found = masked(X, Task.LR, labels=[None] * (len(widths) - 1) + [y], alpha=alpha, centre=centre).run()
    mean, y_mean = (joint.mean(axis=0), y.mean(axis=0)) if centre else (np.zeros(n), np.zeros(2))
    stacked = np.vstack((joint - mean, np.sqrt(alpha) * np.eye(n)))
    w, *_ = np.linalg.lstsq(stacked, np.vstack((y - y_mean, np.zeros((n, 2)))), rcond=None)
    ours = np.hstack([result.coefficients for result in found]).T
    # In the size that each coefficient gives its column: one of 1e-3 beside one of 1e3 counts alike.
    size = np.linalg.norm(joint - mean, axis=0)[:, None] / np.sqrt(m)
    assert np.abs((ours - w) * size).max() <= digits_lost(5) * np.abs(w * size).max()
    # The intercept takes each coefficient times its mean, so that errors as large as those above come with it.
    coefficients = digits_lost(5) * np.abs(w * size).max() * np.sum(np.abs(mean) / size[:, 0])
    bar = digits_lost(5) * np.abs(y).max() + coefficients
    np.testing.assert_allclose(found[0].intercept, y_mean - mean @ w, rtol=0, atol=bar)


def test_lost_rank_gives_the_solution_of_least_norm():
    rng = np.random.default_rng(2)
    X = [rng.normal(size=(80, 4)), rng.normal(size=(80, 3))]
    X[1][:, 0], X[0][:, 3] = X[0][:, 1] - X[0][:, 2], 7.0
    y = rng.normal(size=80)
    found = masked(X, Task.LR, labels=[y, None]).run()
    joint = np.hstack(X) - np.hstack(X).mean(axis=0)
    w, *_ = np.linalg.lstsq(joint, y - y.mean(), rcond=None)
    np.testing.assert_allclose(np.hstack([result.coefficients for result in found])[0], w, rtol=0, atol=RESULT_BAR)
    assert found[0].constant == (3,)


# Answers of the CSP.


def other(change):
    """A CSP whose factors are changed on their way."""

    def meddle(origin, to, message):
        return [change(message) if isinstance(message, Factors) else message]

    return meddle


def turned(factors):
    U = factors.U_masked.copy()
    U[:, :2] = U[:, :2] @ np.array([[np.cos(1e-4), -np.sin(1e-4)], [np.sin(1e-4), np.cos(1e-4)]])
    return Factors(factors.plan, U, factors.sigma_scaled, 0.0, 0.0)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (turned, VerificationFailed),
        (lambda f: Factors(f.plan, f.U_masked, f.sigma_scaled * (1.0 - 1e-6), 0.0, 0.0), VerificationFailed),
        (lambda f: Factors(f.plan, f.U_masked, f.sigma_scaled * 100.0, 0.0, 0.0), AnswerRefused),
        (lambda f: Factors(f.plan, np.zeros_like(f.U_masked), 0.0 * f.sigma_scaled, 0.0, 0.0), VerificationFailed),
        (lambda f: Factors(f.plan, f.U_masked[:, ::-1], f.sigma_scaled, 0.0, 0.0), VerificationFailed),
    ],
    ids=["turned", "values off", "values beyond the joint norm", "nothing", "another order"],
)
def test_other_factors_are_found_before_anything_depends_on_them(change, error):
    made = masked(parts(60, (8, 9), condition=10.0))
    with pytest.raises(error):
        made.run(meddle=other(change))
    after = [said.name for origin, _, said in made.sent if origin == user(1) and isinstance(said, SumShare)]
    assert "orthogonality" not in after


# Plans.


def planned(m, counts, task=Task.SVD, split=V, **asked):
    return plan_study(Study(task, split, **asked), m, counts, SessionId("s")).plan


@pytest.mark.parametrize("memory", [1 << 31, 1 << 40])
def test_the_lengths_alone_decide_the_masks(memory):
    lengths = (HAAR_LEFT_LIMIT, HAAR_LEFT_LIMIT + 1)
    short, long = (planned(m, (5, 6), scheme="mask", memory=memory) for m in lengths)
    assert [plan.left for plan in (short, long)] == [Form.HAAR, Form.MIXING]
    lengths = (HAAR_RIGHT_LIMIT, HAAR_RIGHT_LIMIT + 1)
    short, long = (planned(20, (n - 5, 5), scheme="mask", memory=memory) for n in lengths)
    assert [plan.right for plan in (short, long)] == [Form.HAAR, Form.MIXING]


def test_narrow_blocks_are_refused_where_they_would_be_read():
    with pytest.raises(ConfigError, match="at least 128"):
        planned(5000, (5, 6), scheme="mask", block_size=100)
    assert planned(5000, (5, 6), scheme="mask", block_size=128).block == 128


def test_a_regression_on_split_rows_is_the_sum_familys_as_far_as_memory_goes():
    with pytest.raises(ConfigError, match='set scheme = "sum"'):
        planned(20, (50, 60), Task.LR, H, targets=1, scheme="mask")
    assert planned(20_000, (50, 60), Task.LR, H, targets=1, memory=1 << 36).scheme is Scheme.SUM
    with pytest.raises(StorageError, match="bytes"):
        planned(20_000, (50, 60), Task.LR, H, targets=1, memory=1 << 30)


@pytest.mark.parametrize("memory", [1 << 30, 200_000])
def test_bytes_and_messages_of_a_regression_are_predicted(memory, tmp_path):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(5003, 3)), rng.normal(size=(5003, 2))]
    made = masked(X, Task.LR, labels=[rng.normal(size=5003), None], memory=memory, scratch=tmp_path)
    made.run()
    cost = predict(made.plan)
    assert cost.bytes_by_link == made.certificate.bytes_by_link
    assert cost.messages_by_link == made.certificate.messages_by_link
