"""PPD-SVD: the covariance under additive homomorphic encryption (Liu and Tang 2019; section 2.2 of the paper).

User 1 encrypts its columns under the trusted server's key and sends them to user 2, who multiplies by its own numbers
under the encryption and returns the cross block ``X_1^T X_2``; the server decrypts it, puts it next to the users' own
blocks and factorises the n x n covariance. The work is one modular power for every triple (row, column, column), so
time grows with n^2 at fixed m. Packing several columns into one plaintext ("batched") divides it by the slots.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.types import Float
from fedsvd_lab.baselines.packing import Packing
from fedsvd_lab.baselines.paillier import Number, PrivateKey, PublicKey, gmp
from fedsvd_lab.baselines.pool import Here, Spread

Integers = NDArray[np.int64]
FRACTION_BITS = 24


@dataclass(frozen=True, repr=False)
class PpdSvd:
    """Singular values and right vectors, and what they cost: seconds by step, bytes of ciphertext sent."""

    sigma: Float
    Vt: Float
    cross: Float  # X_1^T X_2
    seconds: dict[str, float]
    bytes_sent: int
    slots: int


def ppd_svd(
    X_1: Float,
    X_2: Float,
    key: PrivateKey,
    *,
    packed: bool,
    spread: Spread = Here(),  # noqa: B008  (it has no state)
    fraction_bits: int = FRACTION_BITS,
) -> PpdSvd:
    """The SVD of ``[X_1, X_2]`` from its covariance, the cross block computed under encryption."""
    public, m = key.public, len(X_1)
    largest = max(float(np.abs(X_1).max()), float(np.abs(X_2).max()))
    packing = Packing.for_products(int(public.n).bit_length(), m, largest, fraction_bits, packed)
    seconds: dict[str, float] = {}
    A, B = packing.whole(X_1), packing.whole(X_2)
    groups = [np.arange(start, min(start + packing.slots, A.shape[1])) for start in range(0, A.shape[1], packing.slots)]
    encrypted = _timed(
        seconds, "encrypt", lambda: spread(partial(_encrypt, public, packing), [A[:, g] for g in groups])
    )
    products = _timed(
        seconds, "multiply", lambda: spread(partial(_multiply, public, encrypted), _chunks(B, spread.processes))
    )
    cross = _timed(seconds, "decrypt", lambda: _opened(key, packing, products, groups, spread))
    sigma, Vt = _timed(seconds, "factorise", lambda: _from_covariance(X_1, X_2, cross))
    sent = public.ciphertext_bytes * len(groups) * (m + X_2.shape[1])
    return PpdSvd(sigma, Vt, cross, seconds, sent, packing.slots)


def _timed(seconds: dict[str, float], step: str, work: Callable[[], Any]) -> Any:
    started = perf_counter()
    result = work()
    seconds[step] = perf_counter() - started
    return result


def _chunks(B: Integers, processes: int) -> list[Integers]:
    return [part for part in np.array_split(B, min(processes, B.shape[1]), axis=1) if part.size]


def _encrypt(public: PublicKey, packing: Packing, columns: Integers) -> list[Number]:
    """One ciphertext for every row of a group of columns."""
    return [public.encrypt(packing.pack(row.tolist())) for row in columns]


def _multiply(public: PublicKey, encrypted: list[list[Number]], B: Integers) -> list[list[Number]]:
    """For every column b and group g: ``prod_k c_kg^(b_k)``, which encrypts the group's products with b."""
    g, square = gmp(), public.square
    answers = []
    for column in B.T.tolist():
        answers.append([power_product(g, square, group, column) for group in encrypted])
    return answers


def power_product(g: Any, square: Number, bases: list[Number], exponents: list[int]) -> Number:
    """``prod_k base_k^(exponent_k)`` modulo n^2."""
    # Negative exponents are collected apart: one inversion for all of them.
    up, down = g.mpz(1), g.mpz(1)
    for base, exponent in zip(bases, exponents, strict=True):
        if exponent >= 0:
            up = up * g.powmod(base, exponent, square) % square
        else:
            down = down * g.powmod(base, -exponent, square) % square
    return up * g.invert(down, square) % square


def _opened(
    key: PrivateKey, packing: Packing, products: list[list[list[Number]]], groups: list[Any], spread: Spread
) -> Float:
    columns = [column for part in products for column in part]
    rows = spread(partial(_decrypt, key, packing, [len(group) for group in groups]), columns)
    return np.ldexp(np.array(rows, dtype=np.float64).T, -2 * packing.fraction_bits)


def _decrypt(key: PrivateKey, packing: Packing, widths: list[int], column: list[Number]) -> list[int]:
    found: list[int] = []
    for c, width in zip(column, widths, strict=True):
        found += packing.unpack(key.decrypt(c), width)
    return found


def _from_covariance(X_1: Float, X_2: Float, cross: Float) -> tuple[Float, Float]:
    covariance = np.block([[X_1.T @ X_1, cross], [cross.T, X_2.T @ X_2]])
    values, vectors = np.linalg.eigh(covariance)
    return np.sqrt(np.maximum(values[::-1], 0.0)), vectors[:, ::-1].T
