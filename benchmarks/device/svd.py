"""SVD of 1K x 50M between two users on one device; the paper's own record is 16.3 hours.

    python -m benchmarks.device.svd --device cuda --out benchmarks/results/h200-svd-50m.json

The data is made on the device, once for the factors and once for V. Every panel of Vt_i is made and verified: the
residual of ``X_i - U S Vt_i`` over all columns, and by a users-only sum the orthogonality of all of V. Nothing of V is
kept. All roles run in this process and every message passes between them as between institutions.
"""

import time
from typing import Any

from benchmarks.device.common import Clock, TimedSource, gemm_rate, machine, memory, opened, options, write
from fedsvd.data.synthetic import SyntheticSource
from fedsvd.linalg.device import Device
from fedsvd.policy.rules import Policy
from fedsvd.protocol.tasks import Check
from fedsvd.roles.user.work import Nowhere
from fedsvd.studies.parties import PartyData
from fedsvd.studies.run import UserFiles, run_study
from fedsvd.studies.study import Study


class TwoPasses(TimedSource):
    """A timed source that knows whether its columns are made for the factor or for V."""

    _made = 0

    def columns_on(self, xp: Any, device: Any, start: int, stop: int) -> Any:
        which = ("factor", "right vectors")[min(1, self._made // self.shape[1])]
        self._made += stop - start
        with self._clock.part(f"generate for {which}"):
            return self._base.columns_on(xp, device, start, stop)


def run(device: Device, m: int, columns: int) -> dict[str, Any]:
    """One run; ``columns`` are shared evenly by two users."""
    clock, half = Clock(device), columns // 2
    gemm = gemm_rate(device, 8192 if device.name.startswith("cuda") else 512)
    addresses = [f"synthetic://{m}x{columns}?seed=7&columns={a}:{b}" for a, b in ((0, half), (half, columns))]
    parties = [PartyData(TwoPasses(SyntheticSource(address), clock)) for address in addresses]
    study = Study("svd", "vertical", scheme="sum", check=Check.ALL, memory=8 << 30)
    device.synchronise()
    started = time.perf_counter()
    outcome = run_study(
        study, parties, policy=Policy.permissive(), device=device, files=lambda plan, i: UserFiles(sink=Nowhere())
    )
    device.synchronise()
    seconds = time.perf_counter() - started
    stages, parts = outcome.certificate.record()["seconds_by_stage"], clock.seconds()
    compress = sum(spent for name, spent in stages.items() if name.endswith(": compress"))
    vectors = sum(spent for name, spent in stages.items() if name.endswith(": right vectors"))
    factor_seconds = compress - parts["generate for factor"]
    vector_seconds = vectors - parts["generate for right vectors"]
    # The factor of even data is one product with itself; V is a product, its residual another, its Gram matrix a third.
    flops = {"factor": 2.0 * m * m * columns, "right vectors": 6.0 * m * m * columns}
    rates = {"factor": flops["factor"] / factor_seconds, "right vectors": flops["right vectors"] / vector_seconds}
    verified = [party.verified for party in outcome.parties]
    return {
        "shape": [m, columns],
        "users": 2,
        "seconds": seconds,
        "seconds_by_stage": {name: spent for name, spent in stages.items() if spent > 0.001},
        "seconds_generating": parts,
        "flops": flops,
        "rates_flops": rates,
        "gemm_flops": gemm,
        "share_of_gemm": {name: rate / gemm for name, rate in rates.items()},
        "residual": max(each.residual for each in verified),
        "orthogonality_of_V": max(each.orthogonality for each in verified),
        "residual_at_csp": outcome.certificate.residual,
        "orthogonality_of_U": outcome.certificate.orthogonality,
        "columns_verified": sum(each.columns for each in verified),
        "bytes_between_roles": outcome.certificate.bytes_total,
        "rank": outcome.certificate.rank,
    }


def main() -> None:
    """Run, print and write."""
    asked = options(("m", 1000), ("columns", 50_000_000))
    device = opened(asked.device)
    run(device, asked.m, min(asked.columns, 20 * asked.m))  # the first run loads what later ones find loaded
    write(asked.out, {"name": "svd", **machine(device), **run(device, asked.m, asked.columns), **memory(device)})


if __name__ == "__main__":
    main()
