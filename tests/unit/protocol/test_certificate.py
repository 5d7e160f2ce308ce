"""Accounts are kept by parties: what a user may see is decided on them, and JSON reads back to them or is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsvd.protocol.certificate import ACCOUNTS, Accounts, Certificate, accounts_from, certificate_from
from fedsvd.protocol.parties import CSP, TA, party_called, user
from fedsvd.types import Digest

PARTIES = st.sampled_from([CSP, TA, *map(user, range(1, 13))])
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), min_size=1, max_size=12)
COUNTS = st.integers(0, 2**62)
AMOUNTS = st.floats(0, 1e9)
TABLES = {
    "bytes_by_link": st.dictionaries(st.tuples(PARTIES, PARTIES), COUNTS),
    "messages_by_link": st.dictionaries(st.tuples(PARTIES, PARTIES), COUNTS),
    "seconds_by_stage": st.dictionaries(st.tuples(PARTIES, WORDS), AMOUNTS),
    "began_by_stage": st.dictionaries(st.tuples(PARTIES, WORDS), AMOUNTS),
    "bytes_by_kind": st.dictionaries(st.tuples(PARTIES, WORDS), COUNTS),
    "peak_memory": st.dictionaries(PARTIES, COUNTS),
}
SENT = Accounts(
    bytes_by_link={(user(1), CSP): 1, (CSP, user(1)): 2, (user(11), CSP): 3, (CSP, user(2)): 4, (TA, CSP): 5},
    messages_by_link={(user(2), CSP): 1, (CSP, user(11)): 2},
    seconds_by_stage={(user(1), "after user-2"): 1.0, (user(2), "compress"): 2.0, (CSP, "factorise"): 3.0},
    began_by_stage={(user(11), "compress"): 1.0},
    bytes_by_kind={(user(1), "Ready"): 1, (user(2), "Ready"): 2, (TA, "Relay"): 3},
    peak_memory={user(1): 1, user(2): 2, CSP: 3},
)


def certificate(accounts=SENT):
    made = Certificate(plan_digest=Digest("d"), residual=1e-16, orthogonality=0.0, rank=2, versions={"fedsvd": "0"})
    return made.with_accounts(accounts)


@given(st.fixed_dictionaries(TABLES))
def test_a_certificate_reads_back_from_json_as_it_was(tables):
    made = certificate(Accounts(**tables))
    record = json.loads(json.dumps(made.record()))
    assert set(ACCOUNTS) <= set(record)
    assert certificate_from(record) == made
    assert (record["bytes_total"], record["seconds_total"]) == (made.bytes_total, made.seconds_total)


def test_a_user_sees_nothing_that_another_user_sent_was_sent_or_took():
    seen = SENT.seen_by(user(1))
    assert seen.bytes_by_link == {(user(1), CSP): 1, (CSP, user(1)): 2, (TA, CSP): 5}
    assert seen.messages_by_link == {}
    assert seen.seconds_by_stage == {(user(1), "after user-2"): 1.0, (CSP, "factorise"): 3.0}
    assert seen.began_by_stage == {}, "user 11 is not user 1"
    assert seen.bytes_by_kind == {(user(1), "Ready"): 1, (TA, "Relay"): 3}
    assert seen.peak_memory == {user(1): 1, CSP: 3}


def test_the_authority_sees_no_user_at_all():
    seen = certificate().seen_by(TA)
    assert "user-1 " not in json.dumps(seen.record()["bytes_by_link"])
    assert seen.bytes_by_link == {(TA, CSP): 5}
    assert seen.peak_memory == {CSP: 3}
    assert seen.residual == certificate().residual


@given(st.fixed_dictionaries(TABLES), PARTIES)
def test_what_is_seen_names_no_other_user_whatever_was_counted(tables, me):
    seen = Accounts(**tables).seen_by(me)
    named = [key for name in ACCOUNTS for key in getattr(seen, name)]
    parties = [party for key in named for party in (key if isinstance(key, tuple) else (key,))]
    assert not {party for party in parties if party in set(map(user, range(1, 13))) - {me}}
    assert Accounts(**tables).seen_by(me).seen_by(me) == seen


@pytest.mark.parametrize(
    "said",
    [
        {"bytes_by_link": "many"},
        {"bytes_by_link": {"user-1": 1}},
        {"bytes_by_link": {"user-1 -> nobody": 1}},
        {"bytes_by_link": {"user-01 -> csp": 1}},
        {"bytes_by_link": {"user-0 -> csp": 1}},
        {"bytes_by_link": {"user-1 -> csp": -1}},
        {"bytes_by_link": {"user-1 -> csp": 1.5}},
        {"bytes_by_link": {"user-1 -> csp": True}},
        {"bytes_by_link": {"user-1 -> csp -> user-2": 1}},
        {"seconds_by_stage": {"compress": 1.0}},
        {"seconds_by_stage": {"user-1: ": 1.0}},
        {"seconds_by_stage": {"user-1: compress": "long"}},
        {"seconds_by_stage": {"user-1: compress": float("nan")}},
        {"bytes_by_kind": {"someone: Ready": 1}},
        {"peak_memory": {"party/a": 1}},
        {"peak_memory": [1]},
    ],
)
def test_accounts_of_another_form_are_refused(said):
    with pytest.raises(ValueError, match=r"not\b|counts one thing twice"):
        accounts_from(said)


@pytest.mark.parametrize("name", ["", "user", "user-", "user--1", "user-1 ", "CSP", "csp\n", "ta2", "user-1\n"])
def test_a_text_that_is_no_name_of_a_party_is_refused(name):
    with pytest.raises(ValueError, match="not the name"):
        party_called(name)


def test_names_of_parties_read_back():
    for party in (CSP, TA, user(1), user(500)):
        assert party_called(party.name) == party


def test_a_certificate_is_shown_in_one_line_without_its_accounts():
    assert repr(certificate()) == "Certificate(plan=d, residual=1.0e-16, orthogonality=0.0e+00, rank=2)"
