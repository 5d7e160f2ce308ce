"""The command line compares the rows of split columns, or says before and after that it did not."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.linear_model import LinearRegression
from tests.studies import CLOSE

ROWS = 300
LEFT, RIGHT = ["income", "debt", "age"], ["calls", "roaming", "topups"]
LR = ("lr", "--split", "vertical", "--label", "score", "--release", "score", "--format", "json", "-q")


@pytest.fixture
def customers(tmp_path, monkeypatch):
    """The joint table of a bank and a telco; ``lay`` writes their files, the telco's in an order of its own."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(12)
    joint = pd.DataFrame(rng.normal(size=(ROWS, 6)), columns=LEFT + RIGHT)
    joint["score"] = joint.to_numpy() @ [3.0, -2.0, 1.0, 1.0, -0.7, 0.4] + 0.7 * rng.normal(size=ROWS)
    joint["customer_id"] = 10_000 + rng.permutation(90_000)[:ROWS]
    return joint


def lay(joint, order=None, ids=()):
    """``--party`` words for bank.csv and telco.csv with these id columns, the telco's rows in this order."""
    telco = joint if order is None else joint.iloc[order]
    joint[[*ids, *LEFT, "score"]].to_csv("bank.csv", index=False)
    telco[[*RIGHT, *ids]].to_csv("telco.csv", index=False)
    return ("--party", "bank.csv", "--party", "telco.csv")


def r2(D, y):
    return LinearRegression().fit(D, y).score(D, y)


ORDER = np.random.default_rng(13).permutation(ROWS)


def test_rows_in_another_order_and_nothing_to_compare_them_by_are_warned_of_before_and_after(fedsvd, customers):
    joint = customers
    parties = lay(joint, ORDER)
    said = fedsvd(*LR, *parties, "--out", "o")
    assert said.code == 0, said
    D, wrong = joint[LEFT + RIGHT], np.hstack([joint[LEFT], joint[RIGHT].iloc[ORDER]])
    assert r2(D, joint["score"]) > 0.96
    # The numbers are exactly those of rows that do not belong together: nothing but a word can tell.
    assert said.json["score"]["score"]["r2"] == pytest.approx(r2(wrong, joint["score"]), abs=CLOSE)
    assert said.json["score"]["score"]["r2"] < 0.9
    assert said.json["rows"].startswith("NOT COMPARED: taken together by position alone")
    assert any("no row ids are compared" in notice for notice in said.json["notices"])
    shown = fedsvd(*LR[:-3], *parties, "--out", "p")
    lines = shown.err.splitlines()
    (place,) = (number for number, line in enumerate(lines) if line.startswith("Rows: no row ids are compared"))
    assert place < next(number for number, line in enumerate(lines) if line.startswith("expected: "))
    assert any(line.startswith("rows") and "NOT COMPARED" in line for line in shown.out.splitlines())
    for folder in ("o", "o/parties/bank", "o/parties/telco", "o/roles/csp"):
        page = Path(folder, "report.html").read_text()
        assert "rows not compared</span>" in page
        assert "NOT COMPARED" in page


def test_an_order_that_is_trusted_is_not_spoken_of_and_stays_in_the_plan(fedsvd, customers):
    said = fedsvd(*LR, *lay(customers), "--ids", "trust", "--out", "o")
    assert said.code == 0, said
    assert not [notice for notice in said.json["notices"] if "ids" in notice]
    assert said.json["rows"] == 'taken together by position, on the word of the study: ids = "trust"'
    assert json.loads(Path("o/manifest.json").read_text())["plan"]["trust_rows"] is True
    page = Path("o/report.html").read_text()
    assert "rows not compared" not in page
    assert "ids = &#34;trust&#34;" in page  # in the job file that repeats the study


