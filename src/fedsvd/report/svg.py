"""Drawings as SVG text: scales, axes and marks, and no more than a report needs.

Colours are classes (``s1`` .. ``s6``, ``ink``, ``faint``) that the page's style sheet fills in for light, dark and
print; numbers are cut to a tenth of a unit, so that thousands of points stay small. Every drawing has a title for
those who hear the page, and every mark that carries a number says it in a title of its own.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

WIDTH = 460.0


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
    return f"{value:.3g}"


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers that cover a range."""
    span = high - low
    if not math.isfinite(span) or span <= 0:
        return [low]
    step = 10 ** math.floor(math.log10(span / count))
    step = next(step * factor for factor in (1, 2, 5, 10) if span / (step * factor) <= count)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [place * step for place in range(first, last + 1)]


def widened(values: Sequence[float], share: float = 0.05) -> tuple[float, float]:
    """The range of some values, a little wider, so that no mark lies on an edge."""
    low, high = min(values), max(values)
    room = share * (high - low) or share * abs(high) or 1.0
    return low - room, high + room


def text(x: float, y: float, words: str, *, anchor: str = "start", css: str = "label") -> str:
    return f'<text x="{number(x)}" y="{number(y)}" text-anchor="{anchor}" class="{css}">{escape(words)}</text>'


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
    """A whole picture."""
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
    """Axes with round ticks, a faint grid across, and what the numbers are."""
    left, right, top, bottom = 52.0, WIDTH - 10.0, 24.0, height - 40.0
    x, y = Scale(*across, left, right), Scale(*up, bottom, top)
    parts = [text(4, 13, y_label, css="axis"), text(right, height - 6, x_label, anchor="end", css="axis")]
    for value in ticks(*up):
        parts += [line(left, y(value), right, y(value)), text(left - 6, y(value) + 4, short(value), anchor="end")]
    for value in ticks(*across) if x_ticks is None else x_ticks:
        parts += [line(x(value), bottom, x(value), bottom + 4, "tick")]
        parts += [text(x(value), bottom + 17, short(value), anchor="middle")]
    parts.append(line(left, bottom, right, bottom, "frame"))
    return Axes(x, y, tuple(parts))


def cut(words: str, letters: int) -> str:
    """A name that fits its place."""
    return words if len(words) <= letters else words[: letters - 1] + "…"
