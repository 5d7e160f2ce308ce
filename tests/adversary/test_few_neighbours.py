"""Pads between neighbours alone, in sessions of more than 17 users: what the CSP reads together with colluding users.

The coalition uses what its members hold: every message to the CSP, the users' seed, and the members' own session keys.
It takes all pads off that it knows. The referee (``Truth``) says whether what is left is a user's share.
"""

import numpy as np
import pytest
from tests.adversary.scores import uniform_bytes
from tests.adversary.watch import Truth
from tests.protocol.test_sealed_messages import swapped
from tests.tolerances import ACCEPTED_UNSEEDED, REJECTED

from fedsvd.errors import SplitView, SumAltered
from fedsvd.policy.learned import what_each_role_learns
from fedsvd.protocol.keys import SessionKeys
from fedsvd.protocol.messages import KeyBook, PaddedBatch
from fedsvd.protocol.parties import CSP, user
from fedsvd.protocol.tasks import Mode, Split, Task
from fedsvd.randomness.keystream import Keystream
from fedsvd.randomness.seed import Seed
from fedsvd.secagg.keys import pad_keys
from fedsvd.secagg.neighbours import colluding, neighbours
from fedsvd.secagg.words128 import add_into, subtract_into
from fedsvd.testing.federation import Federation, altering

M = 12
PCA = {"task": Task.PCA, "split": Split.HORIZONTAL, "components": 2, "mode": Mode.B}


def tables(k):
    """Of 5 to 8 records each: parties are not of one size."""
    rng = np.random.default_rng(k)
    return [rng.standard_normal((5 + i % 4, M)) for i in range(k)]


def graph(federation):
    """Who shares pads with whom: every user derives it, and the CSP has it of those it colludes with."""
    order = federation.machines[user(1)].seeds["users"].derive("neighbours")
    k = federation.plan.k
    return {i: neighbours(k, i, order) for i in range(1, k + 1)}


def left_of(federation, coalition):
    """Gram shares of all others with the pads taken off that a member of the coalition shares with them."""
    plan, machines = federation.plan, federation.machines
    shares = {who.index: said.payload.copy() for who, said in federation.views.of(CSP, PaddedBatch) if not said.batch}
    for j in coalition:
        own = machines[user(j)]
        publics = {party.index: own.keys.publics[party.index] for party in plan.users}
        order = own.seeds["users"].derive("neighbours")
        keys = pad_keys(own.keys.mine, j, publics, plan.session, plan.digest, order)
        for i in set(keys.peers) - set(coalition):
            known = Keystream.of(keys.seed(i), "pad", "pair", "gram", 0).words(shares[i].size).reshape(-1, 2)
            (subtract_into if i < j else add_into)(shares[i], known)  # i adds what it shares with a higher j
    return {i: share for i, share in shares.items() if i not in coalition}


def added_up(shares):
    first, *others = shares
    total = first.copy()
    for share in others:
        add_into(total, share)
    return total


@pytest.mark.parametrize("t", [20 // 3, colluding(20)])
def test_csp_and_as_many_users_as_are_promised_see_the_sum_over_the_others_and_no_part_of_it(monkeypatch, t):
    truth, federation = Truth(monkeypatch), Federation(tables(20), **PCA)
    federation.run()
    coalition = range(1, 1 + t)  # with user 1, who dealt the order
    left = left_of(federation, coalition)
    assert len(left) == 20 - t
    bare = {i: truth.bare[i, "gram", 0] for i in left}
    assert np.array_equal(added_up(left.values()), added_up(bare.values()))
    rng = np.random.default_rng(1)
    for size in range(1, len(left)):
        some = rng.choice(list(left), size, replace=False)
        assert uniform_bytes(added_up(left[i] for i in some)) > ACCEPTED_UNSEEDED
    assert uniform_bytes(added_up(left.values())) < REJECTED, "the test can fail"


def test_csp_and_all_neighbours_of_a_user_read_its_share_and_this_is_stated(monkeypatch):
    """Sixteen of 18, chosen when the order is known: no bound on collusion holds for these."""
    truth, federation = Truth(monkeypatch), Federation(tables(18), **PCA)
    federation.run()
    left = left_of(federation, graph(federation)[5])
    assert len(left) == 2
    assert all(np.array_equal(share, truth.bare[i, "gram", 0]) for i, share in left.items())


def test_one_of_these_neighbours_less_and_nothing_is_read(monkeypatch):
    truth, federation = Truth(monkeypatch), Federation(tables(18), **PCA)
    federation.run()
    left = left_of(federation, graph(federation)[5][1:])
    assert all(uniform_bytes(share) > ACCEPTED_UNSEEDED for share in left.values())
    bare = added_up(truth.bare[i, "gram", 0] for i in left)
    assert np.array_equal(added_up(left.values()), bare)


@pytest.mark.parametrize(("near", "error"), [(True, SumAltered), (False, SplitView)])
def test_a_user_that_signs_two_keys_and_has_the_csp_show_one_to_a_single_user_is_found(near, error):
    """Of neighbours pads do not cancel; of others the digests that users compare differ. Nothing is released."""
    federation = Federation(tables(18), **PCA)
    federation.run()
    found = graph(federation)
    victim = next(i for i in range(2, 19) if i != 9 and (i in found[9]) == near)
    keys = SessionKeys(user(9), federation.plan, Seed(b"\x09" * 32), federation.machines[user(9)].keys.identity)

    def other_key(book):
        offer = keys.offer()
        return (swapped(book, user(9), public=offer.public, signature=offer.signature),)

    with pytest.raises(error):
        federation.run(meddle=altering(KeyBook, other_key, to=user(victim)))
    assert not federation.released


def test_approvals_of_more_than_17_parties_say_how_many_of_them_may_pool_with_the_csp():
    def said(k):
        lines = what_each_role_learns(Federation(tables(k), **PCA).assemble().plan)
        return [line for line in lines if "shares pads with" in line]

    assert said(17) == []
    (line,) = said(60)
    assert "Each of the 60 parties shares pads with 20 others." in line
    assert "The CSP with up to 20 parties, fixed before the session," in line
