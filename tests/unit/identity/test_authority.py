"""The operator signs only what it was told of, one key to a name and one name to a key, and takes back what it must."""

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding

from fedsvd.errors import ConfigError, FedSVDError, NotAuthenticated, StorageError
from fedsvd.identity.authority import Authority, init_federation
from fedsvd.identity.certificates import expires_in
from fedsvd.identity.claims import alternative_names, make_claim
from fedsvd.identity.kit import Kit, accept, check_peer
from fedsvd.identity.names import KitRole, Name
from fedsvd.identity.request import Request, read_signing_key, read_tls_key, renew

DAY = timedelta(days=1)


def request_of(name, tls, key, addresses=()):
    """A request made of given keys, as software other than ours could."""
    claim = make_claim(name, tls.public_key(), key, addresses)
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    builder = builder.add_extension(alternative_names(claim), critical=False)
    return Request(builder.sign(tls, hashes.SHA256()).public_bytes(Encoding.PEM), claim)


def test_a_federation_has_an_id_for_ever_and_a_key_of_its_operator_alone(tmp_path, now):
    operator = init_federation(tmp_path / "op", "Three hospitals", now=now)
    assert len(bytes.fromhex(operator.federation)) == 16
    assert Authority(tmp_path / "op").federation == operator.federation
    assert init_federation(tmp_path / "other", "Three hospitals", now=now).federation != operator.federation
    assert stat.S_IMODE((tmp_path / "op").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "op").iterdir()} == {0o600}


def test_the_operators_certificate_signs_roles_and_no_further_operators(members, now):
    ca = members.operator.ca
    limits = ca.extensions.get_extension_for_class(x509.BasicConstraints)
    usage = ca.extensions.get_extension_for_class(x509.KeyUsage)
    assert (limits.critical, limits.value.ca, limits.value.path_length) == (True, True, 0)
    assert (usage.critical, usage.value.key_cert_sign, usage.value.crl_sign) == (True, True, True)
    assert not usage.value.digital_signature
    ca.verify_directly_issued_by(ca)
    assert expires_in(ca, now) > 7000 * DAY


def test_a_folder_with_anything_in_it_is_left_as_it_is(members, now):
    before = (members.operator.directory / "ca-key.pem").read_bytes()
    with pytest.raises(StorageError, match="not empty"):
        init_federation(members.operator.directory, "Again", now=now)
    assert (members.operator.directory / "ca-key.pem").read_bytes() == before


@pytest.mark.parametrize("name", ["", "a" * 65, "two\nlines", "\x00"])
def test_a_federation_has_a_name_people_can_read(name, tmp_path, now):
    with pytest.raises(ConfigError):
        init_federation(tmp_path / "op", name, now=now)
    assert not (tmp_path / "op").exists()


@pytest.mark.parametrize("role", list(KitRole))
def test_an_approved_certificate_says_what_was_asked_for(role, members, now):
    request = members.ask(role, "someone")
    certificate = x509.load_pem_x509_certificate(members.answer(request))
    assert check_peer_of(certificate, members, role, now) == request.claim.identity
    assert certificate.not_valid_after_utc == now + 397 * DAY
    assert certificate.not_valid_before_utc == now - timedelta(minutes=5)
    limits = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    uses = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert not limits.ca
    assert [use.dotted_string for use in uses] == ["1.3.6.1.5.5.7.3.1" if role is KitRole.CSP else "1.3.6.1.5.5.7.3.2"]


def check_peer_of(certificate, members, role, now):
    judge = members.join("researcher", "judge")
    return check_peer(judge, certificate, {role}, now)


def test_nothing_is_signed_without_the_requests_own_fingerprint(members):
    request, other = members.ask("party", "hospital-a"), members.ask("party", "hospital-b")
    for told in (other.fingerprint, request.key_fingerprint, request.fingerprint[:-4] + "0000"):
        with pytest.raises(NotAuthenticated, match="fingerprint"):
            members.answer(request, fingerprint=told)
    for told in ("", request.fingerprint[:19], "yes"):
        with pytest.raises(ConfigError):
            members.answer(request, fingerprint=told)
    assert members.operator.register() == []


def test_the_operator_names_role_and_id_and_they_are_the_requests(members, others):
    request = members.ask("party", "hospital-a")
    for told in ({"role": "csp"}, {"role": "researcher"}, {"party_id": "hospital-b"}, {"party_id": "Hospital-a"}):
        with pytest.raises(NotAuthenticated, match="not of"):
            members.answer(request, **told)
    with pytest.raises(NotAuthenticated, match="another federation"):
        others.answer(request)
    assert members.operator.register() == others.operator.register() == []


