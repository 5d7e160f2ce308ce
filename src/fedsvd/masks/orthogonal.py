"""Random orthogonal matrices: Algorithms 1 and 2 of the paper (section 3.1), and what we put beside them.

Three forms of mask stand behind one interface (``linalg.block_diagonal.Orthogonal``):

    haar     one dense Haar matrix: the law of P A Q then depends on A only through its singular values
    mixing   two rounds of random signs and DCT, a secret permutation, then Haar blocks (``permute.py``)
    blocks   the paper's bare block-diagonal matrix, kept so that the paper can be reproduced (C4)
"""

from fedsvd.linalg.backend import like, namespace
from fedsvd.linalg.batched_blocks import draw_blocks, normals_needed
from fedsvd.linalg.block_diagonal import BlockDiagonal, Orthogonal
from fedsvd.linalg.householder import Reflectors, draw
from fedsvd.linalg.windows import MIXING_BLOCK, Form, block_sizes
from fedsvd.linalg.words import normals_of, room_for_words, signed_order
from fedsvd.masks.permute import Mixing
from fedsvd.randomness.keystream import Each, Keystream, fill_words
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


def mixing_on(n: int, b: int, seed: Seed, on: Array, each: Each | None) -> Mixing:
    """``mixing`` of the same words, made where ``on`` lies: only signs and words come from here."""
    stream, widths = Keystream(seed), block_sizes(n, b)
    rounds = (stream.signs(n), stream.signs(n))
    xp = namespace(on)
    order = xp.argsort(signed_order(stream.words(n), on))
    first = 2 * -(-n // 64) + n  # the words taken so far
    words = room_for_words(normals_needed(widths), on)
    fill_words(seed, words, each or map, first)
    blocks = draw_blocks(widths, normals_of(words, on))
    signs = (like(rounds[0][:, None], on), like(rounds[1][:, None], on))
    return Mixing(signs, order, xp.argsort(order), blocks)


def draw_form(form: Form, n: int, b: int, seed: Seed, on: Array | None = None, each: Each | None = None) -> Orthogonal:
    """The orthogonal matrix of this form that follows from ``seed``."""
    if form is Form.MIXING and on is not None:
        return mixing_on(n, b, seed, on, each)
    stream = Keystream(seed)
    if form is Form.HAAR:
        return orthogonal(n, stream, on)
    if form is Form.MIXING:
        return mixing(n, b, stream, on)
    return efficient_orthogonal(n, b, stream, on)


def local_rotation(n: int, seed: Seed, on: Array | None = None, each: Each | None = None) -> Orthogonal:
    """T_i: the rotation known to user i alone, haar, or mixing when long (02-protocol, section 3.2)."""
    form = Form.HAAR if n <= HAAR_ROTATION_LIMIT else Form.MIXING
    return draw_form(form, n, MIXING_BLOCK, seed, on, each)


def secret_scale(seed: Seed) -> float:
    """c = 2^u, u uniform in [0, 1): with it the norm, up to a power of two, says nothing of the data's."""
    scale: float = 2.0 ** Keystream(seed).uniform(0.0, 1.0)
    return scale
