"""Every transport keeps the laws of its interface; a metered one counts besides, and alters nothing."""

from collections.abc import Sequence

import numpy as np
import pytest

from fedsvd.errors import PeerLost
from fedsvd.protocol.messages import BatchRequest, PaddedBatch, size
from fedsvd.protocol.parties import CSP, Party
from fedsvd.testing.federation import newest_first, shuffled
from fedsvd.testing.transports import DIGEST, ONE, TWO, TransportTests
from fedsvd.transport.loopback import Hub
from fedsvd.transport.metered import Meter, Metered, Transport


class TestLoopback(TransportTests):
    def connect(self, parties: Sequence[Party]) -> dict[Party, Transport]:
        hub = Hub()
        return {party: hub.end(party) for party in parties}


class TestLoopbackThatDeliversInAnyOrderBetweenLinks(TransportTests):
    def connect(self, parties: Sequence[Party]) -> dict[Party, Transport]:
        hub = Hub(shuffled(3))
        return {party: hub.end(party) for party in parties}


class TestLoopbackThatDeliversTheNewestLinkFirst(TransportTests):
    def connect(self, parties: Sequence[Party]) -> dict[Party, Transport]:
        hub = Hub(newest_first)
        return {party: hub.end(party) for party in parties}


class TestMetered(TransportTests):
    def connect(self, parties: Sequence[Party]) -> dict[Party, Transport]:
        hub, meter = Hub(), Meter()
        return {party: Metered(hub.end(party), party, meter) for party in parties}


def test_a_meter_counts_the_bytes_and_messages_of_each_link_and_direction():
    hub, meter = Hub(), Meter()
    ends = {party: Metered(hub.end(party), party, meter) for party in (CSP, ONE, TWO)}
    batch = PaddedBatch(DIGEST, 0, np.zeros((10, 3), np.uint64))
    ends[ONE].send(CSP, batch)
    ends[ONE].send(CSP, batch)
    ends[CSP].send(ONE, BatchRequest(DIGEST, 1))
    ends[TWO].send(CSP, batch)
    digest, number, words = 64, 8, 8 * 30
    assert size(batch) == digest + number + words
    assert meter.messages == {(ONE, CSP): 2, (CSP, ONE): 1, (TWO, CSP): 1}
    assert meter.sent_bytes == {
        (ONE, CSP): 2 * (digest + number + words),
        (CSP, ONE): digest + number,
        (TWO, CSP): digest + number + words,
    }
    assert meter.total == 3 * (digest + number + words) + digest + number


def test_a_meter_does_not_count_what_could_not_be_sent():
    hub, meter = Hub(), Meter()
    ends = {party: Metered(hub.end(party), party, meter) for party in (CSP, ONE)}
    ends[CSP].close()
    with pytest.raises(PeerLost):
        ends[ONE].send(CSP, BatchRequest(DIGEST, 0))
    assert meter.total == 0
    assert not meter.messages
