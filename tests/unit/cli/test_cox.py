"""``fedsvd cox`` and ``task = "cox"``: statsmodels' effects on screen, in files, in the report, and read back."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats
from tests.exact_csv import read_exact
from tests.studies import FEATURES, hospitals
from tests.survival_data import table
from tests.tolerances import DIGITS_ERRORS_BAR, DIGITS_STEP_BAR, GLM_BAR, RESULT_BAR, SEVEN_DIGITS, assert_close
from tests.unit.results.report.pages import page

from fedsvd import FederatedCox, load
from fedsvd.errors import ConfigError

PERMISSIVE = ["--least-events", "0"]
VECTORS = Path(__file__).parents[2] / "vectors"
SITES = np.repeat([0.0, 1.0, 2.0], [40, 35, 45])


@pytest.fixture
def times(tmp_path):
    return hospitals(tmp_path, events=True)


def expected(joint, ties="efron"):
    X = joint[FEATURES].to_numpy()
    centre, scale = X.mean(axis=0), X.std(axis=0)
    time = joint["outcome"] - joint["outcome"].min() + 1.0
    model = sm.PHReg(time, (X - centre) / scale, joint["event"], ties=ties, strata=SITES)
    beta = model.fit().params
    for _ in range(4):
        beta = beta - np.linalg.solve(model.hessian(beta), model.score(beta))
    errors = np.sqrt(np.diag(np.linalg.inv(-model.hessian(beta)))) / scale
    return beta / scale, errors, (model.loglike(0.0 * beta), model.loglike(beta))


def residuals(joint, beta):
    """Martingale residuals of untied records, one event after the other."""
    r, time, found = np.exp(joint[FEATURES].to_numpy() @ beta), joint["outcome"].to_numpy(), joint["event"].to_numpy()
    for u in time[found == 1]:
        at_risk = time >= u
        found = found - at_risk * r / r[at_risk].sum()
    return found


def test_a_command_gives_the_stratified_table_own_residuals_and_predictions(fedsvd, times):
    words = ["--label", "outcome", "--event", "event", "--id", "patient", "--ties", "breslow"]
    said = fedsvd("cox", *times.options(), *words, *PERMISSIVE, "--out", times.folder / "out")
    assert said.code == 0, said.err
    effects, errors, likelihoods = expected(times.joint, "breslow")
    assert "Cox regression, stratified by site" in said.out
    assert "hazard ratio (95 % interval)" in said.out
    table = read_exact(times.folder / "out/parties/north/coefficients.csv")
    assert list(table["term"]) == FEATURES
    assert (np.abs(table["coef"] - effects) / errors).max() < DIGITS_STEP_BAR
    assert np.abs(table["se"] / errors - 1.0).max() < DIGITS_ERRORS_BAR
    loaded = load(times.folder / "out")
    assert isinstance(loaded, FederatedCox)
    assert loaded.ties == "breslow"
    assert loaded.inference_[0].events == int(times.joint["event"].sum())
    assert_close(loaded.predict(times.joint[FEATURES]), times.joint[FEATURES].to_numpy() @ effects, GLM_BAR)
    assert_close(loaded.tidy(exponentiate=True)["estimate"], np.exp(effects), GLM_BAR)
    glance = loaded.glance().iloc[0]
    ratio = 2.0 * (likelihoods[1] - likelihoods[0])
    assert_close(glance["statistic.log"], ratio, DIGITS_ERRORS_BAR)
    assert_close(glance["p.value.log"], stats.chi2.sf(ratio, 5), DIGITS_ERRORS_BAR)
    assert_close(glance["BIC"], 5 * np.log(times.joint["event"].sum()) - 2.0 * likelihoods[1], DIGITS_ERRORS_BAR)
    with pytest.raises(ConfigError, match="no expected outcome"):
        loaded.marginal_effects()
    text = page(times.folder / "out/parties/north").text
    assert "hazard ratio" in text
    assert "each site has a baseline hazard of its own" in text
    own = read_exact(times.folder / "out/parties/north/residuals.csv")
    assert_close(own["outcome"], residuals(times.joint[:40], effects), GLM_BAR)
    new = times.folder / "new.csv"
    times.joint[["patient", *FEATURES]][:5].to_csv(new, index=False)
    said = fedsvd("predict", times.folder / "out", "--party", new, "--out", times.folder / "predicted")
    assert said.code == 0, said.err
    (found,) = (times.folder / "predicted").rglob("predictions.csv")
    ratios = read_exact(found)["outcome"]
    assert_close(ratios, np.exp(times.joint[FEATURES][:5].to_numpy() @ effects), GLM_BAR)


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["--split", "vertical"], "task 'cox' is of split rows"),
        (["--digits", "all"], "a Cox model opens a few digits"),
        (["--mode", "B"], "the parties of task 'cox' open the sum"),
    ],
)
def test_what_there_is_not_is_refused_with_a_sentence(fedsvd, times, words, fault):
    asked = ["--label", "outcome", "--event", "event", "--id", "patient"]
    said = fedsvd("cox", *times.options(), *asked, *words, "--out", times.folder / "out")
    assert said.code != 0
    assert fault in " ".join(said.err.split())


def test_an_estimator_needs_events():
    with pytest.raises(ConfigError, match="needs events"):
        FederatedCox().fit(np.zeros((20, 2)), np.ones(20))


def test_a_formula_names_times_events_and_strata_as_r_does(fedsvd, times):
    terms = " + ".join(f"`{name}`" for name in FEATURES)
    words = ["--formula", f"Surv(outcome, event) ~ {terms} + strata(site)", *PERMISSIVE]
    said = fedsvd("cox", *times.options(), *words, "--out", times.folder / "formula")
    assert said.code == 0, said.err
    effects, errors, _ = expected(times.joint)
    assert (np.abs(load(times.folder / "formula").coef_ - effects) / errors).max() < DIGITS_STEP_BAR
    unread = fedsvd("cox", *times.options(), "--formula", "Surv(outcome, event > 0) ~ age")
    assert "'Surv(outcome, event > 0)' (character 1)" in unread.err


def test_the_test_of_proportional_hazards_and_a_common_baseline_are_tables(fedsvd, times):
    terms = " + ".join(f"`{name}`" for name in FEATURES)
    words = ["--formula", f"Surv(outcome, event) ~ {terms}", *PERMISSIVE, "--schoenfeld", "km", "--baseline", "common"]
    asked = ["--times", "1", "--times", "3", "--times", "9", "--out", times.folder / "both"]
    said = fedsvd("cox", *times.options(), *words, *asked)
    assert said.code == 0, said.err
    assert "Proportional hazards" in said.out
    tested = pd.read_csv(times.folder / "both" / "proportional.csv")
    assert tested["term"].tolist() == [*FEATURES, "GLOBAL"]
    assert pd.read_csv(times.folder / "both" / "hazard.csv")["time"].tolist() == [1.0, 3.0, 9.0]
    loaded = load(times.folder / "both")
    assert_close(loaded.zph()["chisq"].to_numpy(), tested["chisq"].to_numpy(), RESULT_BAR)
    page_text = page(times.folder / "both").text
    assert "Proportional hazards" in page_text
    unnamed = fedsvd("cox", *times.options(), *words)
    assert "baseline of all parties needs the times" in unnamed.err


@pytest.mark.parametrize("name", ["made", "pbc"])
def test_own_files_have_what_each_record_moves_the_coefficients_by_as_r_has_it(fedsvd, tmp_path, name):
    said = json.loads((VECTORS / "hazards-r.json").read_text(encoding="utf-8"))[name]["more"]["efron"]["offset"]
    data = table(name).reset_index(drop=True)
    data = data.assign(o=(1 + data.index) % 5 / 4 - 0.5, row=data.index).drop(columns="group")
    for site, own in data.groupby("site"):
        own.drop(columns=["site", "row"]).to_csv(tmp_path / f"s{site}.csv", index=False)
    parties = [word for site in sorted(data["site"].unique()) for word in ("--party", tmp_path / f"s{site}.csv")]
    words = ["--label", "time", "--event", "status", "--offset", "o", "--digits", "more", *PERMISSIVE]
    found = fedsvd("cox", *parties, *words, "--least-class", "0", "--out", tmp_path / "out")
    assert found.code == 0, found.err
    for site, own in data.groupby("site"):
        ours = pd.read_csv(tmp_path / f"out/parties/s{site}/dfbeta.csv").to_numpy()[:, -len(said["se"]) :]
        known = own["row"].to_numpy() < len(said["dfbeta"])
        theirs = np.array(said["dfbeta"])[own["row"].to_numpy()[known]]
        assert np.max(np.abs(ours[known] - theirs) / np.array(said["se"]), initial=0.0) < SEVEN_DIGITS
