"""Attacks on a joint preparation: a CSP that replays or exchanges totals, a user that lies, and both together."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.tolerances import assert_close, digits_lost

from fedsvd.errors import DataError, FedSVDError, SumAltered
from fedsvd.policy.rules import Policy
from fedsvd.prepare import categories, missing
from fedsvd.prepare.rule import CategoryRule, Rule
from fedsvd.prepare.sites import Over
from fedsvd.protocol.messages import SumReply, SumShare
from fedsvd.protocol.parties import user
from fedsvd.protocol.tasks import Split, Task
from fedsvd.studies.job_data import prepare
from fedsvd.studies.job_file import job_from
from fedsvd.studies.jobs import run_job
from fedsvd.testing.federation import Federation

RULE = Rule(
    mean=True, categories=(CategoryRule("ward"),), centre=Over.JOINT, scale=Over.JOINT, minimum=2, most_levels=8
)
ROWS = 12


def table(seed, wards):
    rng = np.random.default_rng(seed)
    found = pd.DataFrame(rng.normal(size=(ROWS, 2)), columns=["dose", "age"])
    return found.assign(ward=[wards[place % len(wards)] for place in range(ROWS)])


TABLES = [table(1, ["east", "west"]), table(2, ["east", "rare"]), table(3, ["west", "east"])]


def preparation(tables=TABLES, rule=RULE, seed=5):
    return Federation(tables, Task.PREPARE, Split.HORIZONTAL, rule=rule, insecure_seed=bytes([seed]) * 32)


def replaced(by):
    """A CSP that sends user 2 the payload and tag of another total, where ``by`` has one."""

    def meddle(origin, to, message):
        if isinstance(message, SumReply) and to == user(2) and (other := by(message)) is not None:
            return [replace(message, payload=other.payload, tag=other.tag)]
        return [message]

    return meddle


def totals(run):
    return [said for _, said in run.views.of(user(2), SumReply)]


def test_a_total_of_an_earlier_session_is_no_total_of_this_one():
    earlier = preparation(seed=1)
    earlier.run()
    old = {said.name: said for said in totals(earlier)}
    for name in old:
        run = preparation(seed=2)
        with pytest.raises(SumAltered):
            run.run(meddle=replaced(lambda said, name=name: old[name] if said.name == name else None))
        assert not run.released


def test_a_total_of_another_sum_of_the_same_length_is_found():
    """Totals for filling gaps and for scaling are as long where nothing else is in the table."""
    numbers = [each[["dose", "age"]] for each in TABLES]
    rule, first = Rule(mean=True, centre=Over.JOINT), []

    def by(said):
        first.extend([said] if said.name == "totals and counts" else [])
        return first[0] if said.name == "means for scaling" else None

    run = preparation(numbers, rule)
    with pytest.raises(SumAltered):
        run.run(meddle=replaced(by))
    assert not run.released


def test_a_share_that_goes_in_twice_is_refused():
    def meddle(origin, to, message):
        return [message, message] if isinstance(message, SumShare) and origin == user(1) else [message]

    run = preparation()
    with pytest.raises(FedSVDError, match="FSVD-41"):
        run.run(meddle=meddle)
    assert not run.released


def test_csp_and_a_user_learn_the_sums_of_the_other_two_and_not_which_has_what_and_this_is_stated():
    """All that the two open is the same when the other two exchange their tables. Their shares have a pad of their own
    (Theorem 2), which ``test_collusion.py`` holds."""
    exchanged = [TABLES[0], TABLES[2], TABLES[1]]
    found = [preparation(each).run()[0].recipe for each in (TABLES, exchanged)]
    assert_close(found[0].moments.means, found[1].moments.means, digits_lost(3))
    assert_close(found[0].moments.deviations, found[1].moments.deviations, digits_lost(3))
    assert found[0].levels == found[1].levels
    others = sum(each[["dose", "age"]].sum() for each in TABLES[1:])
    known = found[0].fills.values * 3 * ROWS - TABLES[0][["dose", "age"]].sum().to_numpy()
    assert_close(known, others.to_numpy(), digits_lost(3))


def test_a_user_that_claims_to_have_a_rare_level_has_it_named_and_must_know_its_text_before_and_this_is_stated(
    monkeypatch,
):
    """It is a level of one party, and would be pooled. Who does not know it cannot claim its digest."""
    honest = categories.own_levels

    def claimed(source, name, gaps=None):
        own = honest(source, name, gaps)
        if "rare" in own.levels:
            return own
        return categories.OwnLevels(name, ("east", "rare", "west"), (6, 1, 6))

    assert "rare" not in preparation().run()[0].recipe.levels[0].levels
    monkeypatch.setattr(categories, "own_levels", claimed)
    assert "rare" in preparation().run()[0].recipe.levels[0].levels


def test_a_user_that_counts_more_entries_than_it_has_shifts_the_joint_mean_and_this_is_stated(monkeypatch):
    """Sums are authenticated against the CSP; a user brings what numbers it likes, as it may bring any table."""
    honest = missing.totals

    def inflated(source):
        own = honest(source)
        lies = source.shape[0] == ROWS - 1
        return missing.Totals(own.totals, own.present + 100 * lies, own.rows) if lies else own

    tables = [TABLES[0], TABLES[1], TABLES[2][1:]]
    truth = preparation(tables).run()[0].recipe.fills.values
    monkeypatch.setattr(missing, "totals", inflated)
    assert np.abs(preparation(tables).run()[0].recipe.fills.values).max() < np.abs(truth).max()


def test_a_user_that_sends_another_text_for_a_level_is_found(monkeypatch):
    honest = categories.texts_to_add

    def other(own, key, agreed, capacity):
        found = honest(own, key, agreed, capacity)
        return found + 1.0 if "rare" in own.levels else found

    monkeypatch.setattr(categories, "texts_to_add", other)
    with pytest.raises((DataError, FedSVDError)):
        preparation().run()


def test_a_site_as_a_term_shows_every_partys_totals_where_the_gram_matrix_is_opened_and_this_is_stated(tmp_path):
    """From standard errors follows the joint Gram matrix, whose rows of ``site`` are sums over one party's records."""
    rng = np.random.default_rng(4)
    given = {name: pd.DataFrame({"age": rng.normal(50, 9, 60), "y": rng.normal(size=60)}) for name in "abc"}
    for name, each in given.items():
        each.to_csv(tmp_path / f"{name}.csv", index=False)
    party = [{"name": name, "data": str(tmp_path / f"{name}.csv")} for name in given]
    asked = {"job": {"name": "s", "task": "lr", "inference": True}, "prepare": {"formula": "y ~ age + site"}}
    job = job_from({**asked, "party": party}, tmp_path)
    allowed = Policy.permissive()
    model = run_job(prepare(job, policy=allowed), policy=allowed).parties[0].inference[0]
    G = np.linalg.inv(model.covariance / model.sigma**2)  # 1, age, site b, site c
    assert_close(G[1, 2:], np.array([given[name]["age"].sum() for name in "bc"]), digits_lost(7))
    assert any("read each other's totals" in line for line in job.prepare.description())
