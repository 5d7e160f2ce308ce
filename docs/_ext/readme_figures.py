"""The README's pictures of a real demo: ``python docs/_ext/readme_figures.py`` runs it and draws what it said.

``docs/figures/demo.svg`` is the demo's own output, ``docs/figures/report.svg`` has two drawings of the report it wrote:
records of one run, with the times of the machine that made them. The badges say what ``pyproject.toml`` says, and a
test compares.
"""

import html
import re
import subprocess
import sys
import tempfile
import tomllib
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

from fedsvd import __version__

ROOT = Path(__file__).parents[2]
FIGURES = ROOT / "docs" / "figures"
STYLE = (
    "<style>text{font:12px system-ui,sans-serif;fill:#1b2130}.axis{fill:#545d6e}.grid{stroke:#e7eaf0}"
    ".frame,.tick{stroke:#545d6e}.zero{stroke:#545d6e;stroke-dasharray:3 3}.s1{fill:#2563c9}.s2{fill:#c2500a}"
    ".dots{fill:none;stroke:#2563c9;stroke-width:4;stroke-linecap:round;opacity:.6}.paper{fill:#fff}</style>"
)


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
        part.replace("<svg ", f'<svg x="{480 * j}" width="460" height="320" preserveAspectRatio="xMidYMin" ', 1)
        for j, part in enumerate(parts)
    )
    label = "From the demo's report: explained variance of each component, and the scores of one hospital's patients"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 940 330" role="img" aria-label="{label}">'
    return f'{head}{STYLE}<rect class="paper" width="940" height="330"/>{placed}</svg>\n'


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
    first, second = 12 + 7 * len(label), 12 + 7 * len(value)
    text = 'font-family="Verdana, sans-serif" font-size="11" fill="#fff" text-anchor="middle"'
    says = html.escape(f"{label}: {value}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{first + second}" height="20" role="img" aria-label="{says}">'
        f'<rect width="{first}" height="20" fill="#3d4554"/>'
        f'<rect x="{first}" width="{second}" height="20" fill="#1f57b8"/>'
        f'<text x="{first / 2}" y="14" {text}>{html.escape(label)}</text>'
        f'<text x="{first + second / 2}" y="14" {text}>{html.escape(value)}</text></svg>\n'
    )


def main() -> None:
    for name, picture in badges().items():
        (FIGURES / f"badge-{name}.svg").write_text(picture, encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "fedsvd", "demo", "--quiet"]
        said = subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True).stdout
        report = Path(folder, "results/demo-pca/parties/hospital-a/report.html").read_text(encoding="utf-8")
    (FIGURES / "demo.svg").write_text(terminal(said), encoding="utf-8")
    (FIGURES / "report.svg").write_text(drawings(report, ("explained variance of", "Scores")), encoding="utf-8")


if __name__ == "__main__":
    main()