def test_a_column_of_ids_that_is_not_named_is_refused_with_its_name(fedsvd, customers):
    parties = lay(customers, ORDER, ["customer_id"])
    said = fedsvd(*LR, *parties)
    assert (said.code, said.json["error"]["code"]) == (1, "FSVD-100")
    assert "'customer_id'" in said.json["error"]["fault"]
    assert "--id customer_id" in said.json["error"]["fix"]
    said = fedsvd(*LR, *parties, "--id", "customer_id")
    assert (said.code, said.json["error"]["code"]) == (1, "FSVD-208")
    assert "rows have different ids" in said.json["error"]["fault"]
    assert not any(sign.isdigit() for sign in said.json["error"]["fault"])  # how many would tell who is in both tables
    assert "--sort-by-id" in said.json["error"]["fix"]
    said = fedsvd(*LR, *parties, "--id", "customer_id", "--sort-by-id", "--out", "o")
    assert said.code == 0, said
    assert said.json["rows"].startswith("compared by their ids")
    right = r2(customers[LEFT + RIGHT], customers["score"])
    assert said.json["score"]["score"]["r2"] == pytest.approx(right, abs=CLOSE)
    assert "rows not compared" not in Path("o/report.html").read_text()


def test_an_index_that_pandas_wrote_is_no_feature(fedsvd, customers):
    customers[[*LEFT, "score"]].to_csv("bank.csv")
    customers[RIGHT].iloc[ORDER].to_csv("telco.csv")
    parties = ("--party", "bank.csv", "--party", "telco.csv")
    said = fedsvd(*LR, *parties)
    assert "every party has a column ''" in said.json["error"]["fault"]
    assert 'to_csv(index_label="row")' in said.json["error"]["fix"]
    customers[[*LEFT, "score"]].to_csv("bank.csv", index_label="row")
    customers[RIGHT].iloc[ORDER].to_csv("telco.csv", index_label="row")
    said = fedsvd(*LR, *parties, "--id", "row", "--sort-by-id")
    right = r2(customers[LEFT + RIGHT], customers["score"])
    assert said.json["score"]["score"]["r2"] == pytest.approx(right, abs=CLOSE)


def test_names_of_people_are_ids_too(fedsvd, customers):
    named = customers.assign(who=[f"person {number}" for number in range(ROWS)])
    said = fedsvd(*LR, *lay(named, ids=["who"]))
    assert "every party has a column 'who'" in said.json["error"]["fault"]


@pytest.mark.parametrize("verb", ["svd", "lsa"])
def test_every_task_of_split_columns_says_it(fedsvd, customers, verb):
    lay(customers, ORDER)
    words = (verb, "--split", "vertical", "--components", "2", "--party", "bank.csv", "--party", "telco.csv")
    said = fedsvd(*words, "--format", "json", "-q", "--out", "o")
    assert said.json["rows"].startswith("NOT COMPARED")
    assert any("no row ids are compared" in notice for notice in said.json["notices"])
    assert not any(
        "ids are compared" in n for n in fedsvd(*words, "--ids", "trust", "--format", "json", "-q").json["notices"]
    )


def test_split_rows_have_nothing_to_compare(fedsvd, by_rows):
    said = fedsvd("svd", *by_rows.options(), "--id", "patient", "--format", "json", "-q")
    assert said.json["rows"] is None
    said = fedsvd(
        "svd", *by_rows.options(), "--id", "patient", "--ids", "trust", "--format", "json", "-q", "--overwrite"
    )
    assert "compared where columns are split" in said.json["error"]["fault"]


def test_a_plan_says_it_too(fedsvd, customers, tmp_path):
    lay(customers)
    keys = {"name": "s", "task": "lr", "split": "vertical", "label": "score"}
    party = '[[party]]\nname = "bank"\ndata = "bank.csv"\n[[party]]\nname = "telco"\ndata = "telco.csv"\n'

    def plan(**more):
        lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in (keys | more).items())
        (tmp_path / "job.toml").write_text(f"[job]\n{lines}\n{party}")
        return fedsvd("plan", "job.toml", "--format", "json").json

    said = plan()
    assert said["rows"].startswith("NOT COMPARED")
    assert any("no row ids are compared" in notice for notice in said["notices"])
    assert not any("row ids" in notice for notice in plan(ids="trust")["notices"])
    assert "[job] ids" in plan(ids="yes")["error"]["fault"]
    assert "sort_by_id" in plan(ids="trust", id="score_id", sort_by_id=True)["error"]["fault"]


