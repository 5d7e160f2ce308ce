"""The top of many features against one place: PCA and LSA by steps, or by what ``auto`` takes.

    taskset -c 0-15 python -m benchmarks.many_features [NAME ...] [--turns N] [--out FILE] [--scheme S] [--list]

Every row is a study of several parties in one process, its data in memory, and the rivals are run on the same data in
the same process: scikit-learn's own choice and ARPACK, of which the faster counts. Times are the best of the turns;
each row has its bytes, its steps, and what each part of the work took. BLAS has as many threads as the process has
cores: pin it. Data is random with a seed; what spectrum it has is in the row's text, because the number of steps
depends on it.
"""

import argparse
import json
import os
import warnings
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import scipy.sparse

from benchmarks.measure import bytes_by_party, fingerprint, longest_parts, unknown_groups
from fedsvd.data.open import open_source
from fedsvd.protocol.tasks import Item, Split, Task
from fedsvd.studies.parties import PartyData
from fedsvd.studies.run import Outcome, run_study
from fedsvd.studies.study import Study

Table = Any  # an array, or a sparse matrix


@dataclass(frozen=True)
class Case:
    """A study, what its data are, and the largest ratio to the faster rival on sixteen cores and on two."""

    about: str
    data: Callable[[], Table]
    components: int
    parties: int
    sixteen: float
    two: float
    scheme: str = "auto"
    task: Task = Task.PCA
    split: Split = Split.HORIZONTAL
    rivals: tuple[str, ...] = ("auto", "arpack")
    repeats: int = field(default=3)


