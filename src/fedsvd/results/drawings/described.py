"""Drawings of a description (Table 1): histograms from counts on grids, and standardised differences (love plot)."""

import math
from collections.abc import Iterator

import numpy as np

from fedsvd.results.drawings.picture import USUAL, Effect, Line, Picture, Plane, Rows, Wish, points
from fedsvd.results.result import PartyResult
from fedsvd.statistics.describe import Description, Number, description_of
from fedsvd.types import Float

_MOST_BARS = 32
BALANCED = 0.1
"""Standardised differences below are usually taken as none."""


def description(result: PartyResult) -> Description:
    """The description of a result, as it was computed or as its folder has it."""
    kept = result.objects.get("described")
    return kept if isinstance(kept, Description) else description_of(result.facts["described"])


def histograms(result: PartyResult, wish: Wish = USUAL) -> Iterator[Picture]:
    """For each number a staircase to each group, in shares, so that groups of any size are compared."""
    found = description(result)
    names = found.groups or found.columns
    rounded = f" Counts are in fives, off by at most {found.off:.0f} records." if found.off else ""
    for variable in found.variables:
        if not isinstance(variable, Number) or variable.grid is None or variable.edges is None:
            continue
        marks = []
        for series, (name, stairs) in enumerate(zip(names, variable.grid, strict=False), start=1):
            if stairs[-1] > 0:
                marks.append(Line(_outline(stairs, variable.edges, variable.low), series, label=name))
        if not marks:
            continue
        uneven = "" if _even(variable.edges, variable.low) else " Bins differ in width."
        caption = f"Histogram of {variable.name}: the share of records in each bin.{uneven}{rounded}"
        yield Picture(
            "histogram", variable.name, caption, Plane(variable.name, "share", tuple(marks)), of=variable.name
        )


def _even(edges: Float, low: float | None) -> bool:
    """Whether all bins have one width; a grid of all values has."""
    widths = np.diff(edges, prepend=low) if low is not None else np.diff(edges)
    return bool(np.allclose(widths, widths[:1]))


def _outline(stairs: Float, edges: Float, low: float | None) -> Float:
    """The upper side of bars that lie side by side; neighbouring cells of a long grid are joined."""
    counts = np.diff(np.maximum.accumulate(stairs), prepend=0.0)
    if low is None:
        low = float(edges[0] - (edges[1] - edges[0] if len(edges) > 1 else 1.0))
    joined = max(1, -(-len(counts) // _MOST_BARS))
    starts = np.arange(0, len(counts), joined)
    shares = np.add.reduceat(counts, starts) / max(float(stairs[-1]), 1.0)
    left = np.append(low, edges[:-1])[starts]
    right = np.append(left[1:], edges[-1])
    x = np.ravel(np.column_stack((left, right)))
    return points(np.concatenate(([x[0]], x, [x[-1]])), np.concatenate(([0.0], np.repeat(shares, 2), [0.0])))


def love(result: PartyResult, wish: Wish = USUAL) -> Iterator[Picture]:
    """Standardised differences of every variable, the largest of all pairs of groups."""
    if "described" not in result.facts:
        return
    found = description(result)
    rows = []
    for variable in found.variables:
        known = [abs(value) for value in variable.smd.values() if math.isfinite(value)]
        if known:
            rows.append((variable.name, max(known)))
    if not rows:
        return
    effects = tuple(Effect(name, value, value, value, f"{name}: {value:.3f}") for name, value in rows)
    pairs = "the groups" if len(found.groups) == 2 else "any two groups"
    caption = (
        f"Absolute standardised differences between {pairs}; below {BALANCED:g}, the dashed line, is usually taken as "
        "balanced."
    )
    body = Rows(effects, x_label="absolute standardised difference", dots=True, limit=BALANCED)
    yield Picture("love", "Standardised differences", caption, body)
