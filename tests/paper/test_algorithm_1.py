"""Algorithm 1: the random orthogonal matrix of a seed has the law of Gram-Schmidt on a Gaussian matrix.

Ours is drawn as reflectors, so it is not the paper's matrix number by number; it is orthogonal to rounding, which
Gram-Schmidt is not.
"""

import numpy as np
from scipy.stats import ks_2samp
from tests import tolerances
from tests.explicit import seed

from fedsvd.masks.orthogonal import orthogonal
from fedsvd.randomness.keystream import Keystream

N, DRAWS = 5, 2000


def gram_schmidt(R):
    """The paper's process: each column less its part along the earlier ones, then to length one."""
    Q = np.zeros_like(R)
    for j in range(R.shape[1]):
        q = R[:, j] - Q[:, :j] @ (Q[:, :j].T @ R[:, j])
        Q[:, j] = q / np.linalg.norm(q)
    return Q


def test_its_law_is_that_of_gram_schmidt_on_gaussian_matrices():
    stream, rng = Keystream(seed(1)), np.random.default_rng(2)
    ours = np.stack([orthogonal(N, stream).explicit() for _ in range(DRAWS)])
    theirs = np.stack([gram_schmidt(rng.normal(size=(N, N))) for _ in range(DRAWS)])
    for row, column in ((0, 0), (0, N - 1), (N - 1, 0), (N - 1, N - 1), (2, 3)):
        assert ks_2samp(ours[:, row, column], theirs[:, row, column]).pvalue > tolerances.ACCEPTED
    for statistic in (
        lambda Q: np.trace(Q, axis1=1, axis2=2),
        lambda Q: np.trace(Q @ Q, axis1=1, axis2=2),
        lambda Q: np.abs(Q).max(axis=(1, 2)),
        lambda Q: Q[:, 0, 0] * Q[:, 1, 1] - Q[:, 0, 1] * Q[:, 1, 0],
    ):
        assert ks_2samp(statistic(ours), statistic(theirs)).pvalue > tolerances.ACCEPTED


def test_everyone_who_knows_the_seed_makes_the_same_matrix():
    first, again = (orthogonal(40, Keystream(seed(3))).explicit() for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_it_is_orthogonal_to_rounding_where_gram_schmidt_is_not():
    n = 400
    ours = orthogonal(n, Keystream(seed(4))).explicit()
    theirs = gram_schmidt(np.random.default_rng(5).normal(size=(n, n)))
    assert np.abs(ours.T @ ours - np.eye(n)).max() < tolerances.ORTHOGONAL_BAR
    assert np.abs(theirs.T @ theirs - np.eye(n)).max() > tolerances.ORTHOGONAL_BAR
