"""A kit takes the answer to its own request, from the operator it was told of, and nothing else."""

import copy
import os
import pickle
import ssl
import stat
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fedsvd.errors import ConfigError, NotAuthenticated, StorageError
from fedsvd.identity.authority import init_federation
from fedsvd.identity.certificates import federation_of
from fedsvd.identity.kit import Kit, accept, accept_revocations
from fedsvd.identity.request import make_request, renew

DAY = timedelta(days=1)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_an_accepted_kit_is_read_whole(members):
    kit = members.join("csp", "csp")
    again = Kit.read(kit.directory)
    assert again.identity == kit.identity
    assert str(again.identity) == "csp/csp"
    assert again.identity.federation == members.operator.federation
    assert again.signing_key.public == again.identity.signing_public
    assert again.certificate_path.read_bytes() == again.certificate_pem
    assert again.ca_pem == members.operator.ca_pem
    assert again.tls_key_pem() == (kit.directory / "tls-key.pem").read_bytes()
    assert {stat.S_IMODE(path.stat().st_mode) for path in kit.directory.iterdir()} == {0o600}


def test_nothing_is_accepted_without_the_operators_fingerprint(members, others, now):
    request = members.ask("party", "hospital-a")
    folder, pem, operator = members.place / "party-hospital-a", members.answer(request), members.operator
    before = contents(folder)
    for told in (others.operator.fingerprint, request.fingerprint, request.key_fingerprint):
        with pytest.raises(NotAuthenticated, match="fingerprint"):
            accept(folder, pem, operator.ca_pem, told, now=now)
    for given in ((None, None), (operator.ca_pem, None), (None, operator.fingerprint)):
        with pytest.raises(ConfigError, match="are needed"):
            accept(folder, pem, *given, now=now)
    with pytest.raises(ConfigError):
        accept(folder, pem, operator.ca_pem, operator.fingerprint[:9], now=now)
    assert contents(folder) == before


def test_another_operator_of_the_same_name_is_found_out(members, others, now):
    request = members.ask("party", "hospital-a")
    folder, operator, rogue = members.place / "party-hospital-a", members.operator, others.operator
    genuine = members.answer(request)
    # The rogue signs for our federation's id under its own key: not even the fingerprint of the rogue helps.
    rogue.federation = operator.federation
    forged = others.answer(request)
    with pytest.raises(NotAuthenticated, match="not issued by"):
        accept(folder, forged, operator.ca_pem, operator.fingerprint, now=now)
    for pem in (forged, genuine):
        with pytest.raises(NotAuthenticated, match="another federation"):
            accept(folder, pem, rogue.ca_pem, rogue.fingerprint, now=now)
    assert accept(folder, genuine, operator.ca_pem, operator.fingerprint, now=now)


def test_a_certificate_is_the_answer_to_this_kits_request(members, now):
    ours, theirs = members.ask("party", "hospital-a"), members.ask("party", "hospital-b")
    folder = members.place / "party-hospital-a"
    members.answer(ours)
    with pytest.raises(NotAuthenticated, match="not the answer"):
        accept(folder, members.answer(theirs), members.operator.ca_pem, members.operator.fingerprint, now=now)
    assert not (folder / "certificate.pem").exists()


def test_a_certificate_of_another_role_id_or_key_is_refused(members, now, forge, ca_key, names_of):
    kit, other = members.join("party", "hospital-a"), members.join("researcher", "anna")
    key, operator = ca_key(members.operator), members.operator
    mine, another = kit.certificate.public_key(), ec.generate_private_key(ec.SECP256R1()).public_key()
    for names, public, text in (
        (names_of(other.certificate), mine, "not a certificate"),  # another's name, our key
        (names_of(kit.certificate), another, "not a certificate"),  # our name, another key
        (names_of(other.certificate), other.certificate.public_key(), "not the answer"),
        (None, mine, "not a certificate"),
    ):
        pem = forge(names, public, operator.ca.subject, key)
        with pytest.raises(NotAuthenticated, match=text):
            accept(kit.directory, pem, operator.ca_pem, operator.fingerprint, now=now)


def test_an_operator_is_not_a_role_and_a_role_not_an_operator(members, now):
    members.answer(members.ask("party", "hospital-a"))
    folder, operator = members.place / "party-hospital-a", members.operator
    with pytest.raises(NotAuthenticated):
        accept(folder, operator.ca_pem, operator.ca_pem, operator.fingerprint, now=now)
    csp = members.join("csp", "csp")
    with pytest.raises(NotAuthenticated, match="not the certificate of a federation's operator"):
        accept(folder, csp.certificate_pem, csp.certificate_pem, operator.fingerprint, now=now)


