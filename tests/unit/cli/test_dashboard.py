"""The dashboard: shown to a browser that has the token, on this machine, and holding what the CSP's jobs hold."""

import asyncio
import json
import re
import threading
from html import unescape

import httpx
import pytest

from fedsvd.cli.dashboard import Board, application
from fedsvd.service.jobs import Jobs
from fedsvd.service.records import EnlistedFacts, Failure, JobRecord, JobState, Progress
from fedsvd.storage.journal import AuditLog, Journal

TOKEN = "0123456789abcdef" * 3
FILE = {"job": {"name": "study", "task": "svd"}, "party": [{"name": "a"}, {"name": "b"}]}
MEMBERS = ("party/a", "party/b")


@pytest.fixture
def jobs(tmp_path):
    jobs = Jobs(Journal(tmp_path / "ledger.jsonl"))
    jobs.submit(JobRecord(id="11" * 8, name="<b>study</b>", file=FILE, submitter="researcher/res", members=MEMBERS))
    jobs.enlist("11" * 8, "party/a", 1, EnlistedFacts(rows=3))
    return jobs


@pytest.fixture
def board(jobs, tmp_path):
    AuditLog(tmp_path / "audit.jsonl").write(
        "2026-01-02T03:04:05+00:00", "submitted", job="11" * 8, by="researcher/res"
    )
    return Board(jobs, tmp_path / "audit.jsonl", "port 7443")


class Visitor:
    """A browser that stores cookies."""

    def __init__(self, state):
        self.stopping = threading.Event()
        self.cookies = httpx.Cookies()
        self._app = application(state, TOKEN, self.stopping)

    def get(self, path, **headers):
        async def ask():
            transport = httpx.ASGITransport(app=self._app)
            async with httpx.AsyncClient(
                transport=transport, base_url="http://127.0.0.1", cookies=self.cookies
            ) as client:
                answer = await client.get(path, headers=headers)
                self.cookies = client.cookies
                return answer

        return asyncio.run(ask())


@pytest.fixture
def visitor(board):
    return Visitor(board.state)


def test_without_the_token_nothing_is_shown(visitor):
    for path in ("/", "/?token=", "/?token=0123"):
        answer = visitor.get(path)
        assert answer.status_code == 403
        assert "study" not in answer.text


def test_the_token_becomes_a_cookie_and_leaves_the_address(visitor):
    answer = visitor.get(f"/?token={TOKEN}")
    place = answer.headers["location"]
    assert (answer.status_code, len(place)) == (303, 34)
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    page = visitor.get(place)
    assert page.status_code == 200
    assert TOKEN not in page.text + place
    assert visitor.get(f"{place}board.js").status_code == 200


def test_the_cookie_is_sent_for_the_boards_own_path_and_for_no_other_server_on_this_machine(visitor):
    """F14: ports do not separate cookies, so in 0.1.0 any server on 127.0.0.1 that was visited got the token."""
    place = visitor.get(f"/?token={TOKEN}").headers["location"]
    assert [cookie.path for cookie in visitor.cookies.jar] == [place]
    elsewhere = httpx.Request("GET", "http://127.0.0.1:8000/")
    visitor.cookies.set_cookie_header(elsewhere)
    assert "cookie" not in elsewhere.headers
    ours = httpx.Request("GET", f"http://127.0.0.1:8000{place}")
    visitor.cookies.set_cookie_header(ours)
    assert TOKEN in ours.headers["cookie"]  # so that this test can fail


def test_another_name_for_this_address_is_not_answered(visitor):
    assert visitor.get(f"/?token={TOKEN}", host="evil.example").status_code == 400


def test_the_page_may_load_nothing_from_elsewhere(visitor):
    answer = visitor.get(visitor.get(f"/?token={TOKEN}").headers["location"])
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "http" not in answer.text.replace("http-equiv", "")
    assert answer.headers["cache-control"] == "no-store"


def test_the_page_opens_on_the_state_and_no_name_becomes_markup(visitor, board):
    page = visitor.get(visitor.get(f"/?token={TOKEN}").headers["location"]).text
    opened = json.loads(unescape(re.search(r'<main data-state="([^"]*)">', page)[1]))
    now = board.state()
    assert opened["jobs"] == now["jobs"]
    assert opened["history"] == now["history"]
    assert "<b>" not in page
    assert "{{" not in page


def test_events_carry_the_state_until_the_csp_stops(visitor):
    place = visitor.get(f"/?token={TOKEN}").headers["location"]
    threading.Timer(0.5, visitor.stopping.set).start()
    answer = visitor.get(f"{place}events")
    assert answer.headers["content-type"].startswith("text/event-stream")
    first = next(line for line in answer.text.splitlines() if line.startswith("data: "))
    told = json.loads(first.removeprefix("data: "))
    assert [job["name"] for job in told["jobs"]] == ["<b>study</b>"]


def test_the_board_says_who_is_awaited_how_far_each_is_and_what_failed(board, jobs):
    (job,) = board.state()["jobs"]
    assert (job["state"], job["enlisted"], job["members"]) == ("recruiting", 1, 2)
    assert [(row["role"], row["stage"]) for row in job["roles"]] == [
        ("csp", ""),
        ("party/a", "enlisted"),
        ("party/b", "awaited"),
    ]
    jobs.change("11" * 8, state=JobState.RUNNING)
    jobs.report("11" * 8, "party/a", Progress(stage="compress", done=1, total=4, sent=0))
    (job,) = board.state()["jobs"]
    assert job["roles"][1]["share"] == 0.25
    failure = {
        "who": "party/b",
        "code": "FSVD-201",
        "stage": "computing",
        "text": "details are in that party's own log",
    }
    jobs.change("11" * 8, state=JobState.BROKEN, failures=(Failure(**failure),))
    (job,) = board.state()["jobs"]
    assert job["failures"] == [failure]


def test_the_history_is_that_of_the_audit_log(board):
    (event,) = board.state()["history"]
    assert event == {
        "when": "2026-01-02T03:04:05+00:00",
        "event": "submitted",
        "facts": f"by researcher/res, job {'11' * 8}",
    }
