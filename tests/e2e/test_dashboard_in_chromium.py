"""The dashboard in a real browser follows a job live, by eye, by ear and by keyboard, and asks its own server alone."""

from types import SimpleNamespace

import pytest
from tests.browser import CONTRAST, Browser

from fedsvd.cli.dashboard import dashboard
from fedsvd.service.jobs import Jobs
from fedsvd.service.records import EnlistedFacts, Failure, JobRecord, JobState, Progress
from fedsvd.storage.journal import AuditLog, Journal

FILE = {"job": {"name": "three-hospitals", "task": "pca"}, "party": [{"name": "a"}, {"name": "b"}]}
MEMBERS = ("party/a", "party/b")
JOB = "2b" * 8


@pytest.fixture(scope="module")
def browser():
    found = Browser()
    yield found
    found.close()


@pytest.fixture
def jobs(tmp_path):
    return Jobs(Journal(tmp_path / "ledger.jsonl"))


@pytest.fixture
def audit(tmp_path):
    return AuditLog(tmp_path / "audit.jsonl")


@pytest.fixture
def address(jobs, audit, tmp_path):
    with dashboard(SimpleNamespace(jobs=jobs, port=7443), tmp_path / "audit.jsonl", 0) as page:
        yield page


def text(browser: Browser) -> str:
    return browser.evaluate("document.body.innerText")


def test_a_job_is_followed_from_recruiting_to_its_end(browser, jobs, audit, address):
    browser.requests.clear()
    browser.complaints.clear()
    browser.size(1100, 800)
    browser.media("light")
    browser.visit(address)
    browser.until("document.body.innerText.includes('No job yet')")
    assert "token" not in browser.evaluate("location.href")
    jobs.submit(JobRecord(id=JOB, name="three-hospitals", file=FILE, submitter="researcher/res", members=MEMBERS))
    audit.write("2026-01-02T03:04:05+00:00", "submitted", job=JOB, by="researcher/res")
    browser.until("document.body.innerText.includes('recruiting')")
    browser.until("document.body.innerText.includes('awaited')")
    for member in MEMBERS:
        jobs.enlist(JOB, member, 1, EnlistedFacts(rows=10))
    jobs.change(JOB, state=JobState.RUNNING)
    for done in (100, 400):
        jobs.report(JOB, "party/a", Progress(stage="compress", done=done, total=1000, sent=5_000_000))
        browser.until(
            f"document.querySelector('progress') && document.querySelector('progress').value === {done // 10}"
        )
    browser.until("[...document.querySelectorAll('td')].some(cell => /^[0-9.]+ (s|min)/.test(cell.textContent))")  # ETA
    assert "4.8 MiB" in text(browser)
    browser.screenshot("dashboard-running")
    failure = {
        "who": "party/b",
        "code": "FSVD-201",
        "stage": "computing",
        "text": "details are in that party's own log",
    }
    jobs.change(JOB, state=JobState.BROKEN, failures=(Failure(**failure),))
    browser.until("document.querySelector('.failure')")
    assert "FSVD-201: party/b in computing: details are in that party's own log" in text(browser)
    assert browser.evaluate("document.getElementById('news').textContent") == "three-hospitals is broken"
    browser.screenshot("dashboard-broken")
    host = address.partition("/?")[0]
    assert all(url.startswith((host, "data:")) for url in browser.requests), browser.requests
    assert browser.complaints == []


def test_the_page_is_heard_read_in_the_dark_on_a_phone_and_walked_through_by_keyboard(browser, jobs, address):
    name = "<img src=x onerror=alert(1)>"
    jobs.submit(
        JobRecord(
            id=JOB,
            name=name,
            file={**FILE, "job": {"name": name, "task": "pca"}},
            submitter="researcher/res",
            members=MEMBERS,
        )
    )
    browser.visit(address)
    browser.until("document.querySelector('article')")
    assert browser.evaluate("document.querySelector('article h3').textContent").startswith(name)  # text, not markup
    roles = {role for role, _ in browser.heard()}
    assert {"banner", "main", "contentinfo", "heading", "table", "status", "region"} <= roles
    assert browser.evaluate("document.getElementById('news').getAttribute('aria-live')") == "polite"
    for scheme in ("light", "dark"):
        browser.media(scheme)
        worst, where = browser.evaluate(CONTRAST)
        assert worst >= 4.5, f"{scheme}: {where}"
    browser.screenshot("dashboard-dark")
    browser.media("light")
    browser.press("Tab")
    assert browser.evaluate("document.activeElement.textContent") == "Skip to the jobs"
    browser.press("Tab")
    browser.until("document.activeElement.getAttribute('role') === 'region'")
    browser.size(375, 700)
    assert browser.evaluate("document.documentElement.scrollWidth") <= 375
    browser.screenshot("dashboard-phone")


def test_the_page_shows_the_state_before_the_first_event(browser, jobs, audit, address):
    """Without the stream of events, as in the moment of opening, the jobs and the history are there."""
    jobs.submit(JobRecord(id=JOB, name="three-hospitals", file=FILE, submitter="researcher/res", members=MEMBERS))
    audit.write("2026-01-02T03:04:05+00:00", "submitted", job=JOB, by="researcher/res")
    browser.call("Network.setBlockedURLs", urls=["*/events"])
    try:
        browser.visit(address)
        shown = text(browser)
    finally:
        browser.call("Network.setBlockedURLs", urls=[])
        browser.complaints.clear()
    for words in ("three-hospitals", "recruiting", "awaited", "submitted", "listening on port 7443"):
        assert words in shown
    assert "No job yet" not in shown
    browser.until("document.getElementById('news').textContent === ''")  # once the server answers again


def test_a_visitor_without_the_token_sees_nothing(browser, jobs, address):
    browser.call("Network.clearBrowserCookies")
    jobs.submit(JobRecord(id=JOB, name="three-hospitals", file=FILE, submitter="researcher/res", members=MEMBERS))
    browser.visit(address.partition("?")[0])
    assert "three-hospitals" not in text(browser)
    assert "token" in text(browser)
