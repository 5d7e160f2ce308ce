"""Canonical correlations of features that several parties hold of the same samples; of two parties, or of more."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from fedsvd.errors import ConfigError, ShapeError
from fedsvd.estimators.base import Federated, documented, padded, projected, whole_number
from fedsvd.estimators.tables import Tables, are_parties, parts_like_fitted
from fedsvd.policy.rules import Policy
from fedsvd.protocol.tasks import Task
from fedsvd.results.canonical_tables import correlations_of, tests_of
from fedsvd.roles.user.cca import CCAResult
from fedsvd.statistics.cca import WilksTest
from fedsvd.statistics.undefined import Undefined
from fedsvd.types import Float

_WHERE_DEFINED = ("tests_", "no_tests_")


@dataclass(frozen=True, repr=False)
class PartyCanonical:
    """What one party holds: weights, loadings (n_i, r) and means of its own columns, its own scores (n, r)."""

    weights_: Float
    loadings_: Float
    mean_: Float
    scores_: Float
    rank_: int  # of its own columns

    def __repr__(self) -> str:
        return f"PartyCanonical(weights_={self.weights_.shape}, scores_={self.scores_.shape})"


@documented
class FederatedCCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Federated):  # type: ignore[misc]
    """Canonical correlation analysis over features that stay with their parties.

    Each party orthonormalises its own centred columns at home, and the SVD of the joined bases runs as any SVD of split
    columns does. With two parties the result is classical CCA (``statsmodels.multivariate.cancorr.CanCorr`` on the
    joint data); with more it is generalised CCA by MAXVAR: common variables ``U_``, uncorrelated, with the largest sum
    over parties of squared correlations. All roles run in this process.

    Parameters
    ----------
    n_components : int, default=None
        How many canonical variables; None for as many as the narrowest table has columns. Tests need all of them.
    split : {"vertical"}, default="vertical"
        Parties hold different features of the same samples.
    {parameters}

    Attributes
    ----------
    correlations_ : ndarray of shape (r,)
        With two parties the canonical correlations, falling, r at most n_components; with more parties the mean over
        them of the squared correlation with each common variable.
    U_ : ndarray of shape (n_samples, n_components)
        The common variables, at unit norm: with two parties in the middle between both scores.
    singular_values_ : ndarray of shape (n_components,)
        Of the joined bases; squared, 1 plus a canonical correlation.
    components_ : ndarray of shape (n_components, n_features)
        Weights that give the common variables from all centred features: ``transform``.
    mean_ : ndarray of shape (n_features,)
        Each party's means, side by side.
    tests_ : tuple of WilksTest
        For each correlation whether it and all smaller ones are zero: Wilks' lambda, Rao's F, Bartlett's chi-squared.
        Two parties, all correlations; else ``no_tests_`` says why there are none.
    rank_ : int
        Rank of the joined bases among the components.
    parties_ : tuple of PartyCanonical
        What each party would hold: weights, loadings, means and scores of its own columns.
    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> from fedsvd import FederatedCCA, Policy
    >>> rng = np.random.default_rng(0)
    >>> bank = rng.normal(size=(500, 3))
    >>> telco = bank[:, :1] + rng.normal(size=(500, 2))
    >>> cca = FederatedCCA(ids="trust", policy=Policy.permissive()).fit([bank, telco])
    >>> cca.correlations_.round(2).tolist()
    [0.82, 0.04]
    >>> [bool(test.f_p < 0.01) for test in cca.tests_]
    [True, False]
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        split: str = "vertical",
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
        ids: str = "compare",
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.split = split
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
        self.ids = ids
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:
        """Run the study.

        Parameters
        ----------
        X : list of one table per party, each of shape (n_samples, n_i), or one table
            NumPy arrays, memory maps, pandas or polars frames, paths, MatrixSource. The columns of one table are
            divided evenly among ``n_parties``.
        y : ignored

        Returns
        -------
        self
        """
        tables, _ = self._tables(X)
        if tables.n_samples < 2:
            raise ConfigError("n_samples=1 has no correlation: 1 sample", "give at least two samples")
        wanted = self._wanted(tables)
        study = self._study(Task.CCA, tables, components=wanted)
        outcome = self._run(study, tables.parties(), tables.rehearsed)
        self.plan_, self.certificate_ = outcome.plan, outcome.certificate
        self._store(outcome.parties)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Float:
        """Fit, then the common variables ``U_``.

        Parameters
        ----------
        X : as in ``fit``
        y : ignored

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        return self.fit(X).U_

    def transform(self, X: Any) -> Float:
        """The common variables of samples, from all parties' features.

        Parameters
        ----------
        X : array-like, frame, path or MatrixSource of shape (n_samples, n_features), or a list
            A list has one table per party, as in ``fit``.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        self._expect_fitted()
        given = parts_like_fitted(self, X)
        if are_parties(X):
            self._expect_rows_belong(given)
        weights = self.components_.T
        parts = [projected(part.source, weights[part.columns], self.mean_[part.columns]) for part in given]
        joined: Float = np.sum(parts, axis=0)
        return joined

    def variates(self, X: Any, party: int) -> Float:
        """One party's own canonical variables of samples: what it computes alone, from its own columns.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_i)
            The columns of that party.
        party : int
            Whose, counted from 0 in the list given to ``fit``.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        self._expect_fitted()
        if party not in range(len(self.parties_)):
            raise ConfigError(f"party is {party!r}", f"between 0 and {len(self.parties_) - 1}")
        own, rows = self.parties_[party], np.asarray(X, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != len(own.mean_):
            raise ShapeError(f"X has the shape {rows.shape}, and this party has {len(own.mean_)} columns")
        found: Float = (rows - own.mean_) @ own.weights_
        return found

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def _wanted(self, tables: Tables) -> int:
        most = min(tables.n_samples, *(source.shape[1] for source in tables.sources))
        if self.n_components is None:
            return most
        wanted = whole_number("n_components", self.n_components, 1)
        if wanted > most:
            raise ConfigError(f"n_components={wanted}", f"between 1 and {most}, the columns of the narrowest table")
        return wanted

    def _store(self, results: Sequence[CCAResult]) -> None:
        k, rows, wanted = self.plan_.k, self.plan_.m, self.plan_.planned_rank
        shared = results[0]
        for earlier in _WHERE_DEFINED:
            self.__dict__.pop(earlier, None)
        self.rank_ = shared.rank
        self.U_, self.singular_values_ = padded(shared.U, wanted, axis=1), padded(shared.sigma, wanted, axis=0)
        self.correlations_ = correlations_of(shared, k)
        tests = tests_of(shared, k, rows)
        if isinstance(tests, Undefined):
            self.no_tests_: str = tests.reason
        else:
            self.tests_: tuple[WilksTest, ...] = tests
        self._hold([
            PartyCanonical(own.weights, own.loadings, own.column_means, own.scores, own.own_rank) for own in results
        ])  # fmt: skip

    def _hold(self, parties: Sequence[PartyCanonical]) -> None:
        """The parties' parts, and what they give together: each common variable is a sum over parties."""
        self.parties_ = tuple(parties)
        wanted, sigma = self.plan_.planned_rank, self.singular_values_
        # Own scores are sqrt(2) Q_i V_i of two parties, Q_i V_i s of more; U is the sum of Q_i V_i over s.
        per_party = np.sqrt(2.0) * sigma if self.plan_.k == 2 else sigma**2
        inverse = np.divide(1.0, per_party, out=np.zeros_like(sigma), where=sigma > 0)
        weights = np.concatenate([padded(own.weights_, wanted, axis=1) for own in self.parties_])
        self.components_ = (weights * inverse).T
        self.mean_ = np.concatenate([own.mean_ for own in self.parties_])
