"""A rehearsal says that it is one in every certificate, and does not leave this machine."""

from datetime import timedelta

import pytest

from fedsvd.errors import ConfigError, NotAuthenticated
from fedsvd.identity.authority import Authority, init_federation
from fedsvd.identity.certificates import expect_here, is_rehearsal
from fedsvd.identity.kit import Kit
from fedsvd.identity.request import make_request
from fedsvd.identity.temporary import temporary_federation
from fedsvd.service.site import Site

HERE = ("127.0.0.1", "127.0.0.1:7443", "127.8.9.1:1", "localhost", "localhost:7443", "::1", "[::1]:7443", "[::1]")
NAMES = ("csp.example.org", "csp.example.org:7443", "localhost.example.org")
ELSEWHERE = (*NAMES, "0.0.0.0:7443", "10.0.0.7:7443", "[::]:7443", "fe80::1", "", ":7443")


@pytest.fixture
def rehearsal(tmp_path, now):
    return temporary_federation(tmp_path / "r", ["a", "b"], researcher="res", now=now, name="R", rehearsal=True)


def test_every_certificate_of_a_rehearsal_says_so_and_no_other_does(rehearsal, tmp_path, now):
    for folder in rehearsal.values():
        kit = Kit.read(folder)
        assert kit.rehearsal
        assert "REHEARSAL" in kit.certificate.issuer.rfc4514_string()
    other = temporary_federation(tmp_path / "f", ["a"], now=now, name="REHEARSAL")  # a name alone marks nothing
    assert not Kit.read(other["party/a"]).rehearsal


@pytest.mark.parametrize("address", HERE)
def test_this_machine_is_allowed(rehearsal, address):
    expect_here(Kit.read(rehearsal["party/a"]).ca, address)


@pytest.mark.parametrize("address", ELSEWHERE)
def test_another_machine_is_refused_to_dial_to_listen_at_and_to_sign_for(rehearsal, tmp_path, now, address):
    party, csp = Site.at(rehearsal["party/a"]), Site.at(rehearsal["csp/csp"])
    with pytest.raises(NotAuthenticated, match="rehearsal"):
        expect_here(party.kit.ca, address)
    if address:
        with pytest.raises(NotAuthenticated, match="rehearsal"):
            party.dialling(address)
    with pytest.raises(NotAuthenticated, match="rehearsal"):
        csp.listening(address)


def test_the_operator_of_a_rehearsal_signs_for_no_other_machine(rehearsal, tmp_path, now):
    operator = Authority(tmp_path / "r" / "operator")
    made = make_request(tmp_path / "second", operator.federation, "csp", "second", ["csp.example.org"])
    words = {"role": "csp", "party_id": "second", "fingerprint": made.fingerprint, "now": now}
    with pytest.raises(NotAuthenticated, match=r"csp\.example\.org is not on this machine"):
        operator.approve(made.pem, **words)
    assert [issued.party_id for issued in operator.register()].count("second") == 0


def test_a_federation_may_be_anywhere(tmp_path, now):
    ca = init_federation(tmp_path / "operator", "three hospitals", now=now).ca
    assert not is_rehearsal(ca)
    for address in (*HERE, *ELSEWHERE):
        expect_here(ca, address)


def test_a_rehearsal_is_not_renewed_but_says_when_it_is_over(rehearsal, now):
    kit = Kit.read(rehearsal["party/a"])
    assert kit.warnings(now) == []
    assert any("rehearse again" in warning for warning in kit.warnings(now + timedelta(days=8)))


def test_kits_are_named_by_their_ids_and_the_operators_folder_is_its_own(rehearsal, tmp_path, now):
    assert {folder.name for folder in rehearsal.values()} == {"csp", "a", "b", "res"}
    with pytest.raises(ConfigError, match="operator's folder"):
        temporary_federation(tmp_path / "x", ["operator", "b"], now=now, rehearsal=True)
