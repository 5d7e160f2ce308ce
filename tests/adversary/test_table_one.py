"""What one party can read of the others in Table 1, and what stops it: cells, cuts, small groups, rows that differ."""

import numpy as np
import pandas as pd

from fedsvd import FederatedTable, Policy, Simulation, open_source
from fedsvd.policy.opened_columns import OpenedColumns
from fedsvd.prepare.described import described
from fedsvd.prepare.dictionary import dictionary_of
from fedsvd.protocol.model import Digits
from fedsvd.protocol.tasks import Task
from fedsvd.studies.described_table import table_plan, table_words
from fedsvd.studies.opened_before import Before, study_columns
from fedsvd.studies.own_rows import home_findings
from fedsvd.studies.parties import PartyData
from fedsvd.studies.planning import plan_study
from fedsvd.studies.prepare_section import PrepareSection
from fedsvd.studies.stages import prepared_for
from fedsvd.studies.study import Study
from fedsvd.types import SessionId

N = 300
ANY = Simulation(policy=Policy.permissive())


def table(seed: int = 0, n: int = N) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = np.concatenate((rng.integers(40, 65, n // 2), rng.integers(67, 90, n - n // 2 - 3), [65, 65, 65]))
    return pd.DataFrame({"age": age.astype(float), "sex": rng.choice(["f", "m"], n), "arm": rng.choice(["a", "b"], n)})


DICTIONARY = dictionary_of(
    {
        "columns": {
            "age": {"range": [30, 100], "decimals": 0, "groups": {"from_65": [65], "from_66": [66], "from_60": [60]}},
            "sex": {"levels": ["f", "m"]},
            "arm": {"levels": ["a", "b"]},
        }
    }
)


def brought(frame, columns, by="arm", **asked):
    """The plan of a table and what a party brings to it, as a job by the dictionary makes both."""
    words = table_words(DICTIONARY, by, PrepareSection(columns=tuple(columns)), (), ())
    about = table_plan(DICTIONARY, words, by, digits=Digits.TABLE, **asked)
    source = described(open_source(frame), DICTIONARY, words.columns)
    party = PartyData(prepared_for(words, source, (), None, False).table)
    counts = (len(frame), 400, 350)
    plan = plan_study(Study(Task.DESCRIBE, table=about), about.columns, counts, SessionId("00" * 16)).plan
    return plan, party


def asks(frame, columns, by="arm", before=None, **asked):
    plan, party = brought(frame, columns, by, **asked)
    return {each.rule: each.text for each in home_findings(plan, party, Policy(), before) if each.asks}


def test_cells_that_few_records_tell_apart_are_named():
    """Ages cut at 60, 65 and 70 isolate no record, and differ in three."""
    frame = table()
    frame.loc[frame.age >= 67, "age"] += 3  # three people from 65 to 70
    made = {"columns": {"age": {"range": [30, 110], "groups": {"g60": [60], "g65": [65], "g70": [70]}}}}
    made["columns"] |= {"sex": {"levels": ["f", "m"]}}
    agreed = dictionary_of(made)
    words = table_words(agreed, None, PrepareSection(columns=("g65", "g70")), (), ())
    about = table_plan(agreed, words, None, digits=Digits.TABLE)
    party = PartyData(prepared_for(words, described(open_source(frame), agreed, words.columns), (), None, False).table)
    plan = plan_study(Study(Task.DESCRIBE, table=about), about.columns, (N, 400, 350), SessionId("00" * 16)).plan
    texts = [each.text for each in home_findings(plan, party, Policy(most_leverage=0.9)) if each.asks]
    assert any("differ in 1 to 4 of your records" in text for text in texts)


def test_an_honest_table_asks_no_one():
    assert asks(table(), ["sex", "from_60", "age"]) == {}


def test_two_cuts_that_three_records_lie_between_ask():
    """Everyone could subtract: three people are 65, and their sex and arm would be read off."""
    found = asks(table(), ["sex", "from_65", "from_66"])
    assert "users can compute" in found["leverage"]
    frame = table()
    frame.loc[frame.age == 65, "age"] = 64.0  # no one between both cuts
    assert asks(frame, ["sex", "from_65", "from_66"]) == {}


def remembered(frame, columns, by="arm", rows=None):
    """What a party stores of an earlier table of these rows."""
    rows = np.arange(len(frame)) if rows is None else rows
    plan, party = brought(frame.iloc[rows].reset_index(drop=True), columns, by)
    opens = study_columns(plan, party)
    assert opens is not None
    assert opens.described
    return Before(OpenedColumns().after(len(frame)).with_study("first", opens, rows), np.arange(len(frame)))


def test_two_cuts_in_two_studies_ask_in_the_second():
    first = remembered(table(), ["from_65"])
    assert "users can compute" in asks(table(), ["from_66"], before=first)["leverage"]
    assert asks(table(), ["from_65"], before=first) == {}  # the same table again
    assert asks(table(), ["from_60"], before=first) == {}


def test_tables_of_rows_that_differ_in_one_person_ask_in_the_second():
    """The first table was of all rows but one: the difference of both is that person's levels."""
    frame = table()
    first = remembered(frame, ["sex", "from_60"], rows=np.arange(1, N))
    assert "users can compute" in asks(frame, ["sex", "from_60"], before=first)["leverage"]


def test_overlapping_groups_of_two_studies_ask_where_counts_isolate_a_record():
    frame = table()
    other = frame.copy()
    moved = frame.index[frame.arm == "a"][0]
    other.loc[moved, "arm"] = "b"  # group columns that differ in one person
    first = remembered(frame, ["sex"])
    plan, party = brought(other, ["sex"])
    found = {each.rule for each in home_findings(plan, party, Policy(), first) if each.asks}
    assert "leverage" in found


def test_gaps_of_few_records_ask():
    frame = table()
    frame.loc[:2, "age"] = np.nan
    assert "miss 'age'" in asks(frame, ["sex", "age"])["gaps"]
    frame.loc[:60, "age"] = np.nan
    assert asks(frame, ["sex", "age"]) == {}


def test_exact_counts_of_few_records_ask():
    assert "cells of the grid of 'age'" in asks(table(), ["age"], counts="exact")["cells"]


def test_ranks_of_a_group_of_few_records_ask():
    frame = table()
    frame["arm"] = np.where(np.arange(N) < 3, "b", "a")
    assert "groups" in asks(frame, ["age", "sex"])


def test_rows_of_one_person_ask():
    frame = table()
    plan, party = brought(frame, ["sex"])
    twice = PartyData(party.table, ids=np.arange(N) // 2)
    assert "persons" in {each.rule for each in home_findings(plan, twice, Policy()) if each.asks}


def test_words_of_a_grid_are_multiples_of_five_with_and_without_a_record():
    """One who subtracts the grids of two row sets reads multiples of five, and mostly nothing."""
    frames = [table(seed) for seed in range(3)]
    with_all = FederatedTable("arm", columns=["age"], federation=ANY).fit(frames).description_.of("age").grid
    frames[0] = frames[0].drop(index=[17]).reset_index(drop=True)
    without = FederatedTable("arm", columns=["age"], federation=ANY).fit(frames).description_.of("age").grid
    assert ((with_all % 5) == 0).all()
    assert (((with_all - without) % 5) == 0).all()


def test_groups_of_five_have_neither_mean_nor_quartiles_nor_grid():
    rng = np.random.default_rng(4)
    frames = [
        pd.DataFrame({"arm": ["a"] * 60 + ["b"] * few, "age": rng.integers(40, 90, 60 + few).astype(float)})
        for few in (3, 3, 3)
    ]
    found = FederatedTable("arm", federation=ANY).fit(frames).description_
    age = found.of("age")
    assert found.columns == ("a", "b", "Overall")
    assert np.isnan(age.mean[1:]).all()
    assert not age.grid[1].any()


def test_no_smallest_or_largest_value_is_in_a_result():
    frames = [table(seed) for seed in range(3)]
    found = FederatedTable("arm", federation=ANY).fit(frames)
    assert {"min", "max", "range"}.isdisjoint(found.numbers_.columns)
    outer = found.description_.of("age").quantiles[[0, 4], -1]
    joint = pd.concat(frames).age
    assert joint.min() < outer[0] < outer[1] < joint.max()
