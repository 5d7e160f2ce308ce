"""A report in a real browser fetches nothing, has no complaint, and is read on a phone, in the dark and on paper."""

import pytest
from tests.browser import CONTRAST, Browser
from tests.studies import companies, hospitals
from tests.unit.report.pages import study


@pytest.fixture(scope="module")
def browser():
    found = Browser()
    yield found
    found.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Reports of a PCA for a party and for the CSP, and of a regression for its label holder."""
    rows, columns = (tmp_path_factory.mktemp(name) for name in ("rows", "columns"))
    files = hospitals(rows)
    pca = study(files.job(task="pca", components=3, release=["components", "mean", "spectrum"], id="patient"))
    keys = {"split": "vertical", "label": "outcome", "label_party": "insurer", "id": "patient", "sort_by_id": True}
    lr = study(companies(columns).job(task="lr", release=["coefficients", "intercept", "score"], **keys))
    found = {"party": pca / "parties" / "north", "csp": pca / "roles" / "csp", "labels": lr / "parties" / "insurer"}
    return {name: folder / "report.html" for name, folder in found.items()}


@pytest.mark.parametrize("name", ["party", "csp", "labels"])
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


def test_a_report_fits_a_phone(browser, pages):
    browser.size(375, 700)
    browser.media("light")
    browser.visit(pages["party"].as_uri())
    browser.screenshot("report-phone")
    assert browser.evaluate("document.documentElement.scrollWidth") <= 375
    smallest = (
        "Math.min(...[...document.querySelectorAll('svg')].map(s => 12 * s.clientWidth / s.viewBox.baseVal.width))"
    )
    assert browser.evaluate(smallest) > 8  # letters of the drawings, in pixels


def test_a_report_has_a_light_and_a_dark_side_that_can_both_be_read(browser, pages):
    browser.size(1200, 900)
    grounds = {}
    for scheme in ("light", "dark"):
        browser.media(scheme)
        browser.visit(pages["party"].as_uri())
        grounds[scheme] = browser.evaluate("getComputedStyle(document.body).backgroundColor")
        worst, where = browser.evaluate(CONTRAST)
        assert worst >= 4.5, f"{scheme}: {where}"
        browser.screenshot(f"report-{scheme}")
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
