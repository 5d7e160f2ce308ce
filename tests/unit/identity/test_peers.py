"""A peer is who the operator says it is, today, in its role, and never against a pin."""

from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedsvd.errors import ConfigError, NotAuthenticated, StorageError
from fedsvd.identity.claims import alternative_names, make_claim
from fedsvd.identity.kit import accept, accept_revocations, check_peer
from fedsvd.identity.names import KitRole, Name
from fedsvd.identity.pins import expect_no_other_pin, pin, read_pins
from fedsvd.identity.request import read_tls_key, renew
from fedsvd.randomness.seed import Seed
from fedsvd.sealing.sign import SigningKey

DAY = timedelta(days=1)
PARTY = {KitRole.PARTY}


@pytest.fixture
def csp(members):
    return members.join("csp", "csp")


@pytest.fixture
def alice(members):
    return members.join("party", "party-a")


def test_a_peer_is_known_by_its_certificate_in_either_form(csp, alice, members, now):
    for shown in (alice.certificate, alice.certificate_pem, alice.certificate.public_bytes(Encoding.DER)):
        assert check_peer(csp, shown, PARTY, now) == alice.identity
    identity = alice.identity
    assert (identity.federation, identity.role, identity.party_id) == (members.operator.federation, "party", "party-a")
    assert identity.signing_public == alice.signing_key.public


@pytest.mark.parametrize("role", list(KitRole))
def test_no_role_passes_for_another(role, members, now):
    judge = members.join("researcher", "judge")
    shown = members.join(role, "someone").certificate
    assert check_peer(judge, shown, {role}, now).role is role
    assert check_peer(judge, shown, set(KitRole), now).role is role
    for expected in (set(KitRole) - {role}, set()):
        with pytest.raises(NotAuthenticated, match="is not a"):
            check_peer(judge, shown, expected, now)


def test_a_certificate_counts_in_its_period_only(csp, alice, now):
    for when, text in (
        (now - DAY, "operator's certificate is valid only from 2031-05-06 07:03 UTC on"),
        (now + 398 * DAY, "party/party-a has expired on 2032-06-06"),
        (now + 8000 * DAY, "operator's certificate has expired"),
    ):
        with pytest.raises(NotAuthenticated, match=text):
            check_peer(csp, alice.certificate, PARTY, when)
    assert check_peer(csp, alice.certificate, PARTY, now + 397 * DAY)


def test_a_certificate_of_tomorrow_does_not_count_today(csp, members, now):
    early = members.answer(members.ask("party", "party-b"), now=now + DAY)
    with pytest.raises(NotAuthenticated, match="party/party-b is valid only from 2031-05-07 07:03 UTC on"):
        check_peer(csp, early, PARTY, now)


def test_a_self_signed_certificate_is_nobodys(csp, alice, forge, names_of, now):
    key = ec.generate_private_key(ec.SECP256R1())
    claim = make_claim(
        Name(csp.identity.federation, KitRole.PARTY, "party-a"), key.public_key(), SigningKey(Seed(bytes(32))), ()
    )
    for issuer in (alice.ca.subject, alice.certificate.subject):
        forged = forge(alternative_names(claim), key.public_key(), issuer, key)
        with pytest.raises(NotAuthenticated, match="not issued by"):
            check_peer(csp, forged, PARTY, now)


def test_another_federations_certificate_is_refused(csp, others, now):
    for stranger in (others.join("party", "party-a"), others.join("party", "party-b")):
        with pytest.raises(NotAuthenticated, match="not issued by"):
            check_peer(csp, stranger.certificate, PARTY, now)


def test_a_certificate_the_operator_signed_for_another_federations_name_is_refused(csp, members, forge, ca_key, now):
    key = ec.generate_private_key(ec.SECP256R1())
    claim = make_claim(Name("ab" * 16, KitRole.PARTY, "party-b"), key.public_key(), SigningKey(Seed(bytes(32))), ())
    operator = members.operator
    forged = forge(alternative_names(claim), key.public_key(), operator.ca.subject, ca_key(operator))
    with pytest.raises(NotAuthenticated, match="of another federation"):
        check_peer(csp, forged, PARTY, now)


def test_a_party_cannot_sign_for_others(csp, alice, forge, now):
    key = ec.generate_private_key(ec.SECP256R1())
    claim = make_claim(
        Name(csp.identity.federation, KitRole.PARTY, "party-b"), key.public_key(), SigningKey(Seed(bytes(32))), ()
    )
    forged = forge(alternative_names(claim), key.public_key(), alice.certificate.subject, read_tls_key(alice.key_path))
    with pytest.raises(NotAuthenticated, match="not issued by"):
        check_peer(csp, forged, PARTY, now)


