"""Which rows belong together where features are split, by what the tables themselves call their rows.

A pandas index names rows unless it only counts them: 0, 1, 2, ... is what every frame gets that was not given another,
and says nothing. An index of whole numbers that is not that one (a shuffled or a filtered frame) does say something,
also next to one that is. Parties' labels become row ids, which the session compares under a key (``RowIds``).

Labels come as the parties hold them: one array for the joint samples, or one per party where samples are split.
"""

import os
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array

from fedsvd.data.frames import index_labels
from fedsvd.data.open import open_source
from fedsvd.errors import ConfigError, EmptyData, NotFinite, NotNumeric, RowsDiffer, ShapeError
from fedsvd.protocol.tasks import Split
from fedsvd.types import Float

_NUMBERS = 'give numbers: (values == "yes").astype(float), say'
NUMBERS_OR_CLASSES = "give numbers; for classes fit FederatedLogisticRegression, which takes labels as they are"
Labels = NDArray[Any] | None
_FIX = 'bring the rows into one order (sort_index, or frame.reindex(other.index)); ids="trust" if they are in one'


def labels_of(table: Any) -> Labels:
    """What a table in memory calls its rows; a file is not opened for that, and has no index."""
    return None if isinstance(table, str | os.PathLike) else open_source(table).row_labels()


def ids_from(labels: Sequence[Labels]) -> tuple[Labels, ...]:
    """Row ids for all parties, or for none where their labels do not show whether rows belong together.

    Where some parties have no labels, those that have are compared here: a difference among them is an error too.
    """
    known = [own for own in labels if own is not None and not _only_counts(own)]
    whole = all(own.dtype.kind in "iu" for own in known)
    # A plain count next to names or dates is a frame without ids; next to other whole numbers it is another order.
    usable = [own if own is not None and (whole or not _only_counts(own)) else None for own in labels]
    if not known:
        return (None,) * len(labels)
    if all(own is not None for own in usable):
        return tuple(own if own is None else _numbered(own) for own in usable)
    first, *others = [own for own in usable if own is not None]
    for other in others:
        expect_same(first, other, "the indexes of two parties' tables")
    return (None,) * len(labels)


def expect_labels_fit(y: Any, tables: Sequence[Labels], split: Split, holder: int) -> None:
    """Refuse a y whose index is not that of the table it belongs to; one array for all samples, or a list by party."""
    if split is Split.VERTICAL:
        _expect_fit(y, tables[holder], f"party {holder + 1}'s table, which holds it (label_party),")
    elif isinstance(y, list | tuple):
        for number, (own, table) in enumerate(zip(y, tables, strict=False), start=1):
            _expect_fit(own, table, f"party {number}'s table")
    elif all(own is not None for own in tables):
        _expect_fit(y, np.concatenate([np.asarray(own) for own in tables]), "the parties' tables together")


def expect_same(one: NDArray[Any], other: NDArray[Any], what: str) -> None:
    """Raise ``RowsDiffer`` unless two tables call their rows alike, in one order."""
    if one.shape != other.shape:
        return  # the number of rows is checked elsewhere, with a message of its own
    differ = int(np.count_nonzero(one.astype(np.str_) != other.astype(np.str_)))
    if differ:
        raise RowsDiffer(f"{what} differ in {differ} of {len(one)} rows", _FIX)


def _expect_fit(y: Any, table: Labels, whose: str) -> None:
    index = getattr(y, "index", None)
    own = None if index is None or callable(index) else index_labels(index)
    if own is None or table is None or own.shape != table.shape:
        return
    if any(_only_counts(each) for each in (own, table)) and not _both_count(own, table):
        return  # one of the two was never given an index, or lost it
    expect_same(own, table, f"the index of y and that of {whose}")


