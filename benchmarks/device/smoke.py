"""Does everything work on this device, and how long will the records take? Two minutes, before the long runs.

    python -m benchmarks.device.smoke --device cuda

First every kernel against NumPy at small sizes, then every task through the roles against NumPy's answer, then the
roofline, then each record at a size small enough to predict the large one from. A part that fails is reported and the
others go on.
"""

import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.fft

from benchmarks.device import lr, lsa, pca, roofline, svd
from benchmarks.device.common import machine, memory, opened, options, write
from fedsvd.data.hashed_normals import normals, normals_on, stream_key
from fedsvd.data.open import open_source
from fedsvd.engine.device import Engine
from fedsvd.linalg import backend
from fedsvd.linalg.device import Device
from fedsvd.linalg.streaming_factor import StreamingFactor
from fedsvd.linalg.windows import MIXING_BLOCK, Form
from fedsvd.masks.orthogonal import draw_form
from fedsvd.policy.rules import Policy
from fedsvd.randomness.seed import Seed
from fedsvd.secagg import fixed_point, on_device
from fedsvd.studies.parties import PartyData
from fedsvd.studies.run import run_study
from fedsvd.studies.study import Study

RNG = np.random.default_rng(0)
SEED = Seed(bytes(range(32)))


def kernels(device: Device) -> dict[str, float]:
    """The largest difference from NumPy of every kernel, relative to the size of its answer."""
    X, wide = RNG.normal(size=(300, 5000)), RNG.normal(size=(2200, 2500))
    ill = X * 10.0 ** np.linspace(0, -8, 300)[:, None]
    R = np.linalg.qr(X.T)[1]
    found: dict[str, tuple[Any, Any]] = {
        "gram by batches": (backend.gram(device.put(X)), X @ X.T),
        "gram by stripes": (backend.gram(device.put(wide)), wide @ wide.T),
        "solve": (
            backend.solve_triangular(device.put(R), device.put(X), transposed=True),
            np.linalg.solve(R.T, X),
        ),
        "cholesky": (backend.cholesky(device.put(X @ X.T)), np.linalg.cholesky(X @ X.T).T),
        "qr": (abs(backend.to_numpy(backend.qr_r(device.put(X.T)))), abs(R)),
        "svd": (backend.svd(device.put(X))[1], np.linalg.svd(X, compute_uv=False)),
        "normals": (
            normals_on(device.xp, device.like.device, stream_key(1, "x"), (5, 205), 101),
            normals(stream_key(1, "x"), (5, 205), (0, 101), 101),
        ),
        "encode": (on_device.words_of(on_device.encode(device.put(X), 50), device), fixed_point.encode(X, 50)),
    }
    for n in (4096, 4095):
        A = RNG.normal(size=(n, 5))
        found[f"dct {n}"] = backend.dct(device.put(A)), scipy.fft.dct(A, axis=0, norm="ortho")
        found[f"idct {n}"] = backend.dct(device.put(A), inverse=True), scipy.fft.idct(A, axis=0, norm="ortho")
    for name, A in (("even", X), ("ill", ill)):
        factor = StreamingFactor(300)
        for start in range(0, 5000, 1250):
            factor.update_columns(device.put(A[:, start : start + 1250]))
        values = np.linalg.svd(backend.to_numpy(factor.factor()), compute_uv=False)
        found[f"factor, {name}"] = values, np.linalg.svd(A, compute_uv=False)
    ours = draw_form(Form.MIXING, 1500, MIXING_BLOCK, SEED)
    theirs = draw_form(Form.MIXING, 1500, MIXING_BLOCK, SEED, device.like, Engine.of(device).each)
    A = RNG.normal(size=(1500, 40))
    found["mixing left"] = theirs.left(device.put(A)), ours.left(A)
    found["mixing right"] = theirs.right(device.put(A.T.copy())), ours.right(A.T.copy())
    return {name: _distance(*pair) for name, pair in found.items()}


