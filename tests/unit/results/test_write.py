"""Results folders: complete or absent, private, checked, and with nothing of another party inside."""

import csv
import json
import stat
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression, Ridge
from tests.studies import CLOSE, FEATURES, ROWS, companies, hospitals

import fedsvd
from fedsvd.errors import StorageError
from fedsvd.policy.rules import Policy
from fedsvd.protocol.tasks import Task
from fedsvd.results import folder as folders
from fedsvd.results.folder import (
    MANIFEST,
    UNFINISHED,
    Table,
    expect_free,
    fresh_folder,
    mark_unfinished,
    save_array,
    save_manifest,
    save_table,
)
from fedsvd.results.write import party_folders, read_result, write_job
from fedsvd.studies.job_data import prepare
from fedsvd.studies.job_file import read_job
from fedsvd.studies.jobs import results_of, run_job


def ran(files, **keys):
    """The results of a job on these files, and what was written where."""
    prepared = prepare(read_job(files.job(id="patient", **keys)))
    outcome = run_job(prepared, policy=Policy.permissive())
    target = files.folder / "results" / "study"
    write_job(target, results_of(prepared, outcome))
    return target, outcome


def close(found, expected, scale=None):
    scale = np.abs(expected).max() if scale is None else scale
    np.testing.assert_allclose(found, expected, rtol=0, atol=CLOSE * scale)


def table_in(path):
    """A CSV file with its numbers as Python reads them, which is exactly."""
    text = pd.read_csv(path, dtype=str)
    return text.apply(lambda column: column if column.name in ("id", "name", "feature") else column.map(float))


def every_file(target):
    return [path for path in sorted(target.rglob("*")) if path.is_file()]


# --- what is in them -----------------------------------------------------------------------------------------------


def test_a_pca_is_written_as_scikit_learn_has_it_on_the_joint_table(tmp_path):
    files = hospitals(tmp_path)
    target, outcome = ran(files, task="pca", components=3, release=["components", "mean", "spectrum"])
    D = files.joint.drop(columns="patient")
    twin = PCA(3, svd_solver="full").fit(D)
    shared = read_result(target)
    assert (shared.task, shared.party, shared.features) == (Task.PCA, None, tuple(D.columns))
    close(shared.arrays["components"], twin.components_)
    close(shared.arrays["mean"], twin.mean_)
    close(shared.arrays["singular_values"], twin.singular_values_)
    close(shared.arrays["explained_variance"], twin.explained_variance_)
    close(shared.arrays["explained_variance_ratio"], twin.explained_variance_ratio_)
    scores = [read_result(path).arrays["scores"] for path in party_folders(target)]
    close(np.vstack(scores), twin.transform(D))
    assert shared.plan == outcome.plan
    assert shared.certificate == outcome.certificate
    assert "scores" not in shared.arrays


def test_without_the_spectrum_nothing_tells_the_variances(tmp_path):
    target, _ = ran(hospitals(tmp_path), task="pca", components=2)
    for path in (target, *party_folders(target)):
        stored = read_result(path)
        assert not {"singular_values", "explained_variance", "explained_variance_ratio"} & set(stored.arrays)
        assert "total_energy" not in stored.facts


def test_unit_variance_keeps_the_scales_and_names_constant_columns(tmp_path):
    files = hospitals(tmp_path)
    for name, file in files.parties:
        table = {"csv": pd.read_csv, "tsv": pd.read_table, "parquet": pd.read_parquet}[file.split(".")[1]]
        table(tmp_path / file).assign(ward=4.0).to_csv(tmp_path / f"{name}.csv", index=False)
    text = files.job(id="patient", task="pca", components=2, unit_variance=True).read_text(encoding="utf-8")
    text = text.replace("south.parquet", "south.csv").replace("west.tsv", "west.csv")
    (tmp_path / "job.toml").write_text(text, encoding="utf-8")
    prepared = prepare(read_job(tmp_path / "job.toml"))
    write_job(tmp_path / "out", results_of(prepared, run_job(prepared, policy=Policy.permissive())))
    stored = read_result(tmp_path / "out")
    assert stored.facts["constant_columns"] == ["ward"]
    close(stored.arrays["scale"][:5], files.D.std(axis=0))


