"""Standard errors and a chosen ridge on split columns: what each role sees of the matrix that the CSP splits.

The attackers have recorded views, the plan, and their own secrets. Referees read the masks of all.
"""

from dataclasses import replace

import numpy as np
import pytest
from tests.adversary.scores import uniform_bytes
from tests.adversary.watch import view_of
from tests.tolerances import ACCEPTED, REJECTED, assert_close, digits_lost

from fedsvd import FederatedLinearRegression, FederatedRidgeCV, Policy
from fedsvd.errors import ReleaseRefused, VerificationFailed
from fedsvd.linalg.ring_forms import quadratic, square
from fedsvd.policy.rules import what_each_role_learns
from fedsvd.protocol.messages import Relayed, SumReply, SumShare
from fedsvd.protocol.parties import CSP, user
from fedsvd.protocol.shared import INVERSE, VECTORS, about_words, choice_bytes, vector_words
from fedsvd.protocol.tasks import Item, Split, Task
from fedsvd.roles.service_provider import role
from fedsvd.roles.user import own_inverse, ridge_columns, split_matrix
from fedsvd.roles.user.split_matrix import as_integers, signed
from fedsvd.sealing.seal import OVERHEAD
from fedsvd.secagg.words128 import add_into, to_integers
from fedsvd.testing.federation import Federation

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
WIDTHS = (5, 4, 6)
RELEASE = (Item.COEFFICIENTS, Item.INTERCEPT)


def columns(widths=WIDTHS, m=300, seed=2):
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(m, 2))
    X = [rng.normal(size=(m, n)) + shared @ rng.normal(size=(2, n)) + 5.0 for n in widths]
    return X, np.hstack(X) @ rng.normal(size=sum(widths)) + rng.normal(size=m)


def errors(X, y, **asked):
    labels = [y, *[None] * (len(X) - 1)]
    return Federation(X, Task.LR, Split.VERTICAL, labels=labels, release=(*RELEASE, Item.INFERENCE), **asked)


def ridge(X, y, **asked):
    labels = [y, *[None] * (len(X) - 1)]
    release = (*RELEASE, Item.RIDGE_PATH)
    chosen = {"alphas": (0.1, 1.0, 10.0), "chosen_by": "gcv"}
    return Federation(X, Task.LR, Split.VERTICAL, labels=labels, release=release, **chosen, **asked)


def table(X, y, **options):
    asked = {"inference": True, "split": "vertical", "ids": "trust", "label_party": 0}
    return FederatedLinearRegression(**asked, **options).fit(X, y)


class Referee:
    """Reads what single users hold: their masks, what they send each other, Q."""

    def __init__(self, monkeypatch):
        self.masks, self.received, self.Q = {}, {}, None
        for module in (own_inverse, ridge_columns):
            for name in ("opened", "exchanged", "common_right_mask"):
                monkeypatch.setattr(module, name, getattr(self, name)(getattr(split_matrix, name)))

    def opened(self, real):
        def script(work, *given):
            parts = yield from real(work, *given)
            self.masks[work.i + 1] = parts.mask
            return parts

        return script

    def exchanged(self, real):
        def script(work, *given):
            self.received[work.i + 1] = yield from real(work, *given)
            return self.received[work.i + 1]

        return script

    def common_right_mask(self, real):
        def script(work):
            self.Q = yield from real(work)
            return self.Q

        return script


@pytest.fixture
def referee(monkeypatch):
    return Referee(monkeypatch)


def matrix_seen(federation, name, i):
    """The words of the matrix in the reply that user i got."""
    ((_, reply),) = [each for each in view_of(federation, user(i)).of(user(i), SumReply) if each[1].name == name]
    return reply.payload[vector_words(federation.plan) + about_words(federation.plan) :].copy()


