"""What the tables permit and the handlers refuse: said twice, out of turn, of another shape, or to the wrong person.

Each fault ends the session everywhere, with one cause; a share that was refused is never added up.
"""

from dataclasses import replace

import numpy as np
import pytest

from fedsvd.errors import (
    AnswerRefused,
    PeerAborted,
    RepeatedShare,
    RowsDiffer,
    ShapeError,
    SumAltered,
    UnexpectedMessage,
)
from fedsvd.protocol.messages import (
    ID_WORDS,
    Aborted,
    BatchRequest,
    Factors,
    Finished,
    KeyOffer,
    PaddedBatch,
    Ready,
    Relay,
    RowIds,
    Solution,
    SumReply,
    SumShare,
)
from fedsvd.protocol.parties import CSP, TA, user
from fedsvd.protocol.tasks import Item, Mode
from fedsvd.testing.federation import altering

from .cases import M, lr_horizontal, lr_vertical, pca, predict, row_ids, svd
from .stage import about_to_hear, held, stop

ONE, TWO = user(1), user(2)


def opened(k=2):
    """An SVD whose sum the CSP opens, factorises and answers."""
    return svd(k, mode=Mode.B)


def twice(message):
    return message, message


def with_(**changes):
    return lambda message: (replace(message, **changes),)


def longer(message):
    return (replace(message, payload=np.concatenate((message.payload, message.payload))),)


def floats(message):
    return (replace(message, payload=message.payload.astype(np.float64)),)


def refused(federation, meddle, error, text=None):
    """The error that stopped the session; every role that was there has heard of it."""
    with pytest.raises(error, match=text) as caught:
        federation.run(meddle=meddle)
    machines = federation.machines.values()
    assert {machine.state.name for machine in machines} <= {"ABORTED", "DONE"}
    causes = [machine.failure for machine in machines if not isinstance(machine.failure, PeerAborted | type(None))]
    assert causes == [caught.value]
    return str(caught.value)


def uploaded(federation):
    return [message for _, _, message in federation.sent if isinstance(message, PaddedBatch)]


AT_THE_CSP = {
    "a key offered twice": (svd, altering(KeyOffer, twice, origin=ONE), RepeatedShare),
    "a share of a sum sent twice": (svd, altering(SumShare, twice, origin=ONE), RepeatedShare),
    "a share of a sum that is complete": (svd, altering(SumShare, twice, origin=TWO), RepeatedShare),
    "a share of a sum that no task has": (svd, altering(SumShare, with_(name="salaries"), ONE), UnexpectedMessage),
    "a share of a sum that is longer": (svd, altering(SumShare, longer, origin=TWO), ShapeError),
    "a share of a sum in floats": (svd, altering(SumShare, floats, origin=TWO), ShapeError),
    "row ids sent twice": (row_ids, altering(RowIds, twice, origin=ONE), RepeatedShare),
    "a hash of row ids of another length": (
        row_ids,
        altering(RowIds, lambda message: (replace(message, hashed=message.hashed[:-1]),), origin=TWO),
        UnexpectedMessage,
    ),
    "ready twice": (opened, altering(Ready, twice, origin=ONE), RepeatedShare),
    "a padded batch sent twice": (opened, altering(PaddedBatch, twice, origin=ONE), RepeatedShare),
    "a padded batch of another number": (opened, altering(PaddedBatch, with_(batch=1), origin=ONE), RepeatedShare),
    "a padded batch of another shape": (opened, altering(PaddedBatch, longer, origin=ONE), ShapeError),
    "a padded batch in floats": (opened, altering(PaddedBatch, floats, origin=ONE), ShapeError),
    "a letter to oneself": (svd, altering(Relay, with_(to=ONE)), UnexpectedMessage),
    "a letter to the TA": (svd, altering(Relay, with_(to=TA)), UnexpectedMessage),
    "a letter to the CSP": (svd, altering(Relay, with_(to=CSP)), UnexpectedMessage),
    "a letter to a user outside the plan": (svd, altering(Relay, with_(to=user(3))), UnexpectedMessage),
    "an ending said twice": (predict, altering(Finished, twice, origin=TWO), RepeatedShare),
}


@pytest.mark.parametrize("fault", AT_THE_CSP)
def test_the_csp_refuses(fault):
    make, meddle, error = AT_THE_CSP[fault]
    federation = make()
    refused(federation, meddle, error)
    assert type(federation.machines[CSP].failure) is error
    assert {message.code for _, message in federation.views.of(ONE, Aborted)} == {error.code}


def test_a_share_that_is_refused_is_not_added_up():
    federation = opened(3)
    stopped = stop(federation, about_to_hear(CSP, PaddedBatch, 1))
    csp, before = federation.machines[CSP], held(federation.machines[CSP])
    first = federation.views.of(CSP, PaddedBatch)[0]
    csp.receive(*first)  # the same share again
    assert held(csp) == before
    assert isinstance(csp.failure, RepeatedShare)
    assert csp.receive(stopped.sender, stopped.message) == ()


def test_the_comparison_of_what_a_role_holds_sees_one_share():
    federation = svd()
    stopped = stop(federation, about_to_hear(CSP, SumShare))
    before = held(stopped.machine)
    stopped.machine.receive(stopped.sender, stopped.message)
    assert held(stopped.machine) != before


def requests(*numbers):
    """The CSP asks for these batches, whatever it wanted."""
    return altering(BatchRequest, lambda said: tuple(replace(said, batch=number) for number in numbers), to=TWO)