@pytest.mark.parametrize("split", ["horizontal", "vertical"])
def test_an_svd_multiplies_back_to_the_joint_table_whichever_way_it_is_split(split, tmp_path):
    files = hospitals(tmp_path) if split == "horizontal" else companies(tmp_path)
    target, _ = ran(files, task="svd", split=split, sort_by_id=split == "vertical")
    D = files.joint[[*FEATURES, "outcome"]].to_numpy()
    shared = read_result(target).arrays
    own = [read_result(path).arrays for path in party_folders(target)]
    if split == "horizontal":
        U, Vt = np.vstack([part["left_vectors"] for part in own]), shared["components"]
        assert "left_vectors" not in shared
    else:
        U, Vt = shared["left_vectors"], np.hstack([part["components"] for part in own])
        assert "components" not in shared
    close(U * shared["singular_values"] @ Vt, D)
    close(shared["singular_values"], np.linalg.svd(D, compute_uv=False))
    assert [name for part in own for name in part["row_ids"]][:ROWS] == files.joint["patient"].tolist()


def test_a_regression_on_split_columns_leaves_every_party_its_own_coefficients(tmp_path):
    files = companies(tmp_path)
    keys = {"split": "vertical", "label": "outcome", "sort_by_id": True}
    target, _ = ran(files, task="lr", **keys, release=["coefficients", "intercept", "score"])
    twin = LinearRegression().fit(files.D, files.y)
    shared = read_result(target)
    assert set(shared.arrays) == {"intercept"}
    assert shared.features is None, "column names of one party are not the researcher's"
    # A difference of labels and products with large means: exact to the rounding of these.
    close(shared.arrays["intercept"], twin.intercept_, scale=np.abs(files.y).max())
    bank, shop, insurer = (read_result(path) for path in party_folders(target))
    close(np.hstack([part.arrays["coefficients"][0] for part in (bank, shop, insurer)]), twin.coef_)
    assert "fitted" not in bank.arrays
    close(insurer.arrays["fitted"][:, 0], twin.predict(files.D))
    quality = insurer.facts["score"]["outcome"]
    assert quality["r2"] == pytest.approx(twin.score(files.D, files.y), rel=CLOSE)
    assert quality["mse"] == pytest.approx(np.mean((twin.predict(files.D) - files.y) ** 2), rel=CLOSE)
    assert "score" not in bank.facts
    assert insurer.label_holder == "insurer"


def test_a_ridge_on_split_rows_is_everybodys(tmp_path):
    files = hospitals(tmp_path)
    target, _ = ran(files, task="lr", label="outcome", alpha=2.5)
    twin = Ridge(2.5, solver="svd").fit(files.D, files.y)
    for path in (target, *party_folders(target)):
        stored = read_result(path)
        close(stored.arrays["coefficients"][0], twin.coef_)
        close(stored.arrays["intercept"], twin.intercept_, scale=np.abs(files.y).max())
        assert stored.targets == ("outcome",)


def test_tables_carry_names_and_ids_and_read_back_to_the_same_bits(tmp_path):
    files = hospitals(tmp_path)
    target, _ = ran(files, task="pca", components=2, release=["components", "mean", "spectrum"])
    south = target / "parties" / "south"
    stored = read_result(south)
    scores = table_in(south / "scores.csv").set_index("id")
    assert scores.columns.tolist() == ["component_1", "component_2"]
    assert scores.index.tolist() == files.joint["patient"][40:75].tolist()
    np.testing.assert_array_equal(scores.to_numpy(), stored.arrays["scores"])
    components = table_in(south / "components.csv").set_index("feature")
    assert components.index.tolist() == [*FEATURES, "outcome"]
    np.testing.assert_array_equal(components.to_numpy(), stored.arrays["components"].T)
    pd.testing.assert_frame_equal(pd.read_parquet(south / "scores.parquet").set_index("id"), scores)
    spectrum = table_in(target / "spectrum.csv")
    np.testing.assert_array_equal(spectrum["singular_value"], stored.arrays["singular_values"])


