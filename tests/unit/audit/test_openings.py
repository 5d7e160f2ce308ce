"""Attacks on openings: what they read is compared with true records here, and rules are those that would be asked.

Tables are drawn with a seed; which record an attack must find is known from how it was laid into the table.
"""

from dataclasses import replace

import numpy as np
import pytest

from fedsvd.audit.openings import audit_openings
from fedsvd.audit.openings_directions import directions
from fedsvd.audit.openings_patterns import (
    Equations,
    Patterns,
    logistic,
    opened_information,
    read_exactly,
    robust,
)
from fedsvd.audit.openings_sums import cuts, dropped, rosters, singled
from fedsvd.audit.openings_table import OpenedTable, Stop, opened_table
from fedsvd.data.arrays import ArraySource
from fedsvd.errors import ConfigError
from fedsvd.policy.rules import Policy
from fedsvd.protocol.model import Digits, ModelPlan
from fedsvd.protocol.tasks import Family, Split, Task
from fedsvd.studies.planning import plan_study
from fedsvd.studies.study import Study
from fedsvd.types import SessionId

USUAL = Policy()
RECORDS = 360
OTHERS = 240  # of three equal parties, without the curious one


def table(X, y, names=None, gaps=None):
    names = tuple(f"x{j}" for j in range(X.shape[1])) if names is None else names
    return OpenedTable(names, X, gaps or {}, "y", y, ())


def findings(seed=4, columns=6, n=RECORDS):
    """0/1 columns, and an outcome of two values that depends on them."""
    rng = np.random.default_rng(seed)
    X = (rng.random((n, columns)) < rng.uniform(0.2, 0.6, columns)).astype(float)
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(0.3 - X @ rng.normal(0, 0.7, columns)))).astype(float)
    return table(X, y)


def measurements(seed=5, columns=3, n=RECORDS):
    rng = np.random.default_rng(seed)
    return table(rng.normal(50, 12, (n, columns)).round(3), rng.normal(size=n))


# --- patterns ---------------------------------------------------------------------------------------------------------


def test_counts_of_patterns_are_those_of_the_rows():
    patterns = Patterns.of(np.array([[0.0, 2.0], [1.0, 2.0], [1.0, 5.0]]))
    assert patterns.grid.tolist() == [[0, 2], [0, 5], [1, 2], [1, 5]]
    assert patterns.counts(np.array([[1.0, 5.0], [1.0, 5.0], [0.0, 2.0]])).tolist() == [1, 0, 0, 2]


def test_a_guess_by_margins_is_the_product_of_shares():
    patterns = Patterns.of(np.array([[0.0, 0.0], [1.0, 1.0]]))
    found = patterns.guess(np.zeros((1, 2)), np.array([0.25, 0.5]), 80)
    assert found.tolist() == [30, 30, 10, 10]


def test_records_in_patterns_whose_count_is_off_by_one_are_not_read():
    assert read_exactly(np.array([3.0, 1.0, 0.0, 7.0]), np.array([3.0, 2.0, 0.0, 7.0])) == 10


def test_equations_that_do_not_determine_counts_give_the_guess_where_they_say_nothing():
    A = np.array([[1.0, 1.0, 0.0]])
    found = Equations(A, np.array([10.0]), np.array([1e-9])).solved(np.array([2.0, 2.0, 6.0]))
    assert found.tolist() == [5, 5, 6]


def test_lattice_reduction_finds_whole_counts_that_least_squares_does_not():
    """Twelve unknown counts in five sums of irrational numbers, to nine digits."""
    rng = np.random.default_rng(3)
    A, counts = rng.normal(size=(5, 12)), rng.integers(0, 9, 12).astype(float)
    guess = np.full(12, 4.0)
    found = Equations(A, A @ counts, np.full(5, 1e-9)).solved(guess)
    assert found.tolist() == counts.tolist()
    assert Equations(A, A @ counts, np.full(5, 0.1)).solved(guess).tolist() != counts.tolist()


@pytest.mark.parametrize("seed", [4, 5, 6])
def test_all_digits_give_every_record_away_and_so_do_few_of_five_columns(seed):
    every, few = logistic(findings(seed, columns=5), USUAL, seed)
    for played in (every, few):
        assert (played.read, played.of) == (OTHERS, OTHERS)
    assert every.by_chance == few.by_chance < 0.5 * OTHERS
    for played in (every, few):
        assert played.verdict.stop is Stop.REFUSED
        assert played.verdict.rules == ("patterns",)


