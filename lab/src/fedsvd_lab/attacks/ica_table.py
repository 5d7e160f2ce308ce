"""Table 3 of the paper, ICA attacks, with what it leaves out: nulls, p-values, the attack that works, and our schemes.

Each row is one attack on what the CSP saw of one data set under one scheme, averaged over repeats with fresh masks. The
paper's own score stands next to the matched one, its null and its p-value. The paper's rows ("random values", "ICA" on
one block, "ICA(b)" on the true blocks) are followed by the masked matrix without any attack, the alternating attack,
and the same attacks under ``sum`` (mode B) and ``mask``. Entries found exactly are counted where data is whole numbers
from 0 to 5.

p-values here are of single runs (``calibration.py`` tests many), of the records' side. An attack on both sides leaves
records in an order of its own inside each block, so its p-value is a guide and its exact entries are the measure.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from fedsvd.audit.attacks.alternating import Unmasked, WholeNumbers, alternate, alternating_ica
from fedsvd.audit.attacks.score import exact_entries, score
from fedsvd.audit.attacks.unmix import Cuts, unmixed_rows
from fedsvd.types import Float
from fedsvd_lab.attacks.calibration import BLOCKS, in_blocks, seen_by_csp
from fedsvd_lab.attacks.referee import aligned, as_published, published_baseline
from fedsvd_lab.attacks.rica import rica
from fedsvd_lab.published.block_diagonal import BlockDiagonal

_WIDE = 200
_COLUMNS = ("mnist", "ml-100k", "wine")
_TABLE_3 = {
    ("random values", 0): (0.12590, 0.17957, 0.49313),
    ("ICA", 10): (0.20329, 0.18623, 0.44268),
    ("ICA(b)", 10): (0.32029, 0.28434, 0.45971),
    ("ICA", 100): (0.12590, 0.18387, 0.45183),
    ("ICA(b)", 100): (0.13051, 0.20910, 0.45826),
    ("ICA", 1000): (0.11104, 0.18020, 0.44712),
    ("ICA(b)", 1000): (0.12531, 0.18057, 0.44862),
}
PUBLISHED: dict[tuple[str, str, int], float] = {
    (name, *row): figure for row, figures in _TABLE_3.items() for name, figure in zip(_COLUMNS, figures, strict=True)
}
"""Table 3 of the paper: (data set, attack, b) to its score."""


@dataclass(frozen=True)
class Subject:
    """A data set under attack: samples in rows; ``whole`` where entries are known to be whole numbers from 0 to 5."""

    name: str
    X: Float
    whole: bool = False

    def __repr__(self) -> str:
        return f"Subject({self.name}, {self.X.shape})"


@dataclass(frozen=True)
class Row:
    """One attack on one scheme: the paper's figure and ours, the null, and entries found exactly."""

    dataset: str
    shape: tuple[int, int]
    scheme: str
    b: int
    attack: str
    published: float | None
    as_published: float | None  # where there is a column to every record
    random_values: float
    largest: float
    matched: float
    null: float
    p: float
    exact: float | None
    repeats: int
    iterations: int

    def record(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, repr=False)
class Seen:
    """``Y = P X Q`` as the CSP saw it, features in rows; and P and Q for the referee, where they are blocks."""

    Y: Float
    P: BlockDiagonal | None = None
    Q: BlockDiagonal | None = None


Attack = Callable[[Seen, int], tuple[Float, Float | None]]
Report = Callable[[str, int, int], None]


def ica_table(
    dataset: Subject,
    widths: Sequence[int] = (10, 100, 1000),
    repeats: int = 3,
    seed: int = 0,
    quick: bool = True,
    schemes: Sequence[str] = ("blocks", "sum", "mask"),
    report: Report | None = None,
) -> list[Row]:
    """The table's rows for one data set; ``quick`` fits the paper's ICA for fewer iterations than the paper did."""
    X = dataset.X
    random = float(np.mean([published_baseline(X, seed + repeat) for repeat in range(repeats)]))
    rows = [_random_row(dataset, random, repeats, seed)]
    for scheme in schemes:
        for b in widths if scheme == "blocks" else (max(w for w in widths if w <= min(100, max(X.shape))),):
            runs = [seen_of(X, scheme, b, seed + repeat) for repeat in range(repeats)]
            for name, attack, iterations in _attacks(dataset, scheme, b, quick):
                if name == "ICA(b)" and b >= max(X.shape):  # one block is all there is: the same attack again
                    figure = PUBLISHED.get((dataset.name, name, b))
                    rows.append(replace(rows[-1], attack=name, published=figure))
                else:
                    rows.append(_row(dataset, scheme, b, name, attack, iterations, runs, seed, random))
                if report is not None:
                    report(f"{dataset.name} {scheme} b={b} {name}", len(rows), 0)
    return rows