def shaped(**changes):
    """An answer whose arrays are cut."""
    return lambda said: (replace(said, **{name: cut(getattr(said, name)) for name, cut in changes.items()}),)


def nan(array):
    return np.where(np.arange(array.size).reshape(array.shape) == 0, np.nan, array)


def full_pca():
    return pca(release=(Item.COMPONENTS, Item.MEAN, Item.SPECTRUM), mode=Mode.B)


AT_A_USER = {
    "a batch that is not next": (opened, requests(1), UnexpectedMessage),
    "a batch a second time": (opened, requests(0, 0), UnexpectedMessage),
    "a batch beyond the last": (opened, requests(0, 1), UnexpectedMessage),
    "a negative batch": (opened, requests(-1), UnexpectedMessage),
    "a sum that was not asked for": (svd, altering(SumReply, with_(name="mean"), to=TWO), UnexpectedMessage),
    "a sum of another length": (svd, altering(SumReply, longer, to=TWO), SumAltered),
    "a bounded sum of another length": (
        svd,
        altering(SumReply, lambda said: longer(said) if said.name == "orthogonality" else (said,), to=TWO),
        SumAltered,
    ),
    "a solution of an SVD": (
        opened,
        altering(Factors, lambda said: (Solution(said.plan, np.eye(5), np.eye(5), 5, 0.0),), to=TWO),
        AnswerRefused,
    ),
    "factors of a regression": (
        lr_vertical,
        altering(Solution, lambda said: (Factors(said.plan, np.eye(8), np.ones(8), 0.0, 0.0),), to=TWO),
        AnswerRefused,
    ),
    "U' of other rows": (opened, altering(Factors, shaped(U_masked=lambda U: U[:-1]), to=TWO), AnswerRefused),
    "S' of another length": (opened, altering(Factors, shaped(sigma_scaled=lambda s: s[:-1]), to=TWO), AnswerRefused),
    "U' that is not finite": (opened, altering(Factors, shaped(U_masked=nan), to=TWO), AnswerRefused),
    "S' that is not finite": (full_pca, altering(Factors, shaped(sigma_scaled=nan), to=TWO), AnswerRefused),
    "no spectrum where it is released": (opened, altering(Factors, with_(sigma_scaled=None), to=TWO), AnswerRefused),
    "a spectrum that is not released": (
        pca,
        altering(Factors, with_(sigma_scaled=np.ones(2)), to=TWO),
        AnswerRefused,
    ),
    "w' of another length": (lr_vertical, altering(Solution, shaped(w_masked=lambda w: w[:-1]), to=TWO), AnswerRefused),
    "a null space that is not the rank's": (lr_horizontal, altering(Solution, with_(rank=1), to=TWO), AnswerRefused),
}


@pytest.mark.parametrize("fault", AT_A_USER)
def test_a_user_refuses(fault):
    make, meddle, error = AT_A_USER[fault]
    federation = make()
    refused(federation, meddle, error)
    assert error in {type(federation.machines[party].failure) for party in (ONE, TWO)}
    assert isinstance(federation.machines[CSP].failure, PeerAborted)


@pytest.mark.parametrize("swapped", [(0, 1), (0, 3)])
def test_rows_in_another_order_are_neither_counted_nor_named_and_nothing_is_uploaded(swapped):
    ids = np.array([f"patient-{number}" for number in range(M)])
    other = ids.copy()
    other[list(swapped)] = other[list(swapped)[::-1]]
    federation = svd(ids=[ids, other], check_ids=True)
    text = refused(federation, None, RowsDiffer, "rows have different ids")
    assert "patient" not in text
    assert not any(character.isdigit() for character in text.replace("FSVD-208", ""))
    assert not uploaded(federation)
    assert not [message for _, _, message in federation.sent if isinstance(message, SumShare | Ready)]


def test_ids_are_hashed_with_a_key_that_changes_with_the_session():
    ids = [np.array([10, 20, 30, 40])] * 2
    hashes = []
    for seed in (bytes(32), bytes([1]) * 32):
        federation = svd(ids=ids, check_ids=True, insecure_seed=seed)
        federation.run()
        (_, first), (_, second) = federation.views.of(CSP, RowIds)
        np.testing.assert_array_equal(first.hashed, second.hashed)
        hashes += first.hashed.tolist()
    assert len(set(hashes)) == 2 * ID_WORDS


def test_numbers_and_their_text_are_the_same_id():
    """One party's CSV may have read 7 where the other's frame holds "7"."""
    federation = svd(ids=[np.arange(M), np.arange(M).astype(np.str_)], check_ids=True)
    federation.run()


def test_one_partys_fault_is_told_to_all_with_the_stage_and_the_code():
    federation = svd(3)
    refused(federation, altering(SumReply, with_(name="mean"), to=TWO), UnexpectedMessage)
    for party in (ONE, user(3)):
        ((_, told),) = federation.views.of(party, Aborted)
        assert (told.code, told.stage) == ("FSVD-415", "preparing")


def test_a_user_of_one_federation_is_no_user_of_another():
    """Same shapes, same task: another session has another plan, and its words mean nothing here."""
    other = svd(mode=Mode.B, insecure_seed=bytes(32))
    other.run()
    federation = opened()
    stopped = stop(federation, about_to_hear(CSP, PaddedBatch))
    foreign = other.views.of(CSP, PaddedBatch)[0]
    (abort,) = stopped.machine.receive(*foreign)
    assert abort.error.code == "FSVD-413"
