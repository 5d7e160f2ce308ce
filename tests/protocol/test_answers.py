"""What the CSP, or user 1, answers: crafted answers fail by structure, wrong ones by sums, split views by digests.

Nothing that depends on an answer is sent before it has passed step 7 (specification), and nothing is
released before all users hold equal digests (step 9).
"""

from dataclasses import replace

import numpy as np
import pytest

from fedsvd.errors import AnswerRefused, FedSVDError, NotSealed, PeerAborted, SplitView, VerificationFailed
from fedsvd.protocol.messages import Aborted, Countersigned, Factors, Relay, Solution, SumReply, SumShare
from fedsvd.protocol.parties import ALL, CSP, user
from fedsvd.protocol.tasks import Mode, Split, Task
from fedsvd.roles.user import opening
from fedsvd.roles.user.requests import Upload
from fedsvd.testing.federation import Federation, altering

from .cases import lr_horizontal, pca, svd

ONE, TWO = user(1), user(2)
RNG = np.random.default_rng(4)
TABLES = np.split(RNG.normal(size=(60, 8)) * np.logspace(0, -1.5, 8), [25, 40])


def three(**asked):
    return Federation(TABLES, Task.SVD, Split.HORIZONTAL, mode=Mode.B, **asked)


def haar(n):
    return np.linalg.qr(np.random.default_rng(5).normal(size=(n, n)))[0]


def turned(U, i, j, angle):
    W = U.copy()
    W[:, i], W[:, j] = (
        np.cos(angle) * U[:, i] + np.sin(angle) * U[:, j],
        np.cos(angle) * U[:, j] - np.sin(angle) * U[:, i],
    )
    return W


def column(U, j, value):
    W = U.copy()
    W[:, j] = value
    return W


CRAFTED = {
    "a copy of a column": lambda U, s: (column(U, 1, U[:, 0]), s),
    "columns that are too long": lambda U, s: (2.0 * U, s),
    "columns that are nearly orthonormal": lambda U, s: (column(U, 1, U[:, 1] + 1e-9 * U[:, 0]), s),
    "not a number in U'": lambda U, s: (column(U, 2, np.nan), s),
    "infinite": lambda U, s: (column(U, 2, np.inf), s),
    "wider than planned": lambda U, s: (np.hstack((U, U[:, :1])), np.append(s, 0.0)),
    "narrower than planned": lambda U, s: (U[:, :-1], s[:-1]),
    "S' unsorted": lambda U, s: (U, s[::-1].copy()),
    "S' negative": lambda U, s: (U, np.append(s[:-1], -s[-1])),
    "S' not a number": lambda U, s: (U, np.append(s[:-1], np.nan)),
    "S' beyond the joint norm": lambda U, s: (U, s / np.linalg.norm(s)),
    "a value without a vector": lambda U, s: (column(U, -1, 0.0), s),
    "a zero column in front": lambda U, s: (column(U, 0, 0.0), s),
}


@pytest.mark.parametrize("crafted", CRAFTED)
def test_a_crafted_answer_is_refused_before_any_user_computes_with_it(crafted):
    federation = three()

    def change(answer):
        U, sigma = CRAFTED[crafted](answer.U_masked, answer.sigma_scaled)
        return (replace(answer, U_masked=U, sigma_scaled=sigma),)

    with pytest.raises(AnswerRefused):
        federation.run(meddle=altering(Factors, change))
    after = [message for origin, _, message in federation.sent if origin != CSP][-3:]
    assert {type(message) for message in after} <= {Aborted, type(after[0])}
    assert not said_after(federation, Factors) - {Aborted}
    for party in federation.plan.users:
        assert type(federation.machines[party].failure) in (AnswerRefused, PeerAborted)
        assert isinstance(federation.machines[party].waits_for, Upload)  # the script was not given the answer


def said_after(federation, kind):
    """The kinds of what users sent once an answer of this kind had been sent."""
    kinds = [(origin, type(message)) for origin, _, message in federation.sent]
    first = next(place for place, (_, sent) in enumerate(kinds) if sent is kind)
    return {sent for origin, sent in kinds[first:] if origin != CSP}


WRONG = {
    "random vectors": lambda U, s: (haar(len(U))[:, : U.shape[1]], s),
    "vectors turned by a millionth": lambda U, s: (turned(U, 0, 1, 1e-6), s),
    "vectors permuted": lambda U, s: (U[:, np.r_[1, 0, 2 : U.shape[1]]], s),
    "values off by a millionth": lambda U, s: (U, s * np.r_[1.0 - 1e-6, np.ones(len(s) - 1)]),
    "the least value off by a millionth": lambda U, s: (U, s * np.r_[np.ones(len(s) - 1), 1.0 - 1e-6]),
    "all zero": lambda U, s: (np.zeros_like(U), np.zeros_like(s)),
    "the last column left out": lambda U, s: (column(U, -1, 0.0), np.append(s[:-1], 0.0)),
}


