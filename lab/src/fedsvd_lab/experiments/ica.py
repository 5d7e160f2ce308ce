"""Table 3: ICA attacks on what the CSP sees, the paper's score next to a calibrated one (``lab.attacks.ica_table``).

Columns are schemes: the paper's blocks, and our two. The paper's own attacks exist for blocks only; the attack that
works is in the same table.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fedsvd_lab.attacks.ica_table import Row, Subject, ica_table
from fedsvd_lab.datasets import paper, real
from fedsvd_lab.datasets.library import Library
from fedsvd_lab.experiments.context import Context
from fedsvd_lab.experiments.ours import PAPER
from fedsvd_lab.experiments.rows import Case, Measurement

METHODS = {"blocks": PAPER, "sum": "FedSVD, sum", "mask": "FedSVD, mask", "-": "no scheme"}
_FILMS = 500


def cases(settings: Mapping[str, Any], context: Context) -> Iterator[Case]:
    """One case to each data set."""
    for name in settings["datasets"]:
        rows = settings["rows"].get(name, 0)
        key = {"dataset": name, "rows": rows or "all", "repeats": settings["repeats"]}
        yield Case(key, _attacked(name, rows, settings, context))


def _attacked(
    name: str, rows: int, settings: Mapping[str, Any], context: Context
) -> Callable[[], Iterator[Measurement]]:
    def run() -> Iterator[Measurement]:
        found = ica_table(
            subject(name, rows, context.library),
            widths=tuple(settings["widths"]),
            repeats=settings["repeats"],
            seed=context.seed,
            quick=settings["short"],
            report=lambda text, done, total: context.say(f"  {text}"),
        )
        for row in found:
            yield from _measurements(row)

    return run


def subject(name: str, rows: int, library: Library) -> Subject:
    """The matrix of the authors' attack study: no column of ones, Wine with its quality, the first rows of each."""
    if name == "wine":
        X = real.wine(library)
    elif name == "mnist":
        X = real.mnist(library)[0][:10_000]
    else:
        X = paper.most_rated(real.movielens(library), _FILMS)
    return Subject(name, X[: rows or len(X)], whole=name == "ml-100k")


def _measurements(row: Row) -> Iterator[Measurement]:
    case = {"attack": row.attack, "b": row.b or "-"}
    values = {
        "score as published": row.as_published,
        "matched correlation": row.matched,
        "matched correlation, null": row.null,
        "p-value": row.p,
        "entries found exactly": row.exact,
    }
    for metric, value in values.items():
        if value is not None:
            note = f"{row.repeats} repeats, {row.iterations} iterations at most"
            yield Measurement(METHODS[row.scheme], metric, value, case=case, scheme=row.scheme, note=note)
