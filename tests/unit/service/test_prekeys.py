"""Prekeys on disk: one to an attempt, private, there until they are taken, and never twice."""

import pytest

from fedsvd.errors import ConfigError, LocalProtocolError, StorageError
from fedsvd.service.member import Prekeys
from fedsvd.studies.job_stages import Stage

JOB = "8f3a5c1200ab77de"


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "prekeys"


def test_a_prekey_outlives_its_process_and_is_asked_for_again(folder):
    made = Prekeys(folder).make(JOB, 1)
    assert Prekeys(folder).make(JOB, 1).public == made.public
    assert Prekeys(folder).take(JOB, 1).public == made.public


def test_a_prekey_is_taken_once(folder):
    prekeys = Prekeys(folder)
    prekeys.make(JOB, 1)
    prekeys.take(JOB, 1)
    assert list(folder.iterdir()) == []
    with pytest.raises(LocalProtocolError):
        prekeys.take(JOB, 1)


def test_every_attempt_at_every_job_has_a_prekey_of_its_own(folder):
    prekeys = Prekeys(folder)
    publics = {prekeys.make(job, attempt).public for job in (JOB, JOB[::-1]) for attempt in (1, 2)}
    assert len(publics) == 4
    assert prekeys.take(JOB, 1).public != prekeys.make(JOB, 1).public  # made anew after it was used


def test_prekeys_are_for_their_owner_alone(folder):
    Prekeys(folder).make(JOB, 1)
    (file,) = folder.iterdir()
    assert (file.stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (0o600, 0o700)
    file.chmod(0o644)
    with pytest.raises(StorageError):
        Prekeys(folder).take(JOB, 1)


def test_prekeys_of_attempts_that_will_not_begin_are_erased(folder):
    prekeys = Prekeys(folder)
    prekeys.erase_but([])  # nothing there yet
    kept = prekeys.make(JOB, 2).public
    prekeys.make(JOB, 1)
    prekeys.make(JOB[::-1], 2)
    prekeys.erase_but([(JOB, 2, Stage.STUDY), ("00", 7, Stage.STUDY)])
    assert [path.name for path in folder.iterdir()] == [f"{JOB}-2.prekey"]
    assert prekeys.take(JOB, 2).public == kept


@pytest.mark.parametrize("id", ["../../etc", "", "8F3A", "8f3a/..", "x"])
def test_an_id_that_the_csp_made_up_names_no_other_file(folder, id):
    with pytest.raises(ConfigError):
        Prekeys(folder).make(id, 1)