@pytest.mark.parametrize("family", ["sum", "mask"])
@pytest.mark.parametrize("wrong", WRONG)
def test_an_answer_that_is_not_that_of_the_joint_data_is_found_by_the_sums_of_step_7(wrong, family):
    federation = three() if family == "sum" else Federation(TABLES, Task.SVD, Split.HORIZONTAL, scheme="mask")

    def change(answer):
        U, sigma = WRONG[wrong](answer.U_masked, answer.sigma_scaled)
        return (replace(answer, U_masked=U, sigma_scaled=sigma),)

    with pytest.raises(VerificationFailed):
        federation.run(meddle=altering(Factors, change))
    assert not federation.results
    checks = {"eigen", "diag", "trace", "C"}
    names = {m.name for place, (o, _, m) in enumerate(federation.sent) if isinstance(m, SumShare)}
    assert not names & {"orthogonality", "verified"}, "nothing of step 8 was sent"
    assert names & checks


@pytest.mark.parametrize("change", [lambda w: 1.001 * w, lambda w: -w, lambda w: w + 1e-5, np.zeros_like])
def test_a_wrong_solution_on_split_rows_is_found(change):
    federation = lr_horizontal()
    with pytest.raises(VerificationFailed):
        federation.run(meddle=altering(Solution, lambda said: (replace(said, w_masked=change(said.w_masked)),)))


def test_nothing_is_sent_between_the_answer_and_the_end_of_step_7_but_the_sums_of_step_7():
    for make, answer in ((three, Factors), (lambda: three(components=3), Factors), (lambda: pca(3), Factors)):
        federation = make()
        federation.run()
        checks = ("eigen", "diag", "trace", "C")
        for party in federation.plan.users:
            said, heard = [], False
            for origin, to, message in federation.sent:
                heard = heard or (to == party and isinstance(message, answer))
                if heard and origin == party:
                    said.append(message)
            names = [message.name if isinstance(message, SumShare) else type(message) for message in said]
            last = max(place for place, name in enumerate(names) if name in checks)
            # First the digest of the answer, which all users compare.
            assert names[:2] == [Relay, "eigen"]
            assert set(names[1 : last + 1]) <= set(checks)


def test_in_mode_a_small_vectors_that_were_turned_are_not_accepted(monkeypatch):
    """Values down to 1e-9 of the largest: a residual relative to s_1^2 would not see them."""
    X = haar(8) * np.r_[1.0, 0.5, 0.2, 1e-2, 1e-4, 1e-7, 3e-9, 1e-9] @ haar(40)[:8]
    parts = np.split(X, [15, 28], axis=1)
    honest = opening.dense_svd
    Federation(parts, mode=Mode.A, scheme="sum").run()
    for angle in (0.1, 0.01):

        def wrong(A, angle=angle):
            found = honest(A)
            return found._replace(U=turned(found.U, 6, 7, angle))

        monkeypatch.setattr(opening, "dense_svd", wrong)
        with pytest.raises(VerificationFailed):
            Federation(parts, mode=Mode.A, scheme="sum").run()


@pytest.mark.parametrize("mode", list(Mode))
def test_in_either_mode_two_small_values_that_changed_places_are_found(mode):
    X = haar(8) * np.r_[1.0, 0.5, 0.2, 1e-2, 1e-3, 1e-4, 3e-5, 1e-5] @ haar(40)[:8]
    federation = Federation(np.split(X, [15, 28], axis=1), mode=mode, scheme="sum")
    if mode is Mode.A:
        federation.run()
        return
    swap = altering(Factors, lambda said: (replace(said, U_masked=said.U_masked[:, [0, 1, 2, 3, 4, 5, 7, 6]]),))
    with pytest.raises(VerificationFailed):
        federation.run(meddle=swap)


# --- split views --------------------------------------------------------------------------------------------------


def with_residual(said):
    return (replace(said, residual=said.residual + 1e-16),)


def test_factors_with_other_signs_for_one_user_are_found_before_step_7():
    """Digests are compared before any data meets an answer, so that the way it ends says nothing of that user's."""
    federation = three()
    with pytest.raises(SplitView):
        federation.run(meddle=altering(Factors, lambda said: (replace(said, U_masked=-said.U_masked),), to=TWO))


def test_users_who_were_shown_different_things_release_nothing():
    """The factors are right, and pass step 7; what the CSP says of them differs, and so do the digests."""
    federation = three()
    with pytest.raises(SplitView) as refusal:
        federation.run(meddle=altering(Factors, with_residual, to=TWO))
    assert refusal.value.code == "FSVD-419"
    assert not federation.results
    assert Countersigned not in {type(message) for _, _, message in federation.sent}


