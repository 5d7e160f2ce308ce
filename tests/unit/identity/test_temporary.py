"""A throw-away federation is a federation: every kit works, and every owner pins every other."""

import stat

import pytest

from fedsvd.errors import ConfigError, StorageError
from fedsvd.identity.kit import Kit, check_peer
from fedsvd.identity.names import KitRole
from fedsvd.identity.temporary import temporary_federation
from fedsvd.policy.policy_file import read_policy
from fedsvd.policy.rules import Policy


def test_every_role_gets_a_kit_and_knows_all_others(tmp_path, now):
    folders = temporary_federation(tmp_path / "f", ["a", "b", "c"], with_authority=True, researcher="anna", now=now)
    assert set(folders) == {"csp/csp", "party/a", "party/b", "party/c", "authority/ta", "researcher/anna"}
    kits = {name: Kit.read(folder) for name, folder in folders.items()}
    for name, kit in kits.items():
        assert str(kit.identity) == name
        for other in kits.values():
            assert check_peer(kit, other.certificate, {other.identity.role}, now) == other.identity
            kit.expect_pinned(str(other.identity), other.certificate)
            kit.expect_pinned(str(other.identity), other.signing_key.public)
    assert len({kit.identity.fingerprint for kit in kits.values()}) == len(kits)


def test_kits_hold_what_is_needed_and_nobody_else_can_read_them(tmp_path, now):
    folders = temporary_federation(tmp_path / "f", ["a", "b"], ["127.0.0.1:7443"], now=now)
    assert set(folders) == {"csp/csp", "party/a", "party/b"}
    for folder in folders.values():
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
        assert not (folder / "ca-key.pem").exists()
    assert read_policy(folders["party/a"] / "policy.toml") == Policy(enforce=True)
    assert not (folders["csp/csp"] / "policy.toml").exists()


def test_roles_are_called_as_the_job_calls_them(tmp_path, now):
    folders = temporary_federation(
        tmp_path / "f", ["a"], with_authority=True, csp="centre", authority="dealer", now=now
    )
    assert set(folders) == {"csp/centre", "party/a", "authority/dealer"}
    assert str(Kit.read(folders["csp/centre"]).identity) == "csp/centre"


def test_it_does_not_last(tmp_path, now):
    folders = temporary_federation(tmp_path / "f", ["a"], now=now)
    assert Kit.read(folders["party/a"]).warnings(now)


def test_two_of_one_name_are_refused(tmp_path, now):
    for number, ids in enumerate((["a", "a"], ["a", "A"], ["a", "csp"])):
        with pytest.raises((ConfigError, StorageError)):
            temporary_federation(tmp_path / str(number), ids, now=now)


def test_two_federations_share_no_key(tmp_path, now):
    one, two = (Kit.read(temporary_federation(tmp_path / n, ["a"], now=now)["party/a"]) for n in ("one", "two"))
    assert one.identity.signing_public != two.identity.signing_public
    assert one.identity.federation != two.identity.federation
    assert one.tls_key_pem() != two.tls_key_pem()
    assert KitRole.PARTY == one.identity.role == two.identity.role
