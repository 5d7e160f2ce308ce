"""Tables of ratings made up for attacks: whole numbers from 1 to 5 in a few places, zero elsewhere."""

import numpy as np


def ratings(rows, columns, density=0.08, seed=0):
    """Rows and columns of very different popularity, as in life; no row and no column is empty."""
    rng = np.random.default_rng(seed)
    taste = np.outer(rng.pareto(2.5, rows) + 0.3, rng.pareto(2.5, columns) + 0.3)
    given = rng.random((rows, columns)) < np.clip(taste * density / taste.mean(), 0.0, 0.7)
    given[np.arange(rows), rng.integers(0, columns, rows)] = True
    given[rng.integers(0, rows, columns), np.arange(columns)] = True
    return rng.integers(1, 6, (rows, columns)) * given.astype(float)
