"""``predict``: what a result says of new data, alone or together, equal to scikit-learn on the joint table."""

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression
from tests.studies import CLOSE, FEATURES, joint_table


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=CLOSE * np.abs(expected).max())


@pytest.fixture
def new(tmp_path):
    """Thirty new patients."""
    return joint_table(seed=11, rows=30)


@pytest.fixture
def churn(fedsvd, by_columns):
    """A regression on split columns, its files, and the twin."""
    words = ["--split", "vertical", "--id", "patient", "--sort-by-id", "--label", "outcome", "--out", "o", "-q"]
    assert fedsvd("lr", *by_columns.options(), *words).code == 0
    return LinearRegression().fit(by_columns.D, by_columns.y)


def split(new, shuffled=False):
    """New tables of the three companies, with a column more than the model knows."""
    for name, columns in {"bank": FEATURES[:2], "shop": FEATURES[2:4], "insurer": FEATURES[4:]}.items():
        table = new[["patient", *columns[::-1]]].assign(remark="none")
        (table[::-1] if shuffled and name == "shop" else table).to_csv(f"new-{name}.csv", index=False)
    return [word for name in ("bank", "shop", "insurer") for word in ("--party", f"{name}=new-{name}.csv")]


def test_scores_of_new_rows_from_the_jobs_folder_and_from_a_partys(fedsvd, by_rows, new):
    assert fedsvd("pca", *by_rows.options(), "--id", "patient", "--components", "2", "--out", "o").code == 0
    twin = PCA(2, svd_solver="full").fit(by_rows.joint.drop(columns="patient").to_numpy())
    expected = twin.transform(new.drop(columns="patient").to_numpy())
    new[["outcome", "patient", *FEATURES]].to_csv("new.csv", index=False)
    for place in ("o", "o/parties/west"):
        said = fedsvd("predict", place, "--party", "new.csv", "--format", "json")
        assert said.code == 0, said.out
        found = said.json["parties"]["new"]
        assert (found["what"], found["shape"]) == ("scores", [30, 2])
        values = pd.DataFrame(found["values"])
        assert values["id"].tolist() == new["patient"].tolist()
        close(values[["component_1", "component_2"]].to_numpy(), expected)
    said = fedsvd("predict", "o", "--party", "new.csv", "--out", "p")
    assert "new: scores, 30 rows" in said.out
    assert "the first 5 of 30" in said.out
    close(np.load("p/parties/new/scores.npy"), expected)
    said = fedsvd("predict", "o", "--party", "new.csv", "--out", "p", "--format", "json")
    assert said.json["error"]["code"] == "FSVD-350"
    said = fedsvd("predict", "o", "--party", "new.csv", "--out", "p", "--overwrite", "--format", "json")
    assert said.json["parties"]["new"]["values"] is None, "what is in a folder is not said twice"


def test_predictions_of_split_rows_with_their_score(fedsvd, by_rows, new):
    words = ["--id", "patient", "--label", "outcome", "--out", "o"]
    assert fedsvd("lr", *by_rows.options(), *words).code == 0
    twin = LinearRegression().fit(by_rows.D, by_rows.y)
    new.to_csv("new.csv", index=False)
    new.drop(columns="outcome")[:7].to_parquet("seven.parquet", index=False)
    said = fedsvd("predict", "o/parties/north", "--party", "new.csv", "--party", "seven.parquet", "--format", "json")
    assert said.code == 0
    found = said.json["parties"]
    close(found["new"]["values"]["outcome"], twin.predict(new[FEATURES].to_numpy()))
    close(found["seven"]["values"]["outcome"], twin.predict(new[FEATURES].to_numpy())[:7])
    expected = twin.score(new[FEATURES].to_numpy(), new["outcome"])
    assert found["new"]["score"]["outcome"]["r2"] == pytest.approx(expected, rel=CLOSE)
    assert "score" not in found["seven"]
    assert "R^2" in fedsvd("predict", "o", "--party", "new.csv").out


def test_split_columns_are_predicted_together_for_the_label_holder_alone(fedsvd, churn, new):
    expected = churn.predict(new[FEATURES].to_numpy())
    said = fedsvd("predict", "o", *split(new), "--out", "p", "--format", "json")
    assert said.code == 0, said.out
    assert set(said.json["parties"]) == {"insurer"}
    close(np.load("p/parties/insurer/predictions.npy")[:, 0], expected)
    table = pd.read_csv("p/parties/insurer/predictions.csv")
    assert table["id"].tolist() == new["patient"].tolist()
    assert table.columns.tolist() == ["id", "outcome"]


