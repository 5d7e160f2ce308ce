"""The paper's headline, on a small machine: the SVD of 1,000 x 50,000,000 numbers between two users, in one command.

    python -m benchmarks.macro.scale_50m                      about an hour of two cores
    python -m benchmarks.macro.scale_50m --columns 200000     the same at another size

Three processes and mutual TLS (the ``local`` rung); data made on the fly; each party verifies its Vt_i on a sample of
panels. Stopped at any moment and started again, it goes on from its last checkpoint; the pieces are added up. Then U
and S are compared with the data by another route: ``H = X (X^T Z)`` for 16 random directions Z and ``||X||_F`` are
added up panel by panel in plain NumPy, which knows no factor, and must equal ``U S^2 U^T Z`` and the root of the sum of
S^2. That pass also times the generator alone. The record goes to ``benchmarks/results/scale-50m.json``.
"""

import argparse
import json
import multiprocessing
import os
import shutil
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, perf_counter, process_time
from typing import Any

import numpy as np

from benchmarks.measure import fingerprint
from fedsvd.data.open import open_source
from fedsvd.policy.rules import Policy
from fedsvd.results.write import party_folders, read_result
from fedsvd.service.local import local_federation
from fedsvd.studies.job_file import Job, job_from
from fedsvd.studies.resume import Resumable

RESULTS = Path(__file__).parents[1] / "results"
PROBES = 16
PANEL = 8000
_BEAT = 2.0  # seconds between notes of the time spent
_PAPER = "16.3 h on 8 cores with 128 GB (FedSVD, KDD 2022, section 5)"


def main(words: list[str]) -> int:
    """Run, check, write; 1 where a check fails."""
    options = _options(words)
    halves = [f"0:{options.columns // 2}", f"{options.columns // 2}:{options.columns}"]
    base = f"synthetic://{options.rows}x{options.columns}?alpha={options.alpha}&seed={options.seed}"
    parties = [{"name": name, "data": f"{base}&columns={run}"} for name, run in zip("ab", halves, strict=True)]
    job = job_from({"job": _JOB, "party": parties}, Path())
    state = Path(options.state or RESULTS / f"local-scale-{options.rows}x{options.columns}")
    state.mkdir(parents=True, exist_ok=True)
    target = state / "result"
    if not target.exists():
        _run(job, target, state)
    checked = _checked(job, read_result(target), state)
    record = _record(job, options, target, state, checked)
    Path(options.out).write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))
    print(f"written: {options.out}")
    if not options.keep:
        shutil.rmtree(state, ignore_errors=True)
    return 0 if record["exact"]["met"] else 1


_JOB = {"name": "scale", "task": "svd", "split": "vertical", "write": "none", "verify": "sample"}


