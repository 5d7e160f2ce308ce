"""What the kernels of exact Gram matrices cost: a share, its words, their factor, and the test of another's answer.

As in ``kernels.py``, each function says how much work there is and how many numbers its arrays take at their peak.
The coefficients of lower-order terms were measured on ``linalg.exact_gram`` and ``linalg.wide_factor`` at 300 to 1200
rows; ``benchmarks/estimates.py`` compares the sums with whole sessions.
"""

from fedsvd.cost.kernels import Kernel, apply, draw, stored
from fedsvd.cost.rates import Work
from fedsvd.linalg.exact_gram import MOST_WORDS, PANEL
from fedsvd.linalg.householder import REFLECTORS
from fedsvd.linalg.windows import Form

_ROWS = 128  # rows of words that are made at once; up to 192 of longer sides
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
    # The share and its dither are alive together with the three slices that are cut from them, T is not any more.
    return Kernel(work, P + rows * p + max(turned.numbers, 5.0 * size + min(_PIECES, 6.0 * size)))


def words(rows: int, q: int) -> Kernel:
    """The upper triangle of ``A A^T``, rows x rows, from three slices of q columns: six products, then words.

    Words are made and sent by panels of rows, so that one batch of them is there at a time.
    """
    batch = 2.0 * min(MOST_WORDS, rows * (rows + 1) // 2)
    making = rows * min(q, PANEL) + 7.5 * _ROWS * rows
    return Kernel(Work(gemm=6.0 * rows * rows * q, memory=450.0 * rows * rows), batch + making)


def wide_factor(rows: int) -> Kernel:
    """R of exact words: one pivoted and two plain Cholesky factors, two exact Gram matrices of triangles, two solves.

    The words themselves, rows^2 numbers, are there beforehand.
    """
    cube, square = float(rows) ** 3, float(rows) ** 2
    return Kernel(Work(gemm=5 * cube, solve=3 * cube, memory=1200 * square), 5 * square + 1800.0 * rows)


def acceptance(rows: int, r: int) -> Kernel:
    """The test of (U, S) on one's own R: ``R U``, what it leaves of R, and two Gram matrices of r columns."""
    size, square = float(rows * r), float(rows) ** 2
    work = Work(gemm=6.0 * rows * size + 4.0 * size * r, solve=square * rows / 3, memory=8 * (8 * size + 4 * square))
    return Kernel(work, 4 * size + 2 * square)
