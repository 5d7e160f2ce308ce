"""Rosters of studies on the same tables: whose own numbers follow from them, by ranks over the rationals."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsvd.policy.rosters import Span, computable, others_findings, roster_findings

SETS = st.sets(st.sampled_from("ABCDEF"), min_size=1).map(frozenset)


def vector(names):
    return [float(name in names) for name in "ABCDEF"]


@settings(deadline=None, max_examples=200)
@given(st.lists(SETS, max_size=6), SETS)
def test_the_span_is_that_of_numpys_rank(rosters, asked):
    rows = np.array([vector(each) for each in rosters]).reshape(len(rosters), 6)
    inside = np.linalg.matrix_rank(np.vstack((rows, vector(asked)))) == (np.linalg.matrix_rank(rows) if rosters else 0)
    assert Span(rosters).holds(asked) == inside


def test_three_rosters_that_share_a_party_give_it_the_numbers_of_all_others():
    rosters = [frozenset(each) for each in ("ABC", "ABD", "ACD")]
    assert computable(rosters) == {"B": "A", "C": "A", "D": "A"}
    assert computable(rosters[:2]) == {}


def test_one_party_more_or_less_is_that_party():
    assert computable([frozenset("ABC"), frozenset("ABCD")]) == {"D": ""}


def test_two_parties_see_each_other_in_one_study():
    assert computable([frozenset("AB")]) == {"B": "A", "A": "B"}


@pytest.mark.parametrize(
    ("earlier", "roster", "verdict"),
    [
        ((), "ABC", []),
        (("ABC",), "ABC", []),
        (("ABC",), "ABD", ["asks"]),
        (("ABC",), "ABCD", ["asks"]),
        (("ABC", "ABCD"), "ABCDE", ["asks"]),
        (("ABC", "ABCD"), "ABCE", ["asks"]),
        (("ABC", "ABCDE"), "ABCD", ["refused"]),
        (("ABCD",), "ABC", ["refused"]),
        (("ABC", "ABD"), "ACD", ["refused"]),
        (("ABCDE",), "ABCFG", ["asks"]),
        (("AB",), "AB", []),
    ],
    ids=[
        "first",
        "same",
        "another",
        "joins",
        "joins later",
        "joins in its place",
        "one of two that joined",
        "leaves",
        "three",
        "two and two",
        "pair",
    ],
)
def test_another_roster_asks_and_one_that_tells_a_party_from_the_others_is_refused(earlier, roster, verdict):
    found = roster_findings([frozenset(each) for each in earlier], frozenset(roster), "A")
    assert ["refused" if each.below else "asks" for each in found] == verdict
    assert all(each.rule == "roster" for each in found)


def test_the_refusal_says_whether_it_is_ones_own_numbers():
    (own,) = roster_findings([frozenset("ABCD")], frozenset("BCD"), "A")
    (other,) = roster_findings([frozenset("ABCD")], frozenset("BCD"), "B")
    assert "your own numbers" in own.text
    assert "a party that was in one of them" in other.text


def test_studies_among_the_others_are_a_question():
    assert others_findings(0) == ()
    (found,) = others_findings(2)
    assert not found.below
    assert "2 studies without you" in found.text


@settings(deadline=None, max_examples=40)
@given(st.lists(st.sets(st.sampled_from("ABCDE"), min_size=3).map(frozenset), max_size=7))
def test_no_partys_numbers_follow_from_studies_but_in_one_that_it_was_asked_about(rosters):
    """Whatever rosters come one after the other, and whatever is answered with yes."""
    run = []
    for roster in rosters:
        known = {me: [each for each in run if me in each] for me in roster}
        found = {me: [*roster_findings(known[me], roster, me)] for me in roster}
        for me in roster:  # digests of jobs that others brought these tables to
            others = {each for other in roster for each in known[other]} - {*known[me]}
            found[me] += others_findings(len(others))
        if any(each.below for own in found.values() for each in own):
            continue
        before, asked = followed(run), {me for me, own in found.items() if own}
        run.append(roster)
        assert followed(run) - before <= asked


def followed(rosters):
    """Parties whose own numbers some other party of theirs computes, by NumPy's rank; a party is no other's."""
    found = set()
    for who in "ABCDE":
        rows = [vector(each) for each in rosters if who in each]
        if not rows:
            continue
        rows = np.array([*rows, vector(who)])
        for name in set("ABCDE") - {who}:
            if np.linalg.matrix_rank(np.vstack((rows, vector(name)))) == np.linalg.matrix_rank(rows):
                found.add(name)
    return found


def test_a_consortium_of_all_pairs_is_refused_at_the_latest_with_the_last():
    seen, verdicts = [], []
    for roster in (frozenset(each) for each in combinations("ABCDE", 4)):
        verdicts.append([each.below for each in roster_findings(seen, roster, "A")])
        seen.append(roster)
    assert verdicts[0] == []
    assert [True] in verdicts
