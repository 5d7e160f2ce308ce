"""Table 1 of several studies: groups overlap, a cut or a grid moves, and who lies between is a difference of counts."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from fedsvd import FederatedTable, Policy, Simulation, open_source
from fedsvd.policy.opened_columns import OpenedColumns, read_columns, write_columns
from fedsvd.prepare.described import described
from fedsvd.prepare.dictionary import read_dictionary
from fedsvd.protocol.model import Digits
from fedsvd.protocol.tasks import Task
from fedsvd.statistics.fives import fives
from fedsvd.studies.described_table import table_plan, table_words
from fedsvd.studies.opened_before import Before, study_columns
from fedsvd.studies.own_rows import home_findings
from fedsvd.studies.parties import PartyData
from fedsvd.studies.planning import plan_study
from fedsvd.studies.prepare_section import PrepareSection
from fedsvd.studies.stages import prepared_for
from fedsvd.studies.study import Study
from fedsvd.types import SessionId

pytestmark = pytest.mark.filterwarnings("ignore")
ANY = Simulation(policy=Policy.permissive())
ARMS = ("a", "b", "c")
WORDS = """
[columns.age]
range = [30, 100]
decimals = 0
bins = [45, {edge}, 75]
groups = {{ upper = [{cut}] }}
[columns.arm]
levels = ["a", "b", "c", "d"]
"""
ONE_ARM = """[columns.is_{arm}]
levels = ["no", "yes"]
"""


@pytest.fixture
def dictionary(tmp_path):
    """One whose grid has an edge at 60, or at 62, and whose upper ages begin after it."""

    def made(edge):
        path = tmp_path / f"{edge}.toml"
        path.write_text(WORDS.format(edge=edge, cut=edge + 1) + "".join(ONE_ARM.format(arm=arm) for arm in ARMS))
        return path

    return made


def hospitals(between=1):
    """Three of 360, 300 and 240: in each arm dozens of every age, but 62, which at the third this many of a have.

    Of b and of c five are 62 there.
    """
    frames = []
    for n in (360, 300, 240):
        age = 30.0 + 5.0 * (np.arange(n) // 3 % 12)
        frames.append(pd.DataFrame({"age": age, "arm": np.resize([*ARMS], n)}))
    last = frames[2]
    for arm, few in zip(ARMS, (between, 5, 5), strict=True):
        last.loc[last.index[(last.arm == arm) & (last.age == 60)][:few], "age"] = 62.0
    for frame in frames:
        for arm in ARMS:
            frame[f"is_{arm}"] = np.where(frame.arm == arm, "yes", "no")
    return frames


def brought(frame, path, columns, by, others=(400, 350), **asked):
    """The plan of a table and what a party brings, as a job by the dictionary makes both."""
    agreed = read_dictionary(path)
    words = table_words(agreed, by, PrepareSection(columns=tuple(columns)), (), ())
    about = table_plan(agreed, words, by, digits=Digits.TABLE, **asked)
    source = described(open_source(frame), agreed, words.columns)
    party = PartyData(prepared_for(words, source, (), None, False).table)
    study = Study(Task.DESCRIBE, table=about)
    return plan_study(study, about.columns, (len(frame), *others), SessionId("00" * 16)).plan, party


def after(frame, *studies):
    opened = OpenedColumns().after(len(frame))
    for number, study in enumerate(studies):
        opened = opened.with_study(str(number), study_columns(*study), np.arange(len(frame)))
    return Before(opened, np.arange(len(frame)))


def together(study, before):
    """What the owner is asked because of counts next to each other."""
    found = home_findings(*study, Policy(openings="any"), before)
    return [each.text for each in found if each.asks and "next to each other" in each.text]


def shown(frames, path, by, column="age", **asked):
    """Opened counts of a column by group, as every party reads them."""
    found = FederatedTable(by, columns=[column], dictionary=path, federation=ANY, **asked).fit(frames).description_
    number = found.of(column)
    counts = number.grid if column == "age" else number.counts.T
    return dict(zip(found.columns, counts, strict=True))


def of_three(frame, dictionary, column, **asked):
    jobs = ((dictionary(60), "is_a"), (dictionary(62), "is_b"), (dictionary(62), "is_c"))
    return jobs, [brought(frame, path, [column], by, **asked) for path, by in jobs]


@pytest.mark.parametrize(("column", "between"), [("age", 1), ("age", 2), ("upper", 2), ("upper", 4)])
def test_tables_by_three_groups_show_few_patients_that_no_two_show_and_the_third_asks(dictionary, column, between):
    """Up to 60 of a or not; up to 62 of b or not, and of c or not: a and b together, less b, less a before."""
    frames, asked = hospitals(between), {"counts": "exact"} if column == "age" else {}
    jobs, studies = of_three(frames[2], dictionary, column, **asked)
    place = 1 if column == "age" else 0
    a_before, b_after, not_c = (
        shown(frames, path, by, column, **asked)[group][place]
        for (path, by), group in zip(jobs, ("yes", "yes", "no"), strict=True)
    )
    assert not_c - b_after - a_before == between, "of a between 60 and 62"
    assert [together(each, after(frames[2])) for each in studies] == [[], [], []]
    assert [together(studies[1], after(frames[2], studies[0])), together(studies[2], after(frames[2], studies[0]))] == [
        [],
        [],
    ]
    (text,) = together(studies[2], after(frames[2], *studies[:2]))
    assert text.startswith(f"{between} of 240 records")
    assert "next to an earlier table hold 1 to 4 of your records" in text
    for harmless in (0, 5):
        frame = hospitals(harmless)[2]
        _, studies = of_three(frame, dictionary, column, **asked)
        assert together(studies[2], after(frame, *studies[:2])) == []


def test_a_grid_in_exact_counts_next_to_a_cut_by_other_groups_asks(dictionary):
    """The age's grid of one study and a cut of the age in two others: levels and numbers are judged together."""
    frame = hospitals()[2]
    grid = brought(frame, dictionary(60), ["age"], "is_a", counts="exact")
    cuts = [brought(frame, dictionary(62), ["upper"], by) for by in ("is_b", "is_c")]
    assert together(cuts[1], after(frame, grid, cuts[0]))
    assert together(grid, after(frame, *cuts))
    assert together(cuts[1], after(frame, cuts[0])) == []


