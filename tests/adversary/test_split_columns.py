"""Standard errors and a chosen ridge on split columns: what each role sees of the matrix that the CSP splits.

The attackers have recorded views, the plan, and their own secrets. Referees read the masks of all.
"""

from dataclasses import replace

import numpy as np
import pytest
from tests.adversary.scores import uniform_bytes
from tests.adversary.watch import view_of
from tests.tolerances import ACCEPTED, REJECTED, assert_close, digits_lost

from fedsvd import FederatedLinearRegression, FederatedRidgeCV, Policy, Simulation
from fedsvd.errors import ReleaseRefused, VerificationFailed
from fedsvd.linalg.ring_forms import quadratic, square
from fedsvd.policy.rules import what_each_role_learns
from fedsvd.protocol.messages import Relayed, SumReply, SumShare
from fedsvd.protocol.parties import CSP, user
from fedsvd.protocol.shared import INVERSE, VECTORS, about_words, choice_bytes, own_form_bytes, vector_words
from fedsvd.protocol.tasks import Item, Split, Task
from fedsvd.randomness.keystream import Keystream
from fedsvd.roles.service_provider import role
from fedsvd.roles.service_provider.recover import Multiplied
from fedsvd.roles.user import own_inverse, ridge_columns, split_matrix
from fedsvd.roles.user.split_matrix import as_bytes, as_integers, signed
from fedsvd.sealing.seal import OVERHEAD
from fedsvd.secagg.words128 import add_into, from_integers, to_integers
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


@pytest.mark.parametrize("factor", [0.5, 1.0 - 1e-7], ids=["twice", "in the seventh digit"])
def test_a_csp_that_claims_larger_errors_is_found_out(monkeypatch, factor):
    """In 0.2.0 this was believed: no party alone sees that its variances are too large."""

    def smaller(R):
        R = R.copy()
        R[:, :15] *= factor
        return R

    lying(monkeypatch, smaller)
    with pytest.raises(VerificationFailed, match="not that of the joint columns"):
        errors(*columns()).run()


def test_a_csp_that_claims_larger_errors_of_a_few_directions_is_found_out(monkeypatch):
    def flatter(R):
        U, s, Vt = np.linalg.svd(R[:15, :15])
        R = R.copy()
        R[:15, :15] = U * (s * np.where(np.arange(15) < 2, 0.5, 1.0)) @ Vt
        return R

    lying(monkeypatch, flatter)
    with pytest.raises(VerificationFailed, match="not that of the joint columns"):
        errors(*columns()).run()


def writing(monkeypatch, change):
    """A CSP that alters words of a shared sum as it answers with them."""
    real = role.with_own_part

    def other(plan, solved, words):
        total = real(plan, solved, words)
        change(plan, total)
        return total

    monkeypatch.setattr(role, "with_own_part", other)


def number(plan, total, place, change):
    """Alter one of the numbers that the CSP writes for all."""
    at = vector_words(plan) + place
    total[at, :1].view(np.float64)[0] = change(total[at, :1].view(np.float64)[0])


def add_to_form(plan, total):
    add_into(total[-2:-1], from_integers([1 << 240], total.shape[1]))


WRITTEN = {
    "the exponent of the unit": lambda plan, total: number(plan, total, 0, lambda exponent: exponent + 1.0),
    "the condition": lambda plan, total: number(plan, total, 1, lambda condition: 1e3 * condition),
    "the form of the mean": add_to_form,
}


@pytest.mark.parametrize("what", WRITTEN)
def test_no_number_that_only_the_csp_writes_is_believed(monkeypatch, what):
    writing(monkeypatch, WRITTEN[what])
    with pytest.raises(VerificationFailed):
        errors(*columns()).run()


def multiplying(monkeypatch, change):
    """A CSP that answers with other products of the columns under P."""
    real = Multiplied.product

    def other(self, rows):
        products = real(self, rows)
        change(products)
        return products

    monkeypatch.setattr(Multiplied, "product", other)


@pytest.mark.parametrize("kappa", [None, 1.5], ids=["the squares alone", "and what they are checked by, with a guess"])
def test_residual_squares_times_1e_minus_8_are_found_out(monkeypatch, kappa):
    """In 0.2.0 they made R2 = 1 and p = 8e-230 of labels that depend on nothing."""
    rng = np.random.default_rng(5)
    X = [rng.normal(size=(300, n)) for n in WIDTHS]
    y = rng.normal(size=300)
    (honest, *_) = errors(X, y).run()
    assert honest.inference[0].r2 < 0.2

    def small(products):
        wanted = 1e-8 * products[0, 0]
        if kappa is not None:
            products[0, -2] += kappa * (wanted - products[0, 0])
        products[0, 0] = wanted

    multiplying(monkeypatch, small)
    with pytest.raises(VerificationFailed, match="residuals"):
        errors(X, y).run()


