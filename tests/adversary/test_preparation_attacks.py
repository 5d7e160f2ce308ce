"""Attacks on a joint preparation: a CSP that replays or exchanges totals, a user that lies, and both together."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.tolerances import A_TENTH, assert_close, digits_lost

from fedsvd.errors import DataError, FedSVDError, SumAltered
from fedsvd.policy.rules import Policy
from fedsvd.prepare import categories, missing, soft_impute
from fedsvd.prepare.rule import CategoryRule, LowRank, Rule
from fedsvd.prepare.sites import Over
from fedsvd.protocol.messages import SumReply, SumShare
from fedsvd.protocol.parties import user
from fedsvd.protocol.tasks import Split, Task
from fedsvd.roles.user.digits import DigitSums
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


# --- low-rank imputation ----------------------------------------------------------------------------------------------


def rounds_seen(monkeypatch, tables, minimum):
    """The sums of all rounds as any user opens them, and how records are standardised."""
    totals, original = [], DigitSums.total

    def recorded(sums, name, values, units):
        total, sent = yield from original(sums, name, values, units)
        totals.append((name, total, float(units[0])))
        return total, sent

    monkeypatch.setattr(DigitSums, "total", recorded)
    rule = Rule(low_rank=LowRank(0.2, rounds=12), minimum=minimum)
    found = Federation(tables, Task.PREPARE, Split.HORIZONTAL, rule=rule).run()
    rounds = [each for each in totals if each[0] == "low rank, round 1"][:1]
    for number in range(2, 13):
        rounds += [each for each in totals if each[0] == f"low rank, round {number}"][:1]
    return rounds, found[0].recipe.completion


def gapped(rows):
    """Three parties' records of six columns; these rows of the second miss the first column."""
    rng = np.random.default_rng(6)
    whole = rng.normal(size=(90, 2)) @ rng.normal(size=(2, 6)) + 0.4 * rng.normal(size=(90, 6))
    tables = [pd.DataFrame(part, columns=list("abcdef")) for part in np.split(whole.copy(), 3)]
    for row in rows:
        tables[1].loc[row, "a"] = np.nan
    return whole[30:60], tables


def test_the_record_of_a_person_with_a_gap_is_read_from_rounds_unless_few_of_a_pattern_take_the_mean():
    """From round to round only rows with gaps move: products with what is filled in, of one row the row itself."""
    theirs, tables = gapped([7])
    upper = np.triu_indices(6)
    for minimum in (1, 5):
        with pytest.MonkeyPatch.context() as patch:
            rounds, how = rounds_seen(patch, tables, minimum)
        moved = np.zeros((6, 6))
        moved[upper] = sum(total for _, total, _ in rounds[1:])
        noise = 3 * 5 * rounds[0][2]  # of the first round, which the later ones take back
        if minimum == 1:
            filled = np.sqrt(moved[0, 0])
            read = moved[0, 1:] / filled
            record = ((theirs[7] - how.means) / how.deviations)[1:]
            assert min(np.abs(read - record).max(), np.abs(read + record).max()) < A_TENTH
        else:
            assert np.abs(moved).max() <= noise


def test_rows_of_a_pattern_that_five_records_share_move_their_sum_of_products_and_no_more(monkeypatch):
    """Whatever rounds follow, they are functions of the sum over these rows of products of present entries."""
    rows = [3, 7, 11, 20, 25]
    theirs, tables = gapped(rows)
    turned = [table.copy() for table in tables]
    Q = np.linalg.qr(np.random.default_rng(1).normal(size=(5, 5)))[0]
    _, how = rounds_seen(monkeypatch, tables, 5)
    Z = (theirs[rows] - how.means)[:, 1:]
    # Other rows with the same sum of products: nothing that is opened after the means tells them apart.
    turned[1].loc[rows, list("bcdef")] = Q @ Z + how.means[1:]
    assert np.abs(Q @ Z - Z).max() > A_TENTH
    first, other = (soft_impute_rounds(each, how) for each in (tables, turned))
    for one, two in zip(first, other, strict=True):
        assert_close(one, two, digits_lost(4))


def soft_impute_rounds(tables, how):
    """The joint Gram matrix of each of six rounds, in the clear, about the same means and deviations."""
    X = np.concatenate([table.to_numpy() for table in tables])
    now, found = replace(how, W=np.zeros((6, 6))), []
    penalty = None
    for _ in range(6):
        Z = now.standard(X)
        G = Z.T @ Z
        penalty = penalty or 0.2 * np.sqrt(np.linalg.eigvalsh(G)[-1])
        found.append(G)
        now = replace(now, W=soft_impute.shrinkage(*np.linalg.eigh(G), penalty))
    return found
