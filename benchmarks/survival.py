"""Cox regression of 100,000 x 20 in three sites against R's ``coxph``: ``python -m benchmarks.survival``.

Both in one run, in turns, by processor time with one BLAS thread: R on the joint table with ``strata(site)``, the least
of three fits in one process; FedSVD with all three parties and the CSP in this process, keys, pads and sums included. R
is looked for as ``Rscript`` with its package survival; without it only our own times are printed.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import shutil
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from fedsvd import FederatedCox

ROWS, COLUMNS, SITES, TURNS = 100_000, 20, 3, 3

_R = """
suppressMessages(library(survival))
d <- as.data.frame(matrix(readBin("{path}", "double", {count}), ncol = {width}, byrow = TRUE))
f <- as.formula(paste("Surv(V1, V2) ~", paste0("V", 4:{width}, collapse = " + "), "+ strata(V3)"))
once <- function(i) {{ begin <- proc.time(); coxph(f, data = d); sum((proc.time() - begin)[1:2]) }}
cat("SECONDS", min(sapply(1:3, once)), "\\n")
"""


def drawn() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Columns, times, events and sites."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, COLUMNS))
    lived, ended = rng.exponential(np.exp(-(X @ rng.normal(0, 0.1, COLUMNS)))), rng.exponential(1.5, ROWS)
    return X, np.minimum(lived, ended), (lived <= ended).astype(float), np.arange(ROWS) % SITES


def seconds_of_r(path: Path, width: int) -> float:
    """Processor time of one fit by R, without reading."""
    text = _R.format(path=path, count=ROWS * width, width=width)
    said = subprocess.run(["Rscript", "-e", text], capture_output=True, text=True, check=True).stdout
    return float(said.rpartition("SECONDS")[2])


def main() -> None:
    """Print the seconds of every turn, and the ratio of the least ones."""
    X, times, events, sites = drawn()
    chosen = [sites == site for site in range(SITES)]
    parties = [[each[own] for own in chosen] for each in (X, times, events)]
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        path, table = Path(folder) / "table.bin", np.column_stack((times, events, sites, X))
        table.astype("<f8").tofile(path)
        for _ in range(TURNS):
            begin = time.process_time()
            FederatedCox().fit(*parties)
            ours.append(time.process_time() - begin)
            if shutil.which("Rscript"):
                theirs.append(seconds_of_r(path, table.shape[1]))
    print("fedsvd", *(f"{each:.2f}" for each in ours))
    if theirs:
        print("coxph ", *(f"{each:.2f}" for each in theirs), f"ratio {min(ours) / min(theirs):.2f}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
