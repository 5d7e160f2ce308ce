"""Pictures drawn with Matplotlib, for notebooks, scripts and files; the ``report`` extra brings it."""

from collections.abc import Sequence
from io import BytesIO
from typing import Any

import numpy as np

from fedsvd.errors import MissingExtra
from fedsvd.results.drawings.picture import Band, Bars, Below, Dots, Heat, Line, Named, Picture, Plane, Rows
from fedsvd.results.report.lettering import shortened
from fedsvd.results.report.svg import ticks

COLOURS = ("#2563c9", "#c2500a", "#18795a", "#7448c8", "#a3690b", "#b03060")  # s1 .. s6 of a report
FORMATS = ("png", "pdf")
_MUTED, _DOTS_PER_INCH = "#545d6e", 300
_FACTORS = ((1, 2, 5), (1, 1.5, 2, 3, 5, 7))
_NARROW = 3.0  # a range of ratios up to it has even steps
_FEW_TICKS = 4
_MOST_SQUARES = 12  # of a side, into which numbers are written
_ROW = 0.055  # of the axes' height, from one row of numbers below them to the next
_NAME = 190.0  # the most that the name of a row takes, in units of a report


def on_axes(picture: Picture, ax: Any = None) -> Any:
    """The Matplotlib axes with this picture: those that are given, else those of a figure of its own."""
    if ax is None:
        ax = _pyplot().subplots(figsize=_size(picture), layout="constrained")[1]
    _draw(picture, ax)
    return ax


def as_files(picture: Picture) -> dict[str, bytes]:
    """The picture as the bytes of a file of each format."""
    figure_of = _figure()
    found = {}
    for kind in FORMATS:
        figure = figure_of(figsize=_size(picture), layout="constrained")
        _draw(picture, figure.add_subplot())
        written = BytesIO()
        # Without the date, so that the same picture is the same file.
        figure.savefig(
            written, format=kind, dpi=_DOTS_PER_INCH, metadata={"CreationDate": None} if kind == "pdf" else None
        )
        found[kind] = written.getvalue()
    return found


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError:
        raise _MISSING from None
    return pyplot


def _figure() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise _MISSING from None
    return Figure


_MISSING = MissingExtra("drawings need Matplotlib", "pip install 'fedsvd[report]'")


def _size(picture: Picture) -> tuple[float, float]:
    body = picture.body
    if isinstance(body, Rows):
        return 7.0, 1.2 + 0.3 * len(body.effects)
    if isinstance(body, Heat):
        return 6.4, 5.6
    return (5.2, 5.2) if body.square else (6.4, 4.8 + 0.25 * len(body.below))


def _draw(picture: Picture, ax: Any) -> None:
    ax.set_title(picture.title, fontsize="medium", parse_math=False)
    body = picture.body
    if isinstance(body, Plane):
        _plane(body, ax)
    elif isinstance(body, Rows):
        _rows(body, ax)
    else:
        _heat(body, ax)


def _plane(plane: Plane, ax: Any) -> None:
    ax.set_xlabel(plane.x_label)
    ax.set_ylabel(plane.y_label)
    ax.ticklabel_format(useOffset=False)  # each number of an axis is whole: no "+1.128e2" in a corner
    for mark in plane.marks:
        match mark:
            case Bars():
                solid = len(mark.heights) if mark.solid is None else mark.solid
                face = [COLOURS[0] if j < solid else "none" for j in range(len(mark.heights))]
                ax.bar(np.arange(1, len(mark.heights) + 1), mark.heights, 0.7, color=face, edgecolor=COLOURS[0])
            case Band():
                _band(mark, ax)
            case Line():
                _line(mark, ax)
            case Dots():
                _dots(mark, ax)
            case Named():
                _named(mark, ax)
    if plane.zero:
        _zeros(ax)
    if plane.x_range is not None:
        ax.set_xlim(*plane.x_range)
    if plane.y_range is not None:
        ax.set_ylim(*plane.y_range)
    if plane.square:
        ax.set_aspect("equal")
    _below(plane.below, ax)
    if plane.counted:
        ax.xaxis.get_major_locator().set_params(integer=True)
    if any(isinstance(mark, Line | Dots) and mark.label for mark in plane.marks):
        for text in ax.legend(frameon=False, fontsize="small").get_texts():
            text.set_parse_math(False)


