"""Words of exact Gram matrices from products of slices, by ``passes.c``: a tile to a call (``linalg/exact_gram.py``).

``sums`` are five blocks of whole numbers, (5, rows, width): values of a polynomial whose coefficients are digits. Where
nothing is compiled a function does nothing and says so; its caller computes the same in NumPy.
"""

import numpy as np
from numpy.typing import NDArray

from fedsvd.kernels.library import at, compiled

Float = NDArray[np.float64]
Ring = NDArray[np.uint64]
Whole = NDArray[np.int64]


def add_whole(sums: Whole, numbers: Float) -> None:
    """Whole numbers onto sums, in place; both in one piece."""
    library = compiled()
    if library is None:
        np.add(sums, numbers.astype(np.int64), out=sums)
    else:
        library.add_whole(at(sums), at(numbers), sums.size)


def words(sums: Whole, places: Whole, skip: Whole, out: Ring) -> bool:
    """The words of row i, from its column ``skip[i]`` on, into ``out``, (any, 2), at ``places[i]`` plus the column."""
    library = compiled()
    if library is None:
        return False
    library.gram_words(at(sums), sums.shape[1], sums.shape[2], at(places), at(skip), at(out))
    return True


def left(sums: Whole | None, G: Ring, m: int, rows: Whole, columns: Whole, out: Float) -> bool:
    """What these words leave of G's, the upper triangle of an m x m matrix, at these rows and columns, as numbers.

    In units of G, correctly rounded, into ``out``; without ``sums`` it is G itself.
    """
    library = compiled()
    if library is None or not (G.flags.c_contiguous and out.strides[1] == 8):
        return False
    step = out.strides[0] // 8
    found = None if sums is None else at(sums)
    library.gram_left(found, len(rows), len(columns), at(G), m, at(rows), at(columns), at(out), step)
    return True
