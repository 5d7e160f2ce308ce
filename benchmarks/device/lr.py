"""Linear regression on 5M rows x 1K columns, columns split between two users, on one device; the growth up to there.

    python -m benchmarks.device.lr --device cuda --out benchmarks/results/h200-lr-5m.json

The paper has 50M rows in 13.5 h. Masks over whole sides mix all rows, so that a user's columns under P, 20 GB at 5M
rows, lie on the device until they have gone up: about 11M rows fit one of 141 GB, and more would go through scratch.
A fifth, a half and all of the rows are run, and the last two carried over to 50M.

Rows go up in panels; the CSP folds each into a triangular factor of 1001 columns and forgets it. That is 40 GB of
padded words from each user, so the ring is most of the work: fixed point on the device, pads by all cores. Rows are
made on the device, four times for each user: means, energies, labels' blinds, upload. Apart from the study, and from
its time, the normal equations of the same rows are solved, to compare with.
"""

import sys
import time
from typing import Any

import numpy as np

from benchmarks.device.common import (
    Clock,
    TimedSource,
    budget,
    gemm_rate,
    machine,
    opened,
    options,
    seconds_of,
    timed_study,
    write,
)
from benchmarks.device.common import memory as peaks
from fedsvd.data.hashed_normals import normals, normals_on, stream_key
from fedsvd.data.synthetic import SyntheticSource
from fedsvd.linalg.device import Device
from fedsvd.linalg.windows import MIXING_BLOCK
from fedsvd.studies.parties import PartyData
from fedsvd.studies.study import Study
from fedsvd.types import Float

_ROWS = 1 << 20


def labels_and_answer(device: Device, sources: list[SyntheticSource], rows: int) -> tuple[Float, Float]:
    """y = X w + noise for all rows, and the coefficients by the normal equations of the centred columns."""
    xp, on = device.xp, device.like.device
    columns = sum(source.shape[1] for source in sources)
    w = device.put(normals(stream_key(5, "w"), (0, 1), (0, columns), columns)[0][:, None])
    y = np.empty((rows, 1))
    ones_and_all = columns + 2
    G = xp.zeros((ones_and_all, ones_and_all), dtype=xp.float64, device=on)
    for start in range(0, rows, _ROWS):
        stop = min(start + _ROWS, rows)
        X = xp.concat([source.rows_on(xp, on, start, stop) for source in sources], axis=1)
        noise = normals_on(xp, on, stream_key(5, "noise"), (start, stop), 4)[:, :1]
        y_part = X @ w + noise
        y[start:stop] = device.get(y_part)
        A = xp.concat([xp.ones_like(y_part), X, y_part], axis=1)
        G += A.T @ A
    g = device.get(G)
    centred = g[1:, 1:] - np.outer(g[0, 1:], g[0, 1:]) / g[0, 0]
    return y, np.linalg.solve(centred[:-1, :-1], centred[:-1, -1])


def run(device: Device, rows: int, columns: int, memory: int = 4 << 30) -> dict[str, Any]:
    """One run between two users with half of the columns each."""
    clock = Clock(device)
    gemm = gemm_rate(device, 8192 if device.name.startswith("cuda") else 512)
    addresses = [f"synthetic://{rows}x{columns // 2}?seed={seed}" for seed in (7, 8)]
    sources = [SyntheticSource(address) for address in addresses]
    started = time.perf_counter()
    y, expected = labels_and_answer(device, sources, rows)
    apart = time.perf_counter() - started
    tables = [TimedSource(source, clock) for source in sources]
    parties = [PartyData(tables[0], y), PartyData(tables[1])]
    study = Study("lr", "vertical", targets=1, label_user=1, memory=memory)
    outcome, seconds = timed_study(device, study, parties)
    certificate = outcome.certificate
    found = np.concatenate([party.coefficients[0] for party in outcome.parties])
    words = 2.0 * rows * (columns + 1)
    return {
        "shape": [rows, columns],
        "seconds": seconds,
        "memory_budget": memory,
        "seconds_by_stage": seconds_of(outcome),
        "seconds_generating": clock.seconds().get("generate", 0.0),
        "seconds_for_labels_and_normal_equations": apart,
        "panels": len(outcome.plan.panels),
        "residual": certificate.residual,
        "rank": certificate.rank,
        "largest_difference_from_normal_equations": float(np.abs(found - expected).max()),
        "largest_coefficient": float(np.abs(expected).max()),
        "bytes_between_roles": certificate.bytes_total,
        "words_padded_per_second": words / seconds,
        "gemm_flops": gemm,
    }


def grown(device: Device, rows: int, columns: int, memory: int) -> dict[str, Any]:
    """The largest of three runs, with the growth over all of them: a fifth of the rows, a half, all."""
    growth = []
    for part in (rows // 5, rows // 2, rows):
        record = run(device, part, columns, memory)
        growth.append(
            {"rows": part, "seconds": record["seconds"], "microseconds_a_row": 1e6 * record["seconds"] / part}
        )
        print(growth[-1], file=sys.stderr, flush=True)
    before, last = growth[-2:]
    slope = (last["seconds"] - before["seconds"]) / (last["rows"] - before["rows"])
    # On the device lie both users' columns under P, and P's blocks; a seventh is for what passes.
    bytes_a_row = 2 * 8 * (columns // 2 + 1) + 2 * 8 * MIXING_BLOCK
    most = min(device.memory // (3 * 8 * (columns // 2 + 1)), int(device.memory * 6 / 7) // bytes_a_row)
    return {
        **record,
        "growth": growth,
        "microseconds_for_one_more_row": 1e6 * slope,
        "rows_that_fit_the_device": most,
        "extrapolated_50m_rows_seconds": last["seconds"] + slope * (50_000_000 - last["rows"]),
    }


def main() -> None:
    """Run, print and write."""
    asked = options(("rows", 5_000_000), ("columns", 1000), ("gib", 0))
    device, memory = opened(asked.device), budget(asked.gib)
    run(device, min(4 * 65_536, asked.rows), asked.columns, memory)  # the first loads what later ones find loaded
    record = grown(device, asked.rows, asked.columns, memory)
    write(asked.out, {"name": "lr", **machine(device), **record, **peaks(device)})


if __name__ == "__main__":
    main()
