"""The paper's figures with its axes: SVG for the page, PNG for everything else, drawn by matplotlib.

Lines are methods; the paper's own figures, where its text prints them, are black crosses. Extrapolated and predicted
points are hollow.
"""

import io
from collections.abc import Sequence
from itertools import cycle
from typing import Any

from fedsvd.errors import MissingExtra
from fedsvd_lab.experiments.experiment import FigureSpec
from fedsvd_lab.experiments.rows import MEASURED, QUOTED, Row, matches

_COLOURS = ("#0b7285", "#c2255c", "#5f3dc4", "#e8590c", "#2b8a3e", "#1864ab", "#868e96", "#a61e4d")
_SIZE = (6.0, 3.8)


def drawable() -> bool:
    """Whether matplotlib is there."""
    try:
        _pyplot()
    except MissingExtra:
        return False
    return True


def draw(spec: FigureSpec, rows: Sequence[Row]) -> tuple[str, bytes] | None:
    """A figure as SVG text and PNG bytes; None where there is nothing to draw."""
    chosen = [row for row in rows if matches(row, {**spec.where, "metric": spec.metric}) and spec.x in row["case"]]
    series = _series(spec, chosen)
    if not series:
        return None
    plt = _pyplot()
    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": "fedsvd", "font.size": 9}):
        figure, axes = plt.subplots(figsize=_SIZE, layout="constrained")
        for (name, points), colour in zip(series.items(), cycle(_COLOURS), strict=False):
            _plot(axes, name, points, colour)
        axes.set(xlabel=spec.xlabel, ylabel=spec.ylabel, title=spec.title)
        axes.title.set_fontsize(9)
        if "x" in spec.log:
            axes.set_xscale("log")
        if "y" in spec.log:
            axes.set_yscale("log")
        axes.grid(True, which="major", color="#dee2e6", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(fontsize=7, frameon=False)
        return _saved(plt, figure)


def _series(spec: FigureSpec, rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for method in (*spec.lines, *dict.fromkeys(row["method"] for row in rows if row["how"] == QUOTED)):
        for row in rows:
            if row["method"] == method:
                name = f"{method}, {spec.by} {row['case'].get(spec.by)}" if spec.by else method
                points = found.setdefault(name, [])
                if row not in points:
                    points.append({**row, "x": float(row["case"][spec.x])})
    return {name: sorted(points, key=lambda row: row["x"]) for name, points in found.items()}


def _plot(axes: Any, name: str, points: list[Row], colour: str) -> None:
    x, y = [row["x"] for row in points], [row["value"] for row in points]
    if points[0]["how"] == QUOTED:
        axes.plot(x, y, "x", color="black", markersize=8, label=name)
        return
    axes.plot(x, y, "-", color=colour, linewidth=1.2)
    for how, face, label in ((True, colour, name), (False, "white", f"{name} (not measured)")):
        some = [(a, b) for a, b, row in zip(x, y, points, strict=True) if (row["how"] == MEASURED) is how]
        if some:
            axes.plot(*zip(*some, strict=True), "o", color=colour, markerfacecolor=face, markersize=4, label=label)


def _saved(plt: Any, figure: Any) -> tuple[str, bytes]:
    svg, png = io.StringIO(), io.BytesIO()
    figure.savefig(svg, format="svg", metadata={"Date": None})
    figure.savefig(png, format="png", dpi=150)
    plt.close(figure)
    text = svg.getvalue()
    return text[text.index("<svg") :], png.getvalue()


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise MissingExtra("figures need matplotlib", "pip install ./lab") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot
