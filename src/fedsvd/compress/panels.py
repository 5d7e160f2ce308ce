"""A source in panels, where they are computed with: in memory, or on a device.

A source that can make its numbers on a device (``columns_on``, ``rows_on``) does so, and nothing travels. Every other
panel is read here and moved there, the next one already on its way while the caller works on one.
"""

from collections.abc import Iterator

from fedsvd.data.source import MatrixSource
from fedsvd.linalg.device import Device
from fedsvd.types import Array


def columns_of(source: MatrixSource, start: int, stop: int, device: Device | None) -> Array:
    """Columns ``start .. stop-1``, shape (rows, stop - start)."""
    if device is None:
        return source.columns(start, stop)
    made = source.columns_on(device.xp, device.like.device, start, stop)
    return device.put(source.columns(start, stop)) if made is None else made


def rows_of(source: MatrixSource, start: int, stop: int, device: Device | None) -> Array:
    """Rows ``start .. stop-1``, shape (stop - start, columns)."""
    if device is None:
        return source.rows(start, stop)
    made = source.rows_on(device.xp, device.like.device, start, stop)
    return device.put(source.rows(start, stop)) if made is None else made


def column_panels(
    source: MatrixSource, width: int, device: Device | None, first: int = 0
) -> Iterator[tuple[slice, Array]]:
    """All columns from ``first`` on, in panels of ``width``; the last may be narrower."""
    return _panels(source, 1, width, device, first)


def row_panels(source: MatrixSource, height: int, device: Device | None) -> Iterator[tuple[slice, Array]]:
    """All rows, in panels of ``height``; the last may be lower."""
    return _panels(source, 0, height, device, 0)


def _panels(
    source: MatrixSource, axis: int, width: int, device: Device | None, first: int
) -> Iterator[tuple[slice, Array]]:
    end, read = source.shape[axis], (source.rows, source.columns)[axis]
    places = [slice(start, min(start + width, end)) for start in range(first, end, width)]
    if device is None:
        yield from ((place, read(place.start, place.stop)) for place in places)
        return
    make = (source.rows_on, source.columns_on)[axis]
    for done, place in enumerate(places):
        made = make(device.xp, device.like.device, place.start, place.stop)
        if made is None:
            rest = places[done:]
            yield from zip(rest, device.ahead(read(place.start, place.stop) for place in rest), strict=True)
            return
        yield place, made
