"""A sustained study over a slow link: the SVD of 1000 x 100,000, by exact sums, two users, 100 Mb/s and 50 ms.

``python -m benchmarks.macro.slow_link`` runs it on the local rung, every role a process of its own, over the link and
then over bare loopback; prints time and bytes, says by which method the link was made and what it measured, checks the
singular values against NumPy, and writes ``benchmarks/results/slow-link.json``.
"""

import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import fingerprint
from fedsvd.policy.rules import Policy
from fedsvd.service.local import LocalRun, local_federation
from fedsvd.studies.job_file import Job, job_from
from fedsvd_lab.network.link import Link, measure, open_link

RESULT = Path(__file__).parents[1] / "results" / "slow-link.json"
FEATURES, SAMPLES, PANEL = 1000, 100_000, 10_000
RATE, ROUND_TRIP = 100e6, 0.05
_CLOSE = 1e-12


def main(method: str | None) -> int:
    """Run, print, write; the exit status says whether the numbers were right."""
    with tempfile.TemporaryDirectory(prefix="fedsvd-slow-") as root:
        job, sigma = _laid_out(Path(root))
        with open_link(RATE, ROUND_TRIP, method) as link:
            record = _link_record(link)
            print(f"link by {link.method}: {_spoken(record['measured'])}", flush=True)
            over_link = _study(job, sigma, link)
        print(f"over the link: {_said(over_link)}", flush=True)
        bare = _study(job, sigma, None)
        print(f"over bare loopback: {_said(bare)}")
    study = {"task": "svd", "scheme": "sum", "features": FEATURES, "samples": SAMPLES, "users": 2}
    record = {"study": study, "link": record, "over_link": over_link, "loopback": bare, "machine": fingerprint()}
    RESULT.write_text(json.dumps(record, indent=1) + "\n")
    print(f"written: benchmarks/results/{RESULT.name}")
    return 0 if max(over_link["error"], bare["error"]) < _CLOSE else 1


def _laid_out(root: Path) -> tuple[Job, np.ndarray]:
    """Two tables of samples in rows, a job that names them, and the singular values by NumPy's QR, panel by panel."""
    rng, triangle = np.random.default_rng(7), np.empty((0, FEATURES))
    for name in ("a", "b"):
        file = np.lib.format.open_memmap(root / f"{name}.npy", "w+", np.float64, (SAMPLES // 2, FEATURES))
        for start in range(0, SAMPLES // 2, PANEL):
            file[start : start + PANEL] = panel = rng.standard_normal((PANEL, FEATURES))
            triangle = np.linalg.qr(np.concatenate((triangle, panel)), mode="r")
        file.flush()
        del file
    data = [{"name": name, "data": str(root / f"{name}.npy")} for name in ("a", "b")]
    job = {"job": {"name": "slow-link", "task": "svd"}, "masks": {"scheme": "sum"}, "party": data}
    return job_from(job, root), np.linalg.svd(triangle, compute_uv=False)


def _study(job: Job, sigma: np.ndarray, link: Link | None) -> dict[str, Any]:
    with local_federation(job, policy=Policy.permissive(), wiring=link) as federation:
        run = federation.run(job)
        found = np.load(run.folders["a"] / "singular_values.npy")
    told = _accounts(run)
    error = float(np.abs(found - sigma).max() / sigma[0])
    return {"seconds": run.seconds, "bytes": sum(told["bytes_by_link"].values()), "error": error, **told}


def _accounts(run: LocalRun) -> dict[str, dict[str, float]]:
    """Bytes by link, and each role's seconds by stage."""
    progress = run.record.progress
    links = {link: count for said in progress.values() for link, count in said.bytes_by_link.items()}
    stages = {
        f"{role} {stage}": round(seconds, 3)
        for role, said in progress.items()
        for stage, seconds in said.seconds_by_stage.items()
    }
    return {"bytes_by_link": links, "seconds_by_stage": stages}


def _link_record(link: Link) -> dict[str, Any]:
    asked = {"rate": link.rate, "round_trip": link.round_trip}
    return {"method": link.method, "instead": link.instead, "asked": asked, "measured": asdict(measure(link))}


def _spoken(measured: Mapping[str, float]) -> str:
    up, down = measured["rate_up"] / 1e6, measured["rate_down"] / 1e6
    return f"{up:.1f} Mb/s up, {down:.1f} Mb/s down, {1e3 * measured['round_trip']:.1f} ms there and back"


def _said(study: Mapping[str, Any]) -> str:
    return f"{study['seconds']:.1f} s, {study['bytes'] / 1e6:.1f} MB, singular values to {study['error']:.1e}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else None))
