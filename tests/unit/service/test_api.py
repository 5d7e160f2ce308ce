"""What a CSP answers is read with care: records that are none, texts that are commands, codes that are inventions."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsvd.errors import ConfigError, FedSVDError, MalformedFrame, printable
from fedsvd.service.api import LARGEST, CspClient, Refused
from fedsvd.service.jobs import failure_from, progress_from

RECORD = {
    "id": "8f3a",
    "name": "study",
    "state": "running",
    "submitter": "researcher/r",
    "members": ["party/a", "party/b"],
    "finished": [],
    "failures": [],
    "file": {"job": {"name": "study", "task": "svd", "id": "a\tb"}},
    "enlisted": {"party/a": {"certificate": "-----BEGIN\nCERTIFICATE\n"}},
    "attempt": 1,
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


class Line:
    """A line over which everything is answered with this."""

    def __init__(self, reply):
        self.reply = reply

    def call(self, method, body):
        return self.reply if isinstance(self.reply, bytes) else json.dumps(self.reply).encode()


def answer(value, verb="job"):
    return CspClient(Line({"answer": value})).ask(verb, id="8f3a")


def texts_in(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from (text for pair in value.items() for part in pair for text in texts_in(part))
    elif isinstance(value, list):
        yield from (text for part in value for text in texts_in(part))


def test_texts_of_peers_are_printable_and_what_is_compared_is_as_it_was():
    said = {
        **RECORD,
        "name": "study\x1b[31m",
        "submitter": "researcher/\u202er",
        "members": ["party/a\n", "party/b"],
        "failures": [{"who": "party/\x07a", "code": "FSVD-501", "stage": "\x9b2J", "text": "line\nline"}],
        "progress": {"party/a\r": {"stage": "up\x1bload", "sent": 3, "done": "x"}},
    }
    found = answer(said)
    assert found["file"] == RECORD["file"]
    assert found["enlisted"] == RECORD["enlisted"]
    assert found["name"] == "study?[31m"
    assert found["members"] == ["party/a ", "party/b"]
    assert found["failures"] == [{"who": "party/?a", "code": "FSVD-501", "stage": "?2J", "text": "line line"}]
    assert found["progress"] == {"party/a ": {"stage": "up?load", "sent": 3, "done": 0}}
    shown = {key: found[key] for key in found if key not in ("file", "enlisted")}
    assert all(printable(text) == text for text in texts_in(shown))


@pytest.mark.parametrize(
    "said",
    [None, [], "text", 3, {}, {**RECORD, "members": "ab"}, {**RECORD, "failures": [3]}, {**RECORD, "attempt": "1"}],
)
def test_a_record_that_is_none_is_an_error_of_the_question(said):
    with pytest.raises(MalformedFrame):
        answer(said)


@pytest.mark.parametrize(
    "reply", [b"", b"{", b"[]", b"null", b"\xff", b"{}", b"[" * 100_000, {"error": {}}, {"error": 3}]
)
def test_an_answer_that_is_none_is_an_error_of_the_question(reply):
    with pytest.raises(MalformedFrame):
        CspClient(Line(reply)).ask("now")


def test_an_error_of_the_csp_has_a_code_of_ours_and_a_printable_text():
    for code, expected in (("FSVD-350", "FSVD-350"), ("\x1b[2J", "FSVD-000"), ("FSVD-1\n", "FSVD-000")):
        with pytest.raises(Refused) as refused:
            CspClient(Line({"error": {"code": code, "fault": "a\nb", "fix": "c\x1b"}})).ask("now")
        assert (refused.value.code, refused.value.fault, refused.value.fix) == (expected, "a b", "c?")


def test_a_question_that_is_too_large_is_not_asked():
    with pytest.raises(ConfigError, match="bytes"):
        CspClient(Line(b"")).ask("submit", file={"id": "x" * LARGEST})


@given(JSON)
def test_whatever_a_member_says_of_its_progress_can_be_shown(said):
    found = progress_from(said)
    assert isinstance(found["stage"], str)
    assert all(isinstance(found.get(key, 0), int) for key in ("done", "total", "sent", "received"))
    json.dumps(found, allow_nan=False)
    assert all(printable(text) == text for text in texts_in(found))


@given(JSON)
def test_whatever_a_member_says_of_its_failure_can_be_shown(said):
    found = failure_from(said, "party/a")
    assert sorted(found) == ["code", "stage", "text", "who"]
    assert all(isinstance(text, str) and printable(text) == text and len(text) <= 500 for text in found.values())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, 3 rows", "plain text, 3 rows"),
        ("Größe 日本語 שלום می\u200cخواهم", "Größe 日本語 שלום می\u200cخواهم"),
        ("a\nb\r\nc\td\u2028e", "a b  c d e"),
        ("\x1b[31mred\x1b[0m", "?[31mred?[0m"),
        ("\x9b2J\x00\x7f", "?2J??"),
        ("\u202eevil\u2066x\u2069\u200e\ufeff", "?evil?x???"),
        ("\ud800\ue000", "??"),
        (3, "3"),
    ],
)
def test_what_is_printable_stays_and_the_rest_does_not(text, shown):
    assert printable(text) == shown


def test_a_long_text_is_cut():
    assert printable("x" * 100, 10) == "xxxxxxx..."
    assert len(FedSVDError("x" * 10**6).fault) < 5000


def test_every_error_is_one_printable_line():
    error = FedSVDError("a party said\n\x1b[2Jnothing", "ask\u202e it")
    assert str(error) == "FSVD-000: a party said ?[2Jnothing. Fix: ask? it"
