"""A joint preparation of tables: the CSP sees nothing of them, a user the totals alone, and no total can be altered."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.adversary.scores import uniform_bytes
from tests.tolerances import ACCEPTED, assert_close, digits_lost

from fedsvd.data.hashed import hashed
from fedsvd.data.open import open_source
from fedsvd.errors import DataError, SumAltered
from fedsvd.policy.rules import Policy, findings, what_each_role_learns
from fedsvd.prepare.categories import own_levels, sketch
from fedsvd.prepare.derived import table_digest
from fedsvd.prepare.level_sketch import read
from fedsvd.prepare.rule import CategoryRule, LowRank, Rule
from fedsvd.prepare.script import prepared_again
from fedsvd.prepare.sites import Over
from fedsvd.protocol.messages import SumReply, SumShare
from fedsvd.protocol.parties import CSP, user
from fedsvd.protocol.tasks import Split, Task
from fedsvd.randomness.seed import Seed
from fedsvd.roles.user.preparation import with_noise
from fedsvd.secagg import wide, words128
from fedsvd.testing.federation import Federation, altering
from fedsvd.wire.codec import encode

RULE = Rule(
    mean=True,
    indicators=True,
    categories=(CategoryRule("diagnosis", drop_first=True),),
    covariates=("age",),
    centre=Over.JOINT,
    scale=Over.JOINT,
    minimum=2,
    most_levels=8,
)
ROWS = 12


def table(seed, levels, shift=0.0, gaps=0):
    rng = np.random.default_rng(seed)
    found = pd.DataFrame({"age": rng.integers(20, 80, ROWS) + shift, "dose": rng.normal(size=ROWS) + shift})
    found["diagnosis"] = [levels[place % len(levels)] for place in range(ROWS)]
    found.loc[: gaps - 1, "dose"] = np.nan
    return found


TABLES = [table(1, ["asthma", "gout"]), table(2, ["asthma", "gout", "lupus"], 1.0, 3), table(3, ["gout"], 2.0)]
OTHERS = [table(4, ["none"], 1e6), table(5, ["none", "some"], -1e3), table(6, ["some"], 1e-9, 11)]


def preparation(tables=TABLES, rule=RULE):
    return Federation(tables, Task.PREPARE, Split.HORIZONTAL, rule=rule)


@pytest.fixture(scope="module")
def played():
    federation = preparation()
    return federation, federation.run()


def shapes(federation, party):
    """What a party heard: from whom, what, with fields of which sizes."""
    return [
        (origin, type(message), [len(part) for part in encode(message)])
        for origin, message in federation.views.received[party]
    ]


def content(federation, party):
    return b"".join(b"".join(map(bytes, encode(message))) for _, message in federation.views.received[party])


def test_the_csp_hears_the_same_of_tables_that_have_nothing_in_common(played):
    federation, _ = played
    other = preparation(OTHERS)
    other.run()
    assert federation.plan.steps == other.plan.steps
    by_sender = [sorted(map(str, shapes(each, CSP))) for each in (federation, other)]
    assert by_sender[0] == by_sender[1]


def test_the_csp_hears_words_that_are_uniform_and_no_text_of_a_level(played):
    federation, _ = played
    shares = federation.views.of(CSP, SumShare)
    assert len(shares) == 3 * len(federation.plan.steps)
    words = np.concatenate([part.ravel() for _, share in shares for part in (share.payload, share.tag)])
    assert uniform_bytes(words) > ACCEPTED
    for text in (b"asthma", b"gout", b"lupus", b"other"):
        assert text not in content(federation, CSP)


def test_the_csp_hears_no_mean_and_no_count_of_a_site_as_a_number(played):
    federation, _ = played
    heard = content(federation, CSP)
    for own in TABLES:
        for number in (own["age"].mean(), own["age"].sum(), own["dose"].sum(), own["dose"].mean()):
            assert np.float64(number).tobytes() not in heard
            assert wide.encode(np.array([number])).tobytes() not in heard
    replies = [said for _, to, said in federation.sent if isinstance(said, SumReply) and to == user(1)]
    for reply in replies:  # the total that it adds up is still under the users' own pad
        numbers = words128.to_numbers(reply.payload, 0) if reply.payload.shape[1] == 2 else None
        assert numbers is None or np.abs(numbers).min() > 1e6


@pytest.mark.parametrize("step", range(7))
def test_a_csp_that_alters_a_total_is_found_at_once(step):
    federation = preparation()
    name = federation.assemble().plan.steps[step].name

    def change(reply):
        payload = reply.payload.copy()
        payload[0, 0] += np.uint64(1)
        return (replace(reply, payload=payload) if reply.name == name else reply,)

    with pytest.raises(SumAltered):
        federation.run(meddle=altering(SumReply, change, origin=CSP, to=user(2)))
    assert federation.released == {}


def test_a_csp_that_leaves_a_share_out_of_a_total_is_found():
    federation = preparation()

    def change(share):
        return (replace(share, payload=np.zeros_like(share.payload)),)

    with pytest.raises(SumAltered):
        federation.run(meddle=altering(SumShare, change, origin=user(3), to=CSP))


def test_a_user_does_not_see_which_other_party_has_a_level():
    """Two parties exchange their text columns: not a word of what the third receives of levels is another."""
    heard = []
    for second, third in ((1, 2), (2, 1)):
        tables = [TABLES[0]]
        for place, levels in ((1, second), (2, third)):
            tables.append(TABLES[place].assign(diagnosis=TABLES[levels]["diagnosis"]))
        federation = preparation(tables)
        federation.run()
        replies = [said for _, said in federation.views.of(user(1), SumReply) if "diagnosis" in said.name]
        heard.append([(said.name, said.payload.tobytes(), said.tag.tobytes()) for said in replies])
    assert len(heard[0]) == 2
    assert heard[0] == heard[1]


def test_a_user_learns_counts_and_numbers_of_holders_and_no_text_of_a_level_that_one_party_has(played):
    _, results = played
    assert results[0].recipe.levels[0].all == ("asthma", "gout", "other")
    assert "lupus" not in str(results[0].recipe.record())
    assert results[1].recipe.record()["levels"] == results[0].recipe.record()["levels"]


def test_a_user_that_guesses_a_level_finds_it_among_the_digests_and_this_is_stated():
    """The key is the users': a guess can be compared. Not without the key, and never to a party."""
    key = Seed(bytes(32))
    total = np.sum([sketch(own_levels(open_source(each), "diagnosis"), key, 8) for each in TABLES], axis=0)
    guess = pd.DataFrame({"diagnosis": ["lupus"]})
    (guessed,) = read(sketch(own_levels(open_source(guess), "diagnosis"), key, 8), 8)
    found = [level for level in read(total, 8) if level.digest == guessed.digest]
    assert [(level.holders, level.count) for level in found] == [(1, 4)]
    lines = what_each_role_learns(preparation().assemble().plan)
    assert any("whose text it guesses" in line for line in lines)


