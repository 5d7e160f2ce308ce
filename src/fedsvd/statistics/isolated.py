"""Which few records all opened counts of a table together tell apart, though none of them counts few.

A count is of a set of records, and users know it as it is or to a multiple of the least count. Records that are in the
same sets are one *class*; users know sums over classes. From exact counts they compute a set of classes where its
indicator lies in the span of the sets that were counted, in however many studies; from rounded counts, alone or next to
exact ones, where one number alone is left for it (``pinned.py``).

Not looked at: sums in which records have different weights, and what integers rule out that intervals do not. Where
counts have too many bins to be judged together, records of every class of few count as read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.statistics.pinned import MOST_CLASSES, pinned
from fedsvd.types import Float

Places = NDArray[np.intp]
Flags = NDArray[np.bool_]
Classes = frozenset[int]

MOST_BINS = 4000  # of all counts that are judged together
_MOST_TOGETHER = 1500  # classes whose unions are looked at
_MOST_UNIONS = 1 << 20
_ZERO, _DEPENDENT = 1e-7, 1e-11
_DIRECTIONS = (2.0, 7.0, 11.0)
_SQUARES = 1 << 22  # entries of an inverse that are looked up at a time
_WHOLE = 1 << 62


@dataclass(frozen=True, repr=False)
class Counted:
    """Counts of records up to each of some edges: the first edge that counts a record, ``edges`` where none does."""

    first: Places
    edges: int
    least: int = 1  # what counts are rounded to multiples of


def isolated(before: Sequence[Counted], now: Sequence[Counted], least: int) -> Flags:
    """Records in sets of fewer than ``least`` that all these counts give.

    Those that exact counts of the earlier studies alone give, or of this one, are left to the rules for one study.
    """
    every = [*before, *now]
    of, one_of, sizes = _classes(every)
    small = np.flatnonzero(sizes < least)
    if not len(small):
        return np.zeros(len(of), np.bool_)
    exact = np.array([each.least == 1 for each in every])
    earlier = np.arange(len(every)) < len(before)
    bins = [np.minimum(each.first, each.edges)[one_of] for each in every]
    held = _Bins.of(every, bins)
    if held is None:
        return np.asarray(sizes[of] < least)
    together = _Span(held, np.ones(len(every), np.bool_))
    known = together if exact.all() else _Span(held, exact)
    alone = [_Span(held, exact & some) for some in (earlier, ~earlier)]
    found = [*_in_span(small, sizes, together, alone, least)]
    if not exact.all():
        cells = (*found, *_few_bins(every, bins, sizes, least))
        open_to = [each for each in dict.fromkeys(cells) if not any(span.gives(each) for span in alone)]
        found = [each for each in open_to if known.gives(each)]
        rest = [each for each in open_to if not known.gives(each)]
        within = len(sizes) <= MOST_CLASSES
        counts = [(each, count.edges, count.least) for each, count in zip(bins, every, strict=True)]
        found += pinned(rest, counts, sizes) if within else rest
    chosen = np.zeros(len(sizes), np.bool_)
    chosen[[place for each in found for place in each]] = True
    return np.asarray(chosen[of])


def _classes(every: Sequence[Counted]) -> tuple[Places, Places, Places]:
    """Of every record its class; of every class a record of it, and how many there are."""
    code, values = np.zeros(len(every[0].first), np.int64), 1
    for each in every:
        if values * (each.edges + 1) >= _WHOLE:
            found, code = np.unique(code, return_inverse=True)
            values = len(found)
        code = code.ravel() * (each.edges + 1) + np.minimum(each.first, each.edges)
        values *= each.edges + 1
    _, one_of, of, sizes = np.unique(code, return_index=True, return_inverse=True, return_counts=True)
    return of.ravel(), one_of, sizes


@dataclass(frozen=True, repr=False)
class _Bins:
    """Which classes are in which bins of which counts, and how many of them two bins have in common."""

    indicators: Any  # sparse, (classes, bins)
    common: Float
    count: Places  # that each bin is of

    @classmethod
    def of(cls, every: Sequence[Counted], places: list[Places]) -> "_Bins | None":
        """Bins that hold a class; None where they are too many."""
        from scipy.sparse import csr_array  # slow to import, and `job watch` never needs it

        starts = np.cumsum([0, *(each.edges for each in every)])
        held = np.column_stack(
            [np.where(at < each.edges, at + start, -1) for at, each, start in zip(places, every, starts, strict=False)]
        )
        used = np.unique(held[held >= 0])
        if len(used) > MOST_BINS:
            return None
        new = np.full(starts[-1] + 1, -1)
        new[used] = np.arange(len(used))
        columns = new[held[held >= 0]]
        rows = np.concatenate(([0], np.cumsum((held >= 0).sum(axis=1))))
        indicators = csr_array((np.ones(len(columns)), columns, rows), shape=(len(held), len(used)))
        common = (indicators.T @ indicators).toarray()
        return cls(indicators, common, np.searchsorted(starts, used, side="right") - 1)


class _Span:
    """What sums over classes follow from some of the counts: their bins' indicators, an independent choice of them."""

    def __init__(self, bins: _Bins, those: Flags) -> None:
        from scipy.linalg import cho_solve, lapack

        chosen = np.flatnonzero(those[bins.count])
        k = 1.0 + np.arange(bins.indicators.shape[0])
        self.left: Float = np.column_stack([np.modf(k * np.sqrt(root))[0] - 0.5 for root in _DIRECTIONS])
        if not len(chosen):
            self._bins, self._factor = bins.indicators[:, :0], np.empty((0, 0))
            return
        common = bins.common[np.ix_(chosen, chosen)]
        size = np.sqrt(np.diag(common))
        _, order, rank, _ = lapack.dpstrf(common / np.outer(size, size), tol=_DEPENDENT)
        kept = np.sort(order[:rank] - 1)
        self._factor = np.asarray(lapack.dpotrf(common[np.ix_(kept, kept)])[0])
        self._bins = bins.indicators[:, chosen[kept]]
        for _ in range(2):  # once more for what rounding leaves
            self.left -= self._bins @ cho_solve((self._factor, False), self._bins.T @ self.left)

    def gives(self, classes: Classes) -> bool:
        return bool(np.abs(self.left[list(classes)].sum(axis=0)).max() < _ZERO)

    def shares(self, classes: Places) -> Float:
        """How much of each class's indicator lies in the span: a set of m classes in it has 1 / m of each."""
        from scipy.linalg import lapack

        found = np.zeros(len(classes))
        if not len(self._factor):
            return found
        upper = np.asarray(lapack.dpotri(self._factor)[0])
        inverse = np.triu(upper) + np.triu(upper, 1).T
        rows = self._bins[classes]
        widest = max(1, int(np.diff(rows.indptr).max(initial=1)))
        step = max(1, _SQUARES // widest**2)
        for start in range(0, len(classes), step):
            part = rows[start : start + step]
            held = np.diff(part.indptr)
            at = np.zeros((len(held), widest), np.intp)
            there = np.arange(widest) < held[:, None]
            at[there] = part.indices
            squares = inverse[at[:, :, None], at[:, None, :]] * (there[:, :, None] & there[:, None, :])
            found[start : start + step] = squares.sum(axis=(1, 2))
        return found


def _in_span(small: Places, sizes: Places, together: _Span, alone: list[_Span], least: int) -> Iterator[Classes]:
    """Unions of up to four classes, of fewer than ``least`` records, that all counts give and neither part does."""
    small = small[together.shares(small) > 1.0 / (least - 1) - _ZERO]
    given = np.abs(together.left[small]).max(axis=1) < _ZERO
    yield from _new([frozenset((j,)) for j in small[given].tolist()], alone)
    others = small[~given]
    others = others[np.argsort(sizes[others], kind="stable")]
    if len(others) > _MOST_TOGETHER:  # of so many each counts as given
        yield from _new([frozenset((j,)) for j in others[_MOST_TOGETHER:].tolist()], alone)
        others = others[:_MOST_TOGETHER]
    yield from _new(_unions(others, sizes, together.left, least), alone)


def _new(found: list[Classes], alone: list[_Span]) -> Iterator[Classes]:
    yield from (each for each in found if not any(span.gives(each) for span in alone))


def _unions(others: Places, sizes: Places, left: Float, least: int) -> list[Classes]:
    """Unions of two to four of these classes of which nothing is left."""
    a, b = np.triu_indices(len(others), 1)
    fits = sizes[others[a]] + sizes[others[b]] < least
    a, b = others[a[fits]], others[b[fits]]
    pairs = left[a] + left[b]
    whole = np.abs(pairs).max(axis=1, initial=0.0) < _ZERO
    found = [frozenset(each) for each in zip(a[whole].tolist(), b[whole].tolist(), strict=True)]
    a, b, pairs = a[~whole], b[~whole], pairs[~whole]
    first, second = np.concatenate((a, others)), np.concatenate((b, others))  # a class alone is a pair of itself
    sums = np.vstack((pairs, left[others]))
    order = np.argsort(sums[:, 0])
    sorted_sums = sums[order, 0]
    low = np.searchsorted(sorted_sums, -pairs[:, 0] - _ZERO)
    many = np.searchsorted(sorted_sums, -pairs[:, 0] + _ZERO) - low
    if many.sum() > _MOST_UNIONS:
        return [*found, *(frozenset((j,)) for j in others.tolist())]
    pair = np.repeat(np.arange(len(pairs)), many)
    match = order[np.repeat(low - np.cumsum(many) + many, many) + np.arange(many.sum())]
    close = np.abs(pairs[pair] + sums[match]).max(axis=1, initial=0.0) < _ZERO
    for i, j in zip(pair[close].tolist(), match[close].tolist(), strict=True):
        one, other = {int(a[i]), int(b[i])}, {int(first[j]), int(second[j])}
        if not one & other and sizes[list(one | other)].sum() < least:
            found.append(frozenset(one | other))
    return list(dict.fromkeys(found))


def _few_bins(every: Sequence[Counted], bins: list[Places], sizes: Places, least: int) -> Iterator[Classes]:
    """Bins of every count that hold some records and fewer than ``least``."""
    for each, places in zip(every, bins, strict=True):
        held = np.bincount(places, weights=sizes, minlength=each.edges + 1)[: each.edges]
        for place in np.flatnonzero((held > 0) & (held < least)).tolist():
            yield frozenset(np.flatnonzero(places == place).tolist())
