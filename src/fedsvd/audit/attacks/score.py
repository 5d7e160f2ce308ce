"""How an attack is scored: never by a number alone, always against what the same number is under chance (C11).

The paper reports the largest signed Pearson correlation over all pairs of found and true columns, and the same for
rows, next to that of uniform noise. A largest value says how spiky the output is as much as how right it is; signs that
no ICA can know are held against it; and on short rows noise scores like truth. Here the found rows are matched with the
true ones, one to one and without regard to sign, and the null is the *same output* against true rows whose entries were
put in another order: that preserves every spike and every marginal, and takes away what was learned.

The p-value is exact where what is found does not depend on the order of the entries (columns are samples to an attack
on rows) and where the mask on the other side is Haar: then every order is as likely as any other. For such attacks, at
such masks, p-values are uniform, which ``uniformity`` tests.
"""

from dataclasses import dataclass

import numpy as np
import scipy.optimize
import scipy.stats

from fedsvd.types import Float

DRAWS = 99
_ROWS_MATCHED = 200


@dataclass(frozen=True, repr=False)
class Score:
    """How well found rows resemble true ones, and what the same output reaches by chance.

    ``largest``, ``matched`` (the mean over a one-to-one matching) and ``typical`` (the median of each true row's best)
    are |Pearson|; ``null`` holds ``matched`` under chance, ``best`` every true row's best, ``best_null`` the same for
    one draw of chance. ``uniform`` is ``largest`` for uniform noise, the paper's baseline.
    """

    largest: float
    matched: float
    typical: float
    p: float
    p_largest: float
    uniform: float
    null: Float
    null_largest: Float
    best: Float
    best_null: Float

    def record(self) -> dict[str, float]:
        """Its figures, without the distributions."""
        return {
            "largest": self.largest,
            "matched": self.matched,
            "typical": self.typical,
            "p": self.p,
            "p_largest": self.p_largest,
            "null_mean": float(self.null.mean()),
            "null_sd": float(self.null.std()),
            "null_largest_mean": float(self.null_largest.mean()),
            "uniform": self.uniform,
        }


def unit(rows: Float) -> Float:
    """Rows centred and of unit length; constant rows become zero and correlate with nothing."""
    centred = rows - rows.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(centred, axis=1, keepdims=True)
    least = 1e-12 * np.abs(rows).max(axis=1, keepdims=True, initial=1e-300)
    units: Float = np.divide(centred, norms, out=np.zeros_like(centred), where=norms > least)
    return units


def correlations(found: Float, true: Float) -> Float:
    """|Pearson| of every row of ``found`` with every row of ``true``."""
    return np.abs(unit(found) @ unit(true).T)


def matched(found: Float, true: Float) -> float:
    """The mean |correlation| under the best one-to-one matching of rows (Hungarian)."""
    return _matching(correlations(found, true))


def score(found: Float, true: Float, draws: int = DRAWS, seed: int = 0, rows: int = _ROWS_MATCHED) -> Score:
    """Found rows against true rows; at most ``rows`` true ones, drawn at random, because matching is cubic.

    The smallest p that can be reached is 1 / (draws + 1).
    """
    rng = np.random.default_rng(seed)
    picked = np.sort(rng.permutation(len(true))[:rows])
    F, T = unit(found), unit(true[picked])
    table = np.abs(F @ T.T)
    null, null_largest, best_null = np.empty(draws), np.empty(draws), np.zeros(len(T))
    for draw in range(draws):
        chance = np.abs(F @ T[:, rng.permutation(T.shape[1])].T)
        null[draw], null_largest[draw] = _matching(chance), chance.max(initial=0.0)
        best_null = chance.max(axis=0, initial=0.0)
    best = table.max(axis=0, initial=0.0)
    noise = np.abs(unit(rng.random(found.shape)) @ T.T)
    return Score(
        largest=float(best.max(initial=0.0)),
        matched=_matching(table),
        typical=float(np.median(best)),
        p=p_value(_matching(table), null),
        p_largest=p_value(float(best.max(initial=0.0)), null_largest),
        uniform=float(noise.max(initial=0.0)),
        null=null,
        null_largest=null_largest,
        best=best,
        best_null=best_null,
    )


def p_value(observed: float, null: Float) -> float:
    """The share of chance that does as well, the observation counted with it."""
    return (1 + int(np.count_nonzero(null >= observed))) / (len(null) + 1)


def uniformity(p: Float) -> float:
    """The p-value of the test that these p-values are uniform (Kolmogorov-Smirnov); small where an attack learns."""
    return float(scipy.stats.kstest(p, "uniform").pvalue)


def exact_entries(found: Float, true: Float) -> tuple[float, float]:
    """Of the true entries that are not zero, the share found exactly after rounding; of the zeros, the share missed."""
    rounded = np.rint(found)
    there = true != 0
    hits = float(np.mean(rounded[there] == true[there])) if there.any() else 0.0
    misses = float(np.mean(rounded[~there] != 0)) if not there.all() else 0.0
    return hits, misses


def gap(found: Float, true: Float) -> float:
    """How far two matrices are apart, relative to the true one."""
    return float(np.linalg.norm(found - true) / np.linalg.norm(true))


def _matching(table: Float) -> float:
    rows, places = scipy.optimize.linear_sum_assignment(-table)
    return float(table[rows, places].mean()) if len(rows) else 0.0
