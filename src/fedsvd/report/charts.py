"""The pictures of a report, each from plain numbers: scree, scatter, bars, and who was busy when."""

from collections.abc import Mapping, Sequence

import numpy as np

from fedsvd.report import svg
from fedsvd.types import Float

MOST_POINTS = 2000
_SERIES = 6


def scree(values: Float, what: str) -> str:
    """One bar to each component."""
    shown = values[:60]
    across, up = (0.4, len(shown) + 0.6), (0.0, float(max(shown.max(initial=0.0), 1e-300)) * 1.05)
    plane = svg.axes(across, up, 240, "component", what, _counts(len(shown)))
    width = 0.7 * (plane.x(1) - plane.x(0))
    base = plane.y(0)
    bars = [
        svg.rect(
            plane.x(j + 1) - width / 2, plane.y(value), width, base - plane.y(value), "s1", f"{j + 1}: {value:.6g}"
        )
        for j, value in enumerate(shown.tolist())
    ]
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
    """Points in a plane; a few of them with their names, all of them where they are few."""
    kept = points[_thinned(len(points))]
    across, up = svg.widened(kept[:, 0].tolist()), svg.widened(kept[:, 1].tolist())
    plane = svg.axes(across, up, 320, words[0], words[1])
    parts = [*plane.parts]
    if across[0] < 0 < across[1]:
        parts.append(svg.line(plane.x(0), plane.y(up[0]), plane.x(0), plane.y(up[1]), "zero"))
    if up[0] < 0 < up[1]:
        parts.append(svg.line(plane.x(across[0]), plane.y(0), plane.x(across[1]), plane.y(0), "zero"))
    parts.append(svg.dots([(plane.x(x), plane.y(y)) for x, y in kept.tolist()], "s1"))
    taken: list[tuple[float, float]] = []
    for j in labelled:
        x, y = plane.x(float(points[j, 0])), plane.y(float(points[j, 1]))
        parts.append(svg.dot(x, y, "s2", names[j]))
        if all(abs(x - there) > 130 or abs(y - beside) > 13 for there, beside in taken):  # names do not overlap
            taken.append((x, y))
            end = x > svg.WIDTH * 0.6
            words_at = x + (-7 if end else 7), y - 5
            parts.append(svg.text(*words_at, svg.cut(names[j], 24), anchor="end" if end else "start"))
    return svg.drawing(title, svg.WIDTH, 320, parts)


def bars(names: Sequence[str], values: Sequence[float], title: str, *, css: str = "s1") -> str:
    """Horizontal bars from zero, each with its name and number."""
    left, right, step = 196.0, svg.WIDTH - 58.0, 20.0
    low, high = min(0.0, *values), max(0.0, *values)
    scale = svg.Scale(low, high if high > low else low + 1.0, left, right)
    edge, letters = (left - 50, 22) if low < 0 else (left - 6, 28)
    parts = []
    for j, (name, value) in enumerate(zip(names, values, strict=True)):
        y = 6 + step * j
        parts.append(svg.text(edge, y + 12, svg.cut(name, letters), anchor="end"))
        parts.append(svg.rect(scale(0), y, scale(value) - scale(0), step - 5, css, f"{name}: {value:.6g}"))
        after = value >= 0
        place = scale(value) + (4 if after else -4)
        parts.append(svg.text(place, y + 12, svg.short(value), anchor="start" if after else "end"))
    height = 12 + step * len(names)
    parts.append(svg.line(scale(0), 2, scale(0), height - 4, "frame"))
    return svg.drawing(title, svg.WIDTH, height, parts)


def gantt(rows: Mapping[str, Sequence[tuple[str, float, float]]], title: str) -> str:
    """For each role its stages as bars: (stage, when it began, how long it took), in seconds."""
    spans = [(began, began + took) for stages in rows.values() for _, began, took in stages]
    end = max((stop for _, stop in spans), default=0.0) or 1.0
    left, right, step = 112.0, svg.WIDTH - 12.0, 30.0
    height = 30 + step * len(rows)
    x = svg.Scale(0.0, end * 1.02, left, right)
    parts = [svg.text(right, height - 2, "seconds", anchor="end", css="axis")]
    for value in svg.ticks(0.0, end, 4):
        parts += [svg.line(x(value), 2, x(value), height - 26)]
        parts += [svg.text(x(value), height - 14, svg.short(value), anchor="middle")]
    for j, (role, stages) in enumerate(rows.items()):
        y = 6 + step * j
        parts.append(svg.text(left - 8, y + 14, svg.cut(role, 15), anchor="end"))
        for place, (stage, began, took) in enumerate(stages):
            says = f"{role}, {stage}: {took:.3g} s, from {began:.3g} s"
            parts.append(svg.rect(x(began), y, x(began + took) - x(began), step - 10, f"s{1 + place % _SERIES}", says))
    return svg.drawing(title, svg.WIDTH, height, parts)


