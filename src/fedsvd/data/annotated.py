"""Matrices whose rows carry annotations: an ``AnnData`` in memory, and what ``h5ad.py`` reads from files.

Columns are the variables (genes), named by ``var_names``; rows are the observations (cells). ``obs_names`` names the
rows and is read like a column, and so are the columns of ``obs`` (batch, age, quality): they are no part of the matrix
and may serve as ids, labels or covariates.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from fedsvd.data.arrays import ArraySource
from fedsvd.data.checks import numbers_as_text, text_with_gaps, to_column, to_text
from fedsvd.data.source import MatrixSource
from fedsvd.data.sparse import SparseSource
from fedsvd.errors import UnknownFormat

LABELS = "obs_names"


@dataclass(frozen=True, repr=False)
class Observations:
    """What is known of the rows: their names, and columns that are read when they are asked for."""

    names: NDArray[np.str_]
    columns: tuple[str, ...]
    read: Callable[[str], tuple[NDArray[Any], NDArray[np.bool_]]]
    """A column and which of its entries are missing: numbers, or text."""


class Annotated(MatrixSource):
    """A matrix with observations; a format sets ``_obs`` when it is opened."""

    _obs: Observations

    @property
    def label_name(self) -> str | None:
        return LABELS

    def row_labels(self) -> NDArray[Any] | None:
        return self._obs.names

    def _is_label(self, name: str) -> bool:
        return (name == LABELS or name in self._obs.columns) and name not in (self.names or ())

    def column(self, name: str) -> NDArray[Any]:
        if name == LABELS or not self._is_label(name):
            return super().column(name)
        values, missing = self._obs.read(name)
        if values.dtype.kind == "U":
            return to_text(values.tolist(), missing, name)
        return to_column(np.where(missing, np.nan, values) if missing.any() else values, name)

    def text(self, name: str) -> tuple[NDArray[np.str_], NDArray[np.bool_]]:
        if not self._is_label(name):
            return super().text(name)
        if name == LABELS:
            return self._obs.names, np.zeros(self.shape[0], dtype=np.bool_)
        values, missing = self._obs.read(name)
        if values.dtype.kind == "U":
            return text_with_gaps(values.tolist(), missing)
        return numbers_as_text(np.where(missing, np.nan, values.astype(np.float64)))


class _AnnotatedArray(Annotated, ArraySource):
    """A dense AnnData in memory."""


class _AnnotatedSparse(Annotated, SparseSource):
    """A sparse AnnData in memory."""


def from_anndata(data: Any, layer: str | None = None) -> MatrixSource:
    """The source of an ``AnnData``: its ``X`` or a layer; one that is backed by a file is read from there."""
    if getattr(data, "isbacked", False) and not getattr(data, "is_view", False):
        from fedsvd.data.h5ad import open_h5ad

        return open_h5ad(data.filename, layer, None)
    if not hasattr(data, "var_names"):
        raise UnknownFormat(f"no reader for a {type(data).__name__} of anndata", "give the AnnData itself")
    if layer is not None and layer not in data.layers:
        raise no_layer("the AnnData", layer, tuple(data.layers))
    matrix = data.X if layer is None else data.layers[layer]
    if matrix is None:
        raise UnknownFormat("the AnnData has no X", "name one of its layers: part=...")
    obs = Observations(
        np.array(data.obs_names, dtype=np.str_),
        tuple(map(str, data.obs.columns)),
        lambda name: _frame_column(data.obs[name]),
    )
    if scipy.sparse.issparse(matrix):
        source: Annotated = _AnnotatedSparse(matrix, data.var_names)
    else:
        source = _AnnotatedArray(np.asarray(matrix), data.var_names)
    source._obs = obs
    return source


def no_layer(where: str, layer: str, layers: tuple[str, ...]) -> UnknownFormat:
    """The refusal of a layer that is not there."""
    return UnknownFormat(f"{where} has no layer {layer!r}", f"one of {', '.join(layers)}" if layers else "it has none")


def _frame_column(column: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    missing = column.isna().to_numpy()
    values = column.to_numpy()
    if values.dtype.kind not in "biuf":
        values = np.array(["" if gap else str(value) for value, gap in zip(values, missing, strict=True)], np.str_)
    return values, missing
