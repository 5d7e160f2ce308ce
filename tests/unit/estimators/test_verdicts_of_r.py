"""Outcomes that R refuses, warns of or leaves empty, and what we say of the same rows (``tests/verdicts.py``)."""

import math

import pytest
from tests.tolerances import STATISTIC_BAR
from tests.verdicts import REFUSED, R, ours, small_cells

pytestmark = pytest.mark.filterwarnings("ignore")
WORDS = {
    "one_group": ("only 1 group", "one group cannot be compared"),
    "constant_inside_sites": ("NA", "column 2 is a combination"),
    "classes_separated": ("suitable starting values failed", "predicts the outcome without error"),
    "two_classes": ("3 or more levels", "FederatedLogisticRegression"),
    "counts_all_zero": ("missing value where TRUE/FALSE needed", "all outcomes of the joint data are equal"),
    "counts_underdispersed": ("iteration limit reached", "vary no more than Poisson's"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_where_r_fails_warns_or_has_no_number_we_refuse_with_a_reason_and_a_fix(name):
    theirs, here = WORDS[name]
    said = R[name]
    assert theirs in str([said["error"], *said["warnings"], said["value"]])
    words = ours(name)
    assert here in words
    assert "Fix: " in words


def test_small_expected_counts_have_a_footnote_and_fishers_test_where_r_warns():
    found = small_cells()
    assert R["small_cells"]["warnings"] == ["Chi-squared approximation may be incorrect"]
    assert "Expected counts below 5: level" in found.as_table().notes
    tests = found.tests_.set_index("test")["p"]
    assert tests.index[0] == "Fisher's exact", "the one that the table prints"
    assert math.isclose(tests["Fisher's exact"], R["fisher"]["value"], rel_tol=STATISTIC_BAR)
    corrected = tests["Chi-squared (continuity correction)"]
    assert math.isclose(corrected, R["small_cells"]["value"], rel_tol=STATISTIC_BAR)
