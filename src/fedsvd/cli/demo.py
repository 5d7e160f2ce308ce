"""``fedsvd demo``: three hospitals, one bundled table, and NumPy on the joint data to say how far off they are.

The table is scikit-learn's breast cancer data, 569 patients with 30 measurements each. The hospitals run a PCA and an
SVD together on the ``local`` rung: authority, CSP and each hospital in a process of its own, over mutual TLS; plain
NumPy runs the same on all rows in one place. The default policy is enforced: this much data may be shown this way.
Results and reports stay in ``results/demo-pca`` and ``results/demo-svd``; another demo replaces them.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from fedsvd.cli import reports
from fedsvd.cli.local_run import ended_by_signals
from fedsvd.cli.options import FormatOption, Quiet, Scratch
from fedsvd.cli.output import Format, Output, duration, listing
from fedsvd.cli.signals import if_interrupted
from fedsvd.cli.watch import watched
from fedsvd.linalg.signs import apply_signs, signs_of
from fedsvd.results.folder import REPORT, expect_free
from fedsvd.results.result import PartyResult
from fedsvd.results.write import PARTIES, party_folders, read_result
from fedsvd.service.local import LocalFederation, local_federation
from fedsvd.storage import private
from fedsvd.studies.job_file import Job, job_from
from fedsvd.types import Float, byte_size

HOSPITALS = ("hospital-a", "hospital-b", "hospital-c")
_CUTS = [200, 350]
_COMPONENTS = 5
_PCA = {"unit_variance": True, "components": _COMPONENTS, "release": ["components", "mean", "spectrum"]}


def demo(
    out: Annotated[Path, typer.Option("--out", help="Where results and reports go.")] = Path("results"),
    scratch: Scratch = None,
    quiet: Quiet = False,
    format: FormatOption = Format.TEXT,
) -> None:
    """Three hospitals factorise one table, each in a process of its own; no one hands over a row."""
    output, (D, names) = Output(format, quiet), _patients()
    for task in ("pca", "svd"):
        expect_free(out / f"demo-{task}", overwrite=True)
    started, written = perf_counter(), list[str]()
    left = if_interrupted(lambda: f"written: {', '.join(written) or 'nothing'}; the processes were ended")
    with left, ended_by_signals(), tempfile.TemporaryDirectory(prefix="fedsvd-demo-", dir=scratch) as folder:
        place = Path(folder)
        pca, svd = _job("pca", place, **_PCA), _job("svd", place)
        for name, D_i in zip(HOSPITALS, np.split(D, _CUTS), strict=True):
            _save_csv(place / f"{name}.csv", names, D_i)
        output.line("starting five processes: CSP, authority, three hospitals")
        with output.notices_of_warnings(HOSPITALS), local_federation(pca, scratch=scratch) as federation:
            runs = [
                _run("PCA, 5 components", _pca_errors, D, *_federated(output, federation, pca, out, written)),
                _run("SVD, all of it", _svd_errors, D, *_federated(output, federation, svd, out, written)),
            ]
            processes = len(federation.processes)
    record = {
        "rows": D.shape[0],
        "columns": D.shape[1],
        "parties": len(HOSPITALS),
        "processes": processes,
        "seconds": perf_counter() - started,
        "report": reports.drawn(out / "demo-pca" / PARTIES / HOSPITALS[0]),
        "reports": sorted(str(page) for page in out.glob(f"demo-*/**/{REPORT}")),
        "runs": runs,
    }
    output.answer(record, lambda console: _show(console, record))


def _patients() -> tuple[Float, list[str]]:
    from sklearn.datasets import load_breast_cancer

    bundled = load_breast_cancer()
    return np.ascontiguousarray(bundled.data, dtype=np.float64), [str(name) for name in bundled.feature_names]


def _save_csv(path: Path, names: list[str], D_i: Float) -> None:
    """A table as a hospital would bring it; the shortest text of a number reads back to the same bits."""
    lines = [",".join(names), *(",".join(map(repr, row)) for row in D_i.tolist())]
    private.replace(path, ("\n".join(lines) + "\n").encode())


def _job(task: str, folder: Path, **options: Any) -> Job:
    parties = [{"name": name, "data": f"{name}.csv"} for name in HOSPITALS]
    job = {"name": f"demo-{task}", "task": task, **options}
    return job_from({"job": job, "authority": {"name": "ta"}, "party": parties}, folder)


def _federated(
    output: Output, federation: LocalFederation, job: Job, out: Path, written: list[str]
) -> tuple[PartyResult, list[PartyResult], float]:
    """What the hospitals come to hold together: what all share, each one's own, and the seconds it took."""
    with watched(output) as seen:
        run = federation.run(job, seen)
    target = out / job.study.name
    run.write(target, overwrite=True, draw=reports.drawing())
    written.append(str(target))
    own = [read_result(folder) for folder in party_folders(target)]
    return read_result(target), own, run.seconds


