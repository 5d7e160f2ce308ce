"""``fedsvd lr --inference`` and ``inference = true``: the table of statsmodels, on screen, in files and read back."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from tests.exact_csv import read_exact
from tests.studies import FEATURES
from tests.tolerances import PRINTED_BAR, STATISTIC_BAR, assert_close, assert_each_close
from tests.unit.statistics.tables import assert_table_of, assert_vif_of, fitted

from fedsvd import load
from fedsvd.cli import reports
from fedsvd.cli.approve import question
from fedsvd.errors import ConfigError
from fedsvd.results.regression_table import models_of
from fedsvd.results.write import read_result
from fedsvd.studies.job_data import prepare
from fedsvd.studies.job_file import read_job
from fedsvd.studies.jobs import plan_job

KEYS = {"task": "lr", "label": "outcome", "id": "patient"}


def assert_tables_of(folder, D, y):
    expected = fitted(D, y)
    table = read_exact(folder / "coefficients.csv")
    assert list(table.columns) == ["term", "coef", "se", "t", "p", "low", "high"]
    assert list(table["term"]) == ["(intercept)", *FEATURES]
    assert_close(table["coef"] / expected.bse, expected.params / expected.bse, STATISTIC_BAR)
    assert_each_close(table["se"], expected.bse, STATISTIC_BAR)
    assert_each_close(table["p"], expected.pvalues, STATISTIC_BAR)
    (model,) = models_of(read_result(folder))
    assert_table_of(model, expected)
    assert_vif_of(model, D)
    covariance = read_exact(folder / "covariance.csv", index_col="term")
    np.testing.assert_array_equal(covariance.to_numpy(), np.load(folder / "covariance.npy")[0])


def test_the_option_writes_the_table_of_statsmodels_for_every_reader(fedsvd, by_rows):
    said = fedsvd("lr", *by_rows.options(), "--label", "outcome", "--id", "patient", "--inference", "--out", "out")
    assert said.code == 0, said.err
    expected = fitted(by_rows.D, by_rows.y)
    assert "(intercept)" in said.out
    row = next(line for line in said.out.splitlines() if line.startswith("heart rate "))
    assert f"{expected.params[3]:.5g}" in row
    assert f"{expected.bse[3]:.5g}" in row
    for folder in (by_rows.folder / "out", *(by_rows.folder / "out/parties" / name for name in ("north", "west"))):
        assert_tables_of(folder, by_rows.D, by_rows.y)


def test_the_key_of_a_job_file_says_the_same_as_the_option(fedsvd, by_rows):
    job = by_rows.job("trial", inference=True, **KEYS)
    record = fedsvd("run", job, "--format", "json", "-q").json
    assert (record["mode"], record["released"]) == ("A", ["coefficients", "intercept", "inference"])
    said = record["inference"]["outcome"]
    expected = fitted(by_rows.D, by_rows.y)
    assert_each_close(
        [said[name] for name in ("sigma", "r2", "f", "log_likelihood", "aic", "bic", "condition")],
        [np.sqrt(expected.scale), expected.rsquared, expected.fvalue, expected.llf, expected.aic, expected.bic,
         expected.condition_number],
        STATISTIC_BAR,
    )  # fmt: skip
    assert said["df_residual"] == expected.df_resid
    assert said["not_defined"] == {}
    assert_tables_of(by_rows.folder / "results/trial", by_rows.D, by_rows.y)
    released = by_rows.job("named", release=["coefficients", "intercept", "inference"], **KEYS)
    assert fedsvd("run", released, "--format", "json", "-q").json["inference"].keys() == {"outcome"}


def test_a_folder_is_loaded_as_an_estimator_with_its_table(fedsvd, by_rows):
    assert fedsvd("run", by_rows.job("trial", inference=True, **KEYS), "-q").code == 0
    expected = fitted(by_rows.D, by_rows.y)
    for folder in ("results/trial", "results/trial/parties/south"):
        regression = load(by_rows.folder / folder)
        assert regression.inference
        frame = regression.summary_frame()
        assert_each_close(frame["t"], expected.tvalues, STATISTIC_BAR)
        assert "outcome" in str(regression.summary())
        new = regression.prediction_frame(by_rows.joint[FEATURES][:4])
        design = np.column_stack((np.ones(4), by_rows.D[:4]))
        wanted = expected.get_prediction(design).summary_frame()
        assert_close(new["new_high"].to_numpy(), wanted["obs_ci_upper"].to_numpy(), STATISTIC_BAR)


def test_several_targets_stand_below_each_other(fedsvd, by_rows):
    keys = KEYS | {"label": ["outcome", "pressure"]}
    assert fedsvd("run", by_rows.job("trial", inference=True, **keys), "-q").code == 0
    table = read_exact("results/trial/coefficients.csv")
    assert list(table.columns)[:2] == ["target", "term"]
    for target in keys["label"]:
        expected = fitted(by_rows.D[:, :4], by_rows.joint[target].to_numpy())
        assert_each_close(table.loc[table["target"] == target, "se"], expected.bse, STATISTIC_BAR)
    assert np.load("results/trial/covariance.npy").shape == (2, 5, 5)


def test_a_ridge_has_no_standard_errors_in_any_file_and_says_why(fedsvd, by_rows):
    said = fedsvd("run", by_rows.job("trial", inference=True, alpha=2.0, **KEYS), "-q")
    assert "a penalty shrinks the coefficients" in said.out
    assert pd.read_csv("results/trial/coefficients.csv")["se"].isna().all()
    assert not (by_rows.folder / "results/trial/covariance.npy").exists()
    manifest = json.loads((by_rows.folder / "results/trial/manifest.json").read_text())
    assert "penalty" in manifest["facts"]["inference"]["outcome"]["not_defined"]["standard_errors"]
    assert load(by_rows.folder / "results/trial").summary_frame()["se"].isna().all()


def test_the_plan_shows_what_inference_reveals_and_how_much_freedom_is_left(fedsvd, by_rows):
    record = fedsvd("plan", by_rows.job(inference=True, **KEYS), "--format", "json").json
    assert record["mode"] == "A"
    assert "all will hold" in record["released"]["inference"]
    learned = "\n".join(record["learns"])
    assert "Parties open the table's sums a few digits at a time" in learned
    whole = fedsvd("plan", by_rows.job(inference=True, digits="all", **KEYS), "--format", "json").json
    assert any("joint Gram matrix of features and labels (6 x 6)" in line for line in whole["learns"])
    assert "120 records less 6 coefficients leave n - p = 114" in learned
    assert not any(notice.startswith("freedom") for notice in record["notices"])
    assert not any("consent_to_gram" in notice for notice in record["notices"])
    ridge = fedsvd("plan", by_rows.job(inference=True, alpha=1.0, **KEYS), "--format", "json").json
    assert any("consent_to_gram = true" in notice for notice in ridge["notices"])


def test_approval_asks_with_the_sentence_that_all_parties_will_hold_the_gram_matrix(by_rows):
    table, all_digits, without = (
        plan_job(prepare(read_job(by_rows.job(**asked, **KEYS)))).plan
        for asked in ({"inference": True}, {"inference": True, "digits": "all"}, {"inference": False})
    )
    assert question([], table).startswith("All parties will hold the joint Gram matrix, in a few digits.")
    assert question([], all_digits).startswith("All parties will hold the joint Gram matrix.")
    assert question([], without) == "Do you approve this job?"


@pytest.mark.parametrize(("masks", "reason"), [('mode = "B"', "mode 'B'"), ('scheme = "mask"', "exact sum")])
def test_other_ways_of_hiding_are_refused_with_the_reason(fedsvd, by_rows, masks, reason):
    said = fedsvd("plan", by_rows.job(inference=True, masks=masks, **KEYS))
    assert said.code != 0
    assert reason in said.err
    assert "leave inference out" in said.err.replace("\n", " ")


def test_other_tasks_do_not_take_the_key(fedsvd, by_rows):
    said = fedsvd("plan", by_rows.job(task="pca", id="patient", inference=True))
    assert "inference does not apply to task 'pca'" in said.err


COLUMNS = KEYS | {"split": "vertical", "sort_by_id": True}


def test_on_split_columns_each_party_has_the_rows_of_its_own_columns(fedsvd, by_columns):
    ran = fedsvd("run", by_columns.job("trial", inference=True, **COLUMNS), "-q")
    assert ran.code == 0
    expected = fitted(by_columns.D, by_columns.y)
    folder, at = by_columns.folder / "results/trial", 1
    assert not (folder / "coefficients.csv").exists()
    for name, count in (("bank", 2), ("shop", 2), ("insurer", 1)):
        own = pd.read_csv(folder / f"parties/{name}/coefficients.csv")
        rows = [0, *range(at, at + count)]
        assert_each_close(own["se"], expected.bse[rows], STATISTIC_BAR)
        assert f"{name}, its own columns" in ran.out
        said = json.loads((folder / f"parties/{name}/manifest.json").read_text())["facts"]["inference"]["outcome"]
        assert_each_close([said["r2"], said["f"]], [expected.rsquared, expected.fvalue], STATISTIC_BAR)
        page = (folder / f"parties/{name}/report.html").read_text()
        assert "Effects on outcome" in page
        loaded = load(folder / "parties" / name)
        assert_each_close(loaded.summary_frame()["se"], expected.bse[rows], STATISTIC_BAR)
        at += count
    joint = load(folder)
    assert_each_close(joint.summary_frame()["se"], expected.bse, STATISTIC_BAR)
    with pytest.raises(ConfigError, match="covariances of all coefficients"):
        joint.prediction_frame(by_columns.joint[FEATURES][:4])


def test_on_split_columns_a_ridge_is_chosen_and_read_back(fedsvd, by_columns):
    job = by_columns.job("trial", alphas=[0.1, 10.0, 1000.0], choose_by="gcv", **COLUMNS)
    assert fedsvd("run", job, "-q").code == 0
    folder = by_columns.folder / "results/trial"
    joint, own = load(folder), load(folder / "parties/bank")
    twin = Ridge(joint.alpha_, solver="svd").fit(by_columns.D, by_columns.y)
    assert_each_close(joint.coef_, twin.coef_, STATISTIC_BAR)
    assert_each_close(own.coef_, twin.coef_[:2], STATISTIC_BAR)
    assert own.alpha_ == joint.alpha_
    assert "Error of every penalty" in (folder / "parties/shop/report.html").read_text()
    with pytest.raises(ConfigError, match="one party's columns"):
        own.predict(by_columns.D[:, :2])


def test_a_plan_says_what_tables_of_split_columns_show_and_asks_for_consent(fedsvd, by_columns):
    said = " ".join(fedsvd("plan", by_columns.job(inference=True, **COLUMNS)).out.split())
    assert "inference: to each party its own" in said
    assert "the canonical correlations, and with which of its own columns" in said
    assert "random words that hide what the CSP splits among the parties" in said


def test_approval_of_split_columns_asks_with_what_they_show(by_columns):
    def asked(**keys):
        return question([], plan_job(prepare(read_job(by_columns.job(**COLUMNS, **keys)))).plan)

    assert asked(inference=True).startswith("From its standard errors each party can compute")
    assert asked(alphas=[1.0, 2.0], choose_by="gcv").startswith("The label holder sees the joint spectrum.")
    assert asked() == "Do you approve this job?"


def test_on_split_columns_a_score_gives_the_label_holder_the_fit(fedsvd, by_columns):
    keys = COLUMNS
    job = by_columns.job("trial", release=["coefficients", "intercept", "score"], **keys)
    assert fedsvd("run", job, "-q").code == 0
    said = json.loads((by_columns.folder / "results/trial/parties/insurer/manifest.json").read_text())["facts"]["fit"]
    expected = fitted(by_columns.D, by_columns.y)
    found = [said["outcome"][name] for name in ("sigma", "adjusted_r2", "f", "f_p", "log_likelihood", "aic", "bic")]
    wanted = [np.sqrt(expected.scale), expected.rsquared_adj, expected.fvalue, expected.f_pvalue, expected.llf]
    assert_each_close(found, [*wanted, expected.aic, expected.bic], STATISTIC_BAR)
    assert said["outcome"]["df_residual"] == expected.df_resid
    for name in ("bank", "shop"):
        facts = json.loads((by_columns.folder / f"results/trial/parties/{name}/manifest.json").read_text())["facts"]
        assert "fit" not in facts
    page = (by_columns.folder / "results/trial/parties/insurer/report.html").read_text()
    assert f"F {expected.fvalue:.6g}" in page


def test_numbers_on_screen_are_those_in_the_files(fedsvd, by_rows):
    out = fedsvd("run", by_rows.job("trial", inference=True, **KEYS), "-q").out
    table = pd.read_csv("results/trial/coefficients.csv", index_col="term")
    shown = next(line for line in out.splitlines() if line.startswith("dose ")).split()
    assert_close(float(shown[1]), table.loc["dose", "coef"], 10 * PRINTED_BAR)


@pytest.mark.slow
def test_figures_are_drawn_of_the_shared_result_and_of_every_party(fedsvd, by_rows):
    options = ("--label", "outcome", "--id", "patient", "--inference", "--out", "out")
    assert fedsvd("lr", *by_rows.options(), *options).code == 0
    folder = by_rows.folder / "figures"
    said = fedsvd("report", "out", "--figures", folder, "--format", "json")
    assert said.code == 0, said.err
    drawn = {str(path.relative_to(folder)) for path in folder.rglob("*.p*") if path.is_file()}
    own = [f"parties/{name}/{what}" for name in ("north", "south", "west") for what in ("residuals", "qq", "leverage")]
    own += [f"parties/{name}/{what}" for name in ("north", "south", "west") for what in ("forest", "coefficients")]
    assert drawn == {f"{stem}.{kind}" for stem in ("forest", "coefficients", *own) for kind in ("png", "pdf")}
    assert (folder / "forest.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "forest.png").stat().st_mode & 0o077 == 0
    assert len(said.json["figures"]) == 2 + len(own)


def test_files_of_several_drawings_of_one_kind_are_named_by_what_they_are_of():
    drawn = [("forest", "y"), ("roc", "y = A"), ("roc", "y = B")]
    drawn += [("histogram", "\u00e4"), ("histogram", "\u00f6"), ("roc", "y: A")]
    names = ["forest", "roc-y-a", "roc-y-b", "histogram-1", "histogram-2", "roc-y-a-3"]
    assert reports.stems(drawn) == names