@pytest.mark.parametrize(
    ("limits", "uris", "is_operator"),
    [
        (x509.BasicConstraints(ca=True, path_length=0), 1, True),
        (x509.BasicConstraints(ca=True, path_length=None), 1, False),  # could let others sign
        (x509.BasicConstraints(ca=True, path_length=1), 1, False),
        (x509.BasicConstraints(ca=False, path_length=None), 1, False),
        (None, 1, False),
        (x509.BasicConstraints(ca=True, path_length=0), 0, False),  # of no federation
        (x509.BasicConstraints(ca=True, path_length=0), 2, False),  # of two
    ],
)
def test_an_operators_certificate_signs_for_one_federation_and_lets_nobody_else_sign(limits, uris, is_operator, now):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Operator")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now - DAY).not_valid_after(now + DAY)
    names = [x509.UniformResourceIdentifier(f"fedsvd://{number:032x}") for number in range(uris)]
    builder = builder.add_extension(x509.SubjectAlternativeName(names or [x509.DNSName("a.org")]), critical=False)
    if limits is not None:
        builder = builder.add_extension(limits, critical=True)
    operator = builder.sign(key, hashes.SHA256())
    if is_operator:
        assert federation_of(operator) == "0" * 32
    else:
        with pytest.raises(NotAuthenticated, match="not the certificate of a federation's operator"):
            federation_of(operator)


def test_a_certificate_out_of_its_period_is_refused_and_the_clock_is_given(members, now):
    request = members.ask("party", "hospital-a")
    folder, operator, pem = members.place / "party-hospital-a", members.operator, members.answer(request, days=30)
    for when, text in ((now - DAY, "compare the clocks"), (now + 31 * DAY, "has expired")):
        with pytest.raises(NotAuthenticated, match=text):
            accept(folder, pem, operator.ca_pem, operator.fingerprint, now=when)
    assert accept(folder, pem, operator.ca_pem, operator.fingerprint, now=now + 29 * DAY)


