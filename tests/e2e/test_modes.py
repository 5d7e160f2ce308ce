"""Every folder that a study makes is its owner's alone, and so is every file in it, whatever the umask."""

import os
import stat
from pathlib import Path

import numpy as np
import pytest
from tests.e2e.commands import command
from tests.e2e.federations import federation_of, split_table
from tests.e2e.outcomes import settled

from fedsvd.storage.private import make_folders


@pytest.fixture(autouse=True)
def no_umask():
    before = os.umask(0)
    yield
    os.umask(before)


def _open_to_others(root: Path, ours=lambda path: True) -> list[str]:
    """What below a folder others than its owner could open."""
    found = []
    for path in root.rglob("*"):
        mode = stat.S_IMODE(path.lstat().st_mode)
        if ours(path) and not path.is_symlink() and not path.is_socket() and mode & 0o077:
            found.append(f"{path.relative_to(root)} {mode:o}")
    return found


def test_every_folder_that_is_missing_above_a_private_one_is_private_too(tmp_path):
    make_folders(tmp_path / "a" / "b" / "c")
    assert _open_to_others(tmp_path) == []


def test_what_a_local_run_leaves_is_its_owners_alone(tmp_path):
    for name in ("a", "b"):
        np.save(tmp_path / f"{name}.npy", np.random.default_rng(0).normal(size=(40, 3)))
    parties = [f"--party={name}={tmp_path / f'{name}.npy'}" for name in ("a", "b")]
    out = tmp_path / "made" / "below" / "pca"
    ended = command("pca", *parties, "--components", "2", "--out", out)
    assert ended.returncode == 0, ended.stderr
    assert _open_to_others(tmp_path, lambda path: path.suffix != ".npy" or "made" in path.parts) == []


@pytest.mark.slow
def test_what_a_federation_leaves_is_its_owners_alone(tmp_path):
    _, tables = split_table(200, 5, ("a", "b"))
    with federation_of(tmp_path, ("a", "b"), tables) as federation:
        federation.start("csp/csp", "party/a", "party/b", how="processes")
        with federation.client() as client:
            id = client.submit({"job": {"name": "x", "task": "svd"}, "party": [{"name": "a"}, {"name": "b"}]}).id
            assert settled(client, id, {"done", "broken"}).state == "done"
        made = [path for kit in federation.kits.values() for path in (kit / "state", kit / "results") if path.exists()]
        assert made
        assert [found for path in made for found in _open_to_others(path)] == []
        assert [str(path) for path in made if stat.S_IMODE(path.stat().st_mode) & 0o077] == []
