"""The README's pictures: ``python docs/_ext/readme_figures.py`` runs the demo and draws them all.

``docs/figures/demo.svg`` is the demo's own output, ``docs/figures/report.svg`` has two drawings of the report it wrote:
records of one run, with the times of the machine that made them; ``study.svg`` has three of a logistic regression. The
badges say what ``pyproject.toml`` says; ``federation.svg`` is drawn here. A test compares those, and checks that no
text leaves its box in any common font.
"""

import html
import math
import re
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import replace
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text
from sklearn.datasets import load_breast_cancer

from fedsvd import FederatedLogisticRegression, __version__
from fedsvd.results.drawings.declared import pictures
from fedsvd.results.report import charts, svg
from fedsvd.results.report.lettering import text_width

ROOT = Path(__file__).parents[2]
FIGURES = ROOT / "docs" / "figures"
STYLE = (
    "<style>text{font:12px system-ui,sans-serif;fill:#1b2130}.axis{fill:#545d6e}.grid{stroke:#e7eaf0}"
    ".frame,.tick{stroke:#545d6e}.zero{fill:none;stroke:#545d6e;stroke-dasharray:3 3}.s1{fill:#2563c9}.s2{fill:#c2500a}"
    ".dots{fill:none;stroke:#2563c9;stroke-width:4;stroke-linecap:round;opacity:.6}.band{opacity:.18}.paper{fill:#fff}"
    ".stroke{fill:none;stroke-width:2}.stroke.s1{fill:none;stroke:#2563c9}.stroke.s2{fill:none;stroke:#c2500a}</style>"
)


def wrapped(words: str, width: float, size: float) -> list[str]:
    """The lines of a sentence, none wider than this."""
    lines: list[str] = []
    for word in words.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, size=size) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def terminal(said: str) -> str:
    """What a command said as a picture of a terminal; no font is fetched from anywhere."""
    console = Console(record=True, width=96, file=StringIO())
    console.print(Text.from_ansi("$ make demo\n" + said))
    picture = console.export_svg(title="fedsvd demo", theme=DIMMED_MONOKAI)
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
    return picture.replace("Fira Code", "ui-monospace, Menlo, Consolas").replace(
        "<!-- Generated with Rich", "<!-- Rich"
    )


def drawings(report: str, wanted: tuple[str, ...]) -> str:
    """Drawings of a report beside each other."""
    found = {
        re.search(r'aria-label="([^"]*)"', svg)[1]: svg for svg in re.findall(r"<svg .*?</svg>", report, re.DOTALL)
    }
    parts = [found[next(name for name in found if name.startswith(word))] for word in wanted]
    placed = "".join(
        part.replace("<svg ", f'<svg x="{440 * j + 10}" width="420" height="320" preserveAspectRatio="xMidYMin" ', 1)
        for j, part in enumerate(parts)
    )
    label = "From the demo's report: explained variance of each component, and the scores of one hospital's patients"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 870 330" role="img" aria-label="{label}">'
    return f'{head}{STYLE}<rect class="paper" width="870" height="330"/>{placed}</svg>\n'


FEDERATION = (
    "<style>text{font:14px system-ui,sans-serif;fill:#1b2130}.small{fill:#545d6e}.strong{font-weight:600}"
    ".card{fill:#fff;stroke:#2563c9;stroke-width:1.5}.csp{stroke:#c2500a}.ta{stroke:#18795a;stroke-dasharray:5 4}"
    ".up{stroke:#2563c9;stroke-width:2;marker-end:url(#u)}.a{fill:#2563c9}.b{fill:#74a9ff}.c{fill:#bcd5ff}"
    ".down{stroke:#c2500a;stroke-width:2;stroke-dasharray:6 4;marker-end:url(#d)}.m{fill:#c9ced8}.n{fill:#8a93a3}"
    ".paper{fill:#f5f7fa}.card,.paper{rx:8px}</style>"
    '<defs><marker id="u" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
    '<path d="M0 0L8 4L0 8z" fill="#2563c9"/></marker>'
    '<marker id="d" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
    '<path d="M0 0L8 4L0 8z" fill="#c2500a"/></marker></defs>'
)
_SIZE, _LINE, _PAD, _EDGE = 14.0, 19.0, 14.0, 18.0
_SERVER = ("CSP", "adds up: pads cancel", "factorises the sum", "never learns P, Q or c")
_AUTHORITY = ("authority (optional)", "deals seeds, sees no data")


