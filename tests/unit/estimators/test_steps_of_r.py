"""Ordinal and negative binomial models of public tables in uneven sites, as a user fits them, against R's values."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.steps_data import COUNTS, ORDINAL, table
from tests.tolerances import DIGITS_ERRORS_BAR, DIGITS_MORE_BAR, DIGITS_STEP_BAR, MIXED_LIKELIHOOD_BAR, SEVEN_DIGITS

from fedsvd import FederatedGLM, FederatedOrdinalRegression, Simulation

pytestmark = pytest.mark.filterwarnings("ignore")
RECORDED = json.loads((Path(__file__).parents[2] / "vectors" / "steps-r.json").read_text(encoding="utf-8"))
SEEDED = Simulation(random_state=30)  # noise in the last bits of a likelihood is up to 7e-10 of it


def sites(name):
    """A frame for each site, without the column that says which."""
    return [own.drop(columns="site").reset_index(drop=True) for _, own in table(name).groupby("site")]


def off(found, said):
    """Standard errors by which coefficients are off."""
    return np.max(np.abs(np.array(found) - said["coef"]) / said["se"])


@pytest.mark.parametrize("said", RECORDED["ordinal"], ids=lambda said: f"{said['data']} {said['link']}")
def test_proportional_odds_are_polrs(said):
    link = {"logistic": "logit"}.get(said["link"], said["link"])
    model = FederatedOrdinalRegression(link, federation=SEEDED).fit(sites(said["data"]), "y").inference_[0]
    assert off(model.coefficients, said) < DIGITS_STEP_BAR
    assert off(said["polr"], said) < SEVEN_DIGITS, "where polr stops"
    assert np.max(np.abs(model.standard_errors / said["se"] - 1.0)) < DIGITS_MORE_BAR
    assert abs(model.log_likelihood / said["polr_loglik"] - 1.0) < MIXED_LIKELIHOOD_BAR


@pytest.mark.parametrize("said", RECORDED["negbin"], ids=lambda said: said["data"])
def test_negative_binomial_models_are_glm_nbs(said):
    model = FederatedGLM("negative-binomial", federation=SEEDED).fit(sites(said["data"]), "y").inference_[0]
    assert off(model.coefficients, said) < SEVEN_DIGITS
    assert np.max(np.abs(model.standard_errors / said["se"] - 1.0)) < DIGITS_MORE_BAR
    assert abs(model.theta / said["theta"] - 1.0) < SEVEN_DIGITS
    assert abs(model.theta_error / said["theta_se"] - 1.0) < 10.0 * DIGITS_ERRORS_BAR, "theta.ml stops at 1e-4"
    assert abs(model.log_likelihood / said["loglik"] - 1.0) < MIXED_LIKELIHOOD_BAR
    assert abs(model.deviance / said["deviance"] - 1.0) < SEVEN_DIGITS


def test_sites_are_as_uneven_as_they_are_said_to_be():
    rows = {name: table(name).groupby("site")["y"].size().tolist() for name in (*ORDINAL, *COUNTS)}
    assert {len(own) for own in rows.values()} == {2, 3, 4, 5}
    assert [name for name, own in rows.items() if 8 in own] == ["WVS", "pbc", "medpar", "badhealth"]
    lowest, visits = (table(name).groupby("site")["y"].agg(["min", "max"]) for name in ("pbc", "badhealth"))
    assert lowest["min"].tolist() == [1, 1, 2, 3]
    assert visits["max"].tolist()[3] == 0
