"""``FederatedKaplanMeier`` through the real roles: R's recorded curves and tests, fives within their bound."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.incidence_data import edges_of as causes_edges
from tests.incidence_data import table as causes_table
from tests.survival_data import MADE, OF_R, edges_of, table
from tests.tolerances import CURVE_BAR, WITHIN_BAR, WITHIN_MORE_BAR

from fedsvd import FederatedKaplanMeier, Local, Policy, Simulation
from fedsvd.errors import ConfigError, DataError, NotFinite, NotNumeric, ReleaseRefused
from fedsvd.protocol.openings import expected_bits

pytestmark = pytest.mark.filterwarnings("ignore")
VECTORS = Path(__file__).parents[2] / "vectors"
R = json.loads((VECTORS / "survival-r.json").read_text(encoding="utf-8"))
CAUSES = json.loads((VECTORS / "incidence-r.json").read_text(encoding="utf-8"))


def sites(name):
    data = table(name)
    return [data[data["site"] == site] for site in sorted(data["site"].unique())]


def fitted(name, **asked):
    return FederatedKaplanMeier(edges_of(name), **asked).fit(sites(name), "time", "status", "group")


@pytest.mark.parametrize("name", [*MADE, *OF_R])
def test_exact_counts_and_more_digits_are_rs(name):
    found = fitted(name, counts="exact", digits="more")
    for curve, recorded in zip(found.curves_, R[name]["bins"], strict=True):
        theirs = np.array(recorded["surv"], dtype=float)
        assert np.abs(curve.survival - theirs)[curve.at_risk > 0].max() < CURVE_BAR
    assert abs(found.test_.statistic / R[name]["logrank"] - 1.0) < WITHIN_MORE_BAR
    assert (found.most_off_, found.deviation_) == (0.0, 0.0)


@pytest.mark.parametrize("name", [*MADE, *OF_R])
def test_counts_in_fives_are_within_their_bound_and_the_test_to_four_digits(name):
    exact, found = fitted(name, counts="exact"), fitted(name, digits="table")
    parties = len(sites(name))
    assert found.most_off_ == 2 * parties
    assert found.deviation_ == np.sqrt(2.0 * parties)
    assert np.abs(found.counts_ - exact.counts_).max() <= found.most_off_
    assert (found.counts_ % 5 == 0).all()
    assert abs(found.test_.statistic / R[name]["logrank"] - 1.0) < WITHIN_BAR


@pytest.mark.parametrize(
    "test, key", [("gehan", "gehan"), ("tarone-ware", "tarone"), ("peto", "peto"), ("fleming-harrington", "fleming")]
)
def test_weighted_kin_are_rs(test, key):
    found = fitted("made", test=test, digits="more")
    assert abs(found.test_.statistic / R["made"][key] - 1.0) < WITHIN_MORE_BAR


def test_bits_of_a_plan_are_those_of_its_counts_and_of_its_test():
    plan = fitted("made", digits="table").plan_
    counts = 3 * (2 * 24 + 1) * (plan.n // 5).bit_length()
    assert expected_bits(plan) == counts + 5 * (24 + 7)


def test_without_times_an_even_grid_is_made_in_one_process():
    data = sites("made")
    found = FederatedKaplanMeier().fit(data, "time", "status")
    times = found.curves_[0].time
    assert len(times) <= 50
    assert times[-1] >= max(own["time"].max() for own in data)
    assert len(np.unique(np.diff(times).round(9))) == 1
    assert found.test_ is None
    assert found.groups_ == ("all",)


def test_arrays_of_each_party_and_groups_of_text_are_read():
    data = sites("made")
    times, events = [own["time"].to_numpy() for own in data], [own["status"].to_numpy() for own in data]
    groups = [np.where(own["group"] == 1, "a", "b") for own in data]
    found = FederatedKaplanMeier([6.0, 12.0], counts="exact").fit(None, times, events, groups)
    joint, seen, by = np.concatenate(times), np.concatenate(events) == 1, np.concatenate(groups)
    assert found.groups_ == ("a", "b")
    gone = (joint < 12.0) | (seen & (joint == 12.0))  # who is censored at an edge was at risk up to it
    assert found.counts_[1, 3] == np.count_nonzero(gone & (by == "b"))
    assert list(found.tidy().columns)[:4] == ["time", "n.risk", "n.event", "n.censor"]
    assert list(found.summary_frame()["strata"]) == ["a", "b"]


@pytest.mark.slow
def test_processes_on_one_machine_give_the_same_counts_and_names_of_groups():
    data = sites("made")[:3]
    here = FederatedKaplanMeier([6.0, 12.0], groups=(1, 2, 3)).fit(data, "time", "status", "group")
    where = Local(policy=Policy.permissive())
    apart = FederatedKaplanMeier([6.0, 12.0], groups=(1, 2, 3), federation=where).fit(data, "time", "status", "group")
    assert np.array_equal(apart.counts_, here.counts_)
    assert apart.groups_ == here.groups_ == ("1", "2", "3")
    assert abs(apart.test_.statistic / here.test_.statistic - 1.0) < WITHIN_BAR


def test_a_policy_with_a_larger_least_count_refuses_fives():
    where = Simulation(policy=replace(Policy.permissive(), enforce=True, least_count=10))
    with pytest.raises(ReleaseRefused, match="multiples of 5, 10 is asked for"):
        FederatedKaplanMeier([6.0, 12.0], federation=where).fit(sites("made"), "time", "status")
    FederatedKaplanMeier([6.0, 12.0], least_count=10, federation=where).fit(sites("made"), "time", "status")


@pytest.mark.parametrize(
    "asked, fault",
    [
        ({"times": [2.0, 1.0]}, "do not rise"),
        ({"until": 99.0}, "beyond the last"),
        ({"counts": "tens"}, "counts"),
        ({"test": "cox"}, "test"),
    ],
)
def test_what_cannot_be_counted_is_refused(asked, fault):
    with pytest.raises(ConfigError, match=fault):
        FederatedKaplanMeier(**{"times": [6.0, 12.0], **asked}).fit(sites("made"), "time", "status", "group")


def test_one_group_is_refused_as_r_refuses_it():
    data = [own.assign(group=1) for own in sites("made")]
    with pytest.raises(ConfigError, match="one group cannot be compared"):
        FederatedKaplanMeier([6.0, 12.0]).fit(data, "time", "status", "group")


def test_an_event_that_is_neither_0_nor_1_is_refused():
    data = [own.assign(status=own["status"] + 1) for own in sites("made")]
    with pytest.raises(DataError, match="neither 0 nor 1"):
        FederatedKaplanMeier([6.0, 12.0]).fit(data, "time", "status")


def test_the_table_of_curves_has_brooms_names_and_is_written_as_a_regression_table_is(tmp_path):
    found = FederatedKaplanMeier(edges_of("made"), counts="exact").fit(sites("made"), "time", "status", "group")
    frame, glance, summary = found.summary_frame(), found.glance(), found.summary()
    assert list(glance)[:5] == ["strata", "records", "n.max", "n.start", "events"]
    assert list(glance)[5:] == ["rmean", "rmean.std.error", "median", "conf.low", "conf.high", "nobs"]
    assert glance["rmean.std.error"].tolist() == frame["std.error"].tolist()
    assert glance["nobs"].sum() == len(table("made"))
    assert summary.names == found.groups_
    assert list(summary.cells["median"]) == frame["median"].tolist()
    assert f"{found.test_.statistic:.4g}" in str(summary)
    assert "multiples" not in str(summary)
    assert r"\toprule" in summary.to_latex()
    assert "<table" in summary.to_html()
    assert (tmp_path / "curves.docx").write_bytes(summary.to_docx()) > 0
    rounded = FederatedKaplanMeier(edges_of("made")).fit(sites("made"), "time", "status")
    assert "multiples of 5" in str(rounded.summary())
    assert "log-rank" not in str(rounded.summary())


# --- competing causes -------------------------------------------------------------------------------------------------


def of_causes(name, **asked):
    data = causes_table(name)
    parts = [data[data["site"] == site] for site in sorted(data["site"].unique())]
    model = FederatedKaplanMeier(causes_edges(name), causes=[1, 2], **asked)
    return model.fit(parts, formula="Surv(time, status) ~ group")


@pytest.mark.parametrize("name", ["made", "mgus2"])
def test_incidences_of_causes_are_rs_and_in_fives_within_their_bound(name):
    found, rounded = of_causes(name, counts="exact"), of_causes(name)
    for group, recorded in zip(found.incidence_, CAUSES[name]["bins"], strict=True):
        for cause, key in zip(group, ("one", "two"), strict=True):
            assert np.abs(cause.share - np.array(recorded[key])).max() < 10 * CURVE_BAR
    assert np.abs(rounded.counts_ - found.counts_).max() <= rounded.most_off_
    assert (rounded.counts_ % 5 == 0).all()
    table = found.tidy()
    assert table["state"].unique().tolist() == ["1", "2"]
    assert len(table) == 2 * len(found.groups_) * len(causes_edges(name))


def test_the_test_of_competing_causes_is_of_the_first_with_the_others_censored():
    data = causes_table("made")
    parts = [data[data["site"] == site] for site in sorted(data["site"].unique())]
    first = [part.assign(status=(part["status"] == 1).astype(int)) for part in parts]
    other = FederatedKaplanMeier(causes_edges("made"), digits="more").fit(first, "time", "status", "group")
    found = of_causes("made", digits="more")
    assert abs(found.test_.statistic / other.test_.statistic - 1.0) < WITHIN_MORE_BAR


@pytest.mark.slow
def test_causes_run_among_processes_and_come_back_with_their_names(tmp_path):
    data = causes_table("made").assign(why=lambda each: np.array(["0", "relapse", "death"])[each["status"]])
    parts = [data[data["site"] == site] for site in (1, 2, 3)]
    model = FederatedKaplanMeier(causes_edges("made"), causes=["relapse", "death"], federation=Local())
    found = model.fit(parts, "time", "why")
    assert found.tidy()["state"].unique().tolist() == ["relapse", "death"]
    here = FederatedKaplanMeier(causes_edges("made"), causes=["relapse", "death"]).fit(parts, "time", "why")
    assert (found.counts_ == here.counts_).all()


def test_an_event_of_no_cause_is_refused():
    data = causes_table("made")
    with pytest.raises(DataError, match="neither 0 nor one of the causes"):
        FederatedKaplanMeier([1, 2], causes=[1, 3]).fit([data, data], "time", "status")
    with pytest.raises(ConfigError, match="one cause competes with no other"):
        FederatedKaplanMeier([1, 2], causes=[1]).fit([data[data["status"] < 2]] * 2, "time", "status")


def test_curves_without_times_are_refused_in_words():
    with pytest.raises(ConfigError, match=r"survival curves need times\. Fix: give them as y"):
        FederatedKaplanMeier().fit([np.arange(5.0), np.arange(5.0)], event=[np.ones(5), np.ones(5)])


def by_party(times=None, events=None, groups=None):
    rng = np.random.default_rng(4)
    usual = [rng.exponential(10.0, 60) + 0.1 for _ in "ab"], [rng.integers(0, 2, 60).astype(float) for _ in "ab"]
    found = [list(each) for each in (*usual, [np.array(["a", "b"] * 30, dtype=object)] * 2)]
    for each, entry in zip(found, (times, events, groups), strict=True):
        if entry is not None:
            each[0] = np.where(np.arange(60) == 3, entry, each[0])
    return found


@pytest.mark.parametrize("gap", [None, np.nan, pd.NA, pd.NaT])
def test_records_without_a_group_are_refused_and_make_no_curve(gap):
    with pytest.raises(DataError, match="the group of some rows is missing"):
        FederatedKaplanMeier([6.0, 12.0]).fit(None, *by_party(groups=[gap] * 60))
    coded = [np.where(np.arange(60) > 3, 1.0, np.nan), np.zeros(60)]
    with pytest.raises(DataError, match="the group of some rows is missing"):
        FederatedKaplanMeier([6.0, 12.0]).fit(None, *by_party()[:2], coded)


@pytest.mark.parametrize("time", [np.nan, np.inf])
@pytest.mark.parametrize("asked", [(), (6.0, 12.0)])
def test_a_time_that_is_missing_or_infinite_is_refused_by_its_place(time, asked):
    with pytest.raises(NotFinite, match="the first at row 3, column 'time'"):
        FederatedKaplanMeier(asked).fit(None, *by_party(times=time)[:2])


@pytest.mark.parametrize("which", ["times", "events"])
def test_a_refusal_of_text_shows_no_entry(which):
    with pytest.raises(NotNumeric, match=f"{which[:-1]} holds text") as caught:
        FederatedKaplanMeier([6.0, 12.0]).fit(None, *by_party(**{which: np.array(["Meier"] * 60, dtype=object)})[:2])
    assert "Meier" not in str(caught.value)
