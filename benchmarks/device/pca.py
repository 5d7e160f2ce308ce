"""PCA, top 5 of 100K features x 1M samples by steps, between two parties on one device: the paper's size, run whole.

    python -m benchmarks.device.pca --device cuda --out benchmarks/results/h200-pca-100k.json

The paper has this shape in 32.3 hours. In float64 the table is 800 GB: no device holds it. Features are noise of unit
variance plus five planted directions, made on the device by its own generator, tile by tile from a seed, anew in every
pass. What is found is checked by plain PyTorch, without this package: one more pass for ``X X^T v - s^2 v``, and a
block Krylov iteration of its own from its own random block, whose values and vectors must be the same.

``--scale 10`` divides both sides by ten; ``--m 32000 --scheme sum`` takes the Gram matrix (70 s on an H200 in 0.2.0).
"""

import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.device.common import (
    Clock,
    TimedSource,
    gemm_rate,
    line,
    machine,
    memory,
    opened,
    options,
    seconds_of,
    timed_study,
    uploads,
    write,
)
from fedsvd.data.source import Index, MatrixSource
from fedsvd.linalg.device import Device
from fedsvd.protocol.tasks import Item
from fedsvd.studies.parties import PartyData
from fedsvd.studies.study import Study
from fedsvd.types import Float

VARIANCES = np.array([1.5, 1.3, 1.15, 1.0, 0.9])  # of the planted directions, beyond the noise
RELEASE = (Item.COMPONENTS, Item.SPECTRUM, Item.MEAN, Item.OWN_PART)
_TILE = 512  # samples made from one seed
_SEED = 20_220_814
_BLOCK, _ROUNDS = 10, 14  # of the Krylov iteration that the answer is compared with