@pytest.mark.parametrize(
    ("uses", "is_ca"),
    [
        ((ExtendedKeyUsageOID.SERVER_AUTH,), False),
        ((ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH), False),
        ((ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,), False),
        ((), False),
        ((ExtendedKeyUsageOID.CLIENT_AUTH,), True),
    ],
)
def test_a_certificate_of_wider_use_than_its_role_is_refused(
    uses, is_ca, csp, alice, members, forge, ca_key, names_of, now
):
    operator = members.operator
    names, public = names_of(alice.certificate), alice.certificate.public_key()
    assert check_peer(csp, forge(names, public, operator.ca.subject, ca_key(operator)), PARTY, now)
    wide = forge(names, public, operator.ca.subject, ca_key(operator), uses=uses, ca=is_ca)
    with pytest.raises(NotAuthenticated, match=r"what it is for|not for the use"):
        check_peer(csp, wide, PARTY, now)


# --- revocation ---------------------------------------------------------------------------------------------------


def test_a_revoked_party_stops_at_its_next_connection(csp, alice, members, now):
    bob = members.join("party", "party-b")
    assert check_peer(csp, alice.certificate, PARTY, now)
    accept_revocations(csp.directory, members.operator.revoke("party", "party-a", now=now))
    with pytest.raises(NotAuthenticated, match="party/party-a was revoked"):
        check_peer(csp, alice.certificate, PARTY, now)  # the same kit object: nothing was restarted
    assert check_peer(csp, bob.certificate, PARTY, now)


def test_an_older_list_does_not_bring_a_revoked_party_back(csp, alice, members, now):
    before = members.operator.revocation_list(now=now)
    accept_revocations(csp.directory, members.operator.revoke("party", "party-a", now=now))
    with pytest.raises(NotAuthenticated, match="older"):
        accept_revocations(csp.directory, before)
    with pytest.raises(NotAuthenticated, match="revoked"):
        check_peer(csp, alice.certificate, PARTY, now)
    accept_revocations(csp.directory, members.operator.revocation_list(now=now + 50 * DAY))
    with pytest.raises(NotAuthenticated, match="revoked"):
        check_peer(csp, alice.certificate, PARTY, now)


def test_an_old_list_still_counts(csp, alice, members, now):
    accept_revocations(csp.directory, members.operator.revoke("party", "party-a", now=now))
    with pytest.raises(NotAuthenticated, match="revoked"):
        check_peer(csp, alice.certificate, PARTY, now + 300 * DAY)


def test_nobody_else_can_make_a_list(csp, alice, others, now):
    for forged in (others.operator.revocation_list(now=now), b"", b"text", alice.certificate_pem):
        with pytest.raises(NotAuthenticated, match="not signed by the federation's operator"):
            accept_revocations(csp.directory, forged)
    assert check_peer(csp, alice.certificate, PARTY, now)


def test_a_damaged_list_lets_nobody_in(csp, alice, members, now):
    accept_revocations(csp.directory, members.operator.revocation_list(now=now))
    path = csp.directory / "revoked.pem"
    path.write_bytes(path.read_bytes()[:-60])
    with pytest.raises(NotAuthenticated):
        check_peer(csp, alice.certificate, PARTY, now)


# --- pins ---------------------------------------------------------------------------------------------------------


def test_a_second_operator_of_the_same_name_cannot_pose_as_a_pinned_party(csp, alice, others, now):
    pin(csp.directory, "party/party-a", alice.identity.fingerprint)
    impostor = others.join("party", "party-a")
    with pytest.raises(NotAuthenticated, match="not issued by"):
        check_peer(csp, impostor.certificate, PARTY, now)
    with pytest.raises(NotAuthenticated, match="pinned"):
        csp.expect_pinned("party/party-a", impostor.certificate)
    with pytest.raises(NotAuthenticated, match="pinned"):
        csp.expect_pinned("party/party-a", impostor.signing_key.public)


