"""How many files, packages and calls a run goes through: the figures by which the layout is judged.

    python -m benchmarks.structure [--source SRC] [--lines]

Traces one ``FederatedPCA.fit`` in this process, and one job of three parties in which every role is a process, with
``sys.setprofile`` on every thread; bodies of modules and classes, which run at import, do not count. ``--source`` names
another checkout's ``src``, to compare with. ``--lines`` counts alone: the lines that each task of the epidemiologist's
kit has for itself. Prints JSON.

A line counts where a token other than a comment stands on it, and no docstring. A task has for itself the files of its
own names (``TASKS``), and in all other files those entries of a literal (a row of options or rules, the facts of a
family) that name its ``Task`` or ``Family`` and none but it. What several tasks share counts for none.
"""

import argparse
import ast
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

COUNTED = {"job file parsed": ("job_from",), "site.toml read": ("read_site",), "plan made": ("plan_study",)}

TASKS = {
    "describe": ("describe*", "table_one", "group_tests", "table_cells", "level_pools"),
    "survival": ("survival*", "life_table", "incidence", "log_rank", "opened_times", "openings_times", "counted"),
    "cox": ("cox*", "*hazard*", "piecewise", "schoenfeld", "concordance"),
    "mixed": ("mixed*",),
    "ordinal": ("ordinal*",),
    "negative_binomial": ("negative_binomial*",),
    "propensity": ("propensity*", "treatment_options", "balanced"),
}
"""Stems of the files that a task of the kit has for itself."""

OTHERS = ("prepare/described.py",)
"""Files of such a stem that all tasks have: a table as a dictionary describes it."""

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
    parser.add_argument("--lines", action="store_true")
    given = parser.parse_args()
    source = given.source.resolve()
    if given.lines:
        print(json.dumps(task_lines(source / "fedsvd"), indent=2))
        return
    with tempfile.TemporaryDirectory() as folder:
        found = measure(source, Path(folder))
    print(json.dumps(found, indent=2))


def measure(source: Path, folder: Path) -> dict[str, Any]:
    """The figures of one source tree."""
    (folder / "sitecustomize.py").write_text(TRACER)
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{source}", "OPENBLAS_NUM_THREADS": "1"}
    tree = {**_tree(source / "fedsvd"), "tasks": task_lines(source / "fedsvd")}
    return {**tree, "fit": _fit(environment), "job": _job(environment, folder)}


def _tree(package: Path) -> dict[str, int]:
    texts = [text for path in package.rglob("*.py") if (text := path.read_text(encoding="utf-8"))]  # not empty ones
    control = [path.read_text() for name in ("runtime", "service") for path in package.glob(f"{name}/*.py")]
    untyped = r"(?:dict|Mapping)\[str, Any\]"
    return {
        "files": len(texts),
        "lines": sum(text.count("\n") for text in texts),
        "untyped mappings in the control plane": sum(len(re.findall(untyped, text)) for text in control),
    }


def task_lines(package: Path) -> dict[str, dict[str, int]]:
    """Lines that only one task of the kit needs: in all, those of its mathematics, those of entries elsewhere."""
    found = {task: Counter(lines=0, statistics=0, entries=0, files=0) for task in TASKS}
    for path in package.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        others = path.relative_to(package).as_posix() in OTHERS
        whole = [task for task, stems in TASKS.items() if any(fnmatch(path.stem, stem) for stem in stems)]
        whole = [] if others else whole
        for task in whole:
            count = len(code_lines(text))
            found[task].update(lines=count, files=1, statistics=count * (path.parent.name == "statistics"))
        if not whole:
            for task, count in _entries(text):
                found[task].update(lines=count, entries=count)
    return {task: dict(counts) for task, counts in found.items()}


def code_lines(text: str) -> set[int]:
    """The numbers of the lines with code: no blank line, comment or docstring."""
    said: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            said |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    layout = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type not in layout]
    return {line for token in tokens for line in range(token.start[0], token.end[0] + 1)} - said


def _entries(text: str) -> Iterator[tuple[str, int]]:
    """The outermost entries of literals that name one task of the kit and no other, with their lines."""
    lines, stack = code_lines(text), list[ast.AST](ast.parse(text).body)
    while stack:
        node = stack.pop()
        for parts in _parts(node):
            named = set(_named(parts[0])) or set(_named(parts[-1]))  # the key's, where one names a task
            task = named.pop().lower() if len(named) == 1 else ""
            if task in TASKS and isinstance(parts[-1], ast.Call):
                yield task, len(lines & {line for part in parts for line in range(part.lineno, _last(part) + 1)})
            elif not named:
                stack += parts
        if not isinstance(node, ast.Tuple | ast.List | ast.Dict):
            stack += ast.iter_child_nodes(node)


def _parts(node: ast.AST) -> list[list[ast.expr]]:
    if isinstance(node, ast.Tuple | ast.List):
        return [[each] for each in node.elts]
    if isinstance(node, ast.Dict):
        return [[each for each in pair if each is not None] for pair in zip(node.keys, node.values, strict=True)]
    return []


def _named(node: ast.AST) -> Iterator[str]:
    """The members of ``Task`` and ``Family`` that a piece of code names."""
    for each in ast.walk(node):
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id in ("Task", "Family"):
            yield each.attr


def _last(node: ast.expr) -> int:
    return node.end_lineno or node.lineno


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
