"""Masks of the mask family against the attacks that read windows (specification, section 4).

A window is a block, whether its rows are neighbours or drawn at random: the Gram matrices of slices of Y, which Q turns
all alike, are read by joint diagonalisation, and sparse whole numbers by alternating ICA. Under masks over whole sides
the same attacks find what they find under Haar masks, whose view is a function of S. Not zero: that is the null.
"""

import numpy as np
import pytest
import scipy.linalg
from tests.adversary.scores import same_law
from tests.explicit import seed
from tests.tolerances import ACCEPTED, REJECTED
from tests.unit.lab.ratings import ratings as ratings_of

from fedsvd.audit.attacks.alternating import WholeNumbers, alternate, refined
from fedsvd.audit.attacks.unmix import Cuts
from fedsvd.linalg.windows import MIXING_BLOCK, Form, block_sizes
from fedsvd.protocol.tasks import Scheme, Split, Task
from fedsvd.roles.user.masking import Masks
from fedsvd.studies.planning import plan_study
from fedsvd.studies.study import Study
from fedsvd.types import SessionId
from fedsvd_lab.attacks.joint_diagonal import jointly_diagonal

M, N, SLICES = 8209, 16, 24  # a prime number of rows; the CSP cuts what it sees into so many slices

# Columns of each party and memory budgets: two to ten parties, small ones among large ones, little memory and much.
PLANS = [
    ((9, 7), None),
    ((15, 1), 1 << 20),
    ((1, 14, 1), 1 << 30),
    ((4, 4, 4, 4), 1 << 20),
    ((2, 3, 1, 5, 5), 1 << 25),
    ((1, 1, 1, 1, 1, 1, 1, 9), None),
    ((1, 2, 1, 2, 1, 2, 1, 2, 1, 3), 1 << 20),
    ((7, 2, 7), 1 << 22),
]


def ratings(rng):
    return np.where(rng.random((M, N)) < 0.03, rng.integers(1, 6, (M, N)), 0).astype(float)


def one_hot(rng):
    return np.eye(N)[np.minimum(rng.geometric(0.15, M) - 1, N - 1)]


def drifting(rng):
    return rng.normal(size=(M, N)) * np.exp(2.0 * np.cos(np.outer(np.linspace(0, 3, M), np.arange(1, N + 1))))


def thirty_ones(rng):
    X = np.zeros((M, N))
    for j in range(N):
        X[rng.choice(M, 30, replace=False), j] = 1.0
    return X


DATA = [ratings, one_hot, drifting, thirty_ones]


def masks(number):
    """What the users of a plan, as it is made for this shape, mask with; every number has a plan of its own."""
    counts, memory = PLANS[number % len(PLANS)]
    budget = {} if memory is None else {"memory": memory}
    # As the rule of families has it: more rows than columns, and more than 4,096 of them.
    made = plan_study(Study(Task.SVD, Split.VERTICAL, **budget), M, counts, SessionId("s"))
    plan = made.plan
    assert (plan.scheme, plan.left, plan.right) == (Scheme.MASK, Form.MIXING, Form.HAAR)
    return [Masks(plan, i, seed(number), seed(1000 * number + i + 1)) for i in range(plan.k)]


def right_side(users):
    """``diag(T_1 .. T_k) Q``, (N, N)."""
    Q = users[0].Q.matrix.explicit()
    return scipy.linalg.block_diag(*(user.T_i.explicit() for user in users)) @ Q


def read_of(Y, right):
    """The cosine of every row of the right mask with the nearest vector that joint diagonalisation finds."""
    grams = np.array([part.T @ part for part in np.array_split(Y, SLICES)])
    grams -= grams.mean(axis=0)
    found = jointly_diagonal(grams / np.linalg.norm(grams, axis=(1, 2))[:, None, None])
    return np.abs(found @ right.T).max(axis=0)


def haar_view(X, right, rng):
    """``P X`` has the law of a Haar frame times the singular values when P is Haar."""
    _, s, Vt = np.linalg.svd(X, full_matrices=False)
    return np.linalg.qr(rng.normal(size=(M, N)))[0] * s @ Vt @ right


def window_view(X, right, rng):
    """Windows of random rows, each under a Haar matrix of its own."""
    order, Y = rng.permutation(M), np.empty((M, N))
    for place in np.array_split(np.arange(M), SLICES):
        rows = X[order[place]]
        Y[place] = np.linalg.qr(rng.normal(size=(len(place), N)))[0] @ np.linalg.qr(rows)[1]
    return Y @ right


@pytest.mark.slow
@pytest.mark.parametrize("data", DATA, ids=lambda data: data.__name__)
def test_joint_diagonalisation_reads_windows_and_finds_no_more_under_our_masks_than_under_haar(data):
    ours, null, windows = [], [], []
    for number in range(1, 9):
        rng = np.random.default_rng(number)
        X, users = data(rng), masks(number)
        right = right_side(users)
        ours.append(read_of(users[0].P.left(X) @ right, right))
        null += [read_of(haar_view(X, right, rng), right) for _ in range(4)]
        windows.append(read_of(window_view(X, right, rng), right))
    read, shown, chance = (np.mean(np.concatenate(cosines) > 0.9) for cosines in (windows, ours, null))
    assert read > 0.5 > 0.1 > chance
    assert shown <= chance + 0.02
    medians = [np.median(cosines) for cosines in null]
    assert min(medians) - 0.05 <= np.median(ours) <= max(medians) + 0.05
    assert same_law(np.concatenate(ours), np.concatenate(null)) > ACCEPTED


