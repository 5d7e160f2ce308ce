"""What one user reads in joint counts of the others: their sum, each cut at five, and not who has what."""

import numpy as np
import pandas as pd
import pytest

from fedsvd.data.open import open_source
from fedsvd.errors import DataError
from fedsvd.prepare.joint_counts import CountRule
from fedsvd.prepare.rule import CategoryRule, Rule
from fedsvd.prepare.script import prepare
from fedsvd.protocol.messages import SumShare
from fedsvd.protocol.parties import CSP
from fedsvd.protocol.tasks import Split, Task
from fedsvd.randomness.seed import Seed
from fedsvd.testing.federation import Federation

RULE = Rule(categories=(CategoryRule("stage", levels=("I", "II", "IV")),), counts=CountRule(True, drop=True, pooled=()))


def table(rare, rows=60):
    """So many records of stage IV, behind others of stage I and II."""
    rng = np.random.default_rng(rows)
    return pd.DataFrame({"x": rng.normal(size=rows), "stage": [*["IV"] * rare, *np.resize(["I", "II"], rows - rare)]})


def seen(*rare):
    """What user 1 learns: every total of the session, as its script is answered; and what becomes of the level."""
    scripts, answer, found = [prepare(open_source(table(each)), RULE, Seed(bytes(32))) for each in rare], None, []
    while True:
        asked = []
        for script in scripts:
            try:
                asked.append(next(script) if answer is None else script.send(answer))
            except StopIteration as end:
                return found, end.value.table.names
        answer = np.sum([each.vector for each in asked], axis=0)
        found.append(answer.tolist() if asked[0].what == "joint counts" else (answer > 0).tolist())


def test_a_user_reads_how_many_of_the_others_records_have_a_level_up_to_four_and_this_is_stated():
    totals, names = seen(0, 1, 0)
    assert 1.0 in totals[0]  # one record outside of user 1 has it: that it exists is read, and no column of it is made
    assert not any("IV" in name for name in names)


@pytest.mark.parametrize("others", [((0, 1), (1, 0)), ((3, 1), (1, 3)), ((5, 5), (6, 50)), ((20, 5), (5, 20))])
def test_a_user_does_not_see_which_party_has_it_nor_how_many_more_than_five(others):
    one, other = others
    assert seen(2, *one) == seen(2, *other)


def test_what_users_learn_through_the_real_roles_is_that_and_the_csp_sees_padded_words():
    tables = [table(each) for each in (9, 2, 1)]
    federation = Federation(tables, Task.PREPARE, Split.HORIZONTAL, rule=RULE, insecure_seed=bytes([3]) * 32)
    rare = [each.recipe.rare for each in federation.run()]
    assert {each.levels for each in rare} == {(("stage", "IV"),)}
    shares = [said for _, said in federation.views.of(CSP, SumShare) if said.name == "joint counts"]
    words = np.concatenate(
        [np.frombuffer(memoryview(np.ascontiguousarray(each.payload)), np.uint64) for each in shares]
    )
    assert words.size
    assert (words > 2**32).all()  # a count would be small


def test_two_parties_open_objections_alone():
    rule = Rule(categories=RULE.categories, counts=CountRule(False, drop=False, pooled=()))
    federation = Federation(
        [table(9), table(2)], Task.PREPARE, Split.HORIZONTAL, rule=rule, insecure_seed=bytes([4]) * 32
    )
    with pytest.raises(DataError, match="level 'IV'"):
        federation.run()
    assert {said.name for _, said in federation.views.of(CSP, SumShare)} == {"rare"}
