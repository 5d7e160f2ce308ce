"""The links of a session, called as by gRPC: who may speak, how much may wait, who has gone, and what ends it."""

import struct
import threading
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from tests.network import GENEROUS, until

from fedsvd.errors import MalformedFrame, NotAuthenticated, PeerLost, TimedOut
from fedsvd.protocol.messages import BatchRequest, Message, PaddedBatch
from fedsvd.protocol.parties import TA, Party, user
from fedsvd.transport.calls import NOTHING, Joining, Leaving, Wanted, bundle, unbundle
from fedsvd.transport.links import Outbox
from fedsvd.transport.session import SessionLinks
from fedsvd.types import Digest, SessionId
from fedsvd.wire.codec import decode, encode
from fedsvd.wire.frame import Frame, decode_frame

SESSION, PLAN = SessionId("5e" * 16), Digest("0" * 64)
ONE, TWO = user(1), user(2)
ROSTER = {"party/a": ONE, "party/b": TWO, "authority/ta": TA}
FRAME, MIB = 1 << 10, 1 << 20


class Member:
    """Says messages to a session frame by frame, as a test likes."""

    def __init__(self, links: SessionLinks, me: Party = ONE) -> None:
        self.links, self.me = links, me
        self._box = Outbox(SESSION)

    def frames(self, message: Message) -> list[bytes]:
        number = self._box.put(encode(message))
        return [bundle([self._box.frame(number, part, FRAME)]) for part in range(self._box.frames(number, FRAME))]

    def push(self, *frames: bytes) -> list[bool]:
        return [self.links.push(self.me, frame) for frame in frames]

    def pull(
        self, number: int, below: int | None = None, part: int = 0, count: int = 1, wait: float = 0.0, each: int = MIB
    ) -> bytes:
        below = number if below is None else below
        return self.links.pull(self.me, Wanted(SESSION, below, number, part, count, each, round(1000 * wait)))


def a_session(held: int = 1 << 20) -> SessionLinks:
    return SessionLinks(SESSION, ROSTER, held)


def batch(number: int, words: int = 600) -> PaddedBatch:
    return PaddedBatch(PLAN, number, np.full((1, words), number, np.uint64))


def frames_in(body: bytes) -> list[Frame]:
    return [decode_frame(frame) for frame in unbundle(body)]


def said_in(body: bytes) -> Message:
    (frame,) = frames_in(body)
    return decode(frame.body)


def batches_heard(links: SessionLinks) -> list[int]:
    heard = []
    while (arrived := links.receive()) is not None:
        heard.append(arrived[1].batch)
    return heard


def test_only_those_on_the_roster_have_a_place():
    links = a_session()
    assert links.party("party/b") == TWO
    for stranger in ("party/c", "researcher/a", "csp/csp", ""):
        with pytest.raises(NotAuthenticated):
            links.party(stranger)


@pytest.mark.chaos(
    "duplicate and reordered chunks", "every frame doubled, all shuffled", "every message once and in order"
)
@pytest.mark.parametrize("seed", range(8))
def test_frames_that_are_doubled_and_shuffled_give_every_message_once_and_in_order(seed):
    links = a_session()
    member = Member(links)
    frames = [frame for number in range(5) for frame in member.frames(batch(number))]
    assert len(frames) == 25
    for place in np.random.default_rng(seed).permutation(np.repeat(np.arange(25), 2)):
        assert member.push(frames[place]) == [True]
    assert batches_heard(links) == [0, 1, 2, 3, 4]
    assert member.push(*frames) == [True] * 25
    assert links.receive() is None


def test_nothing_arrives_while_a_frame_is_missing():
    links = a_session()
    member = Member(links)
    missing, *others = member.frames(batch(0))
    member.push(*others, *member.frames(batch(1)))
    assert links.receive() is None
    member.push(missing)
    assert batches_heard(links) == [0, 1]


def damaged(frame: bytes) -> bytes:
    return frame[:-1] + bytes([frame[-1] ^ 1])


