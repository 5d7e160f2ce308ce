"""Degenerate times to an event through the real roles, beside what R says of them (recorded by ``degenerate.R``)."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.degenerate_times import CASES, case
from tests.tolerances import CURVE_BAR, DIGITS_STEP_BAR, SEVEN_DIGITS, WITHIN_MORE_BAR

from fedsvd import FederatedCox, FederatedKaplanMeier
from fedsvd.errors import DataError, NotConverged, Separated

pytestmark = pytest.mark.filterwarnings("ignore")
R = json.loads((Path(__file__).parents[2] / "vectors" / "degenerate-r.json").read_text(encoding="utf-8"))
LATE, SEPARATED = "entry after exit", "separated"
REFUSED = {
    "no event": (DataError, "no event was seen by any party"),
    "the only event leaves last": (DataError, "column 1 is a combination"),
    SEPARATED: ((Separated, NotConverged), ""),
    LATE: (DataError, "3 records enter at or after the time they leave"),
}
R_SAYS = {
    "the only event leaves last": "Ran out of iterations",
    SEPARATED: "coefficient may be infinite",
    LATE: "Stop time must be > start time, NA created",
}


def parts(name, *columns):
    return [own[[*columns, "time", "status"]] for _, own in case(name).groupby("site")]


def fitted(name):
    if name == LATE:
        return FederatedCox().fit(parts(name, "x", "entry"), "time", "status", entry="entry")
    return FederatedCox().fit(parts(name, "x", *(["group"] if name == SEPARATED else [])), "time", "status")


@pytest.mark.parametrize("name", [name for name in CASES if name not in REFUSED])
def test_what_r_fits_without_a_warning_is_fitted_and_the_same(name):
    said = R[name]["cox"]
    found = fitted(name)
    assert said["warnings"] == []
    assert np.abs(found.coef_ - said["coef"]).max() / said["se"] < DIGITS_STEP_BAR
    assert np.abs(found.inference_[0].standard_errors / said["se"] - 1.0).max() < SEVEN_DIGITS


@pytest.mark.parametrize("name", REFUSED)
def test_what_r_warns_of_or_leaves_empty_is_refused_with_a_reason(name):
    kind, words = REFUSED[name]
    with pytest.raises(kind, match=words):
        fitted(name)
    said = R[name]["cox"]
    assert R_SAYS[name] in said["warnings"][0] if name in R_SAYS else said["coef"] is None


def test_rows_that_r_drops_are_left_out_by_their_owner_and_the_fit_is_rs():
    data, said = case(LATE), R[LATE]["cox"]
    kept = [own[["x", "entry", "time", "status"]] for _, own in data[data["entry"] < data["time"]].groupby("site")]
    found = FederatedCox().fit(kept, "time", "status", entry="entry")
    assert sum(len(own) for own in kept) == said["n"]
    assert np.abs(found.coef_ - said["coef"]).max() / said["se"] < DIGITS_STEP_BAR


@pytest.mark.parametrize("name", CASES)
def test_curves_and_tests_are_rs_where_r_has_them(name):
    data = case(name)
    last = float(data["time"].max())
    edges = sorted({*np.linspace(0.0, last, 9)[1:].round(3).tolist(), last})
    model = FederatedKaplanMeier(edges, counts="exact", digits="more")
    found = model.fit(parts(name, "group"), "time", "status", "group")
    said = R[name]["test"]
    if "error" in said or said["p"] is None or said["chisq"] == 0:
        assert not found.test_.statistic > SEVEN_DIGITS, "nothing is compared"
    else:
        assert abs(found.test_.statistic / said["chisq"] - 1.0) < WITHIN_MORE_BAR
    everyone = FederatedKaplanMeier([last], counts="exact").fit(parts(name), "time", "status").curves_[0]
    if not data["status"].any():
        assert everyone.survival[-1] == R[name]["curve"]["last"] == 1.0
    if data["status"].all():
        assert abs(everyone.survival[-1] - R[name]["curve"]["last"]) < CURVE_BAR