def _zeros(ax: Any) -> None:
    """The lines of zero, where the marks reach them: fitted values around 350 need no axis from 0."""
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    if low <= 0.0 <= high:
        ax.axhline(0.0, color=_MUTED, linewidth=0.8, linestyle="--", zorder=0)
    if left <= 0.0 <= right:
        ax.axvline(0.0, color=_MUTED, linewidth=0.8, linestyle="--", zorder=0)


def _line(mark: Line, ax: Any) -> None:
    x, y = mark.points.T
    if mark.dashed:
        ax.plot(x, y, color=_MUTED, linewidth=0.8, linestyle="--", zorder=0)
        return
    colour, marker = COLOURS[(mark.series - 1) % len(COLOURS)], "o" if mark.marked else None
    # A marker at the end of an axis is drawn whole.
    ax.plot(x, y, color=colour, marker=marker, markersize=4, label=mark.label or None, clip_on=not mark.marked)


def _band(mark: Band, ax: Any) -> None:
    (x, low), high = mark.low.T, mark.high[:, 1]
    ax.fill_between(x, low, high, color=COLOURS[(mark.series - 1) % len(COLOURS)], alpha=0.15, linewidth=0)


def _below(rows: Sequence[Below], ax: Any) -> None:
    """Numbers under the axis, at their places across: how many are at risk."""
    across = ax.get_xaxis_transform()
    for line, row in enumerate(rows):
        y = -0.16 - _ROW * line
        colour = COLOURS[(row.series - 1) % len(COLOURS)]
        style: dict[str, Any] = {"fontsize": "small", "va": "top", "color": colour, "parse_math": False}
        if len(rows) > 1:
            ax.text(-0.06, y, shortened(row.name, _NAME), transform=ax.transAxes, ha="right", **style)
        for x, text in zip(row.places, row.texts, strict=True):
            ax.text(x, y, text, transform=across, ha="center", **style)
    if rows:
        ax.set_xticks(rows[0].places)  # a reader sees of which time each number is
        ax.text(0.0, -0.11, "numbers at risk", transform=ax.transAxes, ha="left", va="top", fontsize="small")


def _dots(mark: Dots, ax: Any) -> None:
    x, y = mark.points.T
    if mark.values is not None:
        found = ax.scatter(x, y, c=mark.values, s=10, alpha=0.7)
        ax.figure.colorbar(found, ax=ax)
        return
    ax.scatter(x, y, s=10, alpha=0.6, color=COLOURS[(mark.series - 1) % len(COLOURS)], label=mark.label or None)


def _named(mark: Named, ax: Any) -> None:
    ax.scatter(*mark.points.T, s=0 if mark.arrows else 14, color=COLOURS[1])  # axes reach as far as arrows do
    ax.margins(0.1)  # names stand next to their points, inside the frame
    ax.autoscale_view()  # now: boxes below are those of the final limits
    taken: list[Any] = []  # boxes of names, in pixels
    for (x, y), name in zip(mark.points.tolist(), mark.names, strict=True):
        if mark.arrows:
            ax.annotate("", (x, y), (0.0, 0.0), arrowprops={"arrowstyle": "->", "color": COLOURS[1]})
        # A column's name is text and not mathematics: "$" has no meaning here.
        written = ax.annotate(
            shortened(name, _NAME),
            (x, y),
            xytext=(4, 4),
            textcoords="offset points",
            fontsize="small",
            parse_math=False,
            path_effects=[_halo()],
        )
        if (
            written.get_window_extent().x1 > ax.get_window_extent().x1
        ):  # it ends where the point is, not beyond the frame
            written.set(ha="right", x=-4)
        box = written.get_window_extent()
        if any(box.overlaps(other) for other in taken):  # the first of two is written, as in a report
            written.remove()
        else:
            taken.append(box)


