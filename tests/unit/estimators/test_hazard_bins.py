"""Cox models with one baseline of all sites in bins of time, through the real roles: R's ``glm`` on one row a bin."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.survival_data import table
from tests.tolerances import COX_ERRORS_BAR, DIGITS_MORE_BAR, DIGITS_STEP_BAR, ROBUST_BAR, SEVEN_DIGITS

from fedsvd import FederatedCox, Policy
from fedsvd.data.open import open_source
from fedsvd.errors import ConfigError, DataError
from fedsvd.policy.learned import what_each_role_learns
from fedsvd.protocol.model import Digits, ModelPlan
from fedsvd.protocol.openings import expected_bits
from fedsvd.protocol.tasks import Family, Split, Task
from fedsvd.statistics.hazard_bins import BinRecords
from fedsvd.studies.own_rows import home_findings
from fedsvd.studies.parties import PartyData
from fedsvd.tasks.options import completed
from fedsvd.testing.federation import Federation

pytestmark = pytest.mark.filterwarnings("ignore")
R = json.loads((Path(__file__).parents[2] / "vectors" / "bins-r.json").read_text(encoding="utf-8"))
LINKS = {"efron": "cloglog", "breslow": "log"}
SETS = ["made", "lung", *(pytest.param(name, marks=pytest.mark.slow) for name in ("colon", "pbc", "veteran"))]


def sites(name, *more):
    return [own[[*R[name]["terms"], "time", "status", *more]] for _, own in table(name).groupby("site")]


def fitted(name, ties, **settings):
    model = FederatedCox(ties=ties, baseline="bins", times=R[name]["edges"], **settings)
    return model.fit(sites(name), "time", "status")


@pytest.mark.parametrize("ties", LINKS)
@pytest.mark.parametrize("name", SETS)
def test_effects_and_hazards_are_rs_of_rows_for_each_bin(name, ties):
    said = R[name][LINKS[ties]]
    for digits, bar in (("table", COX_ERRORS_BAR), ("more", SEVEN_DIGITS)):
        found = fitted(name, ties, digits=digits)
        own = found.inference_[0]
        assert np.max(np.abs(own.coefficients - said["coef"]) / np.array(said["se"])) < DIGITS_STEP_BAR
        assert np.max(np.abs(own.standard_errors / np.array(said["se"]) - 1.0)) < bar
        assert abs(own.log_likelihood / said["loglik"] - 1.0) < bar
    time, events, at_risk, hazard = found.common_hazard_.T
    assert time.tolist() == [float(edge) for edge in R[name]["edges"]]
    assert (events.tolist(), at_risk.tolist()) == (R[name]["events"], R[name]["at.risk"])
    assert np.max(np.abs(np.diff(hazard, prepend=0.0) / np.exp(said["coef"][-len(time) :]) - 1.0)) < SEVEN_DIGITS


@pytest.mark.parametrize("name", SETS)
def test_with_breslows_ties_effects_are_rs_coxph_on_bins(name):
    found, said = fitted(name, "breslow"), R[name]["breslow"]
    assert np.max(np.abs(found.coef_ - said["coef"]) / np.array(said["se"])) < DIGITS_STEP_BAR
    errors = found.inference_[0].standard_errors[: len(found.coef_)]
    assert np.max(np.abs(errors / np.array(said["se"]) - 1.0)) < SEVEN_DIGITS


def wards(name):
    """Rows with weights and the wards that R was given; a ward lies within one site."""
    number = np.arange(1, len(table(name)) + 1)
    data = table(name).assign(w=1.0 + number % 3, ward=100 * table(name)["site"].to_numpy() + number % 23)
    return [own[[*R[name]["terms"], "time", "status", "w", "ward"]] for _, own in data.groupby("site")]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["robust", "cluster"])
@pytest.mark.parametrize("ties", LINKS)
@pytest.mark.parametrize("name", SETS)
def test_robust_and_clustered_errors_are_rs_of_rows_for_each_bin(name, ties, kind, weighted):
    """A record of R's is a cluster of its rows; neither R's errors nor these are corrected for few clusters."""
    said = (R[name]["weighted"] if weighted else R[name])[LINKS[ties]]
    settings = {"cluster": "ward"} if kind == "cluster" else {"cov_type": "HC0"}
    left_out = [*([] if weighted else ["w"]), *([] if kind == "cluster" else ["ward"])]
    parts = [own.drop(columns=left_out) for own in wards(name)]
    for digits, bar in (("table", ROBUST_BAR), ("more", DIGITS_MORE_BAR)):
        model = FederatedCox(ties=ties, baseline="bins", times=R[name]["edges"], digits=digits, **settings)
        found = model.fit(parts, "time", "status", sample_weight="w" if weighted else None).inference_[0]
        assert np.max(np.abs(found.coefficients - said["coef"]) / np.array(said["se"])) < DIGITS_STEP_BAR
        assert np.max(np.abs(found.standard_errors / np.array(said[kind]) - 1.0)) < bar
        assert np.max(np.abs(np.sqrt(np.diag(found.naive)) / np.array(said["se"]) - 1.0)) < bar
        assert found.errors.clusters == (R[name]["clusters"] if kind == "cluster" else 0)


def test_weights_are_numbers_of_equal_records():
    parts = sites("made", "group")
    twice = [pd.concat([own, own[own["group"] == 2]]).drop(columns="group") for own in parts]
    model = FederatedCox(baseline="bins", times=[6, 12, 18, 24])
    weighted = [own.assign(group=1.0 + (own["group"] == 2)) for own in parts]
    found = model.fit(weighted, "time", "status", sample_weight="group").inference_[0]
    said = FederatedCox(baseline="bins", times=[6, 12, 18, 24]).fit(twice, "time", "status").inference_[0]
    assert np.max(np.abs(found.coefficients - said.coefficients) / said.standard_errors) < SEVEN_DIGITS
    assert np.max(np.abs(found.standard_errors / said.standard_errors - 1.0)) < SEVEN_DIGITS


def test_a_column_that_is_constant_inside_sites_has_an_effect():
    parts = [own.assign(teaching=float(k in (0, 2))) for k, own in enumerate(sites("made"))]
    found = FederatedCox(baseline="bins", times=[6, 12, 18, 24]).fit(parts, "time", "status")
    assert np.isfinite(found.inference_[0].standard_errors).all()
    with pytest.raises(DataError, match="depend"):
        FederatedCox().fit(parts, "time", "status")


def test_own_residuals_add_up_to_zero_and_survival_follows_from_the_hazard():
    found = fitted("made", "breslow")
    joint, edges = pd.concat(sites("made")), np.array(R["made"]["edges"], float)
    X, time, event = (joint[part].to_numpy(float) for part in (R["made"]["terms"], "time", "status"))
    own, each = BinRecords(X, time, event, edges, "log"), np.diff(found.common_hazard_[:, 3], prepend=0.0)
    left = own.martingale(each, found.predict(joint[R["made"]["terms"]]))
    assert abs(left.sum()) < SEVEN_DIGITS * len(joint)
    rows = sites("made")[0].drop(columns=["time", "status"]).head(3)
    alive = found.predict(rows, kind="survival", party="all")
    said = np.exp(-np.exp(found.predict(rows))[:, None] * found.common_hazard_[:, 3])
    assert np.max(np.abs(alive - said)) < SEVEN_DIGITS


# --- what is opened, asked and refused --------------------------------------------------------------------------------


def federation(name, ties, digits=Digits.TABLE):
    edges, parts = R[name]["edges"], sites(name)
    about = ModelPlan(Family.COX, LINKS[ties], ties=ties, bins=len(edges), digits=digits)
    options = completed(Task.COX, (("baseline", "bins"), ("times", json.dumps([float(edge) for edge in edges]))))
    labels = [own[["time", "status"]].to_numpy(float) for own in parts]
    tables = [own[R[name]["terms"]].to_numpy(float) for own in parts]
    return Federation(tables, Task.COX, Split.HORIZONTAL, labels=labels, glm=about, options=options)


@pytest.mark.parametrize("ties", LINKS)
@pytest.mark.parametrize("name", SETS)
def test_bits_that_are_opened_stay_within_what_is_expected(name, ties):
    session = federation(name, ties)
    assert session.run()[0].bits < expected_bits(session.plan)


@pytest.mark.slow
def test_of_random_problems_too():
    rng = np.random.default_rng(9)
    for _ in range(64):
        p, D, counts = rng.integers(1, 6), rng.integers(2, 8), rng.integers(60, 400, rng.integers(2, 5))
        X = [rng.normal(size=(n, p)) for n in counts]
        effects = rng.normal(0, 0.4, p)
        time = [rng.exponential(8.0 * np.exp(-own @ effects)) for own in X]
        labels = [np.column_stack((np.minimum(t, 20.0), t < 20.0)).astype(float) for t in time]
        edges = np.linspace(2, 14, D).round(1)
        ties = str(rng.choice(list(LINKS)))
        about = ModelPlan(Family.COX, LINKS[ties], ties=ties, bins=len(edges), digits=Digits.TABLE)
        options = completed(Task.COX, (("baseline", "bins"), ("times", json.dumps(edges.tolist()))))
        session = Federation(X, Task.COX, Split.HORIZONTAL, labels=labels, glm=about, options=options)
        assert session.run()[0].bits < expected_bits(session.plan)


def asked_of(own, plan):
    party = PartyData(
        open_source(own[R["made"]["terms"]].to_numpy(float)), labels=own[["time", "status"]].to_numpy(float)
    )
    return {each.rule for each in home_findings(plan, party, Policy(openings="any")) if each.asks}


def test_the_owner_of_a_bin_of_few_is_asked_and_every_party_reads_what_is_opened():
    session = federation("made", "efron")
    session.run()
    plan = session.plan
    for own in sites("made"):
        cells = pd.crosstab(pd.cut(own["time"], [0.0, *R["made"]["edges"]]), own["status"], margins=True).to_numpy()[
            :-1
        ]
        assert ("cells" in asked_of(own, plan)) == bool(((cells > 0) & (cells < 5)).any())
    said = " ".join(what_each_role_learns(plan))
    assert "how many records of all parties were at risk in each bin of time" in said
    assert "baseline hazard stay with it" not in said


@pytest.mark.parametrize(
    ("settings", "columns", "fault"),
    [
        ({"times": ()}, {}, "needs their times"),
        ({"schoenfeld": "km"}, {}, "is within sites"),
        ({}, {"entry": "entry"}, "next to the target: event, entry"),
        ({}, {"offset": "entry"}, "has no offset"),
        ({"times": [6, 6.001, 12]}, {}, "no event was seen by any party after 6 and up to 6.001"),
        ({"times": [6, 12, 60]}, {}, "everyone who was left at 12 had the event up to 60"),
    ],
)
def test_what_has_no_answer_is_refused(settings, columns, fault):
    parts = [own.assign(entry=own["time"] - 1.0) for own in sites("made")]
    if settings.get("times", (0,))[-1:] == [60]:
        parts = [own.assign(status=np.where(own["time"] > 12, 1, own["status"])) for own in parts]
    parts = parts if columns else [own.drop(columns="entry") for own in parts]
    model = FederatedCox(**{"baseline": "bins", "times": [6, 12, 18], **settings})
    with pytest.raises((ConfigError, DataError), match=fault):
        model.fit(parts, "time", "status", **columns)
