"""LSA, top 256 of a ratings-like matrix, 62K items x 162K users, two parties, one device (the paper: 3.71 h).

    python -m benchmarks.device.lsa --device cuda --out benchmarks/results/h200-lsa.json

Long on both sides: masks over whole sides, the masked matrix on the device, block Krylov until every residual is below
1e-12 of the largest singular value, verified on the matrix. Ratings are sparse and travel to the device as such; what
goes between the roles is dense, as masked data is. Making the ratings is timed apart.

Both parties' columns under P lie on the device, 81 GB together, in panels that are dropped as they go up; X', 81 GB as
well, takes their place. The budget of 8 GiB (``--gib``) sizes panels alone: 0.8 GB of words each.
"""

import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from scipy import sparse

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
from fedsvd.data.ratings import RatingsSource
from fedsvd.data.sparse import SparseSource
from fedsvd.engine.device import cores
from fedsvd.linalg.device import Device
from fedsvd.studies.parties import PartyData
from fedsvd.studies.study import Study


def ratings(users: int, items: int) -> Any:
    """The ratings of all users, sparse, made by a process for each core: threads would wait for one another."""
    step = -(-users // 128)
    parts = [(users, items, start, min(start + step, users)) for start in range(0, users, step)]
    with ProcessPoolExecutor(cores(), get_context("spawn")) as processes:
        return sparse.csr_array(sparse.vstack(list(processes.map(_part, *zip(*parts, strict=True))), format="csr"))


def _part(users: int, items: int, start: int, stop: int) -> Any:
    source = RatingsSource(f"synthetic-ratings://{users}x{items}?seed=1&density=0.0025&half=1")
    return source.sparse_rows(start, stop)


def run(device: Device, items: int, users: int, components: int, budget: int = 8 << 30) -> dict[str, Any]:
    """One run between two parties with half of the users each."""
    started = time.perf_counter()
    table = ratings(users, items)
    made, clock, half = time.perf_counter() - started, Clock(device), users // 2
    gemm = gemm_rate(device, 8192 if device.name.startswith("cuda") else 512)
    parties = [PartyData(TimedSource(SparseSource(part), clock)) for part in (table[:half], table[half:])]
    study = Study(
        "lsa",
        "horizontal",
        components=components,
        scheme="mask",
        memory=budget,
    )
    outcome, seconds = timed_study(device, study, parties)
    certificate = outcome.certificate
    return {
        "shape": [items, users],
        "stored_entries": int(table.nnz),
        "components": components,
        "scheme": str(outcome.plan.scheme),
        "panels": len(outcome.plan.panels),
        "seconds": seconds,
        "memory_budget": budget,
        "seconds_by_stage": seconds_of(outcome),
        "seconds_scattering_on_device": clock.seconds().get("generate", 0.0),
        "seconds_making_the_ratings": made,
        "residual_over_S_1": certificate.residual,
        "orthogonality": certificate.orthogonality,
        "rank": certificate.rank,
        "S_1": float(outcome.parties[0].sigma[0]),
        "S_r": float(outcome.parties[0].sigma[-1]),
        "bytes_between_roles": certificate.bytes_total,
        "gemm_flops": gemm,
    }


def main() -> None:
    """Run, print and write."""
    asked = options(("items", 62_423), ("users", 162_541), ("components", 256), ("gib", 8))
    device = opened(asked.device)
    record = run(device, asked.items, asked.users, asked.components, asked.gib << 30)
    write(asked.out, {"name": "lsa", **machine(device), **record, **memory(device)})


if __name__ == "__main__":
    main()
