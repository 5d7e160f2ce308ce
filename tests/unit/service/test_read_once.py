"""A site reads its table once between enlisting and the session, unless the file may have changed."""

import numpy as np
import pytest

from fedsvd.data.hashed import hashed
from fedsvd.data.open import open_source
from fedsvd.errors import SourceChanged
from fedsvd.policy.rules import Policy
from fedsvd.service.approvals import Approvals
from fedsvd.service.enlist import open_data
from fedsvd.service.records import JobRecord
from fedsvd.service.site_memory import SiteMemory
from fedsvd.storage import file_stamp
from fedsvd.studies.job_file import job_from

FILE = {"job": {"name": "study", "task": "svd", "split": "horizontal"}, "party": [{"name": "a"}, {"name": "b"}]}
RECORD = JobRecord(
    id="8f3a", name="study", file=FILE, submitter="researcher/r", members=["party/a", "party/b"], state="recruiting"
)
LATER = 3600.0


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.random.default_rng(0).standard_normal((60, 5)))
    return path


@pytest.fixture
def read(tmp_path, table, monkeypatch):
    """Compares the table with what the site brought before, and says what was found and how many passes it took."""
    monkeypatch.setattr(file_stamp, "time", lambda now=file_stamp.time: now() + LATER)
    own = open_data(job_from(FILE, None), "a", table)
    memory = SiteMemory(tmp_path / "records", "a", Policy(), Approvals(tmp_path / "approvals"))
    passes, inner = [], own.data.table.rows
    monkeypatch.setattr(own.data.table, "rows", lambda start, stop: (passes.append(start), inner(start, stop))[1])

    def compare():
        before = passes.count(0)
        return memory.compare(RECORD, own).source, passes.count(0) - before

    compare.content = lambda: own.reading.content(own.data.table)
    return compare


def test_a_file_that_is_the_same_is_read_once(read):
    first, passes = read()
    assert passes > 0
    assert read() == (first, 0)


def test_a_file_that_changed_is_read_again_and_what_was_opened_before_is_refused(read, table):
    read()
    with table.open("r+b") as file:
        file.seek(-8, 2)
        file.write(np.array(7.0).tobytes())
    with pytest.raises(SourceChanged, match=r"a\.npy changed"):
        read()


def test_what_was_read_gives_the_digest_that_the_session_commits_to_as_long_as_it_holds(read, table):
    assert read.content() is None
    read()
    assert read.content() == hashed(open_source(table).T, 1).content_digest()
    with table.open("r+b") as file:
        file.seek(-8, 2)
        file.write(np.array(7.0).tobytes())
    assert read.content() is None
