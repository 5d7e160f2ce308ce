"""What the kernels cost: the streaming factor, masks, a dense SVD and its verification, exact Gram matrices.

Each function says how much work there is and how many numbers its arrays take at their peak, what it returns included
and what it is given not. The counts follow the code they speak of; ``benchmarks/estimates.py`` compares them with it.
The coefficients of lower-order terms of exact Gram matrices were measured on ``linalg.exact_gram`` and
``linalg.wide_factor`` at 300 to 1200 rows.
"""

import math
from collections import Counter
from dataclasses import dataclass

from fedsvd.compress.reduce import panel_width, thread_numbers, viewed_width
from fedsvd.cost.rates import Work
from fedsvd.linalg.exact_gram import LANES, MOST_WORDS, TILE
from fedsvd.linalg.exact_gram import PANEL as EXACT_PANEL
from fedsvd.linalg.householder import REFLECTORS
from fedsvd.linalg.pools import available
from fedsvd.linalg.solved_columns import IN_CACHE, piece_of_thread, sums_at_once
from fedsvd.linalg.streaming_factor import WIDE, longest_chunk, most_at_once
from fedsvd.linalg.verify import PANEL
from fedsvd.linalg.windows import Form, block_width, block_widths
from fedsvd.masks.permute import ROUNDS


@dataclass(frozen=True)
class Kernel:
    """Work, and numbers alive at the peak."""

    work: Work
    numbers: float = 0.0