def test_predictions_compare_ids_that_are_there_and_say_where_there_are_none(fedsvd, customers):
    joint = customers
    assert fedsvd(*LR, *lay(joint), "--ids", "trust", "--out", "trusted").code == 0
    assert fedsvd(*LR, *lay(joint), "--out", "o").code == 0
    twin = LinearRegression().fit(joint[LEFT + RIGHT], joint["score"])

    def predict(*words, of="o"):
        return fedsvd(
            "predict", of, "--party", "bank=bank.csv", "--party", "telco=telco.csv", *words, "--format", "json"
        )

    said = predict()
    assert any("no row ids are compared" in notice for notice in said.json["notices"])
    found = said.json["parties"]["bank"]["values"]["score"]
    np.testing.assert_allclose(found, twin.predict(joint[LEFT + RIGHT]), rtol=0, atol=CLOSE * np.abs(found).max())
    for quiet in (predict("--ids", "trust"), predict(of="trusted")):
        assert not any("row ids" in notice for notice in quiet.json["notices"])
    lay(joint, ids=["customer_id"])
    assert not any("row ids" in notice for notice in predict().json["notices"])
    lay(joint, ORDER, ids=["customer_id"])
    assert predict().json["error"]["code"] == "FSVD-208"


def test_a_patient_number_is_pointed_out_before_the_run(fedsvd, by_rows):
    for place, (_, file) in enumerate(by_rows.parties):
        path = by_rows.folder / file
        frame = pd.read_parquet(path) if file.endswith("parquet") else pd.read_csv(path, sep=None, engine="python")
        frame["patient"] = 1000 * (place + 1) + np.arange(len(frame))
        frame.to_parquet(path, index=False) if file.endswith("parquet") else frame.to_csv(
            path, index=False, sep="\t" if file.endswith("tsv") else ","
        )
    said = fedsvd("pca", *by_rows.options(), "--components", "2")
    assert said.code == 0, said
    lines = said.err.replace("\n  ", " ").splitlines()
    (place,) = (
        number for number, line in enumerate(lines) if line.startswith("Data: party north, party south, party west")
    )
    assert "column 'patient' holds distinct whole numbers" in lines[place]
    assert "--id patient" in lines[place]
    assert place < next(number for number, line in enumerate(lines) if line.startswith("expected: "))
    quiet = fedsvd("pca", *by_rows.options(), "--components", "2", "--id", "patient", "--overwrite")
    assert "Data: " not in quiet.err


def test_a_list_of_ratings_given_to_lsa_is_pointed_out_and_the_matrix_is_not(fedsvd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(14)
    listed = pd.DataFrame({"user": rng.integers(0, 40, 900), "item": rng.integers(0, 30, 900)}).drop_duplicates()
    listed["rating"] = rng.integers(1, 6, len(listed))
    parties = []
    for name, part in (("a", listed[listed.user < 20]), ("b", listed[listed.user >= 20])):
        part.to_csv(f"{name}.csv", index=False)
        row = pd.factorize(part["user"])[0]
        sparse.save_npz(f"{name}.npz", sparse.coo_array((part["rating"], (row, part["item"])), shape=(20, 30)).tocsr())
        parties += ["--party", name]
    words = ("lsa", "--components", "2", "--format", "json", "-q", "--overwrite")
    said = fedsvd(*words, *(f"{word}.csv" if word in "ab" else word for word in parties))
    assert any("look like a list of ratings" in notice and "save_npz" in notice for notice in said.json["notices"])
    said = fedsvd(*words, *(f"{word}.npz" if word in "ab" else word for word in parties))
    assert not any("ratings" in notice for notice in said.json["notices"])


def test_a_zero_one_outcome_gets_a_hint_with_its_name(fedsvd, customers):
    yes = customers.assign(score=(customers["score"] > 0).astype(int))
    said = fedsvd(*LR, *lay(yes), "--ids", "trust")
    (hint,) = (notice for notice in said.json["notices"] if "linear probability model" in notice)
    assert hint.startswith("the outcome 'score' is 0 or 1 in every row")
    assert "task glm fits a logistic regression" in hint
