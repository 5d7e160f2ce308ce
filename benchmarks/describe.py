"""Table 1 of 1,000,000 x 30 in three sites: ``python -m benchmarks.describe``; the bar is 20 seconds on two cores.

Twenty numbers and nine categories by one of two arms, some entries missing: n, missing, means, deviations, counts and
shares, quartiles, standardised differences and tests. All three parties and the CSP are in this process. Times are of
``fit`` on data frames, the dictionary that it makes of them included, by the clock and by the processor.
"""

import time
import warnings

import numpy as np
import pandas as pd

from fedsvd import FederatedTable

ROWS, NUMBERS, CATEGORIES, TURNS = 1_000_000, 20, 9, 3


def drawn() -> list[pd.DataFrame]:
    """A frame for each site; half of the numbers are whole, the others have two decimals."""
    rng = np.random.default_rng(0)
    columns: dict[str, np.ndarray] = {"arm": rng.choice(["drug", "placebo"], ROWS)}
    for j in range(NUMBERS):
        drawn = rng.normal(60, 12, ROWS).clip(0, 120)
        columns[f"x{j}"] = drawn.round(0 if j % 2 else 2)
        columns[f"x{j}"][rng.integers(0, ROWS, 1000)] = np.nan
    for j in range(CATEGORIES):
        columns[f"c{j}"] = rng.choice([f"level {place}" for place in range(2 + j)], ROWS)
    frame = pd.DataFrame(columns)
    return [frame[: ROWS // 2], frame[ROWS // 2 : 5 * ROWS // 6], frame[5 * ROWS // 6 :]]


def main() -> None:
    """Print the seconds of every turn."""
    tables = drawn()
    print(f"Table 1 of {ROWS:,} x {1 + NUMBERS + CATEGORIES}, seconds by the clock and of the processor")
    for _ in range(TURNS):
        begin, used = time.perf_counter(), time.process_time()
        FederatedTable("arm", nonnormal=["x0", "x1"]).fit(tables)
        print(f"  {time.perf_counter() - begin:8.2f} {time.process_time() - used:8.2f}", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