def test_letting_one_more_party_in_changes_nobody_elses_certificate(members, now):
    kits = [members.join(*who) for who in (("csp", "csp"), ("party", "hospital-a"), ("authority", "ta"))]
    before = [{path.name: path.read_bytes() for path in kit.directory.iterdir()} for kit in kits]
    ca, federation = members.operator.ca_pem, members.operator.federation
    late = members.join("party", "hospital-z")
    assert [{path.name: path.read_bytes() for path in kit.directory.iterdir()} for kit in kits] == before
    again = Authority(members.operator.directory)
    assert (again.ca_pem, again.federation) == (ca, federation)
    for kit in kits:
        assert check_peer(late, Kit.read(kit.directory).certificate_pem, KitRole, now) == kit.identity
        assert check_peer(kit, late.certificate_pem, KitRole, now) == late.identity


def test_a_name_with_a_live_certificate_gets_none_for_another_key(members):
    members.join("party", "hospital-a")
    impostor = members.ask("party", "hospital-a", folder="impostor")
    for how in ({}, {"renew": True}):
        with pytest.raises(NotAuthenticated, match="another identity key"):
            members.answer(impostor, **how)
    assert len(members.operator.register()) == 1


def test_two_operators_at_one_time_do_not_let_two_keys_in(members):
    requests = [members.ask("party", "hospital-a", folder=f"folder-{number}") for number in range(6)]

    def approve(request):
        try:
            return members.answer(request)
        except NotAuthenticated:
            return None

    with ThreadPoolExecutor(6) as pool:
        issued = [pem for pem in pool.map(approve, requests) if pem]
    assert len(issued) == len(members.operator.register()) == 1


def test_the_same_keys_may_be_certified_again_and_a_new_tls_key_as_a_renewal_only(members, now):
    kit = members.join("party", "hospital-a")
    members.answer(renew(kit.directory, new_tls_key=False))
    next_one = renew(kit.directory)
    with pytest.raises(NotAuthenticated, match="as a renewal"):
        members.answer(next_one)
    renewed = accept(kit.directory, members.answer(next_one, now=now + 300 * DAY, renew=True), now=now + 300 * DAY)
    assert renewed.identity == kit.identity
    assert expires_in(renewed.certificate, now) == 697 * DAY


def test_an_expired_certificate_stands_in_nobodys_way(members, now):
    members.join("party", "hospital-a", days=10)
    other = members.ask("party", "hospital-a", folder="a new machine")
    with pytest.raises(NotAuthenticated):
        members.answer(other, now=now + 9 * DAY)
    assert members.answer(other, now=now + 11 * DAY)


def test_one_key_serves_one_name(members):
    kit = members.join("party", "hospital-a")
    tls, key = read_tls_key(kit.key_path), read_signing_key(kit.directory)
    stranger = members.join("party", "hospital-b")
    for role, name in ((KitRole.RESEARCHER, "someone"), (KitRole.CSP, "csp"), (KitRole.PARTY, "hospital-c")):
        addresses = ["localhost"] if role is KitRole.CSP else []
        for pair in (
            (tls, key),
            (tls, read_signing_key(stranger.directory)),
            (read_tls_key(stranger.key_path), key),
        ):
            with pytest.raises(NotAuthenticated, match="one key, one role"):
                members.answer(request_of(Name(members.operator.federation, role, name), *pair, addresses))


@pytest.mark.parametrize(
    ("role", "party_id"), [("researcher", "hospital-a"), ("csp", "hospital-a"), ("party", "HOSPITAL-A")]
)
def test_an_id_belongs_to_one_role_for_ever(role, party_id, members, now):
    members.join("party", "hospital-a")
    members.operator.revoke("party", "hospital-a", now=now)
    with pytest.raises(ConfigError, match="another holder"):
        members.answer(members.ask(role, party_id, folder="other"))


def test_a_revoked_key_is_never_certified_again_and_a_new_kit_may_take_the_name(members, now):
    kit = members.join("party", "hospital-a")
    members.operator.revoke("party", "hospital-a", now=now)
    for request in (renew(kit.directory, new_tls_key=False), renew(kit.directory)):
        with pytest.raises(NotAuthenticated, match="was revoked"):
            members.answer(request, renew=True)
    assert members.join("party", "hospital-a", folder="new kit").identity.fingerprint != kit.identity.fingerprint


def test_a_lost_tls_key_can_be_revoked_alone_once_it_is_renewed(members, now):
    kit, judge = members.join("party", "hospital-a"), members.join("csp", "csp")
    lost = read_tls_key(kit.key_path)
    renewed = accept(kit.directory, members.answer(renew(kit.directory), renew=True), now=now)
    revoked = x509.load_pem_x509_crl(members.operator.revoke("party", "hospital-a", now=now, keep_newest=True))
    assert [entry.serial_number for entry in revoked] == [kit.certificate.serial_number]
    assert check_peer(judge, renewed.certificate, {KitRole.PARTY}, now)
    # The lost key is never certified again; the identity may be renewed later.
    name = Name(members.operator.federation, KitRole.PARTY, "hospital-a")
    with pytest.raises(NotAuthenticated, match="was revoked"):
        members.answer(request_of(name, lost, kit.signing_key), renew=True)
    assert members.answer(renew(kit.directory), renew=True, now=now + 500 * DAY)


