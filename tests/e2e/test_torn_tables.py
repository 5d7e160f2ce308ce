"""Files of a table that change while a job between institutions runs: FSVD-211 at its party, a code at the others.

The party's process lives on, its other jobs end right, and so does this one once the file is as it was and it is
resumed. 0.2.0 mapped ``.npy`` and Parquet files: a truncated one ended the process by SIGBUS without a line in its
log, and one that was rewritten in place gave verified results of a table that never existed.
"""

import os
import threading

import anndata
import numpy as np
import pandas as pd
import pytest
from tests.e2e.federations import federation_of, split_table
from tests.e2e.outcomes import LONGEST, broken_everywhere, settled, spoken
from tests.tolerances import spectrum

from fedsvd.service.progress import ProgressReporter

PARTIES = ("a", "b")
ROWS, COLUMNS = 400, 5
D, TABLES = split_table(ROWS, COLUMNS, PARTIES)


def _npy(path, table):
    np.save(path, table)


def _parquet(path, table):
    pd.DataFrame(table, columns=[f"v{j}" for j in range(COLUMNS)]).to_parquet(path)


def _csv(path, table):
    pd.DataFrame(table, columns=[f"v{j}" for j in range(COLUMNS)]).to_csv(path, index=False, float_format="%.17g")


def _h5ad(path, table):
    anndata.AnnData(table).write_h5ad(path)


WRITE = {".npy": _npy, ".parquet": _parquet, ".csv": _csv, ".h5ad": _h5ad}


def truncated(path, suffix):
    os.truncate(path, path.stat().st_size // 3)


def rewritten(path, suffix):
    other = path.with_name(f"other{suffix}")
    WRITE[suffix](other, -TABLES["b"])
    before = path.stat()
    with path.open("r+b") as file:
        file.write(other.read_bytes())
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def appended(path, suffix):
    with path.open("ab") as file:
        file.write(b"1,2,3,4,5\n")


class Gate:
    """Every role waits, once, when it has said that it is in this stage."""

    def __init__(self):
        self.stage, self.there, self.go_on = "summing", threading.Event(), threading.Event()

    def look(self, name):
        if name == self.stage and not self.there.is_set():
            self.there.set()
            self.go_on.wait(LONGEST)


@pytest.fixture
def gate(monkeypatch):
    gate, say = Gate(), ProgressReporter.stage

    def stage(reporter, name):
        say(reporter, name)
        gate.look(name)

    monkeypatch.setattr(ProgressReporter, "stage", stage)
    yield gate
    gate.go_on.set()


@pytest.fixture
def federation(tmp_path):
    with federation_of(tmp_path, PARTIES, TABLES, patience=10.0) as federation:
        yield federation


def _lay(federation, suffix):
    """Every party has its table as a file of this kind for the job *torn*, and as an .npy for any other."""
    for name, table in TABLES.items():
        path = federation.root / f"{name}-torn{suffix}"
        WRITE[suffix](path, table)
        data = f'[data]\ndefault = "{federation.root / name}.npy"\ntorn = "{path}"\n'
        (federation.kits[f"party/{name}"] / "site.toml").write_text(data)
    return federation.root / f"b-torn{suffix}"


def _job(name, **options):
    job = {"name": name, "task": "svd", **options}
    return {"job": job, "party": [{"name": party} for party in PARTIES]}


def _expect_right(federation, id):
    expected = np.linalg.svd(D, compute_uv=False)
    for name in PARTIES:
        found = np.load(federation.folder(name, id) / "singular_values.npy")
        np.testing.assert_allclose(found, expected, rtol=0, atol=spectrum(*D.shape) * expected[0])


def _expect_torn(federation, client, id, record_property):
    codes = broken_everywhere(federation, client, id)
    record_property("outcome", spoken(codes))
    assert codes["party/b"] == "FSVD-211"
    assert codes.get("party/a", "FSVD-415") != "finished"


def _resumed_right(federation, client, id, path, suffix):
    WRITE[suffix](path.with_name(f"new{suffix}"), TABLES["b"])
    path.with_name(f"new{suffix}").replace(path)
    federation.approve_again(client.job(id))
    client.resume(id)
    done = settled(client, id, {"done", "broken"})
    assert done.state == "done", done.failures
    _expect_right(federation, id)


CASES = [
    (change, suffix, stage)
    for change, suffix in (
        (rewritten, ".npy"),
        (truncated, ".npy"),
        (rewritten, ".parquet"),
        (truncated, ".parquet"),
        (appended, ".csv"),
        (rewritten, ".h5ad"),
        (truncated, ".h5ad"),
    )
    for stage in ("summing", "computing")  # before, the other party may be first, and this one has not opened its file
]
QUICK = [(truncated, ".npy", "summing")]


@pytest.mark.parametrize(
    ("change", "suffix", "stage"),
    [
        pytest.param(
            *case,
            id=f"{case[0].__name__}{case[1]}-{case[2]}",
            marks=[
                pytest.mark.chaos("a table that changes", f"{case[1]} {case[0].__name__} in {case[2]}"),
                *([] if case in QUICK else [pytest.mark.slow]),
            ],
        )
        for case in CASES
    ],
)
def test_a_table_that_changes_in_any_stage_is_fsvd_211_at_its_party_and_resume_ends_right(
    federation, gate, change, suffix, stage, record_property
):
    path, gate.stage = _lay(federation, suffix), stage
    federation.start("csp/csp", "party/a", "party/b", how="threads")
    with federation.client() as client:
        id = client.submit(_job("torn")).id
        assert gate.there.wait(LONGEST)
        change(path, suffix)
        gate.go_on.set()
        _expect_torn(federation, client, id, record_property)
        _resumed_right(federation, client, id, path, suffix)


@pytest.mark.slow
@pytest.mark.chaos("a table that changes", ".npy truncated under a process that has two jobs")
def test_a_process_whose_table_is_truncated_lives_on_and_its_other_jobs_end_right(federation, record_property):
    path = _lay(federation, ".npy")
    np.save(path, np.random.default_rng(4).normal(size=(1_000_000, COLUMNS)))  # takes a while
    federation.start("csp/csp", "party/a", "party/b", how="processes")
    with federation.client() as client:
        id = client.submit(_job("torn")).id
        settled(client, id, {"running"})
        truncated(path, ".npy")
        other = client.submit(_job("other")).id
        assert settled(client, other, {"done", "broken"}).state == "done"
        _expect_right(federation, other)
        _expect_torn(federation, client, id, record_property)
    assert federation.stop("party/b") == 0  # it lives, and ends as it is asked to
