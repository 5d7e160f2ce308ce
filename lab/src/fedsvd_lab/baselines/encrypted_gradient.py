"""One gradient step of a regression under Paillier, as FATE's vertical linear regression runs it.

The host encrypts its part of the predictions; the guest, who has the labels, adds its own part and gets the encrypted
residuals d; each side computes ``X_i^T d`` under the encryption; the arbiter decrypts the gradients. A step costs two
modular powers for every row and one for every entry of X, so a step at a small size predicts one at a large size. It
stands for FATE, which is not installed: its time per step is measured, its time for many epochs is extrapolated.
"""

from dataclasses import dataclass
from functools import partial
from time import perf_counter

import numpy as np

from fedsvd.types import Float
from fedsvd_lab.baselines.packing import Packing
from fedsvd_lab.baselines.paillier import Number, PrivateKey, PublicKey, gmp
from fedsvd_lab.baselines.pool import Here, Spread
from fedsvd_lab.baselines.ppd_svd import Integers, power_product

_FRACTION_BITS = 24


@dataclass(frozen=True, repr=False)
class Step:
    """The gradient ``X^T (X w - y)`` and the seconds that one step took."""

    gradient: Float
    seconds: float


def encrypted_step(
    X_guest: Float,
    X_host: Float,
    w: Float,
    y: Float,
    key: PrivateKey,
    spread: Spread = Here(),  # noqa: B008  (it has no state)
) -> Step:
    """One full-batch step; w has the guest's coefficients first."""
    public, bits = key.public, _FRACTION_BITS
    largest = max(float(np.abs(part).max()) for part in (X_guest, X_host, y, X_guest @ w[: X_guest.shape[1]]))
    packing = Packing.for_products(int(public.n).bit_length(), len(y), 4 * largest + 1, bits, packed=False)
    started = perf_counter()
    host = packing.whole(X_host @ w[X_guest.shape[1] :])
    guest = packing.whole(X_guest @ w[: X_guest.shape[1]] - y)
    rows = np.array_split(np.column_stack((host, guest)), spread.processes)
    residuals = [c for part in spread(partial(_residuals, public), rows) for c in part]
    columns = np.array_split(packing.whole(np.hstack((X_guest, X_host))), spread.processes, axis=1)
    encrypted = [c for part in spread(partial(_gradients, public, residuals), columns) for c in part]
    gradient = np.ldexp(np.array([float(key.decrypt(c)) for c in encrypted]), -2 * bits)
    return Step(gradient, perf_counter() - started)


def _residuals(public: PublicKey, parts: Integers) -> list[Number]:
    """The host's encrypted predictions, to each of which the guest adds its own."""
    square = public.square
    return [public.encrypt(host) * (1 + guest * public.n) % square for host, guest in parts.tolist()]


def _gradients(public: PublicKey, residuals: list[Number], columns: Integers) -> list[Number]:
    g, square = gmp(), public.square
    return [power_product(g, square, residuals, column) for column in columns.T.tolist()]
