"""What a CSP answers is read with care: records that are none, texts that are commands, codes that are inventions."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsvd.errors import ConfigError, FedSVDError, MalformedFrame, printable
from fedsvd.service import api
from fedsvd.service.api import LARGEST
from fedsvd.service.client import CspClient, Refused
from fedsvd.service.records import Failure, Progress
from fedsvd.wire.version import MARK

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


class Carrier:
    """A connection over which everything is answered with this."""

    def __init__(self, reply):
        self.reply = reply

    def call(self, method, body):
        return self.reply if isinstance(self.reply, bytes) else json.dumps({**MARK, **self.reply}).encode()


def answer(value):
    return CspClient(Carrier({"answer": value})).job("8f3a")


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
    assert found.file == RECORD["file"]
    assert found.enlisted["party/a"].certificate == RECORD["enlisted"]["party/a"]["certificate"]
    assert found.name == "study?[31m"
    assert found.members == ("party/a ", "party/b")
    assert found.failures == (Failure(who="party/?a", code="FSVD-501", stage="?2J", text="line line"),)
    assert found.progress == {"party/a ": Progress(stage="up?load", sent=3)}
    shown = found.model_dump(mode="json", exclude={"file", "enlisted"})
    assert all(printable(text) == text for text in texts_in(shown))


@pytest.mark.parametrize(
    "said",
    [
        None,
        [],
        "text",
        3,
        {},
        {**RECORD, "members": "ab"},
        {**RECORD, "failures": [3]},
        {**RECORD, "attempt": "1"},
        {**RECORD, "state": "asleep"},
        {**RECORD, "more": 1},
        {**RECORD, "enlisted": {"party/a": {"rows": "many"}}},
        {**RECORD, "members": ["party/a"] * 10_000},
    ],
)
def test_a_record_that_is_none_is_an_error_of_the_question(said):
    with pytest.raises(MalformedFrame):
        answer(said)


@pytest.mark.parametrize(
    "reply", [b"", b"{", b"[]", b"null", b"\xff", b"{}", b"[" * 100_000, {"error": {}}, {"error": 3}]
)
def test_an_answer_that_is_none_is_an_error_of_the_question(reply):
    with pytest.raises(MalformedFrame):
        CspClient(Carrier(reply)).now()


def test_an_error_of_the_csp_has_a_code_of_ours_and_a_printable_text():
    for code, expected in (("FSVD-350", "FSVD-350"), ("\x1b[2J", "FSVD-000"), ("FSVD-1\n", "FSVD-000")):
        with pytest.raises(Refused) as refused:
            CspClient(Carrier({"error": {"code": code, "fault": "a\nb", "fix": "c\x1b"}})).now()
        assert (refused.value.code, refused.value.fault, refused.value.fix) == (expected, "a b", "c?")


def test_a_question_that_is_too_large_is_not_asked():
    with pytest.raises(ConfigError, match="bytes"):
        api.written_question(api.SUBMIT, api.Submit(file={"id": "x" * LARGEST}))


@given(JSON)
def test_whatever_a_member_says_of_its_progress_can_be_shown(said):
    found = Progress.model_validate(said)
    assert isinstance(found.stage, str)
    assert all(isinstance(count, int) for count in (found.done, found.total, found.sent, found.received))
    shown = found.model_dump(mode="json")
    json.dumps(shown, allow_nan=False)
    assert all(printable(text) == text for text in texts_in(shown))


@given(st.dictionaries(st.sampled_from(["who", "code", "stage", "text", "more"]), JSON))
def test_whatever_a_member_says_of_its_failure_can_be_shown(said):
    found = Failure.model_validate(said).model_dump()
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
