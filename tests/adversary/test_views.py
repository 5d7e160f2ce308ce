"""What the CSP's view of a session of the sum family depends on (docs/threat-model.md).

Mode A: on the plan. Mode B: on the ratios of singular values, and not on their scale, however often a study is run.
With users beside it: on the sum over the honest users, not on its division. With the Trusted Authority: on no more.
"""

from functools import cache

import numpy as np
import pytest
import scipy.stats
from tests.adversary.scores import same_law, uniform_bytes
from tests.adversary.watch import G_masked, Truth, arrays, csp_view, gram_of, integers, watched
from tests.tolerances import ACCEPTED, REJECTED, digits_lost

from fedsvd.errors import SumAltered
from fedsvd.masks.orthogonal import orthogonal, secret_scale
from fedsvd.protocol.messages import PaddedBatch, Relayed, SumReply
from fedsvd.protocol.parties import CSP, TA, user
from fedsvd.protocol.relayed import SEAL_BYTES
from fedsvd.protocol.sums import planned_sums
from fedsvd.protocol.tasks import Item, Mode, Split, Task, Trust
from fedsvd.randomness.keystream import Keystream
from fedsvd.secagg.sums import tag_value, tag_words
from fedsvd.secagg.tagged import SumSeeds, open_total, tag
from fedsvd.testing.federation import Federation

H = {"split": Split.HORIZONTAL}


def normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape)


# --- mode A -----------------------------------------------------------------------------------------------------------

COUNTS, FEATURES = (30, 9, 41), 12
TABLES = {
    "normal": [normal(1, n_i, FEATURES) for n_i in COUNTS],
    "whole numbers, rank 1": [np.ones((n_i, FEATURES)) * np.arange(n_i)[:, None] for n_i in COUNTS],
    "tiny": [1e-200 * normal(2, n_i, FEATURES) for n_i in COUNTS],
    "zero": [np.zeros((n_i, FEATURES)) for n_i in COUNTS],
}


def shapes(view):
    """Who said what in which order, with every length; not one number of it."""
    return sorted(
        (
            who.index,
            type(said).__name__,
            [getattr(v, "shape", len(v) if isinstance(v, bytes) else None) for v in vars(said).values()],
        )
        for who, said in view.received[CSP]
    )


@cache
def opened_by_users(name, state):
    return watched(TABLES[name], scheme="sum", mode=Mode.A, random_state=state, **H)


@pytest.mark.parametrize("name", TABLES)
def test_the_csps_view_of_mode_a_is_a_function_of_the_plan(name):
    """On X and on unrelated data of equal shapes: the same messages of the same lengths, and words of one law."""
    reference, other = csp_view(opened_by_users("normal", 1)), csp_view(opened_by_users(name, 2))
    assert PaddedBatch not in other.kinds(CSP)
    assert shapes(reference) == shapes(other)
    words = [
        np.concatenate([a.ravel() for _, m in view.received[CSP] for a in arrays(m)]) for view in (reference, other)
    ]
    assert all(uniform_bytes(own) > ACCEPTED for own in words)
    low, high = ([(own & np.uint64(2**32 - 1)).astype(float), (own >> np.uint64(32)).astype(float)] for own in words)
    assert min(same_law(*pair) for pair in zip(low, high, strict=True)) > ACCEPTED


@cache
def fitted_by_users(name, state):
    """A regression in mode A: of normal labels, of labels and features that do not vary, and of zeros."""
    tables = {"normal": [normal(8, 9, 3), normal(9, 7, 3)], "zero": [np.zeros((9, 3)), np.zeros((7, 3))]}
    tables["constant"] = [T + 2.0 for T in tables["zero"]]
    labels = [T[:, :1] for T in tables[name]]
    return watched(tables[name], Task.LR, mode=Mode.A, random_state=state, labels=labels, targets=1, **H)


@pytest.mark.parametrize("name", ["zero", "constant"])
def test_nor_does_it_see_a_regression_in_which_nothing_varies(name):
    reference, other = csp_view(fitted_by_users("normal", 1)), csp_view(fitted_by_users(name, 2))
    assert shapes(reference) == shapes(other)


def test_that_all_data_is_zero_is_what_the_csp_does_see_in_mode_b():
    """There it opens the sum: nothing is uploaded then, so the session is shorter; and this is all."""
    zero = csp_view(watched(TABLES["zero"], mode=Mode.B, random_state=3, components=2, **H))
    reference = csp_view(watched(TABLES["normal"], mode=Mode.B, random_state=1, components=2, **H))
    assert len(zero.received[CSP]) < len(reference.received[CSP])
    assert {str(line) for line in shapes(zero)} <= {str(line) for line in shapes(reference)}


