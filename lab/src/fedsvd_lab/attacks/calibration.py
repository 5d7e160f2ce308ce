"""Does a scheme leak anything an attack can see? p-values over many runs, which are uniform where nothing is learned.

One run gives one p-value, and one small p-value is luck. So the same study is run again and again with fresh masks, the
same attack looks at what the CSP saw, and the p-values are tested for uniformity. The attack is one-sided whitened
FastICA, on features and on records in turn, and looks at the *size* of what it finds: where energy lies survives block
masks even when signs do not. It treats the entries along the other side as samples in no order, so that its p-values
are exact under haar masks (``score.py``), and any departure from uniform is a leak, not an artefact. A mixing mask on a
side shorter than two of its blocks *is* a Haar matrix: such a side shows nothing of the form, and is left out.

"blocks" are bare block masks, without a session: the paper's, which the attack is known to see through. A test that
found nothing there would find nothing anywhere.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np

from fedsvd.audit.against_csp import side_p_values
from fedsvd.audit.attacks.score import uniformity
from fedsvd.linalg.windows import MIXING_BLOCK, Form, block_sizes
from fedsvd.protocol.tasks import Item
from fedsvd.randomness.keystream import Keystream
from fedsvd.randomness.seed import Seed
from fedsvd.types import Float
from fedsvd_lab.attacks.referee import record_tables
from fedsvd_lab.published.block_diagonal import BlockDiagonal, efficient_orthogonal

SCHEMES: dict[str, dict[str, Any]] = {
    "sum": {"scheme": "sum"},
    # Data this small would get haar masks; the heuristic form is the one that needs the evidence.
    "mask": {"scheme": "mask", "forms": (Form.MIXING, Form.MIXING)},
}
BLOCKS = "blocks"
LEVEL = 1e-3


@dataclass(frozen=True)
class Calibration:
    """The p-values of repeated runs, by side; ``uniform`` is the p-value of their uniformity."""

    dataset: str
    scheme: str
    b: int
    p: dict[str, list[float]] = field(default_factory=dict)

    @property
    def uniform(self) -> dict[str, float]:
        return {side: uniformity(np.array(values)) for side, values in self.p.items()}

    @property
    def leaks(self) -> bool:
        """Whether uniformity is rejected on either side."""
        return min(self.uniform.values(), default=1.0) < LEVEL

    def record(self) -> dict[str, Any]:
        return {
            "dataset": self.dataset,
            "scheme": self.scheme,
            "b": self.b,
            "repeats": max(map(len, self.p.values()), default=0),
            "uniformity": self.uniform,
            "leaks": self.leaks,
            "p": {side: [round(value, 4) for value in values] for side, values in self.p.items()},
        }


def mixes(length: int) -> bool:
    """Whether a mixing mask over this number of lines has several blocks, and is no Haar matrix."""
    return len(block_sizes(length, MIXING_BLOCK)) > 1


def in_blocks(X: Float, b: int, seed: int) -> tuple[Float, BlockDiagonal, BlockDiagonal]:
    """``P X Q``, P and Q, for masks of bare blocks of about b (Algorithm 2 of the paper) that follow from a number."""
    root = Seed(sha256(f"INSECURE fedsvd lab {seed}".encode()).digest())
    P, Q = (efficient_orthogonal(n, b, Keystream(root.derive(name))) for n, name in zip(X.shape, "PQ", strict=True))
    return Q.right(P.left(X)), P, Q


def seen_by_csp(tables: Sequence[Float], scheme: str, seed: int) -> Float:
    """What the CSP of a session in this scheme sees of these parties' tables."""
    released = (Item.COMPONENTS, Item.SPECTRUM)
    return record_tables(tables, random_state=seed, components=1, release=released, **SCHEMES[scheme]).csp.Y


def calibrate(
    dataset: str,
    tables: Sequence[Float],
    scheme: str,
    b: int = 100,
    repeats: int = 24,
    draws: int = 99,
    report: Callable[[str, int, int], None] | None = None,
) -> Calibration:
    """Run, attack, score, ``repeats`` times with fresh masks; ``tables`` are the parties', samples in rows."""
    X = np.concatenate(tables).T
    p: dict[str, list[float]] = {}
    for repeat in range(repeats):
        Y = in_blocks(X, b, repeat)[0] if scheme == BLOCKS else seen_by_csp(tables, scheme, repeat)
        for side, value in side_p_values(Y, X, b, repeat, draws).items():
            if scheme != "mask" or mixes(X.shape[0 if side == "features" else 1]):
                p.setdefault(side, []).append(value)
        if report is not None:
            report(f"{dataset} {scheme}", repeat + 1, repeats)
    return Calibration(dataset, scheme, b, p)
