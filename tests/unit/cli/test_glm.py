"""``fedsvd glm`` and ``task = "glm"``: the table of statsmodels on screen, in files, in reports, and read back."""

import numpy as np
import pytest
import statsmodels.api as sm
from sklearn.metrics import brier_score_loss, roc_auc_score
from tests.exact_csv import read_exact
from tests.studies import FEATURES
from tests.tolerances import GLM_BAR, assert_close, assert_each_close
from tests.unit.results.report.pages import page

from fedsvd import FederatedGLM, FederatedLogisticRegression, load
from fedsvd.errors import ConfigError
from fedsvd.results.model_table import models_of
from fedsvd.results.write import read_result
from fedsvd.studies.job_data import prepare
from fedsvd.studies.job_file import job_from, read_job
from fedsvd.studies.jobs import plan_job

CLASSES = ["--class", "low", "--class", "high"]
PERMISSIVE = ["--least-events", "0"]


@pytest.fixture
def outcomes(by_rows):
    """The same files with an outcome of two classes, as text, a count and a time."""
    rng = np.random.default_rng(2)
    noisy = by_rows.y + 20.0 * rng.normal(size=len(by_rows.y))
    joint = by_rows.joint.drop(columns="outcome")
    joint["grade"] = np.where(noisy > np.median(noisy), "high", "low")
    joint["log_time"] = rng.normal(size=len(joint)) / 3.0
    joint["visits"] = rng.poisson(np.exp(0.5 + joint["log_time"]))
    joint[:40].to_csv(by_rows.folder / "north.csv", index=False)
    joint[40:75].to_parquet(by_rows.folder / "south.parquet", index=False)
    joint[75:].to_csv(by_rows.folder / "west.tsv", index=False, sep="\t")
    return joint


def expected(joint, family, target, **settings):
    design = sm.add_constant(joint[FEATURES].to_numpy())
    return sm.GLM(target, design, family=family, **settings).fit(tol=1e-13, maxiter=100, tol_criterion="params")


def test_a_label_of_text_is_modelled_by_its_classes(fedsvd, by_rows, outcomes):
    words = ["--label", "grade", "--id", "patient", "--family", "binomial", "--drop", "log_time,visits"]
    said = fedsvd("glm", *by_rows.options(), *words, *CLASSES, *PERMISSIVE, "--out", by_rows.folder / "out")
    assert said.code == 0, said.err
    theirs = expected(outcomes, sm.families.Binomial(), (outcomes["grade"] == "high").to_numpy(dtype=float))
    assert "grade = high" in said.out
    assert f"{theirs.params[2]:.5g}" in said.out
    for folder in ("out", "out/parties/north"):
        table = read_exact(by_rows.folder / folder / "coefficients.csv")
        assert list(table.columns) == ["term", "coef", "se", "z", "p", "low", "high"]
        assert list(table["term"]) == ["(intercept)", *FEATURES]
        assert_each_close(table["coef"], theirs.params, GLM_BAR)
        assert_each_close(table["p"], theirs.pvalues, GLM_BAR)
        (model,) = models_of(read_result(by_rows.folder / folder))
        assert_close(model.covariance, theirs.cov_params(), GLM_BAR)
        assert_each_close([model.aic, model.null_deviance], [theirs.aic, theirs.null_deviance], GLM_BAR)
    loaded = load(by_rows.folder / "out/parties/north")
    assert isinstance(loaded, FederatedLogisticRegression)
    assert loaded.classes_.tolist() == ["low", "high"]
    assert_close(loaded.predict_proba(outcomes[FEATURES])[:, 1], theirs.fittedvalues, GLM_BAR)
    assert_each_close(loaded.summary_frame()["se"], theirs.bse, GLM_BAR)


