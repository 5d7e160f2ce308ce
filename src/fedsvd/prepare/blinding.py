"""Record matching by commutative blinding on Curve25519 (``align = "ecdh"``): no one can try an id on what it holds.

An id is hashed, under the users' key, to a point of the curve. Every party has a secret factor, and X25519(a, X25519(b,
u)) = X25519(b, X25519(a, u)): points that all parties have multiplied are equal exactly when the ids are, and without
all factors no id can be tried on them. For k parties, counted from 0, set j

1. is blinded and shuffled by party j (``Blinding.begin``), which remembers the order;
2. goes through the other parties, ``route(j, k)``, each of which multiplies it (``Blinding.apply``);
3. is shuffled once more by the last of them (``shuffled``), which remembers that order, and goes to the CSP;
4. the CSP, which has no factor, finds the points common to all sets (``linalg.common_rows``);
5. the positions go back to the last party of the route, which undoes its shuffle (``unshuffled``), then to party j,
   which undoes its own.

Sets travel sealed from party to party until all have blinded them. No party sees its own set again, nor another's that
all have blinded, but the one that it is the last to blind: it has nothing to compare, whatever factors it takes (ADR
0051). Parties learn which of their own records are common to all, the CSP how large the overlaps of the sets are.
Points are put on the curve itself, never on its twist: which of the two a point is on survives blinding and would be
one bit of the id.
"""

import hashlib
from collections.abc import Callable, Iterable
from typing import NoReturn

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from numpy.typing import NDArray

from fedsvd.errors import NotSealed, ShapeError
from fedsvd.randomness.keystream import Keystream
from fedsvd.randomness.seed import Seed

POINT_BYTES = 32
Points = NDArray[np.uint8]
"""Shape (records, 32)."""
EachPart = Callable[[Callable[[bytes], bytes], Iterable[bytes]], Iterable[bytes]]
"""How parts are worked on: ``map``, or that of a pool of processes."""

_P = 2**255 - 19
_A = 486662
PART = 4096  # points worked on at once


class Blinding:
    """One party's secret factor for one matching; never shown and never pickled."""

    __slots__ = ("_order", "_secret")

    def __init__(self, seed: Seed) -> None:
        self._secret = seed.derive("blinding factor").reveal()
        self._order = seed.derive("order of records")

    def __repr__(self) -> str:
        return "Blinding(<redacted>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a blinding factor is never pickled")

    def begin(self, points: Points, each: EachPart = map) -> tuple[Points, NDArray[np.intp]]:
        """One's own points, blinded and shuffled, and the order: row i was row ``order[i]``."""
        mixed, order = shuffled(points, self._order)
        return self.apply(mixed, each), order

    def apply(self, points: Points, each: EachPart = map) -> Points:
        """Every point multiplied by this party's factor, in the same order."""
        if points.ndim != 2 or points.shape[1] != POINT_BYTES or points.dtype != np.uint8:
            raise ShapeError(f"points of shape {points.shape} and type {points.dtype}", "32 bytes for each record")
        data = np.ascontiguousarray(points).tobytes()
        size = PART * POINT_BYTES
        parts = (self._secret + data[start : start + size] for start in range(0, len(data), size))
        return np.frombuffer(b"".join(each(multiplied, parts)), np.uint8).reshape(-1, POINT_BYTES)


def points_of(hashes: NDArray[np.uint8], each: EachPart = map) -> Points:
    """A point of the curve for each keyed hash (rows of any length)."""
    width = hashes.shape[1]
    data = np.ascontiguousarray(hashes).tobytes()
    size = PART * width
    parts = (width.to_bytes(2, "big") + data[start : start + size] for start in range(0, len(data), size))
    return np.frombuffer(b"".join(each(points_in, parts)), np.uint8).reshape(-1, POINT_BYTES)


def shuffled(points: Points, seed: Seed) -> tuple[Points, NDArray[np.intp]]:
    """The points in a secret order, and that order: row i of the result is row ``order[i]``."""
    order = Keystream(seed).permutation(len(points))
    return points[order], order


def unshuffled(positions: NDArray[np.int64], order: NDArray[np.intp]) -> NDArray[np.int64]:
    """Positions among shuffled points as positions among the points before."""
    return order[positions].astype(np.int64)


def multiplied(part: bytes) -> bytes:
    """Points after a factor, each multiplied by it; plain bytes both ways, so that a pool of processes can do it."""
    factor = X25519PrivateKey.from_private_bytes(part[:POINT_BYTES])
    point = X25519PublicKey.from_public_bytes
    try:
        return b"".join(
            [
                factor.exchange(point(part[start : start + POINT_BYTES]))
                for start in range(POINT_BYTES, len(part), POINT_BYTES)
            ]
        )
    except ValueError:
        # A point of low order becomes zero under every factor: no honest party sends one.
        raise NotSealed("a blinded record is no point of the curve", "stop and ask the party that sent it") from None


def points_in(part: bytes) -> bytes:
    """A point for each keyed hash of a part, whose first two bytes say how long a hash is."""
    width = int.from_bytes(part[:2], "big")
    return b"".join([_point(part[start : start + width]) for start in range(2, len(part), width)])


WORK: dict[str, Callable[[bytes], bytes]] = {"multiplied": multiplied, "points_in": points_in}
"""What is done to parts, by name: the work that a pool of processes may be given."""


def _point(digest: bytes) -> bytes:
    """The first of the numbers H(digest, 0), H(digest, 1), ... that is a point of the curve, and not of its twist."""
    for counter in range(256):
        text = hashlib.sha256(b"fedsvd/point/1" + bytes([counter]) + digest).digest()
        u = int.from_bytes(text, "little") % 2**255 % _P
        if _is_square((u * (u * (u + _A) + 1)) % _P):
            return u.to_bytes(POINT_BYTES, "little")
    raise AssertionError("256 hashes in a row are no points of the curve, which has probability 2^-256")


def _is_square(a: int) -> bool:
    """Whether a is a square other than 0 modulo p, by the Jacobi symbol; three times as fast as a power."""
    n, odd = _P, 0
    while a:
        zeros = (a & -a).bit_length() - 1
        a >>= zeros
        if zeros & 1 and (n & 7) in (3, 5):
            odd ^= 1
        odd ^= (a & n & 2) >> 1
        a, n = n % a, a
    return n == 1 and not odd
