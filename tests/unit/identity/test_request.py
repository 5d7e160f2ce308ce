"""Private keys stay where they were made; a request proves that its sender holds both."""

import base64
import stat

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from fedsvd.errors import ConfigError, NotAuthenticated, StorageError
from fedsvd.identity.claims import alternative_names, make_claim
from fedsvd.identity.names import KitRole, Name, ungrouped
from fedsvd.identity.request import make_request, read_request, renew
from fedsvd.randomness.seed import Seed
from fedsvd.sealing.sign import SigningKey

FEDERATION = "5e" * 16
OWNER = SigningKey(Seed(bytes([1]) * 32))
TLS = ec.derive_private_key(12345, ec.SECP256R1())
NAME = Name(FEDERATION, KitRole.PARTY, "hospital-a")


def signed(names, key=TLS):
    """A request with these names, under this TLS key."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    if names is not None:
        builder = builder.add_extension(names, critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


def entries(claim):
    return list(alternative_names(claim))


def test_both_private_keys_are_made_on_site_for_their_owner_alone(tmp_path):
    kit = tmp_path / "kit"
    request = make_request(kit, FEDERATION, "party", "hospital-a")
    assert stat.S_IMODE(kit.stat().st_mode) == 0o700
    assert {path.name for path in kit.iterdir()} == {"tls-key.pem", "signing-key", "request.pem", "policy.toml"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in kit.iterdir()} == {0o600}
    tls = load_pem_private_key((kit / "tls-key.pem").read_bytes(), None)
    signing = ed25519.Ed25519PrivateKey.from_private_bytes((kit / "signing-key").read_bytes())
    assert isinstance(tls.curve, ec.SECP256R1)
    assert request.claim.identity.signing_public == signing.public_key().public_bytes_raw()
    assert request.claim.tls_public == tls.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    # What goes out holds neither.
    out = request.pem + x509.load_pem_x509_csr(request.pem).public_bytes(Encoding.DER) + repr(request).encode()
    for secret in ((kit / "signing-key").read_bytes(), tls.private_numbers().private_value.to_bytes(32, "big")):
        assert secret not in out
        assert secret.hex().encode() not in out
    assert b"PRIVATE" not in request.pem


def test_no_two_kits_share_a_key(tmp_path):
    one, two = (make_request(tmp_path / name, FEDERATION, "party", "hospital-a") for name in ("one", "two"))
    assert one.claim.tls_public != two.claim.tls_public
    assert one.claim.identity.signing_public != two.claim.identity.signing_public
    assert one.fingerprint != two.fingerprint


def test_a_request_is_read_as_it_was_made(tmp_path):
    made = make_request(tmp_path / "kit", FEDERATION, "csp", "csp", ["CSP.example.org:7443", "[2001:DB8::7]:1"])
    read = read_request(made.pem)
    assert read == made
    assert read.claim.addresses == ("csp.example.org", "2001:db8::7")
    assert str(read.claim.identity) == "csp/csp"
    assert ungrouped(read.fingerprint) == read.claim.fingerprint
    assert ungrouped(read.key_fingerprint) == read.claim.identity.fingerprint
    assert read.fingerprint != read.key_fingerprint


def test_a_kit_that_is_there_is_never_touched(tmp_path):
    make_request(tmp_path, FEDERATION, "party", "hospital-a")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for lost in (None, "request.pem", "tls-key.pem"):
        if lost:
            (tmp_path / lost).unlink()
            del before[lost]
        with pytest.raises(StorageError, match="holds a kit already"):
            make_request(tmp_path, FEDERATION, "party", "hospital-a")
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_csp_does_not_live_in_the_operators_folder(members):
    for place in (members.operator.directory / "csp", members.operator.directory):
        with pytest.raises(ConfigError, match="must not be the CSP"):
            make_request(place, members.operator.federation, "csp", "csp", ["localhost"])
    assert not (members.operator.directory / "csp").exists()


@pytest.mark.parametrize(
    ("role", "addresses"),
    [("csp", ()), ("party", ("localhost",)), ("authority", ("127.0.0.1",)), ("researcher", ("a.b",))],
)
def test_the_csp_alone_listens_and_says_where(role, addresses, tmp_path):
    with pytest.raises(ConfigError, match="addresses"):
        make_request(tmp_path / "kit", FEDERATION, role, "someone", addresses)
    assert not (tmp_path / "kit").exists()


@pytest.mark.parametrize(
    "address",
    ["", "a b", "*.example.org", "-a.org", "a..b", "https://a.org", "a/b", "ü.org", "a" * 64, "a:b", "1:2:3", "[::1"],
)
def test_an_address_is_a_host_or_a_number(address, tmp_path):
    with pytest.raises(ConfigError, match="not a host"):
        make_request(tmp_path / "kit", FEDERATION, "csp", "csp", [address])


@pytest.mark.parametrize(
    "wrong", [("party", "..", FEDERATION), ("user", "a", FEDERATION), ("party", "a", "f"), ("party", "a", "")]
)
def test_names_are_checked_before_a_key_is_made(wrong, tmp_path):
    role, party_id, federation = wrong
    with pytest.raises(ConfigError):
        make_request(tmp_path / "kit", federation, role, party_id)
    assert not (tmp_path / "kit").exists()


def test_a_hand_made_request_of_the_right_form_is_read():
    claim = make_claim(NAME, TLS.public_key(), OWNER, ())
    assert read_request(signed(alternative_names(claim))).claim == claim


def test_anothers_identity_cannot_be_claimed():
    thief = ec.derive_private_key(666, ec.SECP256R1())
    names = alternative_names(make_claim(NAME, TLS.public_key(), OWNER, ()))
    # The owner's names, copied from its public request, beside the thief's TLS key.
    with pytest.raises(NotAuthenticated):
        read_request(signed(names, thief))


@pytest.mark.parametrize("part", range(3))
def test_a_claim_with_a_part_exchanged_missing_or_doubled_is_refused(part):
    ours = entries(make_claim(NAME, TLS.public_key(), OWNER, ()))
    other = make_claim(
        Name(FEDERATION, KitRole.PARTY, "hospital-b"), TLS.public_key(), SigningKey(Seed(bytes([2]) * 32)), ()
    )
    exchanged = [*ours[:part], entries(other)[part], *ours[part + 1 :]]
    missing = [*ours[:part], *ours[part + 1 :]]
    for names in (exchanged, missing, [*ours, ours[part]], [*ours, entries(other)[part]], ours[::-1]):
        with pytest.raises(NotAuthenticated):
            read_request(signed(x509.SubjectAlternativeName(names)))


@pytest.mark.parametrize(
    "extra",
    [
        x509.DNSName("csp.example.org"),
        x509.RFC822Name("a@example.org"),
        x509.UniformResourceIdentifier("https://example.org"),
        x509.UniformResourceIdentifier(f"fedsvd://{FEDERATION}/csp/csp"),
    ],
)
def test_a_claim_says_no_more_than_the_owner_signed(extra):
    ours = entries(make_claim(NAME, TLS.public_key(), OWNER, ()))
    with pytest.raises(NotAuthenticated):
        read_request(signed(x509.SubjectAlternativeName([*ours, extra])))


def test_an_address_that_the_owner_did_not_sign_is_refused():
    csp = Name(FEDERATION, KitRole.CSP, "csp")
    ours = entries(make_claim(csp, TLS.public_key(), OWNER, ["localhost"]))
    assert read_request(signed(x509.SubjectAlternativeName(ours))).claim.addresses == ("localhost",)
    for names in ([*ours, x509.DNSName("evil.org")], [*ours[:-1], x509.DNSName("evil.org")], ours[:-1]):
        with pytest.raises(NotAuthenticated):
            read_request(signed(x509.SubjectAlternativeName(names)))


def test_keys_of_another_kind_are_refused():
    names = alternative_names(make_claim(NAME, TLS.public_key(), OWNER, ()))
    for key in (ec.generate_private_key(ec.SECP384R1()), rsa.generate_private_key(65537, 2048)):
        with pytest.raises(NotAuthenticated):
            read_request(signed(names, key))


def test_a_changed_request_is_refused_wherever_it_is_changed(tmp_path):
    request = make_request(tmp_path / "kit", FEDERATION, "party", "hospital-a")
    document = x509.load_pem_x509_csr(request.pem)
    body = document.public_bytes(Encoding.DER)
    start = body.index(document.tbs_certrequest_bytes)
    for place in range(start, start + len(document.tbs_certrequest_bytes), 3):
        changed = bytearray(body)
        changed[place] ^= 1
        text = base64.encodebytes(bytes(changed))
        with pytest.raises(NotAuthenticated):
            read_request(b"-----BEGIN CERTIFICATE REQUEST-----\n" + text + b"-----END CERTIFICATE REQUEST-----\n")


@pytest.mark.parametrize("body", [b"", b"hello", b"-----BEGIN CERTIFICATE REQUEST-----\n", b"\xff" * 100])
def test_what_is_no_request_is_refused(body):
    with pytest.raises(NotAuthenticated):
        read_request(body)
    with pytest.raises(NotAuthenticated):
        read_request(signed(None))


def test_a_renewal_keeps_the_identity_and_leaves_the_kit_in_use(members, now):
    kit = members.join("party", "hospital-a")
    before = {path.name: path.read_bytes() for path in kit.directory.iterdir()}
    old = read_request(before["request.pem"]).claim
    first = renew(kit.directory)
    assert first.claim.identity == old.identity == kit.identity
    assert first.claim.tls_public != old.tls_public
    after = {path.name: path.read_bytes() for path in kit.directory.iterdir()}
    assert {name for name in after if after[name] != before.get(name)} == {"request.pem", "next-tls-key.pem"}
    assert stat.S_IMODE((kit.directory / "next-tls-key.pem").stat().st_mode) == 0o600
    # Asked once more before the answer has come, it is for the same keys.
    assert renew(kit.directory).fingerprint == first.fingerprint


def test_a_renewal_may_keep_the_tls_key_and_move_the_csp(members):
    csp = members.join("csp", "csp")
    asked = read_request((csp.directory / "request.pem").read_bytes())
    kept = renew(csp.directory, new_tls_key=False)
    assert kept.claim == asked.claim
    moved = renew(csp.directory, new_tls_key=False, addresses=["new.example.org:1"])
    assert moved.claim.tls_public == asked.claim.tls_public
    assert moved.claim.addresses == ("new.example.org",)


def test_a_damaged_key_is_reported_without_a_byte_of_it(members):
    kit = members.join("party", "hospital-a")
    for name in ("tls-key.pem", "signing-key"):
        path = kit.directory / name
        good = path.read_bytes()
        path.write_bytes(good[:30] + b"the canary" + good[45:])
        with pytest.raises(StorageError) as refused:
            renew(kit.directory, new_tls_key=False)
        error: BaseException | None = refused.value
        while error is not None:
            assert "canary" not in f"{error!r} {error}"
            error = error.__cause__
        path.write_bytes(good)