def federation(width: float = 620.0) -> str:
    """Three parties, the CSP and the authority, with what goes up and down; readable on a telephone."""
    steps = ("compress, rotate,", "mask, pad")
    parties = [(f"hospital {name}", f"X{index} stays here", *steps) for name, index in zip("ABC", "₁₂₃", strict=True)]
    icon = 18.0
    party = max(map(_needed, parties)) + icon + 12
    server = max(_needed(_SERVER), _needed(_AUTHORITY))
    height, gap, top = 2 * _PAD + 4 * _LINE - 4, 14.0, _EDGE
    right, middle = width - _EDGE - server, top + 1.5 * height + gap
    parts = []
    for j, lines in enumerate(parties):
        y = top + j * (height + gap)
        parts += [
            svg.rect(_EDGE, y, party, height, "card"),
            svg.rect(_EDGE + _PAD, y + _PAD, icon, height - 28, "abc"[j]),
        ]
        parts += _lines(_EDGE + _PAD + icon + 12, y, lines)
        at, into = y + height / 2, middle + 24 * (j - 1)
        parts.append(svg.line(_EDGE + party + 4, at - 9, right - 5, into - 5, "up"))
        parts.append(svg.line(right - 4, into + 7, _EDGE + party + 6, at + 9, "down"))
    parts += [
        svg.rect(right, middle - height / 2, server, height, "card csp"),
        *_lines(right + _PAD, middle - height / 2, _SERVER),
    ]
    parts += [
        svg.rect(right + server - 62 + 16 * j, middle - height / 2 + 10, 16, 18, css) for j, css in enumerate("mnm")
    ]
    parts += [svg.rect(right, top, server, 2 * _PAD + 2 * _LINE - 4, "card ta"), *_lines(right + _PAD, top, _AUTHORITY)]
    y = top + 3 * (height + gap) + 8
    for css, words in (
        ("up", "padded shares, uniform one by one: of the Gram matrix of c·P·A, or of c·P·A·Q"),
        ("down", "P·U and c·S, verified; each party takes P and c off"),
        ("", "Result at every party: the factors of [X₁ X₂ X₃] to float64 rounding, as if the data were in one place."),
    ):
        x = _EDGE + 52 if css else _EDGE
        parts += [svg.line(_EDGE, y + 9, _EDGE + 40, y + 9, css)] if css else []
        for line in wrapped(words, width - _EDGE - x, size=_SIZE):
            parts.append(svg.text(x, y + _SIZE, line, css="small"))
            y += _LINE
        y += 5
    label = (
        "Three parties keep their data at home, send masked and padded shares to the CSP, and take the masks off the "
        "factors it returns"
    )
    picture = svg.drawing(label, width, y + 8, [FEDERATION, svg.rect(0, 0, width, y + 8, "paper"), *parts])
    # Shown at its own size where there is space for it, and smaller on a telephone.
    return picture.replace("<svg ", f'<svg width="{width:g}" height="{y + 8:g}" ', 1) + "\n"


def _needed(lines: tuple[str, ...]) -> float:
    """How wide a box of these lines is, the first one bold."""
    first, *more = lines
    return 2 * _PAD + max(text_width(first, size=_SIZE, bold=True), *(text_width(line, size=_SIZE) for line in more))


