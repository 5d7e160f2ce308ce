"""Columns of two values that one party codes otherwise are pointed out; frequencies that differ are not."""

import numpy as np
import pytest

from fedsvd.errors import for_log
from fedsvd.prepare.units import Spread, unit_findings, units_between

NAMES = ("smoke", "ui")


def answers(seed, share, shift=(0.0, 0.0), rows=60):
    rng = np.random.default_rng(seed)
    return (rng.random((rows, 2)) < share).astype(float) + np.asarray(shift)


def said(*tables):
    return units_between(NAMES, {f"party {i}": Spread.of_rows(each) for i, each in enumerate(tables, 1)})


@pytest.mark.parametrize("share", [0.2, 0.5, 0.95])
def test_the_table_that_codes_otherwise_is_named_with_its_map(share):
    found = said(answers(1, share), answers(2, share), answers(3, share, (1.0, 0.0)))
    assert [(each.of, each.name, each.words) for each in found] == [("party 3", "smoke", {"offset": -1.0})]


def test_minus_one_and_one_become_zero_and_one():
    (found,) = said(answers(1, 0.5), answers(2, 0.5), 2.0 * answers(3, 0.5) * [1.0, 0.0] - [1.0, 0.0] + [0.0, 1.0])[:1]
    assert found.words == {"factor": 0.5, "offset": 0.5}


def test_other_frequencies_one_value_alone_and_counts_are_nothing_to_say():
    rare = np.zeros((60, 2))
    assert said(answers(1, 0.1), answers(2, 0.9), rare) == []
    counts = np.random.default_rng(4).poisson(2.0, (60, 2)).astype(float)
    assert said(answers(1, 0.3), answers(2, 0.3), counts) == []


def test_small_counts_and_a_value_that_occurs_once_are_no_coding():
    """Words of a document: none or one at most parties, none or two at another."""
    assert said(answers(1, 0.2), answers(2, 0.2), 2.0 * answers(3, 0.2)) == []
    once = np.ones((60, 2))
    once[7] = 2.0
    assert said(answers(1, 0.5), answers(2, 0.5), once) == []


def test_panels_of_one_table_are_seen_together():
    first, rest = answers(1, 0.5, (0.0, 1.0)), answers(2, 0.5)
    joined = Spread.of_rows(first).joined(Spread.of_rows(rest))
    assert joined.ends is not None
    assert joined.ends[:, 0].tolist() == [0.0, 1.0]
    assert np.isnan(joined.ends[:, 1]).all()  # 0, 1 and 2


@pytest.mark.parametrize(("own", "there", "offset"), [(1.0, 0.0, "-1.0"), (0.0, 1.0, "1.0")])
def test_a_party_that_knows_the_others_means_alone_is_asked_to_compare(own, there, offset):
    others = Spread.of_rows(answers(2, 0.4, (there, 0.0)))
    found = unit_findings(NAMES, Spread.of_rows(answers(1, 0.4, (own, 0.0))), Spread(others.means, others.counts))
    (text,) = [each.text for each in found]
    assert "column 'smoke' has two values here, and the mean at the other sites together is not between them" in text
    assert f"smoke = {{ offset = {offset} }}" in text
    assert "smoke = { offset = ... }" in for_log(text)


def test_a_party_with_rarer_answers_is_asked_nothing():
    others = Spread.of_rows(answers(2, 0.9))
    assert unit_findings(NAMES, Spread.of_rows(answers(1, 0.1)), Spread(others.means, others.counts)) == ()


@pytest.mark.parametrize("known", [2, 9])
def test_a_few_entries_of_a_measurement_are_no_coding(known):
    """Two ages are two values, and no one's mean lies between them: a study that refuses other units would end."""
    rng = np.random.default_rng(0)
    own, others = rng.normal(60.0, 10.0, (60, 2)), Spread.of_rows(rng.normal(70.0, 10.0, (400, 2)))
    own[:, 0] = np.where(np.arange(60) < known, np.where(np.arange(60) % 2, 57.5, 61.25), np.nan)
    assert unit_findings(NAMES, Spread.of_rows(own), Spread(others.means, others.counts)) == ()


@pytest.mark.parametrize("rows", [2, 9])
def test_two_tables_of_a_few_rows_have_no_coding(rows):
    """Two rows of any measurement are two values, and never the same two."""
    one, two = (np.tile(np.random.default_rng(seed).normal(size=(2, 2)), (5, 1))[:rows] for seed in (1, 2))
    assert said(one, two) == []
    assert said(answers(1, 0.5), answers(2, 0.5), two) == []
