"""``fedsvd federation``: nothing is signed but what the operator means, and what is revoked is on the list."""

import pytest
from cryptography import x509


@pytest.fixture
def operator(fedsvd, tmp_path, monkeypatch):
    """A founded federation; what was said when it was."""
    monkeypatch.chdir(tmp_path)
    said = fedsvd("federation", "init", "--dir", "operator", "--name", "three hospitals", "--format", "json")
    assert said.code == 0
    return said.json


@pytest.fixture
def request_of(fedsvd, operator):
    """Asks to be let in; what was said then."""

    def ask(role, name, *more):
        words = ("--federation", operator["federation"], "--role", role, "--name", name, *more)
        return fedsvd("join", "request", "--kit", name, *words, "--format", "json").json

    return ask


def approve(fedsvd, name, fingerprint, *more, role="party", format="json"):
    words = ("--dir", "operator", "--role", role, "--name", name, "--fingerprint", fingerprint, "--format", format)
    return fedsvd("federation", "approve", f"{name}/request.pem", *words, *more)


def test_a_federation_has_an_id_and_a_fingerprint_to_read_out(fedsvd, operator, tmp_path):
    assert len(operator["federation"]) == 32
    assert len(operator["fingerprint"].split()) == 16
    assert (tmp_path / "operator" / "ca-key.pem").stat().st_mode & 0o777 == 0o600
    said = fedsvd("federation", "init", "--dir", "second", "--name", "another")
    assert "read it out to them" in said.out


def test_a_folder_with_something_in_it_is_left_alone(fedsvd, operator, tmp_path):
    before = (tmp_path / "operator" / "ca.pem").read_bytes()
    said = fedsvd("federation", "init", "--dir", "operator", "--name", "again")
    assert (said.code, "FSVD-350" in said.err) == (1, True)
    assert (tmp_path / "operator" / "ca.pem").read_bytes() == before


def test_a_certificate_is_for_whom_the_operator_means(fedsvd, request_of, tmp_path):
    asked = request_of("party", "hospital-a")
    said = approve(fedsvd, "hospital-a", asked["fingerprint"])
    assert said.json["certificate"] == "party-hospital-a.pem"
    certificate = x509.load_pem_x509_certificate((tmp_path / "party-hospital-a.pem").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert any(uri.endswith("/party/hospital-a") for uri in names.get_values_for_type(x509.UniformResourceIdentifier))


def test_nothing_is_signed_for_another_fingerprint_role_or_name(fedsvd, request_of, tmp_path):
    asked = request_of("party", "hospital-a")
    for said in (
        approve(fedsvd, "hospital-a", "00" * 32),
        approve(fedsvd, "hospital-a", asked["key_fingerprint"]),
        approve(fedsvd, "hospital-a", asked["fingerprint"], role="csp"),
    ):
        assert (said.code, said.json["error"]["code"]) == (1, "FSVD-503")
    assert list(tmp_path.glob("*.pem")) == []


def test_a_file_in_the_way_is_found_before_anything_is_signed(fedsvd, request_of, tmp_path):
    asked = request_of("party", "hospital-a")
    (tmp_path / "party-hospital-a.pem").write_text("mine")
    assert approve(fedsvd, "hospital-a", asked["fingerprint"]).json["error"]["code"] == "FSVD-350"
    assert (tmp_path / "party-hospital-a.pem").read_text() == "mine"
    assert approve(fedsvd, "hospital-a", asked["fingerprint"], "--out", "other.pem").code == 0  # nothing was used up


def test_who_is_revoked_is_on_the_list(fedsvd, request_of, tmp_path):
    approve(fedsvd, "hospital-a", request_of("party", "hospital-a")["fingerprint"])
    certificate = x509.load_pem_x509_certificate((tmp_path / "party-hospital-a.pem").read_bytes())
    words = ("--dir", "operator", "--format", "json")
    assert fedsvd("federation", "revocations", *words).json["revoked"] == 0
    said = fedsvd("federation", "revoke", "--role", "party", "--name", "hospital-a", *words)
    assert said.json["revoked"] == 1
    revoked = x509.load_pem_x509_crl((tmp_path / said.json["revocations"]).read_bytes())
    assert revoked.get_revoked_certificate_by_serial_number(certificate.serial_number) is not None
    text = fedsvd("federation", "revocations", "--dir", "operator").out
    assert "(1 revoked)" in text
    assert "fedsvd join revocations" in text


def test_nobody_of_that_name(fedsvd, operator):
    said = fedsvd("federation", "revoke", "--dir", "operator", "--role", "party", "--name", "nobody")
    assert (said.code, "FSVD-100" in said.err) == (1, True)


def test_a_role_that_is_none_is_misuse(fedsvd, operator):
    assert fedsvd("federation", "revoke", "--dir", "operator", "--role", "king", "--name", "a").code == 2
