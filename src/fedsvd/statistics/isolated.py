"""Which few records all opened counts of a table together tell apart, though none of them counts few.

A count is of a set of records, and users know it as it is or to a multiple of the least count. Records that are in the
same sets are one *atom*; users know sums over atoms. From exact counts they compute a set of atoms where its indicator
lies in the span of the sets that were counted, in however many studies; from rounded counts next to them where one
number alone is left for it: a linear programme has the same least and largest value.

Not looked at: sums in which records have different weights, and what integers rule out that intervals do not.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from fedsvd.types import Float

Places = NDArray[np.intp]
Atoms = frozenset[int]

_MOST_ATOMS = 1500
_MOST_TOGETHER = 200  # small atoms whose unions are looked at
_ZERO = 1e-7
_TURNS = 8  # programmes that look at all sets at once


@dataclass(frozen=True, repr=False)
class Counted:
    """Counts of records up to each of some edges: the first edge that counts a record, ``edges`` where none does."""

    first: Places
    edges: int
    least: int = 1  # what counts are rounded to multiples of

    def words(self) -> NDArray[np.bool_]:
        """Whether each record is counted up to each edge."""
        return np.asarray(self.first[:, None] <= np.arange(self.edges))


def isolated(before: Sequence[Counted], now: Sequence[Counted], least: int) -> NDArray[np.bool_]:
    """Records in sets of fewer than ``least`` that all these counts give, and neither the earlier nor the later ones.

    Where records are in too many different sets, those that differ from all but few others count as given.
    """
    every = [*before, *now]
    codes = np.column_stack([np.minimum(each.first, each.edges) for each in every])
    _, one_of, of, sizes = np.unique(codes, axis=0, return_index=True, return_inverse=True, return_counts=True)
    of, small = of.ravel(), np.flatnonzero(sizes < least)
    if not len(small):
        return np.zeros(len(of), np.bool_)
    if len(sizes) > _MOST_ATOMS:
        return np.asarray(sizes[of] < least)
    words = [each.words()[one_of].T.astype(np.float64) for each in every]
    exact = [each.least == 1 for each in every]
    spans = [_span(some) for some in _parts(words, exact, len(before))]
    together, known, alone = (_residues(span, small, len(sizes)) for span in (spans[0], *spans[2:]))
    found = [*_in_span(small, sizes, together, (known, alone), least)]
    if all(exact):
        flagged = found
    else:
        cells = (*found, *_cells(words, sizes, least))
        certain = _residues(spans[1], np.arange(len(sizes)), len(sizes))
        old, new = (_residues(span, np.arange(len(sizes)), len(sizes)) for span in spans[2:])
        open_to = [each for each in dict.fromkeys(cells) if not _given(each, old) and not _given(each, new)]
        flagged = [each for each in open_to if _given(each, certain)]
        rest = [each for each in open_to if not _given(each, certain)]
        flagged += _pinned(rest, words, [each.least for each in every], sizes)
    chosen = np.zeros(len(sizes), np.bool_)
    chosen[[atom for each in flagged for atom in each]] = True
    return np.asarray(chosen[of])


def _parts(words: list[Float], exact: list[bool], earlier: int) -> Iterator[list[Float]]:
    """All counts as if they were exact; those that are; of these the earlier and the later ones."""
    yield words
    for some in (range(len(words)), range(earlier), range(earlier, len(words))):
        yield [words[j] for j in some if exact[j]]


def _span(words: list[Float]) -> Float | None:
    """An orthonormal basis of the span of these counts, (atoms, rank); None without counts."""
    if not words:
        return None
    steps = np.vstack([np.diff(each, axis=0, prepend=0.0) for each in words])  # bins, sparser than counts up to edges
    values, vectors = np.linalg.eigh(steps.T @ steps)
    return np.asarray(vectors[:, values > values[-1] * len(values) * 1e-13])


def _residues(span: Float | None, atoms: Places, count: int) -> Float:
    """What the span leaves of each atom, in two fixed directions: (count, 2), NaN of the other atoms."""
    k = 1.0 + np.arange(count)
    directions = np.column_stack([np.modf(k * np.sqrt(root))[0] - 0.5 for root in (2.0, 7.0)])
    left = directions if span is None else directions - span @ (span.T @ directions)
    found = np.full((count, 2), np.nan)
    found[atoms] = left[atoms]
    return found


def _given(atoms: Atoms, residues: Float) -> bool:
    return bool(np.abs(residues[list(atoms)].sum(axis=0)).max() < _ZERO)


def _in_span(small: Places, sizes: Places, together: Float, judged: tuple[Float, Float], least: int) -> Iterator[Atoms]:
    """Unions of up to four atoms, of fewer than ``least`` records, that all counts give and neither part does."""
    single = [frozenset((j,)) for j in small.tolist()]
    alone = {each for each in single if _given(each, together)}
    yield from (each for each in single if each in alone and not any(_given(each, some) for some in judged))
    others = [each for each in single if each not in alone][:_MOST_TOGETHER]
    pairs = [a | b for a, b in combinations(others, 2) if sizes[list(a | b)].sum() < least]
    near: dict[tuple[int, int], list[Atoms]] = {}
    for some in (*others, *pairs):
        near.setdefault(_rounded(together[list(some)].sum(axis=0)), []).append(some)
    for pair in pairs:
        matches = {pair | some for some in _matches(near, -together[list(pair)].sum(axis=0)) if not pair & some}
        for union in (pair, *matches):
            few = _given(union, together) and sizes[list(union)].sum() < least
            if few and not any(_given(union, each) for each in judged):
                yield union


def _rounded(residue: Float) -> tuple[int, int]:
    return int(np.floor(residue[0] / _ZERO)), int(np.floor(residue[1] / _ZERO))


def _matches(near: dict[tuple[int, int], list[Atoms]], wanted: Float) -> Iterator[Atoms]:
    a, b = _rounded(wanted)
    for key in ((a + i, b + j) for i in (-1, 0, 1) for j in (-1, 0, 1)):
        yield from near.get(key, ())


def _cells(words: list[Float], sizes: Places, least: int) -> Iterator[Atoms]:
    """Bins of every count that hold some records and fewer than ``least``."""
    for each in words:
        for step in np.diff(each, axis=0, prepend=0.0):
            atoms = np.flatnonzero(step)
            if 0 < sizes[atoms].sum() < least:
                yield frozenset(atoms.tolist())


# --- rounded counts ---------------------------------------------------------------------------------------------------


def _pinned(sets: list[Atoms], words: list[Float], least: list[int], sizes: Places) -> list[Atoms]:
    """Sets for which exact and rounded counts leave one number alone."""
    from scipy.optimize import linprog  # slow to import, and `job watch` never needs it

    if not sets:
        return []
    rows = np.vstack(words)
    known = np.repeat(np.array(least, np.float64), [len(each) for each in words])
    own = rows @ sizes
    shown, off = known * np.rint(own / known), np.floor(known / 2.0)
    targets = np.zeros((len(sets), len(sizes)))
    for row, atoms in enumerate(sets):
        targets[row, list(atoms)] = 1.0
    exact = off == 0.0
    limits = {
        "A_ub": np.vstack((rows[~exact], -rows[~exact])),
        "b_ub": np.concatenate(((shown + off)[~exact], (off - shown)[~exact])),
    }
    limits |= {"A_eq": rows[exact], "b_eq": own[exact]} if exact.any() else {}
    left, held = np.ones(len(sets), np.bool_), targets @ sizes
    for turn in range(_TURNS):  # most are free: one programme shows it of many
        weights = np.where((np.arange(len(sets)) * (turn // 2 + 1)) % (turn // 2 + 2) < 1, 1.0, 0.3 * (turn // 2))
        if not left.any():
            return []
        sign = 1.0 if turn % 2 else -1.0
        x = linprog(sign * (weights * left) @ targets, **limits).x
        if x is not None:
            left &= np.abs(targets @ x - held) < 1.0 - _ZERO
    found = []
    for row in np.flatnonzero(left).tolist():
        ends = [linprog(sign * targets[row], **limits).x for sign in (1.0, -1.0)]
        values = [float(targets[row] @ x) for x in ends if x is not None]
        if len(values) == 2 and np.ceil(values[0] - 1e-6) == np.floor(values[1] + 1e-6):
            found.append(sets[row])
    return found