def factors(n: int, m: int, count: int = 20) -> Table:
    """Factors of falling size, and noise of unit size in every entry: the last wanted one is far above the noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, m))
    loadings = rng.standard_normal((count, m)) * np.linspace(1.5, 0.5, count)[:, None]
    X += rng.standard_normal((n, count)) @ loadings
    return X


def genotypes(n: int, m: int) -> Table:
    """0, 1 and 2 of three populations whose frequencies differ: two components are above the noise, and no third."""
    rng = np.random.default_rng(0)
    common = rng.uniform(0.1, 0.5, m)
    G = np.empty((n, m))
    for population in range(3):
        frequency = np.clip(common + 0.06 * rng.standard_normal(m), 0.02, 0.98)
        members = np.arange(population, n, 3)
        for start in range(0, len(members), 100):
            some = members[start : start + 100]
            G[some] = rng.binomial(2, frequency, (len(some), m))
    return G


def movielens() -> Table:
    """Which user rated which film in MovieLens 1M, 1,000,209 ones; None where the data is not on this machine.

    The folder is ``$FEDSVD_DATA``, or ``../shared/data``; ``ml-1m/interactions.npz`` holds pairs without stars.
    """
    folders = [os.environ.get("FEDSVD_DATA"), "../shared/data", "../../shared/data"]
    files = [Path(folder) / "ml-1m" / "interactions.npz" for folder in folders if folder]
    file = next((file for file in files if file.is_file()), None)
    if file is None:
        return None
    pairs = np.load(file)
    i, j = (np.unique(pairs[name], return_inverse=True)[1] for name in ("user_id", "movie_id"))
    return scipy.sparse.csr_array((np.ones(len(i)), (i, j)))


def ratings(users: int = 6_040, items: int = 3_706, count: int = 1_000_000) -> Table:
    """As many ratings of 1 to 5 as MovieLens 1M has, of items and by users of falling activity, with twelve tastes."""
    rng = np.random.default_rng(0)
    active, popular = rng.pareto(1.5, users) + 0.2, rng.pareto(1.0, items) + 0.05
    drawn = np.zeros(0, np.int64)
    while len(drawn) < count:  # a user rates an item once
        more = rng.choice(users, count, p=active / active.sum()) * items
        more += rng.choice(items, count, p=popular / popular.sum())
        drawn = np.unique(np.concatenate((drawn, more)))
    i, j = np.divmod(rng.permutation(drawn)[:count], items)
    taste = np.einsum("rc,rc->r", rng.standard_normal((users, 12))[i], rng.standard_normal((items, 12))[j])
    value = np.clip(np.round(3.5 + 0.5 * taste + rng.standard_normal(count)), 1.0, 5.0)
    return scipy.sparse.coo_array((value, (i, j)), shape=(users, items)).tocsr()


CASES = {
    "pca-30000x8000": Case(
        "PCA top 10 of 30,000 x 8,000, 20 factors and noise", lambda: factors(30_000, 8_000), 10, 3, 2.0, 2.0
    ),
    "pca-20000x1000": Case(
        "PCA top 5 of 20,000 x 1,000, 20 factors and noise", lambda: factors(20_000, 1_000), 5, 2, 3.0, 2.5
    ),
    "pca-20000x2000": Case(
        "PCA top 5 of 20,000 x 2,000, 20 factors and noise", lambda: factors(20_000, 2_000), 5, 2, 3.0, 2.5
    ),
    "pca-20000x4000": Case(
        "PCA top 5 of 20,000 x 4,000, 20 factors and noise", lambda: factors(20_000, 4_000), 5, 2, 3.0, 2.5
    ),
    "pca-600x20000": Case(
        "PCA top 10 of 600 x 20,000, 20 factors and noise", lambda: factors(600, 20_000), 10, 3, 6.0, 4.0, "steps"
    ),
    "pca-3000x8000": Case(
        "PCA top 10 of 3,000 x 8,000, 20 factors and noise", lambda: factors(3_000, 8_000), 10, 3, 6.0, 4.0, "steps"
    ),
    "genotypes-top2": Case(
        "PCA top 2 of 1,500 x 50,000 genotypes, three populations",
        lambda: genotypes(1_500, 50_000),
        2,
        3,
        1.0,
        1.0,
        scheme="steps",
        rivals=("arpack",),
    ),
    "genotypes-top10": Case(
        "PCA top 10 of 1,500 x 50,000 genotypes, three populations",
        lambda: genotypes(1_500, 50_000),
        10,
        3,
        1.1,
        1.0,
        rivals=("arpack",),
    ),
    "lsa-ml1m": Case(
        "LSA top 100 of MovieLens 1M, 6,040 x 3,706, who rated what, 1,000,209 ones, split columns",
        movielens,
        100,
        3,
        3.0,
        3.0,
        scheme="steps",
        task=Task.LSA,
        split=Split.VERTICAL,
        rivals=("arpack",),
        repeats=2,
    ),
    "lsa-ratings": Case(
        "LSA top 100 of 6,040 x 3,706 made ratings, 1,000,000 of them, split columns",
        ratings,
        100,
        3,
        3.0,
        3.0,
        scheme="steps",
        task=Task.LSA,
        split=Split.VERTICAL,
        rivals=("arpack",),
        repeats=2,
    ),
}


def study_of(case: Case, scheme: str) -> Study:
    """The study as a user would ask for it; singular values are part of what it gives, as they are of the rivals'."""
    released = (Item.COMPONENTS, Item.SPECTRUM, Item.MEAN, Item.OWN_PART) if case.task is Task.PCA else None
    return Study(case.task, case.split, components=case.components, scheme=scheme, release=released)


def parts_of(case: Case, X: Table) -> list[Table]:
    """Each party's records, or its columns."""
    by_rows = case.split is Split.HORIZONTAL
    ends = np.linspace(0, X.shape[0 if by_rows else 1], case.parties + 1).astype(int)
    places = [slice(a, b) for a, b in pairwise(ends)]
    return [X[place] if by_rows else X[:, place] for place in places]


def rival(case: Case, X: Table, solver: str) -> tuple[float, Any]:
    """Seconds of scikit-learn, and its singular values."""
    from sklearn.decomposition import PCA, TruncatedSVD  # after fedsvd, which sets how long BLAS threads spin

    started = perf_counter()
    if case.task is Task.PCA:
        found = PCA(case.components, svd_solver=solver, random_state=0).fit(X)
    else:
        how = "randomized" if solver == "auto" else solver
        found = TruncatedSVD(case.components, algorithm=how, random_state=0).fit(X)
    return perf_counter() - started, np.asarray(found.singular_values_)