def _both_count(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Whether both number the same rows 0, 1, 2, ..., be it in different orders."""
    return all(each.dtype.kind in "iu" and np.array_equal(np.sort(each), np.arange(len(each))) for each in (one, other))


def _only_counts(labels: NDArray[Any]) -> bool:
    """Whether this index is the one that no one gave: 0, 1, 2, ...; or says the same of every row."""
    if labels.dtype.kind in "iu" and np.array_equal(labels, np.arange(len(labels))):
        return True
    return len(labels) > 1 and bool((labels == labels[0]).all())


def _numbered(labels: NDArray[Any]) -> NDArray[np.str_]:
    """The labels as text; where some occur twice, each with its place among its like, since ids are distinct."""
    text = labels.astype(np.str_)
    _, group, counts = np.unique(text, return_inverse=True, return_counts=True)
    if len(counts) == len(text):
        return text
    order = np.argsort(group, kind="stable")
    place = np.empty(len(text), dtype=np.int64)
    place[order] = np.arange(len(text)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.strings.add(np.strings.add(text, "#"), place.astype(np.str_))


def joint_labels(y: Any, counts: Sequence[int], what: str = "y") -> Float:
    """All labels, float64, (n,) or (n, targets), for parties with these numbers of samples; or weights, an offset.

    A list of arrays with one for each party is put together; everything else is one array of labels.
    """
    if y is None:
        raise ConfigError("a regression requires y to be passed, but the target y is None", "give y to fit")
    if _by_party(y, counts):
        parts = [_checked(part, what, party) for party, part in enumerate(y, start=1)]
        if len({part.shape[1:] for part in parts}) > 1:
            raise ShapeError("parties have different numbers of targets", "give all parties the same targets")
        y = np.concatenate(parts)
        lengths = tuple(len(part) for part in parts)
        if lengths != tuple(counts):
            raise ShapeError(f"parties have {lengths} labels for {tuple(counts)} samples", "give one label per sample")
    by_party = isinstance(y, list | tuple) and len(y) not in (len(counts), sum(counts))
    if by_party and len(counts) > 1 and all(isinstance(part, np.ndarray) for part in y):
        raise ShapeError(f"{what} has {len(y)} arrays for {len(counts)} parties", "give one array for each party")
    labels = _checked(y, what)
    if len(labels) != sum(counts):
        raise ShapeError(f"y has {len(labels)} labels for {sum(counts)} samples", "give one label per sample")
    return labels


def cut(Y: Float, edges: Sequence[int]) -> list[Float]:
    """The parties' labels, cut where their samples are."""
    return [Y[start:stop] for start, stop in pairwise(edges)]


def _by_party(y: Any, counts: Sequence[int]) -> bool:
    return isinstance(y, list | tuple) and len(y) == len(counts) > 1 and all(np.ndim(part) > 0 for part in y)


def expect_no_text(values: Any, what: str) -> None:
    """Raise ``NotNumeric`` of text, before NumPy's own error, which would show the entry."""
    texts = np.asarray(values)
    if texts.dtype.kind in "USO" and any(isinstance(each, str) for each in texts.ravel().tolist()):
        raise NotNumeric(f"{what} holds text, not numbers", NUMBERS_OR_CLASSES if what == "y" else _NUMBERS)


def gaps(values: Any) -> NDArray[np.bool_]:
    """Which entries are None, NaN, NaT or pandas' NA."""
    given = values if isinstance(values, np.ndarray) else np.asarray(values, dtype=object)
    if given.dtype.kind in "fmM":
        return np.asarray(given != given)
    if given.dtype.kind not in "OT":
        return np.zeros(given.shape, dtype=bool)
    # NaN and NaT are the values that differ from themselves, and pandas' NA says neither.
    return np.array(
        [each is None or type(each).__name__ == "NAType" or bool(each != each) for each in given.ravel().tolist()],
        dtype=bool,
    ).reshape(given.shape)


def expect_complete(values: Any, what: str, party: int | None = None) -> None:
    """Raise for no entries, and for entries that are missing or infinite, with the party and the first row."""
    whose = what if party is None else f"{what} of party {party}"
    given = np.asarray(values)
    if not given.size:
        raise EmptyData(f"{whose} has no entries", "leave out a party that has no rows")
    bad = gaps(given)
    if given.dtype.kind == "f":
        bad |= np.isinf(given)
    rows = np.flatnonzero(bad.reshape(len(given), -1).any(axis=1)) if given.ndim else np.flatnonzero(bad)
    if len(rows):
        kind = "infinity" if given.dtype.kind == "f" and not np.isnan(given).any() else "NaN"
        raise NotFinite(
            f"{whose} contains {kind}: {len(rows)} of {len(given)} rows, the first is row {rows[0]} (counted from 0)",
            f"leave out these rows, of X and {what} alike",
        )


def _checked(y: Any, what: str, party: int | None = None) -> Float:
    expect_no_text(y, what)
    expect_complete(y, what, party)
    labels: Float = check_array(y, ensure_2d=False, dtype=np.float64, input_name=what)
    return labels
