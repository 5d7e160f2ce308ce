"""Lies of a CSP, of a user, and of both, each aimed at one thing that users compare, relay or decide together.

Every one ends with a code, before anything is released, and with the same code at the same moment for every victim:
how a session stops is an answer too.
"""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from fedsvd.errors import FedSVDError, PrivacyWarning, VerificationFailed
from fedsvd.protocol.messages import Aborted, Countersigned, Factors, Relayed, Solution, SumReply, SumShare
from fedsvd.protocol.model import ModelPlan
from fedsvd.protocol.parties import user
from fedsvd.protocol.shared import INVERSE, own_form_bytes, vector_words
from fedsvd.protocol.sums import IMPLAUSIBLE
from fedsvd.protocol.tasks import Item, Split, Task
from fedsvd.roles.user import own_inverse, split_matrix
from fedsvd.roles.user.split_matrix import as_bytes, as_integers
from fedsvd.testing.federation import Federation, altering


@pytest.fixture(autouse=True)
def _quiet():
    warnings.simplefilter("ignore", PrivacyWarning)


def rows(*counts, features=5, seed=3):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((count, features)) * [4.0, 2.0, 1.0, 0.7, 0.5][:features] for count in counts]


def pca(**asked):
    return Federation(rows(30, 25, 28), Task.PCA, Split.HORIZONTAL, components=2, **asked)


def with_errors():
    """A regression on split columns with standard errors, three users, labels at the first."""
    rng = np.random.default_rng(2)
    X = [rng.normal(size=(120, n)) for n in (3, 2, 4)]
    release = (Item.COEFFICIENTS, Item.INTERCEPT, Item.INFERENCE)
    labels = [np.hstack(X) @ rng.normal(size=9) + rng.normal(size=120), None, None]
    return Federation(X, Task.LR, Split.VERTICAL, labels=labels, release=release)


def stop_of(session, meddle=None):
    """The code that a session ended with, and all that was sent of the stop."""
    with pytest.raises(FedSVDError) as stopped:
        session.run(meddle=meddle)
    assert not session.released
    aborts = frozenset((str(origin), m.code, m.stage) for origin, _, m in session.sent if isinstance(m, Aborted))
    return stopped.value.code, aborts


# --- one user's own block does not fit: an OR over all, never one user that stops alone -------------------------------


