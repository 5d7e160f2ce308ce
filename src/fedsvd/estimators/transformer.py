"""Estimators whose components project samples: what FederatedSVD, FederatedPCA and FederatedLSA share."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.extmath import row_norms
from sklearn.utils.validation import check_array

from fedsvd.data.source import MatrixSource
from fedsvd.data.sparse import SparsePanels
from fedsvd.errors import ConfigError, ShapeError
from fedsvd.estimators.base import Federated, whole_number
from fedsvd.estimators.tables import Tables, are_parties, parts_like_fitted
from fedsvd.protocol.tasks import Split
from fedsvd.types import Float

_PANEL_BYTES = 1 << 26


class FederatedTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Federated):  # type: ignore[misc]
    """An estimator whose ``components_``, (r, n_features), project samples."""

    n_components: int | float | str | None  # only PCA takes a share or a rule
    components_: Float

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def transform(self, X: Any) -> Float:
        """Coordinates of samples along the components.

        Parameters
        ----------
        X : array-like, frame, sparse matrix, path or MatrixSource of shape (n_samples, n_features), or a list
            A list is read as in ``fit``: one part of the joint table per party.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        self._expect_fitted()
        vertical = are_parties(X) and self.split == Split.VERTICAL
        given = parts_like_fitted(self, X)
        if vertical:
            self._expect_rows_belong(given)
        parts = [self._coordinates(part.source, part.columns) for part in given]
        return np.sum(parts, axis=0) if vertical else np.concatenate(parts)

    def inverse_transform(self, X: Any) -> Float:
        """Samples with these coordinates.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        self._expect_fitted()
        coordinates = check_array(X, dtype=np.float64)
        if coordinates.shape[1] != self._n_features_out:
            raise ShapeError(f"X has {coordinates.shape[1]} coordinates, expected {self._n_features_out}")
        return self._samples(coordinates)

    def _coordinates(self, source: MatrixSource, columns: slice) -> Float:
        """Of samples of which only these columns are not zero."""
        return projected(source, self.components_[:, columns].T)

    def _samples(self, coordinates: Float) -> Float:
        return coordinates @ self.components_

    def _wanted(self, tables: Tables) -> int:
        """How many components are promised: all that the joint table can have, unless a number was asked for."""
        most = min(tables.n_samples, tables.n_features)
        if self.n_components is None:
            return most
        wanted = whole_number("n_components", self.n_components, 1)
        if wanted > most:
            shape = f"n_samples={tables.n_samples} and n_features={tables.n_features}"
            raise ConfigError(f"n_components={wanted} is too large for {shape}", f"between 1 and {most}")
        return wanted


def projected(source: MatrixSource, W: Float, mean: Float | None = None) -> Float:
    """``(D - mean) W`` by panels of rows; without a mean, a sparse D is never made dense."""
    out = np.empty((source.shape[0], W.shape[1]))
    for part, D in _panels(source, may_be_sparse=mean is None):
        # Centred before the product: with a large mean the difference of two products would cancel.
        out[part] = (D if mean is None else D - mean) @ W
    return out


def row_lengths(source: MatrixSource) -> Float:
    """The Euclidean norm of every row."""
    out = np.empty(source.shape[0])
    for part, D in _panels(source, may_be_sparse=True):
        out[part] = row_norms(D)
    return out


def _panels(source: MatrixSource, may_be_sparse: bool) -> Iterator[tuple[slice, Any]]:
    height = max(1, _PANEL_BYTES // (8 * source.shape[1]))
    for start in range(0, source.shape[0], height):
        part = slice(start, min(start + height, source.shape[0]))
        if may_be_sparse and isinstance(source, SparsePanels):
            yield part, source.sparse_rows(part.start, part.stop)
        else:
            yield part, source.rows(part.start, part.stop)


def padded(A: Float, length: int, axis: int) -> Float:
    """A with zeros up to ``length`` along one axis: the shape scikit-learn promises where rank was lost."""
    missing = length - A.shape[axis]
    if missing <= 0:
        return A
    return np.pad(A, [(0, missing if side == axis else 0) for side in range(A.ndim)])