def test_a_manifest_tells_what_a_result_is(tmp_path):
    target, outcome = ran(hospitals(tmp_path), task="svd")
    record = json.loads((target / "parties" / "west" / MANIFEST).read_text(encoding="utf-8"))
    assert record["format"] == "fedsvd-results/1"
    assert (record["job"], record["task"], record["split"]) == ("study", "svd", "horizontal")
    assert (record["party"], record["index"], record["id"]) == ("west", 3, "patient")
    assert record["shape"] == [ROWS, 6]
    assert record["plan_digest"] == outcome.plan.digest
    assert record["residual"] == outcome.certificate.residual
    assert record["versions"] == outcome.certificate.versions
    about = record["files"]["left_vectors.npy"]
    assert about["shape"] == [45, 6]
    assert about["dtype"] == "float64"
    assert about["bytes"] == (target / "parties" / "west" / "left_vectors.npy").stat().st_size


def test_a_table_too_long_for_people_is_kept_as_an_array_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("fedsvd.results.write.LONGEST_TABLE", 100)
    target, _ = ran(hospitals(tmp_path), task="svd")
    north = target / "parties" / "north"
    assert (north / "left_vectors.npy").is_file()
    assert not (north / "left_vectors.csv").exists()
    assert json.loads((north / MANIFEST).read_text(encoding="utf-8"))["only_as_npy"] == ["left_vectors"]


def test_a_column_may_be_called_what_we_call_the_rows(tmp_path):
    files = hospitals(tmp_path)
    joint = files.joint.rename(columns={"outcome": "feature"})
    for name, rows in (("north", slice(0, 40)), ("south", slice(40, 75)), ("west", slice(75, None))):
        joint[rows].to_csv(tmp_path / f"{name}.csv", index=False)
    text = files.job(id="patient", task="lr", label="feature").read_text(encoding="utf-8")
    text = text.replace("south.parquet", "south.csv").replace("west.tsv", "west.csv")
    (tmp_path / "job.toml").write_text(text, encoding="utf-8")
    prepared = prepare(read_job(tmp_path / "job.toml"))
    write_job(tmp_path / "out", results_of(prepared, run_job(prepared, policy=Policy.permissive())))
    with (tmp_path / "out" / "coefficients.csv").open(newline="", encoding="utf-8") as file:
        assert next(csv.reader(file)) == ["feature_", "feature"]


# --- what is not in them -------------------------------------------------------------------------------------------


def every_number(path):
    """The numbers of all arrays in one folder, each as its bytes."""
    arrays = [np.load(file, allow_pickle=False) for file in path.glob("*.npy")]
    return {value.tobytes() for array in arrays if array.dtype == np.float64 for value in array.ravel()}


