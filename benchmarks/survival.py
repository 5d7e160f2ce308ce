"""Cox regression of 100,000 x 20 in three sites, without and with entry times, against R's ``coxph``.

``python -m benchmarks.survival`` runs both. R is given the joint table with ``strata(site)``; FedSVD has all three
parties and the CSP in this process, keys, pads and sums included (``benchmarks/others.py``).
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import warnings

import numpy as np

from benchmarks.others import by_r, compared, timed
from fedsvd import FederatedCox

ROWS, COLUMNS, SITES = 100_000, 20, 3


def drawn() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Columns, times, events and sites."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, COLUMNS))
    lived, ended = rng.exponential(np.exp(-(X @ rng.normal(0, 0.1, COLUMNS)))), rng.exponential(1.5, ROWS)
    return X, np.minimum(lived, ended), (lived <= ended).astype(float), np.arange(ROWS) % SITES


def main() -> None:
    """Print the seconds of every turn, and the ratio of the least ones."""
    X, times, events, sites = drawn()
    entry = times * np.random.default_rng(1).uniform(0.0, 0.9, ROWS)
    chosen = [sites == site for site in range(SITES)]
    parties = [[each[own] for own in chosen] for each in (X, times, events, entry)]
    table = np.column_stack((times, events, sites, entry, X))
    columns = " + ".join(f"V{place}" for place in range(5, table.shape[1] + 1))
    for said, response, given in (("", "Surv(V1, V2)", 3), (" with entry times", "Surv(V4, V1, V2)", 4)):
        theirs = by_r(table, "survival", f"coxph({response} ~ {columns} + strata(V3), data = d)")
        ours = timed(lambda given=given: FederatedCox().fit(*parties[:given]))
        compared(f"Cox regression, {ROWS:,} x {COLUMNS}{said}", ours, {"coxph": theirs})


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
