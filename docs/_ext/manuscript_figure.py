"""The figure of ``docs/howto/manuscript.md``: ``python docs/_ext/manuscript_figure.py FOLDER`` draws it.

``FOLDER`` is where the page was typed. The drawings are those of the reports; a test types the page, draws the figure
again and compares: exact counts and hazard ratios as drawn have no noise.
"""

import sys
from pathlib import Path

from readme_figures import FIGURES, STYLE

from fedsvd.results.drawings.declared import pictures
from fedsvd.results.report import charts
from fedsvd.results.write import read_result

LABEL = "Survival of two arms over eleven years, and hazard ratios of five measurements with their intervals"
FIGURE = FIGURES / "manuscript.svg"


def drawn(folder: Path) -> str:
    """Curves and hazard ratios side by side."""
    wanted = (("curves", "survival"), ("risk", "forest"))
    found = [pictures(read_result(folder / "results" / name), kind)[0] for name, kind in wanted]
    parts = "".join(
        charts.drawn(each).replace(
            "<svg ", f'<svg x="{440 * j + 10}" y="8" width="420" height="346" preserveAspectRatio="xMidYMin" ', 1
        )
        for j, each in enumerate(found)
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 870 366" role="img" aria-label="{LABEL}">'
    return f'{head}{STYLE}<rect class="paper" width="870" height="366"/>{parts}</svg>\n'


if __name__ == "__main__":
    FIGURE.write_text(drawn(Path(sys.argv[1])), encoding="utf-8")