# Alternating ICA, with whole numbers known, on plans as they are made for a side that is just too long for Haar masks.

ROWS, COLUMNS, BLOCK = 4217, 60, 12
SPLITS = [(30, 30), (58, 2), (1, 20, 20, 19), (6,) * 10]


def outstanding(Y, X, cuts):
    """The share of energy in as many entries of the estimate as X has; 1 where X itself was found."""
    found = refined(Y, cuts, alternate(Y, cuts), WholeNumbers(passes=40)).found
    energies = np.sort(np.ravel(found**2))[::-1]
    return energies[: np.count_nonzero(X)].sum() / energies.sum()


def mixed_view(X, number, counts):
    plan = plan_study(Study(Task.SVD, Split.VERTICAL), ROWS, counts, SessionId("s")).plan
    assert (plan.scheme, plan.left) == (Scheme.MASK, Form.MIXING)
    users = [Masks(plan, i, seed(number), seed(100 * number + i + 1)) for i in range(plan.k)]
    return users[0].P.left(X) @ right_side(users)


def haar(X, rng):
    """X under Haar matrices on both sides, by the law of a Haar frame."""
    U, _, Vt = (np.linalg.qr(rng.normal(size=(side, COLUMNS)))[0] for side in (ROWS, COLUMNS, COLUMNS))
    return U * np.linalg.svd(X, compute_uv=False) @ Vt


def rotated(X, rng, left, right):
    """X under Haar blocks of these sizes."""
    for sizes in (left, right):
        parts = np.split(X, np.cumsum(sizes)[:-1])
        X = np.vstack([np.linalg.qr(rng.normal(size=(len(part), len(part))))[0] @ part for part in parts]).T
    return X


@pytest.mark.slow
def test_alternating_ica_reads_windows_of_random_rows_and_finds_under_our_masks_what_haar_shows():
    rng, cuts = np.random.default_rng(5), Cuts.of_width((ROWS, COLUMNS), BLOCK)
    X = ratings_of(ROWS, COLUMNS, seed=2)
    shuffled = X[rng.permutation(ROWS)][:, rng.permutation(COLUMNS)]
    windows = rotated(shuffled, rng, block_sizes(ROWS, BLOCK), block_sizes(COLUMNS, BLOCK))
    null = [outstanding(haar(X, rng), X, cuts) for _ in range(6)]
    ours = [outstanding(mixed_view(X, number, counts), X, cuts) for number, counts in enumerate(SPLITS, start=1)]
    assert outstanding(windows, X, cuts) > 0.95
    assert max(ours) < min(null) + 0.02
    assert abs(np.mean(ours) - np.mean(null)) < 4 * np.std(null + ours)


# What goes into the last round.


def columns_of(kind, rng):
    """Five orthonormal columns that a mask could have a hard time with."""
    place = np.arange(M)
    if kind == "spikes":
        X = np.zeros((M, 5))
        X[rng.choice(M, 5, replace=False), np.arange(5)] = 1.0
    elif kind == "one-hot":
        X = np.eye(5)[rng.integers(0, 5, M)]
    elif kind == "constant":
        X = np.stack([np.ones(M), *(np.cos(np.pi * k * (place + 0.5) / M) for k in (1, 7, 400, M - 1))], axis=1)
    elif kind == "sorted":
        X = np.sort(rng.normal(size=(M, 5)), axis=0) ** np.arange(1, 6)
    else:
        X = np.zeros((M, 5))
        for j in range(5):
            X[rng.choice(M, 30, replace=False), j] = 1.0
    return np.linalg.qr(X)[0]


def block_grams(Z):
    """Entries of the Gram matrices of the last round's blocks: those on the diagonal, and the others."""
    upper = np.triu_indices(5, 1)
    grams = [part.T @ part for part in np.split(Z, np.cumsum(block_sizes(M, MIXING_BLOCK))[:-1])]
    return np.ravel([np.diag(gram) for gram in grams]), np.ravel([gram[upper] for gram in grams])


@pytest.mark.parametrize("kind", ["spikes", "one-hot", "constant", "sorted", "thirty ones"])
def test_what_meets_the_last_blocks_looks_like_haar(kind):
    """After Haar blocks the law of P U depends on these Gram matrices alone: all that could show is here."""
    rng, ours, haar, once = np.random.default_rng(3), [], [], []
    for number in range(1, 11):
        U, P = columns_of(kind, rng), masks(number)[0].P.matrix
        ours.append(block_grams(P.before(1, P.blocks[0].left(P.before(0, U)))))
        haar.append(block_grams(np.linalg.qr(rng.normal(size=(M, 5)))[0]))
        once.append(block_grams(U))
    for ours_, haar_, once_ in zip(
        zip(*ours, strict=True), zip(*haar, strict=True), zip(*once, strict=True), strict=True
    ):
        assert same_law(np.concatenate(ours_), np.concatenate(haar_)) > ACCEPTED
        if kind != "one-hot":  # whose rows are in random order already
            assert same_law(np.concatenate(once_), np.concatenate(haar_)) < REJECTED
