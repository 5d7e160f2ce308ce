"""Linear regression on 50M rows x 1K columns, columns split between two users, on one device (the paper: 13.5 h).

    python -m benchmarks.device.lr --device cuda --out benchmarks/results/h200-lr-50m.json

Rows go up in panels, under a P that mixes all of them; the CSP folds each into a triangular factor of 1001 columns and
forgets it. That is 400 GB of padded words from each user, so the ring is most of the work: fixed point on the device,
pads by all cores. Rows are made on the device, four times for each user: means, energies, labels' blinds, upload.
Beside the study, and apart from its time, the normal equations of the same rows are solved, to compare with.
"""

import time
from typing import Any

import numpy as np

from benchmarks.device.common import (
    Clock,
    TimedSource,
    gemm_rate,
    machine,
    memory,
    opened,
    options,
    timed_study,
    write,
)
from fedsvd.data.hashed_normals import normals, normals_on, stream_key
from fedsvd.data.synthetic import SyntheticSource
from fedsvd.linalg.device import Device
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


def run(device: Device, rows: int, columns: int) -> dict[str, Any]:
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
    study = Study("lr", "vertical", targets=1, label_user=1, memory=4 << 30)
    outcome, seconds = timed_study(device, study, parties)
    certificate = outcome.certificate
    found = np.concatenate([party.coefficients[0] for party in outcome.parties])
    words = 2.0 * rows * (columns + 1)
    return {
        "shape": [rows, columns],
        "seconds": seconds,
        "seconds_by_stage": {
            name: spent for name, spent in certificate.record()["seconds_by_stage"].items() if spent > 0.01
        },
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
        "extrapolated_50m_rows_seconds": seconds * 50_000_000 / rows,
    }


def main() -> None:
    """Run, print and write."""
    asked = options(("rows", 763 * 65_536), ("columns", 1000))  # 50,003,968 rows
    device = opened(asked.device)
    run(device, min(4 * 65_536, asked.rows), asked.columns)  # the first run loads what later ones find loaded
    write(asked.out, {"name": "lr", **machine(device), **run(device, asked.rows, asked.columns), **memory(device)})


if __name__ == "__main__":
    main()
