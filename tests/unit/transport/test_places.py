"""Calls that wait: places by kind and by caller, and who is there."""

import threading
from contextlib import ExitStack

from tests.network import GENEROUS

from fedsvd.transport.places import Places, Presence


def test_one_caller_takes_its_share_of_the_places_and_no_more():
    places = Places(most=3, of_one=2)
    with ExitStack() as held:
        assert [held.enter_context(places.place("party/a")) for _ in range(3)] == [True, True, False]
        assert [held.enter_context(places.place("party/b")) for _ in range(2)] == [True, False]
    with places.place("party/b") as free:
        assert free


class Call(threading.Event):
    """A call that says when it is held."""

    def __init__(self):
        super().__init__()
        self.held = threading.Event()

    def wait(self, timeout=None):
        self.held.set()
        return super().wait(timeout)


def staying(presence, caller, seconds=GENEROUS):
    call = Call()
    thread = threading.Thread(target=presence.stay, args=(caller, call, seconds))
    thread.start()
    assert call.held.wait(GENEROUS)
    return call, thread


def test_a_caller_is_lost_when_the_last_of_its_calls_has_broken_off():
    presence = Presence()
    first, second = staying(presence, "party/a"), staying(presence, "party/a")
    assert presence.lost_at("party/a") is None
    for call, thread in (first, second):
        assert presence.lost_at("party/a") is None
        presence.broke_off("party/a", call)
        thread.join(GENEROUS)
    lost = presence.lost_at("party/a")
    presence.heard("party/a")
    assert presence.lost_at("party/a") >= lost
    call, thread = staying(presence, "party/a")
    assert presence.lost_at("party/a") is None
    presence.stop()
    thread.join(GENEROUS)
    assert not thread.is_alive()


def test_a_call_that_ended_in_order_is_no_loss():
    presence = Presence()
    call, thread = staying(presence, "party/a", seconds=0.0)
    thread.join(GENEROUS)
    presence.broke_off("party/a", call)  # gRPC says so at the end of every call
    assert presence.lost_at("party/a") is None
    presence.heard("party/b")
    assert presence.lost_at("party/b") is None