def seen_of(X: Float, scheme: str, b: int, seed: int) -> Seen:
    """What the CSP sees of a table, samples in rows, whose halves two parties hold."""
    if scheme == BLOCKS:
        return Seen(*in_blocks(X.T, b, seed))
    return Seen(seen_by_csp(np.array_split(X, 2), scheme, seed))


def _attacks(dataset: Subject, scheme: str, b: int, quick: bool) -> list[tuple[str, Attack, int]]:
    most = 40 if quick else 1000
    whole = Cuts.of_width(dataset.X.shape, max(dataset.X.shape))
    blocks = Cuts.of_width(dataset.X.shape, b)

    def published(cuts: Cuts, iterations: int) -> Attack:
        return lambda run, seed: (rica(run.Y.T, cuts, seed, iterations), None)

    def whitened(run: Seen, seed: int) -> tuple[Float, Float | None]:
        found, _ = unmixed_rows(run.Y.T, Cuts.of_width(_shape(run.Y.T), b).rows, np.random.default_rng(seed))
        return np.abs(found), None

    attacks: list[tuple[str, Attack, int]] = [("masked, no attack", lambda run, seed: (run.Y.T, None), 0)]
    if scheme == "blocks":
        attacks += [("ICA", published(whole, most), most), ("ICA(b)", published(blocks, 3 * most), 3 * most)]
    attacks += [("whitened, one side", whitened, 200), ("alternating", _alternating(dataset, b, quick), 200)]
    return attacks


def _alternating(dataset: Subject, b: int, quick: bool) -> Attack:
    known = WholeNumbers() if dataset.whole else None

    def attack(run: Seen, seed: int) -> tuple[Float, Float | None]:
        Y = run.Y
        cuts = Cuts.of_width(_shape(Y), b)
        if quick and b > _WIDE:  # cubic in b, and hopeless there: a short try says so as well as a long one
            estimate = alternate(Y, cuts, seed, rounds=2, iterations=20)
        else:
            estimate = alternating_ica(Y, cuts, known, seed)
        return estimate.found.T, referee(run, estimate, cuts)

    return attack


def referee(run: Seen, estimate: Unmasked, cuts: Cuts) -> Float | None:
    """The estimate in the true order inside each block, (samples, features), where there are blocks to speak of."""
    if run.P is None or run.Q is None or len(run.P.blocks) != len(cuts.rows):
        return None
    P, Q = ([block.explicit() for block in mask.blocks] for mask in (run.P, run.Q))
    return aligned(estimate, P, Q, cuts).T


def _row(
    dataset: Subject,
    scheme: str,
    b: int,
    name: str,
    attack: Attack,
    iterations: int,
    runs: Sequence[Seen],
    seed: int,
    random: float,
) -> Row:
    X, figures, exact = dataset.X, [], []
    for repeat, run in enumerate(runs):
        found, ordered = attack(run, seed + repeat)
        fits = found.shape == X.shape
        scored = score(found, X, seed=seed + repeat)
        published = as_published(found, X) if fits else float("nan")
        figures.append((published, scored.largest, scored.matched, float(scored.null.mean()), scored.p))
        if dataset.whole and fits:
            exact.append(exact_entries(np.clip(found if ordered is None else ordered, 0.0, 5.0), X)[0])
    as_they_score, largest, matched, null, p = (float(mean) for mean in np.mean(figures, axis=0))
    return Row(
        dataset=dataset.name,
        shape=_shape(X),
        scheme=scheme,
        b=b,
        attack=name,
        published=PUBLISHED.get((dataset.name, name, b)) if scheme == "blocks" else None,
        as_published=None if np.isnan(as_they_score) else as_they_score,
        random_values=random,
        largest=largest,
        matched=matched,
        null=null,
        p=p,
        exact=float(np.mean(exact)) if exact else None,
        repeats=len(runs),
        iterations=iterations,
    )


def _random_row(dataset: Subject, random: float, repeats: int, seed: int) -> Row:
    X = dataset.X
    scored = score(np.random.default_rng(seed).random(X.shape), X, seed=seed)
    known = PUBLISHED.get((dataset.name, "random values", 0))
    figures = (scored.largest, scored.matched, float(scored.null.mean()), scored.p)
    return Row(dataset.name, _shape(X), "-", 0, "random values", known, random, random, *figures, None, repeats, 0)


def _shape(X: Float) -> tuple[int, int]:
    return X.shape[0], X.shape[1]
