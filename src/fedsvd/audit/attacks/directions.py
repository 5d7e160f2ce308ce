"""Records of small whole numbers from products of their Gram matrix with a few directions: hidden subset sums.

Users of the family ``steps`` hold ``B = X^T (X K)`` of the others' records X, (N, m), for directions K, (m, b), which
all know. Every column of B is a combination of the N records with unknown weights X K. An integer vector u at right
angles to all records has ``u^T B = 0``, and with b numbers of many bits each hardly any other short vector has. So
lattice reduction finds the integer vectors at right angles to the records, and then, once more, those at right angles
to these: a reduced basis of the records' own lattice, of which the records are combinations with small coefficients
(Nguyen and Stern 1999; Coron and Gini 2020).
"""

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.audit.attacks.opened import Integers, reduced
from fedsvd.types import Float

_BITS = 44  # of each product, as integers; steps open more
_FAR = 20  # bits by which a vector that is not at right angles is made long


def short_vectors(b: list[Integers]) -> list[Integers]:
    """Integer vectors u, the shortest first, for which u and ``u^T b`` are short together; b is (m, d)."""
    m, d = len(b), len(b[0])
    G = [[int(i == j) + sum(p * q for p, q in zip(b[i], b[j], strict=True)) for j in range(m)] for i in range(m)]
    S = [[int(i == j) + sum(b[t][i] * b[t][j] for t in range(m)) for j in range(d)] for i in range(d)]
    found = []
    for _, p in sorted(reduced(G)):
        w = _solved(S, [sum(b[t][j] * p[t] for t in range(m)) for j in range(d)])
        found.append([int(p[i] - sum(b[i][j] * w[j] for j in range(d))) for i in range(m)])
    return found


def _solved(A: list[Integers], y: Integers) -> list[Fraction]:
    """``A^-1 y`` in fractions: products with the generators become the vectors themselves."""
    rows = [[Fraction(value) for value in (*row, right)] for row, right in zip(A, y, strict=True)]
    for k, pivot in enumerate(rows):
        rows[k] = pivot = [value / pivot[k] for value in pivot]
        for i, row in enumerate(rows):
            if i != k:
                rows[i] = [a - row[k] * b for a, b in zip(row, pivot, strict=True)]
    return [row[-1] for row in rows]


def lattice_of_records(B: Float, records: int) -> NDArray[np.int64]:
    """A reduced basis, (records, m), of the lattice of this number of records, from their products B."""
    scaled = (B / np.abs(B).max() * 2.0**_BITS).tolist()
    across = short_vectors([[round(value) for value in row] for row in scaled])[: len(B) - records]
    basis = short_vectors([[u[t] << _FAR for u in across] for t in range(len(B))])[:records]
    return np.array(basis, np.int64)


def candidates(basis: NDArray[np.int64], least: NDArray[Any], most: NDArray[Any]) -> set[tuple[int, ...]]:
    """Combinations of a basis with coefficients of at most 2 that lie between these values in every column."""
    signs = np.array(list(product(range(-2, 3), repeat=len(basis))), np.int64)
    rows = signs @ basis
    inside = ((rows >= least) & (rows <= most)).all(axis=1) & signs.any(axis=1)
    return {tuple(row) for row in rows[inside].tolist()}
