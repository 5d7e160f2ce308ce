"""The number of a signed job is spent once, on disk, for one job; a job that is resumed has the one it had."""

import pytest

from fedsvd.errors import JobReplayed
from fedsvd.storage.journal import Journal, Nonces

WHO, NONCE = "researcher/res", "ab" * 16


def nonces(tmp_path):
    return Nonces(Journal(tmp_path / "ledger.jsonl"))


def test_a_job_that_is_resumed_spends_nothing_anew_even_after_a_restart(tmp_path):
    for _ in range(3):
        spent = nonces(tmp_path)
        spent.spend(WHO, NONCE, "11", "d")
        spent.spend(WHO, NONCE, "11", "d")
    assert len((tmp_path / "ledger.jsonl").read_text().splitlines()) == 1


@pytest.mark.parametrize(("id", "digest"), [("22", "d"), ("11", "e"), ("22", "e")])
@pytest.mark.parametrize("restarted", [False, True])
def test_another_id_or_content_under_the_same_number_is_refused(tmp_path, id, digest, restarted):
    spent = nonces(tmp_path)
    spent.spend(WHO, NONCE, "11", "d")
    with pytest.raises(JobReplayed, match="was spent here before"):
        (nonces(tmp_path) if restarted else spent).spend(WHO, NONCE, id, digest)


def test_two_researchers_may_have_one_number(tmp_path):
    spent = nonces(tmp_path)
    spent.spend(WHO, NONCE, "11", "d")
    spent.spend("researcher/other", NONCE, "22", "e")