# --- mode B -----------------------------------------------------------------------------------------------------------

X = normal(4, 20, 4) * [1.0, 0.7, 0.4, 0.2]
RUNS = 120


@cache
def opened_by_csp(scale, ratio=1.0, runs=RUNS):
    """Eigenvalues of the Gram matrix that the CSP opens, session by session; the last feature times ``ratio``."""
    table = scale * X * [1.0, 1.0, 1.0, ratio]
    parts = np.split(table, [7])
    seen = [
        G_masked(watched(parts, mode=Mode.B, random_state=state + round(1000 * scale), **H)) for state in range(runs)
    ]
    return np.array([np.linalg.eigvalsh(G)[::-1] for G in seen])


def test_the_csp_sees_ratios_of_singular_values_and_no_scale():
    """Data times 1 and 1.37: not told apart by anything that has a scale. Ratios changed by a percent: at once."""
    first, second = opened_by_csp(1.0), opened_by_csp(1.37)
    for statistic in (lambda G: G[:, 0], lambda G: G.sum(axis=1), lambda G: G[:, -1]):
        assert same_law(statistic(first), statistic(second)) > ACCEPTED
    np.testing.assert_allclose(first[:, 1] / first[:, 0], second[0, 1] / second[0, 0], rtol=digits_lost(4))
    other = opened_by_csp(1.0, 1.01, 20)
    assert same_law(first[:, -1] / first[:, 0], other[:, -1] / other[:, 0]) < REJECTED


def test_the_scale_is_uniform_over_an_octave_in_every_session():
    """So that a second session of the same study says as little of it as the first (Theorem 3)."""
    for scale in (1.0, 1.37):
        powers = np.log2(np.sqrt(opened_by_csp(scale).sum(axis=1)))
        assert powers.max() - powers.min() < 1.0
        assert scipy.stats.kstest(powers % 1.0, "uniform").pvalue > ACCEPTED


def test_eight_sessions_of_one_study_do_not_narrow_its_largest_singular_value():
    """Studies over one octave of scales; an attacker averages what it saw in eight sessions of each."""
    scales = 2.0 ** (np.arange(16) / 16)
    averages = [np.log2(opened_by_csp(float(scale), 1.0, 8)[:, 0]).mean() for scale in scales]
    assert scipy.stats.spearmanr(scales, averages).pvalue > ACCEPTED


def test_without_the_secret_factor_one_session_would_give_it_away(monkeypatch):
    monkeypatch.setattr("fedsvd.roles.user.share.secret_scale", lambda seed: 1.0)
    scales = 1.0 + np.arange(8) / 8
    seen = [np.linalg.eigvalsh(G_masked(watched(np.split(s * X, [7]), mode=Mode.B, **H)))[-1] for s in scales]
    steps = np.log2(seen) / 2 - np.log2(scales)
    assert np.abs(steps - np.rint(steps - steps[0]) - steps[0]).max() < 1e-3


# --- the CSP together with users --------------------------------------------------------------------------------------


def honest_residue(parts, truth, state, joint):
    """What CSP and user 1 have left: the opened sum less their own share, less the exact sum over the others.

    In units of the deviation of the dither, so that all of it is noise.
    """
    outcome = watched(parts, mode=Mode.B, random_state=state, **H)
    own = [int(low) + (int(high) << 64) for low, high in truth.bare[1, "gram", 0]]
    total = integers(csp_view(outcome), outcome.plan)
    left = gram_of(outcome.plan.M, [(a - b + 2**127) % 2**128 - 2**127 for a, b in zip(total, own, strict=True)])
    seed, m = truth.masks[1].seed, outcome.plan.M
    P = orthogonal(m, Keystream(seed.derive("P", "gram")), None).explicit()
    opened = P.T @ left @ P
    scale = np.trace(opened) / np.trace(joint)
    assert 1.0 <= secret_scale(seed.derive("c", "gram")) < 2.0
    return (opened / scale - joint)[np.triu_indices(m)] / np.trace(joint)


