"""Random orthogonal matrices: Algorithms 1 and 2 of the paper (section 3.1), and what we add to them.

Three forms of mask stand behind one interface (``linalg.block_diagonal.Orthogonal``):

    haar     one dense Haar matrix: the law of P A Q then depends on A only through its singular values
    mixing   random signs and DCT twice, then two rounds of a secret permutation and Haar blocks (``permute.py``)
    blocks   the paper's bare block-diagonal matrix, kept so that the paper can be reproduced (C4)
"""

from fedsvd.linalg.block_diagonal import BlockDiagonal, Orthogonal
from fedsvd.linalg.householder import Reflectors, draw
from fedsvd.linalg.windows import HAAR_RIGHT_LIMIT, Form, block_sizes, block_width
from fedsvd.masks.normals import DeviceNormals
from fedsvd.masks.permute import ROUNDS, Mixing
from fedsvd.randomness.keystream import Each, Keystream, ThreadedNormals
from fedsvd.randomness.seed import Seed
from fedsvd.types import Array

STORED = 1 << 29
"""Bytes that the drawn blocks of one mixing mask may take, where no other number is given."""


def orthogonal(n: int, stream: Keystream | ThreadedNormals | DeviceNormals, on: Array | None = None) -> Reflectors:
    """Algorithm 1: a Haar-random orthogonal matrix, shape (n, n), as reflectors instead of Gram-Schmidt."""
    return draw(n, stream.normal, on)


def efficient_orthogonal(n: int, b: int, stream: Keystream, on: Array | None = None) -> BlockDiagonal:
    """Algorithm 2: ``Q = diag(Q_1, ..., Q_B)`` in O(n b) normals; zeros are never stored."""
    return BlockDiagonal(tuple(orthogonal(width, stream, on) for width in block_sizes(n, b)))


def draw_form(
    form: Form,
    n: int,
    b: int,
    seed: Seed,
    on: Array | None = None,
    each: Each | None = None,
    stored: int = STORED,
) -> Orthogonal:
    """The orthogonal matrix of this form that follows from ``seed``.

    The blocks of a mixing mask are stored within ``stored`` bytes, else drawn at every use: the same blocks.
    """
    b = block_width(form, b)
    if form is Form.MIXING:
        matrices = ROUNDS * 8 * n * b
        packed = matrices // 2 if on is None else matrices  # on the host they are reflectors
        return Mixing(n, b, seed, on, each, keep=packed <= stored)
    if form is Form.HAAR:
        return orthogonal(n, Keystream(seed), on)
    return efficient_orthogonal(n, b, Keystream(seed), on)


def local_rotation(
    n: int, seed: Seed, on: Array | None = None, each: Each | None = None, stored: int = STORED, b: int = 0
) -> Orthogonal:
    """T_i: the rotation known to user i alone, built like Q (specification, section 4)."""
    return draw_form(Form.HAAR if n <= HAAR_RIGHT_LIMIT else Form.MIXING, n, b, seed, on, each, stored)


def secret_scale(seed: Seed) -> float:
    """c = 2^u, u uniform in [0, 1): with it the norm, up to a power of two, says nothing of the data's."""
    scale: float = 2.0 ** Keystream(seed).uniform(0.0, 1.0)
    return scale
