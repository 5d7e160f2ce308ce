"""Job files: what is taken, what is refused and how, and what they become."""

import json
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.studies import FEATURES, companies, hospitals

from fedsvd.data.open import open_source
from fedsvd.errors import ConfigError, DataError, NotNumeric, ShapeError, UnknownFormat
from fedsvd.protocol.budget import DEFAULT_MEMORY
from fedsvd.protocol.parties import named
from fedsvd.protocol.tasks import Item, Split, Task, Trust
from fedsvd.studies.job_data import prepare
from fedsvd.studies.job_file import job_from, read_job
from fedsvd.studies.jobs import plan_job
from fedsvd.studies.study import released
from fedsvd.studies.table_columns import feature_names, row_ids, with_features
from fedsvd.tasks.option import TASKS
from fedsvd.tasks.values import SCHEMES
from fedsvd.types import bytes_of

EXAMPLE = """
[job]
name = "three-hospitals"
task = "pca"                    # svd | pca | lsa | lr
split = "horizontal"
components = 5
release = ["components", "mean", "spectrum"]
[masks]
scheme = "auto"
[csp]
address = "csp.example.org:7443"
[authority]
name = "ta"
[[party]]
name = "hospital-a"
data = "data/a.parquet"
[[party]]
name = "hospital-b"
data = "data/b.csv"
"""
TWO = [{"name": "a", "data": "a.csv"}, {"name": "b", "data": "b.csv"}]


def record(**study):
    return {"job": {"name": "j", "task": "pca", **study}, "party": TWO}


def refused(file):
    with pytest.raises(ConfigError) as caught:
        job_from(file, Path())
    assert caught.value.code == "FSVD-100"
    assert caught.value.fix, "every refusal says what to do"
    return str(caught.value)


def test_the_example_of_the_documentation_is_read_as_it_says(tmp_path):
    (tmp_path / "job.toml").write_text(EXAMPLE, encoding="utf-8")
    job = read_job(tmp_path / "job.toml")
    assert (job.study.name, job.study.task, job.study.split) == ("three-hospitals", Task.PCA, Split.HORIZONTAL)
    assert job.study.components == 5
    assert job.csp.address == "csp.example.org:7443"
    assert job.authority.name == "ta"
    assert job.data_of(job.parties[1]) == tmp_path / "data" / "b.csv"


