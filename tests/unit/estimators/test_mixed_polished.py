"""Mixed models against lme4 where Newton steps went on after ``lmer`` had stopped (``mixed_polished.R``)."""

import numpy as np
import pytest
from tests.mixed_data import RECORDED, sites
from tests.tolerances import (
    DIGITS_ERRORS_BAR,
    MIXED_LIKELIHOOD_BAR,
    PRINTED_BAR,
    SATTERTHWAITE_BAR,
    SATTERTHWAITE_MORE_BAR,
    SEVEN_DIGITS,
)

from fedsvd import FederatedMixedLM, Simulation

pytestmark = pytest.mark.filterwarnings("ignore")
STUDIES = RECORDED["studies"]
FEW = [("sleep2", "reml"), ("orthodont", "ml")]
EVERY = [(name, criterion) for name in STUDIES for criterion in ("reml", "ml")]
CASES = [each if each in FEW else pytest.param(*each, marks=pytest.mark.slow) for each in EVERY]


def fitted(name, criterion, digits):
    model = FederatedMixedLM(criterion, digits=digits, federation=Simulation(random_state=30))
    return model.fit(sites(name), formula=STUDIES[name]["formula"]).inference_[0]


@pytest.mark.parametrize("name, criterion", CASES)
def test_effects_variances_and_likelihood_are_lme4s_to_seven_digits(name, criterion):
    said = STUDIES[name][criterion]
    for digits in ("table", "more"):
        found = fitted(name, criterion, digits)
        assert np.abs((found.coefficients - said["coef"]) / said["se"]).max() < SEVEN_DIGITS
        assert abs(found.scale / said["s2"] - 1.0) < SEVEN_DIGITS
        assert np.abs(found.random - said["G"]).max() < SEVEN_DIGITS * np.abs(said["G"]).max()
        assert abs(found.log_likelihood / said["loglik"] - 1.0) < MIXED_LIKELIHOOD_BAR
        more = digits == "more"
        assert np.abs(found.standard_errors / said["se"] - 1.0).max() < (SEVEN_DIGITS if more else DIGITS_ERRORS_BAR)
        bar = SATTERTHWAITE_MORE_BAR if more else SATTERTHWAITE_BAR
        assert np.abs(found.degrees / said["df"] - 1.0).max() < bar


def test_r_itself_was_at_a_stationary_point():
    """The largest slope of its criterion that is left, by numDeriv, whose own error is of this size."""
    assert max(STUDIES[name][criterion]["slope"] for name, criterion in EVERY) < PRINTED_BAR