def _halo() -> Any:
    """A rim of the paper's colour, so that a name is read among points."""
    from matplotlib.patheffects import withStroke

    return withStroke(linewidth=2.5, foreground="white")


def _rows(rows: Rows, ax: Any) -> None:
    values = np.array([each.value for each in rows.effects])
    places, colours = np.arange(len(values)), [COLOURS[0 if up else 1] for up in _rises(rows, values)]
    none = 1.0 if rows.ratio else 0.0
    if rows.intervals:
        ends = np.array([(each.value - each.low, each.high - each.value) for each in rows.effects]).T
        ax.errorbar(values, places, xerr=ends, fmt="none", ecolor=colours, elinewidth=1.5)
    if rows.before:
        ax.scatter(rows.before, places, s=22, facecolors="none", edgecolors=COLOURS[1], zorder=3, label="before")
    if rows.intervals or rows.dots:
        ax.scatter(values, places, s=22, color=colours, zorder=3, label="after" if rows.before else None)
    else:
        ax.barh(places, values, 0.7, color=colours)
    if rows.before:
        ax.legend(frameon=False, fontsize="small")
    if rows.limit is not None:
        ax.axvline(rows.limit, color=_MUTED, linewidth=0.8, linestyle="--", zorder=0)
    ax.axvline(none, color=_MUTED, linewidth=0.8, linestyle="--" if rows.intervals else "-", zorder=0)
    if rows.ratio:
        ax.set_xscale("log")
        ax.set_xticks(round_ratios(*ax.get_xlim()), minor=False)
        ax.set_xticks([], minor=True)
        ax.xaxis.set_major_formatter("{x:g}")
    elif rows.span is not None:
        ax.set_xlim(*rows.span)
    ax.set_xlabel(rows.x_label)
    ax.set_yticks(places, [shortened(each.name, _NAME) for each in rows.effects], parse_math=False)
    ax.set_ylim(len(places) - 0.4, -0.6)  # from above; no row lies on the frame
    if any(each.shown for each in rows.effects):
        right = ax.secondary_yaxis("right")
        right.set_yticks(places, [each.shown for each in rows.effects], fontsize="small")
        right.tick_params(length=0)
        right.spines["right"].set_visible(False)


def round_ratios(low: float, high: float) -> list[float]:
    """Round ratios between two, 1 among them where it is there; finer ones where there would be few."""
    if high < _NARROW * low:
        return ticks(low, high)
    found: list[float] = []
    for digits in _FACTORS:
        every = sorted({float(f"{digit}e{power}") for power in range(-6, 6) for digit in digits})
        found = [tick for tick in every if low <= tick <= high]
        if len(found) >= _FEW_TICKS:
            break
    return found


def _rises(rows: Rows, values: Any) -> Sequence[bool]:
    found: Sequence[bool] = (values >= (1.0 if rows.ratio else 0.0)).tolist()
    return found


def _heat(heat: Heat, ax: Any) -> None:
    shown = ax.imshow(heat.matrix, cmap="RdBu", vmin=-1.0, vmax=1.0)
    places, names = np.arange(len(heat.names)), [shortened(name, _NAME) for name in heat.names]
    ax.set_xticks(places, names, rotation=90, fontsize="small", parse_math=False)
    ax.set_yticks(places, names, fontsize="small", parse_math=False)
    ax.figure.colorbar(shown, ax=ax)
    if len(places) <= _MOST_SQUARES:
        for (i, j), value in np.ndenumerate(heat.matrix):
            if np.isfinite(value):
                colour = "white" if abs(value) > 0.6 else "black"
                ax.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize="x-small", color=colour)
