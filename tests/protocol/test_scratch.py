"""Scratch on disk is taken without being asked for: a plan that was accepted does not end without a folder."""

import tempfile

import numpy as np
import pytest
from tests.tolerances import assert_close, digits_lost

from fedsvd.data.open import open_source
from fedsvd.errors import StorageError
from fedsvd.protocol.tasks import Task
from fedsvd.storage import block_store, scratch
from fedsvd.studies import run
from fedsvd.studies.parties import PartyData
from fedsvd.studies.run import run_study, scratch_bytes
from fedsvd.studies.study import Study

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The system's folder for temporary files, and the folders that scratch files were made in."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    made = []
    monkeypatch.setattr(block_store, "PrivateFile", lambda folder: made.append(folder) or scratch.PrivateFile(folder))
    return tmp_path, made


def genotypes(samples, features):
    return np.random.default_rng(11).binomial(2, 0.3, size=(samples, features)).astype(float)


def study_of(G, memory, components=3):
    parties = [PartyData(open_source(part)) for part in np.array_split(G, 3)]
    return run_study(Study(Task.PCA, components=components, memory=memory), parties)


def expect_pca(outcome, G, components=3):
    _, _, Vt = np.linalg.svd(G - G.mean(axis=0), full_matrices=False)
    ours = outcome.parties[0].U.T
    assert_close(np.abs(np.sum(ours * Vt[:components], axis=1)), np.ones(components), digits_lost(5))


def test_what_memory_does_not_hold_goes_to_the_usual_folder(temporary):
    folder, made = temporary
    G = genotypes(120, 6000)
    outcome = study_of(G, 8 << 20)
    assert outcome.plan.memory // 2 < 8 * 6000 * 120
    assert [*map(str, made)] == [str(folder)]
    assert scratch_bytes(outcome.plan) == 8 * 6000 * 120
    expect_pca(outcome, G)
    assert not list(folder.iterdir())


def test_a_folder_without_space_is_refused_before_anything_is_computed(temporary, monkeypatch):
    monkeypatch.setattr(run, "expect_readable", lambda parties: pytest.fail("data was read"))
    monkeypatch.setattr(scratch.shutil, "disk_usage", lambda folder: type("Usage", (), {"free": 1 << 20}))
    with pytest.raises(StorageError, match=r"5\.5 MiB are needed under .*, 1\.0 MiB are free"):
        study_of(genotypes(120, 6000), 8 << 20)


@pytest.mark.slow
def test_genotypes_beyond_twice_the_memory_of_a_role_are_those_of_the_joint_data(temporary):
    """In the proportions of 3 x 500 samples of 200,000 features and a gibibyte, a seventieth of both."""
    G = genotypes(180, 24_000)
    G[:90] += np.random.default_rng(12).binomial(1, 0.2, size=24_000)  # two populations
    outcome = study_of(G, 15 << 20, components=10)
    assert outcome.plan.tall
    assert temporary[1]
    expect_pca(outcome, G, components=1)
