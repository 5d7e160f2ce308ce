"""Mixed models of 100,000 rows and 10,000 patients in three sites against lme4 and statsmodels: ``python -m
benchmarks.mixed``.

Both on the joint table; FedSVD with all three parties and the CSP in this process, keys, pads and sums included
(``benchmarks/others.py``). ``--without-statsmodels`` leaves out its ``MixedLM``, which takes minutes.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import sys
import warnings
from collections.abc import Callable

import numpy as np

from benchmarks.others import by_r, compared, timed
from fedsvd import FederatedMixedLM

ROWS, PATIENTS, COLUMNS, SITES = 100_000, 10_000, 4, 3


def drawn() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns, the first of them with a random slope, outcomes and patients."""
    rng = np.random.default_rng(0)
    patient = np.repeat(np.arange(PATIENTS), ROWS // PATIENTS)
    X = np.column_stack((rng.uniform(0, 10, ROWS).round(2), rng.normal(size=(ROWS, COLUMNS - 1))))
    own, slope = rng.normal(0, 0.8, PATIENTS)[patient], rng.normal(0, 0.1, PATIENTS)[patient]
    y = 1.0 + X @ np.array([0.12, 0.3, -0.2, 0.0]) + own + slope * X[:, 0] + rng.normal(0, 0.5, ROWS)
    return X, y, patient


def main(statsmodels: bool) -> None:
    """Print, with random intercepts alone and with a slope, the seconds of every turn, and ratios of the least ones."""
    X, y, patient = drawn()
    sites = [patient % SITES == site for site in range(SITES)]
    tables, outcomes, persons = ([each[own] for own in sites] for each in (X, y, patient))
    slopes = [own[:, 0] for own in tables]
    table = np.column_stack((y, patient, X))
    fixed = " + ".join(f"V{place}" for place in range(3, table.shape[1] + 1))
    for title, slope, random in (("random intercepts", None, "1"), ("random slopes", slopes, "V3")):
        others = {"lme4": by_r(table, "lme4", f"lmer(V1 ~ {fixed} + ({random} | V2), data = d)")}
        if statsmodels:
            others["statsmodels"] = timed(_by_statsmodels(X, y, patient, slope is not None))
        ours = timed(lambda slope=slope: FederatedMixedLM().fit(tables, outcomes, persons, slope))
        compared(f"{title}, REML, {ROWS:,} rows of {PATIENTS:,} patients, {COLUMNS} columns", ours, others)


def _by_statsmodels(X: np.ndarray, y: np.ndarray, patient: np.ndarray, slope: bool) -> Callable[[], object]:
    from statsmodels.api import MixedLM, add_constant

    random = np.column_stack((np.ones(len(y)), X[:, 0])) if slope else np.ones((len(y), 1))
    return lambda: MixedLM(y, add_constant(X), groups=patient, exog_re=random).fit()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main("--without-statsmodels" not in sys.argv[1:])
