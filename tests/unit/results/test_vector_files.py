"""Vectors on disk, and runs that go on: what was written panel by panel reads back, and a pass is not made twice."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.tolerances import VALUES_BAR, assert_close, digits_lost

from fedsvd.compress import reduce
from fedsvd.data.synthetic import SyntheticSource
from fedsvd.errors import ConfigError, StorageError
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Check, Item, Scheme, Split, Task, Trust, Write
from fedsvd.results import vector_files
from fedsvd.results.vector_files import NpyFile, ParquetFile, file_for, folder_next_to
from fedsvd.roles.user.work import Nowhere
from fedsvd.studies.job_file import job_from
from fedsvd.studies.resume import Resumable
from fedsvd.tasks.declared import declared
from fedsvd.types import SessionId

Vt = np.random.default_rng(0).normal(size=(3, 17))


def written(sink):
    sink.open(*Vt.shape)
    for start in range(0, 17, 5):
        sink.write(Vt[:, start : start + 5])
    return sink.close()


@pytest.mark.parametrize("by_column", [True, False])
def test_npy_panels_are_one_array_that_numpy_maps(by_column, tmp_path):
    file = written(NpyFile(tmp_path, by_column))
    array = np.load(file.path, mmap_mode="r")
    np.testing.assert_array_equal(array, Vt if by_column else Vt.T)
    assert file.path.stat().st_mode & 0o777 == 0o600


def test_parquet_has_a_row_group_for_each_panel(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    file = parquet.ParquetFile(written(ParquetFile(tmp_path, False)).path)
    assert file.num_row_groups == 4
    table = file.read()
    assert table.column_names == ["row", "component_1", "component_2", "component_3"]
    np.testing.assert_array_equal(table["row"], np.arange(17))
    np.testing.assert_array_equal(np.array([table[f"component_{j}"] for j in (1, 2, 3)]), Vt)


def test_a_full_disk_is_an_error_of_ours(tmp_path):
    keep = NpyFile(tmp_path / "missing", True)
    with pytest.raises(StorageError, match="write"):
        keep.open(3, 17)


def plan(**changes):
    about = {"split": Split.VERTICAL, "task": Task.SVD, "scheme": Scheme.SUM, "trust": Trust.PEERS, **changes}
    release = (Item.COMPONENTS, Item.SPECTRUM, Item.OWN_PART)
    known = declared(about["task"]).facts(about["split"])
    return SessionPlan(SessionId("s"), m=1000, counts=(1500, 5000), release=release, **known, **about)


def test_a_small_part_stays_in_memory_and_a_large_one_does_not(tmp_path):
    assert file_for(plan(), 0, Write.NPY, tmp_path) is None
    assert isinstance(file_for(plan(), 1, Write.NPY, tmp_path), NpyFile)
    assert isinstance(file_for(plan(), 1, Write.PARQUET, tmp_path), ParquetFile)
    assert isinstance(file_for(plan(), 0, Write.NONE, tmp_path), Nowhere)
    assert file_for(plan(task=Task.LR, targets=1, label_user=1), 1, Write.NPY, tmp_path) is None
    assert file_for(plan(components=10), 1, Write.NPY, tmp_path) is None


def test_files_on_their_way_are_gone_when_the_block_ends(tmp_path):
    def interrupted():
        with folder_next_to(tmp_path / "results" / "job") as folder:
            written(NpyFile(folder, True))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not (tmp_path / "results").exists()


# --- jobs ---------------------------------------------------------------------------------------------------------


def job(task="svd", seed=1, scheme="auto", **asked):
    data = [f"synthetic://20x9000?seed={seed}&columns={run}" for run in (":4000", "4000:")]
    parties = [{"name": name, "data": address} for name, address in zip("ab", data, strict=True)]
    study = {"name": "j", "task": task, "split": "vertical", **asked}
    return job_from({"job": study, "masks": {"scheme": scheme}, "party": parties}, Path())


@pytest.mark.parametrize(
    "asked",
    [
        {"verify": "sample"},
        {"scheme": "paper"},
        {"task": "lr", "label": "y", "verify": "all"},
        {"task": "lr", "label": "y", "write": "none"},
        {"write": "csv"},
    ],
)
def test_a_job_that_asks_for_what_there_is_not_is_refused(asked):
    with pytest.raises(ConfigError):
        job(**asked)


def test_verification_is_in_the_plan_and_writing_is_not():
    asked = job(verify="all", write="none")
    assert (asked.study.verify, asked.study.write) == (Check.ALL, Write.NONE)


def test_a_pass_is_found_again_by_the_same_job_and_no_other(tmp_path):
    resumable, one = Resumable(tmp_path / "results" / "j"), job()
    path = resumable.path(one, one.parties[0])
    assert path == Resumable(tmp_path / "results" / "j").path(job(write="none"), one.parties[0])
    assert path != resumable.path(one, one.parties[1])
    other = job(seed=2)
    assert path != resumable.path(other, other.parties[0])
    assert resumable.folder.stat().st_mode & 0o777 == 0o700
    path.touch()
    with pytest.raises(KeyboardInterrupt), resumable:
        raise KeyboardInterrupt
    assert path.exists()
    with resumable:
        pass
    assert not resumable.folder.parent.exists(), "nothing else was in there"


def test_a_file_that_was_written_to_is_another_pass(tmp_path):
    np.save(tmp_path / "a.npy", Vt)
    np.save(tmp_path / "b.npy", Vt)
    parties = [{"name": name, "data": f"{name}.npy"} for name in "ab"]
    one = job_from({"job": {"name": "j", "task": "svd"}, "party": parties}, tmp_path)
    resumable = Resumable(tmp_path / "j")
    before = resumable.path(one, one.parties[0])
    np.save(tmp_path / "a.npy", np.hstack((Vt, Vt)))
    assert resumable.path(one, one.parties[0]) != before


def test_an_interrupted_command_goes_on_where_it_stopped(tmp_path, monkeypatch, capsys):
    from fedsvd.cli.output import Format, Output
    from fedsvd.cli.study import carry_out

    monkeypatch.setattr(vector_files, "LONGEST_TABLE", 1000)
    asked, target, read = job(memory=48 * 20 * 1000), tmp_path / "j", []

    def counted(source, start, stop):
        read.append((source.description, start))
        if len(read) == 6:
            raise KeyboardInterrupt
        return columns(source, start, stop)

    columns = SyntheticSource.columns
    monkeypatch.setattr(SyntheticSource, "columns", counted)
    with pytest.raises(KeyboardInterrupt):
        carry_out(Output(Format.JSON, True), asked, target, False, None)
    assert not target.exists()
    assert [path.name[:2] for path in sorted(Resumable(target).folder.iterdir())] == ["a-"]
    before = len(read)
    carry_out(Output(Format.JSON, False), asked, target, False, None)
    output = capsys.readouterr()
    assert "going on" in output.err
    said = json.loads(output.out)
    again = [start for description, start in read[before:] if "columns=0:4000" in description]
    assert again[:2] == [0, 3000], "the checkpoint's own panels are compared, and nothing is compressed again"
    assert not Resumable(target).folder.exists()
    X = SyntheticSource("synthetic://20x9000?seed=1")
    monkeypatch.undo()
    joint = X.columns(0, 9000)
    U, sigma = np.load(target / "left_vectors.npy"), np.load(target / "singular_values.npy")
    V = np.hstack([np.load(Path(said["parties"][name]) / "components.npy") for name in "ab"])
    assert_close((U * sigma) @ V, joint, digits_lost(4))
    assert reduce.panel_width(20, 48 * 20 * 1000) == 1000


def test_an_interrupted_search_by_steps_goes_on_where_it_stopped(tmp_path, monkeypatch, capsys):
    from fedsvd.cli.output import Format, Output
    from fedsvd.cli.study import carry_out
    from fedsvd.roles.user.earlier_steps import Steps

    X = np.random.default_rng(3).normal(size=(90, 40)) * np.linspace(3.0, 1.0, 40)
    for name, rows in zip("ab", np.array_split(X, 2), strict=True):
        np.save(tmp_path / f"{name}.npy", rows)
    parties = [{"name": name, "data": f"{name}.npy"} for name in "ab"]
    study = {"name": "j", "task": "svd", "split": "horizontal", "components": 2}
    asked = job_from({"job": study, "masks": {"scheme": "steps"}, "party": parties}, tmp_path)
    target, taken, take = tmp_path / "j", [], Steps.take

    def interrupted(steps, found):
        take(steps, found)
        taken.append(steps.resumed)
        if len(taken) == 6:
            raise KeyboardInterrupt

    monkeypatch.setattr(Steps, "take", interrupted)
    with pytest.raises(KeyboardInterrupt):
        carry_out(Output(Format.JSON, True), asked, target, False, None)
    files = sorted(Resumable(target).folder.iterdir())
    assert [(path.name[:2], path.suffix, path.stat().st_mode & 0o777) for path in files] == [
        ("a-", ".steps", 0o600),
        ("b-", ".steps", 0o600),
    ]
    carry_out(Output(Format.JSON, False), asked, target, False, None)
    assert "going on" in capsys.readouterr().err
    assert set(taken[6:]) == {3}
    assert not Resumable(target).folder.exists()
    assert_close(np.load(target / "singular_values.npy"), np.linalg.svd(X, compute_uv=False)[:2], VALUES_BAR)
