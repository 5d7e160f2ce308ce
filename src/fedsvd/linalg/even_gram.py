"""The factor of data on a device from its Gram matrix alone, where that is proved to lose three bits and no more.

``streaming_factor`` proves after every chunk that the Gram matrix of what came so far is even (ADR 0018), because the
chunk is forgotten: two Cholesky factorisations, which at tens of thousands of features take as long as the chunk's own
product. Here the proof is made early, whenever the columns have grown fourfold, and at the end. Where one of them
fails nothing can be said of what was added since: there is no factor then, and the caller reads the data again for
another route. The Gram matrix is added up in its place, so that the largest features fit.
"""

from collections.abc import Iterable, Iterator

from fedsvd.linalg import backend, foreign
from fedsvd.linalg.backend import namespace
from fedsvd.linalg.streaming_factor import is_even
from fedsvd.types import Array

_FIRST = 4  # columns for each row in the first piece, at most: data that is not even is found soon
_LEAST = 2  # columns for each row before a proof is tried
_GROWN = 4


def even_factor(panels: Iterable[Array], width: int) -> Array | None:
    """R, upper triangular, of all columns of these panels, (width, any); None where they are not proved to be even."""
    K: Array = None
    seen = proved = 0
    for X in _pieces(panels, width):
        K = foreign.add_gram(namespace(X), K, X)
        seen += X.shape[1]
        del X  # as large as the memory allows
        if seen >= max(_LEAST * width, _GROWN * proved):
            if not is_even(foreign.mirrored(namespace(K), K)):
                return None
            proved = seen
    if seen < width or (proved < seen and not is_even(foreign.mirrored(namespace(K), K))):
        return None
    return backend.cholesky(K)


def _pieces(panels: Iterable[Array], width: int) -> Iterator[Array]:
    first = True
    for X in panels:
        cut = min(X.shape[1], _FIRST * width) if first else X.shape[1]
        first = False
        yield X[:, :cut]
        if cut < X.shape[1]:
            yield X[:, cut:]
        del X  # before the next is made
