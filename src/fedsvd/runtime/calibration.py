"""How fast this machine is: the rates of the cost model, measured in about a second.

Each rate is measured on the kernel it stands for, at a size that leaves the caches, and the best of a few rounds
counts: a machine that is busy with something else looks slower than it is, never faster.
"""

from collections.abc import Callable
from time import perf_counter

import numpy as np

from fedsvd.linalg import backend
from fedsvd.linalg.householder import Reflectors, draw
from fedsvd.protocol.rates import Machine
from fedsvd.randomness.keystream import Keystream
from fedsvd.randomness.seed import Seed
from fedsvd.sealing.agree import AgreementKey, pair_key
from fedsvd.secagg import fixed_point, wide
from fedsvd.secagg.keys import PadKeys
from fedsvd.secagg.pads import PadsOnce, pad
from fedsvd.types import Digest, Float, SessionId

_ROUNDS = 3
_WORDS = 1 << 19
_FRESH = 5 << 20  # numbers; above what an allocator keeps for itself, so that their pages are new


def calibrate() -> Machine:
    """The rates of this machine, with as many BLAS threads as are set."""
    stream = Keystream(Seed(bytes(32)))
    return Machine(**_dense(stream), **_masks(stream), **_ring(stream), **_scalars(stream))


def _dense(stream: Keystream) -> dict[str, float]:
    n, long = 512, 2048
    A, X = stream.normal((n, n)), stream.normal((n, long))
    R = np.asfortranarray(np.triu(A) + n * np.eye(n))
    fresh = np.ones(_FRESH)
    return {
        "gemm": 2.0 * n * n * long / _best(lambda: A @ X),
        "solve": 2.0 * n * n * long / _best(lambda: backend.gram(backend.solve_triangular(R, X, transposed=True))),
        "qr": (4.0 * long * n * n - 4 / 3 * n**3) / _best(lambda: backend.qr(X.T), 2),
        "svd": 22.0 * n**3 / _best(lambda: backend.svd(A), 2),
        "memory": 8.0 * _FRESH / _best(lambda: fresh * 2.0),
    }


def _masks(stream: Keystream) -> dict[str, float]:
    n, columns = 1000, 512
    X, Y = stream.normal((n, columns)), stream.normal((1 << 14, 32))
    Q, narrow = draw(n, stream.normal), draw(250, stream.normal)

    def blocks() -> None:
        for start in range(0, n, 250):
            narrow.left(X[start : start + 250])

    return {
        "reflect": 2.0 * n * n * columns / _best(lambda: _product(Q, X)),
        "blocks": 2.0 * 250 * n * columns / _best(blocks),
        "dct": Y.size * np.log2(len(Y)) / _best(lambda: backend.dct(Y)),
        "normals": _WORDS / _best(lambda: stream.normal(_WORDS), 2),
    }


def _product(Q: Reflectors, X: Float) -> Float:
    reflected: Float = Q.left_t(X)
    return reflected


def _ring(stream: Keystream) -> dict[str, float]:
    Y = stream.normal((1024, _WORDS // 1024))
    codes = fixed_point.encode(Y, 40)
    keys = PadKeys(1, {peer: Seed(bytes([peer]) * 32) for peer in (2, 3, 4)})
    return {
        "encode": Y.nbytes / _best(lambda: fixed_point.encode(Y, 40)),
        "aes": 3 * Y.nbytes / _best(lambda: pad(codes, keys, "calibration", 0, PadsOnce())),
    }


def _scalars(stream: Keystream) -> dict[str, float]:
    values = stream.normal(200)
    mine, theirs = AgreementKey(Seed(bytes(32))), AgreementKey(Seed(bytes([1]) * 32))

    def agree() -> None:
        pair_key(mine, theirs.public, me=1, them=2, session=SessionId("s"), plan=Digest("p"), purpose="calibration")

    return {
        "scalars": values.size / _best(lambda: wide.decode(wide.encode(values))),
        "keys": 1 / _best(agree),
        "messages": 5e4,
    }


def _best(work: Callable[[], object], rounds: int = _ROUNDS) -> float:
    """The shortest of a few rounds, in seconds."""
    best = float("inf")
    for _ in range(rounds):
        started = perf_counter()
        work()
        best = min(best, perf_counter() - started)
    return best