def test_a_user_does_not_read_the_last_digits_of_another_partys_total():
    """A record in thousandths, next to a large total: without noise the grid of the total leaves its low bits."""
    rng, runs, fine = np.random.default_rng(5), 60, []
    for with_it in (False, True):
        ranks = []
        for _ in range(runs):
            large, record = float(rng.normal(3e4, 1e3)), int(rng.integers(1, 80_000))
            values = np.array([large]), np.array([record / 1000])
            seeds = Seed(rng.bytes(32)), Seed(rng.bytes(32))
            plain = [wide.integers(value)[0] for value in values]
            noisy = [with_noise(value, 1, seed)[0] for value, seed in zip(values, seeds, strict=True)]
            total, grid = sum(noisy if with_it else plain), wide.integers(np.array([np.spacing(large)]))[0]
            candidates = rng.permutation(np.append(rng.integers(1, 80_000, 999), record))
            exact = wide.integers(candidates / 1000)
            residues = np.array([min((total - each) % grid, -(total - each) % grid) / grid for each in exact])
            ranks.append(int((residues < residues[candidates == record][0]).sum()))
        fine.append(np.mean(ranks))
    assert fine[0] == 0.0, "without noise the right record always leaves the least residue"
    assert 350 < fine[1] < 650, "with it, it is any of a thousand"


def test_a_user_learns_no_mean_of_one_site_from_combat():
    """No sum of ComBat changes when two sites of equal size exchange their effects."""
    rule, totals = Rule(combat=True), []
    base = pd.DataFrame(np.random.default_rng(8).normal(size=(ROWS, 3)) * [1.0, 2.0, 3.0], columns=list("abc"))
    for shifts in ((0.0, 3.0, 5.0), (0.0, 5.0, 3.0)):
        shifted = [base + shift for shift in shifts]
        federation = preparation(shifted, rule)
        results = federation.run()
        totals.append((results[0].recipe.model.means, results[0].recipe.adjustment.pooled))
    assert_close(totals[0][0], totals[1][0], digits_lost(2))
    assert_close(totals[0][1], totals[1][1], digits_lost(2))


