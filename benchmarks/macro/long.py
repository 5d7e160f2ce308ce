"""Matrices long on both sides, as a user would run them: every role a process of its own, within a memory budget.

    python -m benchmarks.macro.long lsa pca          the records of this page, into benchmarks/results/long.json
    python -m benchmarks.macro.long pca=25000x10000  another shape
    python -m benchmarks.macro.long lsa --small      the same at a hundredth of the size, printed only

LSA: the top 256 of ratings nobody gave, 6,000 x 40,000 at the density of MovieLens-25M, columns split over two parties.
PCA: the top 5 of 50,000 samples of 20,000 features, a power law (alpha = 1, as in the authors' code), rows split. Both
under the scheme mask. X' (1.9 GB, 8 GB) lies in the CSP's scratch folder; the peak of each process is what the
system counted (VmHWM), file maps included, and the 0.2 GB of an interpreter with its libraries.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from benchmarks.measure import RESULTS, fingerprint

GIB = 1 << 30
INTERPRETER = 256 << 20  # what a role's process takes before it has met any data: Python, libraries, gRPC
JOBS = {
    "lsa": {
        "task": "lsa",
        "split": "vertical",
        "components": 256,
        "memory": "1 GiB",
        "data": "synthetic-ratings://{rows}x{columns}?density=0.0025&seed=1&columns={start}:{stop}",
        "shape": (6_000, 40_000),
    },
    "pca": {
        "task": "pca",
        "split": "horizontal",
        "components": 5,
        "memory": "1 GiB",
        "data": "synthetic://{rows}x{columns}?alpha=1&seed=1&rows={start}:{stop}",
        "shape": (50_000, 20_000),
    },
}
SMALL = {"lsa": ((600, 4_000), 32, "64 MiB"), "pca": ((2_000, 1_500), 5, "48 MiB")}


def main(words: list[str]) -> int:
    """Run what is named; the exit status says whether every residual and every peak is within its bound."""
    small = "--small" in words
    asked = dict(word.partition("=")[::2] for word in words if word != "--small") or dict.fromkeys(JOBS, "")
    records = {f"{name} {shape}".strip(): record(name, shape, small) for name, shape in asked.items()}
    print(json.dumps(records, indent=1))
    if not small:
        target = RESULTS / "long.json"
        known = json.loads(target.read_text()) if target.exists() else {}
        target.write_text(json.dumps({**known, **records}, indent=1) + "\n")
    return 0 if all(each["met"] for each in records.values()) else 1


def record(name: str, shape: str, small: bool) -> dict[str, Any]:
    """One job on the local rung: seconds by stage, bytes, residual, and the peak of every process."""
    asked = dict(JOBS[name])
    if shape:
        asked["shape"] = tuple(map(int, shape.split("x")))
    if small:
        asked["shape"], asked["components"], asked["memory"] = SMALL[name]
    with tempfile.TemporaryDirectory(prefix="fedsvd-long-", dir=os.environ.get("FEDSVD_SCRATCH")) as folder:
        job = Path(folder) / "job.toml"
        job.write_text(_job(name, asked))
        results = Path(folder) / "results"
        command = [sys.executable, "-m", "fedsvd", "run", str(job), "--env", "local", "--consent", "--quiet"]
        started = monotonic()
        words = [*command, "--out", str(results), "--scratch", folder]
        peaks, status = watched(words, {"OPENBLAS_NUM_THREADS": "1"})
        seconds = monotonic() - started
        if status:
            raise RuntimeError(f"{name} ended with status {status}")
        certificate = json.loads((results / "manifest.json").read_text())["certificate"]
    budget = int(float(str(asked["memory"]).split()[0]) * (GIB if "GiB" in str(asked["memory"]) else GIB // 1024))
    return {
        **{key: asked[key] for key in ("task", "split", "components", "memory", "shape", "data")},
        "residual": certificate["residual"],
        "orthogonality": certificate["orthogonality"],
        "seconds": round(seconds, 1),
        "seconds_by_stage": {
            stage: round(took, 1) for stage, took in certificate["seconds_by_stage"].items() if took > 1
        },
        "bytes": sum(certificate["bytes_by_link"].values()),
        "budget_bytes": budget,
        "peak_bytes": peaks,
        "met": certificate["residual"] <= 1e-10 and all(peak <= budget + INTERPRETER for peak in peaks.values()),
        "machine": fingerprint(),
    }


def _job(name: str, asked: dict[str, Any]) -> str:
    rows, columns = asked["shape"]
    length = columns if asked["split"] == "vertical" else rows
    halves = ((0, length // 2), (length // 2, length))
    parties = [
        f'[[party]]\nname = "{party}"\n'
        f'data = "{asked["data"].format(rows=rows, columns=columns, start=start, stop=stop)}"\n'
        for party, (start, stop) in zip(("north", "south"), halves, strict=True)
    ]
    head = f'[job]\nname = "{name}"\ntask = "{asked["task"]}"\nsplit = "{asked["split"]}"\n'
    head += f'components = {asked["components"]}\nmemory = "{asked["memory"]}"\n[masks]\nscheme = "mask"\n'
    return "\n".join([head, *parties])


def watched(command: list[str], settings: dict[str, str]) -> tuple[dict[str, int], int]:
    """Run a command; the most that every process below it had resident, in bytes, and its exit status."""
    peaks: dict[str, int] = {}
    with subprocess.Popen(command, env={**os.environ, **settings}) as running:
        while running.poll() is None:
            for process in _below(running.pid):
                role, peak = _seen(process)
                if role:
                    peaks[role] = max(peaks.get(role, 0), peak)
            sleep(0.2)
    return peaks, running.returncode


def _below(pid: int) -> Iterator[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for child in map(int, children):
        yield child
        yield from _below(child)


def _seen(pid: int) -> tuple[str, int]:
    """Which role a process plays, by its command line, and its high-water mark."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return "", 0
    role = next((word for word in words if word in _ROLES), "")
    peak = next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM")), 0)
    return role, peak


_ROLES = ("csp", "party", "authority")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
