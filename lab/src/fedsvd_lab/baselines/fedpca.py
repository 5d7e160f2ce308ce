"""FedPCA: federated, streaming, (epsilon, delta)-differentially private PCA (Grammenos, Mendoza-Smith, Crowcroft,
Mascolo, NeurIPS 2020), written from the paper.

Each client perturbs its covariance with a *non-symmetric* Gaussian matrix (Streaming MOD-SuLQ, their lemma 2), which
lets it work through the covariance a block of columns at a time in O(d c) memory; subspaces are merged pairwise, and
the order does not matter. Privacy holds for samples of norm at most 1: anyone who skips ``scaled`` has no guarantee,
and less noise.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from fedsvd.errors import ConfigError
from fedsvd.types import Float
from fedsvd_lab.baselines.subspace import Subspace, merge

_BLOCK = 256


@dataclass(frozen=True)
class Privacy:
    """The budget; the paper's evaluation sets both to 0.1."""

    epsilon: float = 0.1
    delta: float = 0.1

    def __post_init__(self) -> None:
        if not (self.epsilon > 0 and 0 < self.delta < 1):
            raise ConfigError("a privacy budget out of range", "epsilon > 0 and 0 < delta < 1")


def noise_deviation(privacy: Privacy, d: int, n: int) -> float:
    """omega of lemma 2: the deviation of every entry of the noise on the covariance of n samples of d features."""
    log = math.log(d * d / (privacy.delta * math.sqrt(2 * math.pi)))
    return 4 * d / (privacy.epsilon * n) * math.sqrt(2 * log) + math.sqrt(2) / (math.sqrt(privacy.epsilon) * n)


def scaled(parts: Sequence[Float]) -> list[Float]:
    """The same samples (columns) divided by the largest norm among them, as the guarantee needs."""
    largest = max(float(np.linalg.norm(Y_i, axis=0).max()) for Y_i in parts)
    return [Y_i / (largest or 1.0) for Y_i in parts]


def fedpca(parts: Sequence[Float], r: int, privacy: Privacy | None, *, seed: int, block: int = _BLOCK) -> Subspace:
    """The top r principal directions of samples held by clients, Y_i of shape (features, samples).

    Without a privacy budget the stream is of the samples themselves, and the result is exact while no client's rank
    is above r.
    """
    streams = np.random.SeedSequence(seed).spawn(len(parts))
    spaces = [_client(Y_i, r, privacy, np.random.default_rng(s), block) for Y_i, s in zip(parts, streams, strict=True)]
    return reduce(lambda one, other: merge(one, other, r), spaces)


def _client(Y_i: Float, r: int, privacy: Privacy | None, rng: np.random.Generator, block: int) -> Subspace:
    d, n = Y_i.shape
    columns = n if privacy is None else d
    omega = 0.0 if privacy is None else noise_deviation(privacy, d, n)
    space: Subspace | None = None
    for start in range(0, columns, block):
        stop = min(start + block, columns)
        if privacy is None:
            panel = Y_i[:, start:stop]
        else:
            panel = Y_i @ Y_i[start:stop].T / n + omega * rng.standard_normal((d, stop - start))
        own = _leading(panel, r)
        space = own if space is None else merge(space, own, r)
    assert space is not None, "a client has samples"
    return space


def _leading(panel: Float, r: int) -> Subspace:
    U, weights, _ = np.linalg.svd(panel, full_matrices=False)
    return Subspace(U[:, :r], weights[:r])
