"""Random orthogonal matrices: Algorithms 1 and 2 of the paper (section 3.1), and what we put beside them.

Three forms of mask stand behind one interface (``linalg.block_diagonal.Orthogonal``):

    haar     one dense Haar matrix: the law of P A Q then depends on A only through its singular values
    mixing   two rounds of random signs and DCT, a secret permutation, then Haar blocks (``permute.py``)
    blocks   the paper's bare block-diagonal matrix, kept so that the paper can be reproduced (C4)
"""

from fedsvd.linalg.block_diagonal import BlockDiagonal, Orthogonal
from fedsvd.linalg.householder import Reflectors, draw
from fedsvd.linalg.windows import MIXING_BLOCK, Form, block_sizes
from fedsvd.masks.permute import Mixing
from fedsvd.randomness.keystream import Keystream
from fedsvd.randomness.seed import Seed
from fedsvd.types import Array

HAAR_ROTATION_LIMIT = 4096  # a longer local rotation mixes instead


def orthogonal(n: int, stream: Keystream, on: Array | None = None) -> Reflectors:
    """Algorithm 1: a Haar-random orthogonal matrix, shape (n, n), as reflectors instead of Gram-Schmidt."""
    return draw(n, stream.normal, on)


def efficient_orthogonal(n: int, b: int, stream: Keystream, on: Array | None = None) -> BlockDiagonal:
    """Algorithm 2: ``Q = diag(Q_1, ..., Q_B)`` in O(n b) normals; zeros are never stored."""
    return BlockDiagonal(tuple(orthogonal(width, stream, on) for width in block_sizes(n, b)))


def mixing(n: int, b: int, stream: Keystream, on: Array | None = None) -> Mixing:
    """Signs, DCT, signs, DCT, a secret permutation, then Haar blocks of width about b."""
    rounds = (stream.signs(n), stream.signs(n))
    return Mixing.of(rounds, stream.permutation(n), efficient_orthogonal(n, b, stream, on), on)


def draw_form(form: Form, n: int, b: int, seed: Seed, on: Array | None = None) -> Orthogonal:
    """The orthogonal matrix of this form that follows from ``seed``."""
    stream = Keystream(seed)
    if form is Form.HAAR:
        return orthogonal(n, stream, on)
    if form is Form.MIXING:
        return mixing(n, b, stream, on)
    return efficient_orthogonal(n, b, stream, on)


def local_rotation(n: int, seed: Seed, on: Array | None = None) -> Orthogonal:
    """T_i: the rotation known to user i alone, haar, or mixing when long (02-protocol, section 3.2)."""
    form = Form.HAAR if n <= HAAR_ROTATION_LIMIT else Form.MIXING
    return draw_form(form, n, MIXING_BLOCK, seed, on)


def secret_scale(seed: Seed) -> float:
    """c in [1, 2): hides that entries are whole numbers, and norms within a factor of two."""
    return Keystream(seed).uniform(1.0, 2.0)