def spoiling(monkeypatch, liar, victim):
    """User ``liar`` makes the diagonal of the block that user ``victim`` puts together larger; both from 0."""

    def exchanged(work, part, size):
        def altered(i):
            content = part(i)
            if (work.i, i) != (liar, victim):
                return content
            low, n = own_form_bytes(work.plan, i), work.plan.widths[i]
            form = as_integers(content[:low], 4)
            for at in range(n):
                form[at * n - at * (at - 1) // 2] += 1 << 222
            return as_bytes(form, 4) + content[low:]

        return split_matrix.exchanged(work, altered, size)

    monkeypatch.setattr(own_inverse, "exchanged", exchanged)


def test_a_block_that_does_not_fit_one_user_stops_all_in_one_state_and_shows_no_one_whose_it_is(monkeypatch):
    """In 0.2.0 the user whose block it was stopped alone. The CSP has the same words in all cases."""
    seen = []
    for liar, victim in ((1, 0), (0, 1), (0, 2), (1, 2)):
        session = with_errors()
        spoiling(monkeypatch, liar, victim)
        with pytest.raises(VerificationFailed, match="what users sent each other"):
            session.run()
        assert not session.released
        shares = sorted(
            str(origin) for origin, _, m in session.sent if isinstance(m, SumShare) and m.name == IMPLAUSIBLE
        )
        after = [m.name for _, _, m in session.sent if isinstance(m, SumShare)][-3:]
        codes = {(m.code, m.stage) for _, _, m in session.sent if isinstance(m, Aborted)}
        seen.append((shares, after, codes))
    assert all(each == seen[0] for each in seen)
    shares, after, codes = seen[0]
    assert len(shares) == 3
    assert set(after) == {IMPLAUSIBLE}, "no sum comes after the flag"
    assert {code for code, _ in codes} <= {"FSVD-305", "FSVD-415"}


def test_the_flag_itself_cannot_be_taken_off_by_the_csp(monkeypatch):
    """Zeros in its place are found by its tag."""
    spoiling(monkeypatch, 1, 0)

    def cleared(reply: SumReply):
        if reply.name != IMPLAUSIBLE:
            return [reply]
        return [replace(reply, payload=np.zeros_like(reply.payload), tag=np.zeros_like(reply.tag))]

    code, _ = stop_of(with_errors(), altering(SumReply, cleared))
    assert code == "FSVD-417"


# --- copies for one user ----------------------------------------------------------------------------------------------


def scaled_spectrum(said: Factors):
    return [replace(said, sigma_scaled=said.sigma_scaled * (1.0 + 2.0**-45))]


def praised(said):
    """What the CSP writes of its own work is believed by no one, and is in the digest all the same."""
    return [replace(said, residual=said.residual + 2.0**-30)]


def other_null(said: Solution):
    return [replace(said, null_masked=-said.null_masked)]


def other_unit(reply: SumReply):
    """The exponent of the unit in which the CSP splits its matrix, for one user."""
    if reply.name != INVERSE:
        return [reply]
    payload = reply.payload.copy()
    at = vector_words(with_errors_plan())
    payload[at, :1].view(np.float64)[0] += 1.0
    return [replace(reply, payload=payload)]


def with_errors_plan():
    session = with_errors()
    session.run()
    return session.plan


def dependent_rows():
    X = [np.column_stack((T, T[:, 0])) for T in rows(20, 18, 22, features=3)]
    return Federation(X, Task.LR, Split.HORIZONTAL, labels=[T[:, 1] - T[:, 2] ** 2 for T in X])


COPIES = {
    "a spectrum": (lambda: pca(release=(Item.COMPONENTS, Item.SPECTRUM, Item.MEAN)), Factors, scaled_spectrum),
    "a residual of a factorisation": (pca, Factors, praised),
    "a residual of a regression": (dependent_rows, Solution, praised),
    "a null space": (dependent_rows, Solution, other_null),
    "the unit of a matrix that is split": (with_errors, SumReply, other_unit),
}


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_that_differs_for_one_user_is_found_at_all_users_before_anything_is_computed_from_it(name):
    make, kind, change = COPIES[name]
    session = make()
    session.run()
    ends = []
    for victim in session.plan.users:
        code, aborts = stop_of(session, altering(kind, change, to=victim))
        assert code == "FSVD-419"
        ends.append({(code, stage) for _, code, stage in aborts})
    assert all(end == ends[0] for end in ends)
    assert {stage for code, stage in ends[0] if code == "FSVD-419"} == {"comparing"}


# --- what the CSP relays between users --------------------------------------------------------------------------------


def test_digests_that_the_csp_hands_on_under_another_senders_name_do_not_open():
    """Users 2 and 3 see different answers; the CSP shows user 1 what user 2 said as what user 3 said."""
    names = {user(2): user(3), user(3): user(2)}

    def swapped(said: Relayed):
        return [replace(said, origin=names.get(said.origin, said.origin))]

    code, _ = stop_of(pca(), altering(Relayed, swapped, to=user(1)))
    assert code in ("FSVD-411", "FSVD-416")


def test_a_digest_of_an_earlier_comparison_does_not_stand_for_a_later_one():
    """The CSP has users compare an honest answer, and at the end hands on what they said then."""
    first: dict = {}
    replaced = []

    def again(sender, receiver, message):
        if not isinstance(message, Relayed) or receiver != user(1):
            return (message,)
        said = first.setdefault((message.origin, len(message.sealed)), message.sealed)
        if said is not message.sealed:
            replaced.append(message.origin)
        return (replace(message, sealed=said),)

    code, _ = stop_of(with_errors(), again)
    assert replaced
    assert code == "FSVD-416"


def test_a_countersignature_of_another_study_is_none_of_this_one():
    """Both are by the key that is pinned; each is of one body."""
    kept = []
    pca().with_seed(bytes(32)).run(meddle=altering(Countersigned, lambda said: kept.append(said) or [said]))
    code, _ = stop_of(pca(), altering(Countersigned, lambda said: [replace(said, signature=kept[0].signature)]))
    assert code == "FSVD-416"


# --- models: user 1 answers for all -----------------------------------------------------------------------------------


def logistic():
    tables = rows(60, 50, 70, features=3, seed=8)
    rng = np.random.default_rng(9)
    labels = [(T @ [0.3, -0.5, 0.4] + rng.standard_normal(len(T)) > 0).astype(float) for T in tables]
    model = ModelPlan(family="binomial", link="logit", least_class=1, least_events=1)
    return Federation(tables, Task.GLM, Split.HORIZONTAL, labels=labels, glm=model)


def test_the_answer_of_an_earlier_iteration_does_not_open_in_a_later_one():
    """A CSP that would have one user weight its rows by older coefficients than the others."""
    session = logistic()
    session.run()
    sizes: dict[int, list[bytes]] = {}
    for _, to, message in session.sent:
        if isinstance(message, Relayed) and message.origin == user(1) and to == user(2):
            sizes.setdefault(len(message.sealed), []).append(message.sealed)
    length = max(sizes, key=lambda size: len(sizes[size]))
    assert len(sizes[length]) > 2, "one to each iteration"
    seen: list[bytes] = []

    def older(said: Relayed):
        if said.origin != user(1) or len(said.sealed) != length:
            return [said]
        seen.append(said.sealed)
        return [said if len(seen) < 3 else replace(said, sealed=seen[-2])]

    code, _ = stop_of(session, altering(Relayed, older, to=user(2)))
    assert code == "FSVD-416"