def test_the_operator_itself_cannot_pose_as_a_pinned_party(csp, alice, members, forge, ca_key, now):
    operator = members.operator
    key, mine = ec.generate_private_key(ec.SECP256R1()), SigningKey(Seed(bytes([9]) * 32))
    claim = make_claim(Name(operator.federation, KitRole.PARTY, "party-a"), key.public_key(), mine, ())
    second = forge(alternative_names(claim), key.public_key(), operator.ca.subject, ca_key(operator))
    assert check_peer(csp, second, PARTY, now).party_id == "party-a"  # what pins are for
    pin(csp.directory, "party/party-a", alice.identity.fingerprint)
    with pytest.raises(NotAuthenticated, match="not the key that party/party-a is pinned to"):
        check_peer(csp, second, PARTY, now)
    for key_or_certificate in (second, mine.public):
        with pytest.raises(NotAuthenticated, match="not the key that party/party-a is pinned to"):
            csp.expect_pinned("party/party-a", key_or_certificate)
    assert check_peer(csp, alice.certificate, PARTY, now)
    # The pin is the id's: another role under it is not another person.
    claim = make_claim(Name(operator.federation, KitRole.RESEARCHER, "party-a"), key.public_key(), mine, ())
    third = forge(alternative_names(claim), key.public_key(), operator.ca.subject, ca_key(operator))
    with pytest.raises(NotAuthenticated, match="pinned"):
        check_peer(csp, third, {KitRole.RESEARCHER}, now)


def test_a_certificate_reissued_after_revocation_is_refused_until_it_is_pinned_anew(csp, alice, members, now):
    pin(csp.directory, "party/party-a", alice.identity.fingerprint)
    members.operator.revoke("party", "party-a", now=now)
    new = members.join("party", "party-a", folder="new kit")
    with pytest.raises(NotAuthenticated, match="pinned"):
        check_peer(csp, new.certificate, PARTY, now)
    pin(csp.directory, "party/party-a", new.identity.fingerprint, instead=True)
    assert check_peer(csp, new.certificate, PARTY, now) == new.identity


def test_the_operator_cannot_join_a_pinned_key_to_a_tls_key_of_its_own(
    csp, alice, members, forge, ca_key, names_of, now
):
    pin(csp.directory, "party/party-a", alice.identity.fingerprint)
    rogue, operator = ec.generate_private_key(ec.SECP256R1()), members.operator
    stolen = forge(names_of(alice.certificate), rogue.public_key(), operator.ca.subject, ca_key(operator))
    with pytest.raises(NotAuthenticated):
        check_peer(csp, stolen, PARTY, now)
    with pytest.raises(NotAuthenticated):
        csp.expect_pinned("party/party-a", stolen)


def test_a_pin_outlives_certificates_and_tls_keys(csp, alice, members, now):
    pin(csp.directory, "party/party-a", alice.identity.fingerprint)
    renewed = accept(alice.directory, members.answer(renew(alice.directory), renew=True), now=now)
    assert renewed.certificate.public_key() != alice.certificate.public_key()
    assert check_peer(csp, renewed.certificate, PARTY, now) == alice.identity
    csp.expect_pinned("party/party-a", renewed.certificate)


def test_nobody_else_is_us(alice, members, forge, ca_key, now):
    operator, key = members.operator, ec.generate_private_key(ec.SECP256R1())
    claim = make_claim(
        Name(operator.federation, KitRole.PARTY, "party-a"), key.public_key(), SigningKey(Seed(bytes(32))), ()
    )
    double = forge(alternative_names(claim), key.public_key(), operator.ca.subject, ca_key(operator))
    with pytest.raises(NotAuthenticated, match="pinned"):
        check_peer(alice, double, PARTY, now)


def test_an_id_without_a_pin_is_not_pinned(csp, alice):
    for shown in (alice.certificate, alice.signing_key.public, alice.identity):
        with pytest.raises(NotAuthenticated, match="party-a is not pinned"):
            csp.expect_pinned("party/party-a", shown)
    pin(csp.directory, "party/party-a", alice.identity.fingerprint)
    for shown in (alice.certificate, alice.certificate_pem, alice.signing_key.public, alice.identity):
        csp.expect_pinned("party/party-a", shown)
    with pytest.raises(NotAuthenticated):
        csp.expect_pinned("party/party-a", csp.certificate)
    for nonsense in (b"", bytes(31), bytes(33)):
        with pytest.raises(NotAuthenticated):
            csp.expect_pinned("party/party-a", nonsense)


def test_a_pin_is_changed_on_purpose_only(csp, alice, members):
    other = members.join("party", "party-b").identity.fingerprint
    pin(csp.directory, "party/party-a", alice.identity.fingerprint)
    pin(csp.directory, "party/party-a", alice.identity.fingerprint.upper())  # the same again changes nothing
    with pytest.raises(NotAuthenticated, match="pinned to another key"):
        pin(csp.directory, "party/party-a", other)
    assert read_pins(csp.directory) == {"party/party-a": alice.identity.fingerprint}
    pin(csp.directory, "party/party-a", other, instead=True)
    pin(csp.directory, "party/party.c", alice.identity.fingerprint)
    assert read_pins(csp.directory) == {"party/party-a": other, "party/party.c": alice.identity.fingerprint}