def _lines(x: float, y: float, lines: tuple[str, ...]) -> list[str]:
    return [
        svg.text(x, y + _PAD + _SIZE - 3 + _LINE * j, line, css="small" if j else "strong")
        for j, line in enumerate(lines)
    ]


def badges() -> dict[str, str]:
    """What is true of this package, by the name of its picture."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    strict = project["tool"]["mypy"]["strict"]
    facts = {
        "python": ("python", project["project"]["requires-python"].removeprefix(">=") + "+"),
        "licence": ("licence", project["project"]["license"]),
        "typed": ("typed", "mypy --strict" if strict else "mypy"),
        "version": ("version", f"{__version__}, unreleased"),
    }
    return {name: badge(*fact) for name, fact in facts.items()}


def badge(label: str, value: str) -> str:
    """Two words on a small plate."""
    first, second = (12 + math.ceil(text_width(words, size=11)) for words in (label, value))
    text = 'font-family="Verdana, sans-serif" font-size="11" fill="#fff" text-anchor="middle"'
    says = html.escape(f"{label}: {value}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{first + second}" height="20" role="img" aria-label="{says}">'
        f'<rect width="{first}" height="20" fill="#3d4554"/>'
        f'<rect x="{first}" width="{second}" height="20" fill="#1f57b8"/>'
        f'<text x="{first / 2}" y="14" {text}>{html.escape(label)}</text>'
        f'<text x="{first + second / 2}" y="14" {text}>{html.escape(value)}</text></svg>\n'
    )


def study() -> str:
    """Three drawings of one study: odds ratios, ROC curve and calibration of all patients, with one hospital's own."""
    data = load_breast_cancer(as_frame=True)
    patients = data.data[["mean texture", "mean area", "mean smoothness", "mean symmetry"]].copy()
    patients["mean area"] /= 100  # units in which odds can be read
    patients[["mean smoothness", "mean symmetry"]] *= 100
    malignant = (data.target == 0).astype(int).rename("malignant")
    rows = (slice(0, 250), slice(250, 430), slice(430, 569))
    model = FederatedLogisticRegression(roc=5).fit([patients[own] for own in rows], [malignant[own] for own in rows])
    plots, own = model.plot, rows[0]
    of_own = plots.of_rows(patients[own], malignant[own])
    at_home = replace(
        plots.result, arrays={**of_own.arrays, "roc": plots.result.arrays["roc"]}, objects={"records": "own patients"}
    )
    found = [pictures(plots.result, "forest"), pictures(at_home, "roc"), pictures(at_home, "calibration")]
    # The odds ratios stand above the two curves: three in a line have letters too small for a page's width.
    places = [(230, 8, 130), (10, 138, 346), (450, 138, 346)]
    parts = "".join(
        charts.drawn(each[0]).replace(
            "<svg ", f'<svg x="{x}" y="{y}" width="420" height="{height}" preserveAspectRatio="xMidYMin" ', 1
        )
        for (x, y, height), each in zip(places, found, strict=True)
    )
    label = "Odds ratios, ROC curve and calibration of all patients, and of one hospital's own"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 880 494" role="img" aria-label="{label}">'
    return f'{head}{STYLE}<rect class="paper" width="880" height="494"/>{parts}</svg>\n'


def main() -> None:
    (FIGURES / "study.svg").write_text(study(), encoding="utf-8")
    for name, picture in badges().items():
        (FIGURES / f"badge-{name}.svg").write_text(picture, encoding="utf-8")
    (FIGURES / "federation.svg").write_text(federation(), encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "fedsvd", "demo", "--quiet"]
        said = subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True).stdout
        report = Path(folder, "results/demo-pca/parties/hospital-a/report.html").read_text(encoding="utf-8")
    (FIGURES / "demo.svg").write_text(terminal(said), encoding="utf-8")
    (FIGURES / "report.svg").write_text(drawings(report, ("Explained variance of", "Scores")), encoding="utf-8")


if __name__ == "__main__":
    main()
