"""The table of what goes wrong on purpose is what the tests recorded, and nothing that must be in it is missing."""

import json

from benchmarks.chaos import FOUND, PAGE, RESULT, page, ran
from tests.e2e.test_chaos import KILLS

DEMANDED = (
    "kill -9",
    "a lost party",
    "half-closed connections",
    "a stalled peer",
    "a full disk",
    "clock skew",
    "duplicate and reordered chunks",
    "a peer with another plan",
    "bad certificates",
    "a plaintext client",
    "an oversized frame",
    "callers without number",
    "a mute CSP",
    "a thin line",
    "damaged calls",
)


def recorded():
    return json.loads(RESULT.read_text())


def cases():
    return recorded()["cases"]


def test_the_page_is_made_of_what_was_recorded():
    assert PAGE.read_text() == page(cases(), recorded()["found"]), "run: make chaos"


def test_what_was_found_in_0_2_0_was_done_again_and_none_of_it_failed():
    found = recorded()["found"]
    assert [file for *_, file in FOUND if "FAILED" in ran(file, found)] == [], "run: make chaos"


def test_every_trouble_has_its_cases_and_none_failed():
    kinds = {case["kind"] for case in cases()}
    assert kinds >= set(DEMANDED)
    assert not [case for case in cases() if "FAILED" in case["outcome"]]


def test_every_role_was_killed_in_every_state_that_its_table_has():
    killed = {case["case"] for case in cases() if case["kind"] == "kill -9"}
    # Others are killed between two sessions.
    killed = {case for case in killed if case.split()[-1].isupper() and case.split()[-2] == "in"}
    assert killed == {f"{role} in {state}" for role, state, _ in KILLS}, "run: make chaos"
