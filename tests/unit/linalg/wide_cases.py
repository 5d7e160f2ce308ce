"""Joint tables that break Gram matrices, as the matrices of several users side by side; each is (features, columns)."""

import numpy as np
from tests.ring128 import add, from_ints, to_ints

from fedsvd.linalg import exact_gram, widen


def haar(n, rng):
    Q, R = np.linalg.qr(rng.standard_normal((n, n)))
    return Q * np.where(np.diag(R) < 0, -1.0, 1.0)


def _cut(X, *ends):
    return np.split(X, ends, axis=1)


def _odd_rows(m, rng):
    X = rng.standard_normal((m, 2 * m))
    X[0], X[1], X[2] = 0.0, X[3], 5.0
    return _cut(X, m)


def _kahan(m):
    sine, cosine = np.sin(1.2), np.cos(1.2)
    return np.diag(sine ** np.arange(m)) @ (np.eye(m) - cosine * np.triu(np.ones((m, m)), 1))


def _with_condition(exponent):
    def parts(m, rng):
        scale = np.logspace(0, -exponent, m)[:, None]
        return _cut(haar(m, rng) @ (scale * rng.standard_normal((m, 3 * m))), m, 2 * m)

    return parts


def _with_rank(rank):
    def parts(m, rng):
        r = rank(m)
        return _cut(rng.standard_normal((m, r)) @ rng.standard_normal((r, 3 * m)), m)

    return parts


CASES = {
    **{f"condition 1e{a}": _with_condition(a) for a in (0, 6, 12, 16)},
    "rank 5": _with_rank(lambda m: 5),
    "rank m/2": _with_rank(lambda m: m // 2),
    "Hilbert": lambda m, rng: _cut(1.0 / (np.arange(m)[:, None] + np.arange(3 * m) + 1.0), m),
    "Laeuchli": lambda m, rng: _cut(np.hstack([np.ones((m, 1)), 1e-9 * np.eye(m)]), m // 2),
    "Kahan": lambda m, rng: _cut(_kahan(m), m // 2),
    "2 users": lambda m, rng: _cut(rng.standard_normal((m, 3 * m)), m),
    "10 users, scales 1e-2i": lambda m, rng: [
        rng.standard_normal((m, max(1, 3 * m // (i + 1)))) * 10.0 ** (-2 * i) for i in range(10)
    ],
    "10 users, scales 1e-20i": lambda m, rng: [rng.standard_normal((m, 30)) * 10.0 ** (-20 * i) for i in range(10)],
    "users of 7 columns and of 1": lambda m, rng: [rng.standard_normal((m, p)) for p in (2 * m, 7, 1)],
    "9 columns in all": lambda m, rng: [rng.standard_normal((m, p)) for p in (5, 4)],
    "one column, and zeros": lambda m, rng: [rng.standard_normal((m, 1)), np.zeros((m, 1))],
    "features from 1e-8 to 1e8": lambda m, rng: _cut(
        np.logspace(-8, 8, m)[:, None] * rng.standard_normal((m, 3 * m)), m
    ),
    "zero, twin and constant features": _odd_rows,
}
RANK_DEFICIENT = {
    "10 users, scales 1e-20i": lambda m, rng: [rng.standard_normal((m, m // 2)) * 10.0 ** (-20 * i) for i in range(10)],
    "rank m/2": CASES["rank m/2"],
    "rank 5": CASES["rank 5"],
    "one column": lambda m, rng: [rng.standard_normal((m, 1)), np.zeros((m, 1))],
}


def shares(parts, rng, masked):
    """The slices of every user's share and the unit of singular values, P and c drawn where ``masked`` (mode B)."""
    m, F1 = parts[0].shape[0], float(np.linalg.norm(np.hstack(parts)))
    P, c = (haar(m, rng), 2.0 ** rng.random()) if masked else (np.eye(m), 1.0)
    factors = [P @ (np.linalg.qr(X.T, mode="r").T if X.shape[1] > m else X) for X in parts]
    F, N = widen.unit(F1, c), sum(widen.width(m, L.shape[1]) for L in factors)
    slices = []
    for L in factors:
        q = widen.width(m, L.shape[1])
        A = widen.widen((c / F) * L, widen.draw_rows(L.shape[1], q, rng.standard_normal))
        slices.append(exact_gram.sliced(A, np.rint(widen.dither_deviation(F1, N, c) * rng.standard_normal(A.shape))))
    return slices, F / c


def opened(parts, rng, masked=False):
    """The words of the joint Gram matrix's upper triangle, and the unit of its singular values."""
    slices, unit = shares(parts, rng, masked)
    m = parts[0].shape[0]
    total = slices[0].rows(0, m)
    for own in slices[1:]:
        total = add(total, own.rows(0, m))
    return total, unit


def words_of(rows):
    """Words of the upper triangle of a symmetric matrix of Python integers."""
    return from_ints([rows[i][j] for i in range(len(rows)) for j in range(i, len(rows))])


def integers_of(G):
    """The symmetric matrix of Python integers of a triangle of words."""
    flat = iter(to_ints(G))
    m = int((np.sqrt(8 * G.shape[0] + 1) - 1) / 2)
    upper = [[next(flat) for _ in range(i, m)] for i in range(m)]
    return [[upper[min(i, j)][abs(i - j)] for j in range(m)] for i in range(m)]
