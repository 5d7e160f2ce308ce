"""The pictures of a report as SVG: drawings of a result (``drawings``), who was busy when, and who took part."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from fedsvd.results.drawings.picture import Band, Bars, Dots, Effect, Heat, Line, Named, Picture, Plane, Rows
from fedsvd.results.report import svg
from fedsvd.results.report.lettering import SIZE, in_columns, placed, shortened, text_width
from fedsvd.types import Float

MOST_POINTS = 2000
_SERIES = 6
_DRAWN = 8  # parties
_ROLE_NAME, _POINT_NAME, _BAR_NAME = 150.0, 190.0, 205.0  # the most that a name takes next to what it names
_LEGEND = svg.WIDTH - 48.0
_LEAST_SCALE = 120.0  # of a row's scale, before names go above it
_ROLE = 30.0  # from one role to the next


def drawn(picture: Picture) -> str:
    """A picture as SVG."""
    body = picture.body
    if isinstance(body, Plane):
        return _plane(picture.title, body)
    return _rows(picture.title, body) if isinstance(body, Rows) else _heat(picture.title, body)


def _plane(title: str, plane: Plane) -> str:
    across, up = plane.x_range or _covered(plane, 0), plane.y_range or _covered(plane, 1)
    counts = _counts(int(across[1])) if plane.counted else None
    axes = svg.axes(across, up, plane.height, plane.x_label, plane.y_label, counts)
    parts = [*axes.parts]
    if plane.zero and across[0] < 0 < across[1]:
        parts.append(svg.line(axes.x(0), axes.y(up[0]), axes.x(0), axes.y(up[1]), "zero"))
    if plane.zero and up[0] < 0 < up[1]:
        parts.append(svg.line(axes.x(across[0]), axes.y(0), axes.x(across[1]), axes.y(0), "zero"))
    dots = [place for mark in plane.marks if isinstance(mark, Dots) for place in _places(axes, _thin(mark.points))]
    for mark in plane.marks:
        match mark:
            case Bars():
                parts += _bars(axes, mark)
            case Band():
                outline = np.concatenate((mark.low, mark.high[::-1]))
                parts.append(svg.polyline(_places(axes, outline), f"band s{mark.series}"))
            case Line():
                parts += _line(axes, mark)
            case Dots():
                parts.append(svg.dots(_places(axes, _thin(mark.points)), f"s{mark.series}"))
            case Named():
                parts += _named(axes, mark, dots)
    below, labels = plane.height, [mark.label for mark in plane.marks if isinstance(mark, Line | Dots) and mark.label]
    if len(labels) > 1:
        series = [mark.series for mark in plane.marks if isinstance(mark, Line | Dots) and mark.label]
        legend, below = _legend(labels, series, plane.height + 8)
        parts += legend
    return svg.drawing(title, svg.WIDTH, below, parts)


def _covered(plane: Plane, axis: int) -> tuple[float, float]:
    values = [mark.points[:, axis] for mark in plane.marks if not isinstance(mark, Bars)]
    return svg.widened(np.concatenate(values).tolist())


def _places(axes: svg.Axes, points: Float) -> list[tuple[float, float]]:
    return [(axes.x(x), axes.y(y)) for x, y in points.tolist()]


def _bars(axes: svg.Axes, mark: Bars) -> Iterator[str]:
    width, base = 0.7 * (axes.x(1) - axes.x(0)), axes.y(0)
    for j, value in enumerate(mark.heights.tolist()):
        css = "s1" if mark.solid is None or j < mark.solid else "box"
        x, y = axes.x(j + 1) - width / 2, axes.y(value)
        yield svg.rect(x, y, width, base - y, css, f"{j + 1}: {value:.6g}")


def _line(axes: svg.Axes, mark: Line) -> Iterator[str]:
    places = _places(axes, mark.points if mark.marked else _thin(mark.points))
    if not mark.marked and len(mark.points) > MOST_POINTS:
        places += _places(axes, mark.points[-1:])  # a thinned line, too, ends where the line does
    if mark.dashed:
        yield svg.polyline(places, "zero")
        return
    if len(places) > 1:
        yield svg.polyline(places, f"stroke s{mark.series}")
    if mark.marked:
        yield from (svg.dot(x, y, f"s{mark.series}", says) for (x, y), says in zip(places, mark.says, strict=True))


def _named(axes: svg.Axes, mark: Named, dots: Sequence[tuple[float, float]]) -> Iterator[str]:
    marks = _places(axes, mark.points)
    if mark.arrows:
        yield from (svg.line(axes.x(0), axes.y(0), x, y, "stroke s2") for x, y in marks)
    yield from (svg.dot(x, y, "s2", name) for (x, y), name in zip(marks, mark.names, strict=True))
    wanted = [(shortened(name, _POINT_NAME), place) for name, place in zip(mark.names, marks, strict=True)]
    frame = (axes.x.start, axes.y.end - SIZE, axes.x.end, axes.y.start)
    for name, at in zip(mark.names, placed(wanted, dots, frame), strict=True):
        if at is not None:
            yield svg.text(at[0], at[1], shortened(name, _POINT_NAME), css="name", says=name)


def _legend(labels: Sequence[str], series: Sequence[int], top: float) -> tuple[list[str], float]:
    """Colours with their names below a drawing, and where they end."""
    keys, parts, line = [shortened(label, _LEGEND) for label in labels], [], 0
    for (at, line), key, number in zip(in_columns(keys, svg.WIDTH - 16, 32), keys, series, strict=True):
        y = top + 18 * line
        parts += [svg.rect(8 + at, y, 11, 11, f"s{number}"), svg.text(24 + at, y + 10, key)]
    return parts, top + 18 * line + 18


def _rows(title: str, rows: Rows) -> str:
    """A bar, or a point with its interval, for each row, between its name and its number.

    Names stand left, or above where one is long.
    """
    effects = rows.effects
    everyone = (*effects, *rows.among)
    widest = max(text_width(each.name) for each in everyone)
    numbers = max(text_width(_number(each)) for each in everyone)
    above = widest > min(_BAR_NAME, svg.WIDTH - numbers - _LEAST_SCALE)
    left = 28.0 if above else max(widest + 12.0, 28.0)
    step, lead = (36.0, 16.0) if above else (20.0, 0.0)
    scale = svg.Scale(*_span(rows), left, svg.WIDTH - (16.0 if rows.intervals else 12.0) - numbers)
    bottom = 8 + step * len(effects)
    parts = []
    for value, label in _factors(scale) if rows.ratio else svg.spaced_ticks(scale):
        plain = "zero" if rows.intervals else "frame"
        parts += [svg.line(scale(value), 2, scale(value), bottom, plain if value == 0 else "grid")]
        parts += [svg.text(scale(value), bottom + 15, label, anchor="middle")]
    if rows.limit is not None:
        parts.append(svg.line(scale(rows.limit), 2, scale(rows.limit), bottom, "zero"))
    for j, each in enumerate(effects):
        y = 6 + step * j
        shown = shortened(each.name, svg.WIDTH - 16.0)
        place = (4.0, y + 11, "start") if above else (left - 6, y + 12, "end")
        parts.append(svg.text(place[0], place[1], shown, anchor=place[2], css="name", says=each.name))
        value, low, high = (math.log(x) if rows.ratio else x for x in (each.value, each.low, each.high))
        css, middle = "s1" if value >= 0 else "s2", y + lead + 8
        if rows.intervals:
            parts.append(svg.line(scale(low), middle, scale(high), middle, f"stroke {css}"))
        if rows.before:
            parts.append(svg.dot(scale(rows.before[j]), middle, "s2 hollow", each.says))
        if rows.intervals or rows.dots:
            parts.append(svg.dot(scale(value), middle, css, each.says))
        else:
            parts.append(svg.rect(scale(0), y + lead, scale(value) - scale(0), 15, css, each.says))
        parts.append(svg.text(svg.WIDTH - 4, y + lead + 12, _number(each), anchor="end"))
    end = bottom + 20
    if rows.x_label:
        parts.append(svg.text(scale.end, end + 12, rows.x_label, anchor="end", css="axis"))
        end += 18
    return svg.drawing(title, svg.WIDTH, end, parts)


def _number(each: Effect) -> str:
    return each.shown or svg.short(each.value)


def _span(rows: Rows) -> tuple[float, float]:
    """The range of the values, of their logarithms where they are ratios."""
    if rows.span is not None:
        low, high = rows.span
    else:
        ends = [value for each in rows.effects for value in (each.low, each.high)]
        values = [0.0, *(map(math.log, ends) if rows.ratio else ends), *([rows.limit] if rows.limit else [])]
        low, high = svg.widened(values, 0.02) if rows.intervals else (min(values), max(values))
    return low, high if high > low else low + 1.0


def _factors(scale: svg.Scale) -> list[tuple[float, str]]:
    """Round ratios along a scale of logarithms, 1 among them, as many as fit."""
    found = [(0.0, "1")]
    for base in (10.0, 2.0, 5.0, 3.0, 1.5):
        powers = [base**j for j in range(-6, 7) if j]
        for value in powers if base in (10.0, 2.0) else (base, 1.0 / base):
            label, at = svg.short(value) if value >= 100.0 else f"{value:.2g}", math.log(value)
            half = text_width(label) / 2
            free = all(abs(scale(at) - scale(x)) >= half + text_width(other) / 2 + 8.0 for x, other in found)
            if scale.low <= at <= scale.high and free:
                found.append((at, label))
    return sorted(found)


def _heat(title: str, heat: Heat) -> str:
    """A square of squares: blue where numbers rise together, orange where one falls; stronger is nearer to 1."""
    count = len(heat.names)
    widest = min(_POINT_NAME, max(text_width(name) for name in heat.names))
    left, side = widest + 12.0, (svg.WIDTH - widest - 20.0) / count
    parts = []
    for i, name in enumerate(heat.names):
        y = 8 + side * i
        if side >= SIZE:
            parts.append(svg.text(left - 6, y + side / 2 + 4, shortened(name, widest), anchor="end", says=name))
        for j, other in enumerate(heat.names):
            value = float(heat.matrix[i, j])
            says = f"{name}, {other}: {value:.3f}" if math.isfinite(value) else f"{name}, {other}: not defined"
            strength = min(9, round(9 * abs(value))) if math.isfinite(value) else 0
            css = f"{'s1' if value >= 0 else 's2'} heat{strength}"
            parts.append(svg.rect(left + side * j, y, side, side, css, says))
    return svg.drawing(title, svg.WIDTH, 16 + side * count, parts)


def thinned_in_words(picture: Picture) -> str:
    """How many points are drawn, where not all are."""
    marks = picture.body.marks if isinstance(picture.body, Plane) else ()
    count = max((len(mark.points) for mark in marks if isinstance(mark, Dots)), default=0)
    shown = len(range(0, count, max(1, -(-count // MOST_POINTS))))
    return "" if shown == count else f" ({shown} of {count} are drawn)"


def _thin(points: Float) -> Float:
    """Points at equal strides, few enough that a page stays small."""
    step = max(1, -(-len(points) // MOST_POINTS))
    thinned: Float = points[::step]
    return thinned


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


def _counts(count: int) -> list[float]:
    step = max(1, -(-count // 8))
    return [float(j) for j in range(1, count + 1, step)]
