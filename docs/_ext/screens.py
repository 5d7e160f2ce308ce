"""The right parts of ``docs/figures/screens-*.png``, taken anew: ``python docs/_ext/screens.py SITE REPORT``.

``SITE`` is what ``make docs`` built, ``REPORT`` the ``report.html`` of a party of the messy study. Left parts are of
version 0.2.0, which is not here: they are taken over from the pictures as they stand. Without words the dashboard's
picture alone is taken, which has no left part.
"""

import html
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

from PIL import Image

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.browser import SCREENSHOTS, Browser  # noqa: E402

from fedsvd.cli.dashboard import dashboard  # noqa: E402
from fedsvd.service.jobs import Jobs  # noqa: E402
from fedsvd.service.records import EnlistedFacts, Failure, JobRecord, JobState, Progress  # noqa: E402
from fedsvd.storage.journal import AuditLog, Journal  # noqa: E402

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


def write(name: str, picture: Image.Image, colours: int = COLOURS) -> None:
    """A picture of few colours, which is small."""
    few = picture.quantize(colours, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
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


def jobs_of_a_day(folder: Path) -> Jobs:
    """One job that broke, one that waits for a party, one that runs."""
    jobs, audit = Jobs(Journal(folder / "ledger.jsonl")), AuditLog(folder / "audit.jsonl")
    names = ("north", "south", "west")
    members = tuple(f"party/{name}" for name in names)
    for number, (study, task) in enumerate((("first-look", "pca"), ("mortality", "glm"), ("markers", "pca")), start=1):
        words = {"label": "died", "family": "binomial"} if task == "glm" else {}
        file = {"job": {"name": study, "task": task, **words}, "party": [{"name": name} for name in names]}
        id, who = f"{number}{'a7c4e91' * 3}"[:16], "researcher/office"
        jobs.submit(JobRecord(id=id, name=study, file=file, submitter=who, members=members))
        audit.write(f"2026-11-19T0{6 + number}:30:00+00:00", "submitted", job=id, by=who)
        for member in members[: 2 if study == "mortality" else 3]:
            jobs.enlist(id, member, 1, EnlistedFacts(rows=10))
    first, _, last = (job.id for job in jobs.all())
    failure = Failure(who="party/west", code="FSVD-201", stage="computing", text="details are in that party's own log")
    jobs.change(first, state=JobState.BROKEN, failures=(failure,))
    jobs.change(last, state=JobState.RUNNING)
    return jobs


def dashboard_shown(browser: Browser) -> Image.Image:
    """The dashboard in light, in dark, and on a phone, while a job runs."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        jobs = jobs_of_a_day(folder)
        running = jobs.all()[-1].id
        with dashboard(SimpleNamespace(jobs=jobs, port=7443), folder / "audit.jsonl", 0) as page:
            browser.size(900, 1000)
            browser.visit(page)
            for done in (200, 300, 400):  # so that rates and the time that is left are known
                for part, member in enumerate(("csp", "party/north", "party/south", "party/west")):
                    stage = "aggregating" if member == "csp" else "compress"
                    progress = Progress(
                        stage=stage, done=done + 90 * part, total=1000, sent=12_000 * (done + 90 * part)
                    )
                    jobs.report(running, member, progress)
                time.sleep(2.0)
            parts = []
            for width, scale, scheme in ((900, 0.56, "light"), (900, 0.56, "dark"), (375, 0.56, "light")):
                parts.append(
                    shown(browser, page if not parts else browser.evaluate("location.href"), width, 700, scale, scheme)
                )
            return beside(*parts)


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


def main_of_dashboard() -> None:
    """The dashboard's picture."""
    browser = Browser()
    try:
        write("dashboard", dashboard_shown(browser), 256)  # of two schemes, with grounds that hardly differ
    finally:
        browser.close()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3])) if sys.argv[1:] else main_of_dashboard()
