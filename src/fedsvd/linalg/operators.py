"""A matrix known by its products: what truncated SVD and verification ask of one that is never held whole.

Each product with a block of columns, ``A @ B`` or ``A.T @ B``, is one *pass* over data that may lie on disk. Arrays and
SciPy's sparse matrices are operators through a wrapper; a matrix that arrives in panels is one by itself.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import numpy as np

from fedsvd.errors import ShapeError
from fedsvd.linalg.backend import matmul, namespace
from fedsvd.types import Array


class Operator(Protocol):
    """A matrix of ``shape`` (m, n) known by its products; each product is one pass over the data."""

    @property
    def shape(self) -> tuple[int, int]: ...

    def matmul(self, B: Array) -> Array: ...

    def rmatmul(self, B: Array) -> Array: ...


class ArrayOperator:
    """A dense array or a SciPy sparse matrix as an operator."""

    def __init__(self, A: Any) -> None:
        self._A = A
        self.shape: tuple[int, int] = tuple(A.shape)

    def matmul(self, B: Array) -> Array:
        return matmul(self._A, B) if isinstance(self._A, np.ndarray) else self._A @ B

    def rmatmul(self, B: Array) -> Array:
        return matmul(self._A.T, B) if isinstance(self._A, np.ndarray) else self._A.T @ B


class PanelOperator:
    """A matrix that arrives in panels of whole rows, or of whole columns; ``panels()`` starts a new pass."""

    def __init__(self, shape: tuple[int, int], panels: Callable[[], Iterable[tuple[slice, Array]]]) -> None:
        self.shape = shape
        self._panels = panels

    def panels(self) -> Iterator[tuple[bool, slice, Array]]:
        """One pass: (whether by rows, place, panel); raises ``ShapeError`` unless it covers the matrix."""
        m, n = self.shape
        covered = 0
        for place, panel in self._panels():
            by_rows = tuple(panel.shape) == (len(range(*place.indices(m))), n)
            if not by_rows and tuple(panel.shape) != (m, len(range(*place.indices(n)))):
                raise ShapeError(f"a panel of shape {tuple(panel.shape)} is no part of {m} x {n}")
            covered += panel.shape[0] * panel.shape[1]
            yield by_rows, place, panel
        if covered != m * n:
            raise ShapeError(f"the panels of one pass hold {covered} entries of {m} x {n}")

    def matmul(self, B: Array) -> Array:
        return _product(self, B, transposed=False)

    def rmatmul(self, B: Array) -> Array:
        return _product(self, B, transposed=True)


def _product(A: PanelOperator, B: Array, transposed: bool) -> Array:
    xp = namespace(B)
    C = xp.zeros((A.shape[1 if transposed else 0], B.shape[1]), dtype=B.dtype, device=B.device)
    for by_rows, place, panel in A.panels():
        if transposed:
            by_rows, panel = not by_rows, panel.T
        if by_rows:
            C[place, :] = matmul(panel, B)
        else:
            C += matmul(panel, B[place, :])
    return C


def as_operator(A: Any) -> Operator:
    """A itself when it is an operator, else a wrapper around an array or a SciPy sparse matrix."""
    if callable(getattr(A, "matmul", None)) and callable(getattr(A, "rmatmul", None)):
        operator: Operator = A
        return operator
    if len(getattr(A, "shape", ())) != 2:
        raise ShapeError(f"{type(A).__name__} is neither a matrix nor an operator")
    return ArrayOperator(A)


class Transposed:
    """The same data, read as ``A^T``."""

    def __init__(self, A: Operator) -> None:
        self.shape = (A.shape[1], A.shape[0])
        self.matmul, self.rmatmul = A.rmatmul, A.matmul
