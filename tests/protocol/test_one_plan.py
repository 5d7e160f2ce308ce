"""All parties come to one plan: neither their machines nor the words of their version are in its digest."""

import pytest
from tests.protocol.cases import CASES

import fedsvd.cost.kernels
import fedsvd.linalg.pools
import fedsvd.studies.run
from fedsvd.prepare.identifiers import RecordIds
from fedsvd.protocol import reasons
from fedsvd.studies.job_file import job_from, study_of

GIB = 1 << 30


def digest(name):
    return CASES[name]().assemble().plan.digest


@pytest.mark.parametrize("name", CASES)
def test_the_plan_is_the_same_on_1_to_64_threads_and_any_main_memory(name, monkeypatch):
    digests = set()
    for threads in range(1, 65, 9):
        monkeypatch.setattr(fedsvd.cost.kernels, "available", lambda threads=threads: threads)
        monkeypatch.setattr(fedsvd.linalg.pools, "available", lambda threads=threads: threads)
        monkeypatch.setattr(fedsvd.studies.run, "available", lambda threads=threads: threads)
        monkeypatch.setattr(fedsvd.studies.run, "main_memory", lambda threads=threads: threads * GIB)
        digests.add(digest(name))
    assert len(digests) == 1


@pytest.mark.parametrize("name", CASES)
def test_the_plan_is_the_same_in_reworded_texts(name, monkeypatch):
    before = CASES[name]().assemble().plan
    assert before.reason
    for code in reasons.Why:
        monkeypatch.setitem(reasons.TEXTS, code, "in other words")
    after = CASES[name]().assemble().plan
    assert set(after.reason.split("; ")) == {"in other words"}
    assert after.digest == before.digest


def test_the_rule_of_record_ids_is_hashed_in_the_words_of_the_job_file_and_not_as_people_read_it(monkeypatch, tmp_path):
    file = {
        "job": {"name": "s", "task": "svd", "split": "vertical", "id": ["number", "born"]},
        "match": {"align": "server", "case": "exact", "spaces": "exact", "dates": ["born"]},
        "party": [{"name": "a"}, {"name": "b"}],
    }
    before = study_of(job_from(file, tmp_path)).id_rule
    monkeypatch.setattr(RecordIds, "__str__", lambda self: "in other words")
    assert study_of(job_from(file, tmp_path)).id_rule == before
    assert '"blanks": "exact"' in before