def _run(
    name: str,
    compare: Callable[[Float, PartyResult, list[PartyResult]], tuple[dict[str, float], float]],
    D: Float,
    shared: PartyResult,
    own: list[PartyResult],
    seconds: float,
) -> dict[str, Any]:
    errors, alone = compare(D, shared, own)
    return {
        "name": name,
        "scheme": str(shared.plan.scheme),
        "errors": errors,
        "seconds": seconds,
        "seconds_numpy": alone,
        "bytes": shared.certificate.bytes_total,
        "residual": shared.certificate.residual,
        "plan_digest": shared.plan.digest,
    }


def _pca_errors(D: Float, shared: PartyResult, own: list[PartyResult]) -> tuple[dict[str, float], float]:
    """Against the PCA of the measurements at unit variance, and how long that takes in one place."""
    expected, alone = _timed(lambda: _pca_in_one_place(D))
    found = {**shared.arrays, "scores": np.concatenate([party.arrays["scores"] for party in own])}
    return {
        "mean": _relative(found["mean"], expected["mean"]),
        "components": float(np.abs(found["components"].T - expected["components"]).max()),
        "singular values": _relative(found["singular_values"], expected["sigma"]),
        "scores": _relative(found["scores"], expected["scores"]),
    }, alone


def _pca_in_one_place(D: Float) -> dict[str, Float]:
    mean = D.mean(axis=0)
    Z = (D - mean) / D.std(axis=0)
    U, sigma, Vt = np.linalg.svd(Z, full_matrices=False)
    V, Ut = apply_signs(Vt.T, U.T, signs_of(Vt.T))
    r = _COMPONENTS
    return {"mean": mean, "components": V[:, :r], "sigma": sigma[:r], "scores": Ut[:r].T * sigma[:r]}


def _svd_errors(D: Float, shared: PartyResult, own: list[PartyResult]) -> tuple[dict[str, float], float]:
    """Against all singular values and vectors of the table as it is."""
    (_, sigma, _), alone = _timed(lambda: np.linalg.svd(D, full_matrices=False))
    components, found = shared.arrays["components"], shared.arrays["singular_values"]
    left = np.concatenate([party.arrays["left_vectors"] for party in own])
    eye = np.eye(len(sigma))
    return {
        "singular values": _relative(found, sigma),
        "reconstruction": float(np.abs((left * found) @ components - D).max() / sigma[0]),
        "components, orthonormal": float(np.abs(components @ components.T - eye).max()),
        "left vectors, orthonormal": float(np.abs(left.T @ left - eye).max()),
    }, alone


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    started = perf_counter()
    result = work()
    return result, perf_counter() - started


def _relative(found: Float, expected: Float) -> float:
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def _show(console: Console, record: dict[str, Any]) -> None:
    what = f"{record['rows']} patients x {record['columns']} measurements, split over three hospitals"
    runs = record["runs"]
    console.print(f"Breast cancer data: {what}.")
    console.print(
        f"{record['processes']} processes on this machine, over mutual TLS with certificates made for this run. The "
        "roles are\nreal, but all keys were yours: this shows that the numbers are right, and protects no one.\n"
    )
    rows = [(run["name"], name, f"{error:.1e}") for run in runs for name, error in run["errors"].items()]
    console.print(listing(("study", "federated against NumPy on the joint data", "largest error"), rows))
    cost = [
        (run["name"], run["scheme"], duration(run["seconds"]), duration(run["seconds_numpy"]), byte_size(run["bytes"]))
        for run in runs
    ]
    console.print(listing(("study", "scheme", "federated", "NumPy alone", "sent between the roles"), cost))
    console.print(f"{duration(record['seconds'])} in all, most of it for starting and stopping processes.")
    console.print(f"\nWhat {HOSPITALS[0]} gets to read: {record['report'] or reports.WITHOUT}")
