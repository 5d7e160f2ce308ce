"""A killed pass resumes where it was, over the same data only, from a file that is private and never half written."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests import tolerances
from tests.unit.compress.sources import WatchedSource

from fedsvd.compress.checkpoint import Checkpoint, Progressed, panel_digest
from fedsvd.compress.reduce import compress
from fedsvd.data.arrays import ArraySource
from fedsvd.errors import DataChanged, StorageError
from fedsvd.linalg.device import Device
from fedsvd.linalg.streaming_factor import StreamingFactor

M, N, PANEL = 6, 1000, 50
X = np.random.default_rng(1).normal(size=(M, N)) * np.geomspace(1.0, 1e-6, M)[:, None] + 2.0
SHIFT = X[:, :PANEL].mean(axis=1)


class PowerCut(Exception):
    pass


def cut_at(column):
    def progress(done, _total):
        if done >= column:
            raise PowerCut

    return progress


def interrupted(path, *, at=550, every=100, shift=None, data=X, device=None):
    """What a pass leaves behind that was cut off after ``at`` columns."""
    with pytest.raises(PowerCut):
        compress(
            ArraySource(data),
            shift=shift,
            panel=PANEL,
            checkpoint=Checkpoint(path, every),
            progress=cut_at(at),
            device=device,
        )
    return path


def expect_same_factor(L, expected, scale=None):
    """Equal Gram matrices and singular values: a factor is unique up to signs and rounding."""
    bound = np.linalg.norm(expected, 2) if scale is None else scale
    np.testing.assert_allclose(L @ L.T, expected @ expected.T, rtol=0, atol=tolerances.gram(N) * bound**2)
    got, sigma = (np.linalg.svd(A, compute_uv=False) for A in (L, expected))
    np.testing.assert_allclose(got, sigma, rtol=0, atol=tolerances.FACTOR_BAR * bound)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "pass.checkpoint"


# Resuming.


@pytest.mark.parametrize("shift", [None, SHIFT], ids=["plain", "shifted"])
@pytest.mark.parametrize("at", [100, 550, 999])
def test_a_pass_cut_off_in_the_middle_ends_with_the_same_factor(at, shift, path):
    interrupted(path, at=at, shift=shift)
    resumed = compress(ArraySource(X), shift=shift, panel=PANEL, checkpoint=Checkpoint(path))
    whole = compress(ArraySource(X), shift=shift, panel=PANEL)
    expect_same_factor(resumed.L_i, whole.L_i, np.linalg.norm(X - (0.0 if shift is None else shift[:, None]), 2))
    assert resumed.count == N
    if shift is None:
        expect_same_factor(resumed.L_i, X)
    else:
        tolerances.assert_close(resumed.mean_i, X.mean(axis=1), tolerances.digits_lost(3))


def test_what_was_absorbed_is_not_read_again_but_for_the_two_panels_compared(path):
    interrupted(path, at=550, every=100)
    source = WatchedSource(X)
    compress(source, panel=PANEL, checkpoint=Checkpoint(path))
    times = source.touched()
    assert np.all(times[500:] == 1)
    assert np.all(times[50:450] == 0)
    assert source.reads[:3] == [(0, 50), (450, 500), (500, 550)]


def test_a_pass_may_go_on_with_panels_of_another_width(path):
    interrupted(path)
    resumed = compress(ArraySource(X), panel=333, checkpoint=Checkpoint(path))
    expect_same_factor(resumed.L_i, X)


def test_a_pass_may_be_cut_off_again_and_again(path):
    for at in (200, 400, 850):
        interrupted(path, at=at)
    expect_same_factor(compress(ArraySource(X), panel=PANEL, checkpoint=Checkpoint(path)).L_i, X)


def test_progress_goes_on_from_where_it_was(path):
    interrupted(path, at=550)
    told = []
    compress(
        ArraySource(X),
        panel=PANEL,
        checkpoint=Checkpoint(path),
        progress=lambda done, total: told.append((done, total)),
    )
    assert told == [(done, N) for done in range(550, N + 1, PANEL)]


def test_a_finished_pass_is_not_run_again(path):
    first = compress(ArraySource(X), panel=PANEL, checkpoint=Checkpoint(path))
    source = WatchedSource(X)
    again = compress(source, panel=PANEL, checkpoint=Checkpoint(path))
    np.testing.assert_array_equal(again.L_i, first.L_i)
    assert source.reads == [(0, 50), (950, 1000)]


def test_it_saves_every_so_many_columns_and_at_the_end(path, monkeypatch):
    saved = []
    save = Checkpoint.save
    monkeypatch.setattr(
        Checkpoint, "save", lambda self, state, *rest: (saved.append(state.done), save(self, state, *rest))
    )
    checkpoint = Checkpoint(path, every=120)
    compress(ArraySource(X), panel=PANEL, checkpoint=checkpoint)
    assert saved == [150, 300, 450, 600, 750, 900, 1000]
    saved.clear()
    checkpoint.remove()
    compress(ArraySource(X), panel=PANEL, checkpoint=checkpoint)
    assert saved == [150, 300, 450, 600, 750, 900, 1000], "a second pass with the same object starts counting again"


def test_a_pass_resumes_in_its_own_library(foreign, path):
    device = Device("test", foreign.array([0.0]))
    interrupted(path, shift=SHIFT, device=device)
    resumed = compress(ArraySource(X), shift=SHIFT, panel=PANEL, checkpoint=Checkpoint(path), device=device)
    whole = compress(ArraySource(X), shift=SHIFT, panel=PANEL)
    expect_same_factor(foreign.numpy(resumed.L_i), whole.L_i, np.linalg.norm(X - SHIFT[:, None], 2))


# A real kill.

PASS = """
import os, signal, sys
import numpy as np
from pathlib import Path
from fedsvd.compress import checkpoint
from fedsvd.compress.reduce import compress
from fedsvd.data.open import open_source

