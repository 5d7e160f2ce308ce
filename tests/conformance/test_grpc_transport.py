"""gRPC over mutual TLS keeps the laws of a transport, as the loopback does."""

from collections.abc import Sequence
from time import monotonic, sleep

import pytest
from tests.network import GENEROUS, Network, listening, make_kits

from fedsvd.protocol.parties import CSP, Party
from fedsvd.testing.transports import TransportTests
from fedsvd.transport.metered import Meter, Metered, Transport


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    with listening(make_kits(tmp_path_factory.mktemp("kits"))) as network:
        yield network


class GrpcTests(TransportTests):
    """The CSP's links and one dialled end for each member, all in this process."""

    options: dict[str, int] = {}  # noqa: RUF012
    network: Network
    deadline = 0.0

    @pytest.fixture(autouse=True)
    def listen(self, network):
        self.network = network
        yield
        network.close()

    def connect(self, parties: Sequence[Party]) -> dict[Party, Transport]:
        self.deadline = monotonic() + GENEROUS
        links = self.network.open(parties)
        ends = {party: self.network.dial(party, links.session, **self.options) for party in parties if party != CSP}
        return {party: links if party == CSP else ends[party] for party in parties}

    def pause(self) -> bool:
        sleep(0.01)
        return monotonic() < self.deadline


class TestGrpc(GrpcTests):
    pass


class TestGrpcOverOneConnectionInSmallFrames(GrpcTests):
    big = 1 << 16
    options = {"channels": 1, "frame": 1 << 10}  # noqa: RUF012


class TestMeteredGrpc(GrpcTests):
    def connect(self, parties: Sequence[Party]) -> dict[Party, Transport]:
        meter = Meter()
        return {party: Metered(end, party, meter) for party, end in super().connect(parties).items()}
