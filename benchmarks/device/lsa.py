"""LSA, top 256 of a ratings-like matrix, 62K items x 162K users, two parties, one device (the paper: 3.71 h).

    python -m benchmarks.device.lsa --device cuda --out benchmarks/results/h200-lsa.json

By steps: ratings stay sparse on the device, both parties' columns of W, the directions and their images lie beside
them, and a step sends eight bytes for each item and direction. The answer is compared, apart from the study and its
time, with plain PyTorch: residuals of both sides by products of its own, and values by a block Krylov iteration.
``--scheme mask`` is the way of 0.2.0, 68 s and 81 GB a party. ``--scale 10`` divides all sizes by ten.
"""

import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
from scipy import sparse

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
from fedsvd.data.ratings import RatingsSource
from fedsvd.data.sparse import SparseSource
from fedsvd.engine.device import cores
from fedsvd.linalg.device import Device
from fedsvd.studies.parties import PartyData
from fedsvd.studies.study import Study

_ROUNDS = 12  # of the Krylov iteration that values are compared with


def ratings(users: int, items: int) -> Any:
    """The ratings of all users, sparse, made by a process for each core: threads would wait for one another."""
    step = -(-users // 128)
    parts = [(users, items, start, min(start + step, users)) for start in range(0, users, step)]
    with ProcessPoolExecutor(cores(), get_context("spawn")) as processes:
        return sparse.csr_array(sparse.vstack(list(processes.map(_part, *zip(*parts, strict=True))), format="csr"))


def _part(users: int, items: int, start: int, stop: int) -> Any:
    source = RatingsSource(f"synthetic-ratings://{users}x{items}?seed=1&density=0.0025&half=1")
    return source.sparse_rows(start, stop)


def run(
    device: Device, items: int, users: int, components: int, budget: int = 8 << 30, scheme: str = "steps"
) -> dict[str, Any]:
    """One run between two parties with half of the users each."""
    started = time.perf_counter()
    table = ratings(users, items)
    made, clock, half = time.perf_counter() - started, Clock(device), users // 2
    print(f"ratings made in {made:.1f} s", file=sys.stderr, flush=True)
    gemm = gemm_rate(device, 8192 if device.name.startswith("cuda") else 512)
    sources = [SparseSource(part) for part in (table[:half], table[half:])]
    parties = [PartyData(source if scheme == "steps" else TimedSource(source, clock)) for source in sources]
    study = Study("lsa", "horizontal", components=components, scheme=scheme, memory=budget)
    outcome, seconds = timed_study(device, study, parties)
    sigma = outcome.parties[0].sigma
    record = {
        "shape": [items, users],
        "stored_entries": int(table.nnz),
        "components": components,
        "scheme": str(outcome.plan.scheme),
        "seconds": seconds,
        "memory_budget": budget,
        "seconds_by_stage": seconds_of(outcome),
        "seconds_scattering_on_device": clock.seconds().get("generate", 0.0),
        "seconds_making_the_ratings": made,
        **line(outcome),
        "S_1": float(sigma[0]),
        "S_r": float(sigma[-1]),
        "bytes_up_by_party": uploads(outcome),
        "gemm_flops": gemm,
    }
    print(record, file=sys.stderr, flush=True)
    return {**record, **checked(device, table, outcome.parties[0].U, sigma)}


def checked(device: Device, table: Any, V: Any, sigma: Any) -> dict[str, Any]:
    """The answer against plain PyTorch on the same ratings: residuals, and values by a block Krylov iteration."""
    import torch

    torch.set_num_threads(cores())
    on = device.like.device

    def there(A: Any) -> Any:
        A = sparse.csr_array(A)
        parts = (torch.from_numpy(part.astype(np.int64)) for part in (A.indptr, A.indices))
        return torch.sparse_csr_tensor(*parts, torch.from_numpy(A.data), size=A.shape, dtype=torch.float64).to(on)

    X, Xt = there(table), there(table.T)
    found, s = torch.from_numpy(np.array(V)).to(on), torch.from_numpy(np.array(sigma)).to(on)
    U = (X @ found) / s
    right = torch.linalg.vector_norm(Xt @ U - found * s, dim=0).max() / s[0]
    left = (U.T @ U - torch.eye(len(s), dtype=torch.float64, device=on)).abs().max()
    generator = torch.Generator(device=on)
    generator.manual_seed(99)
    Q = torch.randn((len(found), len(s) + 64), generator=generator, dtype=torch.float64, device=on)
    basis = Q[:, :0]
    for _ in range(_ROUNDS):
        for _ in range(2):
            Q = Q - basis @ (basis.T @ Q)
        Q = torch.linalg.qr(Q)[0]
        basis, Q = torch.cat((basis, Q), dim=1), Xt @ (X @ Q)
    image = X @ basis
    values = torch.linalg.eigvalsh(image.T @ image).flip(0)[: len(s)].sqrt()
    return {
        "residual_by_plain_torch": float(right),
        "orthogonality_of_X_v_over_s": float(left),
        "largest_difference_of_S_over_S_1_from_krylov": float((values - s).abs().max() / s[0]),
    }


def main() -> None:
    """Run, print and write."""
    asked = options(
        ("items", 62_423), ("users", 162_541), ("components", 256), ("gib", 16), ("scale", 1), words=("scheme",)
    )
    device, scale = opened(asked.device), asked.scale
    sizes = asked.items // scale, asked.users // scale, asked.components // scale
    record = run(device, *sizes, asked.gib << 30, asked.scheme or "steps")
    write(asked.out, {"name": "lsa", **machine(device), **record, **memory(device)})


if __name__ == "__main__":
    main()