def stacked(rows: Mapping[str, Mapping[str, float]], kinds: Sequence[str], title: str, unit: str) -> str:
    """For each role one bar, cut into kinds, with a legend below."""
    most = max((sum(parts.values()) for parts in rows.values()), default=0.0) or 1.0
    left, right, step = 112.0, svg.WIDTH - 12.0, 30.0
    bottom = 8 + step * len(rows)
    legend_rows = (len(kinds) + 2) // 3
    height = bottom + 22 + 18 * legend_rows
    x = svg.Scale(0.0, most * 1.02, left, right)
    drawn = [svg.text(right, bottom + 14, unit, anchor="end", css="axis")]
    for value in svg.ticks(0.0, most, 4)[:-1]:
        drawn += [
            svg.line(x(value), 2, x(value), bottom),
            svg.text(x(value), bottom + 14, svg.short(value), anchor="middle"),
        ]
    for j, (role, parts) in enumerate(rows.items()):
        y, at = 6 + step * j, 0.0
        drawn.append(svg.text(left - 8, y + 14, svg.cut(role, 15), anchor="end"))
        for place, kind in enumerate(kinds):
            share = parts.get(kind, 0.0)
            if share > 0:
                css = f"s{1 + place % _SERIES}"
                drawn.append(
                    svg.rect(x(at), y, x(at + share) - x(at), step - 10, css, f"{role}, {kind}: {share:.4g} {unit}")
                )
                at += share
    for place, kind in enumerate(kinds):
        x0, y0 = 14 + 150 * (place % 3), bottom + 24 + 18 * (place // 3)
        drawn += [svg.rect(x0, y0, 11, 11, f"s{1 + place % _SERIES}"), svg.text(x0 + 17, y0 + 10, kind)]
    return svg.drawing(title, svg.WIDTH, height, drawn)


def federation(names: Sequence[str], amounts: Sequence[str], authority: bool) -> str:
    """Who took part: the parties on the left, the CSP on the right, the authority above it."""
    shown = list(zip(names, amounts, strict=True))[:8]
    step, height = 46.0, 46.0 * max(len(shown), 2) + 24
    parts, middle = [], height / 2
    for j, (name, amount) in enumerate(shown):
        y = middle + step * (j - (len(shown) - 1) / 2)
        parts.append(svg.line(150, y, 338, middle, "link"))
        parts.append(svg.rect(6, y - 16, 144, 32, "box", name))
        parts.append(svg.text(78, y - 1, svg.cut(name, 19), anchor="middle", css="strong"))
        parts.append(svg.text(78, y + 12, amount, anchor="middle"))
    parts.append(svg.rect(338, middle - 22, 112, 44, "box csp", "the computing server"))
    parts.append(svg.text(394, middle - 3, "CSP", anchor="middle", css="strong"))
    parts.append(svg.text(394, middle + 12, "masked data only", anchor="middle"))
    if authority:
        parts.append(svg.rect(338, 4, 112, 30, "box", "the trusted authority"))
        parts.append(svg.text(394, 23, "authority: seeds", anchor="middle"))
    more = f", {len(names) - len(shown)} more not drawn" if len(names) > len(shown) else ""
    title = f"{len(names)} parties send masked data to the CSP{more}"
    return svg.drawing(title, svg.WIDTH, height, parts)


def _counts(count: int) -> list[float]:
    step = max(1, -(-count // 8))
    return [float(j) for j in range(1, count + 1, step)]


def _thinned(count: int) -> slice:
    """Every so manieth point, so that a page stays small."""
    return slice(None, None, max(1, -(-count // MOST_POINTS)))
