"""The thin singular value decomposition of a table that several parties hold (section 3 of the paper).

``FederatedFactors`` is what FederatedSVD and FederatedLSA share. For a table D, samples in rows, ``D = U_
diag(singular_values_) components_``. The protocol works on X, which is D when features are split and D^T when samples
are, so the factor that all parties share is ``U_`` in the first case and ``components_`` in the second; the other one
lies with the parties, piece by piece. The shared factor decides signs.
"""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Self

import numpy as np

from fedsvd.estimators.after_fit import data_frames, entries_of, not_here
from fedsvd.estimators.base import Federated, FederatedTransformer, one_of, only_a_part
from fedsvd.estimators.matched import Align
from fedsvd.estimators.parameters import documented
from fedsvd.estimators.stored import Found
from fedsvd.protocol.model import Digits
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Split, Task
from fedsvd.types import Float

_BLOCK_ROWS = 4096


@dataclass(frozen=True, repr=False)
class PartyFactors:
    """After SVD or LSA. Split by rows, ``components_`` is shared and ``U_`` its own rows; by columns, the reverse."""

    U_: Float
    singular_values_: Float
    components_: Float

    def __repr__(self) -> str:
        return f"PartyFactors(U_={self.U_.shape}, components_={self.components_.shape})"


class FederatedFactors(FederatedTransformer):
    """An estimator that keeps U_, singular_values_ and components_."""

    digits: str

    def _fit(self, X: Any, task: Task, **asked: Any) -> None:
        tables, _ = self._tables(X)
        wanted = self._wanted(tables)
        components = None if self.n_components is None else wanted
        digits = Digits(one_of("digits", self.digits, tuple(Digits)))
        study = self._study(task, tables, components=components, digits=digits, **asked)
        outcome = self._run(study, tables.parties(), tables.rehearsed)
        self._store_run(outcome, tables)

    def _store(self, found: Found) -> None:
        self.rank_ = found.here.rank
        for earlier in ("explained_variance_", "explained_variance_ratio_"):
            self.__dict__.pop(earlier, None)
        # The variances of one party's rows are not the table's.
        if found.complete and found.has("left_vectors") and found.has("components"):
            self._explain(found.wanted == found.most)

    def _explain(self, complete: bool) -> None:
        """Variances along the components; their sum is the table's only when none is left out."""
        self.explained_variance_ = np.zeros(len(self.components_))
        r = len(self.singular_values_)
        self.explained_variance_[:r] = _variances(self.U_[:, :r]) * self.singular_values_**2
        if complete or self.rank_ < len(self.singular_values_):
            self.explained_variance_ratio_ = self.explained_variance_ / (self.explained_variance_.sum() or 1.0)

    def tidy(self, matrix: str = "d") -> Any:
        """The factors as a data frame with the names of R's broom.

        Parameters
        ----------
        matrix : {"d", "u", "v"}, default="d"

        Returns
        -------
        pandas.DataFrame
            ``PC, std.dev`` of the singular values, with ``percent`` and ``cumulative`` (shares of the sum of squares,
            not hundredths) where none is left out; ``row, PC, value`` of ``U_``; ``column, PC, value`` of
            ``components_``.
        """
        self._expect_fitted()
        held = {"d": "singular_values_", "u": "U_", "v": "components_"}
        if held[one_of("matrix", matrix, tuple(held))] not in vars(self):
            raise not_here(held[matrix])
        if matrix == "u":
            return entries_of("row", np.arange(1, len(self.U_) + 1), self.U_)
        if matrix == "v":
            own = self.components_.shape[1]
            return entries_of("column", getattr(self, "feature_names_in_", np.arange(own)), self.components_.T)
        found = self.singular_values_
        columns = {"PC": np.arange(1, len(found) + 1), "std.dev": found}
        if self.rank_ < len(found) or len(found) == min(self.plan_.m, self.plan_.n):
            share = (found / (found.max() or 1.0)) ** 2
            share /= share.sum() or 1.0
            columns |= {"percent": share, "cumulative": np.cumsum(share)}
        return data_frames().DataFrame(columns)

    @property
    def parties_(self) -> tuple[PartyFactors, ...]:
        """What each party would hold: views of the joint factors, so that they are kept and saved once."""
        self._expect_fitted()
        by_rows = self.plan_.split is Split.HORIZONTAL
        if ("U_" if by_rows else "components_") not in vars(self):
            return ()  # of what all share, no party's own
        held = len(self.U_) if by_rows else self.components_.shape[1]
        # Loaded from one party's folder, there is that party's piece alone.
        counts = self.plan_.counts if held == self.plan_.n else (held,) * (held > 0)
        edges = pairwise((0, *(int(edge) for edge in np.cumsum(counts))))
        return tuple(self._held(slice(*ends)) for ends in edges)

    def _held(self, own: slice) -> PartyFactors:
        by_rows = self.plan_.split is Split.HORIZONTAL
        kept = slice(0, self.rank_)
        rows, columns = (own, slice(None)) if by_rows else (slice(None), own)
        return PartyFactors(self.U_[rows, kept], self.singular_values_[kept], self.components_[kept, columns])

    def _embedded(self) -> Float:
        """The coordinates of the samples of ``fit``, ``U_ diag(singular_values_)``: one column per component."""
        coordinates = np.zeros((len(self.U_), len(self.components_)))
        r = len(self.singular_values_)
        np.multiply(self.U_[:, :r], self.singular_values_, out=coordinates[:, :r])
        return coordinates


