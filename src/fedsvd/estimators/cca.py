"""Canonical correlations of features that several parties hold of the same samples; of two parties, or of more."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from fedsvd.errors import ConfigError, ShapeError
from fedsvd.estimators.after_fit import data_frames
from fedsvd.estimators.base import Federated, only_a_part, projected, whole_number
from fedsvd.estimators.parameters import documented
from fedsvd.estimators.sklearn_types import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from fedsvd.estimators.stored import Found, padded
from fedsvd.estimators.tables import Tables, are_parties, parts_like_fitted
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Task
from fedsvd.results.canonical_tables import OWN_ARRAYS, tests_of_result
from fedsvd.results.result import PartyResult
from fedsvd.statistics.cca import WilksTest
from fedsvd.statistics.undefined import is_number
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
@dataclass(eq=False, repr=False, kw_only=True)
class FederatedCCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Federated):
    """Canonical correlation analysis over features that stay with their parties.

    Each party orthonormalises its own centred columns at home, and the SVD of the joined bases runs as any SVD of split
    columns does. With two parties the result is classical CCA (``statsmodels.multivariate.cancorr.CanCorr`` on the
    joint data); with more it is generalised CCA by MAXVAR: common variables ``U_``, uncorrelated, with the largest sum
    over parties of squared correlations.

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
    >>> from fedsvd import FederatedCCA, Policy, Simulation
    >>> rng = np.random.default_rng(0)
    >>> bank = rng.normal(size=(500, 3))
    >>> telco = bank[:, :1] + rng.normal(size=(500, 2))
    >>> cca = FederatedCCA(ids="trust", federation=Simulation(policy=Policy.permissive())).fit([bank, telco])
    >>> cca.correlations_.round(2).tolist()
    [0.82, 0.04]
    >>> [bool(test.f_p < 0.01) for test in cca.tests_]
    [True, False]
    """

    n_components: int | None = field(default=None, kw_only=False)
    split: str = "vertical"
    ids: str = "compare"

    def fit(self, X: Any, y: Any = None) -> Self:
        """Run the study.

        Parameters
        ----------
        X : list of one table per party, each of shape (n_samples, n_i), or one table
            NumPy arrays, memory maps, pandas or polars frames, paths, MatrixSource. The columns of one table are
            divided evenly among the parties of ``federation``.
        y : ignored

        Returns
        -------
        self
        """
        if self._between(Task.CCA, X):
            return self
        tables, _ = self._tables(X)
        if tables.n_samples < 2:
            raise ConfigError("n_samples=1 has no correlation: 1 sample", "give at least two samples")
        wanted = self._wanted(tables)
        study = self._study(Task.CCA, tables, components=wanted)
        outcome = self._run(study, tables.parties(), tables.rehearsed)
        self._store_run(outcome, tables)
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
        common: Float = self.fit(X).U_
        return common

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
        self._expect_whole("weights")
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
            raise ShapeError(
                f"X has the shape {rows.shape}, and this party has {len(own.mean_)} columns", "give the columns of fit"
            )
        found: Float = (rows - own.mean_) @ own.weights_
        return found

    def tidy(self) -> Any:
        """The correlations as a data frame with the names that R's broom has for tests by Wilks' lambda.

        Returns
        -------
        pandas.DataFrame
            ``component, correlation``; where there are tests ``wilks, statistic, num.df, den.df, p.value`` of Rao's F,
            that this correlation and all smaller ones are zero; NaN where a number is not defined.
        """
        self._expect_fitted()
        found: Float = self.correlations_  # type: ignore[attr-defined]  # an output, as its task declares it
        columns: dict[str, Any] = {"component": np.arange(1, len(found) + 1), "correlation": found}
        if "tests_" in vars(self):
            rows = [(test.wilks, test.f, test.df1, test.df2, test.f_p) for test in self.tests_]
            cells = [[x if is_number(x) else np.nan for x in row] for row in rows]
            names = ("wilks", "statistic", "num.df", "den.df", "p.value")
            columns |= zip(names, np.array(cells).T, strict=True)
        return data_frames().DataFrame(columns)

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

    def _store(self, found: Found) -> None:
        for earlier in (*_WHERE_DEFINED, "components_"):
            self.__dict__.pop(earlier, None)
        self.rank_ = found.here.rank
        if found.fact("no_tests") is not None:
            self.no_tests_: str = found.fact("no_tests")
        else:
            self.tests_: tuple[WilksTest, ...] = tests_of_result(found.here)
        self.parties_ = tuple(_own(part) for part in found.parts if "weights" in part.arrays)
        if not self.parties_:
            return
        # Each common variable is a sum over parties. Own scores are sqrt(2) Q_i V_i of two parties, Q_i V_i s of more;
        # U is the sum of Q_i V_i over s.
        wanted, sigma = found.wanted, self.singular_values_
        per_party = np.sqrt(2.0) * sigma if found.plan.k == 2 else sigma**2
        inverse = np.divide(1.0, per_party, out=np.zeros_like(sigma), where=sigma > 0)
        weights = np.concatenate([padded(own.weights_, wanted, axis=1) for own in self.parties_])
        self.components_ = (weights * inverse).T


def _own(part: PartyResult) -> PartyCanonical:
    weights, loadings, mean, scores = (part.arrays[name] for name in OWN_ARRAYS)
    return PartyCanonical(weights, loadings, mean, scores, part.facts["own_rank"])


class PartOfCCA(FederatedCCA):
    """One party's part of a CCA: its own variables, not the common ones of new samples."""

    def transform(self, X: Any) -> Float:
        """Refused: the common variables of new samples need the columns of all parties."""
        raise only_a_part("weights")


def estimators_of(plan: SessionPlan) -> tuple[type[Federated], type[Federated]]:
    """The estimator of a result, and that of one party's columns alone."""
    return FederatedCCA, PartOfCCA
