"""A matrix on a device, cut along one axis into panels that each have memory of their own.

One allocation for all of a large matrix is given back when nothing refers to any of it. Here a panel that has been sent
is dropped, and its memory is free for what the next role makes of it: columns under P shrink as the sum of them grows.
Entries that were never written read as zero. The array library decides whether what is read is a view: a reader must
not write to it.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from fedsvd.errors import LocalProtocolError
from fedsvd.linalg.backend import namespace
from fedsvd.types import Array, expect_shape

Key = slice | tuple[slice, slice]


class DevicePanels:
    """An m x n matrix of float64 where ``like`` lies; ``cuts`` are panels along ``axis`` to have from the start."""

    def __init__(self, shape: tuple[int, int], axis: int, like: Array, cuts: Sequence[slice] = ()) -> None:
        self.shape = shape
        self._axis, self._like, self._xp = axis, like, namespace(like)
        self._parts: dict[int, tuple[slice, Array]] = {}
        self._dropped = False
        for place in cuts:
            self._parts[place.start] = place, self._made(place, self._xp.empty)

    def __repr__(self) -> str:
        return f"DevicePanels({self.shape[0]} x {self.shape[1]}, panels={len(self._parts)})"

    def __getitem__(self, key: Key) -> Array:
        along, across = self._places(key)
        found = []
        for place, own in self._pieces(along):
            if own is None:
                whole = self._made(place, self._xp.zeros)
                found.append(whole[self._index(slice(None), across)])
            else:
                begin, part = own
                found.append(part[self._index(_shifted(place, begin), across)])
        return found[0] if len(found) == 1 else self._xp.concat(found, axis=self._axis)

    def __setitem__(self, key: Key, block: Array) -> None:
        along, across = self._places(key)
        rows, columns = self._index(along, across)
        expect_shape("block", block, rows.stop - rows.start, columns.stop - columns.start)
        whole = across == slice(0, self.shape[1 - self._axis])
        for place, own in list(self._pieces(along)):
            given = block[self._index(_shifted(place, along.start), slice(None))]
            if own is not None:
                begin, part = own
                part[self._index(_shifted(place, begin), across)] = given
            elif whole:
                self._parts[place.start] = place, self._xp.asarray(given, copy=True)
            else:
                part = self._made(place, self._xp.zeros)
                part[self._index(slice(None), across)] = given
                self._parts[place.start] = place, part

    def panels(self) -> Iterator[tuple[slice, Array]]:
        """Where each panel that was written lies along the axis, and the panel, in order."""
        return iter([self._parts[begin] for begin in sorted(self._parts)])

    def drop(self, along: slice) -> None:
        """Forget the panels that lie in this place: they cannot be read again."""
        for begin, (place, _) in list(self._parts.items()):
            if along.start <= begin and place.stop <= along.stop:
                del self._parts[begin]
                self._dropped = True

    def _made(self, place: slice, make: Any) -> Array:
        length, other = place.stop - place.start, self.shape[1 - self._axis]
        shape = (length, other) if self._axis == 0 else (other, length)
        return make(shape, dtype=self._like.dtype, device=self._like.device)

    def _places(self, key: Key) -> tuple[slice, slice]:
        """Where a key points along the axis, and across it."""
        keys = key if isinstance(key, tuple) else (key, slice(None))
        rows, columns = (slice(*each.indices(size)[:2]) for each, size in zip(keys, self.shape, strict=True))
        return (rows, columns) if self._axis == 0 else (columns, rows)

    def _index(self, along: slice, across: slice) -> tuple[slice, slice]:
        return (along, across) if self._axis == 0 else (across, along)

    def _pieces(self, along: slice) -> Iterator[tuple[slice, tuple[int, Array] | None]]:
        """The place cut at the ends of panels; with each piece the start of its panel and the panel, where one is."""
        start = along.start
        for begin in sorted(self._parts):
            place, part = self._parts[begin]
            if place.stop <= start or begin >= along.stop:
                continue
            if begin > start:
                yield self._gap(slice(start, begin)), None
            start, first = min(along.stop, place.stop), max(start, begin)
            yield slice(first, start), (begin, part)
        if start < along.stop:
            yield self._gap(slice(start, along.stop)), None

    def _gap(self, place: slice) -> slice:
        if self._dropped:
            raise LocalProtocolError("a panel was asked for after it was dropped")
        return place


def _shifted(place: slice, start: int) -> slice:
    return slice(place.start - start, place.stop - start)
