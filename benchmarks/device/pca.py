"""PCA, top 5 of 32K features x 1M samples between two parties on one device.

    python -m benchmarks.device.pca --device cuda --out benchmarks/results/h200-pca-32k.json

The paper has 100K x 1M in 32.3 hours. Its factor, 100K x 100K, is 80 GB, and two users' factors, the slices of a Gram
matrix and its words do not fit one device together; at 32K everything does (``--m``). The record carries its time over
to 100K stage by stage: compression grows with m^2 n, the shares, their Gram matrices and the CSP's factor with m^3,
words and pads with m^2, a pass for scores with m n. Features are noise of unit variance plus five planted directions,
so that the answer is known: the components found must lie near them. Samples are made on the device, twice.

The family is asked for by name: a plan takes the mask family beyond 16,384 features, whose upload would be all of the
data, 256 GB from each user.
"""

from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.device.common import (
    Clock,
    TimedSource,
    gemm_rate,
    machine,
    memory,
    opened,
    options,
    seconds_of,
    timed_study,
    write,
)
from fedsvd.data.hashed_normals import normals, normals_on, stream_key
from fedsvd.data.source import Index, MatrixSource
from fedsvd.linalg.device import Device
from fedsvd.studies.parties import PartyData
from fedsvd.studies.study import Study
from fedsvd.types import Float

GROWTH = {  # powers of m and of n by which a stage grows; others take no time that counts
    "compress": (2, 1),
    "first mean": (2, 0),
    "share": (3, 0),
    "uploading": (3, 0),
    "factorise": (3, 0),
    "aggregating": (2, 0),
    "checks": (2, 0),
    "norm": (2, 0),
    "scores": (1, 1),
}
VARIANCES = np.array([1.5, 1.3, 1.15, 1.0, 0.9])  # of the planted directions, beyond the noise


class Planted(MatrixSource):
    """Features x samples: noise plus five directions, every entry a function of its place."""

    def __init__(self, m: int, samples: tuple[int, int]) -> None:
        super().__init__((m, samples[1] - samples[0]), np.dtype(np.float64))
        self._first = samples[0]
        self.directions: Float = np.linalg.qr(normals(stream_key(3, "directions"), (0, 5), (0, m), m).T)[0]

    def inspect(self) -> None:
        """Nothing to find: every entry is a finite number."""

    def columns_on(self, xp: Any, device: Any, start: int, stop: int) -> Any:
        m, lines = self.shape[0], (self._first + start, self._first + stop)
        noise = normals_on(xp, device, stream_key(3, "noise"), lines, m)
        scores = normals_on(xp, device, stream_key(3, "scores"), lines, 8)[:, :5]
        spread = xp.asarray((self.directions * np.sqrt(VARIANCES)).T.copy(), device=device)
        return (noise + scores @ spread).T

    def _cells(self, rows: Index, columns: Index) -> NDArray[Any]:
        where = np.arange(self.shape[1])[columns]
        low, high, m = int(where.min()), int(where.max()) + 1, self.shape[0]
        lines = self._first + low, self._first + high
        noise = normals(stream_key(3, "noise"), lines, (0, m), m)
        scores = normals(stream_key(3, "scores"), lines, (0, 8), 8)[:, :5]
        made: NDArray[Any] = (noise + scores @ (self.directions * np.sqrt(VARIANCES)).T)[where - low].T[rows]
        return made


def run(device: Device, m: int, samples: int) -> dict[str, Any]:
    """One run between two parties with half of the samples each."""
    clock, half = Clock(device), samples // 2
    gemm = gemm_rate(device, 8192 if device.name.startswith("cuda") else 512)
    sources = [Planted(m, (0, half)), Planted(m, (half, samples))]
    parties = [PartyData(TimedSource(source, clock).T) for source in sources]
    # All of X', its copy and the factors: on the host's side of the plan this asks for nothing.
    study = Study("pca", "horizontal", components=5, scheme="sum", memory=max(82 * m * m, 1 << 28))
    outcome, seconds = timed_study(device, study, parties)
    certificate, stages = outcome.certificate, seconds_of(outcome)
    compress = sum(spent for name, spent in stages.items() if name.endswith(": compress"))
    generating = clock.seconds().get("generate", 0.0)
    cosines = np.linalg.svd(sources[0].directions.T @ outcome.parties[0].U, compute_uv=False)
    flops = 2.0 * m * m * samples
    return {
        "shape": [m, samples],
        "components": 5,
        "scheme": str(outcome.plan.scheme),
        "seconds": seconds,
        "seconds_by_stage": stages,
        "seconds_generating_both_passes": generating,
        "residual_over_S_1": certificate.residual,
        "orthogonality": certificate.orthogonality,
        "cosines_with_the_planted_directions": cosines.tolist(),
        "factor_flops": flops,
        "factor_rate_flops": flops / max(compress - generating / 2, 1e-9),
        "gemm_flops": gemm,
        "factor_share_of_gemm": flops / max(compress - generating / 2, 1e-9) / gemm,
        "bytes_between_roles": certificate.bytes_total,
        "extrapolated_100k_x_1m": carried_over(stages, (100_000 / m, 1_000_000 / samples), seconds),
    }


def carried_over(stages: dict[str, float], times: tuple[float, float], seconds: float) -> dict[str, float]:
    """The seconds of every stage where m and n are so many times as large, and of what is in no stage as m^2 n."""
    found: dict[str, float] = defaultdict(float)
    for name, spent in stages.items():
        stage = name.partition(": ")[2]
        of_m, of_n = GROWTH.get(stage, (1, 0))
        found[stage if stage in GROWTH else "other stages"] += spent * times[0] ** of_m * times[1] ** of_n
    found["outside stages"] = max(0.0, seconds - sum(stages.values())) * times[0] ** 2 * times[1]
    return {**found, "all": sum(found.values())}


def main() -> None:
    """Run, print and write."""
    asked = options(("m", 32_000), ("samples", 1_000_000))
    device = opened(asked.device)
    write(asked.out, {"name": "pca", **machine(device), **run(device, asked.m, asked.samples), **memory(device)})


if __name__ == "__main__":
    main()