def test_files_are_matched_to_parties_by_name_or_in_order(fedsvd, churn, new):
    expected = churn.predict(new[FEATURES].to_numpy())
    words = split(new)
    swapped = [*words[4:], *words[:4]]
    found = fedsvd("predict", "o", *swapped, "--format", "json").json["parties"]["insurer"]["values"]["outcome"]
    close(found, expected)
    unnamed = [word.partition("=")[2] or word for word in words]
    found = fedsvd("predict", "o", *unnamed, "--format", "json").json["parties"]["insurer"]["values"]["outcome"]
    close(found, expected)
    said = fedsvd("predict", "o", *words[:4], "--party", "insurance=new-insurer.csv")
    assert said.err.startswith("FSVD-100: this job has no party insurance")
    said = fedsvd("predict", "o", *words[:4])
    assert said.err.startswith("FSVD-100: 2 tables for 3 parties")


def test_new_rows_that_do_not_belong_together_are_refused(fedsvd, churn, new):
    said = fedsvd("predict", "o", *split(new, shuffled=True), "--format", "json")
    assert said.json["error"]["code"] == "FSVD-208"
    words = split(new)
    pd.read_csv("new-shop.csv").drop(columns="patient").to_csv("new-shop.csv", index=False)
    said = fedsvd("predict", "o", *words)
    assert "the tables of shop have no column 'patient'" in said.err
    words = split(new)
    pd.read_csv("new-shop.csv")[:9].to_csv("new-shop.csv", index=False)
    assert fedsvd("predict", "o", *words, "--format", "json").json["error"]["code"] == "FSVD-101"
    words = split(new)
    pd.read_csv("new-bank.csv").drop(columns="dose").to_csv("new-bank.csv", index=False)
    said = fedsvd("predict", "o", *words)
    assert "party bank: 1 of 2 columns are missing, the first is 'dose'" in said.err


def test_one_partys_folder_is_not_enough_for_split_columns(fedsvd, churn, new):
    said = fedsvd("predict", "o/parties/bank", *split(new))
    assert said.err.startswith("FSVD-100: a prediction on split columns needs the results of all parties")


def test_the_score_of_new_rows_is_the_label_holders(fedsvd, churn, new):
    words = split(new)
    new[["patient", "pressure", "outcome"]].to_csv("new-insurer.csv", index=False)
    found = fedsvd("predict", "o", *words, "--format", "json").json["parties"]["insurer"]
    expected = churn.score(new[FEATURES].to_numpy(), new["outcome"])
    assert found["score"]["outcome"]["r2"] == pytest.approx(expected, rel=CLOSE)


def test_new_columns_are_folded_into_factors_of_split_columns(fedsvd, by_columns):
    words = ["--split", "vertical", "--id", "patient", "--sort-by-id", "--components", "3", "--out", "o"]
    assert fedsvd("lsa", *by_columns.options(), *words).code == 0
    rng = np.random.default_rng(2)
    fresh = pd.DataFrame({"patient": by_columns.joint["patient"], "a": rng.normal(size=120), "b": rng.normal(size=120)})
    fresh.sample(frac=1, random_state=5).to_csv("fresh.csv", index=False)
    U = np.load("o/left_vectors.npy")
    expected = fresh[["a", "b"]].to_numpy().T @ U
    found = fedsvd("predict", "o/parties/bank", "--party", "fresh.csv", "--format", "json").json["parties"]["fresh"]
    values = pd.DataFrame(found["values"]).set_index("feature")
    assert values.index.tolist() == ["a", "b"]
    close(values.to_numpy(), expected)
    fresh[1:].to_csv("fresh.csv", index=False)
    said = fedsvd("predict", "o/parties/bank", "--party", "fresh.csv")
    assert said.err.startswith("FSVD-208: party fresh: 1 of 120 row ids")
    said = fedsvd("predict", "o", "--party", "fresh.csv")
    assert said.err.startswith("FSVD-208: party fresh: the table has 119 rows")


def test_damaged_results_and_missing_columns_are_refused(fedsvd, by_rows, new, tmp_path):
    assert fedsvd("pca", *by_rows.options(), "--id", "patient", "--components", "2", "--out", "o").code == 0
    new.drop(columns="dose").to_csv("new.csv", index=False)
    said = fedsvd("predict", "o", "--party", "new.csv", "--format", "json")
    assert said.json["error"]["fault"] == "party new: 1 of 6 columns are missing, the first is 'dose'"
    assert fedsvd("predict", tmp_path, "--party", "new.csv").err.startswith("FSVD-350")
    (tmp_path / "o" / "mean.npy").write_bytes(b"")
    said = fedsvd("predict", "o", "--party", "new.csv", "--format", "json")
    assert said.json["error"]["code"] == "FSVD-350"
    assert "damaged" in said.json["error"]["fault"]