def test_the_page_about_job_files_describes_every_key_and_its_example_is_a_job():
    page = (Path(__file__).parents[3] / "docs" / "job-file.md").read_text(encoding="utf-8")
    job = job_from(record(), Path())
    for section in (job.study, job.prepare, job.masks, job.csp):
        for key in type(section).model_fields:
            assert f"`{key}`" in page, key
    blocks = page.split("```toml\n")[1:]
    assert blocks
    for block in blocks:
        job_from(tomllib.loads(block.split("```")[0]), Path())


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ({"job": {"name": "j", "taks": "pca"}, "party": TWO}, ["[job] taks", "did you mean 'task'?"]),
        ({"jobs": {}, "party": TWO}, ["[jobs]", "did you mean 'job'?"]),
        ({**record(), "memory": 5}, ["[memory]", "memory belongs to [job]"]),
        (record(scheme="auto"), ["[job] scheme", "scheme belongs to [masks]"]),
        ({**record(), "masks": {"shceme": "auto"}}, ["[masks] shceme", "did you mean 'scheme'?"]),
        ({**record(), "party": [TWO[0], {"name": "b", "date": "x"}]}, ["[[party]] 2 date", "did you mean 'data'?"]),
        ({**record(), "masks": {"scheme": "masks"}}, ["[masks] scheme", ", ".join(SCHEMES), "did you mean 'mask'?"]),
        ({**record(), "masks": {"scheme": "mixing"}}, ["[masks] scheme", "protocol 1", 'write scheme = "mask"']),
        (record(task="pcaa"), ["[job] task", ", ".join(TASKS), "did you mean 'pca'?"]),
        (record(task="predict"), ["[job] task"]),
        (record(split="horizontally"), ["[job] split", "did you mean 'horizontal'?"]),
        (record(release=["components", "meen"]), ["[job] release", "did you mean 'mean'?"]),
        ({"job": {"task": "pca"}, "party": TWO}, ["lacks [job] name"]),
        ({"party": TWO}, ["lacks [job]"]),
        (record(name="../up"), ["[job] name", "letters a to z, digits"]),
        (record(name=".hidden"), ["[job] name"]),
        (record(name="ends."), ["[job] name"]),
        (record(name="n" * 65), ["[job] name"]),
        ({**record(), "party": [TWO[0], {"name": "a/b", "data": "x"}]}, ["[[party]] 2 name"]),
        ({**record(), "party": {"name": "a"}}, ["[party]", "double brackets"]),
        ({**record(), "csp": {"address": "csp.example.org"}}, ["[csp] address", "host:port"]),
        (record(components="5"), ["[job] components", "whole number"]),
        (record(components=0), ["[job] components"]),
        (record(components=True), ["[job] components"]),
        (record(unit_variance="yes"), ["[job] unit_variance"]),
        (record(components=10**30), ["[job] components", "a whole number from 1 up"]),
        (record(memory="9" * 400), ["[job] memory", "a number up to"]),
        (record(id="i" * 1001), ["[job] id", "at most 1000 characters"]),
        (record(id="i" * 900_000), ["the job has 900,", "more than 262,144"]),
        (record(task="lr", label=[f"y{i}" for i in range(1001)]), ["[job] label", "at most 1000 items"]),
        ({**record(), "party": [{"name": f"p{i}"} for i in range(501)]}, ["[party]", "at most 500 items"]),
        (record(memory="lots"), ["[job] memory", "512 MiB"]),
        (record(memory=0), ["[job] memory"]),
        ({"job": [], "party": TWO}, ["[job]"]),
        ({**record(), "party": []}, ["parties in this job: 0", "at least two"]),
        ({**record(), "party": TWO[:1]}, ["parties in this job: 1", "at least two"]),
        ({**record(), "party": [TWO[0], {"name": "A", "data": "x"}]}, ["two parties are named A"]),
        (record(label="y"), ["label does not apply to task 'pca'"]),
        (record(task="svd", alpha=1.0), ["alpha does not apply"]),
        (record(task="lr", label="y", components=3), ["components does not apply"]),
        (record(task="svd", unit_variance=True), ["unit_variance does not apply"]),
        (record(split="vertical"), ["PCA needs samples split", "horizontal"]),
        (record(task="lsa"), ["'lsa' needs a number of components"]),
        (record(task="lr"), ["'lr' needs the name of the label column"]),
        (record(task="lr", label=["y", "y"]), ["one column is named twice"]),
        (record(task="lr", label="y", id="y"), ["one column is named twice"]),
        (record(task="lr", label="y", alpha=-1.0), ["[job] alpha"]),
        (record(task="lr", label="y", alpha=float("nan")), ["[job] alpha"]),
        (record(task="lr", label="y", label_party="a"), ["label_party is for columns split"]),
        (
            record(task="lr", split="vertical", label="y", label_party="aa"),
            ["label_party is 'aa'", "one of a, b", "did you mean 'a'?"],
        ),
        (record(sort_by_id=True, id="i"), ["sort_by_id needs split = 'vertical'"]),
        (record(task="svd", split="vertical", sort_by_id=True), ["sort_by_id needs split = 'vertical'"]),
        (record(task="svd", full_matrices=True), ["full_matrices"]),
        ({**record(), "masks": {"scheme": "paper"}}, ["[masks] scheme", "fedsvd-lab", "fedsvd reproduce"]),
        (record(release=["components"]), ["release leaves out mean"]),
        (record(release=["spectrum"]), ["leaves out components, mean", '["components", "mean", "spectrum"]']),
        (record(task="svd", release=["components"]), ["release leaves out spectrum"]),
        (record(release=["components", "mean", "score"]), ["score, which pca does not have"]),
        (
            record(task="lr", label="y", release=["coefficients", "intercept", "score"]),
            ["label holder of split columns"],
        ),
    ],
)
def test_a_fault_is_named_with_its_fix(file, words):
    text = refused(file)
    for word in words:
        assert word in text


@pytest.mark.parametrize(
    ("content", "word"),
    [(b"[job\n", "is not TOML"), (b"\xff\xfe", "not UTF-8"), (None, "there is no file")],
)
def test_a_file_that_is_no_job_file_is_refused(content, word, tmp_path):
    path = tmp_path / "job.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=word):
        read_job(path)


@pytest.mark.parametrize(
    ("text", "count"),
    [(17, 17), ("17", 17), ("2 GB", 2_000_000_000), ("512MiB", 512 << 20), ("1.5 kib", 1536), ("1 TiB", 1 << 40)],
)
def test_memory_is_a_number_of_bytes_or_a_text(text, count):
    assert bytes_of(text) == count
    assert job_from(record(memory=text), Path()).study.memory == count


