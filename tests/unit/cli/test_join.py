"""``fedsvd join``: keys stay in the kit, certificates are taken from the right operator alone, pins are kept to."""

import tomllib

import pytest


@pytest.fixture
def operator(fedsvd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return fedsvd("federation", "init", "--dir", "operator", "--name", "three hospitals", "--format", "json").json


@pytest.fixture
def joined(fedsvd, operator):
    """Makes a kit from request to acceptance; what was said at the end."""

    def join(role, name, *more, accept=()):
        ask = ("--federation", operator["federation"], "--role", role, "--name", name, *more, "--format", "json")
        asked = fedsvd("join", "request", "--kit", name, *ask).json
        signed(fedsvd, name, asked["fingerprint"], role)
        words = ("--ca", "operator/ca.pem", "--fingerprint", operator["fingerprint"], *accept, "--format", "json")
        said = fedsvd("join", "accept", "--kit", name, "--certificate", f"{role}-{name}.pem", *words)
        assert said.code == 0, said
        return said.json

    return join


def signed(fedsvd, name, fingerprint, role, *more):
    words = ("--dir", "operator", "--role", role, "--name", name, "--fingerprint", fingerprint, *more)
    assert fedsvd("federation", "approve", f"{name}/request.pem", *words).code == 0


def test_keys_are_for_their_owner_alone_and_a_kit_is_not_made_twice(fedsvd, operator, tmp_path):
    words = ("--kit", "a", "--federation", operator["federation"], "--role", "party", "--name", "a")
    said = fedsvd("join", "request", *words)
    assert said.code == 0
    assert "keys never leave" in said.out
    for key in ("tls-key.pem", "signing-key"):
        assert (tmp_path / "a" / key).stat().st_mode & 0o777 == 0o600
    again = fedsvd("join", "request", *words)
    assert (again.code, "holds a kit already" in again.err) == (1, True)


def test_a_kit_says_who_it_is(fedsvd, joined):
    said = joined("party", "a")
    assert (said["role"], said["name"], said["pins"], said["warnings"]) == ("party", "a", {}, [])
    text = fedsvd("join", "show", "--kit", "a").out
    assert said["key_fingerprint"] in text
    assert "other owners pin this" in text


def test_a_new_site_file_knows_the_csp_and_reads_as_what_it_is(joined, tmp_path):
    joined("party", "a", accept=("--csp", "csp.example.org:7443"))
    site = tomllib.loads((tmp_path / "a" / "site.toml").read_text())
    assert site == {"data": {}, "csp": {"address": "csp.example.org:7443"}}
    joined("csp", "csp", "--address", "127.0.0.1")
    assert tomllib.loads((tmp_path / "csp" / "site.toml").read_text()) == {"csp": {}}


def test_an_operator_with_another_fingerprint_is_not_believed(fedsvd, operator, tmp_path):
    words = ("--federation", operator["federation"], "--role", "party", "--name", "a", "--format", "json")
    signed(fedsvd, "a", fedsvd("join", "request", "--kit", "a", *words).json["fingerprint"], "party")
    words = ("--kit", "a", "--certificate", "party-a.pem", "--ca", "operator/ca.pem")
    for more in ((), ("--fingerprint", "00" * 32)):
        said = fedsvd("join", "accept", *words, *more)
        assert (said.code, "FSVD-" in said.err) == (1, True)
    assert not (tmp_path / "a" / "certificate.pem").exists()


def test_a_pin_is_changed_only_on_purpose(fedsvd, joined):
    joined("party", "a")
    other = joined("party", "b")
    said = fedsvd("join", "pin", "--kit", "a", "party/b", other["key_fingerprint"], "--format", "json")
    assert said.json["pins"] == {"party/b": other["key_fingerprint"]}
    refused = fedsvd("join", "pin", "--kit", "a", "party/b", "ab" * 32)
    assert (refused.code, "pinned to another key" in refused.err) == (1, True)
    assert fedsvd("join", "pin", "--kit", "a", "party/b", "ab" * 32, "--instead").code == 0
    assert fedsvd("join", "pin", "--kit", "a", "party/b", "abc").code == 1


def test_a_renewal_keeps_the_identity(fedsvd, joined, tmp_path):
    before = joined("party", "a")
    old = (tmp_path / "a" / "tls-key.pem").read_bytes()
    asked = fedsvd("join", "renew", "--kit", "a", "--format", "json").json
    assert asked["key_fingerprint"] == before["key_fingerprint"]
    signed(fedsvd, "a", asked["fingerprint"], "party", "--renew", "--out", "next.pem")
    said = fedsvd("join", "accept", "--kit", "a", "--certificate", "next.pem", "--format", "json")
    assert said.json["key_fingerprint"] == before["key_fingerprint"]
    assert (tmp_path / "a" / "tls-key.pem").read_bytes() != old


def test_one_more_party_changes_nobody_elses_kit(fedsvd, joined, tmp_path):
    joined("party", "a")
    before = {path.name: path.read_bytes() for path in (tmp_path / "a").iterdir() if path.is_file()}
    joined("party", "b")
    assert {path.name: path.read_bytes() for path in (tmp_path / "a").iterdir() if path.is_file()} == before
    assert fedsvd("join", "show", "--kit", "a").code == 0


def test_a_revocation_list_is_taken_in_and_never_an_older_one(fedsvd, joined, tmp_path):
    joined("party", "a")
    joined("party", "b")
    (tmp_path / "old.pem").write_bytes((tmp_path / "operator" / "revoked.pem").read_bytes())
    assert fedsvd("federation", "revoke", "--dir", "operator", "--role", "party", "--name", "b").code == 0
    said = fedsvd("join", "revocations", "--kit", "a", "operator/revoked.pem", "--format", "json")
    assert said.json["revoked"] == 1
    older = fedsvd("join", "revocations", "--kit", "a", "old.pem")
    assert (older.code, "older than the kit's" in older.err) == (1, True)


def test_a_csp_names_where_it_listens_and_nobody_else_does(fedsvd, operator):
    words = ("--federation", operator["federation"], "--format", "json")
    without = fedsvd("join", "request", "--kit", "csp", *words, "--role", "csp", "--name", "csp")
    assert without.json["error"]["code"] == "FSVD-100"
    party = fedsvd("join", "request", "--kit", "a", *words, "--role", "party", "--name", "a", "--address", "host")
    assert party.json["error"]["code"] == "FSVD-100"


def test_a_member_types_one_fingerprint_and_it_still_decides(fedsvd, operator, tmp_path):
    ask = ("--role", "party", "--name", "a", "--format", "json")
    for wrong in ("0" * 64, operator["fingerprint"][::-1]):
        refused = fedsvd("join", "request", "--kit", "a", "--ca", "operator/ca.pem", "--fingerprint", wrong, *ask)
        assert (refused.code, refused.json["error"]["code"]) == (1, "FSVD-503")
        assert not (tmp_path / "a").exists()
    for bare in (("--ca", "operator/ca.pem"), (), ("--ca", "operator/ca.pem", "--federation", operator["federation"])):
        assert fedsvd("join", "request", "--kit", "a", *bare, *ask).json["error"]["code"] == "FSVD-100"
    told = ("--ca", "operator/ca.pem", "--fingerprint", operator["fingerprint"])
    asked = fedsvd("join", "request", "--kit", "a", *told, *ask).json
    signed(fedsvd, "a", asked["fingerprint"], "party")
    said = fedsvd("join", "accept", "--kit", "a", "--certificate", "party-a.pem", "--format", "json")
    assert said.json["federation"] == operator["federation"]


def test_an_operator_whose_fingerprint_was_not_read_out_cannot_answer(fedsvd, operator, tmp_path):
    told = ("--ca", "operator/ca.pem", "--fingerprint", operator["fingerprint"])
    asked = fedsvd("join", "request", "--kit", "a", *told, "--role", "party", "--name", "a", "--format", "json").json
    signed(fedsvd, "a", asked["fingerprint"], "party")
    other = fedsvd("federation", "init", "--dir", "other", "--name", "three hospitals", "--format", "json").json
    swapped = ("--ca", "other/ca.pem", "--fingerprint", other["fingerprint"])
    said = fedsvd("join", "accept", "--kit", "a", "--certificate", "party-a.pem", *swapped, "--format", "json")
    assert said.json["error"]["code"] == "FSVD-503"
    assert not (tmp_path / "a" / "certificate.pem").exists()


def test_a_lost_certificate_of_the_operator_is_taken_in_again_as_the_error_says(fedsvd, operator, joined, tmp_path):
    joined("party", "a")
    (tmp_path / "a" / "ca.pem").unlink()
    fault = fedsvd("join", "show", "--kit", "a", "--format", "json").json["error"]
    assert (fault["code"], "a/ca.pem" in fault["fault"]) == ("FSVD-350", True)
    words = fault["fix"].partition("fedsvd ")[2].replace("FILE", "operator/ca.pem").split()
    words[words.index("DIGITS")] = operator["fingerprint"]
    assert fedsvd(*words).code == 0
    assert fedsvd("join", "show", "--kit", "a").code == 0
