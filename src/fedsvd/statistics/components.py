"""How many components: by share of variance, Minka's likelihood, Gavish and Donoho's threshold, parallel analysis.

``choose`` goes by the name of a rule. All take the singular values of the centred joint table, in falling order. All
but the share of variance and parallel analysis need the whole spectrum, ``min(rows, columns)`` values.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from fedsvd.errors import ConfigError, ShapeError
from fedsvd.types import Float

_TINY = 1e-15  # scikit-learn's least eigenvalue
MLE, PARALLEL, GAVISH_DONOHO = "mle", "parallel", "gavish-donoho"


@dataclass(frozen=True, repr=False)
class Choice:
    """How many components a rule takes, one at least, and the singular values they had to exceed, where it has some."""

    rule: str
    count: int
    threshold: Float | None = None  # one for each component

    def __repr__(self) -> str:
        return f"Choice({self.rule!r}, count={self.count})"


def choose(rule: str, values: Float, rows: int, columns: int, permuted: Float | None = None) -> Choice:
    """What a rule makes of all singular values of a centred rows x columns table; a rule may be a share of variance.

    ``permuted``, (tables, k), are the spectra of permuted tables, which "parallel" compares with.
    """
    if rule == MLE:
        return Choice(rule, max(1, by_likelihood(values, rows, columns)))
    if rule == GAVISH_DONOHO:
        level = threshold(values, rows, columns)
        return Choice(rule, max(1, int(np.sum(values > level))), np.full(values.shape[0], level))
    if rule == PARALLEL:
        if permuted is None:
            raise ConfigError("parallel analysis needs spectra of permuted tables", "choose components by another rule")
        levels = parallel_levels(permuted)[: values.shape[0]]
        return Choice(rule, max(1, by_parallel(values, permuted)), levels)
    return Choice(rule, by_share(values, float(rule)))


def by_share(values: Float, share: float, total: float | None = None) -> int:
    """The least number of components that explain more than this share of the variance.

    ``total`` is the squared norm of the table, needed where only the first singular values are known.
    """
    if not 0.0 < share < 1.0:
        raise ConfigError(f"a share of variance is between 0 and 1, got {share}", "components = 0.9, say")
    squares = np.square(values)
    whole = float(np.sum(squares)) if total is None else total
    ratio = np.cumsum(squares / whole)
    count = int(np.searchsorted(ratio, share, side="right")) + 1
    if count > values.shape[0]:
        raise ConfigError(
            f"{values.shape[0]} components explain {ratio[-1]:.4f} of the variance, less than {share}",
            "ask for more components",
        )
    return count


def by_likelihood(values: Float, rows: int, columns: int) -> int:
    """Minka's choice ("mle"): the dimension with the most likely data; needs at least as many rows as columns."""
    if rows < columns:
        raise ConfigError(
            f'"mle" needs at least as many rows as columns, got {rows} and {columns}',
            "name a number of components, or a share",
        )
    if values.shape[0] != columns:
        raise ShapeError(f'"mle" needs all {columns} singular values, got {values.shape[0]}')
    spectrum = np.square(values) / (rows - 1)
    scores = [-math.inf, *(_evidence(spectrum, rank, rows) for rank in range(1, columns))]
    return int(np.argmax(scores))


def _evidence(spectrum: Float, rank: int, rows: int) -> float:
    """Minka's approximation of the log-probability of the data, given that there are ``rank`` components."""
    columns = spectrum.shape[0]
    if spectrum[rank - 1] < _TINY:
        return -math.inf
    sides = columns - np.arange(rank)
    subspaces = -rank * math.log(2.0) + float(np.sum(gammaln(sides / 2.0) - math.log(math.pi) * sides / 2.0))
    noise = max(_TINY, float(np.sum(spectrum[rank:])) / (columns - rank))
    fit = -rows / 2.0 * (float(np.sum(np.log(spectrum[:rank]))) + (columns - rank) * math.log(noise))
    free = columns * rank - rank * (rank + 1.0) / 2.0
    smoothed = spectrum.copy()
    smoothed[rank:] = noise
    i, j = np.triu_indices(columns, 1)
    i, j = i[i < rank], j[i < rank]
    with np.errstate(divide="ignore"):
        gaps = np.log((spectrum[i] - spectrum[j]) * (1.0 / smoothed[j] - 1.0 / smoothed[i])) + math.log(rows)
    volume = math.log(2.0 * math.pi) * (free + rank) / 2.0
    return float(subspaces + fit + volume - np.sum(gaps) / 2.0 - rank * math.log(rows) / 2.0)


def threshold(values: Float, rows: int, columns: int) -> float:
    """Gavish and Donoho's optimal hard threshold of all singular values of a rows x columns table.

    The standard deviation of the noise is taken from their median.
    """
    beta = min(rows, columns) / max(rows, columns)
    root = 8.0 * beta / (beta + 1.0 + math.sqrt(beta * beta + 14.0 * beta + 1.0))
    known = math.sqrt(2.0 * (beta + 1.0) + root)
    if values.shape[0] < min(rows, columns):
        raise ShapeError(f"the threshold needs all {min(rows, columns)} singular values, got {values.shape[0]}")
    return known / math.sqrt(_median(beta)) * float(np.median(values))


def _median(beta: float) -> float:
    """The median of the Marchenko-Pastur law of this ratio."""
    # Imported here: they take a quarter of a second, and hardly any process needs them.
    from scipy.integrate import quad
    from scipy.optimize import brentq

    least, most = (1.0 - math.sqrt(beta)) ** 2, (1.0 + math.sqrt(beta)) ** 2

    def below(x: float) -> float:
        # With t = least + (x - least) sin^2, the square roots at both ends become smooth.
        def density(angle: float) -> float:
            t = least + (x - least) * math.sin(angle) ** 2
            change = 2.0 * (x - least) * math.sin(angle) * math.cos(angle)
            return math.sqrt(max(0.0, (most - t) * (t - least))) / (2.0 * math.pi * beta * t) * change if t > 0 else 0.0

        return float(quad(density, 0.0, math.pi / 2.0, epsabs=1e-12, epsrel=1e-12)[0])

    return float(brentq(lambda x: below(x) - 0.5, least + 1e-9 * (most - least), most, xtol=1e-13))


def by_parallel(values: Float, permuted: Float) -> int:
    """Parallel analysis: leading singular values above a quantile of the same ones of permuted tables.

    ``permuted``, (tables, k), are spectra of tables in which each column was permuted on its own.
    """
    if permuted.ndim != 2 or permuted.shape[0] == 0:
        raise ConfigError("parallel analysis needs spectra of permuted tables", "choose components by another rule")
    k = min(values.shape[0], permuted.shape[1])
    above = values[:k] > parallel_levels(permuted)[:k]
    return k if bool(np.all(above)) else int(np.argmin(above))


def parallel_levels(permuted: Float) -> Float:
    """What each singular value has to exceed: the 0.95 quantile of the same one of the permuted tables."""
    levels: Float = np.quantile(permuted, 0.95, axis=0)
    return levels
