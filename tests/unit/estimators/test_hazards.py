"""Cox models through the real roles with what may be asked for after the fit, and with all that R's ``coxph`` takes."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.survival_data import MADE, OF_R, table
from tests.tolerances import A_TENTH, DIGITS_STEP_BAR, SCHOENFELD_BAR, SEVEN_DIGITS

from fedsvd import FederatedCox, Local, Policy
from fedsvd.errors import ConfigError
from fedsvd.policy.learned import what_each_role_learns
from fedsvd.policy.rules import findings
from fedsvd.protocol.model import Digits, ModelPlan
from fedsvd.protocol.openings import expected_bits
from fedsvd.protocol.tasks import Family, Split, Task
from fedsvd.tasks.options import completed
from fedsvd.testing.federation import Federation

pytestmark = pytest.mark.filterwarnings("ignore")
VECTORS = Path(__file__).parents[2] / "vectors"
R = json.loads((VECTORS / "survival-r.json").read_text(encoding="utf-8"))
HAZARDS = json.loads((VECTORS / "hazards-r.json").read_text(encoding="utf-8"))


def sites(name, *more):
    data = table(name).reset_index(drop=True)
    number = np.arange(1, len(data) + 1)
    entry = np.floor(data["time"] * (number % 7) / 9) - number % 3
    data = data.assign(entry=entry, w=1 + number % 3, o=number % 5 / 4 - 0.5, s=number % 2)
    terms = np.atleast_1d(R[name]["efron"]["terms"]).tolist()
    return [own[[*terms, "time", "status", *more]].reset_index(drop=True) for _, own in data.groupby("site")]


def apart(found, said):
    errors = np.array(said["se"])
    own = found.inference_[0]
    return (
        np.max(np.abs(found.coef_ - said["coef"]) / errors),
        np.max(np.abs(np.sqrt(np.diag(own.covariance)) / errors - 1.0)),
        np.max(np.abs([own.log_likelihood / said["loglik"][1] - 1.0, own.concordance - said["concordance"]])),
    )


# --- all that coxph takes ---------------------------------------------------------------------------------------------

COLUMNS = {
    "strata": {"strata": "s"},
    "entry": {"entry": "entry"},
    "offset": {"offset": "o"},
    "weights": {"sample_weight": "w"},
    "all": {"strata": "s", "entry": "entry", "offset": "o", "sample_weight": "w"},
}


@pytest.mark.parametrize("ties", ["efron", "breslow"])
@pytest.mark.parametrize("name", ["made", "colon", "pbc"])
@pytest.mark.parametrize("kind", COLUMNS)
def test_strata_entries_offsets_and_weights_are_rs(name, kind, ties):
    named = COLUMNS[kind]
    found = FederatedCox(ties=ties).fit(sites(name, *named.values()), "time", "status", **named)
    step, error, rest = apart(found, HAZARDS[name]["more"][ties][kind])
    assert step < DIGITS_STEP_BAR
    assert error < SEVEN_DIGITS
    assert rest < SEVEN_DIGITS


@pytest.mark.parametrize("name", ["made", "pbc"])
def test_a_ridge_is_rs(name):
    found = FederatedCox(alpha=2.0).fit(sites(name), "time", "status")
    assert np.max(np.abs(found.coef_ / np.array(HAZARDS[name]["more"]["ridge"]) - 1.0)) < SEVEN_DIGITS


# --- the test of proportional hazards ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["identity", "log"])
@pytest.mark.parametrize("name", [*MADE, *OF_R])
def test_the_test_of_proportional_hazards_is_rs_to_a_hundredth(name, kind):
    found = FederatedCox(schoenfeld=kind).fit(sites(name), "time", "status").zph(terms=False)
    said = np.atleast_1d(R[name]["efron"][kind])[: len(found)]
    assert found.index[-1] == "GLOBAL"
    assert np.max(np.abs(found["chisq"] - said) / np.maximum(said, 1.0)) < SCHOENFELD_BAR


@pytest.mark.parametrize("kind", ["km", "rank"])
def test_clocks_of_each_site_are_rs_score_tests(kind):
    found = FederatedCox(schoenfeld=kind).fit(sites("colon"), "time", "status").zph()
    said = np.array(HAZARDS["colon"][kind])
    assert np.max(np.abs(found["chisq"] - said) / np.maximum(said, 1.0)) < SCHOENFELD_BAR


def test_a_factor_is_tested_as_one_term():
    frames = [own.assign(arm=np.array(["a", "b", "c"])[own["group"] - 1]) for own in sites("made", "group")]
    found = FederatedCox(schoenfeld="km").fit(frames, formula="Surv(time, status) ~ age + C(arm)")
    assert found.zph()["df"].tolist() == [1, 2, 3]
    assert found.zph().index.tolist() == ["age", "C(arm)", "GLOBAL"]
    assert found.zph(terms=False)["df"].tolist() == [1, 1, 1, 3]


def test_it_costs_about_half_a_fit_and_is_counted():
    plain = FederatedCox(digits="table").fit(sites("colon"), "time", "status")
    found = FederatedCox(digits="table", schoenfeld="km").fit(sites("colon"), "time", "status")
    more = expected_bits(found.plan_) - expected_bits(plain.plan_)
    p = 7
    assert more == 18 * (p + p * (p + 1)) + 12 + 4 * 7
    assert more < expected_bits(plain.plan_) / 2
    said = " ".join(what_each_role_learns(found.plan_))
    assert "63 totals of 18 bits" in said
    assert "no time of an event" in said


def test_bits_that_are_opened_stay_within_what_is_expected():
    parts = sites("made")
    labels = [own[["time", "status"]].to_numpy(float) for own in parts]
    tables = [own.drop(columns=["time", "status"]).to_numpy(float) for own in parts]
    about = ModelPlan(Family.COX, "log", ties="efron", digits=Digits.TABLE)
    asked = {"schoenfeld": "km", "baseline": "common", "times": "[6.0, 12.0, 18.0, 24.0]"}
    options = completed(Task.COX, tuple(asked.items()))
    federation = Federation(tables, Task.COX, Split.HORIZONTAL, labels=labels, glm=about, options=options)
    found = federation.run()[0]
    assert found.bits < expected_bits(federation.plan)
    assert found.own["hazard"].shape == (4, 4)


def test_without_it_there_is_no_test_and_a_ridge_has_none():
    found = FederatedCox().fit(sites("made"), "time", "status")
    with pytest.raises(ConfigError, match="no test of proportional hazards"):
        found.zph()
    with pytest.raises(ConfigError, match="has no ridge"):
        FederatedCox(schoenfeld="km", alpha=1.0).fit(sites("made"), "time", "status")


# --- a common baseline ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["made", "colon", "pbc"])
def test_a_common_baseline_has_rs_exposure_in_twelve_bits_and_events_in_fives(name):
    said, edges = HAZARDS[name]["level"], HAZARDS[name]["edges"]
    found = FederatedCox(baseline="common", times=edges).fit(sites(name), "time", "status")
    time, events, exposed, hazard = found.common_hazard_.T
    assert time.tolist() == [float(edge) for edge in edges]
    off = 2 * table(name)["site"].nunique()
    assert np.max(np.abs(np.cumsum(events) - np.cumsum(said["events"]))) <= off
    assert (events % 5 == 0).all()
    assert np.max(np.abs(exposed / np.array(said["exposure"]) - 1.0)) < A_TENTH  # rounding and noise of all parties
    rate = np.divide(events, exposed) * np.diff(time, prepend=0.0)
    assert np.max(np.abs(hazard - np.cumsum(rate))) < SEVEN_DIGITS
    alive = found.predict(sites(name)[0].drop(columns=["time", "status"]).head(3), kind="survival", party="all")
    assert alive.shape == (3, len(edges))
    assert (np.diff(alive, axis=1) <= 0.0).all()


def test_every_owner_is_asked_for_a_common_baseline_and_none_without():
    found = FederatedCox(baseline="common", times=[6, 12, 18]).fit(sites("made"), "time", "status")
    (asked,) = [each for each in findings(found.plan_, Policy()) if each.rule == "baseline"]
    assert asked.asks
    assert "between 3 times are opened" in asked.text
    plain = FederatedCox().fit(sites("made"), "time", "status")
    assert not [each for each in findings(plain.plan_, Policy()) if each.rule == "baseline"]
    with pytest.raises(ConfigError, match="no common baseline hazard"):
        plain.baseline_hazard("all")


def test_a_common_baseline_of_weighted_records_is_refused():
    with pytest.raises(ConfigError, match="counts events, and records have weights"):
        FederatedCox(baseline="common").fit(sites("made", "w"), "time", "status", sample_weight="w")


@pytest.mark.slow
def test_both_come_back_from_processes_and_from_files(tmp_path):
    model = FederatedCox(schoenfeld="log", baseline="common", federation=Local(policy=Policy.permissive()))
    here = FederatedCox(schoenfeld="log", baseline="common").fit(sites("made"), "time", "status")
    found = model.fit(sites("made"), "time", "status")
    assert (found.common_hazard_[:, :2] == here.common_hazard_[:, :2]).all()
    chisq = here.zph()["chisq"]
    assert np.max(np.abs(found.zph()["chisq"] - chisq) / np.maximum(chisq, 1.0)) < SCHOENFELD_BAR
