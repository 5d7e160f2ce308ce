"""``fit(tables, formula=...)``: the fit of the columns that the formula names, and R's values."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from tests.survival_data import edges_of, table
from tests.tolerances import DIGITS_STEP_BAR, SEVEN_DIGITS

from fedsvd import FederatedCox, FederatedKaplanMeier, FederatedMixedLM
from fedsvd.errors import ConfigError

pytestmark = pytest.mark.filterwarnings("ignore")
R = json.loads((Path(__file__).parents[2] / "vectors" / "survival-r.json").read_text(encoding="utf-8"))["made"]


def sites(**more):
    data = table("made").assign(**more)
    return [data[data["site"] == site].reset_index(drop=True) for site in sorted(data["site"].unique())]


def steps(one, other):
    """How far two fits are apart, in standard errors."""
    return np.max(np.abs(one.coef_ - other.coef_) / np.sqrt(np.diag(one.inference_[0].covariance)))


def test_a_cox_model_by_a_formula_is_rs():
    found = FederatedCox().fit(sites(), formula="Surv(time, status) ~ age + sex + marker + strata(site)")
    errors = np.array(R["efron"]["se"])
    assert np.max(np.abs(found.coef_ - R["efron"]["coef"]) / errors) < DIGITS_STEP_BAR
    assert found.target_name_ == "time"


def test_strata_of_text_entries_weights_and_offsets_are_those_of_the_fit_by_columns():
    rng = np.random.default_rng(1)
    data = table("made")
    came, weight = np.floor(data["time"] * rng.uniform(-1.0, 0.9, len(data))), rng.integers(1, 4, len(data))
    frames = sites(came=came, w=weight, arm=np.array(["x", "y", "z"])[data["group"] - 1])
    columns = [frame[["age", "marker", "time", "status", "came", "group", "w", "sex"]] for frame in frames]
    formula = "Surv(came, time, status) ~ age + marker + strata(arm) + offset(sex)"
    found = FederatedCox().fit(frames, formula=formula, sample_weight="w")
    by_names = {"event": "status", "entry": "came", "strata": "group", "sample_weight": "w", "offset": "sex"}
    assert steps(found, FederatedCox().fit(columns, "time", **by_names)) < 2 * DIGITS_STEP_BAR


def test_categories_and_curves_of_columns_have_the_formulas_names():
    frames = sites(arm=np.array(["x", "y", "z"])[table("made")["group"] - 1])
    found = FederatedCox().fit(frames, formula="Surv(time, status) ~ log(age) + C(arm)")
    assert found.summary_frame().index.tolist() == ["log(age)", "C(arm)[T.y]", "C(arm)[T.z]"]


@pytest.mark.parametrize("slope", ["", "sex"])
def test_a_mixed_model_by_a_formula_is_that_of_its_columns(slope):
    rng = np.random.default_rng(2)
    person = np.arange(len(table("made"))) // 4
    y = rng.normal(size=len(person)) + 2.0 * rng.normal(size=len(person))[person] * (1.0 + table("made")["sex"])
    frames = sites(y=y, person=person, name=[f"p{each}" for each in person])
    columns = [frame[["age", "sex", "y", "person"]] for frame in frames]
    found = FederatedMixedLM().fit(frames, formula=f"y ~ age + sex + ({slope or 1} || name)")
    other = FederatedMixedLM(correlated=not slope).fit(columns, "y", "person", slope or None)
    assert np.max(np.abs(found.coef_ - other.coef_) / other.inference_[0].standard_errors[1:]) < SEVEN_DIGITS
    assert found.plan_.glm.correlated is not bool(slope)


def test_curves_by_a_formula_are_those_of_its_columns():
    edges = edges_of("made")
    found = FederatedKaplanMeier(edges).fit(sites(), formula="Surv(time, status) ~ group")
    other = FederatedKaplanMeier(edges).fit(sites(), "time", "status", "group")
    assert (found.counts_ == other.counts_).all()
    one = FederatedKaplanMeier(edges, counts="exact").fit(sites(), formula="Surv(time, status) ~ 1")
    data = table("made")
    assert one.curves_[0].events.sum() == data["status"][data["time"] <= edges[-1]].sum()


@pytest.mark.parametrize(
    ("model", "given", "fault"),
    [
        (FederatedCox, {"formula": "Surv(time, status) ~ age", "event": "status"}, "event and the formula both say"),
        (FederatedCox, {"formula": "Surv(time, status) ~ age + (1 | sex)"}, "has (1 | person), which does not apply"),
        (FederatedCox, {"formula": "~ age"}, "no outcome"),
        (FederatedCox, {"formula": "Surv(time, status) ~ 1"}, "no column right of ~"),
        (FederatedCox, {"formula": "time ~ age"}, "needs events"),
        (FederatedCox, {"formula": "Surv(time, death) ~ age"}, "event = 'death': no such column"),
        (FederatedMixedLM, {"formula": "time ~ age"}, "needs subjects"),
        (FederatedKaplanMeier, {"formula": "Surv(time, status) ~ age + sex"}, "at most one column of groups"),
        (FederatedKaplanMeier, {"formula": "Surv(time, status) ~ age", "y": "time"}, "y and the formula both say"),
    ],
)
def test_what_a_formula_cannot_say_is_refused(model, given, fault):
    with pytest.raises(ConfigError, match=re.escape(fault)):
        model().fit(sites(), **given)
