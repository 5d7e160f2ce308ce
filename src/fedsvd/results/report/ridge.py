"""The choice of a ridge in a report: the error of every penalty, and what each leaves of the coefficients."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from fedsvd.results.report import svg
from fedsvd.results.report.lettering import in_columns, shortened
from fedsvd.results.report.sections import Figure, grid
from fedsvd.results.result import PartyResult
from fedsvd.types import Float

_LINES = 6
_HEIGHT = 260.0
_METHODS = {"loo": "each row left out once", "gcv": "generalised cross-validation"}


def figures(result: PartyResult) -> Iterator[Figure]:
    """The curve of errors, and for each target the coefficients along the path."""
    said, path = result.facts.get("ridge"), result.arrays.get("ridge_path")
    if said is None or len(said["alphas"]) < 2:
        return
    alphas, order = np.asarray(said["alphas"]), np.argsort(said["alphas"])
    errors = np.array([math.nan if error is None else error for error in said["errors"]])
    rows = [(f"{alphas[i]:.6g}", f"{errors[i]:.6g}") for i in order]
    chosen = math.log10(said["alpha"])
    if np.isfinite(errors).all():
        caption = (
            f"Mean squared error of every penalty, {_METHODS[said['chosen_by']]}; {said['alpha']:.6g} is chosen. The "
            "axis counts powers of ten."
        )
        numbers = grid("Error of every penalty", ("alpha", "error"), rows)
        yield Figure(_errors(np.log10(alphas[order]), errors[order], chosen), caption, numbers)
    if path is None:
        return
    names = list(result.feature_names(path.shape[2]))
    for k, target in enumerate(result.targets):
        yield _coefficients(target, names, np.log10(alphas[order]), path[order, k, :], chosen)


def words(result: PartyResult) -> list[str]:
    """Which penalty was chosen, in a sentence."""
    said = result.facts.get("ridge")
    if said is None:
        return []
    found = [f"Ridge: alpha {said['alpha']:.6g} of {len(said['alphas'])}, chosen by {_METHODS[said['chosen_by']]}."]
    if "within" in said:
        found.append(f"Rounding moves no coefficient by more than {max(said['within']):.0e}.")
    if said.get("uncertain"):
        found.append(
            f"{said['uncertain']} of this party's coefficients may be off in their first two digits: columns are in "
            f"units far apart. A regression with alpha = {said['alpha']:.6g} as its one penalty has all digits."
        )
    return found


def _errors(powers: Float, errors: Float, chosen: float) -> str:
    plane = svg.axes(svg.widened(powers.tolist()), svg.widened(errors.tolist()), _HEIGHT, "log10 of alpha", "error")
    points = [(plane.x(x), plane.y(y)) for x, y in zip(powers.tolist(), errors.tolist(), strict=True)]
    marks = [
        svg.dot(x, y, "s2" if power == chosen else "s1", f"alpha {10.0**power:.6g}: {error:.6g}")
        for (x, y), power, error in zip(points, powers.tolist(), errors.tolist(), strict=True)
    ]
    parts = [*plane.parts, svg.polyline(points, "stroke s1"), *marks]
    return svg.drawing("Error of every penalty", svg.WIDTH, _HEIGHT, parts)


def _coefficients(target: str, names: Sequence[str], powers: Float, path: Float, chosen: float) -> Figure:
    """Each coefficient as a share of what it is at the least penalty, for the largest ones."""
    start = path[0]
    drawn = [j for j in np.argsort(-np.abs(start), kind="stable").tolist() if start[j] != 0.0][:_LINES]
    shares = path[:, drawn] / start[drawn]
    title = f"Coefficients of {target} along the path"
    up = svg.widened([0.0, 1.0, *shares.ravel().tolist()])
    plane = svg.axes(svg.widened(powers.tolist()), up, _HEIGHT, "log10 of alpha", "share that is left")
    parts = [*plane.parts, svg.line(plane.x(chosen), plane.y(up[0]), plane.x(chosen), plane.y(up[1]), "zero")]
    for number, j in enumerate(drawn, start=1):
        values = shares[:, number - 1].tolist()
        points = [(plane.x(x), plane.y(y)) for x, y in zip(powers.tolist(), values, strict=True)]
        parts.append(svg.polyline(points, f"stroke s{number}"))
        parts += [svg.dot(x, y, f"s{number}", f"{names[j]}: {path[i, j]:.6g}") for i, (x, y) in enumerate(points)]
    keys, line = [shortened(names[j], 180.0) for j in drawn], 0
    for number, (at, line) in enumerate(in_columns(keys, svg.WIDTH - 16, 32), start=1):
        y = _HEIGHT + 8 + 18 * line
        parts += [svg.rect(8 + at, y, 11, 11, f"s{number}"), svg.text(24 + at, y + 10, keys[number - 1])]
    caption = (
        f"{title}: what every penalty leaves of the largest {len(drawn)} coefficients, as a share of what they are at "
        "the least one. The dashed line is the chosen penalty."
    )
    rows = [[f"{10.0**power:.6g}", *(f"{path[i, j]:.6g}" for j in drawn)] for i, power in enumerate(powers.tolist())]
    numbers = grid(title, ("alpha", *(names[j] for j in drawn)), rows)
    return Figure(svg.drawing(title, svg.WIDTH, _HEIGHT + 26 + 18 * line, parts), caption, numbers)
