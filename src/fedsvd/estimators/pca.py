"""Principal component analysis of samples that several parties hold: section 4 of the paper, with C9 and C12."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np

from fedsvd.data.source import MatrixSource
from fedsvd.errors import ConfigError
from fedsvd.estimators.base import FederatedTransformer, documented, padded, projected
from fedsvd.estimators.tables import Tables
from fedsvd.policy.rules import Policy
from fedsvd.protocol.tasks import RELEASED_BY_DEFAULT, Item, Task
from fedsvd.roles.user.pca import PCAResult
from fedsvd.statistics.components import by_likelihood, by_share, by_threshold
from fedsvd.types import Float

# Attributes that not every fit has: those of an earlier one must not stay.
_WHERE_RELEASED = (
    "scale_",
    "singular_values_",
    "explained_variance_",
    "explained_variance_ratio_",
    "noise_variance_",
)


_RULES: dict[str, Callable[[Float, int, int], int]] = {
    "mle": by_likelihood,
    "gavish-donoho": lambda values, rows, columns: max(1, by_threshold(values, rows, columns)),
}


@dataclass(frozen=True, repr=False)
class PartyScores:
    """After PCA: the mean and the components are shared, ``scores_`` (n_i, rank) are its own."""

    mean_: Float
    components_: Float
    scores_: Float

    def __repr__(self) -> str:
        return f"PartyScores(scores_={self.scores_.shape}, components_={self.components_.shape})"


@documented
class FederatedPCA(FederatedTransformer):
    """Principal component analysis over samples that stay with their parties.

    The result is that of ``sklearn.decomposition.PCA(svd_solver="full")`` on the joint table, signs included: the
    parties agree on the mean by a sum that only they can read, and the Computation Service Provider factorises a
    masked matrix. All roles run in this process; what each party would hold is in ``parties_``.

    Parameters
    ----------
    n_components : int, float, "mle" or "gavish-donoho", default=None
        How many components; None for min(n_samples, n_features). Between 0 and 1, the least number that explains more
        than this share of the variance; "mle" is Minka's choice, "gavish-donoho" those above the optimal hard
        threshold, one at least. Each of these three needs the whole spectrum: U and S go to all parties, as with None,
        and each party takes the first components locally.
    split : {"horizontal"}, default="horizontal"
        Parties hold different samples of the same features.
    unit_variance : bool, default=False
        Scale every feature to unit variance first, as ``StandardScaler`` does; constant features are left at zero.
    release_spectrum : bool, default=True
        Release the singular values to all parties. Without them the parties learn no more than the mean and the
        top subspace, and the attributes about explained variance are missing.
    {parameters}

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Orthonormal rows by falling variance; zero rows beyond ``rank_``.
    explained_variance_ : ndarray of shape (n_components,)
        Variance of the joint scores along each component.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        The same as fractions of the total variance.
    singular_values_ : ndarray of shape (n_components,)
        Of the centred joint table.
    noise_variance_ : float
        Mean variance of the directions left out.
    mean_ : ndarray of shape (n_features,)
        Mean of the joint table.
    scale_ : ndarray of shape (n_features,)
        Standard deviations, 1 for constant features; with ``unit_variance`` only.
    n_components_, n_samples_, rank_ : int
        Counts; ``rank_`` is how many components are more than rounding, at most ``n_components_``.
    parties_ : tuple of PartyScores
        What each party would hold: the mean, the components, and its own ``scores_`` of shape ``(n_i, rank_)``.
    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> from fedsvd import FederatedPCA
    >>> a, b, c = np.array_split(np.random.default_rng(0).normal(size=(600, 5)), [150, 400])
    >>> pca = FederatedPCA(n_components=2).fit([a, b, c])
    >>> pca.components_.shape, [party.scores_.shape for party in pca.parties_]
    ((2, 5), [(150, 2), (250, 2), (200, 2)])
    >>> from sklearn.decomposition import PCA
    >>> twin = PCA(n_components=2, svd_solver="full").fit(np.vstack([a, b, c]))
    >>> bool(np.allclose(pca.components_, twin.components_, rtol=0, atol=1e-12))
    True
    """

    def __init__(
        self,
        n_components: int | float | str | None = None,
        *,
        split: str = "horizontal",
        unit_variance: bool = False,
        release_spectrum: bool = True,
        scheme: str = "auto",
        mode: str | None = None,
        trust: str = "peers",
        block_size: int | None = None,
        memory: int | None = None,
        n_parties: int = 2,
        policy: Policy | None = None,
        device: str | None = None,
        engine: str | None = None,
        random_state: int | None = None,
        id: str | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.split = split
        self.unit_variance = unit_variance
        self.release_spectrum = release_spectrum
        self.scheme = scheme
        self.mode = mode
        self.trust = trust
        self.block_size = block_size
        self.memory = memory
        self.n_parties = n_parties
        self.policy = policy
        self.device = device
        self.engine = engine
        self.random_state = random_state
        self.id = id
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:
        """Run the study.

        Parameters
        ----------
        X : list of one table per party, each of shape (n_i, n_features), or one table
            NumPy arrays, memory maps, pandas or polars frames, SciPy sparse matrices, paths, MatrixSource. One
            table is divided evenly among ``n_parties``.
        y : ignored

        Returns
        -------
        self
        """
        tables, _ = self._tables(X)
        chosen = self._chosen_by_spectrum()
        wanted = min(tables.n_samples, tables.n_features) if chosen else self._wanted(tables)
        release = RELEASED_BY_DEFAULT[Task.PCA] + ((Item.SPECTRUM,) if self.release_spectrum else ())
        components = None if chosen or self.n_components is None else wanted
        scaled = bool(self.unit_variance)
        study = self._study(Task.PCA, tables, components=components, unit_variance=scaled, release=release)
        outcome = self._run(study, tables.parties(), tables.rehearsed)
        self.plan_, self.certificate_ = outcome.plan, outcome.certificate
        results = outcome.parties
        if chosen:
            spectrum = padded(results[0].sigma, wanted, axis=0)
            wanted = chosen(spectrum, tables.n_samples, tables.n_features)
            results = tuple(_first(result, wanted) for result in results)
        self._store(results, tables, wanted)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Float:
        """Fit, then the joint scores: those the parties computed, one below the other.

        Parameters
        ----------
        X : as in ``fit``
        y : ignored

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        self.fit(X)
        return padded(np.concatenate([party.scores_ for party in self.parties_]), self.n_components_, axis=1)

    def _chosen_by_spectrum(self) -> Callable[[Float, int, int], int] | None:
        """The rule that finds how many components from all singular values; None where their number is given."""
        asked: Any = self.n_components
        share = isinstance(asked, Real) and not isinstance(asked, Integral)
        if not share and not isinstance(asked, str):
            return None
        if not (share and 0 < asked < 1) and asked not in _RULES:
            raise ConfigError(
                f"n_components is {asked!r}", f"a whole number, a share between 0 and 1, or one of {', '.join(_RULES)}"
            )
        if not self.release_spectrum:
            raise ConfigError(
                f"n_components = {asked!r} needs the singular values",
                "release_spectrum=True, or a number of components",
            )
        return (lambda values, rows, columns: by_share(values, float(asked))) if share else _RULES[asked]

    def _store(self, results: tuple[PCAResult, ...], tables: Tables, wanted: int) -> None:
        shared = results[0]
        self.rank_, self.n_components_, self.n_samples_ = shared.rank, wanted, tables.n_samples
        self.mean_ = shared.mean
        self.components_ = padded(shared.U.T, wanted, axis=0)
        for earlier in _WHERE_RELEASED:
            self.__dict__.pop(earlier, None)
        if shared.scales is not None:
            self.scale_ = np.where(shared.scales > 0, shared.scales, 1.0)
        if shared.sigma is not None:
            self._explain(padded(shared.sigma, wanted, axis=0), shared.total_energy)
        own = self.components_[: self.rank_]
        scores = (result.scores_i for result in results if result.scores_i is not None)
        self.parties_ = tuple(PartyScores(self.mean_, own, scores_i) for scores_i in scores)

    def _explain(self, sigma: Float, total_energy: float) -> None:
        free = self.n_samples_ - 1
        total = total_energy / free
        left_out = min(self.n_samples_, self.n_features_in_) - len(sigma)
        self.singular_values_ = sigma
        self.explained_variance_ = sigma**2 / free
        self.explained_variance_ratio_ = self.explained_variance_ / (total or 1.0)
        rest = max(total - float(self.explained_variance_.sum()), 0.0)
        self.noise_variance_ = rest / left_out if left_out else 0.0

    def _coordinates(self, source: MatrixSource, columns: slice) -> Float:
        scale = getattr(self, "scale_", 1.0)
        return projected(source, (self.components_ / scale).T, self.mean_)

    def _samples(self, coordinates: Float) -> Float:
        samples: Float = coordinates @ self.components_ * getattr(self, "scale_", 1.0) + self.mean_
        return samples


def _first(result: PCAResult, count: int) -> PCAResult:
    """What a party has of the first components alone."""
    scores = None if result.scores_i is None else result.scores_i[:, :count]
    sigma = None if result.sigma is None else result.sigma[:count]
    return replace(result, U=result.U[:, :count], sigma=sigma, scores_i=scores, rank=min(result.rank, count))