def test_csp_and_all_users_but_two_do_not_see_how_a_sum_is_divided_between_these(monkeypatch):
    """One sum of Gram matrices, divided between users 2 and 3 in two ways of equal norms: residues have one law."""
    truth, m = Truth(monkeypatch), 4
    Z = normal(6, 12, m)
    Q = np.linalg.qr(normal(7, 12, 12))[0]
    joint, residues = Z.T @ Z, []
    for offset, records in ((0, Z), (1000, Q @ Z)):
        np.testing.assert_allclose(records.T @ records, joint, atol=digits_lost(3) * np.trace(joint), rtol=0)
        parts = [normal(8, 6, m), records[:6], records[6:]]
        found = [honest_residue(parts, truth, offset + state, joint) for state in range(60)]
        residues.append(np.abs(np.concatenate(found)))
    assert max(map(np.max, residues)) < digits_lost(2)  # rounding and dither; nothing of the division
    assert same_law(*residues) > ACCEPTED
    apart = [np.linalg.norm(part.T @ part - other.T @ other) for part, other in ((Z[:6], (Q @ Z)[:6]),)]
    assert apart[0] > 0.1 * np.trace(joint)  # the two divisions are far apart


# --- the CSP together with the Trusted Authority ----------------------------------------------------------------------


def dealt_by_ta():
    federation = Federation([normal(9, 10, 4), normal(10, 12, 4), normal(11, 8, 4)], Task.PCA, trust=Trust.AUTHORITY,
                            components=2, release=(Item.COMPONENTS, Item.SPECTRUM, Item.MEAN), **H)  # fmt: skip
    federation.run()
    return federation


def forged(reply, planned, seeds):
    """The total with one step added to its first number, and the tag that fits it if these are the seeds of tags."""
    payload = reply.payload.copy()
    payload[0, 0] = (int(payload[0, 0]) + 1) % 2**64
    columns = 1 if payload.shape[1] != 2 else 2
    step = np.zeros_like(reply.payload)
    step[0, 0] = 1
    alpha = Keystream(seeds.alpha.derive("tag", planned.name, reply.batch)).words(reply.payload.size // columns)
    change = tag(step.reshape(-1, columns), alpha, planned.kind.tag_bits)
    return payload, tag_words((tag_value(reply.tag) + change) % 2**192)


def test_authority_and_csp_together_neither_open_nor_forge_a_users_only_sum():
    """All that the TA has: its secret and whatever is derived for the masks. All that the CSP has: every message."""
    federation = dealt_by_ta()
    ta = federation.machines[TA]
    users = federation.machines[user(1)].seeds["users"]
    held = [ta.seed]
    guesses = [
        seed.derive(*path) for seed in held for path in ((), ("users",), ("sums",), ("users", "sums")) if path
    ] + held
    assert users.reveal() not in {seed.reveal() for seed in guesses}
    true = SumSeeds.of_users(users.derive("sums"))
    by_name = {planned.name: planned for planned in planned_sums(federation.plan)}
    replies = [message for _, message in federation.views.of(user(1), SumReply)]
    assert len(replies) >= 5
    for reply in replies:
        planned = by_name[reply.name]
        open_total(planned, reply.batch, reply.payload, reply.tag, true)
        for guess in guesses:
            seeds = SumSeeds.of_users(guess)
            with pytest.raises(SumAltered):
                open_total(planned, reply.batch, reply.payload, reply.tag, seeds)
            with pytest.raises(SumAltered):
                open_total(planned, reply.batch, *forged(reply, planned, seeds), true)


def test_with_the_users_seed_they_would_forge_every_one_of_them():
    """The test above can fail: this is what a TA that dealt one seed for everything could do with the CSP."""
    federation = dealt_by_ta()
    true = SumSeeds.of_users(federation.machines[user(1)].seeds["users"].derive("sums"))
    by_name = {planned.name: planned for planned in planned_sums(federation.plan)}
    passed = 0
    for _, reply in federation.views.of(user(1), SumReply):
        planned = by_name[reply.name]
        honest = open_total(planned, reply.batch, reply.payload, reply.tag, true)
        if honest.shape[1] == 2 and int(honest[0, 0]) == 2**64 - 1:
            continue  # a carry would change the high half too
        try:
            total = open_total(planned, reply.batch, *forged(reply, planned, true), true)
        except SumAltered:  # where the padded low half wrapped around and the high half should have been raised
            continue
        passed += not np.array_equal(total, honest)
    assert passed >= 4


def test_the_message_of_the_authority_holds_no_seed_of_the_users():
    federation = dealt_by_ta()
    dealt = {name: seed.reveal() for name, seed in federation.machines[user(2)].seeds.items()}
    assert set(dealt) == {"users", "masks"}
    assert dealt["masks"] == federation.machines[TA].seed.reveal()
    assert dealt["users"] != dealt["masks"]
    (letter,) = (message for _, message in federation.views.of(user(2), Relayed) if message.origin == TA)
    assert len(letter.sealed) == SEAL_BYTES + len(dealt["masks"])
