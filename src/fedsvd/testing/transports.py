"""What every transport must do, whatever carries it: a suite to subclass.

Say in ``connect`` how the ends of a few parties are made, and pytest runs the laws of ``transport.base`` against them:
order is preserved on each link, nothing is lost, doubled or altered, whatever its size, links do not mix, and a link
that was hung up raises. For a transport whose messages take time, ``pause`` waits a little and says whether it is worth
asking again.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsvd.errors import TransportError
from fedsvd.protocol.messages import (
    Aborted,
    BatchRequest,
    FactorRows,
    Factors,
    KeyBook,
    KeyOffer,
    Message,
    PaddedBatch,
    Ready,
    Relay,
    SumShare,
)
from fedsvd.protocol.parties import CSP, TA, Party, user
from fedsvd.transport.metered import Transport
from fedsvd.types import Digest

ONE, TWO = user(1), user(2)
DIGEST = Digest("0" * 64)
# All links end at the CSP.
LINKS = ((ONE, CSP), (TWO, CSP), (TA, CSP), (CSP, ONE), (CSP, TWO), (CSP, TA))


class TransportTests(ABC):
    """The laws of ``Transport``."""

    big = 1 << 19  # columns of the largest payload, which has two rows

    @abstractmethod
    def connect(self, parties: Sequence[Party]) -> dict[Party, Transport]:
        """A fresh, connected end for each party."""

    def pause(self) -> bool:
        """Wait for what may be under way; False when nothing can be."""
        return False

    @pytest.fixture
    def ends(self) -> Any:
        made = self.connect((CSP, TA, ONE, TWO))
        yield made
        for end in made.values():
            end.close()

    def received_at(self, end: Transport, count: int) -> list[tuple[Party, Message]]:
        """The next ``count`` messages of an end; fewer when no more come."""
        received: list[tuple[Party, Message]] = []
        while len(received) < count:
            delivery = end.receive()
            if delivery is not None:
                received.append(delivery)
            elif not self.pause():
                break
        return received

    def expect_silence(self, end: Transport) -> None:
        self.pause()
        assert end.receive() is None

    def test_nothing_waits_at_first(self, ends: dict[Party, Transport]) -> None:
        for end in ends.values():
            self.expect_silence(end)

    @pytest.mark.parametrize("link", LINKS, ids=lambda link: f"{link[0].name} to {link[1].name}")
    def test_a_message_arrives_once_with_its_sender_and_nowhere_else(
        self, link: tuple[Party, Party], ends: dict[Party, Transport]
    ) -> None:
        origin, to = link
        ends[origin].send(to, BatchRequest(DIGEST, 7))
        ((sender, message),) = self.received_at(ends[to], 1)
        assert sender == origin
        assert isinstance(message, BatchRequest)
        assert (message.plan, message.batch) == (DIGEST, 7)
        for end in ends.values():
            self.expect_silence(end)

    def test_order_is_kept_on_every_link_and_nothing_is_lost(self) -> None:
        @settings(max_examples=20, deadline=None)
        @given(says=st.lists(st.sampled_from(LINKS), max_size=60))
        def agree(says: list[tuple[Party, Party]]) -> None:
            ends = self.connect((CSP, TA, ONE, TWO))
            for number, (origin, to) in enumerate(says):
                ends[origin].send(to, BatchRequest(DIGEST, number))
            for me, end in ends.items():
                coming = [(origin, number) for number, (origin, to) in enumerate(says) if to == me]
                received = [(sender, _number(message)) for sender, message in self.received_at(end, len(coming))]
                assert sorted(received, key=lambda pair: pair[1]) == coming
                for origin in ends:
                    assert [n for who, n in received if who == origin] == [n for who, n in coming if who == origin]
                self.expect_silence(end)
                end.close()

        agree()

    def test_answers_may_cross(self, ends: dict[Party, Transport]) -> None:
        for number in range(3):
            ends[ONE].send(CSP, BatchRequest(DIGEST, number))
            ends[CSP].send(ONE, BatchRequest(DIGEST, 10 + number))
        assert [_number(message) for _, message in self.received_at(ends[ONE], 3)] == [10, 11, 12]
        assert [_number(message) for _, message in self.received_at(ends[CSP], 3)] == [0, 1, 2]

    def test_every_kind_of_content_arrives_as_it_was(self, ends: dict[Party, Transport]) -> None:
        rng = np.random.default_rng(5)
        words = rng.integers(0, 2**64, (3, 5), np.uint64)
        extreme = np.array([[np.finfo(float).max, -0.0, 5e-324]])
        sent_messages = (
            KeyOffer(DIGEST, b"\x00\xff", b"", bytes(range(64))),
            KeyBook(DIGEST, ((ONE, b"a", b"", b"c"), (TA, b"", b"b", b""))),
            Relay(DIGEST, TWO, b"sealed"),
            SumShare(DIGEST, "norm", 0, words, words[0, :3], b"commitment"),
            Ready(DIGEST),
            PaddedBatch(DIGEST, 3, words),
            PaddedBatch(DIGEST, 4, np.zeros((0, 5), np.uint64)),
            FactorRows(DIGEST, 2, rng.normal(size=(2, 3))),
            Factors(DIGEST, extreme, None, 0.0, -0.0),
            Aborted(DIGEST, "FSVD-412", "aggregating"),
        )
        for message in sent_messages:
            ends[ONE].send(CSP, message)
        received = [message for _, message in self.received_at(ends[CSP], len(sent_messages))]
        assert [type(message) for message in received] == [type(message) for message in sent_messages]
        for got, sent in zip(received, sent_messages, strict=True):
            for field in fields(sent):
                _expect_same(getattr(got, field.name), getattr(sent, field.name))

    def test_big_payloads_arrive_intact(self, ends: dict[Party, Transport]) -> None:
        rng = np.random.default_rng(6)
        payloads = [rng.integers(0, 2**64, (2, size), np.uint64) for size in (self.big, 1, self.big // 2)]
        for number, payload in enumerate(payloads):
            ends[TWO].send(CSP, PaddedBatch(DIGEST, number, payload))
        for payload, (_, message) in zip(payloads, self.received_at(ends[CSP], 3), strict=True):
            assert isinstance(message, PaddedBatch)
            np.testing.assert_array_equal(message.payload, payload)

    def test_an_end_that_was_closed_neither_sends_nor_receives(self, ends: dict[Party, Transport]) -> None:
        ends[ONE].close()
        with pytest.raises(TransportError):
            ends[ONE].send(CSP, BatchRequest(DIGEST, 0))
        with pytest.raises(TransportError):
            ends[ONE].receive()

    def test_hanging_up_twice_is_harmless(self, ends: dict[Party, Transport]) -> None:
        ends[ONE].close()
        ends[ONE].close()

    def test_sending_to_one_who_has_hung_up_raises(self, ends: dict[Party, Transport]) -> None:
        ends[ONE].close()
        self.pause()
        with pytest.raises(TransportError):
            ends[CSP].send(ONE, BatchRequest(DIGEST, 0))

    def test_what_was_sent_before_closing_still_arrives(self, ends: dict[Party, Transport]) -> None:
        for number in range(3):
            ends[ONE].send(CSP, BatchRequest(DIGEST, number))
        ends[ONE].close()
        assert [_number(message) for _, message in self.received_at(ends[CSP], 3)] == [0, 1, 2]

    def test_the_other_links_stay_up_when_one_party_hangs_up(self, ends: dict[Party, Transport]) -> None:
        ends[TWO].send(CSP, BatchRequest(DIGEST, 1))
        ends[ONE].close()
        ends[CSP].send(TWO, BatchRequest(DIGEST, 2))
        assert [_number(message) for _, message in self.received_at(ends[CSP], 1)] == [1]
        assert [_number(message) for _, message in self.received_at(ends[TWO], 1)] == [2]


def _number(message: Message) -> int:
    assert isinstance(message, BatchRequest)
    return message.batch


def _expect_same(got: Any, sent: Any) -> None:
    """Equal to the bit: arrays by type, shape and bytes (a zero keeps its sign), tuples item by item."""
    if isinstance(sent, np.ndarray):
        assert (got.dtype, got.shape) == (sent.dtype, sent.shape)
        assert got.tobytes() == sent.tobytes()
    elif isinstance(sent, tuple):
        assert len(got) == len(sent)
        for one, other in zip(got, sent, strict=True):
            _expect_same(one, other)
    else:
        assert got == sent