def _distance(found: Any, expected: Any) -> float:
    found = backend.to_numpy(found)
    if found.dtype == np.uint64:
        return float(np.count_nonzero(found != expected))
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def studies(device: Device) -> dict[str, float]:
    """The largest difference between every task's results on the device and on NumPy, under the same secrets."""
    rows = [RNG.normal(size=(n, 40)) + 3 for n in (900, 600)]
    columns = [RNG.normal(size=(9000, n)) for n in (30, 25)]
    long = [RNG.normal(size=(600, n)) for n in (2400, 1800)]
    beyond = {"memory": 250_000_000}
    tasks = {
        "svd sum": (Study("svd", "horizontal"), rows, None),
        "svd mask": (Study("svd", "vertical", scheme="mask", **beyond), long, None),
        "pca": (Study("pca", "horizontal", components=3), rows, None),
        "lsa": (Study("lsa", "vertical", components=5, **beyond), long, None),
        "lr vertical": (Study("lr", "vertical", targets=1, label_user=1), columns, RNG.normal(size=(9000, 1))),
        "lr ridge": (Study("lr", "vertical", targets=1, label_user=1, alpha=0.5), columns, RNG.normal(size=(9000, 1))),
    }
    worst = {}
    for name, (study, tables, y) in tasks.items():
        parties = [PartyData(open_source(table), y if i == 0 else None) for i, table in enumerate(tables)]
        results = [
            run_study(study, parties, random_state=1, policy=Policy.permissive(), device=place).parties
            for place in (None, device)
        ]
        worst[name] = max(_differences(ours, theirs) for ours, theirs in zip(*results, strict=True))
    return worst


def _differences(ours: Any, theirs: Any) -> float:
    fields = ("sigma", "mean", "coefficients", "intercept")
    pairs = [(getattr(ours, name, None), getattr(theirs, name, None)) for name in fields]
    pairs += [(_projector(ours), _projector(theirs))]
    return max(float(np.abs(a - b).max() / max(1.0, np.abs(a).max())) for a, b in pairs if a is not None)


def _projector(result: Any) -> Any:
    U = getattr(result, "U", None)
    return None if U is None else U @ (U.T @ np.cos(np.outer(np.arange(len(U)), [1.0, 2.0])))


def solvers(device: Device) -> dict[str, float]:
    """Seconds of the factorisations that a device may do worse than the host."""
    seconds: dict[str, float] = {}
    if not device.name.startswith("cuda"):
        return seconds
    for n in (1000, 2000):
        A = RNG.normal(size=(n, n))
        there = device.put(A)
        seconds[f"svd {n} on the device"] = roofline.timed(device, lambda A=there: device.xp.linalg.svd(A), 1)
        seconds[f"svd {n} on the host"] = roofline.timed(device, lambda A=A: np.linalg.svd(A), 1)
    tall = roofline.panel(device, 4000, 8000).T
    seconds["qr_r of 8000 x 4000 on the device"] = roofline.timed(device, lambda: backend.qr_r(tall), 1)
    return seconds


def main() -> None:
    """All parts, each by itself."""
    asked = options(("columns", 2_000_000), ("m", 1000), ("items", 6000), ("features", 8000), words=("only",))
    warnings.simplefilter("ignore")
    device = opened(asked.device)
    parts: dict[str, Callable[[], Any]] = {
        "kernels": lambda: kernels(device),
        "studies": lambda: studies(device),
        "roofline": lambda: roofline.roofline(device, asked.m, min(asked.columns, 524_288)),
        "solvers": lambda: solvers(device),
        "svd": lambda: svd.run(device, asked.m, asked.columns),
        "lsa": lambda: lsa.run(device, asked.items, 2 * asked.items, 32, 1 << 30),
        "lr": lambda: lr.run(device, asked.columns // 2, asked.m),
        "pca": lambda: pca.run(device, asked.features, 10 * asked.features),
    }
    record: dict[str, Any] = {"name": "smoke", **machine(device)}
    for name, work in parts.items():
        if asked.only and name not in asked.only.split(","):
            continue
        started = time.perf_counter()
        try:
            record[name] = work()
        except Exception:
            record[name] = traceback.format_exc(limit=-8)
            print(f"FAILED {name}\n{record[name]}", flush=True)
        record[f"{name}_took"] = time.perf_counter() - started
        print(f"{name}: {record[f'{name}_took']:.1f} s", flush=True)
    write(asked.out, {**record, **memory(device)})


if __name__ == "__main__":
    main()