@pytest.mark.parametrize(("make", "name"), [(errors, INVERSE), (ridge, VECTORS)])
def test_users_read_a_matrix_that_is_uniform_until_all_of_them_pool_their_masks(make, name, referee):
    federation = make(*columns())
    federation.run()
    seen = matrix_seen(federation, name, 1)
    for i in (1, 2):
        assert uniform_bytes(seen) > ACCEPTED
        add_into(seen, referee.masks[i])
    assert uniform_bytes(seen) > ACCEPTED, "two of three users that pool their masks"
    add_into(seen, referee.masks[3])
    assert uniform_bytes(seen) < REJECTED, "all three have the matrix: this test can fail"


@pytest.mark.parametrize(("make", "name"), [(errors, INVERSE), (ridge, VECTORS)])
def test_means_and_coefficients_reach_the_csp_under_a_mask_of_the_users(make, name):
    """What the CSP adds up of the users' vectors, which it multiplies, is uniform; so is every share of it."""
    words = []
    for seed in range(40):
        federation = make(*columns(seed=seed), insecure_seed=bytes([seed]) * 32)
        federation.run()
        shares = [message.payload for _, message in federation.views.of(CSP, SumShare) if message.name == name]
        assert len(shares) == 3
        total = shares[0][: vector_words(federation.plan)].copy()
        for share in shares[1:]:
            add_into(total, share[: len(total)])
        words += [total, *(share[: len(total)] for share in shares)]
    assert uniform_bytes(np.concatenate(words)) > ACCEPTED


def test_the_csp_hears_nothing_but_words_and_sealed_messages_of_a_public_length():
    def heard(federation):
        federation.run()
        return [
            (origin, type(message), message.payload.shape) for origin, message in federation.views.of(CSP, SumShare)
        ]

    first, second = heard(errors(*columns())), heard(errors(*columns(seed=9)))
    assert sorted(map(str, first)) == sorted(map(str, second))


def test_a_table_says_of_the_others_columns_the_space_that_they_span_and_no_more():
    """Any other columns of that space, at the others, give a party the same standard errors of its own."""
    X, y = columns()
    mixed = [X[0], *(each @ np.random.default_rng(3).normal(size=(each.shape[1],) * 2) for each in X[1:])]
    here, there = (table(each, y).inference_[0] for each in (X, mixed))
    own = slice(1, 1 + WIDTHS[0])
    assert_close(here.covariance[own, own], there.covariance[own, own], digits_lost(6))


def test_a_party_computes_the_canonical_correlations_with_the_others_columns_and_this_is_stated():
    X, y = columns((5, 4))
    (model,) = table(X, y).inference_
    own = X[0] - X[0].mean(axis=0)
    inverse = model.covariance[1:6, 1:6] / model.sigma**2
    # (X^T X)^-1 of the own block is that of what the others' columns do not reach.
    reached = own.T @ own - np.linalg.inv(inverse)
    whitened = np.linalg.solve(np.linalg.cholesky(own.T @ own), reached)
    shown = np.linalg.eigvals(np.linalg.solve(np.linalg.cholesky(own.T @ own), whitened.T)).real
    Q = [np.linalg.qr(each - each.mean(axis=0))[0] for each in X]
    truth = np.linalg.svd(Q[0].T @ Q[1], compute_uv=False)
    assert_close(np.sqrt(np.sort(shown)[::-1][:4]), truth, digits_lost(6))
    plan = errors(X, y).assemble().plan
    assert any("canonical correlations" in line for line in what_each_role_learns(plan))


def test_with_a_partner_of_one_column_its_correlations_are_read_up_to_a_sign_and_this_is_stated():
    X, y = columns((5, 1))
    (model,) = table(X, y).inference_
    own, other = (each - each.mean(axis=0) for each in X)
    reached = own.T @ own - np.linalg.inv(model.covariance[1:6, 1:6] / model.sigma**2)
    values, vectors = np.linalg.eigh(reached)
    shown = np.sqrt(values[-1]) * vectors[:, -1] / np.linalg.norm(own, axis=0)
    truth = (own.T @ other)[:, 0] / np.linalg.norm(own, axis=0) / np.linalg.norm(other)
    assert_close(shown * np.sign(shown[0] * truth[0]), truth, digits_lost(6))
    lines = what_each_role_learns(errors(X, y).assemble().plan)
    assert any("one column, up to a sign" in line for line in lines)


