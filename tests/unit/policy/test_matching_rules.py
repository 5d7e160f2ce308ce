"""The policy's rules of matchings: the least overlap, a set that grows, the task; and the memory of earlier ones."""

import numpy as np
import pytest

from fedsvd.data.open import open_source
from fedsvd.errors import ReleaseRefused
from fedsvd.policy.earlier_matchings import EarlierMatchings
from fedsvd.policy.earlier_rules import growth_findings
from fedsvd.policy.policy_file import read_policy, spelt_policy
from fedsvd.policy.rules import Policy, findings, what_each_role_learns
from fedsvd.protocol.parties import named
from fedsvd.protocol.tasks import Align, Split, Task
from fedsvd.studies.parties import PartyData
from fedsvd.studies.planning import guard, plan_study
from fedsvd.studies.run import run_study
from fedsvd.studies.study import Study
from fedsvd.types import SessionId

SESSION = SessionId("00" * 16)


def plan(least=10, align=Align.ECDH, sizes=(400, 500)):
    return plan_study(Study(Task.MATCH, Split.VERTICAL, align=align, least_overlap=least), 1, sizes, SESSION).plan


def rules(asked, policy):
    return {finding.rule for finding in findings(asked, policy) if finding.below}


class TestTheLeastOverlap:
    def test_a_plan_that_goes_on_from_fewer_records_is_below_the_policy(self):
        assert rules(plan(9), Policy()) == {"overlap"}
        assert rules(plan(10), Policy()) == set()
        assert rules(plan(1), Policy.permissive()) == set()

    def test_it_is_refused_where_the_policy_is_enforced_before_anything_is_sent(self):
        with pytest.raises(ReleaseRefused, match="overlap"):
            guard(plan(9), Policy(enforce=True))
        parties = [PartyData(open_source(np.zeros((20, 1))), ids=np.arange(20).astype(str)) for _ in range(2)]
        study = Study(Task.MATCH, Split.VERTICAL, align="server", least_overlap=5)
        with pytest.raises(ReleaseRefused, match="5 common records, 10 are asked for"):
            run_study(study, parties, policy=Policy(enforce=True))

    def test_a_policy_that_does_not_name_the_task_refuses_it(self):
        assert rules(plan(), Policy(tasks=(Task.SVD,))) == {"task"}

    def test_sizes_of_sets_are_not_taken_for_numbers_of_columns(self):
        assert rules(plan(sizes=(2, 3)), Policy()) == set()


class TestASetThatGrows:
    def test_more_than_the_allowed_times_of_every_earlier_matching_is_found(self):
        earlier = {"b": [300, 400], "c": [10]}
        assert growth_findings({"b": 800, "c": 20}, earlier, Policy()) == ()
        (found,) = growth_findings({"b": 801, "c": 20}, earlier, Policy())
        assert (found.rule, found.below) == ("set size", True)
        assert "801" in found.text
        assert "400 at most" in found.text
        assert growth_findings({"b": 10**9}, earlier, Policy(set_growth=0)) == ()
        assert growth_findings({"new": 10**9}, earlier, Policy()) == ()

    def test_every_matching_that_begins_is_written_down_and_compared_with_the_next(self, tmp_path):
        memory = EarlierMatchings(tmp_path / "matchings")
        assert memory.findings("a", {"a": 5, "b": 10**6}, Policy()) == ()
        memory.begin("run 1", plan(sizes=(400, 500)), ("a", "b"))
        memory.end("run 1", 320)
        again = EarlierMatchings(tmp_path / "matchings")
        assert again.sizes() == {"a": [400], "b": [500]}
        assert {found.rule for found in again.findings("a", {"a": 400, "b": 1001}, Policy())} == {"set size"}
        assert again.findings("a", {"a": 10**6, "b": 1000}, Policy()) == (), "our own set is ours"
        text = (tmp_path / "matchings" / "matchings.jsonl").read_text()
        assert '"common":320' in text
        assert plan(sizes=(400, 500)).digest in text

    def test_one_that_was_broken_off_counts_too(self, tmp_path):
        memory = EarlierMatchings(tmp_path)
        memory.begin("run 1", plan(sizes=(400, 500)), ("a", "b"))
        assert memory.sizes() == {"a": [400], "b": [500]}


def test_the_rules_stand_in_the_policy_file(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text(spelt_policy(Policy(least_overlap=25, set_growth=3)))
    read = read_policy(path)
    assert (read.least_overlap, read.set_growth) == (25, 3)
    assert "Fewest common records" in path.read_text()


class TestWhatIsSaid:
    def test_owners_are_told_who_learns_what(self):
        server, ecdh = (" ".join(what_each_role_learns(plan(align=align))) for align in Align)
        for text in (server, ecdh):
            assert "party 1 has 400, party 2 has 500" in text
            assert "which of its own records all parties have" in text
            assert "guessed ids" in text
        assert "keyed hash of every id" in server
        assert "how many records any of the sets share" in server
        assert "compares points that all parties have blinded" in ecdh
        assert "hash" not in ecdh
        assert named("party 1 has 400", ("Nord", "Sued")) == "party Nord has 400"

    def test_the_study_itself_says_that_its_rows_were_matched(self):
        from fedsvd.policy.learned import how_rows_belong

        study = Study(Task.SVD, Split.VERTICAL, align="ecdh", check_ids=True)
        assert how_rows_belong(study).startswith("matched by their ids in a session before")