@pytest.mark.parametrize(
    ("task", "keys"),
    [
        ("svd", {}),
        ("pca", {"components": 3}),
        ("lsa", {"components": 2}),
        ("svd", {"split": "vertical", "sort_by_id": True}),
        ("lr", {"split": "vertical", "label": "outcome", "sort_by_id": True}),
    ],
)
def test_a_partys_folder_holds_nothing_of_another_party(task, keys, tmp_path):
    vertical = "split" in keys
    files = companies(tmp_path) if vertical else hospitals(tmp_path)
    target, _ = ran(files, task=task, **keys)
    shared = every_number(target)
    own = {path.name: every_number(path) for path in party_folders(target)}
    for name, numbers in own.items():
        for other in own.keys() - {name}:
            # Parties' copies of what all share may differ in the last bits; own parts are hundreds of numbers.
            only_theirs = own[other] - shared
            assert not numbers & only_theirs, f"{name} holds numbers of {other}"
        folder = target / "parties" / name
        files_there = [path for path in folder.glob("*.[cj]s*") if path.name != "certificate.json"]
        text = "\n".join(path.read_text(encoding="utf-8") for path in files_there)
        text += json.dumps(json.loads((folder / "certificate.json").read_bytes())["local"])  # the rest all signed
        names = {"bank": FEATURES[:2], "shop": FEATURES[2:4], "insurer": FEATURES[4:]} if vertical else {}
        for other, columns in names.items():
            for column in columns:
                assert (f'"{column}"' in text or f"\n{column}," in text) == (other == name)
        if not vertical:
            mine = set(pd.Series(np.load(target / "parties" / name / "row_ids.npy")))
            theirs = set(files.joint["patient"]) - mine
            assert not any(row in text for row in theirs)
        index = list(own).index(name) + 1 if name in own else 0
        for other in range(1, 4):
            assert (f"user-{other}" in text) == (other == index), "traffic and times are the party's own"


def test_the_researchers_part_holds_no_row_ids_and_no_partys_own_columns(tmp_path):
    target, _ = ran(companies(tmp_path), task="svd", split="vertical", sort_by_id=True)
    text = "\n".join(path.read_text(encoding="utf-8") for path in target.glob("*.[cj]s*"))
    assert "p00" not in text
    assert not any(f'"{column}"' in text for column in FEATURES)
    assert not (target / "row_ids.npy").exists()


def test_folders_and_files_are_their_owners_alone(tmp_path):
    target, _ = ran(hospitals(tmp_path), task="svd")
    for path in (target, *target.rglob("*")):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path


# --- whole or not at all -------------------------------------------------------------------------------------------


def fail_half_way(target):
    with fresh_folder(target) as folder:
        save_array(folder, "half", np.ones(3))
        assert not target.exists()
        raise RuntimeError


def test_a_folder_that_fails_on_the_way_leaves_nothing(tmp_path):
    target = tmp_path / "results" / "study"
    with pytest.raises(RuntimeError):
        fail_half_way(target)
    assert list((tmp_path / "results").iterdir()) == []


def test_an_older_result_survives_a_failure_and_is_replaced_by_success(tmp_path):
    target = tmp_path / "study"
    with fresh_folder(target) as folder:
        save_array(folder, "old", np.ones(3))
        save_manifest(folder, {})
    with pytest.raises(RuntimeError), fresh_folder(target, overwrite=True):
        raise RuntimeError
    assert (target / "old.npy").is_file()
    with fresh_folder(target, overwrite=True) as folder:
        save_manifest(folder, {})
    assert not (target / "old.npy").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["study"]


def test_a_result_comes_back_when_its_successor_cannot_take_its_place(tmp_path, monkeypatch):
    target = tmp_path / "study"
    with fresh_folder(target) as folder:
        save_manifest(folder, {})
    rename = folders.Path.rename

    def stubborn(self, other):
        if self.name.startswith(".study-") and other == target:
            raise OSError(28, "No space left on device")
        return rename(self, other)

    monkeypatch.setattr(folders.Path, "rename", stubborn)
    with pytest.raises(StorageError, match="No space left"), fresh_folder(target, overwrite=True) as folder:
        save_manifest(folder, {})
    assert [path.name for path in tmp_path.iterdir()] == ["study"]
    assert (target / MANIFEST).is_file()


