"""``run`` and the task verbs: equal to scikit-learn on the joint table, and honest about what they reveal."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.linear_model import LinearRegression, Ridge
from tests.studies import CLOSE, FEATURES

from fedsvd.cli import study
from fedsvd.cli.tasks import named_parties
from fedsvd.errors import ConfigError


def close(found, expected, scale=None):
    scale = np.abs(expected).max() if scale is None else scale
    np.testing.assert_allclose(found, expected, rtol=0, atol=CLOSE * scale)


def test_a_job_file_is_run_and_its_results_lie_under_its_name(fedsvd, by_rows):
    job = by_rows.job("trial", task="pca", components=2, id="patient", release=["components", "mean", "spectrum"])
    said = fedsvd("run", job, "--env", "sim", "--format", "json")
    assert said.code == 0, said.err
    record = said.json
    assert (record["job"], record["task"], record["split"], record["trust"]) == ("trial", "pca", "horizontal", "peers")
    assert record["out"] == "results/trial"
    assert record["parties"] == {name: f"results/trial/parties/{name}" for name in ("north", "south", "west")}
    twin = PCA(2, svd_solver="full").fit(by_rows.joint.drop(columns="patient"))
    close(np.load("results/trial/components.npy"), twin.components_)
    close(np.load("results/trial/explained_variance.npy"), twin.explained_variance_)
    manifest = json.loads((by_rows.folder / "results/trial/manifest.json").read_text(encoding="utf-8"))
    assert manifest["plan_digest"] == record["plan_digest"]
    assert manifest["certificate"]["bytes_total"] == record["bytes"]


def test_a_run_is_told_in_words_with_the_spectrum_it_released(fedsvd, by_rows):
    job = by_rows.job("trial", task="svd", id="patient", authority=True)
    said = fedsvd("run", job, "--out", "elsewhere")
    assert said.code == 0
    assert "trial: svd, horizontal split, 3 parties" in said.out
    assert "dealt by authority" in said.out
    largest = np.linalg.svd(by_rows.joint.drop(columns="patient").to_numpy(), compute_uv=False)[0]
    assert f"{largest:.6g}" in said.out
    assert "elsewhere/" in said.out
    assert "party north: compress 100 %" in said.err, "plain lines where there is no terminal"


def test_notices_are_readable_and_name_the_parties(fedsvd, by_rows):
    words = ["svd", *by_rows.options(), "--id", "patient"]
    said = fedsvd(*words, "--quiet")
    assert said.err.startswith("Privacy: ")
    assert "party north brings 40 records" in said.err.replace("\n  ", " ")
    assert "PrivacyWarning" not in said.err
    assert "warnings.warn" not in said.err
    said = fedsvd(*words, "--overwrite", "--format", "json", "-q")
    assert any("party north brings 40 records" in notice for notice in said.json["notices"])
    assert len(set(said.json["notices"])) == len(said.json["notices"])


def test_a_result_is_not_overwritten_unless_asked_and_that_is_said_before_the_work(fedsvd, by_rows, monkeypatch):
    words = ["svd", *by_rows.options(), "--id", "patient", "--out", "here"]
    assert fedsvd(*words).code == 0
    before = pd.read_csv("here/spectrum.csv")
    run_job = study.run_job
    monkeypatch.setattr(study, "run_job", lambda *_, **__: pytest.fail("the work was done"))
    said = fedsvd(*words)
    assert said.code == 1
    assert said.err.startswith("FSVD-350: here is there already")
    monkeypatch.setattr(study, "run_job", run_job)
    assert fedsvd(*words, "--components", "2", "--overwrite").code == 0
    assert len(pd.read_csv("here/spectrum.csv")) == 2 < len(before)


def test_svd_in_one_line(fedsvd, by_rows):
    assert fedsvd("svd", *by_rows.options(), "--id", "patient", "--out", "o", "--scheme", "mask").code == 0
    D = by_rows.joint.drop(columns="patient").to_numpy()
    left = [np.load(f"o/parties/{name}/left_vectors.npy") for name, _ in by_rows.parties]
    close((np.vstack(left) * np.load("o/singular_values.npy")) @ np.load("o/components.npy"), D)


def test_svd_of_split_columns_in_one_line(fedsvd, by_columns):
    words = ["svd", *by_columns.options(), "--split", "vertical", "--id", "patient", "--sort-by-id", "--out", "o"]
    assert fedsvd(*words, "--trust", "authority").code == 0
    parts = [np.load(f"o/parties/{name}/components.npy") for name, _ in by_columns.parties]
    D = by_columns.joint[[*FEATURES, "outcome"]].to_numpy()
    close(np.load("o/left_vectors.npy") * np.load("o/singular_values.npy") @ np.hstack(parts), D)


def test_the_papers_scheme_is_refused_with_where_it_is(fedsvd, by_rows):
    said = fedsvd("svd", *by_rows.options(), "--id", "patient", "--out", "o", "--scheme", "paper")
    assert said.code != 0
    assert "fedsvd-lab" in " ".join(said.err.split())


def test_pca_in_one_line(fedsvd, by_rows):
    options = ["--components", "3", "--unit-variance", "--release", "spectrum", "--memory", "16 MiB"]
    assert fedsvd("pca", *by_rows.options(), "--id", "patient", *options, "--out", "o").code == 0
    D = by_rows.joint.drop(columns="patient")
    Z = ((D - D.mean()) / D.std(ddof=0)).to_numpy()
    twin = PCA(3, svd_solver="full").fit(Z)
    close(np.load("o/components.npy"), twin.components_)
    close(np.load("o/singular_values.npy"), twin.singular_values_)
    scores = [np.load(f"o/parties/{name}/scores.npy") for name, _ in by_rows.parties]
    close(np.vstack(scores), twin.transform(Z))


def test_lsa_in_one_line(fedsvd, by_rows):
    assert fedsvd("lsa", *by_rows.options(), "--id", "patient", "--components", "2", "--out", "o").code == 0
    twin = TruncatedSVD(2, algorithm="arpack").fit(by_rows.joint.drop(columns="patient"))
    close(np.load("o/singular_values.npy"), twin.singular_values_)
    close(np.load("o/components.npy"), twin.components_)
    said = fedsvd("lsa", *by_rows.options(), "--id", "patient", "--out", "p")
    assert "needs a number of components" in said.err


def test_regression_on_split_rows_in_one_line(fedsvd, by_rows):
    words = ["lr", *by_rows.options(), "--id", "patient", "--label", "outcome", "--out", "o"]
    assert fedsvd(*words, "--alpha", "3").code == 0
    twin = Ridge(3, solver="svd").fit(by_rows.D, by_rows.y)
    close(np.load("o/coefficients.npy")[0], twin.coef_)
    assert fedsvd(*words, "--no-intercept", "--label", "pressure", "--overwrite").code == 0
    X, Y = by_rows.joint[FEATURES[:4]], by_rows.joint[["outcome", "pressure"]]
    close(np.load("o/coefficients.npy"), LinearRegression(fit_intercept=False).fit(X, Y).coef_)
    assert not np.load("o/intercept.npy").any()


def test_regression_on_split_columns_in_one_line_with_its_score(fedsvd, by_columns):
    words = ["lr", *by_columns.options(), "--split", "vertical", "--id", "patient", "--sort-by-id"]
    words += ["--label", "outcome", "--label-party", "insurer", "--release", "score", "--out", "o"]
    said = fedsvd(*words, "--format", "json")
    assert said.code == 0
    twin = LinearRegression().fit(by_columns.D, by_columns.y)
    parts = [np.load(f"o/parties/{name}/coefficients.npy")[0] for name, _ in by_columns.parties]
    close(np.hstack(parts), twin.coef_)
    assert said.json["score"]["outcome"]["r2"] == pytest.approx(twin.score(by_columns.D, by_columns.y), rel=CLOSE)
    assert "R^2" in fedsvd(*words, "--overwrite").out


def test_rows_in_another_order_are_refused_without_a_count_and_nothing_is_written(fedsvd, by_columns, tmp_path):
    words = ["svd", *by_columns.options(), "--split", "vertical", "--id", "patient", "--out", "o"]
    said = fedsvd(*words)
    assert said.code == 1
    assert said.err.splitlines()[-1].startswith("FSVD-208: ")
    assert "rows have different ids" in said.err
    assert " of 120 rows" not in said.err
    assert "p00" not in said.err
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    ("change", "code", "word"),
    [
        (lambda table: table.assign(dose=np.nan), "FSVD-201", "missing, NaN or infinite"),
        (lambda table: table.assign(dose="high"), "FSVD-202", "not numbers"),
        (lambda table: table[:0], "FSVD-204", ""),
        (lambda table: table.drop(columns="dose"), "FSVD-101", "party south has 5"),
    ],
)
def test_bad_tables_are_refused_before_anything_is_written(change, code, word, fedsvd, by_rows, tmp_path):
    change(pd.read_parquet("south.parquet")).to_parquet("south.parquet", index=False)
    said = fedsvd("svd", *by_rows.options(), "--id", "patient", "--out", "o", "--format", "json")
    assert said.code == 1
    assert said.json["error"]["code"] == code
    assert word in said.json["error"]["fault"]
    assert "south" in said.json["error"]["fault"]
    assert not (tmp_path / "o").exists()


def test_one_party_and_too_many_components_are_refused(fedsvd, by_rows):
    assert "at least two" in fedsvd("svd", "--party", "north.csv", "--id", "patient").err
    said = fedsvd("pca", *by_rows.options(), "--id", "patient", "--components", "7")
    assert said.err.startswith("FSVD-100: --components 7")


def test_parties_are_named_by_word_or_by_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert named_parties(["a/data.csv", "b/data.csv", "data.csv.gz", "bank=c.csv", "q 1 (old).npy", "?.csv"]) == [
        {"name": "data", "data": "a/data.csv"},
        {"name": "data-2", "data": "b/data.csv"},
        {"name": "data-3", "data": "data.csv.gz"},
        {"name": "bank", "data": "c.csv"},
        {"name": "q-1-old", "data": "q 1 (old).npy"},
        {"name": "party", "data": "?.csv"},
    ]
    (tmp_path / "k=3.csv").write_text("", encoding="utf-8")
    assert named_parties(["k=3.csv"]) == [{"name": "k-3", "data": "k=3.csv"}]
    with pytest.raises(ConfigError, match="two parties are named bank"):
        named_parties(["bank=a.csv", "bank=b.csv"])
    with pytest.raises(ConfigError, match=r"'\.\./bank' cannot be the name of a party"):
        named_parties(["../bank=a.csv"])


def test_temporary_files_go_where_they_are_told(fedsvd, by_rows, tmp_path):
    words = ["svd", *by_rows.options(), "--id", "patient", "--out", "o"]
    said = fedsvd(*words, "--scratch", tmp_path / "nowhere")
    assert (said.code, said.err[:8]) == (1, "FSVD-350")
    (tmp_path / "scratch").mkdir()
    assert fedsvd(*words, "--scratch", tmp_path / "scratch").code == 0
    assert list((tmp_path / "scratch").iterdir()) == []
