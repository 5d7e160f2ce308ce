"""The correction of singular vectors that were made by one product, in one place.

Vectors of the long side of a matrix are made as ``Vt = S^-1 U^T X``, or ``U = X V S^-1``: one product, and no
factorisation of anything long. They lose orthogonality like eps S_1 / S_r. Where that matters, ``Vt Vt^T = C C^T`` is
the correction ``C^-1 Vt``, orthonormal to rounding at any condition number that leaves ``Vt`` independent: half a
product for the Gram matrix and half of one for the solve. Both must meet the very numbers that the first product left:
what is put right is their rounding, and a product made anew would have rounding of its own.
"""

from fedsvd.errors import NumericalError
from fedsvd.linalg import backend
from fedsvd.types import Array

WELL_CONDITIONED = 16.0
"""Up to this S_1 / S_r, ``S^-1 U^T X`` is orthonormal to 16 eps as it is."""


def needs_correction(sigma: Array) -> bool:
    """Whether vectors that belong to these singular values, descending, are to be put right."""
    return bool(sigma.shape[0]) and float(sigma[0]) > WELL_CONDITIONED * float(sigma[-1])


def correction(G: Array) -> Array:
    """``C^T``, upper triangular, of ``G = Vt Vt^T``."""
    C_t = backend.cholesky(G)
    if C_t is None:
        raise NumericalError("the singular vectors lost their independence", "ask for fewer components")
    return C_t


def corrected(C_t: Array, Vt: Array, out: Array | None = None) -> Array:
    """``C^-1 Vt``, which NumPy may write over ``Vt``."""
    return backend.solve_triangular(C_t, Vt, transposed=True, out=out)