data, path, when = sys.argv[1:]
die = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
def progress(done, total):
    if done == 550:
        if when == "between panels":
            die()
        checkpoint.os.replace = die
compress(open_source(data), panel=50, checkpoint=checkpoint.Checkpoint(Path(path), every=100), progress=progress)
"""


@pytest.mark.parametrize("when, saved", [("between panels", 500), ("while saving", 500)])
def test_a_process_killed_between_panels_or_while_saving_leaves_a_checkpoint_that_resumes(when, saved, tmp_path, path):
    np.save(tmp_path / "X.npy", X)
    ended = subprocess.run(
        [sys.executable, "-c", PASS, str(tmp_path / "X.npy"), str(path), when], check=False, capture_output=True
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    state = Checkpoint(path).load(ArraySource(X), None)
    assert state.done == saved
    source = WatchedSource(X)
    expect_same_factor(compress(source, panel=PANEL, checkpoint=Checkpoint(path)).L_i, X)
    assert np.all(source.touched()[50:450] == 0)


# What it refuses.


@pytest.mark.parametrize("column", [0, 49, 450, 499])
def test_data_that_changed_in_the_first_or_last_panel_is_refused(column, path):
    interrupted(path)
    changed = X.copy()
    changed[2, column] += 1e-9
    with pytest.raises(DataChanged, match="changed"):
        compress(ArraySource(changed), panel=PANEL, checkpoint=Checkpoint(path))


@pytest.mark.parametrize("other", [X[:, :-1], X[:-1], X.T], ids=["fewer columns", "fewer rows", "transposed"])
def test_data_of_another_shape_is_refused(other, path):
    interrupted(path)
    with pytest.raises(DataChanged, match="another pass"):
        compress(ArraySource(other), panel=PANEL, checkpoint=Checkpoint(path))


@pytest.mark.parametrize(
    "before, after", [(None, SHIFT), (SHIFT, None), (SHIFT, SHIFT + 1e-12), (None, np.zeros(M))], ids=str
)
def test_another_shift_is_refused(before, after, path):
    interrupted(path, shift=before)
    with pytest.raises(DataChanged, match="another pass"):
        compress(ArraySource(X), shift=after, panel=PANEL, checkpoint=Checkpoint(path))


def test_a_damaged_file_is_refused_wherever_it_is_damaged(path):
    blob = interrupted(path).read_bytes()
    for position in range(0, len(blob), 7):
        damaged = bytearray(blob)
        damaged[position] ^= 0x01
        path.write_bytes(damaged)
        with pytest.raises(StorageError, match="damaged"):
            Checkpoint(path).load(ArraySource(X), None)
    for length in (0, 1, 31, 32, 100, len(blob) - 1):
        path.write_bytes(blob[:length])
        with pytest.raises(StorageError, match="damaged"):
            Checkpoint(path).load(ArraySource(X), None)


def test_a_file_that_cannot_be_read_or_written_is_a_storage_error(tmp_path):
    (tmp_path / "folder").mkdir()
    for place in (tmp_path / "folder", tmp_path / "nowhere" / "pass"):
        with pytest.raises(StorageError, match=r"cannot (read|write) the checkpoint"):
            compress(ArraySource(X), panel=PANEL, checkpoint=Checkpoint(place, every=100))


def test_errors_carry_the_name_of_the_file_but_no_number_of_the_data(path):
    interrupted(path)
    with pytest.raises(DataChanged) as caught:
        compress(ArraySource(X + 1), panel=PANEL, checkpoint=Checkpoint(path))
    assert path.name in str(caught.value)
    assert str(path.parent) not in str(caught.value)
    assert "delete it" in caught.value.fix


# The file.


def test_the_file_is_its_owners_alone_whatever_the_umask_and_whatever_lay_there_before(path):
    stale = path.with_name(path.name + ".new")
    stale.write_bytes(b"left by an earlier kill")
    stale.chmod(0o644)
    before = os.umask(0)
    try:
        interrupted(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_a_link_in_the_place_of_the_temporary_file_is_not_followed(path):
    elsewhere = path.parent / "elsewhere"
    elsewhere.write_bytes(b"mine")
    path.with_name(path.name + ".new").symlink_to(elsewhere)
    interrupted(path)
    assert elsewhere.read_bytes() == b"mine"
    assert not path.is_symlink()


def test_the_file_holds_a_factor_not_the_data(path):
    interrupted(path)
    assert path.stat().st_size < 8 * M * M + 400
    assert X[:, 0].tobytes() not in path.read_bytes()


def test_a_failed_save_leaves_the_old_file(path, monkeypatch):
    interrupted(path, at=300)
    before = path.read_bytes()

    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="cannot write"):
        compress(ArraySource(X), panel=PANEL, checkpoint=Checkpoint(path, every=100))
    assert path.read_bytes() == before


def test_removing_it_twice_is_no_error_and_then_there_is_nothing_to_load(path):
    interrupted(path)
    checkpoint = Checkpoint(path)
    checkpoint.remove()
    checkpoint.remove()
    assert checkpoint.load(ArraySource(X), None) is None


def test_digests_depend_on_shape_and_numbers_not_on_memory_order():
    assert panel_digest(X) == panel_digest(np.asfortranarray(X)) == panel_digest(np.repeat(X, 2, axis=0)[::2])
    others = [panel_digest(A) for A in (X.T, X.reshape(2 * M, -1), X + 1e-15, X[:, :-1])]
    assert len({panel_digest(X), *others}) == 5


def test_a_state_shows_no_number():
    assert repr(Progressed(StreamingFactor(3), 7, 2, b"secret")) == "Progressed(done=7)"
    assert Path(Checkpoint("x").path).name == "x"