def _variances(U: Float) -> Float:
    """The variance of every column, block by block: U may be as long as the data, and is not copied."""
    mean = U.mean(axis=0)
    blocks = (U[start : start + _BLOCK_ROWS] - mean for start in range(0, len(U), _BLOCK_ROWS))
    total: Float = sum((np.einsum("ij,ij->j", B, B) for B in blocks), start=np.zeros(U.shape[1]))
    return total / len(U)


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class FederatedSVD(FederatedFactors):
    """Singular value decomposition of a joint table whose parts stay with their parties.

    For the joint table D, samples in rows, ``D = U_ @ diag(singular_values_) @ components_``, to the precision of
    float64, as ``numpy.linalg.svd(D, full_matrices=False)`` gives it. Split by samples, ``components_`` is shared by
    all parties and each holds its rows of ``U_``; split by features, ``U_`` is shared and each holds its columns of
    ``components_``. In the shared factor the largest entry of every vector is positive, which split by samples are
    the signs of ``sklearn.decomposition.TruncatedSVD``.

    Parameters
    ----------
    n_components : int, default=None
        How many singular values and vectors; None for min(n_samples, n_features), the thin decomposition.
    split : {"horizontal", "vertical"}, default="horizontal"
        Parties hold different samples of the same features, or different features of the same samples.
    digits : {"auto", "table", "more", "all"}, default="auto"
        By ``masks=Masks("steps")``, how far vectors are found and how many digits are opened: "table" to residuals of
        1e-8 of the largest singular value, "more" 1e-11, "all" and "auto" 5e-14, as every other scheme gives them.
    {parameters}

    Attributes
    ----------
    U_ : ndarray of shape (n_samples, n_components)
        Left singular vectors; zero columns beyond ``rank_``.
    singular_values_ : ndarray of shape (n_components,)
        Falling; zeros beyond ``rank_``.
    components_ : ndarray of shape (n_components, n_features)
        Right singular vectors; zero rows beyond ``rank_``.
    explained_variance_ : ndarray of shape (n_components,)
        Variance of the samples along each component, as in ``TruncatedSVD``.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        The same as fractions of the total. Only where the factors are complete: a table's total variance is not
        among what a top-r run releases.
    rank_ : int
        How many singular values are above rounding, at most n_components.
    parties_ : tuple of PartyFactors
        What each party would hold, without the zeros.
    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> from fedsvd import FederatedSVD
    >>> a, b, c = np.array_split(np.random.default_rng(0).normal(size=(600, 5)), [150, 400])
    >>> svd = FederatedSVD().fit([a, b, c])
    >>> svd.U_.shape, svd.components_.shape, [party.U_.shape for party in svd.parties_]
    ((600, 5), (5, 5), [(150, 5), (250, 5), (200, 5)])
    >>> D = svd.U_ * svd.singular_values_ @ svd.components_
    >>> bool(np.allclose(D, np.vstack([a, b, c]), rtol=0, atol=1e-12))
    True
    """

    n_components: int | None = field(default=None, kw_only=False)
    split: str = "horizontal"
    ids: str = "compare"
    align: Align | None = None
    digits: str = "auto"

    def fit(self, X: Any, y: Any = None) -> Self:
        """Run the study.

        Parameters
        ----------
        X : list of one table per party, or one table of shape (n_samples, n_features)
            NumPy arrays, memory maps, pandas or polars frames, SciPy sparse matrices, paths, MatrixSource. Parties'
            tables have the shape (n_i, n_features) split by samples, (n_samples, n_i) split by features. One table
            is divided evenly among the parties of ``federation``.
        y : ignored

        Returns
        -------
        self
        """
        if self._between(Task.SVD, X):
            return self
        self._fit(X, Task.SVD)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Float:
        """Fit, then the coordinates ``U_ * singular_values_`` of the joint samples.

        Parameters
        ----------
        X : as in ``fit``
        y : ignored

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        return self.fit(X)._embedded()


class PartOfSVD(FederatedSVD):
    """One party's part of an SVD of split columns: not to be applied alone."""

    def transform(self, X: Any) -> Float:
        """Refused: coordinates need the columns of all parties."""
        raise only_a_part("components")


def estimators_of(plan: SessionPlan) -> tuple[type[Federated], type[Federated]]:
    """The estimator of a result, and that of one party's columns alone."""
    return FederatedSVD, PartOfSVD