def compress(rows: int, count: int, centred: bool, memory: int, ill: float) -> Kernel:
    """The factor of ``count`` columns of ``rows`` numbers each, from one pass in panels."""
    panel = min(panel_width(rows, memory), count)
    kernel = factor(rows + centred, count, panel, ill)
    # Centred piece by piece, on the way into a cache; each thread has a sum and a piece.
    width, longest = rows + centred, min(count, viewed_width(rows))
    sums = sums_at_once(width, longest, available(), thread_numbers(rows, memory))
    piece = min(piece_of_thread(width), -(-longest // sums))
    threaded = width * (sums * width + min(sums, available()) * piece + 2.0 * width) * (sums > 1)
    numbers = max(kernel.numbers, threaded)
    return Kernel(kernel.work + Work(memory=8.0 * rows * count * centred), numbers)


_LESS = 100  # columns at which the BLAS reaches half of its rate
_GROWING = 8  # chunks after which all have the length of a panel


def factor(width: int, count: int, panel: int, ill: float) -> Kernel:
    """``linalg.streaming_factor``: by symmetric products; where data is ill-conditioned, ``_preconditioned``."""
    kernel = _preconditioned(width, count, panel)
    if count < 1.25 * width:
        return kernel
    # Each chunk is proved even by two Cholesky factors; the last sum has one more, which is the answer.
    factors = 2 * proofs(width, count) + 1
    gram = Work(
        gemm=(1.0 + _LESS / width) * width**2 * count, solve=factors * 0.35 * width**3, memory=8.0 * width * count
    )
    return Kernel(gram * (1.0 - ill) + kernel.work * ill, kernel.numbers)


def proofs(width: int, count: int) -> int:
    """How many chunks are added to a Gram matrix: of many features the first one is long."""
    most = most_at_once(width)
    if width >= WIDE and count > 2 * width:
        return -(-count // most)
    return 1 + chunks(width, count - 2 * width, most).total()


def _preconditioned(width: int, count: int, panel: int) -> Kernel:
    """The first 2 width columns by QR, the rest by triangular solves and rank updates."""
    first = min(count, 2 * width)
    small = min(width, count)
    work = Work(qr=2.0 * first * width * small - 2 / 3 * small**3, memory=16.0 * first * width)
    if count < 1.25 * width:  # never square, or nothing left to update with
        return Kernel(work * 1.5, 2.0 * first * width + small * width)
    rest = max(count - first, 0)
    updated = chunks(width, rest, panel)
    chunk, updates = max(updated, default=0), sum(updated.values())
    solve = (2.0 * width**2 * rest + updates * 1.4 * width**3) * (1 + _LESS / width)
    work += Work(solve=solve, memory=8.0 * width * (rest + 6 * updates * width))
    waiting = first if panel < 2 * width else 0  # narrow panels wait until they are worth an update
    solved = float(min(chunk * width, max(2 * width**2, IN_CACHE)))  # of a chunk at once
    return Kernel(work, max(solved + 3.0 * width**2, 1.0 * first * width + 1.2 * width**2) + waiting * width)


def chunks(width: int, rest: int, panel: int) -> Counter[int]:
    """How many chunks of each length come after the first 2 width columns."""
    found = Counter[int]()
    seen, most = 2 * width, max(panel, 2 * width)
    while rest > 0:
        if found.total() >= _GROWING:  # by now they are as long as they get
            found[most] += -(-rest // most)
            break
        length = min(longest_chunk(seen, width), most, rest)
        found[length] += 1
        seen, rest = seen + length, rest - length
    return found


def stored(form: Form, n: int, b: int = 0) -> float:
    """Numbers that a drawn mask of n rows keeps."""
    if form is Form.HAAR:
        return float(sum((n - start) * min(REFLECTORS, n - start) for start in range(0, n, REFLECTORS)))
    # Of a mixing mask reflectors are stored: half of what the blocks would take.
    own, rounds = (2.25 * n, ROUNDS / 2) if form is Form.MIXING else (0.0, 1.0)
    widths = block_widths(n, block_width(b))
    return own + rounds * sum(count * stored(Form.HAAR, width) for width, count in widths.items())


def draw(form: Form, n: int, b: int = 0) -> Kernel:
    """Drawing a mask of n rows: half as many normals as a square of each block has."""
    widths = {n: 1} if form is Form.HAAR else block_widths(n, block_width(b))
    rounds = ROUNDS if form is Form.MIXING else 1
    normals = rounds * sum(count * width * (width + 1) / 2 for width, count in widths.items())
    # Normals and their places are alive together with the block they fill.
    largest = 0.6 * max(widths) * min(REFLECTORS, max(widths))
    sorting = 3.0 * n * (form is Form.MIXING)
    if form is Form.MIXING:
        return Kernel(Work(drawn=normals, memory=80 * sorting), stored(form, n, b) + sorting)
    return Kernel(Work(normals=normals, memory=16 * normals), stored(form, n, b) + largest)


_PREPARED = 24  # columns that take as long as putting the reflectors of a narrow block together


def apply(form: Form, n: int, columns: float, b: int = 0) -> Kernel:
    """A drawn mask of n rows times n x columns numbers."""
    size = n * columns
    if form is Form.HAAR:
        copies = 2 if n <= REFLECTORS else 3
        return Kernel(Work(reflect=2.0 * n * size, memory=8.0 * copies * size), copies * size)
    work, rounds = Work(), ROUNDS if form is Form.MIXING else 1
    for width, count in block_widths(n, block_width(b)).items():
        work += Work(blocks=2.0 * rounds * width * width * count * (columns + _PREPARED))
    if form is Form.MIXING:
        work += Work(dct=2.0 * size * math.log2(n + 1), memory=32.0 * size)
        return Kernel(work, size + 3.0 * n)  # in place on its lines, one of them at a time
    return Kernel(work + Work(memory=16.0 * size), 3.0 * size)


def dense_svd(m: int, n: int) -> Kernel:
    """``linalg.dense_svd`` and its verification; QR first where one side is twice the other."""
    long, short = max(m, n), min(m, n)
    size, square, panel = float(m * n), float(short * short), float(min(m * n, PANEL))
    check = Work(gemm=2.0 * size * short, solve=(m + n) * square, memory=8 * 8 * size)
    checking = size + square + 4 * panel
    if long >= 2 * short:
        work = Work(qr=4 * size * short - 4 / 3 * square * short, svd=22 * square * short, gemm=2 * size * short)
        return Kernel(work + check, max(4 * size, size + 9 * square, checking))
    return Kernel(Work(svd=14 * size * short + 8 * square * short) + check, max(3 * size + 6 * square, checking))


def factor_svd(m: int, n: int, ill: float) -> Kernel:
    """U', S' of a matrix held whole, verified: through a triangular factor where one side is twice the other.

    A wide matrix ends with its factor; a tall one has U' by one product, of the data or of
    what was solved on the way to the factor. One that is hardly tall is put right where its condition asks for it.
    """
    long, short = max(m, n), min(m, n)
    size, square = float(m * n), float(short * short)
    if long < 2 * short:
        return dense_svd(m, n)
    factored = Work(qr=2 * size * short - 2 / 3 * square * short, memory=16 * size)
    if n > m:
        inner = dense_svd(short, short)
        return Kernel(factored + inner.work, max(size + 1.2 * square, square + inner.numbers))
    if long >= 4 * short:
        factored = factor(short, long, long, ill).work
    solved = long >= 4 * short
    small = (22.0 * ill + 11.0 * (1.0 - ill) if solved else 22.0) * square * short
    work = factored + Work(svd=small, gemm=2 * size * short, memory=8 * 5 * size)
    work += Work(gemm=0.0 if solved else size * short, solve=2 * square * short if solved else size * short) * ill
    return Kernel(work, max(2 * size + square, 9 * square))


def top_svd(m: int, n: int, r: int, ill: float, otherwise: Kernel) -> Kernel:
    """The top r of a tall matrix from the Gram matrix of its short side; ``otherwise`` where that would cost digits."""
    size, square = float(m * n), float(n * n)
    work = Work(svd=6.0 * square * n, gemm=2.0 * size * r, memory=16.0 * size)
    numbers = 4.0 * square + 2.0 * m * r
    return Kernel(work + otherwise.work * ill, numbers + max(otherwise.numbers - numbers, 0.0) * ill)


# --- exact Gram matrices ----------------------------------------------------------------------------------------------

_PIECES = 400_000.0  # numbers of the pieces in which a matrix is sliced


def rotation(m: int, p: int, q: int) -> Kernel:
    """``[L 0] T``, m x q, for the first p rows of a Haar matrix of q: drawn, and applied by p reflectors."""
    normals = p * (2 * q - p + 1) / 2
    blocks = float(sum((q - at) * min(REFLECTORS, p - at) for at in range(0, p, REFLECTORS)))
    reflected = Work(reflect=4.0 * m * q * p - 2.0 * m * p * p, memory=24.0 * m * q)
    work = Work(normals=normals, memory=16 * normals) + reflected
    return Kernel(work, blocks + max(0.7 * blocks, 3.0 * m * q))


def share(m: int, rows: int, p: int, q: int, masked: bool) -> Kernel:
    """``A_i + D_i`` on its grid, rows x q, from a factor of p columns; ``masked`` by P over its first m rows."""
    size, turned = float(rows * q), rotation(rows, p, q)
    work = turned.work + Work(normals=size, memory=8.0 * (rows * p + 20 * size))
    P = 0.0
    if masked:
        drawn, applied = draw(Form.HAAR, m), apply(Form.HAAR, m, p)
        work, P = work + drawn.work + applied.work, stored(Form.HAAR, m)
    # The share and its dither are alive together with the matrices that are cut from them, T is not any more.
    return Kernel(work, P + rows * p + max(turned.numbers, 4.5 * size + min(_PIECES, 8.0 * size)))


def words(rows: int, q: int) -> Kernel:
    """The upper triangle of ``A A^T``, rows x rows, from slices of q columns: five products, then words.

    Words are made and sent by panels of rows, so that one batch of them is there at a time.
    """
    batch = 2.0 * min(MOST_WORDS, rows * (rows + 1) // 2)
    work = Work(gemm=5.0 * rows * rows * q, memory=400.0 * rows * rows)
    return Kernel(work, batch + _tiles(rows, q))


def _tiles(rows: int, q: int) -> float:
    """Numbers of the tiles that threads have at once: factors, products and sums of each."""
    height, width = (min(rows, side) for side in TILE)
    at_once = min(LANES, available(), -(-rows // height) * -(-rows // width))
    return at_once * (6.0 * height * width + (height + width) * min(q, EXACT_PANEL))


def wide_factor(rows: int) -> Kernel:
    """R of exact words: one pivoted and two plain Cholesky factors, two exact Gram matrices of triangles, two solves.

    The words themselves, rows^2 numbers, are there beforehand.
    """
    cube, square = float(rows) ** 3, float(rows) ** 2
    return Kernel(Work(gemm=4.5 * cube, solve=3 * cube, memory=900 * square), 5 * square + _tiles(rows, rows))


def acceptance(rows: int, r: int) -> Kernel:
    """The test of (U, S) on one's own R: ``R U``, what it leaves of R, and two Gram matrices of r columns."""
    size, square = float(rows * r), float(rows) ** 2
    work = Work(gemm=6.0 * rows * size + 4.0 * size * r, solve=square * rows / 3, memory=8 * (8 * size + 4 * square))
    return Kernel(work, 4 * size + 2 * square)