def test_what_is_read_is_of_the_opened_sums_not_of_the_truth(monkeypatch):
    """With sums of other records the same attack reads no more than a guess."""
    from fedsvd.audit import openings_patterns as module

    real, other = findings(4, columns=5), findings(14, columns=5)
    original = module.opened_information
    monkeypatch.setattr(module, "opened_information", lambda X, y, *rest: original(other.X, other.y, *rest))
    every, _ = logistic(real, USUAL, 4)
    assert every.read < 0.5 * OTHERS


def test_what_a_separated_model_opened_before_it_ended_is_read():
    X = (np.random.default_rng(0).random((300, 3)) < 0.5).astype(float)
    every, _ = logistic(table(X, X[:, 0]), Policy.permissive(), 0)
    assert (every.read, every.of) == (200, 200)


def test_few_digits_are_the_true_information_in_their_units_with_noise_of_each_party():
    """The matrices of the attack against those of all records, computed here."""
    made = findings()
    about = ModelPlan(Family.BINOMIAL, "logit", classes=2, digits=Digits.TABLE)
    study = Study(Task.GLM, Split.HORIZONTAL, targets=1, glm=about)
    plan = plan_study(study, 6, (120, 120, 120), SessionId("00" * 16)).plan
    opened = opened_information(made.X, made.y, made.dealt(3), plan, 1)
    assert len(opened) > 1
    for at, sums, deviations in opened:
        Z = np.column_stack((np.ones(RECORDS), made.X - at.centre))
        p = 1.0 / (1.0 + np.exp(-Z @ at.beta))
        true = ((Z * (p * (1.0 - p))[:, None]).T @ Z)[np.triu_indices(7)]
        off = np.abs(sums - true) / (deviations / 4.0)  # in units
        assert off.max() <= 3 * 4.5  # three parties, each rounded to half a unit and four units of noise
        assert off.max() > 0.5


def test_an_owner_who_allows_any_opening_is_told_that_nothing_stops_it():
    every, _ = logistic(findings(), Policy.permissive(), 0)
    assert every.read == OTHERS
    assert (every.verdict.stop, every.verdict.rules) == (Stop.NOT, ())


def test_a_logistic_regression_of_measurements_is_not_played():
    (played,) = logistic(measurements(), USUAL, 0)
    assert (played.read, played.of, played.verdict.stop) == (0, 0, Stop.NOT_JUDGED)


def test_three_kinds_of_robust_errors_give_every_record_away_in_all_digits_and_in_few():
    """Sums of whole numbers have few digits of their own: what stops it is the rule."""
    for played, digits in zip(robust(findings(), USUAL), ("all", "table"), strict=True):
        assert f'digits = "{digits}"' in played.attack
        assert (played.read, played.of, played.studies) == (OTHERS, OTHERS, 3)
        assert played.by_chance < 0.5 * OTHERS
        assert played.verdict.rules == ("patterns",)
        assert played.verdict.stop in (Stop.ASKS, Stop.REFUSED)


# --- sums -------------------------------------------------------------------------------------------------------------


def with_a_product(records):
    """Two 0/1 columns that are 1 together in these records alone, and measurements."""
    made = measurements()
    a = (np.arange(RECORDS) % 3 == 0).astype(float)
    b = (np.arange(RECORDS) % 3 == 1).astype(float)
    a[records], b[records] = 1.0, 1.0
    return table(np.column_stack((a, b, made.X)), made.y, ("a", "b", "u", "v", "w"))


def test_a_product_that_one_record_has_gives_its_row_and_is_refused():
    played = singled(with_a_product([200]), USUAL)
    assert (played.read, played.of) == (1, OTHERS)
    assert played.verdict.stop is Stop.REFUSED
    assert "leverage" in played.verdict.rules


@pytest.mark.parametrize("records", [[200, 300], [50], []])
def test_a_product_that_two_have_or_the_curious_party_itself_gives_none(records):
    assert singled(with_a_product(records), USUAL).read == 0


def test_a_column_of_the_table_that_one_record_has_is_asked_about():
    made = measurements()
    rare = (np.arange(RECORDS) == 333).astype(float)
    played = singled(table(np.column_stack((made.X, rare)), made.y), USUAL)
    assert played.read == 1
    assert played.verdict.stop is Stop.ASKS
    assert "leverage" in played.verdict.rules


def with_gaps(both):
    """Columns p and q, each missing in 20 records, and both in these."""
    made = measurements()
    p, q = np.zeros(RECORDS, bool), np.zeros(RECORDS, bool)
    p[130:150], q[160:180] = True, True
    p[both], q[both] = True, True
    return replace(made, gaps={"p": p, "q": q})


