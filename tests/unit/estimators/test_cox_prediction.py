"""What a fitted Cox model says of new records: linear predictors, risks, survival by one party's own baseline."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.survival_data import table
from tests.tolerances import GLM_BAR

from fedsvd import FederatedCox
from fedsvd.errors import ConfigError

pytestmark = pytest.mark.filterwarnings("ignore")
R = json.loads((Path(__file__).parents[2] / "vectors" / "survival-r.json").read_text(encoding="utf-8"))
TERMS = ["age", "sex", "marker"]


@pytest.fixture(scope="module")
def fitted():
    data = table("made")
    parts = [data.loc[data["site"] == site, [*TERMS, "time", "status"]] for site in (1, 2, 3, 4, 5)]
    return FederatedCox().fit(parts, "time", "status"), parts


def test_linear_predictors_and_risks_are_rs(fitted):
    model, parts = fitted
    linear = np.array(R["made"]["efron"]["linear"])
    new = parts[0][TERMS].head(len(linear))
    assert np.abs(model.predict(new) - linear).max() < GLM_BAR
    assert np.abs(model.predict(new, kind="risk") / np.exp(linear) - 1.0).max() < GLM_BAR


def test_survival_is_that_of_the_baseline_of_one_party(fitted):
    model, parts = fitted
    said = R["made"]["efron"]
    new, times = parts[1][TERMS].head(3), np.array([0.1, 5.0, 12.0])
    hazard = np.concatenate(([0.0], said["base.hazard"]))[np.searchsorted(said["base.time"], times, side="right")]
    expected = np.exp(-np.exp(model.predict(new))[:, None] * hazard)
    assert np.abs(model.predict(new, kind="survival", times=times) - expected).max() < GLM_BAR
    assert model.predict(new, kind="survival", party=2).shape == (3, len(model.baseline_hazard(2)))


def test_a_baseline_that_is_not_here_is_said_to_be_its_partys_own(fitted):
    model, parts = fitted
    assert len(model.baseline_hazard(4)) == 0  # a site without events
    with pytest.raises(ConfigError, match="baseline of party 6 is not here"):
        model.predict(parts[0][TERMS], kind="survival", party=6)
    with pytest.raises(ConfigError, match="kind is 'hazard'"):
        model.predict(parts[0][TERMS], kind="hazard")