def test_the_policy_refuses_a_smaller_count_than_it_asks_for():
    plan = preparation().assemble().plan
    below = {finding.rule for finding in findings(plan, Policy(records=1, least_count=5)) if finding.below}
    assert below == {"least_count"}
    assert not findings(plan, Policy(records=1, least_count=2))


def test_the_policy_refuses_two_parties_without_consent():
    plan = preparation(TABLES[:2]).assemble().plan
    asked = Policy(records=1, least_count=1)
    assert {finding.rule for finding in findings(plan, asked)} == {"parties"}
    assert not findings(plan, replace(asked, consent_to_two=True))


def test_the_policy_treats_low_rank_imputation_as_a_full_output():
    numbers = [each.drop(columns="diagnosis") for each in TABLES]
    plan = preparation(numbers, Rule(low_rank=LowRank(rounds=3))).assemble().plan
    assert {finding.rule for finding in findings(plan, Policy(least_count=1))} == {"records", "mode"}
    assert not findings(plan, Policy(least_count=1, records_for_full=1, consent_to_gram=True))
    two = preparation(numbers[:2], Rule(low_rank=LowRank(rounds=3))).assemble().plan
    allowed = Policy(least_count=1, records_for_full=1, consent_to_gram=True)
    assert {finding.rule for finding in findings(two, allowed)} == {"parties"}
    assert any("joint Gram matrix (2 x 2)" in line for line in what_each_role_learns(plan))


@pytest.mark.parametrize(("rank", "opened"), [(0, ""), (2, " in 10 directions a round, at most 100 in all")])
def test_approvals_of_low_rank_imputation_say_what_rounds_open_of_the_gram_matrix(rank, opened):
    wide = [pd.DataFrame(np.eye(ROWS, 200), columns=[f"c{j}" for j in range(200)]) for _ in TABLES]
    plan = preparation(wide, Rule(low_rank=LowRank(rounds=3, rank=rank))).assemble().plan
    asked = next(finding for finding in findings(plan, Policy(least_count=1)) if finding.rule == "mode")
    assert f"all parties will see the joint Gram matrix (200 x 200){opened} of the columns" in asked.text
    assert any(
        f"the joint Gram matrix (200 x 200){opened}, of the tables" in line for line in what_each_role_learns(plan)
    )


def test_each_sum_of_the_plan_has_its_line_in_the_ledger():
    plan = preparation().assemble().plan
    text = "\n".join(what_each_role_learns(plan))
    for said in ("no level, no count, no mean", "joint mean of each column", "2 records or more", "covariates"):
        assert said in text


def test_a_level_that_is_rare_stops_no_study_and_a_column_of_ids_does():
    ids = [each.assign(diagnosis=[f"p{place}{number}" for place in range(ROWS)]) for number, each in enumerate(TABLES)]
    with pytest.raises(DataError, match="12 levels, the study has space for 8"):
        preparation(ids).run()


def test_a_party_that_changes_its_table_between_two_sessions_is_not_noticed_by_the_others_and_this_is_stated():
    """The study is of the other table. An auditor who is shown the first one finds that the second does not follow."""
    _, second, _ = results = preparation().run()
    other = TABLES[1].assign(dose=TABLES[1]["dose"] * 3)
    brought = [TABLES[0], other, TABLES[2]]
    made = [prepared_again(open_source(each), RULE, found.recipe) for each, found in zip(brought, results, strict=True)]
    rows = [each.table.rows(0, ROWS) for each in made]
    found = Federation(rows, Task.PCA, Split.HORIZONTAL, components=1).run()
    assert_close(found[0].mean, np.vstack(rows).mean(axis=0), digits_lost(4))
    assert np.abs(found[0].mean).max() > 0.01, "of tables that were centred together the mean is zero"
    first = open_source(TABLES[1])
    assert table_digest(first) != table_digest(open_source(other))
    follows, differs = (
        hashed(prepared_again(open_source(each), RULE, second.recipe).table.T, 1).content_digest()
        for each in (TABLES[1], other)
    )
    assert hashed(second.table.T, 1).content_digest() == follows
    assert follows != differs