class Planted(MatrixSource):
    """Features x samples of one party, made on a device by PyTorch: float32 noise, five directions in float64."""

    def __init__(self, device: Device, m: int, samples: tuple[int, int]) -> None:
        super().__init__((m, samples[1] - samples[0]), np.dtype(np.float64))
        self._first, self._on = samples[0], device.like.device
        directions = np.random.default_rng(_SEED).normal(size=(m, len(VARIANCES)))
        self.directions: Float = np.linalg.qr(directions)[0]
        self._spread = device.put(np.ascontiguousarray((self.directions * np.sqrt(VARIANCES)).T))

    def inspect(self) -> None:
        """Nothing to find: every entry is a finite number."""

    def columns_on(self, xp: Any, device: Any, start: int, stop: int) -> Any:
        import torch

        first, last, m = self._first + start, self._first + stop, self.shape[0]
        made = torch.empty((last - first, m), dtype=torch.float64, device=self._on)
        scores = torch.empty((last - first, len(VARIANCES)), dtype=torch.float64, device=self._on)
        generator = torch.Generator(device=self._on)
        for tile in range(first // _TILE, -(-last // _TILE)):
            generator.manual_seed(_SEED + tile)
            low, high = max(first, tile * _TILE), min(last, (tile + 1) * _TILE)
            own, at = slice(low - tile * _TILE, high - tile * _TILE), slice(low - first, high - first)
            of_tile = torch.randn((_TILE, len(VARIANCES)), generator=generator, dtype=torch.float64, device=self._on)
            scores[at] = of_tile[own]
            made[at] = torch.randn((_TILE, m), generator=generator, dtype=torch.float32, device=self._on)[own]
        return made.addmm_(scores, self._spread).T

    def _cells(self, rows: Index, columns: Index) -> NDArray[Any]:
        where = np.arange(self.shape[1])[columns]
        low = int(where.min())
        made: NDArray[Any] = self.columns_on(None, None, low, int(where.max()) + 1).cpu().numpy()
        return made[:, where - low][rows]


def panels(sources: list[Planted], width: int) -> Iterator[Any]:
    """All samples of all parties, samples x features, on the device."""
    for source in sources:
        for start in range(0, source.shape[1], width):
            yield source.columns_on(None, None, start, min(start + width, source.shape[1])).T


def checked(device: Device, sources: list[Planted], V: Float, sigma: Float) -> dict[str, Any]:
    """The answer against plain PyTorch on the same samples: residuals, and the top by another iteration."""
    import torch

    m = sources[0].shape[0]
    width = max(_TILE, int(device.memory // (32 * 8 * m)))
    count = sum(source.shape[1] for source in sources)
    mean = sum(panel.sum(dim=0) for panel in panels(sources, width)) / count

    def gram_times(Q: Any) -> Any:
        """``(X - mean) (X - mean)^T Q``, one pass."""
        product, sums, shift = torch.zeros_like(Q), torch.zeros_like(Q[:1]), mean[None] @ Q
        for panel in panels(sources, width):
            W = panel @ Q - shift
            product.addmm_(panel.T, W)
            sums += W.sum(dim=0, keepdim=True)
        return product - mean[:, None] @ sums

    there, s = device.put(V), device.put(sigma)
    left = torch.linalg.vector_norm(gram_times(there) - there * s**2, dim=0) / s[0] ** 2
    started, generator = time.perf_counter(), torch.Generator(device=there.device)
    generator.manual_seed(99)
    Q = torch.randn((m, _BLOCK), generator=generator, dtype=torch.float64, device=there.device)
    basis, images = Q[:, :0], Q[:, :0]
    for number in range(_ROUNDS):
        for _ in range(2):
            Q = Q - basis @ (basis.T @ Q)
        Q = torch.linalg.qr(Q)[0]
        image = gram_times(Q)
        basis, images, Q = torch.cat((basis, Q), dim=1), torch.cat((images, image), dim=1), image
        print(f"check: round {number + 1}, {time.perf_counter() - started:.1f} s", file=sys.stderr, flush=True)
    small = device.get(basis.T @ images)
    values, vectors = np.linalg.eigh((small + small.T) / 2)
    top = np.argsort(values)[::-1][: len(sigma)]
    others = device.get(basis @ device.put(np.ascontiguousarray(vectors[:, top])))
    apart = V - others @ (others.T @ V)
    return {
        "largest_residual_of_X_Xt_v_over_S_1_squared": float(left.max()),
        "S_by_plain_torch": np.sqrt(values[top]).tolist(),
        "largest_relative_difference_of_S": float(np.abs(np.sqrt(values[top]) / sigma - 1.0).max()),
        "largest_sine_of_an_angle_between_subspaces": float(np.linalg.norm(apart, 2)),
    }


def run(device: Device, m: int, samples: int, scheme: str = "steps", check: bool = True) -> dict[str, Any]:
    """One run between two parties with half of the samples each."""
    clock, half = Clock(device), samples // 2
    gemm = gemm_rate(device, 8192 if device.name.startswith("cuda") else 512)
    sources = [Planted(device, m, (0, half)), Planted(device, m, (half, samples))]
    parties = [PartyData(TimedSource(source, clock).T) for source in sources]
    # By steps all directions, by sums X', its copy and the factors: these lie on the device.
    budget = max(8 * (3 * m + half) * (60 * 5 + 64) if scheme == "steps" else 82 * m * m, 1 << 28)
    study = Study("pca", "horizontal", components=5, scheme=scheme, memory=budget, release=RELEASE)
    outcome, seconds = timed_study(device, study, parties)
    first = outcome.parties[0]
    assert first.sigma is not None
    record = {
        "shape": [m, samples],
        "components": 5,
        "scheme": str(outcome.plan.scheme),
        "seconds": seconds,
        "seconds_by_stage": seconds_of(outcome),
        "seconds_generating": clock.seconds().get("generate", 0.0),
        **line(outcome),
        "S": first.sigma.tolist(),
        "cosines_with_the_planted_directions": np.linalg.svd(
            sources[0].directions.T @ first.U, compute_uv=False
        ).tolist(),
        "gemm_flops": gemm,
        "bytes_up_by_party": uploads(outcome),
    }
    print(record, file=sys.stderr, flush=True)
    started = time.perf_counter()
    if check:
        record |= checked(device, sources, first.U, first.sigma)
    return {**record, "seconds_checking_apart": time.perf_counter() - started}


def main() -> None:
    """Run, print and write."""
    asked = options(("m", 100_000), ("samples", 1_000_000), ("scale", 1), ("unchecked", 0), words=("scheme",))
    device = opened(asked.device)
    m, samples = asked.m // asked.scale, asked.samples // asked.scale
    record = run(device, m, samples, asked.scheme or "steps", not asked.unchecked)
    write(asked.out, {"name": "pca", **machine(device), **record, **memory(device)})


if __name__ == "__main__":
    main()