@pytest.mark.parametrize("pem", [b"", b"text", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_what_is_no_certificate_is_refused(pem, members, now):
    members.ask("party", "hospital-a")
    folder, operator = members.place / "party-hospital-a", members.operator
    with pytest.raises(NotAuthenticated):
        accept(folder, pem, operator.ca_pem, operator.fingerprint, now=now)
    with pytest.raises(NotAuthenticated):
        accept(folder, pem, pem, operator.fingerprint, now=now)


def test_a_csps_kit_is_refused_once_the_operators_key_lies_beside_it(members, now):
    csp, party = members.join("csp", "csp"), members.join("party", "hospital-a")
    stray = members.place / "ca-key.pem"
    stray.write_bytes((members.operator.directory / "ca-key.pem").read_bytes())
    assert Kit.read(party.directory)
    with pytest.raises(ConfigError, match="must not be the CSP"):
        Kit.read(csp.directory)
    with pytest.raises(ConfigError, match="must not be the CSP"):
        accept(csp.directory, csp.certificate_pem, now=now)


def test_a_renewal_needs_no_fingerprint_and_keeps_operator_and_pins(members, others, now):
    kit = members.join("party", "hospital-a")
    (kit.directory / "pins.toml").write_text(f'"party/hospital-b" = "{"0" * 64}"\n')
    pem = members.answer(renew(kit.directory), renew=True, now=now + 300 * DAY)
    renewed = accept(kit.directory, pem, now=now + 300 * DAY)
    assert renewed.identity == kit.identity
    assert renewed.pins() == kit.pins()
    assert renewed.tls_key_pem() != kit.certificate_pem
    assert not (kit.directory / "next-tls-key.pem").exists()
    assert renewed.certificate.public_key() != kit.certificate.public_key()
    with pytest.raises(NotAuthenticated, match="another operator"):
        accept(kit.directory, pem, others.operator.ca_pem, others.operator.fingerprint, now=now)


def test_a_renewal_cut_off_anywhere_leaves_a_kit_that_works(members, now, monkeypatch):
    kit = members.join("party", "hospital-a")
    pem = members.answer(renew(kit.directory), renew=True)
    assert Kit.read(kit.directory).certificate == kit.certificate
    replace, steps = os.replace, []

    class Killed(BaseException):
        pass

    for survived in range(3):
        done = 0

        def until_killed(source, target):
            nonlocal done
            if done == survived:  # noqa: B023
                raise Killed
            done += 1
            replace(source, target)

        with monkeypatch.context() as patched:
            patched.setattr(os, "replace", until_killed)
            patched.setattr(Path, "replace", lambda self, target: until_killed(self, target))
            with pytest.raises(Killed):
                accept(kit.directory, pem, now=now)
        now_read = Kit.read(kit.directory)
        assert now_read.identity == kit.identity
        steps.append(now_read.key_path.name)
        _expect_pair(now_read)
    assert steps == ["tls-key.pem", "tls-key.pem", "next-tls-key.pem"]
    finished = accept(kit.directory, pem, now=now)
    assert finished.key_path.name == "tls-key.pem"
    _expect_pair(finished)


def _expect_pair(kit):
    """The kit's key and certificate belong together, says the TLS library."""
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(kit.certificate_path, kit.key_path)


def test_a_kit_without_a_certificate_says_what_to_do(members, tmp_path):
    make_request(tmp_path / "kit", members.operator.federation, "party", "hospital-a")
    for folder in (tmp_path / "kit", tmp_path / "nowhere"):
        with pytest.raises(StorageError, match="fedsvd join"):
            Kit.read(folder)


@pytest.mark.parametrize("name", ["tls-key.pem", "signing-key", "certificate.pem", "ca.pem"])
def test_a_kit_whose_parts_do_not_belong_together_is_refused(name, members, others):
    kit = members.join("party", "hospital-a")
    stranger = others.join("party", "hospital-a")
    good = (kit.directory / name).read_bytes()
    (kit.directory / name).write_bytes((stranger.directory / name).read_bytes())
    with pytest.raises((StorageError, NotAuthenticated)):
        Kit.read(kit.directory)
    (kit.directory / name).write_bytes(good)
    assert Kit.read(kit.directory)
    (kit.directory / name).unlink()
    with pytest.raises(StorageError):
        Kit.read(kit.directory)


@pytest.mark.parametrize("name", ["tls-key.pem", "signing-key"])
def test_a_kit_whose_key_others_can_read_is_refused(name, members):
    kit = members.join("party", "hospital-a")
    (kit.directory / name).chmod(0o640)
    with pytest.raises(StorageError, match="chmod 600"):
        Kit.read(kit.directory)


def test_a_kit_shows_and_copies_no_key(members):
    kit = members.join("party", "hospital-a")
    seed = (kit.directory / "signing-key").read_bytes()
    body = b"".join(kit.tls_key_pem().splitlines()[1:-1])
    shown = f"{kit!r} {kit} {[kit]!r} {vars(kit)!r}"
    assert repr(kit) == "Kit(party/hospital-a)"
    assert seed.hex() not in shown
    assert repr(seed)[2:-1] not in shown
    assert body.decode()[:40] not in shown
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            leak(kit)


def test_owners_are_warned_before_anything_expires(members, now):
    kit = members.join("party", "hospital-a", days=100)
    accept_revocations(kit.directory, members.operator.revocation_list(now=now))
    assert kit.warnings(now) == []
    assert kit.warnings(now + 69 * DAY) == []
    (soon,) = kit.warnings(now + 80 * DAY)
    assert "this kit's certificate expires in 20 days" in soon
    late = kit.warnings(now + 101 * DAY)
    assert ["this kit's certificate has expired" in late[0], "revocation list is old" in late[1]] == [True, True]
    (_, operators, _) = kit.warnings(now + 7295 * DAY)
    assert "operator's certificate expires in 5 days" in operators


def test_a_short_lived_federation_is_warned_of_too(tmp_path, members, now):
    members.operator = init_federation(tmp_path / "short", "Short", now=now, days=20)
    assert len(members.join("party", "hospital-a").warnings(now)) == 2


@pytest.mark.parametrize(
    ("name", "what", "fix"),
    [
        ("certificate.pem", "there is no certificate in", "fedsvd join accept --certificate"),
        ("ca.pem", "the operator's certificate, is missing", "--ca FILE --fingerprint DIGITS"),
        ("signing-key", "the private key that signs, is missing", "restore the kit from your backup"),
        ("tls-key.pem", "the private key of its certificate, is missing", "restore the kit from your backup"),
    ],
)
def test_a_kit_with_a_file_missing_names_the_file_and_where_it_comes_from(name, what, fix, members):
    kit = members.join("party", "hospital-a")
    (kit.directory / name).unlink()
    with pytest.raises(StorageError) as caught:
        Kit.read(kit.directory)
    assert what in caught.value.fault
    assert str(kit.directory) in caught.value.fault
    assert fix in caught.value.fix
    assert "space" not in str(caught.value)


def test_a_folder_that_is_no_kit_is_not_one_without_a_certificate(tmp_path):
    with pytest.raises(StorageError, match=r"there is no folder .*nowhere.*check --kit"):
        Kit.read(tmp_path / "nowhere")
    with pytest.raises(StorageError, match=r"nor a request for one.*check --kit"):
        Kit.read(tmp_path)
