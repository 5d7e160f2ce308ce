"""Who must have signed a certificate for ``fedsvd verify`` to say that its signatures hold.

In 0.2.0 one pinned party signed in all places, and the command said "all signatures hold, and every key is pinned".
Certificates here are signed by the test, with keys of its own, as the specification says (step 9).
"""

import hashlib
import json

import pytest
from typer.testing import CliRunner

from fedsvd.cli.main import cli
from fedsvd.errors import NotAuthenticated, NotSealed
from fedsvd.identity.names import key_fingerprint
from fedsvd.randomness.seed import Seed
from fedsvd.results.signed_certificate import canonical, verify_certificate
from fedsvd.sealing.sign import SigningKey, sign

KEYS = {name: SigningKey(Seed(bytes([place]) * 32)) for place, name in enumerate(("a", "b", "c", "csp"))}
PINS = {f"party/{name}": key_fingerprint(KEYS[name].public) for name in "abc"}
PINS["csp/csp"] = key_fingerprint(KEYS["csp"].public)


def certificate(path, users=("a", "b", "c"), csp="csp"):
    """A certificate that these members signed, each in its place."""
    body = {
        "format": "fedsvd-certificate/3",
        "protocol": 3,
        "session": "5" * 32,
        "plan": "7" * 64,
        "task": "svd",
        "scheme": "sum",
        "mode": "B",
        "identities": [KEYS[name].public.hex() for name in users],
        "csp_identity": "" if csp is None else KEYS[csp].public.hex(),
        "commitments": ["00" * 32] * len(users),
        "release": "11" * 32,
        "sums": ["gram"],
        "bits": 0,
        "order": "",
        "files": ["00" * 32] * len(users),
        "shared_files": ["00" * 32] * len(users),
    }
    signed = canonical(body)
    signatures = {f"user-{i}": sign(KEYS[name], "certificate", signed).hex() for i, name in enumerate(users, 1)}
    if csp is not None:
        signatures["csp"] = sign(KEYS[csp], "certificate", hashlib.sha256(signed).digest()).hex()
    record = {"format": body["format"], "body": body, "signatures": signatures, "local": {}}
    path.write_text(json.dumps(record))
    return path


@pytest.fixture
def file(tmp_path):
    return tmp_path / "certificate.json"


def test_one_that_every_party_and_the_csp_signed_holds(file):
    signed = verify_certificate(certificate(file), PINS)
    assert signed.names == {"user-1": "party/a", "user-2": "party/b", "user-3": "party/c", "csp": "csp/csp"}


@pytest.mark.parametrize(("users", "csp"), [("aaa", "a"), ("aaa", "csp"), ("aba", "csp"), ("abc", "a"), ("abb", "csp")])
def test_one_key_in_several_places_is_refused_pinned_or_not(file, users, csp):
    path = certificate(file, tuple(users), csp)
    for pins in (None, PINS):
        with pytest.raises(NotSealed, match="one key in several places"):
            verify_certificate(path, pins)
    said = CliRunner().invoke(cli, ["verify", str(path)])
    assert said.exit_code == 1
    assert "hold" not in said.stdout


def test_one_that_no_csp_signed_is_refused(file):
    with pytest.raises(NotSealed, match="none has signed it"):
        verify_certificate(certificate(file, csp=None))


def test_a_pinned_party_is_no_csp_and_a_pinned_csp_no_party(file):
    with pytest.raises(NotAuthenticated, match="as csp by the key of party/c, which is not a csp"):
        verify_certificate(certificate(file, ("a", "b"), "c"), PINS)
    with pytest.raises(NotAuthenticated, match="as user-2 by the key of csp/csp, which is not a party"):
        verify_certificate(certificate(file, ("a", "csp"), "b"), PINS)