def test_four_studies_that_drop_rows_give_one_record_and_with_row_sets_none():
    played = dropped(with_gaps([200]), USUAL, 0)
    assert (played.read, played.of, played.studies) == (1, OTHERS, 4)
    assert (played.verdict.stop, played.verdict.rules) == (Stop.ASKS, ("rows",))
    assert "0 read" in played.note


def test_an_owner_who_always_answers_yes_has_row_sets_and_one_who_forgets_has_nothing():
    assert dropped(with_gaps([200]), Policy(answered=("rows",)), 0).verdict.stop is Stop.LEFT_OUT
    assert dropped(with_gaps([200]), Policy(remember=False), 0).verdict.stop is Stop.NOT


@pytest.mark.parametrize("both", [[200, 201], [10], []])
def test_gaps_that_no_single_record_of_the_others_has_give_none(both):
    assert dropped(with_gaps(both), USUAL, 0).read == 0


def test_three_rosters_give_each_partys_gram_matrix_and_are_asked_about():
    played = rosters(measurements(), USUAL)
    assert (played.read, played.of) == (3, 3)
    assert (played.verdict.stop, played.verdict.rules) == (Stop.ASKS, ("roster",))
    assert rosters(measurements(), Policy(answered=("roster",))).verdict.stop is Stop.NOT


def test_cuts_give_the_records_whose_value_no_other_has():
    made = measurements()
    column = np.repeat(np.arange(RECORDS / 2), 2)  # every value twice, the curious party's first
    column[[200, 301, 302]] = (0.5, 1000.0, 1001.0)  # 201 is alone now, and so are 300 and 303
    played = cuts(table(column[:, None], made.y))
    assert played.read == 6
    assert (played.verdict.stop, played.verdict.rules) == (Stop.REFUSED, ("formula",))


# --- the table --------------------------------------------------------------------------------------------------------


def test_a_table_is_read_without_columns_of_one_value_and_records_without_label():
    rng = np.random.default_rng(1)
    cells = np.column_stack((rng.normal(size=(40, 2)), np.full(40, 3.0), rng.normal(size=40)))
    cells[4, 1], cells[:5, 3] = np.nan, np.nan
    found = opened_table(ArraySource(cells, ["a", "p", "same", "y"]), "y", 0)
    assert (found.names, found.left_out) == (("a", "p"), ("same",))
    assert len(found.y) == 35
    assert not found.gaps, "the only gap was in a record without label"
    assert sorted(found.X[:, 0]) == sorted(cells[5:, 0])


def test_a_label_that_is_not_there_and_a_short_table_are_refused():
    with pytest.raises(ConfigError, match="no column of numbers 'z'"):
        opened_table(ArraySource(np.ones((40, 2)), ["a", "y"]), "z", 0)
    with pytest.raises(ConfigError, match="10 records with a label"):
        opened_table(ArraySource(np.random.default_rng(0).normal(size=(10, 2)), ["a", "y"]), "y", 0)


def test_the_whole_audit_says_counts_and_rules_and_no_value():
    made = findings()
    cells = np.column_stack((made.X, np.random.default_rng(2).normal(50, 12, RECORDS).round(3), made.y))
    names = [*made.names, "age", "y"]
    record = audit_openings(ArraySource(cells, names), "y", USUAL, seed=3).record()
    assert [each["studies"] for each in record["attacks"]] == [1, 1, 3, 3, 1, 0, 3, 2, 0]
    assert record["attacks"][0]["share"] == 1.0
    said = repr(record)
    assert not any(f"{value}" in said for value in cells[:, 6])


def test_directions_of_whole_numbers_give_every_record_of_a_small_party_and_are_refused():
    rng = np.random.default_rng(3)
    played = directions(table(rng.integers(0, 3, size=(300, 20)).astype(float), rng.normal(size=300)), Policy())
    assert (played.read, played.of, played.verdict.stop) == (7, 7, Stop.REFUSED)
    assert "directions" in played.verdict.rules
    assert "with all 300 records at three parties: " in played.note


def test_measurements_and_few_columns_are_not_attacked_by_lattices():
    rng = np.random.default_rng(3)
    for X in (rng.normal(size=(300, 20)), rng.integers(0, 3, size=(300, 9)).astype(float)):
        assert directions(table(X, rng.normal(size=300)), Policy()).note.startswith("fewer than 14 columns")
