"""What earlier studies of a party's records forbid; test_reruns.py shows how records are compared."""

import pytest

from fedsvd.policy.earlier_rules import Compared, earlier_findings, version_findings
from fedsvd.policy.rules import Policy

THREE = frozenset("ABC")


@pytest.mark.parametrize(
    ("earlier", "rules"),
    [
        ({}, set()),
        ({"changed": 1, "touched": 1}, {"re-run"}),
        ({"changed": 9, "touched": 300}, {"re-run"}),
        ({"changed": 10, "touched": 10}, set()),
        ({"changed": 0, "touched": 1}, {"re-run"}),  # a corrected cell
        ({"changed": 0, "touched": 300}, set()),  # last digits
        ({"columns": 1}, {"re-run"}),
        ({"known": False, "changed": 1}, set()),  # the owner is asked
        ({"roster": frozenset("ABCD")}, {"roster"}),
        ({"roster": frozenset("AB"), "changed": 3, "touched": 3}, {"re-run", "roster"}),
        ({"roster": frozenset("ABCD"), "changed": 40, "touched": 40}, set()),
        ({"roster": frozenset("ABCDE")}, set()),  # a sum over two
        ({"roster": frozenset("ABD")}, set()),  # C went and D came: two again
    ],
)
def test_what_earlier_studies_forbid(earlier, rules):
    found = earlier_findings([Compared(**{"roster": THREE, **earlier})], THREE, Policy())
    assert {finding.rule for finding in found} == rules
    assert all(finding.below for finding in found)


def test_every_earlier_study_counts_not_the_last_alone():
    studies = [Compared(THREE, changed=2, touched=2), Compared(THREE, changed=50, touched=50)]
    (finding,) = earlier_findings(studies, THREE, Policy())
    assert finding.text.startswith("2 of your records changed since an earlier study, 10 are asked for")


def test_versions_of_a_dataset_are_counted():
    assert version_findings(5, Policy()) == ()
    (finding,) = version_findings(6, Policy())
    assert finding.rule == "versions"
    assert version_findings(60, Policy(versions_per_year=0)) == ()
