"""The right parts of ``docs/figures/screens-*.png``, taken anew: ``python docs/_ext/screens.py SITE REPORT``.

``SITE`` is what ``make docs`` built, ``REPORT`` the ``report.html`` of a party of the messy study. Left parts are of
version 0.2.0, which is not here: they are taken over from the pictures as they stand. The dashboard is that of 0.2.0.
"""

import html
import os
import subprocess
import sys
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.browser import SCREENSHOTS, Browser  # noqa: E402

FIGURES = ROOT / "docs" / "figures"
GAP, BETWEEN = 10, "#b4b9c4"
BEFORE = {"report": 557, "home": 604, "help": 489}  # how wide the left part of a picture is
COLOURS = 48  # of a picture: text, rules, and the colours of drawings
TERMINAL = "<body style='background:#161a22;color:#e6e9ef;margin:8px;font:9.6px/11.9px DejaVu Sans Mono'><pre>"


def shown(browser: Browser, url: str, width: int, height: int, scale: float, scheme: str = "light") -> Image.Image:
    """The top of a page in a window of this width, made smaller: ``height`` is that of the picture."""
    browser.size(width, round(height / scale))
    browser.media(scheme)
    browser.visit(url)
    seen = Image.open(browser.screenshot("screen", whole=False)).convert("RGB")
    return seen.resize((round(width * scale), height), Image.Resampling.LANCZOS)


def beside(*parts: Image.Image) -> Image.Image:
    """Pictures next to each other, with a strip between them."""
    width = sum(part.width for part in parts) + GAP * (len(parts) - 1)
    found = Image.new("RGB", (width, max(part.height for part in parts)), BETWEEN)
    place = 0
    for part in parts:
        found.paste(part, (place, 0))
        place += part.width + GAP
    return found


def write(name: str, picture: Image.Image) -> None:
    """A picture of few colours, which is small."""
    few = picture.quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(FIGURES / f"screens-{name}.png", optimize=True)


def left(name: str) -> Image.Image:
    """What version 0.2.0 showed."""
    stored = Image.open(FIGURES / f"screens-{name}.png").convert("RGB")
    return stored.crop((0, 0, BEFORE[name], stored.height))


def help_page(folder: Path) -> str:
    """What ``fedsvd --help`` prints at 80 columns, as a page."""
    words = [sys.executable, "-m", "fedsvd", "--help"]
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1"}
    said = subprocess.run(words, check=True, capture_output=True, text=True, env=environment).stdout
    page = folder / "help.html"
    page.write_text(f"{TERMINAL}<b>$ fedsvd --help</b>\n{html.escape(said)}</pre>", encoding="utf-8")
    return page.as_uri()


def main(site: Path, report: Path) -> None:
    """Every picture but the dashboard's."""
    home, page = (site / "index.html").resolve().as_uri(), report.resolve().as_uri()
    browser = Browser()
    try:
        for name, url, width, height in (("report", page, 900, 837), ("home", home, 1280, 495)):
            scale = BEFORE[name] / width
            write(name, beside(left(name), shown(browser, url, width, height, scale)))
            dark = shown(browser, url, width, height, scale, "dark")
            write(f"{name}-dark", beside(dark, shown(browser, url, 375, height, max(scale, 0.62))))
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        write("help", beside(left("help"), shown(browser, help_page(SCREENSHOTS), 500, 1000, 1.0)))
    finally:
        browser.close()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