def test_a_revocation_list_is_signed_numbered_and_complete(members, now):
    kits = [members.join("party", f"hospital-{letter}") for letter in "abc"]
    lists = [
        x509.load_pem_x509_crl(pem)
        for pem in (
            (members.operator.directory / "revoked.pem").read_bytes(),
            members.operator.revoke("party", "hospital-b", now=now),
            members.operator.revoke("party", "hospital-c", now=now),
            members.operator.revocation_list(now=now - DAY),  # even if the clock went back
        )
    ]
    for revoked in lists:
        assert revoked.is_signature_valid(members.operator.ca.public_key())
    serials = [{entry.serial_number for entry in revoked} for revoked in lists]
    b, c = (kit.certificate.serial_number for kit in kits[1:])
    assert serials == [set(), {b}, {b, c}, {b, c}]
    numbers = [revoked.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number for revoked in lists]
    assert numbers == sorted(set(numbers))


def test_revoking_nobody_is_an_error(members, now):
    members.join("party", "hospital-a")
    for role, party_id in (("party", "hospital-b"), ("csp", "hospital-a"), ("party", "")):
        with pytest.raises(ConfigError, match="no certificate was issued"):
            members.operator.revoke(role, party_id, now=now)


def test_the_register_only_grows(members, now):
    path = members.operator.directory / "issued.jsonl"
    before = b""
    steps = [
        lambda: members.join("party", "hospital-a"),
        lambda: members.join("party", "hospital-b"),
        lambda: members.operator.revoke("party", "hospital-a", now=now),
        lambda: members.join("party", "hospital-a", folder="new kit"),
    ]
    for step in steps:
        step()
        content = path.read_bytes()
        assert content.startswith(before)
        assert content.count(b"\n") == before.count(b"\n") + 1
        before = content
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [json.loads(line)["event"] for line in before.splitlines()] == ["issued", "issued", "revoked", "issued"]
    names = [(one.name, one.revoked is not None) for one in members.operator.register()]
    assert names == [("party/hospital-a", True), ("party/hospital-b", False), ("party/hospital-a", False)]


def test_every_line_but_half_a_last_one_must_be_whole(members):
    members.join("party", "hospital-a")
    path = members.operator.directory / "issued.jsonl"
    good = path.read_bytes()
    path.write_bytes(good + good[:100])  # power failed while it was written: that certificate never left
    assert len(members.operator.register()) == 1
    members.join("party", "hospital-b")
    assert path.read_bytes().startswith(good)
    assert len(members.operator.register()) == 2
    late = members.ask("party", "hospital-c")
    for damage in (b"nonsense\n", b"{}\n", b'{"event": "issued"}\n', b'{"event": "revoked", "serial": "1"}\n', b"7\n"):
        path.write_bytes(damage + good)
        with pytest.raises(StorageError, match="line 1"):
            members.operator.register()
        with pytest.raises(StorageError):
            members.answer(late)


def test_a_certificate_does_not_outlive_its_operators(tmp_path, now, members):
    short = init_federation(tmp_path / "short", "Short", now=now, days=100)
    members.operator = short
    kit = members.join("party", "hospital-a")
    assert kit.certificate.not_valid_after_utc <= short.ca.not_valid_after_utc
    late = members.ask("party", "hospital-b")
    with pytest.raises(NotAuthenticated, match="operator's own certificate has expired"):
        members.answer(late, now=now + 101 * DAY)


@pytest.mark.parametrize("days", [0, -1])
def test_a_certificate_is_good_for_a_day_at_least(days, members):
    with pytest.raises(ConfigError):
        members.answer(members.ask("party", "hospital-a"), days=days)


def test_a_clock_without_a_time_zone_is_refused(members, tmp_path):
    naive = datetime(2031, 5, 6)
    request = members.ask("party", "hospital-a")
    for ask in (
        lambda: members.answer(request, now=naive),
        lambda: members.operator.revoke("party", "hospital-a", now=naive),
        lambda: init_federation(tmp_path / "new", "New", now=naive),
        lambda: expires_in(members.operator.ca, naive),
    ):
        with pytest.raises(ConfigError, match="time zone"):
            ask()


def test_an_operators_key_that_others_can_read_signs_nothing(members):
    (members.operator.directory / "ca-key.pem").chmod(0o644)
    with pytest.raises(StorageError, match="chmod 600"):
        members.answer(members.ask("party", "hospital-a"))
    assert members.operator.register() == []


def test_an_operator_shows_no_key(members, ca_key):
    secret = ca_key(members.operator).private_numbers().private_value
    shown = f"{members.operator!r} {vars(members.operator)!r}"
    assert str(secret) not in shown
    assert f"{secret:x}" not in shown
    (members.operator.directory / "ca-key.pem").write_bytes(b"-----BEGIN PRIVATE KEY-----\ncanary")
    with pytest.raises(FedSVDError) as refused:
        members.answer(members.ask("party", "hospital-a"))
    assert "canary" not in f"{refused.value!r}{refused.value}{refused.value.__cause__}"