def test_residual_squares_times_a_thousand_do_not_move_a_chosen_ridge(monkeypatch):
    """In 0.2.0 a factor of 1e3 moved the penalty from 10 to 100,000."""
    writing(monkeypatch, lambda plan, total: number(plan, total, 1, lambda squares: 1e3 * squares))
    with pytest.raises(VerificationFailed, match="residuals"):
        ridge(*columns()).run()


def test_other_singular_values_are_found_out_before_a_ridge_is_released(monkeypatch):
    def larger(R):
        R = R.copy()
        R[:15, :15] *= 1.001
        return R

    lying(monkeypatch, larger)
    with pytest.raises(VerificationFailed, match="of the joint"):
        ridge(*columns()).run()


def test_the_probe_of_one_of_two_users_is_a_draw_that_it_could_make_itself():
    """Its covariance given the own g: ``C G C - C`` of the own block C and the own Gram matrix G, which user 1 has."""
    (X, Z), _ = columns((3, 4))
    X, Z = (each - each.mean(axis=0) for each in (X, Z))
    both = np.linalg.inv(np.hstack((X, Z)).T @ np.hstack((X, Z)))
    C, across = both[:3, :3], both[:3, 3:]
    # u_1 = C g_1 + across g_2, with g_2 = Z^T eta.
    assert_close(across @ (Z.T @ Z) @ across.T, C @ (X.T @ X) @ C - C, digits_lost(6))


def sending(monkeypatch, change):
    """User 2 alters what it sends user 1 of its part of an inverse."""

    def exchanged(work, part, size):
        def altered(i):
            return change(work.plan, part(i)) if (work.i, i) == (1, 0) else part(i)

        return split_matrix.exchanged(work, altered, size)

    monkeypatch.setattr(own_inverse, "exchanged", exchanged)


def test_a_user_that_inflates_the_errors_of_another_is_found_out(monkeypatch):
    """In 0.2.0 it did so 4.4 to 8.5 times: a part of a form carried nothing that only the true one has."""

    def inflated(plan, content):
        low = own_form_bytes(plan, 0)
        form, halves = as_integers(content[:low], 4), 4
        for at in range(5):
            form[at * 5 - at * (at - 1) // 2] += 1 << 222  # on the diagonal: a quarter of the unit of S
        return as_bytes(form, halves) + content[low:]

    sending(monkeypatch, inflated)
    with pytest.raises(VerificationFailed, match="what users sent each other"):
        errors(*columns()).run()


def test_a_user_can_alter_the_error_of_the_intercept_and_this_is_stated(monkeypatch):
    X, y = columns()
    (honest, *_) = errors(X, y).run()

    def more(plan, content):
        plain, keyed = as_integers(content[-80:])
        added = 1 << 230
        key = Keystream.of(checks[0], "key", INVERSE).words(1)[0]
        return content[:-80] + as_bytes([plain + added, keyed + (1 + int(key) % (1 << 40)) * added])

    checks = []
    real = own_inverse.opened

    def opened(work, *given):
        checks.append(work.checks)
        return (yield from real(work, *given))

    monkeypatch.setattr(own_inverse, "opened", opened)
    sending(monkeypatch, more)
    (misled, *_) = errors(X, y).run()
    assert misled.inference[0].standard_errors[0] > honest.inference[0].standard_errors[0]
    assert_close(misled.inference[0].standard_errors[1:], honest.inference[0].standard_errors[1:], digits_lost(4))


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
            table([each[:m] for each in X], y[:m], federation=Simulation(policy=Policy(enforce=True, **options)))
        return {rule for rule in ("columns", "freedom", "records", "parties") if f" {rule}: " in refusal.value.fault}

    assert refused(300) == {"columns"}
    assert refused(45) == {"columns", "freedom"}
    assert refused(45, consent_to_columns=True) == {"freedom"}
    assert table(X, y, federation=Simulation(policy=Policy(enforce=True, consent_to_columns=True))).inference_
    with pytest.raises(ReleaseRefused, match="a ridge is chosen"):
        FederatedRidgeCV(
            choose_by="gcv", split="vertical", ids="trust", federation=Simulation(policy=Policy(enforce=True))
        ).fit(X, y)


def test_parts_of_a_product_carry_noise_so_that_no_whole_number_behind_it_can_be_solved_for(referee):
    """Without it a party of most columns has more exact equations than there are whole numbers in the matrix."""
    federation = errors(*columns((9, 1)), centre=False)
    federation.run()
    (received,) = referee.received[1]
    form = received[: own_form_bytes(federation.plan, 0)]
    exact = to_integers(quadratic(referee.Q[:9], square(referee.masks[2][:55], 10)))
    noise = [signed(a - b, 256) for a, b in zip(as_integers(form, 4), exact, strict=True)]
    # A step of the matrix is 2^-110 of its unit and one of Q 2^-57: what is below 2^-108 of the unit is noise.
    assert 1 << 114 < max(abs(value) for value in noise) <= 1 << 116
    assert len(set(noise)) == len(noise)
