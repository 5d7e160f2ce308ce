"""Drawings as SVG text: scales, axes and marks, and no more than a report needs.

Colours are classes (``s1`` .. ``s6``, ``ink``, ``faint``) that the page's style sheet fills in for light, dark and
print; numbers are cut to a tenth of a unit, so that thousands of points stay small. Every drawing has a title for
those who hear the page, and every mark that carries a number says it in a title of its own.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from xml.sax.saxutils import escape, quoteattr

from fedsvd.results.report.lettering import SIZE, text_width

WIDTH = 420.0
_APART = 8.0  # between two labels of an axis


@dataclass(frozen=True)
class Scale:
    """A line from data to places on the page."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        span = self.high - self.low
        share = (value - self.low) / span if span else 0.5
        return self.start + share * (self.end - self.start)


def number(value: float) -> str:
    """A place on the page, to a tenth."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def short(value: float) -> str:
    """A number for a person, to three digits."""
    if 1e3 <= abs(value) < 1e6:
        return f"{value:.0f}"
    return f"{value:.3g}"


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers that cover a range."""
    span = high - low
    if not math.isfinite(span) or span <= 0:
        return [low]
    step = _step(span, count)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [place * step for place in range(first, last + 1)]


def _step(span: float, count: int) -> float:
    step: float = 10.0 ** math.floor(math.log10(span / count))
    return next(step * factor for factor in (1, 2, 5, 10) if span / (step * factor) <= count)


def covering(low: float, high: float, count: int = 10) -> tuple[float, float]:
    """A range from one round number to another that holds this one."""
    if not math.isfinite(high - low) or high <= low:
        return low, low + 1.0
    step = _step(high - low, count)
    return math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step


def tick_labels(values: Sequence[float]) -> list[str]:
    """The numbers of an axis, with as many digits as distinguish them."""
    step = min((after - before for before, after in pairwise(values)), default=0.0)
    most = max(map(abs, values), default=0.0)
    if step <= 0 or not math.isfinite(step):
        return [short(value) for value in values]
    power = math.floor(math.log10(step) + 1e-9)
    if most < 1e6 and power >= -4:
        return [f"{value:.{max(0, -power)}f}" if abs(value) > step / 2 else "0" for value in values]
    digits = max(0, math.floor(math.log10(most)) - power)
    return [f"{value:.{digits}e}" if abs(value) > step / 2 else "0" for value in values]


def spaced_ticks(scale: Scale, count: int = 5) -> list[tuple[float, str]]:
    """Round numbers with their labels, as many as fit next to each other along the line; zero stays among them."""
    best: list[tuple[float, str]] = []
    for most in range(count, 0, -1):
        values = ticks(scale.low, scale.high, most)
        labels = tick_labels(values)
        zero = min(range(len(values)), key=lambda place: abs(values[place]), default=0)
        for stride in (1, 2, 3):
            found = list(zip(values, labels, strict=True))[zero % stride :: stride]
            if len(found) > len(best) and (len(found) == 1 or _apart(scale, found)):
                best = found
    return best


def _apart(scale: Scale, found: Sequence[tuple[float, str]]) -> bool:
    places = [(scale(value), text_width(label) / 2) for value, label in found]
    return all(b - a >= half + other + _APART for (a, half), (b, other) in pairwise(places))


def widened(values: Sequence[float], share: float = 0.05) -> tuple[float, float]:
    """The range of some values, a little wider, so that no mark lies on an edge."""
    low, high = min(values), max(values)
    margin = share * (high - low) or share * abs(high) or 1.0
    return low - margin, high + margin


def text(x: float, y: float, words: str, *, anchor: str = "start", css: str = "label", says: str = "") -> str:
    """A line of text; ``says`` is the full text where this one was cut."""
    title = f"<title>{escape(says)}</title>" if says not in ("", words) else ""
    return f'<text x="{number(x)}" y="{number(y)}" text-anchor="{anchor}" class="{css}">{escape(words)}{title}</text>'


def line(x1: float, y1: float, x2: float, y2: float, css: str = "grid") -> str:
    return f'<path d="M{number(x1)} {number(y1)}L{number(x2)} {number(y2)}" class="{css}"/>'


def rect(x: float, y: float, width: float, height: float, css: str, says: str = "") -> str:
    title = f"<title>{escape(says)}</title>" if says else ""
    x, width = (x + width, -width) if width < 0 else (x, width)
    place = f'x="{number(x)}" y="{number(y)}" width="{number(max(width, 0.5))}" height="{number(height)}"'
    return f'<rect {place} class="{css}">{title}</rect>'


def polyline(points: Sequence[tuple[float, float]], css: str) -> str:
    body = "L".join(f"{number(x)} {number(y)}" for x, y in points)
    return f'<path d="M{body}" class="{css}"/>'


def dots(points: Sequence[tuple[float, float]], css: str) -> str:
    """Many points as one path: each a line of no length with a round end."""
    body = "".join(f"M{number(x)} {number(y)}h0" for x, y in points)
    return f'<path d="{body}" class="dots {css}"/>'


def dot(x: float, y: float, css: str, says: str) -> str:
    title = f"<title>{escape(says)}</title>"
    return f'<circle cx="{number(x)}" cy="{number(y)}" r="3.5" class="{css}">{title}</circle>'


def drawing(title: str, width: float, height: float, parts: Sequence[str]) -> str:
    """A picture."""
    size = f'viewBox="0 0 {number(width)} {number(height)}"'
    body = "".join(parts)
    return f'<svg {size} role="img" aria-label={quoteattr(title)} xmlns="http://www.w3.org/2000/svg">{body}</svg>'


@dataclass(frozen=True)
class Axes:
    """A plane to draw on, with its frame."""

    x: Scale
    y: Scale
    parts: tuple[str, ...]


def axes(
    across: tuple[float, float],
    up: tuple[float, float],
    height: float,
    x_label: str,
    y_label: str,
    x_ticks: Sequence[float] | None = None,
) -> Axes:
    """Axes with round ticks, a faint grid across, and what the numbers are; as wide as their labels leave."""
    top, bottom = 32.0, height - 40.0
    y = Scale(*up, bottom, top)
    values = ticks(*up)
    labels = tick_labels(values)
    left, right = 10.0 + max(map(text_width, labels)), WIDTH - 12.0
    widest = max(map(text_width, tick_labels(ticks(*across) if x_ticks is None else x_ticks)), default=0.0)
    x = Scale(*across, max(left, widest / 2), min(right, WIDTH - widest / 2))
    parts = [text(4, SIZE + 1, y_label, css="axis"), text(right, height - 5, x_label, anchor="end", css="axis")]
    for value, label in zip(values, labels, strict=True):
        parts += [line(x.start, y(value), x.end, y(value)), text(x.start - 6, y(value) + 4, label, anchor="end")]
    below = spaced_ticks(x) if x_ticks is None else list(zip(x_ticks, tick_labels(x_ticks), strict=True))
    for value, label in below:
        parts += [line(x(value), bottom, x(value), bottom + 4, "tick")]
        parts += [text(x(value), bottom + 17, label, anchor="middle")]
    parts.append(line(x.start, bottom, x.end, bottom, "frame"))
    return Axes(x, y, tuple(parts))