@pytest.mark.parametrize(
    ("study", "items"),
    [
        ({}, {Item.COMPONENTS, Item.MEAN, Item.OWN_PART}),
        ({"release": ["components", "mean", "spectrum"]}, {Item.COMPONENTS, Item.MEAN, Item.OWN_PART, Item.SPECTRUM}),
        ({"task": "svd", "release": ["components", "spectrum"]}, {Item.COMPONENTS, Item.SPECTRUM, Item.OWN_PART}),
        ({"task": "lr", "label": "y"}, {Item.COEFFICIENTS, Item.INTERCEPT}),
    ],
)
def test_a_party_always_keeps_its_own_part_and_the_spectrum_of_a_pca_goes_out_on_request_only(study, items):
    asked = job_from(record(**study), Path()).study
    assert set(released(asked.task, asked.release)) == items


def test_a_job_becomes_a_study_with_the_tables_labels_and_ids_of_its_parties(tmp_path):
    files = hospitals(tmp_path)
    job = read_job(files.job(task="lr", label="outcome", id="patient", alpha=0.5, intercept=False, memory="64 MiB"))
    prepared = prepare(job)
    assert prepared.names == ("north", "south", "west")
    study = prepared.study
    assert (study.task, study.split, study.alpha, study.centre) == (Task.LR, Split.HORIZONTAL, 0.5, False)
    assert (study.trust, study.scheme, study.memory, study.targets) == (Trust.PEERS, "auto", 64 << 20, 1)
    assert not study.check_ids
    assert prepared.features == (tuple(FEATURES),) * 3
    tables = [party.table for party in prepared.parties]
    np.testing.assert_array_equal(np.vstack([table.rows(0, table.shape[0]) for table in tables]), files.D)
    np.testing.assert_array_equal(np.vstack([party.labels for party in prepared.parties])[:, 0], files.y)
    assert [row for party in prepared.parties for row in party.ids] == files.joint["patient"].tolist()


def test_a_named_authority_means_that_it_deals_the_masks(tmp_path):
    files = hospitals(tmp_path)
    job = read_job(files.job(task="svd", id="patient", authority=True, masks='scheme = "mask"\nblock_size = 128'))
    study = prepare(job).study
    assert (study.trust, study.scheme, study.block_size) == (Trust.AUTHORITY, "mask", 128)
    assert study.memory is None
    assert plan_job(prepare(job)).plan.memory == DEFAULT_MEMORY


def test_rows_are_sorted_by_id_where_asked_and_the_label_holder_is_found(tmp_path):
    files = companies(tmp_path)
    keys = {"task": "lr", "split": "vertical", "label": "outcome", "id": "patient"}
    prepared = prepare(read_job(files.job(**keys, sort_by_id=True)))
    assert prepared.study.check_ids
    assert prepared.study.label_user == 3
    assert prepared.label_holder == "insurer"
    assert prepared.features == (tuple(FEATURES[:2]), tuple(FEATURES[2:4]), tuple(FEATURES[4:]))
    whole = np.hstack([party.table.rows(0, len(files.joint)) for party in prepared.parties])
    np.testing.assert_array_equal(whole, files.D)
    np.testing.assert_array_equal(prepared.parties[2].labels[:, 0], files.y)
    assert prepared.parties[0].labels is None
    for party in prepared.parties:
        assert party.ids.tolist() == files.joint["patient"].tolist()
    unsorted = prepare(read_job(files.job(**keys)))
    assert unsorted.parties[0].ids.tolist() != files.joint["patient"].tolist()


def test_whole_numbers_are_the_same_ids_whatever_type_a_file_gives_them():
    as_integers = open_source(pd.DataFrame({"id": [10, 9, 100], "x": 1.0}))
    as_floats = open_source(pd.DataFrame({"id": [10.0, 9.0, 100.0], "x": 1.0}))
    as_text = open_source(pd.DataFrame({"id": ["10", "9", "100"], "x": 1.0}))
    for source in (as_integers, as_floats, as_text):
        assert row_ids(source, "id").tolist() == ["10", "9", "100"]
    halves = open_source(pd.DataFrame({"id": [1.5, 2.0], "x": 1.0}))
    assert row_ids(halves, "id").tolist() == ["1.5", "2.0"]


@pytest.mark.parametrize("place", range(3))
def test_an_id_that_occurs_twice_is_refused_with_the_count_and_the_party(place, tmp_path):
    files = companies(tmp_path)
    name = files.parties[place][0]
    table = pd.read_csv(tmp_path / f"{name}.csv")
    table.loc[[5, 7], "patient"] = table.loc[3, "patient"]
    table.to_csv(tmp_path / f"{name}.csv", index=False)
    job = read_job(files.job(task="svd", split="vertical", id="patient", sort_by_id=True))
    with pytest.raises(DataError, match=rf"2 of party {name}'s 120 row ids") as caught:
        plan_job(prepare(job))
    assert "p0" not in str(caught.value), "how many, never which"


