"""Latent semantic analysis of a table that several parties hold: top-r factors, folding-in, similarity.

Nearest neighbours are by cosine among points in the latent space: exact, by matrix products. A vector with no part in
the latent space has no direction in it, but rounding leaves it one; it counts as zero.
"""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array

from fedsvd.data.open import open_source
from fedsvd.data.source import MatrixSource
from fedsvd.errors import ShapeError
from fedsvd.estimators.base import Federated, one_of, only_a_part, projected, row_lengths, whole_number
from fedsvd.estimators.matched import Align
from fedsvd.estimators.parameters import documented
from fedsvd.estimators.svd import FederatedFactors
from fedsvd.estimators.tables import SPARSE, parts_like_fitted
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Task
from fedsvd.types import Float

_BLOCK_ENTRIES = 1 << 23
_VECTORS_GOOD_TO = 1e-12  # relative error that vectors are accepted with


def nearest(queries: Float, points: Float, k: int) -> tuple[Float, NDArray[np.intp]]:
    """The k points of largest cosine for each query, falling: cosines (q, k) and indices (q, k).

    Points of equal cosine stand in their own order. A zero vector has no direction; its cosines count as zero.
    """
    queries, points = _directions(queries), _directions(points)
    cosines, indices = np.empty((len(queries), k)), np.empty((len(queries), k), dtype=np.intp)
    height = max(1, _BLOCK_ENTRIES // max(1, len(points)))
    for start in range(0, len(queries), height):
        part = slice(start, start + height)
        similar = queries[part] @ points.T
        indices[part] = np.argsort(-similar, axis=1, kind="stable")[:, :k]
        cosines[part] = np.take_along_axis(similar, indices[part], axis=1)
    return cosines, indices


def without_rounding(folded: Float, size: Float | float) -> Float:
    """Projections of vectors of this size; zero where singular vectors that are good to 1e-12 leave rounding alone."""
    lengths = np.linalg.norm(folded, axis=1)
    kept: Float = folded * (lengths > _VECTORS_GOOD_TO * size)[:, None]
    return kept


def _directions(points: Float) -> Float:
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    return points / np.where(lengths > 0, lengths, 1.0)


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class FederatedLSA(FederatedFactors):
    """Latent semantic analysis of documents and terms (or users and items) that stay with their parties.

    The top singular values and vectors of the joint table, documents in rows, as
    ``sklearn.decomposition.TruncatedSVD(algorithm="arpack")`` gives them. Sparse tables are read panel by panel and
    never made dense as a whole. ``transform`` folds new documents in: their coordinates are those they would have
    had among the documents of ``fit``.

    Parameters
    ----------
    n_components : int, default=2
        Latent dimensions.
    split : {"horizontal", "vertical"}, default="horizontal"
        Parties hold different documents over the same terms, or different terms of the same documents.
    digits : {"auto", "table", "more", "all"}, default="auto"
        By ``masks=Masks("steps")``, how far vectors are found and how many digits are opened: "table" to residuals of
        1e-8 of the largest singular value, "more" 1e-11, "all" and "auto" 5e-14, as every other scheme gives them.
    {parameters}

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Terms in the latent space; zero rows beyond ``rank_``. Shared by all when documents are split.
    singular_values_ : ndarray of shape (n_components,)
        Falling; zeros beyond ``rank_``.
    U_ : ndarray of shape (n_samples, n_components)
        Documents in the latent space; zero columns beyond ``rank_``. Shared by all when terms are split.
    explained_variance_ : ndarray of shape (n_components,)
        Variance of the documents along each component, as in ``TruncatedSVD``.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        The same as fractions of the total. Only where no component is left out: a table's total variance is not
        among what a top-r run releases.
    rank_ : int
        How many singular values are above rounding, at most n_components.
    parties_ : tuple of PartyFactors
        What each party would hold, without the zeros.
    {attributes}

    Examples
    --------
    >>> from scipy import sparse
    >>> from fedsvd import FederatedLSA
    >>> library_a = sparse.csr_array([[2, 1, 0, 0], [1, 2, 0, 0], [0, 0, 1, 1]])
    >>> library_b = sparse.csr_array([[0, 0, 3, 2], [3, 3, 0, 1]])
    >>> lsa = FederatedLSA(n_components=2).fit([library_a, library_b])
    >>> cosines, documents = lsa.similarity([[0, 0, 1, 2]], k=2)
    >>> documents
    array([[2, 3]])
    """

    n_components: int = field(default=2, kw_only=False)
    split: str = "horizontal"
    ids: str = "compare"
    align: Align | None = None
    digits: str = "auto"

    def fit(self, X: Any, y: Any = None) -> Self:
        """Run the study.

        Parameters
        ----------
        X : list of one table per party, or one table of shape (n_samples, n_features)
            SciPy sparse matrices, NumPy arrays, memory maps, pandas or polars frames, paths, MatrixSource. Parties'
            tables have the shape (n_i, n_features) split by samples, (n_samples, n_i) split by features. One table
            is divided evenly among the parties of ``federation``.
        y : ignored

        Returns
        -------
        self
        """
        whole_number("n_components", self.n_components, 1)
        if not self._between(Task.LSA, X):
            self._fit(X, Task.LSA)
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

    def similarity(self, queries: Any, k: int = 5, among: str = "samples") -> tuple[Float, NDArray[np.intp]]:
        """The k nearest neighbours of new samples or features, by cosine in the latent space.

        Parameters
        ----------
        queries : array-like, frame, sparse matrix, path or MatrixSource
            New samples of shape (n_queries, n_features), as for ``transform``; or, with ``among="features"``, new
            features of shape (n_queries, n_samples): one row for each, over the samples of ``fit``.
        k : int, default=5
            How many neighbours.
        among : {"samples", "features"}, default="samples"
            Which side of the table of ``fit`` the queries belong to.

        Returns
        -------
        cosines : ndarray of shape (n_queries, k)
            Falling; zero for a query or neighbour without any part in the latent space.
        indices : ndarray of shape (n_queries, k)
            Rows (or columns) of the joint table, counted over the parties in their order.
        """
        self._expect_fitted()
        k = whole_number("k", k, 1)
        if one_of("among", among, ("samples", "features")) == "samples":
            (part,) = parts_like_fitted(self, queries)
            source = part.source
            W, known = self.components_.T, self._embedded()
        else:
            source = self._new_features(queries)
            W, known = self.U_, (self.components_ * self.singular_values_[:, None]).T
        folded = without_rounding(projected(source, W), row_lengths(source))
        known = without_rounding(known, self.singular_values_[0])
        return nearest(folded, known, min(k, len(known)))

    def _new_features(self, queries: Any) -> MatrixSource:
        source = open_source(check_array(queries, accept_sparse=SPARSE))
        if source.shape[1] != len(self.U_):
            raise ShapeError(
                f"new features over {source.shape[1]} samples, fit had {len(self.U_)}", "give the samples of fit"
            )
        return source


class PartOfLSA(FederatedLSA):
    """One party's part of an LSA of split columns: not to be applied alone."""

    def transform(self, X: Any) -> Float:
        """Refused: coordinates need the columns of all parties."""
        raise only_a_part("components")


def estimators_of(plan: SessionPlan) -> tuple[type[Federated], type[Federated]]:
    """The estimator of a result, and that of one party's columns alone."""
    return FederatedLSA, PartOfLSA
