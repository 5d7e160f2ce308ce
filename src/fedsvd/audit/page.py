"""The audit as one HTML file that needs nothing else: no script, no font and no picture is fetched.

Text goes through Jinja's escaping; only drawings, whose text ``results.report.svg`` escapes, are put in as they are.

Its pictures are SVG: chance and what was reached, matches record by record, recovered against true.
"""

from typing import Any

import numpy as np

from fedsvd import __version__
from fedsvd.audit.audit import Audit
from fedsvd.audit.finding import Picture
from fedsvd.results.report import svg
from fedsvd.results.report.lettering import text_width
from fedsvd.results.report.page import template_of

_HEIGHT = 260.0


def drawn(picture: Picture) -> str:
    """The picture of a finding."""
    return _KINDS[picture.kind](picture.title, picture.data)


def _null(title: str, data: dict[str, Any]) -> str:
    """A histogram of chance, and a line where the attack stands."""
    null, observed = np.array(data["null"]), data["observed"]
    across = svg.widened([*null.tolist(), observed], 0.1)
    counts, edges = np.histogram(null, bins=20, range=across)
    most = float(counts.max()) or 1.0
    plane = svg.axes(across, (0.0, most), _HEIGHT, "matched |correlation|", "draws of chance")
    parts = [*plane.parts]
    for count, low, high in zip(counts.tolist(), edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        top = plane.y(count)
        width = plane.x(high) - plane.x(low) - 1.0
        parts.append(svg.rect(plane.x(low), top, width, plane.y(0) - top, "s1", f"{count} draws"))
    at, top = plane.x(observed), plane.y(most)
    parts.append(svg.rect(at - 1.5, top - 4, 3.0, plane.y(0) - top + 4, "s2", f"{observed:.4f}"))
    words = "this attack"
    end = at + text_width(words) > svg.WIDTH
    parts.append(svg.text(at, top - 7, words, anchor="end" if end else "start"))  # above every bar
    return svg.drawing(title, svg.WIDTH, _HEIGHT, parts)


def _spread(title: str, data: dict[str, Any]) -> str:
    """Best matches from the worst record to the best, next to chance."""
    shares = data["shares"]
    plane = svg.axes((0.0, 1.0), (0.0, 1.0), _HEIGHT, "share of records", "best |correlation|")
    parts, at = [*plane.parts], svg.WIDTH - 4.0
    for name, css in (("chance", "s1"), ("found", "s2")):
        places = [(plane.x(share), plane.y(value)) for share, value in zip(shares, data[name], strict=True)]
        parts.append(svg.dots(places, css))
    for name, css in (("found", "s2"), ("chance", "s1")):  # the legend, from the right
        at -= text_width(name)
        parts += [svg.text(at, 13, name), svg.dots([(at - 8, 9)], css)]
        at -= 24
    return svg.drawing(title, svg.WIDTH, _HEIGHT, parts)


def _agreement(title: str, data: dict[str, Any]) -> str:
    """Cells of ranks, darker where more entries fall; a diagonal where recovered and true agree."""
    side, left, top = 240.0, 52.0, 24.0
    cells = data["cells"]
    step = side / len(cells)
    parts = []
    for across, column in enumerate(cells):
        for up, weight in enumerate(column):
            if weight > 0.0:
                x, y = left + across * step, top + side - (up + 1) * step
                parts.append(f'<g opacity="{weight**0.5:.2f}">{svg.rect(x, y, step, step, "s1")}</g>')
    parts.append(svg.line(left, top + side, left + side, top + side, "frame"))
    parts.append(svg.line(left, top, left, top + side, "frame"))
    parts.append(svg.text(left + side, top + side + 18, "true entry, by rank", anchor="end", css="axis"))
    parts.append(svg.text(4, 13, "recovered entry, by rank", css="axis"))
    return svg.drawing(title, svg.WIDTH, top + side + 30, parts)


def _entries(title: str, data: dict[str, Any]) -> str:
    """Entries of the data themselves: only where they were asked for."""
    points = np.array(data["points"])
    across, up = svg.widened(points[:, 0].tolist()), svg.widened(points[:, 1].tolist())
    plane = svg.axes(across, up, 320, "true entry", "recovered entry")
    marks = svg.dots([(plane.x(x), plane.y(y)) for x, y in points.tolist()], "s1")
    return svg.drawing(title, svg.WIDTH, 320, [*plane.parts, marks])


_KINDS = {"null": _null, "spread": _spread, "agreement": _agreement, "entries": _entries}


def template() -> Any:
    """The page without its content; an error that names the extra where Jinja is missing."""
    return template_of("fedsvd.audit")


def render(audit: Audit, record: dict[str, Any], include_data: bool = False) -> str:
    """The whole page; ``record`` is the audit's, with parties called by their names."""
    pictures = [picture for finding in audit.findings for picture in finding.pictures]
    html: str = template().render(
        record=record,
        version=__version__,
        seconds=f"{audit.seconds:.0f} s",
        figures=[{"svg": drawn(picture), "title": picture.title} for picture in pictures],
        include_data=include_data,
    )
    return html
