"""Every bar of the top of many features in one run: ours against the rival, bytes of each party, seconds of each part.

    python -m benchmarks.bars [--only WORD ...] [--turns N] [--json FILE] [--list]
    taskset -c 0,1 python -m benchmarks.bars

The rows are those of ``benchmarks.many_features``, ``.long_tables`` and ``.many_parties`` that have a bar, in one form;
an ill-conditioned table (condition 1e8) stands beside each easy one of its shape. All roles of a study are in one
process, data is in memory, ours and the rivals run in turns on the same cores, and the best turn of each counts. The
cores are those of the process: pin it. Rows are printed as they are measured, and written with the machine's
fingerprint where ``--json`` names a file, so that a run that is stopped leaves what it has. About four minutes on
sixteen idle cores and seven on two; the exit status says whether all bars were met.
"""

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import fedsvd  # before scikit-learn: it sets how long idle threads of OpenBLAS spin
from benchmarks import long_tables, many_features, many_parties
from benchmarks.measure import fingerprint

Row = dict[str, Any]


def by_steps(name: str, turns: int) -> Row:
    """A row of ``many_features``."""
    case = many_features.CASES[name]
    row = many_features.measured(name, case, case.scheme, turns)
    rival = min(row["rivals"], key=row["rivals"].__getitem__)
    return {
        "about": row["about"],
        "ours": row["seconds"],
        "rival": row["rivals"][rival],
        "against": rival,
        "answers apart": row["values_off"],
        **{key: row[key] for key in ("scheme", "found", "processor_seconds")},
        **_common(row),
    }


def long_table(study: str, rows: int, features: int, table: str, turns: int) -> Row:
    """A row of ``long_tables``."""
    wanted = (study, rows, features, table)
    bar = next(bar for bar in long_tables.BARS if (bar.study, bar.rows, bar.features, bar.table) == wanted)
    row = long_tables.measured(bar, turns, _cores())
    return {
        "about": row["name"],
        "ours": row["seconds"]["ours"],
        "rival": row["seconds"][row["rival"]],
        "against": row["rival"],
        "answers apart": row["largest difference"][row["rival"]],
        "processor_seconds": row["processor seconds"]["ours"],
        **_common(row),
    }


def parties(turns: int) -> Row:
    """The row of ``many_parties`` that has a bar."""
    two, fifty = many_parties.measured((2, 50), turns)
    return {
        "about": fifty["name"],
        "ours": fifty["seconds"],
        "rival": two["seconds"],
        "against": "ourselves, 2 parties",
        "answers apart": fifty["largest difference"],
        "processor_seconds": fifty["processor seconds"],
        "parts of the rival": two["parts"],
        **_common(fifty),
    }


def _common(row: Mapping[str, Any]) -> Row:
    return {key: row[key] for key in ("ratio", "bar", "met", "bytes", "parts")}


def _cores() -> int:
    return len(os.sched_getaffinity(0))


ROWS: dict[str, Callable[[int], Row]] = {
    "pca-30000x8000": partial(by_steps, "pca-30000x8000"),
    **{
        name: measure
        for m in (1_000, 2_000, 4_000)
        for name, measure in (
            (f"pca-20000x{m}", partial(by_steps, f"pca-20000x{m}")),
            (f"pca-20000x{m}-ill", partial(long_table, "pca auto", 20_000, m, "condition 1e8")),
        )
    },
    **{
        name: partial(by_steps, name)
        for name in ("pca-600x20000", "pca-3000x8000", "genotypes-top2", "genotypes-top10", "lsa-ml1m")
    },
    "linear": partial(long_table, "linear", 20_000, 2_000, "noise"),
    "linear-ill": partial(long_table, "linear", 20_000, 2_000, "condition 1e8"),
    "logistic": partial(long_table, "logistic few digits", 300_000, 50, "noise"),
    "parties": parties,
}


def main() -> int:
    """Measure what is asked for, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[], metavar="WORD", help="rows whose name has one of these words")
    parser.add_argument("--turns", type=int, default=2, help="how often ours and the rivals run, each in turn")
    parser.add_argument("--json", type=Path, help="also write the rows here")
    parser.add_argument("--list", action="store_true", help="name the rows and stop")
    asked = parser.parse_args()
    names = [name for name in ROWS if not asked.only or any(word in name for word in asked.only)]
    if asked.list or not names:
        print("\n".join(names or [f"no row has any of these words in its name: {', '.join(ROWS)}"]))
        return 0 if names else 2
    warnings.simplefilter("ignore")
    many_features.warm_up()
    machine, rows = {**fingerprint(), "threads spin": os.environ.get("OPENBLAS_THREAD_TIMEOUT")}, list[Row]()
    print(f"fedsvd {fedsvd.__version__}, {_cores()} cores", flush=True)
    for name in names:
        if name == "lsa-ml1m" and many_features.movielens() is None:
            print(
                f"{name:20} not measured: set FEDSVD_DATA to the folder that holds ml-1m/interactions.npz", flush=True
            )
            continue
        began = time.perf_counter()
        row = {"name": name, "cores": _cores(), **ROWS[name](asked.turns)}
        row["seconds of the row"] = round(time.perf_counter() - began, 1)
        rows.append(row)
        print(_line(row), flush=True)
        if asked.json:
            asked.json.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")
    return 0 if all(row["met"] for row in rows) else 1


def _line(row: Row) -> str:
    sent = sorted(each["up"] for each in row["bytes"].values())
    up = f"{sent[0] / 1e6:.3g} to {sent[-1] / 1e6:.3g} MB up"
    longest = ", ".join(f"{part} {seconds:.2g}" for part, seconds in list(row["parts"].items())[:4])
    met = "met   " if row["met"] else "MISSED"
    ratio = f"{row['ours']:7.3f} / {row['rival']:7.3f} s = {row['ratio']:6.3f}  bar {row['bar']:<4g} {met}"
    return f"{row['name']:20} {ratio} {up:26} {longest}  ({row['seconds of the row']:.0f} s)"


if __name__ == "__main__":
    sys.exit(main())
