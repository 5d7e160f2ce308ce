"""A study over the files people have: decimal commas, a workbook, Parquet parts by a glob, a DuckDB query."""

import duckdb
import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from tests.tolerances import assert_close, digits_lost

from fedsvd.data.open import files_behind


@pytest.fixture
def whole(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = pd.DataFrame(np.random.default_rng(5).normal(size=(480, 12)), columns=[f"v{j}" for j in range(12)])
    X[:120].to_csv("a.csv", sep=";", decimal=",", index=False, encoding="utf-8-sig", float_format="%.17g")
    X[120:240].to_excel("b.xlsx", index=False)
    X[240:300].to_parquet("c-1.parquet", index=False)
    X[300:360].to_parquet("c-2.parquet", index=False)
    with duckdb.connect("d.duckdb") as connection:
        connection.register("given", X[360:])
        connection.execute("CREATE TABLE visits AS SELECT * FROM given")
    return X


PARTIES = ("a.csv", "b.xlsx#Sheet1", "c=c-*.parquet", "d=duckdb://d.duckdb?query=SELECT * FROM visits")


def test_one_command_finds_the_components_that_scikit_learn_finds(fedsvd, whole):
    words = [word for party in PARTIES for word in ("--party", party)]
    said = fedsvd("pca", *words, "--components", 3, "--out", "out", "--format", "json", "--quiet")
    assert said.code == 0, said.err
    assert list(said.json["parties"]) == ["a", "b", "c", "d"]
    expected = PCA(3, svd_solver="full").fit(whole)
    found = np.load("out/components.npy")
    signs = np.sign((found * expected.components_).sum(axis=1))
    # A workbook that pandas writes has 16 digits.
    assert_close(found * signs[:, None], expected.components_, digits_lost(4))


def test_the_files_behind_every_kind_of_data_are_known(whole):
    before = [files_behind(data) for data in ("c-*.parquet", "b.xlsx#Sheet1", "a.csv", PARTIES[3].removeprefix("d="))]
    assert [[path.name for path in paths] for paths in before] == [
        ["c-1.parquet", "c-2.parquet"],
        ["b.xlsx"],
        ["a.csv"],
        ["d.duckdb"],
    ]
    assert files_behind("synthetic://5x2") == ()