def words_of(own):
    """Of two groups and of all what is counted up to an age, as it is rounded at home."""
    return [float(each) for each in (*fives(own), fives(own.sum()))]


def test_counts_in_fives_next_to_exact_ones_leave_one_number_and_the_second_table_asks(dictionary):
    """Two hospitals: one subtracts its own counts, exact up to 60 and in fives up to 62, of two groups and of all."""
    found = {}
    for fewer_a, fewer_rest in product(range(5), repeat=2):  # remainders of both groups up to 60
        mine, theirs = (hospitals(between)[at] for at, between in ((0, 1), (2, 1)))
        theirs.loc[(theirs.age == 62) & (theirs.arm != "a"), "age"] = 60.0
        for yes, few in (("yes", fewer_a), ("no", fewer_rest)):
            theirs.loc[theirs.index[(theirs.is_a == yes) & (theirs.age == 40)][:few], "age"] = 85.0
        exact = shown([mine, theirs], dictionary(60), "is_a", counts="exact")
        own = np.array([((mine.is_a == yes) & (mine.age <= 62)).sum() for yes in ("no", "yes")])
        before = np.array([exact[yes][1] for yes in ("no", "yes")]) - own
        rounded = shown([mine, theirs], dictionary(62), "is_a")
        words = [rounded[name][1] - each for name, each in zip(("no", "yes", "Overall"), words_of(own), strict=True)]
        fits = [d for d in product(range(12), repeat=2) if words_of(before + np.array(d)) == words]
        assert (0, 1) in fits
        studies = [
            brought(theirs, dictionary(60), ["age"], "is_a", counts="exact"),
            brought(theirs, dictionary(62), ["age"], "is_a"),
        ]
        asks = [bool(together(b, after(theirs, a))) for a, b in (studies, studies[::-1])]
        assert asks[0] == asks[1]
        if len({d for _, d in fits}) == 1:
            assert asks[0], (fewer_a, fewer_rest)
        found[fewer_a, fewer_rest] = asks[0]
    assert any(found.values())
    assert not all(found.values()), "most pairs of tables are fine"


def test_four_groups_of_two_are_read_from_fives_of_one_table_and_it_asks(dictionary):
    """Two patients of every arm are 45 or younger: 0, 0, 0 and 0 in fives, and 10 of all."""
    frames = []
    for n, few in ((400, 10), (320, 2)):
        arm = np.resize(["a", "b", "c", "d"], n)
        age = np.where(np.arange(n) < 4 * few, 40.0, 50.0 + np.arange(n) // 4 % 45)
        frames.append(pd.DataFrame({"age": age, "arm": arm}))
    found = shown(frames, dictionary(60), "arm")
    own = [((frames[0].arm == arm) & (frames[0].age <= 45)).sum() for arm in "abcd"]
    words = [found[arm][0] - fives(each) for arm, each in zip("abcd", own, strict=True)]
    assert words == [0.0] * 4
    assert found["Overall"][0] - fives(sum(own)) == 10.0
    tables = [
        each for each in product(range(5), repeat=4) if not fives(np.array(each)).any() and fives(sum(each)) == 10
    ]
    assert tables == [(2, 2, 2, 2)]
    study = brought(frames[1], dictionary(60), ["age"], "arm", others=(400,))
    (text,) = together(study, after(frames[1]))
    assert "next to the total of all groups" in text
    assert "quantiles = false" in text
    frames[1].loc[0, "age"] = 90.0
    assert together(brought(frames[1], dictionary(60), ["age"], "arm", others=(400,)), after(frames[1])) == []


def test_grids_of_tables_are_stored_and_forgotten_with_their_study(dictionary, tmp_path):
    frame = hospitals()[2]
    _, studies = of_three(frame, dictionary, "age", counts="exact")
    opened = after(frame, *studies[:2]).columns
    write_columns(tmp_path, 1, opened)
    again = read_columns(tmp_path, 1)
    assert again.studies == opened.studies
    at = [each for each in again.studies["0"].grids if each is not None]
    assert [(each.edges, each.least) for each in at] == [((45.0, 60.0, 75.0, 100.0), 1)]
    before = Before(again, np.arange(len(frame)))
    assert together(studies[2], before)
    assert together(studies[2], Before(again.without("0"), np.arange(len(frame)))) == []
