"""The hub: the function that picks decides between links, never within one."""

import pytest

from fedsvd.errors import PeerLost
from fedsvd.protocol.messages import BatchRequest
from fedsvd.protocol.parties import CSP, TA, user
from fedsvd.testing.federation import newest_first, shuffled, starving
from fedsvd.transport.loopback import Hub, first_sent
from fedsvd.types import Digest

ONE, TWO = user(1), user(2)


def request(number):
    return BatchRequest(Digest(""), number)


def filled(pick=first_sent):
    """1 and 2 say two things each to the CSP, in turn; the CSP says one thing to 1."""
    hub = Hub(pick)
    for number, party in enumerate((ONE, TWO, ONE, TWO)):
        hub.push(party, CSP, request(number))
    hub.push(CSP, ONE, request(4))
    return hub


def order(hub, to=None):
    return [delivery[2].batch for delivery in iter(lambda: hub.pop(to), None)]


def test_by_default_what_was_sent_first_arrives_first():
    assert order(filled()) == [0, 1, 2, 3, 4]


def test_links_wait_in_the_order_of_their_oldest_message():
    hub = filled()
    assert hub.waiting() == [(ONE, CSP), (TWO, CSP), (CSP, ONE)]
    assert hub.waiting(ONE) == [(CSP, ONE)]
    hub.pop()
    assert hub.waiting() == [(TWO, CSP), (ONE, CSP), (CSP, ONE)]


def test_one_partys_deliveries_leave_the_others():
    hub = filled()
    assert order(hub, ONE) == [4]
    assert hub.pop(TA) is None
    assert order(hub) == [0, 1, 2, 3]


def test_picks_decide_between_links_only():
    assert order(filled(newest_first)) == [4, 1, 3, 0, 2]
    assert order(filled(starving(ONE))) == [1, 3, 0, 2, 4]
    for seed in range(5):
        arrived = order(filled(shuffled(seed)))
        assert sorted(arrived) == [0, 1, 2, 3, 4]
        assert arrived.index(0) < arrived.index(2)
        assert arrived.index(1) < arrived.index(3)
    assert order(filled(shuffled(1))) == order(filled(shuffled(1)))


def test_a_party_that_hangs_up_loses_what_is_under_way_to_it():
    hub = filled()
    hub.close(CSP)
    assert order(hub) == [4]
    with pytest.raises(PeerLost, match="the link from user 1 to CSP is closed"):
        hub.push(ONE, CSP, request(9))
    with pytest.raises(PeerLost):
        hub.push(CSP, ONE, request(9))
    with pytest.raises(PeerLost, match="CSP has disconnected"):
        hub.end(CSP).receive()
