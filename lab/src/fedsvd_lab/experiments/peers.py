"""The regression peers' cost: one gradient step measured at a small size, and what it says about any other.

FATE's step is two powers for every row and one for every entry of X (``encrypted_gradient``); a step on secret shares
is two products with X (``mpc_party``). Both are linear in m n, so a step elsewhere is the measured one times the ratio.
Neither has a network in its measured seconds worth the name: rounds and bytes of a step are counted here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedsvd_lab.baselines.encrypted_gradient import encrypted_step
from fedsvd_lab.baselines.mpc_regression import PARTIES, available, shared_step
from fedsvd_lab.baselines.paillier import new_key
from fedsvd_lab.baselines.pool import workers
from fedsvd_lab.experiments.context import Context

_SHARE_BYTES = 16  # of a number in MPyC's field for 64-bit fixed point


@dataclass(frozen=True)
class Peer:
    """A peer's step at one size, and how to carry it elsewhere."""

    name: str
    shape: tuple[int, int]
    step: float
    rounds: int
    bytes_per_row: float
    bytes_per_column: float
    note: str

    def method(self, epochs: int) -> str:
        return f"{self.name}, {epochs} epochs"

    def seconds(self, m: int, n: int) -> float:
        """Of one step at another size, no network."""
        return self.step * m * n / (self.shape[0] * self.shape[1])

    def bytes(self, m: int, n: int) -> float:
        """Sent in one step by all parties."""
        return self.bytes_per_row * m + self.bytes_per_column * n


def measured_peers(settings: Mapping[str, Any], context: Context) -> Iterator[Peer]:
    """FATE's step under Paillier; SecureML's on shares where MPyC is installed."""
    yield _fate(tuple(settings["paillier"]), settings["bits"], context)
    if "mpc" not in settings:
        return
    if available():
        yield _shares(tuple(settings["mpc"]), context)
    else:
        context.say("  the MPC peer is left out: pip install 'fedsvd[mpc]'")


def _fate(shape: tuple[int, int], bits: int, context: Context) -> Peer:
    rng = np.random.default_rng(context.seed)
    X, y, w = rng.uniform(-1, 1, shape), rng.uniform(-1, 1, shape[0]), rng.uniform(-1, 1, shape[1])
    half, key = shape[1] // 2, new_key(bits)
    with workers(context.processes) as spread:
        step = encrypted_step(X[:, :half], X[:, half:], w, y, key, spread)
    cipher = key.public.ciphertext_bytes
    note = f"one step of {shape[0]} x {shape[1]} under {bits}-bit Paillier took {step.seconds:.3g} s"
    # Host to guest, guest to host, both to the arbiter and back: predictions, residuals, gradients.
    return Peer("FATE (our Paillier)", shape, step.seconds, 4, 2.0 * cipher, 2.0 * cipher, note)


def _shares(shape: tuple[int, int], context: Context) -> Peer:
    # A warm step cannot be had apart from MPyC's start, so the difference of two sizes is what a step costs.
    small, large = (shared_step(rows, shape[1], seed=context.seed) for rows in (max(2, shape[0] // 10), shape[0]))
    step = max(large.step - small.step, 0.1 * large.step) * shape[0] / (shape[0] - max(2, shape[0] // 10))
    note = f"one step of {shape[0]} x {shape[1]} on MPyC shares took {large.step:.3g} s, {PARTIES} processes"
    per_number = PARTIES * (PARTIES - 1) * _SHARE_BYTES
    return Peer("SecureML (MPyC)", shape, step, 2, float(per_number), float(per_number), note)
