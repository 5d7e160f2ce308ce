"""Curves next to Table 1 of the same rows, and a number in fives next to a cut of it: who is the difference."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from tests.adversary.test_tables_of_studies import brought, together, words_of
from tests.adversary.test_tables_of_studies import shown as shown_table
from tests.adversary.test_times_of_studies import curves

from fedsvd import FederatedKaplanMeier, FederatedTable, Policy, Simulation
from fedsvd.policy.opened_columns import OpenedColumns
from fedsvd.statistics.fives import fives
from fedsvd.studies.opened_before import Before, study_columns

pytestmark = pytest.mark.filterwarnings("ignore")
ANY = Simulation(policy=Policy.permissive())
TIMES = [6.0, 12.0, 18.0]
FOLLOWED = """
[columns.months]
range = [0, 60]
decimals = 2
bins = [{bins}]
groups = {{ early = [{cut}] }}
[columns.died]
levels = ["no", "yes"]
[columns.arm]
levels = ["a", "b"]
"""
AGED = """
[columns.age]
range = [30, 100]
decimals = 0
bins = [45, 62, 75]
groups = {{ upper = [{cut}] }}
[columns.is_a]
levels = ["no", "yes"]
[columns.arm]
levels = ["a", "b", "c", "d"]
"""


@pytest.fixture
def dictionary(tmp_path):
    def made(text, **words):
        path = tmp_path / f"{len([*tmp_path.iterdir()])}.toml"
        path.write_text(text.format(**words))
        return path

    return made


def cohort(late=1, sizes=(280, 210, 140)):
    """Hospitals where dozens leave at six times in both arms, half by death; of the last one's this many die at 21."""
    frames = []
    for n in sizes:
        months = np.resize([2.0, 4.0, 8.0, 11.0, 14.0, 17.0], n)
        died = np.where(np.arange(n) // 6 % 2, "yes", "no")
        frames.append(pd.DataFrame({"months": months, "died": died, "arm": np.resize(["a"] * 12 + ["b"] * 12, n)}))
    last = frames[-1]
    last.loc[last.index[(last.died == "yes") & (last.months == 17.0)][:late], "months"] = 21.0
    last.loc[last.index[(last.died == "no") & (last.months == 17.0)][:8], "months"] = 30.0
    return frames


def followed(frames):
    """Times and events as survival curves take them."""
    return [own.months.to_numpy() for own in frames], [(own.died == "yes").to_numpy().astype(float) for own in frames]


def after(study, records):
    opened = OpenedColumns().after(records)
    opened = opened if study is None else opened.with_study("0", study_columns(*study), np.arange(records))
    return Before(opened, np.arange(records))


def curve(frames, edges=TIMES, counts="exact", at=-1):
    plan, parties = curves(*followed(frames), edges, counts)
    return plan, parties[at]


@pytest.mark.parametrize("late", [0, 1, 4, 5])
def test_deaths_of_table_1_less_those_of_the_curve_are_who_died_after_its_last_time_and_the_second_study_asks(
    dictionary, late
):
    """Two of the most usual studies: the row of deaths of Table 1, and exact counts up to a last time."""
    frames, path = cohort(late), dictionary(FOLLOWED, bins=30, cut=40)
    table = FederatedTable(None, columns=["died"], dictionary=path, federation=ANY, quantiles=False).fit(frames)
    counted = FederatedKaplanMeier(TIMES, counts="exact", federation=ANY).fit(None, *followed(frames)).counts_[0]
    deaths = table.description_.of("died").counts[1, 0]
    own = [
        (frame.died == "yes").sum() - ((frame.died == "yes") & (frame.months <= TIMES[-1])).sum() for frame in frames
    ]
    assert deaths - counted[len(TIMES) - 1] - own[0] == late, "what the first hospital computes of the others"
    others = [len(frame) for frame in frames[:-1]]
    described = brought(frames[-1], path, ["died"], None, others, quantiles=False)
    drawn = curve(frames)
    n = len(frames[-1])
    found = [together(drawn, after(described, n)), together(described, after(drawn, n))]
    assert [bool(each) for each in found] == [0 < late < 5] * 2
    if 0 < late < 5:
        assert "next to counts of an earlier table" in found[0][0]
        assert "next to survival curves of an earlier study" in found[1][0]


def test_a_cut_of_follow_up_in_table_1_next_to_a_curve_with_another_time_asks(dictionary):
    """At most 12 months in one, at most 12.5 in the other: the difference is who left between."""
    frames, path = cohort(0), dictionary(FOLLOWED, bins=30, cut=12.01)
    last = frames[-1]
    last.loc[last.index[last.months == 14.0][:1], "months"] = 12.25
    others, n = [len(frame) for frame in frames[:-1]], len(last)
    described = brought(last, path, ["early"], None, others, quantiles=False)
    grid = brought(last, dictionary(FOLLOWED, bins=12, cut=40), ["months"], None, others, counts="exact")
    same, moved = curve(frames), curve(frames, [6.0, 12.5, 18.0])
    for table in (described, grid):
        assert together(same, after(table, n)) == together(table, after(same, n)) == []
        assert together(moved, after(table, n))
        assert together(table, after(moved, n))


def two_hospitals(fewer_dead, fewer_censored):
    """Of the second one dies between 12 and 12.5; up to 12 the dead and the others are fewer by these."""
    mine, theirs = cohort(0, (240, 168))
    theirs.loc[theirs.index[(theirs.months == 14.0) & (theirs.died == "yes")][:1], "months"] = 12.25
    for died, few in (("yes", fewer_dead), ("no", fewer_censored)):
        theirs.loc[theirs.index[(theirs.months == 8.0) & (theirs.died == died)][:few], "months"] = 17.0
    return mine, theirs


def test_a_curve_in_fives_next_to_levels_of_table_1_leaves_one_death_and_the_second_study_asks(dictionary):
    """Two hospitals: exact deaths and departures up to 12 of the table, both in fives up to 12.5 of the curve."""
    path, found = dictionary(FOLLOWED, bins=30, cut=12.01), {}
    for fewer in product(range(5), repeat=2):
        frames = two_hospitals(*fewer)
        table = FederatedTable("died", columns=["early"], dictionary=path, federation=ANY, quantiles=False).fit(frames)
        said = table.description_
        early = dict(zip(said.columns, said.of("early").counts[0], strict=True))
        own = [((frames[0].months <= 12.0) & (frames[0].died == died)).sum() for died in ("yes", "no")]
        before = np.array([early["yes"], early["no"]]) - own
        model = FederatedKaplanMeier([6.0, 12.5, 18.0], federation=ANY).fit(None, *followed(frames))
        dead, left = model.counts_[0][1], model.counts_[0][4]
        at = frames[0].months <= 12.5
        words = [dead - fives((at & (frames[0].died == "yes")).sum()), left - fives(at.sum())]
        fits = [
            d for d in product(range(12), repeat=2) if [fives(before[0] + d[0]), fives(before.sum() + sum(d))] == words
        ]
        assert (1, 0) in fits
        described = brought(frames[1], path, ["early"], "died", (240,), quantiles=False)
        drawn = curve(frames, [6.0, 12.5, 18.0], "fives")
        asks = [bool(together(drawn, after(described, 168))), bool(together(described, after(drawn, 168)))]
        assert asks[0] == asks[1]
        if len({dead for dead, _ in fits}) == 1:
            assert asks[0], fewer
        found[fewer] = asks[0]
    assert any(found.values())
    assert not all(found.values()), "most pairs of studies are fine"


def aged(between=1, fewer=(0, 0)):
    """Two hospitals: of group a this many of the second are 61; up to 60 both groups are fewer by these."""
    frames = []
    for n in (360, 240):
        age = 30.0 + 5.0 * (np.arange(n) // 3 % 12)
        frames.append(pd.DataFrame({"age": age, "is_a": np.resize(["yes", "no", "no"], n)}))
    theirs = frames[1]
    theirs.loc[theirs.index[(theirs.is_a == "yes") & (theirs.age == 65)][:between], "age"] = 61.0
    for group, few in zip(("no", "yes"), fewer, strict=True):
        theirs.loc[theirs.index[(theirs.is_a == group) & (theirs.age == 40)][:few], "age"] = 85.0
    return frames


def test_a_number_in_fives_next_to_a_cut_of_it_in_one_table_leaves_one_patient_and_asks(dictionary):
    """Two hospitals, one table: up to 60 exactly and up to 62 in fives, of two groups and of all."""
    path, found = dictionary(AGED, cut=61), {}
    for fewer in product(range(5), repeat=2):
        mine, theirs = aged(fewer=fewer)
        table = FederatedTable("is_a", columns=["age", "upper"], dictionary=path, federation=ANY).fit([mine, theirs])
        said = table.description_
        young = dict(zip(said.columns, said.of("upper").counts[0], strict=True))
        before = np.array([young[yes] - ((mine.is_a == yes) & (mine.age <= 60)).sum() for yes in ("no", "yes")])
        own = np.array([((mine.is_a == yes) & (mine.age <= 62)).sum() for yes in ("no", "yes")])
        rounded = dict(zip(said.columns, said.of("age").grid, strict=True))
        words = [rounded[name][1] - each for name, each in zip(("no", "yes", "Overall"), words_of(own), strict=True)]
        fits = [d for d in product(range(12), repeat=2) if words_of(before + np.array(d)) == words]
        assert (0, 1) in fits
        asks = together(brought(theirs, path, ["age", "upper"], "is_a", (360,)), after(None, 240))
        if len({d for _, d in fits}) == 1:
            assert asks, fewer
            assert "next to other counts of the table" in asks[0]
        found[fewer] = bool(asks)
    assert any(found.values())
    assert not all(found.values()), "most tables are fine"


@pytest.mark.parametrize("between", [0, 1, 4, 5])
def test_an_exact_grid_next_to_a_cut_of_the_same_number_in_one_table_asks(dictionary, between):
    mine, theirs = aged(between)
    path = dictionary(AGED, cut=61)
    asked = {"columns": ["age", "upper"], "counts": "exact"}
    said = FederatedTable(None, dictionary=path, federation=ANY, **asked).fit([mine, theirs]).description_
    read = said.of("age").grid[0][1] - said.of("upper").counts[0, 0]
    assert read - ((mine.age > 60) & (mine.age <= 62)).sum() == between
    study = brought(theirs, path, asked["columns"], None, (360, 400), counts="exact")
    assert bool(together(study, after(None, 240))) == (0 < between < 5)


def test_of_three_hospitals_four_groups_of_two_are_read_from_fives_if_each_is_at_the_edge_and_this_is_stated(
    dictionary,
):
    """0, 0, 0 and 0 of four groups and 20 of all, less the own counts: two patients of each group at both others."""
    frames = []
    for n, few in ((400, 10), (320, 2), (280, 2)):
        arm = np.resize(["a", "b", "c", "d"], n)
        age = np.where(np.arange(n) < 4 * few, 40.0, 50.0 + np.arange(n) // 4 % 45)
        frames.append(pd.DataFrame({"age": age, "arm": arm}))
    path = dictionary(AGED, cut=61)
    found = shown_table(frames, path, "arm")
    own = [((frames[0].arm == arm) & (frames[0].age <= 45)).sum() for arm in "abcd"]
    assert [found[arm][0] - fives(each) for arm, each in zip("abcd", own, strict=True)] == [0.0] * 4
    assert found["Overall"][0] - fives(sum(own)) == 20.0
    each = [few for few in product(range(3), repeat=4) if fives(sum(few)) == 10]
    assert each == [(2, 2, 2, 2)], "no more than 10 are possible at either"
    study = brought(frames[1], path, ["age"], "arm", others=(400, 280))
    assert together(study, after(None, 320)) == []
    frames[2].loc[0, "age"] = 90.0
    found = shown_table(frames, path, "arm")
    assert found["Overall"][0] - fives(sum(own)) == 15.0, "of one who is not at the edge nothing is left to read"