def test_a_partys_own_rows_have_the_quality_that_scikit_learn_measures(fedsvd, by_rows, outcomes):
    words = ["--label", "grade", "--id", "patient", "--family", "binomial", "--drop", "log_time,visits"]
    said = fedsvd(
        "glm", *by_rows.options(), *words, *CLASSES, *PERMISSIVE, "--quality", "--out", by_rows.folder / "out"
    )
    assert "pairs of a case and a control within sites" in " ".join(said.out.split())
    own = read_result(by_rows.folder / "out/parties/north")
    place = slice(0, 40)
    truth, share = (outcomes["grade"] == "high").to_numpy()[place], own.arrays["fitted"][:, 0]
    assert_each_close(own.facts["own_rows"]["auc"], [roc_auc_score(truth, share)], GLM_BAR)
    assert_each_close(own.facts["own_rows"]["brier"], brier_score_loss(truth, share), GLM_BAR)
    shown = page(by_rows.folder / "out/parties/north")
    assert "ROC curve of grade = high" in shown.html
    assert "Calibration of grade = high" in shown.html
    assert "odds ratio" in shown.text
    assert "ROC curve of" not in page(by_rows.folder / "out").html  # rows are a party's own
    before, _, file = page(by_rows.folder / "out/roles/csp").text.partition("[job]")
    assert 'label = ["grade"]' in file  # every role has the job file
    assert "grade" not in before + file.rpartition('data = "FILE"')[2]
    table, (name, file) = by_rows.folder / "out/parties/north", by_rows.parties[0]
    said = fedsvd("predict", table, "--party", f"{name}={by_rows.folder / file}", "--format", "json")
    assert said.json["parties"][name]["own_rows"]["rows"] == 40


def test_a_job_file_with_an_offset_is_poisson_of_statsmodels(fedsvd, by_rows, outcomes):
    keys = {"task": "glm", "family": "poisson", "label": "visits", "offset": "log_time", "id": "patient"}
    job = by_rows.job(name="visits", **keys)
    job.write_text(job.read_text(encoding="utf-8") + '[prepare]\ndrop = ["grade"]\n', encoding="utf-8")
    said = fedsvd("run", job, "--out", by_rows.folder / "out")
    assert said.code == 0, said.err
    theirs = expected(
        outcomes, sm.families.Poisson(), outcomes["visits"].to_numpy(), offset=outcomes["log_time"].to_numpy()
    )
    loaded = load(by_rows.folder / "out")
    assert isinstance(loaded, FederatedGLM)
    assert_each_close(loaded.summary_frame()["coef"], theirs.params, GLM_BAR)
    new = outcomes[[*FEATURES, "log_time"]]
    assert_each_close(loaded.predict(new), theirs.fittedvalues, GLM_BAR)
    plan = fedsvd("plan", job)
    shown = " ".join(plan.out.split())  # as between institutions: in one process all digits are taken
    assert "Parties open the model's sums a few digits at a time" in shown
    assert "opens about 2,368 bits of all parties' records together" in shown


def test_the_plan_shows_what_every_role_learns_and_below_how_many_events_it_ends(by_rows, outcomes):
    keys = {"task": "glm", "family": "binomial", "label": "grade", "classes": ["low", "high"], "id": "patient"}
    path = by_rows.job(**keys)
    path.write_text(path.read_text(encoding="utf-8") + '[prepare]\ndrop = ["log_time", "visits"]\n', encoding="utf-8")
    plan = plan_job(prepare(read_job(path))).plan
    assert plan.glm is not None
    assert (plan.glm.least_class, plan.glm.least_events, plan.glm.classes) == (10, 5, 2)
    assert plan.m == len(FEATURES)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({}, "needs a family"),
        ({"family": "binomial", "split": "vertical"}, "partners' columns"),
        ({"family": "multinomial", "classes": ["a", "b"]}, "three classes"),
        ({"family": "poisson", "link": "logit"}, "link"),
        ({"family": "poisson", "classes": ["a", "b"]}, "classes"),
        ({"family": "binomial", "classes": ["a", "a"]}, "named twice"),
        ({"family": "binomial", "offset": "y"}, "named twice"),
        ({"family": "binomial", "components": 2}, "components"),
        ({"family": "binomial", "label": ["y", "z"]}, "one target"),
        ({"family": "binomail"}, "did you mean 'binomial'"),
    ],
)
def test_a_job_that_is_no_model_is_refused_with_the_way_out(keys, words, tmp_path):
    parties = [{"name": "a"}, {"name": "b"}]
    with pytest.raises(ConfigError, match=words):
        job_from({"job": {"name": "j", "task": "glm", "label": "y", **keys}, "party": parties}, tmp_path)


def test_keys_of_a_model_belong_to_no_other_task(tmp_path):
    parties = [{"name": "a"}, {"name": "b"}]
    with pytest.raises(ConfigError, match="family does not apply"):
        job_from({"job": {"name": "j", "task": "pca", "family": "binomial"}, "party": parties}, tmp_path)


def test_a_class_that_the_study_does_not_name_is_refused_without_its_value(fedsvd, by_rows, outcomes):
    words = ["--label", "grade", "--id", "patient", "--family", "binomial", "--class", "low", "--class", "middle"]
    said = fedsvd("glm", *by_rows.options(), *words, "--drop", "log_time,visits")
    assert said.code != 0
    assert "high" not in said.err