@pytest.mark.parametrize(
    ("keys", "kind", "words"),
    [
        ({"task": "lr", "label": "outcom"}, ConfigError, ["party north", "'outcom'"]),
        ({"task": "svd"}, None, []),
        ({"task": "lr", "label": "patient"}, NotNumeric, ["party north", "'patient'", "text"]),
        ({"task": "pca", "id": "nobody"}, ConfigError, ["party north", "'nobody'"]),
        ({"task": "pca", "components": 6, "id": "patient"}, None, []),
        ({"task": "pca", "components": 7, "id": "patient"}, ConfigError, ["components = 7", "between 1 and 6"]),
    ],
)
def test_columns_that_are_not_there_or_not_numbers_are_refused(keys, kind, words, tmp_path):
    job = read_job(hospitals(tmp_path).job(**keys))
    if kind is None:
        plan_job(prepare(job))
        return
    with pytest.raises(kind) as caught:
        plan_job(prepare(job))
    for word in words:
        assert word in str(caught.value)


def test_parties_with_other_columns_are_refused(tmp_path):
    files = hospitals(tmp_path)
    table = pd.read_parquet(tmp_path / "south.parquet")
    table.rename(columns={"dose": "Dose"}).to_parquet(tmp_path / "south.parquet", index=False)
    with pytest.raises(ShapeError, match="party south has no column 'dose'; only party south has 'Dose'"):
        prepare(read_job(files.job(task="pca", id="patient")))
    table.drop(columns="dose").to_parquet(tmp_path / "south.parquet", index=False)
    with pytest.raises(ShapeError, match="of columns: party north has 6, party south has 5"):
        prepare(read_job(files.job(task="pca", id="patient")))


def test_the_label_is_held_by_exactly_one_party_of_split_columns(tmp_path):
    files = companies(tmp_path)
    keys = {"task": "lr", "split": "vertical", "label": "outcome", "id": "patient"}
    table = pd.read_csv(tmp_path / "bank.csv").assign(outcome=0.0)
    table.to_csv(tmp_path / "bank.csv", index=False)
    with pytest.raises(ConfigError, match="the label column is in the tables of bank, insurer"):
        prepare(read_job(files.job(**keys)))
    with pytest.raises(ConfigError, match="bank has a column with the name of the label too"):
        prepare(read_job(files.job(**keys, label_party="insurer")))
    with pytest.raises(ConfigError, match="no party's table has the label column"):
        prepare(read_job(files.job(**{**keys, "label": "income"})))
    with pytest.raises(ConfigError, match="party shop has no label column"):
        prepare(read_job(companies(tmp_path).job(**keys, label_party="shop")))


def test_a_file_that_is_not_there_is_refused_with_its_party(tmp_path):
    files = hospitals(tmp_path)
    (tmp_path / "west.tsv").unlink()
    with pytest.raises(UnknownFormat, match="party west: there is no file"):
        prepare(read_job(files.job(task="svd", id="patient")))
    job = job_from({"job": {"name": "j", "task": "svd"}, "party": [{"name": "a"}, {"name": "b"}]}, tmp_path)
    with pytest.raises(ConfigError, match="party a names no data"):
        prepare(job)


def test_parties_with_other_numbers_of_rows_are_refused(tmp_path):
    files = companies(tmp_path)
    pd.read_csv(tmp_path / "shop.csv")[:50].to_csv(tmp_path / "shop.csv", index=False)
    with pytest.raises(ShapeError, match="different numbers of rows"):
        plan_job(prepare(read_job(files.job(task="svd", split="vertical", id="patient"))))


def test_new_data_is_matched_to_the_features_by_name_or_by_position():
    table = pd.DataFrame({"b": [1.0], "note": ["text"], "a": [2.0]})
    np.testing.assert_array_equal(with_features(open_source(table), ("a", "b")).rows(0, 1), [[2.0, 1.0]])
    with pytest.raises(DataError, match="1 of 2 columns are missing, the first is 'c'"):
        with_features(open_source(table), ("a", "c"))
    bare = open_source(np.ones((1, 2)))
    assert with_features(bare, ("a", "b")) is bare
    with pytest.raises(DataError, match="2 columns without names, the result was made from 3"):
        with_features(bare, ("a", "b", "c"))
    assert feature_names(bare) == ("x0", "x1")


def test_numbers_of_parties_become_their_names():
    text = "Party 2: user 1 and user-2 and party 12 sent 3 rows"
    assert named(text, ("bank", "shop")) == "Party shop: party bank and party shop and party 12 sent 3 rows"


def test_a_job_that_is_written_as_json_is_the_same_job(tmp_path):
    """What the one-liners make of their options goes through the same check as a file."""
    assert job_from(json.loads(json.dumps(record(components=2))), tmp_path) == job_from(record(components=2), tmp_path)