def _options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.macro.scale_50m", description=__doc__)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--columns", type=int, default=50_000_000)
    parser.add_argument("--alpha", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--state", help="where checkpoints lie until the end")
    parser.add_argument("--keep", action="store_true", help="keep the state when done")
    parser.add_argument("--out", default=str(RESULTS / "scale-50m.json"))
    return parser.parse_args(words)


# --- the run ------------------------------------------------------------------------------------------------------


def _run(job: Job, target: Path, state: Path) -> None:
    """The study to its end; the time of every piece is noted while it passes."""
    pieces = _read(state / "pieces.json", [])
    started, noted = monotonic(), 0.0
    pieces.append({"began": datetime.now(UTC).isoformat(timespec="seconds"), "seconds": 0.0})

    def seen(record: Mapping[str, Any]) -> None:
        nonlocal noted
        now = monotonic() - started
        if now - noted > _BEAT:
            noted = pieces[-1]["seconds"] = now
            pieces[-1]["stages"] = {role: told.get("stage") for role, told in record.get("progress", {}).items()}
            _write(state / "pieces.json", pieces)
            print(_line(record, now), file=sys.stderr, flush=True)

    with Resumable(target) as resumable, local_federation(job, policy=Policy.permissive()) as federation:
        run = federation.run(job, seen, resumable)
        run.write(target)
    pieces[-1]["seconds"] = monotonic() - started
    _write(state / "pieces.json", pieces)


def _line(record: Mapping[str, Any], now: float) -> str:
    told = record.get("progress", {})
    parts = []
    for role, said in told.items():
        share = f" {100 * said['done'] / said['total']:.1f} %" if said.get("total") else ""
        parts.append(f"{role} {said.get('stage', '')}{share}")
    return f"{now:7.0f} s  {', '.join(parts)}"


# --- the check ----------------------------------------------------------------------------------------------------


def _checked(job: Job, stored: Any, state: Path) -> dict[str, Any]:
    """What the other route says of U and S."""
    with multiprocessing.get_context("spawn").Pool(len(job.parties)) as pool:
        work = [(str(job.data_of(party)), str(state / f"check-{party.name}.npz")) for party in job.parties]
        sums = pool.starmap(added_up, work)
    U, sigma = stored.arrays["left_vectors"], stored.arrays["singular_values"]
    Z = probes(U.shape[0])
    H = sum(part["H"] for part in sums)
    energy = float(sum(part["energy"] for part in sums))
    expected = U @ (sigma[:, None] ** 2 * (U.T @ Z))
    action = float(np.linalg.norm(H - expected) / (sigma[0] ** 2 * np.linalg.norm(Z, 2)))
    trace = abs(float(np.sum(sigma**2)) / energy - 1)
    orthogonality = float(np.linalg.norm(U.T @ U - np.eye(U.shape[1]), 2))
    met = action <= 1e-13 and trace <= 1e-13 and orthogonality <= 1e-12
    return {
        "route": "X (X^T Z) for 16 random Z and ||X||_F^2, added up by panels, against U S^2 U^T Z and sum S^2",
        "action": action,
        "trace": trace,
        "orthogonality_of_U": orthogonality,
        "met": bool(met),
        "seconds": max(float(part["seconds"]) for part in sums),
        "generation_seconds_on_the_clock": max(float(part["made"]) for part in sums),
        "generation_seconds_of_cpu": float(sum(part["made_cpu"] for part in sums)),
    }


def probes(m: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((m, PROBES))


def added_up(address: str, path: str) -> dict[str, Any]:
    """``X_i (X_i^T Z)`` and ``||X_i||_F^2`` of one party's data, with the time that making it took; resumes."""
    source = open_source(address)
    m, n_i = source.shape
    Z = probes(m)
    kept: dict[str, Any] = {"done": 0, "H": np.zeros((m, PROBES)), "energy": 0.0}
    kept |= {"seconds": 0.0, "made": 0.0, "made_cpu": 0.0}
    if Path(path).exists():
        with np.load(path, allow_pickle=False) as saved:
            kept = {key: saved[key][()] for key in saved.files}
    last = monotonic()
    for start in range(int(kept["done"]), n_i, PANEL):
        began, cpu = perf_counter(), process_time()
        X = source.columns(start, min(start + PANEL, n_i))
        kept["made"] += perf_counter() - began
        kept["made_cpu"] += process_time() - cpu
        kept["H"] = kept["H"] + X @ (X.T @ Z)
        kept["energy"] += float(np.vdot(X, X))
        kept["seconds"] += perf_counter() - began
        kept["done"] = start + X.shape[1]
        if monotonic() - last > 30 or kept["done"] == n_i:
            last = monotonic()
            temporary = f"{path}.new.npz"
            np.savez(temporary, **kept)
            os.replace(temporary, path)
    return kept


# --- the record ---------------------------------------------------------------------------------------------------


def _record(
    job: Job, options: argparse.Namespace, target: Path, state: Path, checked: dict[str, Any]
) -> dict[str, Any]:
    stored = read_result(target)
    certificate = stored.certificate
    counted = certificate.record()
    pieces = _read(state / "pieces.json", [])
    seconds = sum(piece["seconds"] for piece in pieces)
    elements = options.rows * options.columns
    return {
        "what": f"SVD {options.rows:,} x {options.columns:,} ({elements:.1e} numbers), two users, local rung",
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": fingerprint(),
        "data": [party.data for party in job.parties],
        "scheme": stored.plan.scheme,
        "seconds": seconds,
        "minutes": seconds / 60,
        "pieces": pieces,
        "seconds_by_stage_of_last_piece": counted["seconds_by_stage"],
        "generation": {
            "seconds_on_the_clock": checked["generation_seconds_on_the_clock"],
            "seconds_of_cpu": checked["generation_seconds_of_cpu"],
            "note": "made again for the check, two processes at once; contained in the run's seconds",
        },
        "bytes_by_link": counted["bytes_by_link"],
        "bytes_total": certificate.bytes_total,
        "peak_memory": counted["peak_memory"],
        "verified_by_csp": {"residual": certificate.residual, "orthogonality": certificate.orthogonality},
        "verified_by_parties": {
            folder.name: read_result(folder).facts.get("verified") for folder in party_folders(target)
        },
        "exact": checked,
        "rank": certificate.rank,
        "largest_singular_values": stored.arrays["singular_values"][:5].tolist(),
        "paper": _PAPER,
    }


def _read(path: Path, default: Any) -> Any:
    return json.loads(path.read_text()) if path.exists() else default


def _write(path: Path, value: Any) -> None:
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(json.dumps(value))
    os.replace(temporary, path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