@pytest.mark.parametrize("make", [svd, lambda: svd(mode=Mode.B)], ids=["A", "B"])
def test_another_data_commitment_than_our_own_is_a_split_view(make):
    federation = make()
    meddle = altering(
        SumReply,
        lambda said: (replace(said, commitments=said.commitments[::-1]) if said.commitments else said,),
        to=TWO,
    )
    with pytest.raises(SplitView):
        federation.run(meddle=meddle)
    assert "gram" not in {message.name for _, _, message in federation.sent if isinstance(message, SumShare)}


def test_commitments_shown_differently_to_two_users_are_found_before_anything_is_released():
    federation = svd(3)

    def meddle(reply):
        if not reply.commitments:
            return (reply,)
        return (replace(reply, commitments=(*reply.commitments[:2], bytes(32))),)

    with pytest.raises(SplitView, match="did not sign the certificate"):
        federation.run(meddle=altering(SumReply, meddle, to=TWO))
    assert not federation.results


def test_a_countersignature_of_another_key_is_refused():
    federation = svd()
    with pytest.raises(NotSealed):
        federation.run(meddle=altering(Countersigned, lambda said: (replace(said, signature=bytes(64)),), to=TWO))


def test_all_users_and_the_csp_sign_one_certificate():
    federation = svd(3)
    federation.run()
    agreements = [federation.machines[party].agreement for party in federation.plan.users]
    assert len({agreement.body for agreement in agreements}) == 1
    assert set(agreements[0].signatures) == {"csp", "user-1", "user-2", "user-3"}
    assert len({tuple(agreement.signatures.items()) for agreement in agreements}) == 1
    relayed = [message for _, _, message in federation.sent if isinstance(message, Relay) and message.to == ALL]
    assert len(relayed) == 1 + 2 * 3  # the answer, three digests, three signatures


# --- texts --------------------------------------------------------------------------------------------------------


def texts_of(make, meddle):
    """Everything that is sent or shown, and the local error, when a session fails."""
    federation = make()
    with pytest.raises(FedSVDError) as refusal:
        federation.run(meddle=meddle)
    told = sorted({(message.code, message.stage) for _, _, message in federation.sent if isinstance(message, Aborted)})
    return str(refusal.value), told


FAILURES = {
    "an altered sum": (
        lambda scale: svd_of(scale),
        altering(SumReply, lambda said: (replace(said, tag=said.tag + np.uint64(1)),), to=TWO),
    ),
    "wrong vectors": (
        lambda scale: svd_of(scale, mode=Mode.B),
        altering(Factors, lambda said: (replace(said, U_masked=turned(said.U_masked, 0, 1, 0.1)),)),
    ),
    "a crafted answer": (
        lambda scale: svd_of(scale, mode=Mode.B),
        altering(Factors, lambda said: (replace(said, U_masked=2 * said.U_masked),)),
    ),
    "a split view": (
        lambda scale: svd_of(scale, mode=Mode.B),
        altering(Factors, lambda said: (replace(said, residual=1.0),), to=TWO),
    ),
    "a wrong solution": (
        lambda scale: regression_of(scale),
        altering(Solution, lambda said: (replace(said, w_masked=2 * said.w_masked),)),
    ),
    "beyond float64": (lambda scale: svd_of(1e200 * scale), None),
    "constant data": (lambda scale: Federation([np.full((5, 3), scale)] * 2, Task.PCA, Split.HORIZONTAL), None),
}


def svd_of(scale, **asked):
    return Federation([scale * table for table in TABLES], Task.SVD, Split.HORIZONTAL, **asked)


def regression_of(scale):
    tables = [scale * table for table in TABLES]
    return Federation(tables, Task.LR, Split.HORIZONTAL, labels=[table[:, :1] ** 2 for table in tables])


@pytest.mark.parametrize("failure", FAILURES)
def test_no_text_of_an_abort_depends_on_data(failure):
    make, meddle = FAILURES[failure]
    first, second = (texts_of(lambda scale=scale: make(scale), meddle) for scale in (1.0, 3.7))
    assert first == second
    for code, stage in first[1]:
        assert code.startswith("FSVD-")
        assert stage.isalpha()


@pytest.mark.parametrize("failure", FAILURES)
def test_other_users_are_told_a_code_and_a_state_and_nothing_else(failure):
    make, meddle = FAILURES[failure]
    federation = make(1.0)
    with pytest.raises(FedSVDError):
        federation.run(meddle=meddle)
    said = [message for _, _, message in federation.sent if isinstance(message, Aborted)]
    assert said
    assert all(set(vars(message)) == {"plan", "code", "stage"} for message in said)
