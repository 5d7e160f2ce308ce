"""A link's bookkeeping: whatever happens to frames, messages come out whole, once, in order, and within bounds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.wire.frames import encode_frame

from fedsvd.errors import LocalProtocolError, MalformedFrame
from fedsvd.transport.links import MESSAGE_LIMIT, Inbox, Outbox
from fedsvd.types import SessionId
from fedsvd.wire.frame import Frame, decode_frame

SESSION, OTHER = SessionId("5e" * 16), SessionId("07" * 16)
FRAME = 1024


def filled(*messages: bytes) -> Outbox:
    box = Outbox(SESSION)
    for message in messages:
        box.put([message[:700], memoryview(message)[700:]])
    return box


def frames_of(box: Outbox, number: int) -> list[Frame]:
    return [decode_frame(encode_frame(box.frame(number, part, FRAME))) for part in range(box.frames(number, FRAME))]


def content(seed: int, size: int) -> bytes:
    return np.random.default_rng(seed).bytes(size)


@settings(max_examples=60)
@given(sizes=st.lists(st.integers(0, 5000), max_size=6), data=st.data())
def test_messages_come_out_whole_once_and_in_order_however_frames_come(sizes, data):
    messages = [content(seed, size) for seed, size in enumerate(sizes)]
    box, inbox = filled(*messages), Inbox(SESSION)
    frames = [frame for number in range(len(messages)) for frame in frames_of(box, number)]
    again = data.draw(st.lists(st.sampled_from(frames), max_size=5)) if frames else []
    handed = [bytes(whole) for frame in data.draw(st.permutations(frames + again)) for whole in inbox.add(frame)]
    assert handed == messages
    assert inbox.next == len(messages)
    for frame in frames:
        assert inbox.add(frame) == []


def test_a_message_with_a_missing_frame_holds_back_those_behind_it():
    box, inbox = filled(content(0, 3000), b"later"), Inbox(SESSION)
    first, missing, last = frames_of(box, 0)
    assert inbox.add(first) == inbox.add(last) == []
    assert inbox.growing
    assert inbox.add(frames_of(box, 1)[0]) == []
    assert [bytes(whole) for whole in inbox.add(missing)] == [content(0, 3000), b"later"]
    assert not inbox.growing


def test_a_frame_begins_a_message_once():
    box, inbox = filled(content(0, 3000), b"later"), Inbox(SESSION)
    frames = frames_of(box, 0)
    assert inbox.begins(frames[2])
    inbox.add(frames[2])
    assert not inbox.begins(frames[0])
    (later,) = frames_of(box, 1)
    inbox.add(later)
    assert not inbox.begins(later)
    for frame in frames:
        inbox.add(frame)
    assert not inbox.begins(frames[0])
    assert inbox.next == 2


def test_a_frame_of_another_session_is_refused():
    box = Outbox(OTHER)
    box.put([b"hello"])
    with pytest.raises(LocalProtocolError):
        Inbox(SESSION).add(box.frame(0, 0))


def test_a_frame_far_ahead_of_what_is_due_is_refused_and_one_nearer_is_kept():
    inbox = Inbox(SESSION)
    near, far = Frame(SESSION, 63, 0, 1, 1, b"x"), Frame(SESSION, 64, 0, 1, 1, b"x")
    assert not inbox.too_early(near)
    assert inbox.add(near) == []
    assert inbox.too_early(far)
    with pytest.raises(MalformedFrame):
        inbox.add(far)


def test_a_message_that_claims_too_much_is_refused_at_its_first_frame():
    claims = Frame(SESSION, 0, 0, 1 << 26, MESSAGE_LIMIT + 1, bytes(FRAME))
    with pytest.raises(MalformedFrame):
        Inbox(SESSION).add(claims)
    inbox = Inbox(SESSION, limit=2000)
    assert len(inbox.add(Frame(SESSION, 0, 0, 1, 2000, bytes(2000)))) == 1
    with pytest.raises(MalformedFrame):
        inbox.add(Frame(SESSION, 1, 0, 1, 2001, bytes(2001)))


def test_an_inbox_that_is_cleared_says_how_much_had_been_promised():
    box, inbox = filled(content(0, 3000), b"whole"), Inbox(SESSION)
    inbox.add(frames_of(box, 0)[1])
    inbox.add(frames_of(box, 1)[0])
    assert inbox.clear() == 3000 + len(b"whole")
    assert inbox.clear() == 0


def test_an_outbox_keeps_what_was_not_acknowledged_and_counts_its_bytes():
    box = filled(content(0, 3000), b"", content(2, 10))
    assert (box.bytes, box.empty) == (3010, False)
    assert [box.frames(number, FRAME) for number in range(3)] == [3, 1, 1]
    box.acknowledge(0)
    assert box.bytes == 3010
    box.acknowledge(2)
    assert (box.bytes, box.has(0), box.has(1), box.has(2)) == (10, False, False, True)
    box.acknowledge(1)  # an older acknowledgement comes late
    assert box.bytes == 10
    box.acknowledge(3)
    assert (box.bytes, box.empty) == (0, True)


def test_messages_may_be_delivered_out_of_order():
    box = filled(b"a", b"bc", b"def")
    box.forget(1)
    assert (box.bytes, box.has(0), box.has(1), box.has(2)) == (4, True, False, True)
    box.forget(0)
    box.forget(2)
    assert (box.bytes, box.empty) == (0, True)
    assert box.put([b"next"]) == 3


def test_a_cleared_outbox_is_empty_and_goes_on_counting():
    box = filled(b"a", b"b")
    box.clear()
    assert (box.bytes, box.empty, box.has(0)) == (0, True, False)
    assert box.put([b"c"]) == 2


def test_what_was_never_sent_cannot_be_acknowledged_or_asked_for():
    box = filled(b"a")
    with pytest.raises(MalformedFrame):
        box.acknowledge(2)
    for number, part in ((1, 0), (0, 1)):
        with pytest.raises(MalformedFrame):
            box.frame(number, part, FRAME)
    box.acknowledge(1)
    with pytest.raises(MalformedFrame):
        box.frame(0, 0)


def test_a_kept_message_is_a_view_of_what_was_sent():
    payload = np.arange(4096, dtype=np.float64)
    box = Outbox(SESSION)
    box.put([payload.view(np.uint8).data])
    payload[:] = 0.5
    assert bytes(box.frame(0, 3, FRAME).body) == np.full(128, 0.5).tobytes()
