"""``fedsvd demo``: three hospitals, one bundled table, and NumPy on the joint data to say how far off they are.

The table is scikit-learn's breast cancer data, 569 patients with 30 measurements each. The hospitals run a PCA and an
SVD through the whole protocol, all roles in this process; plain NumPy runs the same on all rows in one place.
"""

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console

from fedsvd.cli.options import FormatOption
from fedsvd.cli.voice import Format, Voice, duration, listing, size
from fedsvd.data.open import open_source
from fedsvd.linalg.signs import apply_signs, signs_of
from fedsvd.protocol.tasks import RELEASED_BY_DEFAULT, Item, Task
from fedsvd.runtime.federation import Outcome, run_study
from fedsvd.runtime.party_data import PartyData
from fedsvd.runtime.planning import Study
from fedsvd.types import Float

HOSPITALS = ("hospital-a", "hospital-b", "hospital-c")
_CUTS = [200, 350]
_COMPONENTS = 5


def demo(format: FormatOption = Format.TEXT) -> None:
    """Three hospitals factorise one table; nobody hands over a row."""
    voice = Voice(format)
    D = _patients()
    with voice.heeding(HOSPITALS):
        runs = [_pca(D), _svd(D)]
    record = {"rows": D.shape[0], "columns": D.shape[1], "parties": len(HOSPITALS), "runs": runs}
    voice.answer(record, lambda console: _show(console, D, runs))


def _patients() -> Float:
    from sklearn.datasets import load_breast_cancer

    D: Float = np.ascontiguousarray(load_breast_cancer().data, dtype=np.float64)
    return D


def _pca(D: Float) -> dict[str, Any]:
    """Five components of the measurements at unit variance, with the spectrum."""
    release = (*RELEASED_BY_DEFAULT[Task.PCA], Item.SPECTRUM)
    study = Study(Task.PCA, components=_COMPONENTS, unit_variance=True, release=release)
    outcome, took = _timed(lambda: run_study(study, _parties(D)))
    expected, alone = _timed(lambda: _pca_in_one_place(D))
    result = outcome.parties[0]
    scores = np.concatenate([party.scores_i for party in outcome.parties])
    errors = {
        "mean": _relative(result.mean, expected["mean"]),
        "components": float(np.abs(result.U - expected["components"]).max()),
        "singular values": _relative(result.sigma, expected["sigma"]),
        "scores": _relative(scores, expected["scores"]),
    }
    return _run("PCA, 5 components", errors, took, alone, outcome)


def _pca_in_one_place(D: Float) -> dict[str, Float]:
    mean = D.mean(axis=0)
    Z = (D - mean) / D.std(axis=0)
    U, sigma, Vt = np.linalg.svd(Z, full_matrices=False)
    V, Ut = apply_signs(Vt.T, U.T, signs_of(Vt.T))
    r = _COMPONENTS
    return {"mean": mean, "components": V[:, :r], "sigma": sigma[:r], "scores": Ut[:r].T * sigma[:r]}


def _svd(D: Float) -> dict[str, Any]:
    """All singular values and vectors of the table as it is."""
    outcome, took = _timed(lambda: run_study(Study(Task.SVD), _parties(D)))
    (_, sigma, _), alone = _timed(lambda: np.linalg.svd(D, full_matrices=False))
    shared = outcome.parties[0]
    right = np.concatenate([party.Vt_i for party in outcome.parties], axis=1)
    errors = {
        "singular values": _relative(shared.sigma, sigma),
        "reconstruction": float(np.abs((right.T * shared.sigma) @ shared.U.T - D).max() / sigma[0]),
        "components, orthonormal": float(np.abs(shared.U.T @ shared.U - np.eye(len(sigma))).max()),
        "left vectors, orthonormal": float(np.abs(right @ right.T - np.eye(len(sigma))).max()),
    }
    return _run("SVD, all of it", errors, took, alone, outcome)


def _parties(D: Float) -> list[PartyData]:
    return [PartyData(open_source(D_i)) for D_i in np.split(D, _CUTS)]


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    started = perf_counter()
    result = work()
    return result, perf_counter() - started


def _relative(found: Float, expected: Float) -> float:
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def _run(name: str, errors: dict[str, float], took: float, alone: float, outcome: Outcome) -> dict[str, Any]:
    return {
        "name": name,
        "scheme": str(outcome.plan.scheme),
        "errors": errors,
        "seconds": took,
        "seconds_numpy": alone,
        "bytes": outcome.certificate.bytes_total,
        "residual": outcome.certificate.residual,
        "plan_digest": outcome.plan.digest,
    }


def _show(console: Console, D: Float, runs: list[dict[str, Any]]) -> None:
    console.print(f"Breast cancer data: {D.shape[0]} patients x {D.shape[1]} measurements, split over three hospitals.")
    console.print("All roles run in this process: this shows that the numbers are right, and protects nobody.\n")
    rows = [(run["name"], name, f"{error:.1e}") for run in runs for name, error in run["errors"].items()]
    console.print(listing(("study", "federated against NumPy on the joint data", "largest error"), rows))
    cost = [
        (run["name"], run["scheme"], duration(run["seconds"]), duration(run["seconds_numpy"]), size(run["bytes"]))
        for run in runs
    ]
    console.print(listing(("study", "scheme", "federated", "NumPy alone", "sent between the roles"), cost))