def test_a_place_that_is_taken_is_refused_and_only_results_are_replaced(tmp_path):
    expect_free(tmp_path / "new", overwrite=False)
    (tmp_path / "empty").mkdir()
    expect_free(tmp_path / "empty", overwrite=False)
    thesis = tmp_path / "thesis"
    thesis.mkdir()
    (thesis / "chapter.txt").write_text("years of work", encoding="utf-8")
    with pytest.raises(StorageError, match="is there already") as caught:
        expect_free(thesis, overwrite=False)
    assert caught.value.code == "FSVD-350"
    with pytest.raises(StorageError, match="is not a result of fedsvd"):
        expect_free(thesis, overwrite=True)
    with pytest.raises(StorageError, match="is not a result of fedsvd"):
        expect_free(thesis / "chapter.txt", overwrite=True)
    with fresh_folder(tmp_path / "empty") as folder:
        save_manifest(folder, {})
    assert (tmp_path / "empty" / MANIFEST).is_file()


def test_a_place_below_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(StorageError, match="cannot write to"), fresh_folder(tmp_path / "file" / "study"):
        pass


def test_a_table_is_written_without_pyarrow_too(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "find_spec", lambda name: None)
    save_table(tmp_path, Table("t", {"name": ["a,b", 'c"d'], "value": np.array([0.1, 1e-300])}))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.csv"]
    table = table_in(tmp_path / "t.csv")
    assert table["name"].tolist() == ["a,b", 'c"d']
    assert table["value"].tolist() == [0.1, 1e-300]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_a_table_of_numbers_reads_back_bit_for_bit_from_both_of_its_files(values):
    numbers = np.array(values)
    with TemporaryDirectory() as folder:
        table = Table("t", {"row, 'quoted'": np.arange(len(numbers)), "value": numbers, "place": range(len(numbers))})
        save_table(Path(folder), table)
        with (Path(folder) / "t.csv").open(newline="", encoding="utf-8") as file:
            head, *rows = csv.reader(file)
        parquet = pd.read_parquet(Path(folder) / "t.parquet")
    assert head == list(table.columns) == list(parquet)
    assert [int(row[0]) for row in rows] == list(range(len(numbers))) == list(parquet["place"])
    assert np.array([float(row[1]) for row in rows]).tobytes() == numbers.tobytes()
    assert parquet["value"].to_numpy().tobytes() == numbers.tobytes()


TEXTS = st.text(st.sampled_from('ab ,"\n\t;\u00e4'), max_size=4)


@settings(max_examples=30)
@given(st.lists(st.tuples(TEXTS, st.floats(allow_nan=False, allow_infinity=False)), min_size=1, max_size=8))
def test_a_table_with_texts_reads_back_from_both_of_its_files(rows):
    texts, numbers = [text for text, _ in rows], np.array([number for _, number in rows])
    with TemporaryDirectory() as folder:
        for name, column in (("list", texts), ("array", np.array(texts))):
            save_table(Path(folder), Table(name, {"feature": column, "component_1": numbers}))
            with (Path(folder) / f"{name}.csv").open(newline="", encoding="utf-8") as file:
                head, *found = csv.reader(file)
            parquet = pd.read_parquet(Path(folder) / f"{name}.parquet")
            assert head == ["feature", "component_1"] == list(parquet)
            # A spreadsheet would compute what begins so: an apostrophe stands before it, in CSV alone.
            shown = [f"'{text}" if text[:1] in ("\t", "\n") and text else text for text in texts]
            assert [row[0] for row in found] == shown
            assert list(parquet["feature"]) == texts
            assert np.array([float(row[1]) for row in found]).tobytes() == numbers.tobytes()
            assert parquet["component_1"].to_numpy().tobytes() == numbers.tobytes()


