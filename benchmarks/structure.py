"""How many files, packages and calls a run goes through: the figures by which the layout is judged.

    python -m benchmarks.structure [--source SRC]

Traces one ``FederatedPCA.fit`` in this process, and one job of three parties in which every role is a process, with
``sys.setprofile`` on every thread; bodies of modules and classes, which run at import, do not count. ``--source`` names
another checkout's ``src``, to compare with. Prints JSON.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

COUNTED = {"job file parsed": ("job_from",), "site.toml read": ("read_site",), "plan made": ("plan_study",)}

TRACER = """
import atexit, json, os, sys, threading, time
from collections import Counter, defaultdict

HERE = os.sep + "fedsvd" + os.sep
files, crossings, calls = defaultdict(set), Counter(), Counter()

def place(path):
    return path.rpartition(HERE)[2] if HERE in path and "site-packages" not in path else None

def watch(frame, event, arg):
    if event != "call":
        return
    here = place(frame.f_code.co_filename)
    if here is None or not frame.f_code.co_flags & 1:  # CO_OPTIMIZED: a function; bodies of modules and classes are not
        return
    files[threading.current_thread().name].add(here)
    calls[frame.f_code.co_name] += 1
    back = frame.f_back
    there = place(back.f_code.co_filename) if back is not None else None
    if there is not None and there.split(os.sep)[0] != here.split(os.sep)[0]:
        crossings["all"] += 1

def start():
    threading.setprofile(watch)
    sys.setprofile(watch)

def stop():
    sys.setprofile(None)
    threading.setprofile(None)
    return found()

def found():
    by_thread = {name: sorted(seen) for name, seen in list(files.items())}
    return {"files": by_thread, "crossings": crossings["all"], "calls": dict(calls)}

def dump():
    path = os.path.join(os.environ["FEDSVD_TRACE"], str(os.getpid()))
    with open(path + ".new", "w") as file:
        json.dump({"argv": sys.argv, **found()}, file)
    os.replace(path + ".new", path)

def dump_often():
    while True:  # a role is stopped by a signal and has no last moment
        time.sleep(0.3)
        try:
            dump()
        except (RuntimeError, OSError):
            pass

if os.environ.get("FEDSVD_TRACE"):
    threading.Thread(target=dump_often, daemon=True).start()
    start()
    atexit.register(dump)
"""

FIT = """
import json, numpy as np, sitecustomize as tracer
from fedsvd import FederatedPCA
X = np.random.default_rng(0).normal(size=(300, 8))
parties = [X[:100], X[100:180], X[180:]]
FederatedPCA(n_components=2).fit(parties)
tracer.start()
FederatedPCA(n_components=2).fit(parties)
print(json.dumps(tracer.stop()))
"""


def main() -> None:
    """Print the figures of the code under ``--source``."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, default=Path(__file__).parents[1] / "src")
    source = parser.parse_args().source.resolve()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(source, Path(folder))
    print(json.dumps(found, indent=2))


def measure(source: Path, folder: Path) -> dict[str, Any]:
    """The figures of one source tree."""
    (folder / "sitecustomize.py").write_text(TRACER)
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{source}", "OPENBLAS_NUM_THREADS": "1"}
    return {**_tree(source / "fedsvd"), "fit": _fit(environment), "job": _job(environment, folder)}


def _tree(package: Path) -> dict[str, int]:
    texts = [text for path in package.rglob("*.py") if (text := path.read_text(encoding="utf-8"))]  # not empty ones
    control = [path.read_text() for name in ("runtime", "service") for path in package.glob(f"{name}/*.py")]
    untyped = r"(?:dict|Mapping)\[str, Any\]"
    return {
        "files": len(texts),
        "lines": sum(text.count("\n") for text in texts),
        "untyped mappings in the control plane": sum(len(re.findall(untyped, text)) for text in control),
    }


def _fit(environment: dict[str, str]) -> dict[str, int]:
    run = subprocess.run([sys.executable, "-c", FIT], env=environment, capture_output=True, text=True, check=True)
    trace = json.loads(run.stdout)
    files = {name for names in trace["files"].values() for name in names}
    packages = {name.split(os.sep)[0] for name in files}
    return {"files": len(files), "packages": len(packages), "cross-package calls": trace["crossings"]}


def _job(environment: dict[str, str], folder: Path) -> dict[str, Any]:
    traces = folder / "traces"
    traces.mkdir()
    tables = []
    for i in range(3):
        rows = [f"{(7 * r + i) % 11},{(3 * r * r + i) % 13},{(5 * r + 2 * i) % 7}" for r in range(400)]
        tables.append(folder / f"party{i}.csv")
        tables[-1].write_text("a,b,c\n" + "\n".join(rows) + "\n")
    words = [
        "pca",
        *(f"--party={table.stem}={table}" for table in tables),
        "--components",
        "2",
        "--env",
        "local",
        "--out",
    ]
    command = [sys.executable, "-m", "fedsvd", *words, str(folder / "results")]
    run = subprocess.run(
        command, env={**environment, "FEDSVD_TRACE": str(traces)}, capture_output=True, text=True, check=False
    )
    if run.returncode:
        raise SystemExit(run.stderr)
    found = [json.loads(path.read_text()) for path in traces.iterdir() if path.suffix != ".new"]
    calls: Counter[str] = Counter()
    for trace in found:
        calls.update(trace["calls"])
    files = {name for trace in found for names in trace["files"].values() for name in names}
    threads = {
        f"{' '.join(trace['argv'][1:3])} {thread}": len(names)
        for trace in found
        for thread, names in trace["files"].items()
    }
    return {
        "files": len(files),
        "files of a party's session thread": max(
            count for name, count in threads.items() if name.startswith("party ") and "MainThread" not in name
        ),
        "by thread": dict(sorted(threads.items(), key=lambda pair: -pair[1])[:8]),
        "processes": len(found),
        **{what: sum(calls[name] for name in names) for what, names in COUNTED.items()},
        "most in one process": {
            what: max(sum(trace["calls"].get(name, 0) for name in names) for trace in found)
            for what, names in COUNTED.items()
        },
    }


if __name__ == "__main__":
    main()
