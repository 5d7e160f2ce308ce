"""Of many users the CSP hands out each round of messages to all in one: bytes are the plan's, and changes are found."""

from dataclasses import replace

import pytest
from tests.protocol.test_step_messages import counted, decided_by_data

from fedsvd.cost.traffic import messages_of
from fedsvd.errors import NotSealed, UnexpectedMessage
from fedsvd.protocol.messages import Gathered, Relay, Relayed
from fedsvd.protocol.parties import ALL, CSP, user
from fedsvd.protocol.relayed import DIGEST_BYTES, GATHERED_FROM, parts_to_all
from fedsvd.protocol.tasks import Mode
from fedsvd.secagg.neighbours import LEAST
from fedsvd.testing.federation import altering

from .cases import svd

K = GATHERED_FROM
(DIGEST,) = parts_to_all(DIGEST_BYTES)


@pytest.fixture(scope="module")
def whole():
    federation = svd(K, mode=Mode.B)
    federation.run()
    return federation


def test_many_users_are_those_of_whom_not_all_share_pads():
    assert K == LEAST + 2


def test_messages_are_those_of_the_plan_and_each_round_is_one_message_to_each_user(whole):
    planned = counted(messages_of(whole.plan, decided_by_data(whole)))
    assert planned == counted((*sent, 1) for sent in whole.sent)
    rounds = [message for origin, _, message in whole.sent if origin == user(1) and isinstance(message, Relay)]
    rounds = [message for message in rounds if message.to == ALL]
    for party in whole.plan.users:
        assert 3 <= len(whole.views.of(party, Gathered)) < len(rounds)  # of the rest user 1 alone decides
        assert all(len(said.sealed) == K for _, said in whole.views.of(party, Gathered))


def test_fewer_users_get_them_one_by_one():
    federation = svd(3, mode=Mode.B)
    federation.run()
    assert not federation.views.of(user(2), Gathered)
    assert federation.views.of(user(2), Relayed)


CHANGES = {
    "left out": (lambda sealed: sealed[:-1], UnexpectedMessage),
    "twice": (lambda sealed: (*sealed[:-1], sealed[0]), UnexpectedMessage),
    "in another order": (lambda sealed: sealed[::-1], UnexpectedMessage),
    "under another name": (
        lambda sealed: ((sealed[0][0], sealed[2][1]), sealed[1], (sealed[2][0], sealed[0][1]), *sealed[3:]),
        NotSealed,
    ),
    "altered": (
        lambda sealed: ((sealed[0][0], sealed[0][1][:-1] + bytes([sealed[0][1][-1] ^ 1])), *sealed[1:]),
        NotSealed,
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_round_that_the_csp_altered_for_one_user_ends_the_session(change):
    federation = svd(K, mode=Mode.B)
    altered, error = CHANGES[change]
    meddle = altering(Gathered, lambda said: (replace(said, sealed=altered(said.sealed)),), to=user(2))
    with pytest.raises(error):
        federation.run(meddle=meddle)
    assert not federation.released


def test_a_round_of_an_earlier_step_does_not_open():
    federation, kept = svd(K, mode=Mode.B), []

    def older(said):
        kept.append(said)
        return (kept[0],)

    with pytest.raises(NotSealed):
        federation.run(meddle=altering(Gathered, older, to=user(2)))
    assert not federation.released


def test_a_round_where_users_are_few_is_refused():
    federation = svd(3, mode=Mode.B)

    def together(said):
        return (Gathered(said.plan, tuple((party, said.sealed) for party in federation.plan.users)),)

    late = altering(Relayed, lambda said: together(said) if len(said.sealed) == DIGEST else (said,), to=user(2))
    with pytest.raises(UnexpectedMessage, match="does not list the plan's users"):
        federation.run(meddle=late)
    assert not federation.released


def test_a_user_that_shows_its_next_message_before_it_has_the_others_ends_the_session():
    federation, said = svd(K, mode=Mode.B), []

    def hasty(origin, to, message):
        if origin == user(3) and isinstance(message, Relay) and message.to == ALL and len(message.sealed) > 90:
            said.append(message)
            if len(said) == 1:  # digests; a signature is as long as it needs to be
                return (message, replace(message, sealed=message.sealed[:97]))
        return (message,)

    with pytest.raises(UnexpectedMessage, match="before it has the messages of all other users"):
        federation.run(meddle=hasty)
    assert not federation.released
    assert CSP not in federation.results
