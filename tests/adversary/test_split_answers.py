"""A copy of an answer that is made for one user asks a question about that user, and gets no answer.

In 0.2.0 the CSP turned one vector in the copy of the answer that went to user i alone. Whether users stopped in step 7
(FSVD-305) or at the comparison of digests in step 9 (FSVD-419) depended on the length of that direction in user i's
data: from the angle at which it changed, shares of (.02, .90, .08) were read as (.018, .879, .103).
"""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from fedsvd.errors import FedSVDError, PrivacyWarning
from fedsvd.protocol.messages import Aborted, FactorRows, Factors, Solution, SumReply, SumShare
from fedsvd.protocol.parties import user
from fedsvd.protocol.shared import INVERSE
from fedsvd.protocol.tasks import Item, Split, Task
from fedsvd.testing.federation import Federation, altering

SHARES = (0.02, 0.90, 0.08)  # of the first direction's energy, by user
ANGLES = np.geomspace(1e-16, 0.5, 12)


@pytest.fixture(autouse=True)
def _quiet():
    warnings.simplefilter("ignore", PrivacyWarning)


def divided(shares):
    """Three tables of mean zero in which the first direction's energy is divided so."""
    rng = np.random.default_rng(5)
    found = []
    for share in shares:
        half = rng.standard_normal((20, 6)) * [np.sqrt(100.0 * share), 1.0, 0.8, 0.6, 0.5, 0.4]
        found.append(np.concatenate((half, -half)))
    return found


def turned(said: Factors, angle: float):
    U = said.U_masked.copy()
    other = np.linalg.qr(np.column_stack((U, np.ones(len(U)))))[0][:, -1]
    U[:, 0] = np.cos(angle) * U[:, 0] + np.sin(angle) * other
    return [replace(said, U_masked=U)]


def how_it_ended(session, kind, change, to=None):
    """The code, what was sent of the stop, and which sums users shared after the answer."""
    code = None
    try:
        session.run(meddle=altering(kind, change, to=to))
    except FedSVDError as error:
        code = error.code
    sent = [message for _, _, message in session.sent]
    first = next(place for place, message in enumerate(sent) if isinstance(message, kind))
    aborts = {(m.code, m.stage) for m in sent if isinstance(m, Aborted)}
    return code, aborts, {m.name for m in sent[first:] if isinstance(m, SumShare)}


@pytest.mark.parametrize("scheme", ["sum", "mask"])
def test_a_vector_that_is_turned_for_one_user_alone_does_not_tell_how_much_that_user_has_of_it(scheme):
    session = Federation(divided(SHARES), Task.PCA, Split.HORIZONTAL, components=2, scheme=scheme)
    found = {
        (victim, angle): how_it_ended(session, Factors, lambda said, a=angle: turned(said, a), to=user(victim))
        for victim in (1, 2, 3)
        for angle in ANGLES
    }
    seen = {place: outcome for place, outcome in found.items() if outcome[0] is not None}
    assert {code for code, _, _ in seen.values()} == {"FSVD-419"}
    assert all(codes <= {("FSVD-419", "comparing"), ("FSVD-415", "answering")} for _, codes, _ in seen.values())
    assert not set().union(*(sums for _, _, sums in seen.values())), "no data of any user has met the answer"
    # What ends well is what float64 cannot tell from the true answer, at all users alike.
    ends_well = [{angle for angle in ANGLES if (victim, angle) not in seen} for victim in (1, 2, 3)]
    assert ends_well[0] == ends_well[1] == ends_well[2]
    assert max(ends_well[0], default=0.0) < 2.0**-50
    # The question is one: turned for all users alike, the same vector is refused for what it is.
    code, _, sums = how_it_ended(session, Factors, lambda said: turned(said, 0.5))
    assert (code, sums) == ("FSVD-305", {"eigen"})


def small_columns():
    rng = np.random.default_rng(1)
    X = [rng.standard_normal((40, n)) for n in (2, 3, 2)]
    labels = [rng.standard_normal(40), None, None]
    release = (Item.COEFFICIENTS, Item.INTERCEPT, Item.INFERENCE)
    return Federation(X, Task.LR, Split.VERTICAL, labels=labels, release=release)


def tall():
    rng = np.random.default_rng(2)
    X = [rng.standard_normal((2400, n)) for n in (3, 2)]
    return Federation(X, Task.SVD, Split.VERTICAL, scheme="mask", memory=32 * 2400 * 5 - 1)


def labelled_rows():
    rng = np.random.default_rng(3)
    X = [rng.standard_normal((20, 4)) for _ in range(3)]
    return Federation(X, Task.LR, Split.HORIZONTAL, labels=[T @ np.arange(4.0) for T in X])


def by_a_little(array):
    changed = array.copy()
    changed.flat[0] *= 1.0 + 2.0**-40
    return changed


def inverse_changed(said: SumReply):
    if said.name != INVERSE:
        return [said]
    payload = said.payload.copy()
    payload[-1, 0] += np.uint64(1)
    return [replace(said, payload=payload)]


SPLIT = {
    "a solution on split rows": (labelled_rows, Solution, lambda s: [replace(s, w_masked=by_a_little(s.w_masked))]),
    "a solution on split columns": (small_columns, Solution, lambda s: [replace(s, w_masked=by_a_little(s.w_masked))]),
    "rows of a long U'": (tall, FactorRows, lambda s: [replace(s, U_masked=by_a_little(s.U_masked))]),
    "a matrix that the CSP splits": (small_columns, SumReply, inverse_changed),
}


@pytest.mark.parametrize("name", SPLIT)
def test_every_answer_is_compared_between_all_users_before_any_of_them_computes_from_it(name):
    make, kind, change = SPLIT[name]
    session = make()
    session.run()  # undisturbed it ends well
    for victim in session.plan.users[:2]:
        code, aborts, _ = how_it_ended(session, kind, change, to=victim)
        assert code == "FSVD-419"
        assert {stage for code, stage in aborts if code == "FSVD-419"} == {"comparing"}
        assert not session.released
