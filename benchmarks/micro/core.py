"""The bars of the numerical core: keystream, reflectors, streaming factor, masks."""

from collections.abc import Iterator

import numpy as np

from benchmarks.measure import Row, faster, in_turns
from fedsvd.linalg.householder import draw
from fedsvd.linalg.streaming_factor import StreamingFactor
from fedsvd.masks.left import LeftMask
from fedsvd.masks.orthogonal import Form
from fedsvd.randomness.keystream import Keystream
from fedsvd.randomness.seed import Seed
from fedsvd_lab.published.block_masks import LeftBlocks


def rows() -> Iterator[Row]:
    """Every bar of this file, measured as it is asked for."""
    yield words()
    yield normals()
    yield haar()
    yield streaming_factor()
    yield streaming_factor(condition=1e6)
    yield mixing()


def words(count: int = 1 << 22) -> Row:
    """Keystream words: at least 1 GB/s."""
    stream = Keystream(Seed.fresh())
    ours, rival = in_turns(
        lambda: stream.words(count), lambda: np.random.default_rng(0).integers(0, 2**64, count, dtype=np.uint64)
    )
    rate = 8 * count / ours / 1e9
    return Row(
        "keystream words, GB/s", rate, 8 * count / rival / 1e9, "numpy integers", ">= 1 GB/s", rate, rate >= 1, "GB/s"
    )


def normals(count: int = 1 << 21) -> Row:
    """Keystream normals: no slower than 3x NumPy's generator."""
    stream, generator = Keystream(Seed.fresh()), np.random.default_rng(0)
    ours, rival = in_turns(lambda: stream.normal(count), lambda: generator.standard_normal(count))
    return faster(f"normals, {count:,}", ours, rival, "numpy standard_normal", 1 / 3)


def haar(n: int = 1000) -> Row:
    """Draw a Haar matrix and apply it: against QR of a Gaussian matrix and GEMM."""
    stream, generator = Keystream(Seed.fresh()), np.random.default_rng(0)
    X = generator.standard_normal((n, n))

    def by_qr() -> object:
        Q, R = np.linalg.qr(generator.standard_normal((n, n)))
        return (Q * np.where(np.diag(R) < 0, -1.0, 1.0)) @ X

    ours, rival = in_turns(lambda: draw(n, stream.normal).left(X), by_qr, 9)
    return faster(f"haar: draw and apply, {n} x {n}", ours, rival, "numpy qr + matmul", 2)


def streaming_factor(m: int = 1000, n: int = 100_000, panel: int = 8000, condition: float = 1.0) -> Row:
    """The running factor of a matrix in panels: against Householder QR of each panel stacked on the factor.

    The bar is for Gaussian data, which takes the Gram route; ill-conditioned data takes the preconditioned one.
    """
    X = np.random.default_rng(0).standard_normal((m, n)) * np.geomspace(1.0, 1.0 / condition, m)[:, None]

    def ours() -> object:
        factor = StreamingFactor(m)
        for start in range(0, n, panel):
            factor.update_columns(X[:, start : start + panel])
        return factor.factor()

    def stacked() -> object:
        R = np.zeros((0, m))
        for start in range(0, n, panel):
            R = np.linalg.qr(np.vstack((R, X[:, start : start + panel].T)), mode="r")
        return R

    took, rival = in_turns(ours, stacked, 2)
    name = f"streaming factor, {m} x {n:,}" + (f", condition {condition:.0e}" if condition > 1 else "")
    return faster(name, took, rival, "stacked numpy qr(mode='r')", 2 if condition == 1 else 1.3)


def mixing(n: int = 65_536, columns: int = 500) -> Row:
    """A mixing mask, drawn and applied: no slower than the paper's bare blocks."""
    X = np.random.default_rng(0).standard_normal((n, columns))
    ours, rival = in_turns(
        lambda: LeftMask(Form.MIXING, n, Seed.fresh()).left(X),
        lambda: LeftBlocks(n, Seed.fresh()).left(X),
        3,
    )
    return faster(f"mixing(256), {n:,} x {columns}", ours, rival, "bare blocks(1000)", 1)