@pytest.mark.parametrize(
    "name", ["", "..", 'party/a"', "party/a b", "csp/a\nb", "party-a", "operator/a", "party/", "/a"]
)
def test_only_ids_are_pinned_and_only_in_a_role(name, csp):
    with pytest.raises(ConfigError):
        pin(csp.directory, name, "0" * 64)
    with pytest.raises(ConfigError):
        pin(csp.directory, "party/party-a", "0" * 63)
    assert read_pins(csp.directory) == {}


@pytest.mark.parametrize(
    "text",
    [
        b'"party/party-a" = 7',
        b'"party/party-a" = "00"',
        b"party-a",
        b"\xff",
        b'["party-a"]\nx = "y"',
        b'"party/a b" = "' + b"0" * 64 + b'"',
        b'"operator/a" = "' + b"0" * 64 + b'"',
        b'"party/a" = "' + b"0" * 64 + b'"\n"csp/a" = "' + b"0" * 64 + b'"',  # one key, two names
        b'"party-a" = "' + b"0" * 64 + b'"',  # of 0.2: in no role
    ],
)
def test_a_damaged_file_of_pins_lets_nobody_in(text, csp, alice, now):
    (csp.directory / "pins.toml").write_bytes(text)
    with pytest.raises(StorageError, match=r"pins\.toml"):
        check_peer(csp, alice.certificate, PARTY, now)
    with pytest.raises(StorageError):
        pin(csp.directory, "party/party-a", alice.identity.fingerprint)
    assert (csp.directory / "pins.toml").read_bytes() == text


def test_pins_of_version_02_are_refused_with_what_to_write_instead(csp, alice, now):
    (csp.directory / "pins.toml").write_text(f'"party-a" = "{alice.identity.fingerprint}"\n')
    with pytest.raises(StorageError, match=r"of fedsvd 0\.2") as caught:
        check_peer(csp, alice.certificate, PARTY, now)
    assert '"party-a" becomes "party/party-a", or "csp/party-a"' in caught.value.fix


def test_a_key_that_is_pinned_to_a_party_is_no_ones_csp(csp, alice):
    """In 0.2.0 a pin was of an id in any role: the operator made a party everyone's CSP."""
    pin(csp.directory, "party/party-a", alice.identity.fingerprint)
    for member in ("csp/party-a", "csp/other"):
        with pytest.raises(NotAuthenticated, match="no key has two names"):
            csp.expect_pinned(member, alice.signing_key.public)
        with pytest.raises(NotAuthenticated, match="no key has two names"):
            pin(csp.directory, member, alice.identity.fingerprint)


def test_a_party_with_a_csps_certificate_for_its_pinned_key_is_refused(members, csp, now):
    """The operator signs for it; the owner that pinned the party is not deceived."""
    kit = members.join("party", "hospital-z")
    pin(csp.directory, str(kit.identity), kit.identity.fingerprint)
    assert check_peer(csp, kit.certificate, PARTY, now) == kit.identity
    pins = {"party/hospital-z": kit.identity.fingerprint}
    for role in ("csp", "authority"):
        with pytest.raises(NotAuthenticated, match="pinned to party/hospital-z"):
            expect_no_other_pin(pins, f"{role}/hospital-z", kit.identity.signing_public)


# --- bytes --------------------------------------------------------------------------------------------------------


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_bytes_that_are_no_certificate_of_ours_are_not_authenticated(data, csp, alice, now):
    body = bytearray(alice.certificate.public_bytes(Encoding.DER))
    if data.draw(st.booleans()):
        signed = alice.certificate.tbs_certificate_bytes
        place = 8 * body.index(signed) + data.draw(st.integers(0, 8 * len(signed) - 1))
        body[place // 8] ^= 1 << place % 8
        shown = bytes(body)
    else:
        shown = data.draw(st.binary(max_size=100) | st.integers(0, len(body) - 1).map(lambda end: bytes(body[:end])))
    with pytest.raises(NotAuthenticated):
        check_peer(csp, shown, PARTY, now)


def test_an_operators_certificate_is_no_peers(csp, now):
    with pytest.raises(NotAuthenticated):
        check_peer(csp, csp.ca, set(KitRole), now)


def test_two_names_in_one_certificate_are_none(csp, alice, members, forge, ca_key, names_of, now):
    names = [*names_of(alice.certificate), x509.UniformResourceIdentifier(csp.identity.uri)]
    operator = members.operator
    forged = forge(
        x509.SubjectAlternativeName(names), alice.certificate.public_key(), operator.ca.subject, ca_key(operator)
    )
    with pytest.raises(NotAuthenticated):
        check_peer(csp, forged, set(KitRole), now)
