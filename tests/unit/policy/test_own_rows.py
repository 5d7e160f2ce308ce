"""Verdicts on a party's own rows: fine, asks, refused; and what the owner is shown."""

from dataclasses import replace

import pytest

from fedsvd.policy.own_rows import Cells, Leverage, OwnRows, row_findings
from fedsvd.policy.rules import Policy, settled

FINE = OwnRows(records=200, columns=6, alone=Leverage(0.3, "column 'age'"), design=Leverage(0.6))


def verdicts(own, policy=None):
    found = settled(row_findings(own, policy or Policy()), policy or Policy())
    return [(each.rule, "refused" if each.below else "asks" if each.asks else "said") for each in found]


def of(value):
    return Leverage(value, "column 'income'")


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, []),
        ({"made": of(0.5)}, []),
        ({"made": of(0.51)}, [("leverage", "asks")]),
        ({"made": of(0.8)}, [("leverage", "asks")]),
        ({"made": of(0.81)}, [("leverage", "refused")]),
        ({"weighted": of(0.81)}, [("leverage", "refused")]),
        ({"alone": of(0.5)}, []),
        ({"alone": of(1.0)}, [("leverage", "asks")]),
        ({"codes": of(1.0)}, [("leverage", "asks")]),
        ({"outcome": of(0.6)}, [("leverage", "asks")]),
        ({"design": of(0.8)}, []),
        ({"design": of(0.97)}, [("leverage", "asks")]),
        ({"design": of(0.97), "alone": of(0.97), "made": of(0.97)}, [("leverage", "refused")]),
        ({"records": 30}, []),
        ({"records": 29}, [("few", "asks")]),
        ({"records": 29, "columns": 0}, []),
        ({"cells": (Cells("'sex', 'ward'", 3),)}, [("cells", "asks")]),
        ({"cells": (Cells("'sex', 'ward'", 0, 1),)}, [("cells", "asks")]),
        ({"classes": (0, 5, 195)}, []),
        ({"classes": (4, 196)}, [("classes", "asks")]),
        ({"clusters": (40,) * 5}, []),
        ({"clusters": (1, 1, 1, 197)}, [("own clusters", "asks")]),
        ({"clusters": (101, 20, 20, 20, 20, 19)}, [("own clusters", "asks")]),
        ({"offset": 20.0}, []),
        ({"offset": 1800.0}, [("offset", "refused")]),
    ],
)
def test_verdicts_by_the_usual_policy(changed, expected):
    assert verdicts(replace(FINE, **changed)) == expected


def test_what_an_owner_answers_once_for_all_stands_in_the_policy():
    heavy = replace(FINE, alone=of(0.9), records=29)
    assert verdicts(heavy) == [("few", "asks")]  # one question, which says both
    assert "one record makes up more than 0.5" in row_findings(heavy, Policy())[0].text
    assert verdicts(heavy, Policy(most_leverage=0.95, least_count=4)) == []
    assert verdicts(heavy, Policy(answered=("few",))) == [("leverage", "asks"), ("few", "said")]
    assert verdicts(heavy, Policy(answered=("all",))) == [("leverage", "said"), ("few", "said")]


def test_no_answer_allows_what_a_job_made_of_one_record():
    assert verdicts(replace(FINE, made=of(1.0)), Policy(answered=("all",))) == [("leverage", "refused")]
    assert verdicts(replace(FINE, made=of(1.0), offset=99.0), Policy(most_leverage=1.0)) == []


def test_the_sentence_names_the_column_and_the_way_out_and_no_value():
    (found,) = row_findings(replace(FINE, alone=of(0.93)), Policy())
    assert "column 'income'" in found.text
    assert "log, rank or cap it" in found.text
    assert "0.93" not in found.text