def claiming(frame: bytes, size: int) -> bytes:
    """The frame of a message that says it is larger than all others of ours."""
    parts = -(-size // FRAME)
    return bundle([replace(frames_in(frame)[0], size=size, parts=parts)])


@pytest.mark.parametrize(
    "wrong",
    [
        damaged,
        lambda frame: frame[:-1],
        lambda frame: frame + b"\x00",
        lambda frame: b"",
        lambda frame: bytes(4),
        lambda frame: frame + damaged(frame),
        lambda frame: struct.pack("<I", (2 << 20) + 1) + frame[4:].ljust((2 << 20) + 1, b"\x00"),
        lambda frame: claiming(frame, 1 << 40),
        lambda frame: claiming(frame, (1 << 36) + 1),
    ],
    ids=[
        "wrong checksum",
        "too short",
        "too long",
        "empty",
        "empty frame",
        "second is wrong",
        "oversized",
        "claims 1 TiB",
        "claims 64 GiB and a byte",
    ],
)
def test_a_frame_that_is_wrong_ends_the_session_at_both_ends(wrong):
    links = a_session()
    member = Member(links)
    frame = member.frames(batch(0))[0]
    with pytest.raises(MalformedFrame):
        member.push(wrong(frame))
    for _ in range(2):
        with pytest.raises(MalformedFrame):
            links.receive(GENEROUS)


@pytest.mark.chaos(
    "duplicate and reordered chunks",
    "a frame said again with other content",
    "FSVD-414; the session is over at both ends",
)
def test_a_frame_said_again_with_other_content_ends_the_session():
    links = a_session()
    first, other = Member(links), Member(links)
    first.push(first.frames(batch(0))[1])
    with pytest.raises(MalformedFrame):
        other.push(other.frames(batch(7))[1])
    with pytest.raises(MalformedFrame):
        links.receive(GENEROUS)


def test_a_message_that_is_no_message_is_an_error_at_the_csp():
    links = a_session()
    box = Outbox(SESSION)
    box.put([b"no message at all"])
    assert links.push(ONE, bundle([box.frame(0, 0)]))
    with pytest.raises(MalformedFrame):
        links.receive(GENEROUS)


# --- how much may wait ------------------------------------------------------------------------------------------------


def test_what_waits_to_be_read_is_bounded_and_counted_exactly():
    size = sum(len(bytes(part)) for part in encode(batch(0)))
    links = a_session(held=3 * size)
    member = Member(links)
    frames = [member.frames(batch(number)) for number in range(5)]
    for number in range(3):
        assert member.push(*frames[number]) == [True] * 5
    assert member.push(*frames[3]) == [False] * 5
    assert links.receive()[1].batch == 0
    assert member.push(*frames[3]) == [True] * 5
    assert member.push(*frames[4]) == [False] * 5
    assert batches_heard(links) == [1, 2, 3]
    assert member.push(*frames[4]) == [True] * 5
    assert batches_heard(links) == [4]
    assert links.received == 5 * size


def test_a_message_larger_than_may_wait_comes_in_alone():
    links = a_session(held=100)
    one, two = Member(links, ONE), Member(links, TWO)
    large, other = one.frames(batch(0)), two.frames(batch(1))
    assert one.push(*large[:2]) == [True, True]
    assert two.push(*other) == [False] * 5
    assert one.push(*large[2:]) == [True] * 3
    assert two.push(*other) == [False] * 5
    assert batches_heard(links) == [0]
    assert two.push(*other) == [True] * 5
    assert batches_heard(links) == [1]


def test_messages_that_came_too_early_never_block_the_one_that_is_due():
    size = sum(len(bytes(part)) for part in encode(batch(0)))
    links = a_session(held=2 * size)
    member = Member(links)
    frames = [member.frames(batch(number)) for number in range(3)]
    assert member.push(*frames[1], *frames[2]) == [True] * 10
    assert member.push(*frames[0]) == [True] * 5
    assert batches_heard(links) == [0, 1, 2]


def test_one_far_ahead_of_what_is_due_is_told_to_try_again():
    links = a_session()
    member = Member(links)
    frames = [member.frames(BatchRequest(PLAN, number))[0] for number in range(66)]
    assert member.push(frames[65], frames[64], frames[63]) == [False, False, True]
    assert all(member.push(*frames[:63]))
    assert member.push(frames[64], frames[65]) == [True, True]
    assert batches_heard(links) == list(range(66))


def test_a_member_that_leaves_gives_back_what_it_had_begun():
    links = a_session(held=100)
    one, two = Member(links, ONE), Member(links, TWO)
    one.push(one.frames(batch(0))[0])
    frames = two.frames(batch(1))
    assert two.push(frames[0]) == [False]
    links.leave(ONE, Leaving(SESSION, 0, True))
    assert two.push(*frames) == [True] * 5
    assert batches_heard(links) == [1]


# --- fetching ---------------------------------------------------------------------------------------------------------


def test_a_member_fetches_any_frame_any_number_of_times_until_it_has_them():
    links = a_session()
    links.send(ONE, BatchRequest(PLAN, 3))
    links.send(ONE, BatchRequest(PLAN, 4))
    member = Member(links)
    first, again = member.pull(0), member.pull(0)
    assert first == again
    assert said_in(first).batch == 3
    assert said_in(member.pull(1, below=0)).batch == 4
    assert not links.fetched
    assert member.pull(2) == b""
    assert links.fetched


def test_frames_of_a_long_message_are_fetched_in_any_order():
    links = a_session()
    message = PaddedBatch(PLAN, 0, np.random.default_rng(1).integers(0, 2**64, (300, 1000), np.uint64))
    links.send(TWO, message)
    member = Member(links, TWO)
    frames = [frame for part in (2, 0, 1) for frame in frames_in(member.pull(0, part=part))]
    assert {frame.parts for frame in frames} == {3}
    body = b"".join(bytes(frame.body) for frame in sorted(frames, key=lambda frame: frame.part))
    np.testing.assert_array_equal(decode(body).payload, message.payload)
    with pytest.raises(MalformedFrame):
        member.pull(0, part=3)


def test_frames_that_fit_into_a_call_are_fetched_and_said_together():
    links = a_session()
    links.send(TWO, PaddedBatch(PLAN, 0, np.ones((300, 1000), np.uint64)))
    member = Member(links, TWO)
    pulled = [[frame.part for frame in frames_in(member.pull(0, part=part, count=99))] for part in (0, 1, 2)]
    assert pulled == [[0, 1], [1, 2], [2]]
    assert links.push(TWO, b"".join(member.frames(batch(0)) + member.frames(batch(1))))
    assert batches_heard(links) == [0, 1]


def test_what_was_acknowledged_is_not_there_any_more():
    links = a_session()
    links.send(ONE, BatchRequest(PLAN, 3))
    member = Member(links)
    assert member.pull(1) == b""
    assert member.pull(0, below=1) == b""
    with pytest.raises(MalformedFrame):
        member.pull(2)


def test_a_waiting_fetch_is_answered_when_something_is_sent():
    links = a_session()
    answers = []
    thread = threading.Thread(target=lambda: answers.append(Member(links).pull(0, wait=20.0)))
    thread.start()
    links.send(ONE, BatchRequest(PLAN, 5))
    thread.join(GENEROUS)
    assert said_in(answers[0]).batch == 5


def test_a_fetch_that_may_not_wait_is_answered_at_once():
    assert a_session().pull(ONE, Wanted(SESSION, 0, 0, 0, 1, FRAME, 20_000), may_wait=False) == b""


@pytest.mark.parametrize("each", [1024, 4096, MIB])
def test_a_member_says_how_large_the_frames_are_that_it_fetches(each):
    links = a_session()
    me = Member(links)
    links.send(ONE, batch(1, 1200))
    first = frames_in(me.pull(0, each=each))[0]
    assert len(first.body) == min(each, first.size)
    rest = [frames_in(me.pull(0, part=part, each=each))[0] for part in range(1, first.parts)]
    assert decode(b"".join(bytes(frame.body) for frame in (first, *rest))).batch == 1


@pytest.mark.parametrize("each", [0, 1023, MIB + 1, 2**32 - 1])
def test_frames_too_small_or_too_large_cannot_be_asked_for(each):
    with pytest.raises(MalformedFrame):
        Wanted.decode(Wanted(SESSION, 0, 0, 0, 1, each, 0).encode())


def test_to_ask_for_nothing_is_a_sign_of_life():
    links = a_session()
    links.send(ONE, BatchRequest(PLAN, 3))
    assert Member(links).pull(NOTHING, below=0) == b""
    assert not links.fetched


# --- coming and going -------------------------------------------------------------------------------------------------


def test_a_second_process_of_a_member_is_refused():
    links = a_session()
    joining, other = Joining(SESSION, b"1" * 16), Joining(SESSION, b"2" * 16)
    links.join(ONE, joining)
    links.join(ONE, joining)
    links.join(TWO, other)
    with pytest.raises(PeerLost, match="before"):
        links.join(ONE, other)


def test_who_has_left_is_sent_nothing_and_says_nothing():
    links = a_session()
    member = Member(links)
    frames = member.frames(BatchRequest(PLAN, 0))
    member.push(*frames)
    links.send(ONE, BatchRequest(PLAN, 1))
    for _ in range(2):
        links.leave(ONE, Leaving(SESSION, 0, True))
    assert links.fetched
    assert batches_heard(links) == [0]
    for call in (
        lambda: links.send(ONE, BatchRequest(PLAN, 2)),
        lambda: member.push(*frames),
        lambda: member.pull(0),
        lambda: links.join(ONE, Joining(SESSION, bytes(16))),
    ):
        with pytest.raises(PeerLost):
            call()


def test_who_leaves_in_the_middle_ends_the_session():
    links = a_session()
    links.leave(TWO, Leaving(SESSION, 0, False))
    with pytest.raises(PeerLost, match="user 2"):
        links.receive(GENEROUS)


def test_what_came_before_a_failure_is_heard_before_it():
    links = a_session()
    member = Member(links)
    member.push(*member.frames(BatchRequest(PLAN, 0)))
    links.leave(TWO, Leaving(SESSION, 0, False))
    assert links.receive(GENEROUS)[1].batch == 0
    with pytest.raises(PeerLost):
        links.receive(GENEROUS)


def test_a_closed_session_receives_nothing_but_lets_what_was_sent_be_fetched():
    links = a_session()
    member = Member(links)
    links.send(ONE, BatchRequest(PLAN, 3))
    links.close()
    links.close()
    for call in (
        links.receive,
        lambda: links.send(ONE, BatchRequest(PLAN, 4)),
        lambda: member.push(*member.frames(BatchRequest(PLAN, 0))),
        lambda: links.join(ONE, Joining(SESSION, bytes(16))),
    ):
        with pytest.raises(PeerLost):
            call()
    assert said_in(member.pull(0)).batch == 3
    with pytest.raises(PeerLost):
        member.pull(1, wait=20.0)
    assert links.fetched
    links.leave(ONE, Leaving(SESSION, 1, True))


def test_closing_wakes_all_who_wait():
    links, ends = a_session(), []

    def waits(call):
        try:
            call()
        except PeerLost as error:
            ends.append(error)

    calls = (lambda: links.receive(GENEROUS), lambda: Member(links).pull(0, wait=20.0))
    threads = [threading.Thread(target=waits, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    links.close()
    for thread in threads:
        thread.join(GENEROUS)
    assert len(ends) == 2


def test_a_silent_member_is_missed_unless_it_has_left_or_is_done():
    links = a_session()
    links.expect_signs_of_life(GENEROUS)
    with pytest.raises(TimedOut):
        links.expect_signs_of_life(-1.0)
    links.expect_signs_of_life(-1.0, but=(ONE, TWO, TA))
    for party in (ONE, TA):
        links.leave(party, Leaving(SESSION, 0, True))
    with pytest.raises(TimedOut, match="user 2"):
        links.expect_signs_of_life(-1.0)
    links.expect_signs_of_life(-1.0, but=(TWO,))


def test_a_member_that_waits_for_a_message_is_alive():
    links = SessionLinks(SESSION, {"party/a": ONE}, 100)
    waiting = threading.Thread(target=lambda: Member(links).pull(0, wait=20.0))
    waiting.start()

    def alive() -> bool:
        try:
            links.expect_signs_of_life(-1.0)
        except TimedOut:
            return False
        return True

    until(alive)
    links.send(ONE, BatchRequest(PLAN, 0))
    waiting.join(GENEROUS)
    assert not waiting.is_alive()


def test_a_session_that_all_have_left_is_over():
    links = a_session()
    member = Member(links)
    member.push(*member.frames(BatchRequest(PLAN, 0)))
    for party in (ONE, TWO, TA):
        links.leave(party, Leaving(SESSION, 0, True))
    links.expect_any_member()
    assert links.all_left
    assert links.receive()[1].batch == 0
    with pytest.raises(PeerLost, match="all members have disconnected"):
        links.expect_any_member()


def test_a_member_whose_open_call_breaks_off_is_lost_unless_it_calls_again():
    links = SessionLinks(SESSION, {"party/a": ONE}, 100)
    call, other = object(), object()
    wanted = Wanted(SESSION, 0, 0, 0, 1, FRAME, 20_000)

    def waits(call, count):
        thread = threading.Thread(target=links.pull, args=(ONE, wanted, True, call))
        thread.start()
        until(lambda: links.calls_waiting(ONE) == count)
        return thread

    first = waits(call, 1)
    links.expect_signs_of_life(GENEROUS, grace=-1.0)
    second = waits(other, 2)
    links.broke_off(ONE, call)
    first.join(GENEROUS)  # at once, not after its twenty seconds: nothing is left to be answered
    assert not first.is_alive()
    links.expect_signs_of_life(GENEROUS, grace=-1.0)  # another call of its own is open
    links.broke_off(ONE, other)
    links.broke_off(ONE, other)
    second.join(GENEROUS)
    links.expect_signs_of_life(GENEROUS, grace=GENEROUS)  # it may have been cut off, and dial again
    with pytest.raises(PeerLost, match="the connection of user 1 closed"):
        links.expect_signs_of_life(GENEROUS, grace=-1.0)
    links.expect_signs_of_life(GENEROUS, but=(ONE,), grace=-1.0)
    Member(links).pull(0)
    links.expect_signs_of_life(GENEROUS, grace=-1.0)


def test_draining_ends_when_all_is_fetched_or_nobody_fetches():
    links = a_session()
    links.drain(GENEROUS)
    links.send(ONE, BatchRequest(PLAN, 0))
    links.drain(0.05)
    assert not links.fetched
    fetching = threading.Thread(target=links.drain, args=(GENEROUS,))
    fetching.start()
    member = Member(links)
    member.pull(0)
    member.pull(1)
    fetching.join(GENEROUS)
    assert not fetching.is_alive()


@pytest.mark.parametrize(
    ("joining", "wanted", "leaving"),
    [(Joining(SESSION, bytes(range(16))), Wanted(SESSION, 2**40, 7, 3, 2, 2**14, 5000), Leaving(SESSION, 2**50, True))],
)
def test_calls_are_read_as_they_were_written_and_from_nothing_else(joining, wanted, leaving):
    for call in (joining, wanted, leaving):
        body = call.encode()
        assert type(call).decode(body) == call
        for wrong in (body[:-1], body + b"\x00", b""):
            with pytest.raises(MalformedFrame):
                type(call).decode(wrong)
    with pytest.raises(MalformedFrame):
        Leaving.decode(leaving.encode()[:-1] + b"\x02")
    assert all(one.encode() != other.encode() for one, other in pairwise((joining, wanted, leaving)))
