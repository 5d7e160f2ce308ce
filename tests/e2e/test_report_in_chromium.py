"""A report in a real browser fetches nothing, has no complaint, and is read on a phone, in the dark and on paper."""

import numpy as np
import pandas as pd
import pytest
from tests.browser import COLLISIONS, CONTRAST, Browser
from tests.studies import companies, hospitals
from tests.unit.results.report.pages import study

from fedsvd.audit.finding import Picture
from fedsvd.audit.page import drawn


@pytest.fixture(scope="module")
def browser():
    found = Browser()
    yield found
    found.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Reports of a PCA for a party and for the CSP, of regressions and of a model, for several of their parties."""
    rows, columns = (tmp_path_factory.mktemp(name) for name in ("rows", "columns"))
    files = hospitals(rows)
    pca = study(files.job(task="pca", components=3, release=["components", "mean", "spectrum"], id="patient"))
    keys = {"split": "vertical", "label": "outcome", "label_party": "insurer", "id": "patient", "sort_by_id": True}
    lr = study(companies(columns).job(task="lr", release=["coefficients", "intercept", "score"], **keys))
    table = study(
        hospitals(tmp_path_factory.mktemp("table")).job(task="lr", label="outcome", id="patient", inference=True)
    )
    chosen = study(
        hospitals(tmp_path_factory.mktemp("chosen")).job(
            task="pca", components="parallel", unit_variance=True, id="patient"
        )
    )
    cca = study(companies(tmp_path_factory.mktemp("cca")).job(task="cca", id="patient", sort_by_id=True))
    outcome = hospitals(tmp_path_factory.mktemp("model"), ("alive", "dead"))
    model = study(outcome.job(task="glm", label="outcome", id="patient", family="binomial", classes=["alive", "dead"]))
    own = study(companies(tmp_path_factory.mktemp("own")).job(task="lr", inference=True, **keys))
    penalties = {"alphas": [0.1, 1.0, 10.0, 100.0], "choose_by": "gcv"}
    ridge = study(companies(tmp_path_factory.mktemp("ridge")).job(task="lr", **penalties, **keys))
    found = {
        "model": model / "parties" / "south",
        "own": own / "parties" / "bank",
        "ridge": ridge / "parties" / "insurer",
        "chosen": chosen / "parties" / "west",
        "canonical": cca / "parties" / "shop",
        "table": table / "parties" / "south",
        "party": pca / "parties" / "north",
        "csp": pca / "roles" / "csp",
        "labels": lr / "parties" / "insurer",
    }
    return {name: folder / "report.html" for name, folder in found.items()}


@pytest.mark.parametrize("name", ["party", "csp", "labels", "table", "model", "own", "ridge", "chosen", "canonical"])
def test_a_report_asks_the_network_for_nothing_and_has_no_complaint(browser, pages, name):
    browser.requests.clear()
    browser.complaints.clear()
    browser.size(1200, 900)
    browser.media("light")
    browser.visit(pages[name].as_uri())
    browser.screenshot(f"report-{name}-light")
    assert browser.requests == [pages[name].as_uri()]
    assert browser.complaints == []
    assert browser.evaluate("performance.getEntriesByType('resource').length") == 0
    assert pages[name].stat().st_size < 2_000_000


@pytest.mark.parametrize("name", ["party", "table", "model", "own", "ridge", "chosen", "canonical"])
def test_a_report_fits_a_phone(browser, pages, name):
    browser.size(375, 700)
    browser.media("light")
    browser.visit(pages[name].as_uri())
    browser.screenshot(f"report-{name}-phone")
    assert browser.evaluate("document.documentElement.scrollWidth") <= 375
    hidden = (
        "[...document.querySelectorAll('.facts, .facts td')].filter(n => n.getBoundingClientRect().right > 375).length"
    )
    assert browser.evaluate(hidden) == 0  # facts stand below each other: none is found by scrolling to the side
    smallest = (
        "Math.min(...[...document.querySelectorAll('svg')].map(s => 12 * s.clientWidth / s.viewBox.baseVal.width))"
    )
    assert browser.evaluate(smallest) > 8  # letters of the drawings, in pixels


@pytest.mark.parametrize("name", ["party", "table", "model", "own", "ridge", "chosen", "canonical"])
def test_a_report_has_a_light_and_a_dark_side_that_can_both_be_read(browser, pages, name):
    browser.size(1200, 900)
    grounds = {}
    for scheme in ("light", "dark"):
        browser.media(scheme)
        browser.visit(pages[name].as_uri())
        grounds[scheme] = browser.evaluate("getComputedStyle(document.body).backgroundColor")
        worst, where = browser.evaluate(CONTRAST)
        assert worst >= 4.5, f"{scheme}: {where}"
        browser.screenshot(f"report-{name}-{scheme}")
    assert grounds["light"] != grounds["dark"]


def test_a_report_can_be_printed(browser, pages):
    browser.media("light")
    browser.visit(pages["labels"].as_uri())
    assert browser.pdf().startswith(b"%PDF")
    browser.media("dark", "print")
    assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    browser.media("light")


def test_a_report_can_be_heard_and_walked_through_by_keyboard(browser, pages):
    browser.size(1200, 900)
    browser.visit(pages["party"].as_uri())
    told = browser.heard()
    roles = {role for role, _ in told}
    assert {"banner", "main", "navigation", "contentinfo", "heading", "table", "columnheader"} <= roles
    pictures = [name for role, name in told if role in ("image", "img", "graphics-document")]
    assert pictures
    assert all(pictures), "a drawing without a name"
    assert next(name for role, name in told if role == "heading") == "study"
    browser.press("Tab")
    assert browser.evaluate("document.activeElement.textContent") == "Skip to the report"
    seen = set()
    for _ in range(40):
        browser.press("Tab")
        seen.add(browser.evaluate("document.activeElement.tagName"))
    assert {"A", "SUMMARY"} <= seen


LONG = ("Universitaetsklinikum-Hamburg-Eppendorf-1", "W" * 40, "m" * 64, "a")
COLUMNS = (
    *(f"systolischer Blutdruck in Ruhe (mmHg) Ä{place}" for place in range(6)),
    *(f"{'平均赤血球ヘモグロビン濃度' * 3}{place}" for place in range(3)),
    *(f"{'M' * 39}{place}" for place in range(3)),
    "age",
)
FONTS = ("DejaVu Sans", "DejaVu Sans Mono", "DejaVu Serif", "Liberation Sans", "Verdana")


@pytest.fixture(scope="module")
def long_names(tmp_path_factory):
    """Reports of a PCA and a regression whose parties and columns have long names."""
    rng = np.random.default_rng(5)
    table = rng.normal(size=(120, 3)) @ rng.normal(size=(3, len(COLUMNS))) + rng.normal(size=(120, len(COLUMNS)))
    settings = {
        "pca": 'components = 3\nrelease = ["components", "mean", "spectrum"]\n',
        "lr": f'label = "{COLUMNS[0]}"\n',
    }
    reports = []
    for task, more in settings.items():
        folder = tmp_path_factory.mktemp(task)
        lines = f'[job]\nname = "long"\ntask = "{task}"\n{more}'
        for place, (name, rows) in enumerate(zip(LONG, np.array_split(table, len(LONG)), strict=True)):
            pd.DataFrame(rows, columns=COLUMNS).to_csv(folder / f"{place}.csv", index=False)
            lines += f'[[party]]\nname = "{name}"\ndata = "{place}.csv"\n'
        (folder / "job.toml").write_text(lines, encoding="utf-8")
        out = study(folder / "job.toml")
        reports += [place / "report.html" for place in (out, out / "parties" / "a", out / "roles" / "csp")]
    return reports


@pytest.mark.parametrize("width", [1200, 390])
def test_no_label_of_a_drawing_touches_another_or_leaves_it_in_any_font(browser, long_names, pages, width):
    browser.media("light")
    browser.size(width, 900)
    for report in (*long_names, *pages.values()):
        browser.visit(report.as_uri())
        for font in FONTS:
            browser.evaluate(f"document.querySelectorAll('svg').forEach(s => {{ s.style.fontFamily = '{font}' }})")
            assert browser.evaluate(COLLISIONS) == [], f"{report.parent.name}, {font}"
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
    browser.screenshot(f"report-long-names-{width}")


def test_labels_that_touch_are_found(browser, tmp_path):
    text = '<text x="5" y="20">one</text><text x="12" y="22">two</text><text x="80" y="20">a long one</text>'
    (tmp_path / "page.html").write_text(
        f'<svg width="100" height="40" viewBox="0 0 100 40" aria-label="it">{text}</svg>', encoding="utf-8"
    )
    browser.visit((tmp_path / "page.html").as_uri())
    assert browser.evaluate(COLLISIONS) == ["two and one", "a long one: outside of it"]


def test_no_label_of_the_audits_drawings_touches_another(browser, tmp_path):
    rng = np.random.default_rng(2)
    shares, null = np.linspace(0, 1, 40).tolist(), rng.normal(0.0701, 0.0003, size=100).tolist()
    same = np.linspace(0.7, 0.97, 40).tolist()  # found and chance end in the same place
    cells = rng.uniform(size=(30, 30)).tolist()
    points = (rng.normal(size=(50, 2)) * 1e-5).tolist()
    pictures = [Picture("null", "chance", {"null": null, "observed": value}) for value in (min(null), 0.0701, 0.09)]
    pictures.append(Picture("spread", "matches", {"shares": shares, "chance": same, "found": same}))
    pictures.append(Picture("agreement", "ranks", {"cells": cells}))
    pictures.append(Picture("entries", "entries", {"points": points}))
    drawings = [drawn(picture) for picture in pictures]
    style = "<style>svg { font: 12px sans-serif; width: 420px; display: block }</style>"
    (tmp_path / "audit.html").write_text(f"<meta charset=utf-8>{style}{''.join(drawings)}", encoding="utf-8")
    browser.size(1200, 900)
    browser.visit((tmp_path / "audit.html").as_uri())
    for font in FONTS:
        browser.evaluate(f"document.querySelectorAll('svg').forEach(s => {{ s.style.fontFamily = '{font}' }})")
        assert browser.evaluate(COLLISIONS) == [], font
    # The bars of chance do not lie under the words that mark the attack.
    covered = """[...document.querySelectorAll('svg[aria-label=chance]')].some(svg => {
      const mark = [...svg.querySelectorAll('text')].find(t => t.textContent === 'this attack');
      const words = mark.getBoundingClientRect();
      return [...svg.querySelectorAll('rect.s1')].some(r => r.getBoundingClientRect().top < words.bottom - 3); })"""
    assert not browser.evaluate(covered)
