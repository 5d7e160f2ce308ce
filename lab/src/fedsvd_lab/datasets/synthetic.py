"""The paper's synthetic data: a power-law spectrum, in the paper's reading and in that of its code; and ratings.

The appendix says alpha = 0.01 and an orthonormal V. The authors' code draws V plainly Gaussian, so that the spectrum is
only roughly the power law, divides by sqrt(n - 1) and by the largest row norm, and sets alpha = 1.0 (0.1 where data is
on disk). MovieLens-25M cannot be passed on and is large, so ratings of its shape are drawn.
"""

from typing import Any

import numpy as np

from fedsvd.errors import ConfigError
from fedsvd.types import Float


def power_law(m: int, n: int, alpha: float = 0.01, *, seed: int) -> Float:
    """``U diag(j^-alpha) Vt`` with orthonormal U and V: the paper's text; m <= n."""
    if m > n:
        raise ConfigError(f"a power law of {m} x {n}", "at least as many columns as rows")
    rng = np.random.default_rng(seed)
    U, _ = np.linalg.qr(rng.standard_normal((m, m)))
    V, _ = np.linalg.qr(rng.standard_normal((n, m)))
    X: Float = (U * _spectrum(m, alpha)) @ V.T
    return X


def power_law_of_the_code(m: int, n: int, alpha: float = 1.0, *, seed: int) -> Float:
    """``U diag(j^-alpha) G / sqrt(n - 1)``, G Gaussian, divided by the largest row norm: the authors' code."""
    rng = np.random.default_rng(seed)
    k = min(m, n)
    U, _ = np.linalg.qr(rng.standard_normal((m, k)))
    X: Float = (U * _spectrum(k, alpha)) @ rng.standard_normal((k, n)) / np.sqrt(max(n - 1, 1))
    return X / float(np.linalg.norm(X, axis=1).max())


def regression(m: int, n: int, *, seed: int) -> tuple[Float, Float]:
    """Samples and labels of scikit-learn's ``make_regression``: 90 % informative features, noise of deviation 1."""
    from sklearn.datasets import make_regression

    X, y = make_regression(m, n, n_informative=max(1, 9 * n // 10), noise=1.0, random_state=seed)
    return X, y


def ratings(films: int, users: int, count: int, *, seed: int) -> Any:
    """A sparse matrix of ``count`` ratings, 0.5 to 5.0 in half stars, films in rows.

    Popularity of films falls like a power of their rank and the activity of users is log-normal, as in MovieLens; a
    rating is a mean, a film's part, a user's part and noise, rounded.
    """
    from scipy import sparse

    if count > films * users // 4:
        raise ConfigError(f"{count} ratings among {films} x {users}", "a sparse matrix: at most a quarter of all cells")
    rng = np.random.default_rng(seed)
    popular = np.cumsum(1.0 / np.arange(10, films + 10) ** 1.1)
    active = np.cumsum(rng.lognormal(0.0, 1.2, users))
    cells = np.empty(0, dtype=np.int64)
    while len(cells) < count:
        # Pairs that were drawn before fall out, so the rest is drawn again.
        wanted = int(1.2 * (count - len(cells))) + 16
        film = np.searchsorted(popular, rng.random(wanted) * popular[-1])
        user = np.searchsorted(active, rng.random(wanted) * active[-1])
        cells = np.unique(np.concatenate((cells, film.astype(np.int64) * users + user)))
    cells = np.sort(rng.permutation(cells)[:count])
    film, user = np.divmod(cells, users)
    liking = 3.5 + 0.5 * rng.standard_normal(films)[film] + 0.4 * rng.standard_normal(users)[user]
    stars = np.clip(np.round(2 * (liking + 0.8 * rng.standard_normal(count))) / 2, 0.5, 5.0)
    return sparse.csr_array((stars, (film, user)), shape=(films, users))


def _spectrum(k: int, alpha: float) -> Float:
    spectrum: Float = np.arange(1, k + 1, dtype=np.float64) ** -alpha
    return spectrum
