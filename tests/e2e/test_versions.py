"""Peers of two versions over a real line: each hears of the other's version, before anything else."""

import json
import struct
from time import monotonic, sleep

import numpy as np
import pytest
from tests.e2e.commands import GENEROUS
from tests.e2e.federations import federation_of

from fedsvd.errors import FedSVDError, OtherVersion
from fedsvd.service import api
from fedsvd.service.client import CspClient
from fedsvd.service.csp import CspNode
from fedsvd.service.site import Site
from fedsvd.transport.calls import ASK, PUSH
from fedsvd.transport.grpc_client import PinnedConnection

FILE = {"job": {"name": "study", "task": "svd"}, "party": [{"name": "a"}, {"name": "b"}]}


class AsIn02(CspNode):
    """Answers as 0.2.0 did: without a version, whatever it is asked."""

    def answer(self, caller, body):
        said = json.loads(super().answer(caller, body))
        return json.dumps({key: said[key] for key in said if key in ("answer", "error")}).encode()


@pytest.fixture
def roles(tmp_path):
    tables = {name: np.random.default_rng(number).normal(size=(60, 4)) for number, name in enumerate("ab")}
    with federation_of(tmp_path, ("a", "b"), tables, patience=GENEROUS) as made:
        yield made


@pytest.mark.chaos("another version", "a CSP of 0.2.0", "FSVD-505 at researcher and parties, which wait for it")
def test_members_and_researchers_of_an_old_csp_hear_its_version_and_nothing_else(roles, caplog):
    with roles.csp_node(AsIn02), roles.connect() as researcher:
        for ask in (lambda: researcher.submit(FILE), researcher.jobs, lambda: researcher.job("ab")):
            with pytest.raises(OtherVersion, match=r"the CSP is fedsvd 0\.2 or older, and here is fedsvd"):
                ask()
        with roles.member_nodes("party/a"):
            deadline = monotonic() + GENEROUS
            while "FSVD-505" not in caplog.text:
                assert monotonic() < deadline
                sleep(0.05)
    assert not any(word in caplog.text for word in ("FSVD-413", "FSVD-414", "damaged"))


@pytest.mark.chaos("another version", "a member or researcher of 0.2.0", "FSVD-505 at the caller; others go on")
def test_an_old_caller_gets_an_error_it_can_read_and_the_csp_goes_on(roles):
    with roles.csp_node(), roles.connect() as now:
        line = PinnedConnection(Site.at(roles.kits["researcher/res"]).dialling(roles.csp, GENEROUS))
        for verb, values in (
            ("submit", {"file": FILE}),
            ("jobs", {}),
            ("wait", {"id": "ab"}),
            ("enlist", {"id": "ab"}),
        ):
            reply = json.loads(line.call(ASK, json.dumps({"ask": verb, "with": values}).encode()))
            assert reply["error"]["code"] == "FSVD-505"
            assert "the caller is fedsvd 0.2 or older" in reply["error"]["fault"]
        frame = b"FSVF" + struct.pack("<B16sQIIQ", 1, bytes(16), 0, 0, 1, 1) + bytes(17)
        with pytest.raises(FedSVDError) as refused:
            line.call(PUSH, struct.pack("<I", len(frame)) + frame)
        assert refused.value.code == "FSVD-505"
        line.close()
        assert now.jobs() == []
        later = json.dumps({"protocol": 4, "fedsvd": "0.4.0", "ask": "sing", "with": {}}).encode()
        again = PinnedConnection(Site.at(roles.kits["party/a"]).dialling(roles.csp, GENEROUS))
        said = json.loads(again.call(ASK, later))["error"]
        assert (said["code"], "fedsvd 0.4.0 with protocol 4" in said["fault"]) == ("FSVD-505", True)
        client = CspClient(again)
        assert client.ask(api.NOW, api.Now()).fedsvd
        client.close()