def test_only_the_label_holder_gets_the_spectrum_and_the_others_a_message_of_a_public_length():
    federation = ridge(*columns())
    federation.run()
    plan = federation.plan
    for i in (2, 3):
        sealed = [message for _, message in federation.views.of(user(i), Relayed) if message.origin == user(1)]
        assert choice_bytes(plan) + OVERHEAD in {len(message.sealed) for message in sealed}
    assert any("alone gets the 15 singular values" in line for line in what_each_role_learns(plan))


def lying(monkeypatch, change):
    """A CSP that splits another matrix than the one it found."""
    real = role.with_own_part

    def other(plan, solved, words):
        return real(plan, replace(solved, R=change(solved.R)), words)

    monkeypatch.setattr(role, "with_own_part", other)


def test_a_csp_that_claims_smaller_errors_than_own_columns_alone_allow_is_found_out(monkeypatch):
    def larger(R):
        R = R.copy()
        R[:, :15] *= 3.0
        return R

    lying(monkeypatch, larger)
    with pytest.raises(VerificationFailed, match="inverse Gram matrix"):
        errors(*columns()).run()


def test_a_csp_that_claims_larger_errors_is_believed_and_this_is_stated(monkeypatch):
    X, y = columns()
    (honest, *_) = errors(X, y).run()

    def smaller(R):
        R = R.copy()
        R[:, :15] *= 0.5
        return R

    lying(monkeypatch, smaller)
    (misled, *_) = errors(X, y).run()
    assert_close(misled.coefficients, honest.coefficients, digits_lost(4))
    ratio = misled.inference[0].standard_errors[1:] / honest.inference[0].standard_errors[1:]
    assert_close(ratio, np.full(5, 2.0), digits_lost(4))


def test_a_ridge_from_other_vectors_than_those_of_the_joint_columns_is_found_out(monkeypatch):
    def turned(R):
        R = R.copy()
        R[:15, :15] = R[:15, :15] @ np.linalg.qr(np.random.default_rng(4).normal(size=(15, 15)))[0]
        return R

    lying(monkeypatch, turned)
    with pytest.raises(VerificationFailed):
        ridge(*columns()).run()


def test_what_split_columns_show_asks_for_consent_and_for_records_beyond_the_coefficients():
    X, y = columns((12, 12, 12))

    def refused(m, **options):
        with pytest.raises(ReleaseRefused) as refusal:
            table([each[:m] for each in X], y[:m], policy=Policy(enforce=True, **options))
        return {rule for rule in ("columns", "freedom", "records", "parties") if f" {rule}: " in refusal.value.fault}

    assert refused(300) == {"columns"}
    assert refused(45) == {"columns", "freedom"}
    assert refused(45, consent_to_columns=True) == {"freedom"}
    assert table(X, y, policy=Policy(enforce=True, consent_to_columns=True)).inference_
    with pytest.raises(ReleaseRefused, match="a ridge is chosen"):
        FederatedRidgeCV(choose_by="gcv", split="vertical", ids="trust", policy=Policy(enforce=True)).fit(X, y)


def test_parts_of_a_product_carry_noise_so_that_no_whole_number_behind_it_can_be_solved_for(referee):
    """Without it a party of most columns has more exact equations than there are whole numbers in the matrix."""
    federation = errors(*columns((9, 1)), centre=False)
    federation.run()
    (received,) = referee.received[1]
    exact = to_integers(quadratic(referee.Q[:9], square(referee.masks[2], 10)))
    noise = [signed(a - b, 192) for a, b in zip(as_integers(received, 3), exact, strict=True)]
    # A step of the matrix is 2^-60 of its unit and one of Q 2^-57: what is below 2^-58 of the unit is noise.
    assert 1 << 114 < max(abs(value) for value in noise) <= 1 << 116
    assert len(set(noise)) == len(noise)
