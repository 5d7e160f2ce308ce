"""Matrices that arrive in panels and have broken factorisations before; each is (features, samples)."""

import numpy as np

M, N = 24, 600
CONDITIONS = (1.0, 1e6, 1e12, 1e15)


def conditioned(condition, m=M, n=N, seed=1):
    """A matrix with geometrically falling singular values."""
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.normal(size=(m, m)))[0]
    V = np.linalg.qr(rng.normal(size=(n, m)))[0]
    return U * np.geomspace(1.0, 1.0 / condition, m) @ V.T


def _sorted_one_hot():
    X = np.zeros((M, N))
    X[np.sort(np.random.default_rng(2).integers(0, M, N)), np.arange(N)] = 1.0
    return X


def _with(rows, columns, value):
    X = G.copy()
    X[rows, columns] = value
    return X


rng = np.random.default_rng(3)
G = rng.normal(size=(M, N))

CASES = {
    "gaussian": G,
    **{f"condition {condition:g}": conditioned(condition) for condition in CONDITIONS},
    "rank 3": rng.normal(size=(M, 3)) @ rng.normal(size=(3, N)),
    "rank 1": np.outer(np.arange(1.0, M + 1), G[0]),
    "zero": np.zeros((M, N)),
    "every feature twice": np.repeat(G[: M // 2], 2, axis=0),
    "every sample twice": np.repeat(G[:, : N // 2], 2, axis=1),
    "few samples, many times": np.tile(G[:, :10], N // 10),
    "features from 1e-8 to 1e8": G * np.geomspace(1e-8, 1e8, M)[:, None],
    "features from 1e8 to 1e-8": G * np.geomspace(1e8, 1e-8, M)[:, None],
    "samples growing": G * np.geomspace(1e-8, 1e8, N),
    "samples shrinking": G * np.geomspace(1e8, 1e-8, N),
    "another spectrum in the middle": np.concatenate(
        (conditioned(1e10, seed=4)[:, : N // 2], conditioned(1e10, seed=5)[:, N // 2 :]), axis=1
    ),
    "a jump in scale": np.concatenate((G[:, : N // 2] * 1e-8, G[:, N // 2 :] * 1e8), axis=1),
    "features never seen": _with(slice(None, None, 3), slice(None), 0.0),
    "features seen only late": _with(slice(None, None, 3), slice(None, N - 60), 0.0),
    "features seen only early": _with(slice(None, None, 3), slice(50, None), 0.0),
    "first feature never seen": _with(0, slice(None), 0.0),
    "last feature never seen": _with(M - 1, slice(None), 0.0),
    "sparse": G * (rng.random((M, N)) < 0.02),
    "nearly empty": G * (rng.random((M, N)) < 0.001),
    "one-hot, sorted": _sorted_one_hot(),
    "large mean": G + 1e6,
    "constant": np.ones((M, N)),
    "whole numbers": rng.integers(0, 6, (M, N)).astype(np.float64),
    "drifting": np.cumsum(G, axis=1),
    "Vandermonde": np.vander(np.linspace(0.0, 1.0, N), M).T,
    "near overflow": G * 1e200,
    "near underflow": G * 1e-200,
    "fewer samples than features": G[:, : M // 2],
    "as many samples as features": G[:, :M],
    "one sample": G[:, :1],
    "one feature": G[:1],
}