def ours(case: Case, parties: list[PartyData], scheme: str) -> tuple[float, float, Outcome]:
    """Seconds, processor seconds, and what came of it."""
    started, used = perf_counter(), process_time()
    found = run_study(study_of(case, scheme), parties)
    return perf_counter() - started, process_time() - used, found


def measured(name: str, case: Case, scheme: str, turns: int) -> dict[str, Any]:
    """One row: ours and the rivals in turns."""
    X = case.data()
    parties = [PartyData(open_source(part)) for part in parts_of(case, X)]
    times: defaultdict[str, list[float]] = defaultdict(list)
    best: tuple[float, float, Outcome] | None = None
    exact = np.zeros(0)
    for _ in range(turns or case.repeats):
        for solver in case.rivals:
            seconds, values = rival(case, X, solver)
            times[solver].append(seconds)
            exact = values if solver == "arpack" else exact
        run = ours(case, parties, scheme)
        times["ours"].append(run[0])
        best = run if best is None or run[0] < best[0] else best
    assert best is not None
    least = {which: min(each) for which, each in times.items()}
    against = min(case.rivals, key=lambda solver: least[solver])
    cores = len(os.sched_getaffinity(0))
    ratio, bar = least["ours"] / least[against], case.two if cores <= 2 else case.sixteen
    return {
        "name": name,
        "about": f"{case.about}, {case.parties} parties",
        "cores": cores,
        "seconds": round(least["ours"], 4),
        "processor_seconds": round(best[1], 3),
        "rivals": {f"scikit-learn, {solver}": round(least[solver], 4) for solver in case.rivals},
        "ratio": round(ratio, 3),
        "bar": bar,
        "met": ratio <= bar,
        **described(best[2], exact),
    }


def described(outcome: Outcome, exact: Any) -> dict[str, Any]:
    """Scheme, bytes, steps, difference to ARPACK, and the seconds of each part."""
    certificate, plan = outcome.certificate, outcome.plan
    first = outcome.parties[0]
    links = bytes_by_party(certificate)
    order = getattr(first.checked, "order", None)
    values = np.asarray(first.sigma)
    off = float(np.abs(values - exact[: len(values)]).max() / exact[0]) if len(exact) else None
    return {
        "scheme": str(plan.scheme),
        "found": getattr(order, "record", dict)(),
        "bytes": links,
        "bytes_up_a_party": max(each["up"] for each in links.values()),
        "bytes_down_a_party": max(each["down"] for each in links.values()),
        "values_off": off,
        "parts": longest_parts(certificate),
    }


def warm_up() -> None:
    """A small study by each scheme and each rival: what is imported at the first one is not measured."""
    small = Case("", lambda: factors(60, 30), 2, 2, 1.0, 1.0)
    for solver in ("auto", "arpack"):
        rival(small, small.data(), solver)
    for scheme in ("steps", "auto"):
        ours(small, [PartyData(open_source(part)) for part in parts_of(small, small.data())], scheme)


def main() -> int:
    """Measure, print, write; the exit status says whether all bars were met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="rows by name; all where none is named")
    parser.add_argument("--turns", type=int, default=0, help="how often each is run; three times where left out")
    parser.add_argument("--scheme", default="", help="auto, steps, sum or mask, instead of the row's own")
    parser.add_argument("--out", default="", help="a file for the rows as JSON")
    parser.add_argument("--list", action="store_true")
    asked = parser.parse_args()
    if asked.list:
        print("\n".join(f"{name:18} {case.about}" for name, case in CASES.items()))
        return 0
    if fault := unknown_groups(asked.names, CASES):
        print(fault)
        return 2
    warnings.simplefilter("ignore")
    warm_up()
    rows = []
    for name in asked.names or list(CASES):
        case = CASES[name]
        if name == "lsa-ml1m" and movielens() is None:
            print("lsa-ml1m: MovieLens 1M is not on this machine; set FEDSVD_DATA to the folder that holds it")
            continue
        row = measured(name, case, asked.scheme or case.scheme, asked.turns)
        rows.append(row)
        print(json.dumps(row), flush=True)
        if asked.out:
            with open(asked.out, "w") as out:
                json.dump({"machine": fingerprint(), "rows": rows}, out, indent=1)
    return 0 if all(row["met"] for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
