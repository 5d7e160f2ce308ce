"""The pictures of a report, each from plain numbers: scree, scatter, bars, forest plot, and who was busy when."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedsvd.results.report import svg
from fedsvd.results.report.lettering import SIZE, in_columns, placed, shortened, text_width
from fedsvd.types import Float

MOST_POINTS = 2000
_SERIES = 6
_DRAWN = 8  # parties
_ROLE_NAME, _POINT_NAME, _BAR_NAME = 150.0, 190.0, 205.0  # the most that a name takes next to what it names
_ROLE = 30.0  # from one role to the next


def scree(values: Float, what: str, taken: int | None = None, threshold: Float | None = None) -> str:
    """One bar to each component; those that were not taken are hollow, and a line is what they had to exceed."""
    shown = values[:60]
    top = float(max(shown.max(initial=0.0), 1e-300 if threshold is None else threshold[:60].max(initial=1e-300)))
    across, up = (0.4, len(shown) + 0.6), (0.0, top * 1.05)
    plane = svg.axes(across, up, 240, "component", what, _counts(len(shown)))
    width = 0.7 * (plane.x(1) - plane.x(0))
    base = plane.y(0)
    bars = [
        svg.rect(
            plane.x(j + 1) - width / 2,
            plane.y(value),
            width,
            base - plane.y(value),
            "s1" if taken is None or j < taken else "box",
            f"{j + 1}: {value:.6g}",
        )
        for j, value in enumerate(shown.tolist())
    ]
    if threshold is not None:
        levels = threshold[: len(shown)].tolist()
        bars.append(svg.polyline([(plane.x(j + 1), plane.y(level)) for j, level in enumerate(levels)], "stroke s2"))
    return svg.drawing(f"{what} of the first {len(shown)} components", svg.WIDTH, 240, [*plane.parts, *bars])


def cumulative(shares: Float, what: str) -> str:
    """How much the first components hold together, 0 to 1."""
    shown = np.cumsum(shares)[:60]
    plane = svg.axes((0.4, len(shown) + 0.6), (0.0, 1.0), 240, "components", what, _counts(len(shown)))
    points = [(plane.x(j + 1), plane.y(value)) for j, value in enumerate(shown.tolist())]
    marks = [svg.dot(x, y, "s2", f"{j + 1}: {100 * shown[j]:.4g} %") for j, (x, y) in enumerate(points)]
    title = f"{what} of the first {len(shown)} components, added up"
    return svg.drawing(title, svg.WIDTH, 240, [*plane.parts, svg.polyline(points, "stroke s2"), *marks])


def scatter(points: Float, names: Sequence[str], labelled: Sequence[int], title: str, words: tuple[str, str]) -> str:
    """Points in a plane; a few of them with their names, as far as these do not overlap."""
    shown = points[_thinned(len(points))]
    across, up = svg.widened(shown[:, 0].tolist()), svg.widened(shown[:, 1].tolist())
    plane = svg.axes(across, up, 320, words[0], words[1])
    parts = [*plane.parts]
    if across[0] < 0 < across[1]:
        parts.append(svg.line(plane.x(0), plane.y(up[0]), plane.x(0), plane.y(up[1]), "zero"))
    if up[0] < 0 < up[1]:
        parts.append(svg.line(plane.x(across[0]), plane.y(0), plane.x(across[1]), plane.y(0), "zero"))
    places = [(plane.x(x), plane.y(y)) for x, y in shown.tolist()]
    parts.append(svg.dots(places, "s1"))
    marks = [(plane.x(float(points[j, 0])), plane.y(float(points[j, 1]))) for j in labelled]
    parts += [svg.dot(x, y, "s2", names[j]) for j, (x, y) in zip(labelled, marks, strict=True)]
    wanted = [(shortened(names[j], _POINT_NAME), mark) for j, mark in zip(labelled, marks, strict=True)]
    frame = (plane.x.start, plane.y.end - SIZE, plane.x.end, plane.y.start)
    for j, place in zip(labelled, placed(wanted, places, frame), strict=True):
        if place is not None:
            parts.append(svg.text(place[0], place[1], shortened(names[j], _POINT_NAME), css="name", says=names[j]))
    return svg.drawing(title, svg.WIDTH, 320, parts)


def limited(points: Float, limits: tuple[float | None, float | None], title: str, words: tuple[str, str]) -> str:
    """Points in a plane with a dashed limit across each axis, where there is one; those beyond one are orange."""
    ends = [float(max(points[:, axis].max(initial=0.0), limits[axis] or 0.0, 1e-300)) * 1.05 for axis in (0, 1)]
    plane = svg.axes((0.0, ends[0]), (0.0, ends[1]), 320, words[0], words[1])
    parts = [*plane.parts]
    if limits[0] is not None:
        parts.append(svg.line(plane.x(limits[0]), plane.y(0.0), plane.x(limits[0]), plane.y(ends[1]), "zero"))
    if limits[1] is not None:
        parts.append(svg.line(plane.x(0.0), plane.y(limits[1]), plane.x(ends[0]), plane.y(limits[1]), "zero"))
    beyond = np.zeros(len(points), dtype=bool)
    for axis, limit in enumerate(limits):
        beyond |= points[:, axis] > (np.inf if limit is None else limit)
    for chosen, css in ((~beyond, "s1"), (beyond, "s2")):
        shown = points[chosen][_thinned(int(chosen.sum()))]
        if len(shown):
            parts.append(svg.dots([(plane.x(x), plane.y(y)) for x, y in shown.tolist()], css))
    return svg.drawing(title, svg.WIDTH, 320, parts)


def bars(
    rows: Sequence[tuple[str, float]],
    title: str,
    span: tuple[float, float] | None = None,
    among: Sequence[tuple[str, float]] = (),
) -> str:
    """Horizontal bars from zero on one scale, each between its name and its number.

    Names stand left of the bars, or above them where one is long. Drawings that are compared share a scale, ``span``,
    and its place: they leave space for the names and numbers of all rows ``among`` them.
    """
    low, high = span or (min(0.0, *(value for _, value in rows)), max(0.0, *(value for _, value in rows)))
    widest = max(text_width(name) for name, _ in (*rows, *among))
    above = widest > _BAR_NAME
    left = 28.0 if above else max(widest + 12.0, 28.0)
    step, lead = (36.0, 16.0) if above else (20.0, 0.0)
    right = svg.WIDTH - 12.0 - max(text_width(svg.short(value)) for _, value in (*rows, *among))
    scale = svg.Scale(low, high if high > low else low + 1.0, left, right)
    bottom = 8 + step * len(rows)
    parts = []
    for value, label in svg.spaced_ticks(scale):
        parts += [svg.line(scale(value), 2, scale(value), bottom, "frame" if value == 0 else "grid")]
        parts += [svg.text(scale(value), bottom + 15, label, anchor="middle")]
    for j, (name, value) in enumerate(rows):
        y = 6 + step * j
        shown = shortened(name, svg.WIDTH - 16.0)
        parts.append(
            svg.text(4, y + 11, shown, css="name", says=name)
            if above
            else svg.text(left - 6, y + 12, shown, anchor="end")
        )
        css = "s1" if value >= 0 else "s2"
        parts.append(svg.rect(scale(0), y + lead, scale(value) - scale(0), 15, css, f"{name}: {value:.6g}"))
        parts.append(svg.text(svg.WIDTH - 4, y + lead + 12, svg.short(value), anchor="end"))
    return svg.drawing(title, svg.WIDTH, bottom + 20, parts)


@dataclass(frozen=True)
class Effect:
    """A number with the interval it may lie in, under a name; ``says`` is for those who point at it."""

    name: str
    value: float
    low: float
    high: float
    says: str


def forest(effects: Sequence[Effect], title: str) -> str:
    """A point with its interval to each row, around a line at zero, each between its name and its number."""
    widest = max(text_width(each.name) for each in effects)
    above = widest > _BAR_NAME
    left = 28.0 if above else max(widest + 12.0, 28.0)
    step, lead = (36.0, 16.0) if above else (20.0, 0.0)
    right = svg.WIDTH - 16.0 - max(text_width(svg.short(each.value)) for each in effects)
    low, high = svg.widened([0.0, *(each.low for each in effects), *(each.high for each in effects)], 0.02)
    scale = svg.Scale(low, high, left, right)
    bottom = 8 + step * len(effects)
    parts = []
    for value, label in svg.spaced_ticks(scale):
        parts += [svg.line(scale(value), 2, scale(value), bottom, "zero" if value == 0 else "grid")]
        parts += [svg.text(scale(value), bottom + 15, label, anchor="middle")]
    for j, each in enumerate(effects):
        y = 6 + step * j
        shown = shortened(each.name, svg.WIDTH - 16.0)
        place = (4, y + 11, "start") if above else (left - 6, y + 12, "end")
        parts.append(svg.text(place[0], place[1], shown, anchor=place[2], css="name", says=each.name))
        css, middle = "s1" if each.value >= 0 else "s2", y + lead + 8
        parts.append(svg.line(scale(each.low), middle, scale(each.high), middle, f"stroke {css}"))
        parts.append(svg.dot(scale(each.value), middle, css, each.says))
        parts.append(svg.text(svg.WIDTH - 4, y + lead + 12, svg.short(each.value), anchor="end"))
    return svg.drawing(title, svg.WIDTH, bottom + 20, parts)


def gantt(rows: Mapping[str, Sequence[tuple[str, float, float]]], title: str) -> str:
    """For each role its stages as bars: (stage, when it began, how long it took), in seconds."""
    spans = [(began, began + took) for stages in rows.values() for _, began, took in stages]
    end = max((stop for _, stop in spans), default=0.0) or 1.0
    left, parts = _roles(rows)
    bottom = 8 + _ROLE * len(rows)
    x = svg.Scale(0.0, end, left, svg.WIDTH - 30.0)
    parts += _measure(x, bottom, "seconds")
    for j, (role, stages) in enumerate(rows.items()):
        for place, (stage, began, took) in enumerate(stages):
            says = f"{role}, {stage}: {took:.3g} s, from {began:.3g} s"
            css = f"s{1 + place % _SERIES}"
            parts.append(svg.rect(x(began), 6 + _ROLE * j, x(began + took) - x(began), 20, css, says))
    return svg.drawing(title, svg.WIDTH, bottom + 38, parts)


def stacked(rows: Mapping[str, Mapping[str, float]], kinds: Sequence[str], title: str, unit: str) -> str:
    """For each role one bar, cut into kinds, with a legend below."""
    most = max((sum(parts.values()) for parts in rows.values()), default=0.0) or 1.0
    left, drawn = _roles(rows)
    bottom = 8 + _ROLE * len(rows)
    x = svg.Scale(0.0, most, left, svg.WIDTH - 30.0)
    drawn += _measure(x, bottom, unit)
    for j, (role, parts) in enumerate(rows.items()):
        at = 0.0
        for place, kind in enumerate(kinds):
            share = parts.get(kind, 0.0)
            if share > 0:
                says = f"{role}, {kind}: {share:.4g} {unit}"
                drawn.append(svg.rect(x(at), 6 + _ROLE * j, x(at + share) - x(at), 20, f"s{1 + place % _SERIES}", says))
                at += share
    line = 0
    for place, (at, line) in enumerate(in_columns(kinds, svg.WIDTH - 16, 32)):
        y = bottom + 44 + 18 * line
        drawn += [svg.rect(8 + at, y, 11, 11, f"s{1 + place % _SERIES}"), svg.text(24 + at, y + 10, kinds[place])]
    return svg.drawing(title, svg.WIDTH, bottom + 62 + 18 * line, drawn)


def _roles(names: Iterable[str]) -> tuple[float, list[str]]:
    """Names of roles down the left side, and where they end."""
    listed = list(names)
    left = 14.0 + min(_ROLE_NAME, max(map(text_width, listed), default=0.0))
    shown = [(shortened(name, _ROLE_NAME), name) for name in listed]
    places = [6 + _ROLE * j + 14 for j in range(len(listed))]
    return left, [
        svg.text(left - 8, y, cut, anchor="end", says=name) for y, (cut, name) in zip(places, shown, strict=True)
    ]


def _measure(x: svg.Scale, bottom: float, unit: str) -> list[str]:
    """A scale below bars, with its unit on a line of its own."""
    parts = [svg.text(svg.WIDTH - 4, bottom + 32, unit, anchor="end", css="axis")]
    for value, label in svg.spaced_ticks(x, 4):
        parts += [svg.line(x(value), 2, x(value), bottom), svg.text(x(value), bottom + 15, label, anchor="middle")]
    return parts


def federation(names: Sequence[str], amounts: Sequence[str], authority: bool) -> str:
    """Who took part: the parties on the left, the CSP on the right, the authority above it."""
    shown = list(zip(names, amounts, strict=True))[:_DRAWN]
    more = len(names) - len(shown)
    roles = ("CSP", "masked data only", "authority", "seeds only")
    needed = max(text_width(name, bold=True) for name in (*names[:_DRAWN], "party"))
    needed = max(needed, *map(text_width, amounts[:_DRAWN])) + 16
    server = max(map(text_width, roles)) + 16
    box = min(needed, svg.WIDTH - server - 76)
    step, right = 50.0, svg.WIDTH - 6 - server
    height = max(step * len(shown), 150.0 if authority else 60.0) + (30 if more else 12)
    middle = (height - (18 if more else 0)) / 2
    parts = []
    for j, (name, amount) in enumerate(shown):
        y = middle + step * (j - (len(shown) - 1) / 2)
        parts.append(svg.line(6 + box, y, right, middle, "link"))
        parts.append(svg.rect(6, y - 20, box, 40, "box", name))
        cut = shortened(name, box - 12, bold=True)
        parts.append(svg.text(6 + box / 2, y - 3, cut, anchor="middle", css="strong", says=name))
        parts.append(svg.text(6 + box / 2, y + 13, shortened(amount, box - 12), anchor="middle"))
    at = right + server / 2
    places = [(middle, "CSP", "masked data only", "box csp")]
    places += [(26.0, "authority", "seeds only", "box")] if authority else []
    for y, name, says, css in places:
        parts.append(svg.rect(right, y - 20, server, 40, css, name))
        parts.append(svg.text(at, y - 3, name, anchor="middle", css="strong"))
        parts.append(svg.text(at, y + 13, says, anchor="middle"))
    if more:
        parts.append(svg.text(6, height - 6, f"and {more} more parties", css="axis"))
    title = f"{len(names)} parties send masked data to the CSP" + (f", {more} more not drawn" if more else "")
    return svg.drawing(title, svg.WIDTH, height, parts)


def thinned_in_words(count: int) -> str:
    """How many of these points are drawn, where not all are."""
    shown = len(range(0, count, max(1, -(-count // MOST_POINTS))))
    return "" if shown == count else f" ({shown} of {count} are drawn)"


def _counts(count: int) -> list[float]:
    step = max(1, -(-count // 8))
    return [float(j) for j in range(1, count + 1, step)]


def _thinned(count: int) -> slice:
    """Every so manieth point, so that a page stays small."""
    return slice(None, None, max(1, -(-count // MOST_POINTS)))