def test_pandas_is_not_imported_to_write_a_table(tmp_path):
    code = (
        "import sys; from pathlib import Path; import numpy as np; from fedsvd.results.folder import Table, save_table;"
        "save_table(Path(sys.argv[1]), Table('t', {'feature': ['a', 'b'], 'value': np.ones(2)}));"
        "print('pandas' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"
    assert (tmp_path / "t.parquet").is_file()


# --- damage --------------------------------------------------------------------------------------------------------


@pytest.fixture
def stored(tmp_path):
    target, _ = ran(hospitals(tmp_path), task="pca", components=2)
    return target


def damage(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x40  # not 1: the seventeenth digit of a time may change and be the same number
    path.write_bytes(bytes(content))


def refused(path):
    with pytest.raises(StorageError) as caught:
        read_result(path)
    assert caught.value.code == "FSVD-350"
    return str(caught.value)


def test_every_file_of_a_result_is_guarded(stored):
    for path in every_file(stored / "parties" / "north"):
        content = path.read_bytes()
        damage(path)
        assert "damaged" in refused(stored / "parties" / "north")
        path.write_bytes(content)
        read_result(stored / "parties" / "north")


def test_a_missing_or_cut_file_is_noticed(stored):
    (stored / "mean.npy").write_bytes((stored / "mean.npy").read_bytes()[:-1])
    assert "mean.npy is not as it was written" in refused(stored)
    (stored / "mean.npy").unlink()
    assert "mean.npy is missing" in refused(stored)


def test_a_folder_without_a_manifest_or_with_another_is_refused(stored, tmp_path):
    assert "holds no readable manifest.json" in refused(tmp_path)
    assert "holds no readable manifest.json" in refused(tmp_path / "nowhere")
    for text in ("", "{", "[]", "{}", '{"files": []}'):
        (stored / MANIFEST).write_text(text, encoding="utf-8")
        assert "damaged" in refused(stored)


def rewritten(stored, **changes):
    """The manifest with changes and a digest that fits them: as another program might write it."""
    record = json.loads((stored / MANIFEST).read_text(encoding="utf-8"))
    record |= changes
    del record["sha256"]
    record["sha256"] = folders.manifest_digest(record)
    (stored / MANIFEST).write_text(json.dumps(record), encoding="utf-8")


def test_a_manifest_of_another_version_or_with_another_plan_is_refused(stored):
    before = (stored / MANIFEST).read_text(encoding="utf-8")
    rewritten(stored, format="fedsvd-results/9")
    assert "not a result of this version" in refused(stored)
    (stored / MANIFEST).write_text(before, encoding="utf-8")
    rewritten(stored, plan_digest="00" * 32)
    assert "the plan does not have the digest" in refused(stored)
    (stored / MANIFEST).write_text(before, encoding="utf-8")
    rewritten(stored, party="../../elsewhere")
    assert "lacks what it must hold" in refused(stored)
    (stored / MANIFEST).write_text(before, encoding="utf-8")
    rewritten(stored, task="alchemy")
    assert "lacks what it must hold" in refused(stored)
    (stored / MANIFEST).write_text(before, encoding="utf-8")
    plan = json.loads(before)["plan"]
    variables = [{"name": "age", "levels": [], "low": 18.0, "high": 99.0}]  # as a plan was before it had bins
    rewritten(stored, plan={**plan, "table": {"variables": variables, "nonnormal": [], "digits": "table"}})
    assert "or a development version of fedsvd wrote them" in refused(stored)
    (stored / MANIFEST).write_text(before, encoding="utf-8")
    rewritten(stored, files={"../job.toml": {"sha256": "00"}})
    assert "is missing" in refused(stored), "a manifest does not reach outside its folder"


def test_results_of_a_job_that_broke_afterwards_say_so_wherever_they_are_read(tmp_path):
    target, _ = ran(hospitals(tmp_path), task="svd")
    own = party_folders(target)[0]
    text = "Job study (8f3a) is broken: FSVD-501, party b is gone."
    assert mark_unfinished(own, text)
    assert not mark_unfinished(own, "said again")
    assert (own / UNFINISHED).read_text() == text + "\n"
    assert json.loads((own / MANIFEST).read_text())["not_finished"] == text
    with pytest.warns(UserWarning, match="party b is gone"):
        fedsvd.load(own)
    (own / UNFINISHED).write_text("all is well\n")
    with pytest.raises(StorageError, match="not as it was written"):
        fedsvd.load(own)
