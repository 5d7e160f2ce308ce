"""``python -m benchmarks.attacks``: the paper's ICA table, and p-values over many runs, into benchmarks/results.

    python -m benchmarks.attacks table         Table 3 with nulls, p-values, the attack that works, and our schemes
    python -m benchmarks.attacks calibration   24 runs to each scheme and data set; are the p-values uniform?

``--full`` takes all 10,000 MNIST images, and 1000 iterations of the paper's ICA as the paper did: hours. Without it
1,000 images and fewer iterations: about half an hour of one core each.
"""

import argparse
import json
from pathlib import Path
from time import process_time

import numpy as np

from benchmarks.measure import fingerprint
from fedsvd_lab.attacks.calibration import calibrate
from fedsvd_lab.attacks.ica_table import Subject, ica_table
from fedsvd_lab.datasets import real
from fedsvd_lab.datasets.library import Library

RESULTS = Path(__file__).parents[1] / "results"


def subjects(full: bool) -> list[Subject]:
    """The three data sets as the paper's attack had them, and MovieLens whole for the attack that works."""
    library = Library.here(None, False)
    ratings = real.movielens(library)
    counts = np.count_nonzero(ratings, axis=0)
    top = np.sort(np.argsort(-counts, kind="stable")[:500])
    images = real.mnist(library)[0][: 10_000 if full else 1_000]
    return [
        Subject("wine", real.wine(library)),
        Subject("ml-100k", np.ascontiguousarray(ratings[:, top]), whole=True),
        Subject("ml-100k, all films", ratings, whole=True),
        Subject("mnist", images),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("table", "calibration"))
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--repeats", type=int, default=0)
    parser.add_argument("--only", default="", help="one data set")
    parser.add_argument("--scheme", default="", help="one scheme")
    arguments = parser.parse_args()
    started, rows = process_time(), []

    def report(what: str, done: int, total: int) -> None:
        print(f"{process_time() - started:7.0f} s  {what}  {done}{f' of {total}' if total else ''}", flush=True)

    for subject in subjects(arguments.full):
        if arguments.only and subject.name != arguments.only:
            continue
        if arguments.what == "calibration" and subject.name == "ml-100k":
            continue  # all films say the same with more of them
        if arguments.what == "table":
            repeats = arguments.repeats or 2
            rows += [
                row.record() for row in ica_table(subject, repeats=repeats, quick=not arguments.full, report=report)
            ]
        else:
            halves = np.array_split(subject.X, 2)
            for scheme in (arguments.scheme,) if arguments.scheme else ("blocks", "sum", "mask"):
                found = calibrate(subject.name, halves, scheme, repeats=arguments.repeats or 24, report=report)
                rows.append({**found.record(), "shape": list(subject.X.shape)})
                print(rows[-1]["uniformity"], "leaks" if found.leaks else "nothing seen", flush=True)
        only = "".join(f"-{word}" for word in (arguments.only, arguments.scheme) if word)
        target = RESULTS / f"attacks-{arguments.what}{only}{'-full' if arguments.full else ''}.json"
        record = {"fingerprint": fingerprint(), "cpu_seconds": process_time() - started, "rows": rows}
        target.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
