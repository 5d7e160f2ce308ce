"""Adversary test 8: pads. A payload alone is uniform noise, no word comes twice, a second share ends the session."""

import itertools

import numpy as np
import pytest
from tests.adversary.scores import uniform_bytes
from tests.adversary.watch import columns, csp_view, payloads, public_keys, watched
from tests.tolerances import ACCEPTED, REJECTED

from fedsvd.errors import LocalProtocolError, PlanMismatch, RepeatedShare, UnexpectedMessage
from fedsvd.protocol.machine import Abort
from fedsvd.protocol.messages import BatchRequest, PaddedBatch, SumReply, SumShare
from fedsvd.protocol.parties import CSP, user
from fedsvd.protocol.tasks import Mode, Split, Task
from fedsvd.roles.service_provider.role import ServiceProvider
from fedsvd.secagg.pads import PadsOnce
from fedsvd.storage.block_store import choose_store
from fedsvd.testing.federation import Federation

M, WIDTHS = 40, (12, 20, 30)
TABLE = np.random.default_rng(1).integers(0, 3, (M, sum(WIDTHS))).astype(float)
PCA = {"task": Task.PCA, "split": Split.HORIZONTAL, "components": 4, "unit_variance": True}


@pytest.fixture(scope="module", params=["svd", "pca"])
def outcome(request):
    if request.param == "svd":
        return watched(columns(TABLE, WIDTHS), scheme="mask")
    return watched(np.split(TABLE, [10, 25]), **PCA)


def test_every_payload_alone_is_uniform(outcome):
    seen = payloads(csp_view(outcome))
    assert len(seen) > 5
    p = [uniform_bytes(words) for words in seen if words.size > 500]
    assert len(p) >= 3
    assert min(p) > ACCEPTED


def test_so_is_what_the_csp_hands_back_of_a_users_only_sum(outcome):
    """The pads of all users are off by then; the users' own pad is what still hides the total."""
    replies = {message.name: message.payload for _, message in outcome.views.of(user(1), SumReply)}
    assert replies
    assert uniform_bytes(np.concatenate([words.ravel() for words in replies.values()])) > ACCEPTED


def test_the_sum_of_all_batches_is_not_uniform_so_the_test_can_fail(outcome):
    batches = [message for _, message in csp_view(outcome).of(CSP, PaddedBatch)]
    total = sum(message.payload for message in batches if message.batch == 0)
    assert uniform_bytes(total) < REJECTED


def test_shares_of_fewer_than_all_users_are_uniform(outcome):
    batches = {who.index: said.payload for who, said in csp_view(outcome).of(CSP, PaddedBatch) if said.batch == 0}
    for few in itertools.combinations(batches, 2):
        assert uniform_bytes(batches[few[0]] + batches[few[1]]) > ACCEPTED


def test_no_word_comes_twice_in_a_run_nor_in_two_runs_on_the_same_data():
    """Beyond chance, which for some 20,000 words of 64 bits is 1e-11. Two runs: secrets from the operating system."""
    runs = [watched(columns(TABLE, WIDTHS), scheme="mask", random_state=None) for _ in range(2)]
    views = [csp_view(run) for run in runs]
    words = [np.concatenate([payload.ravel() for payload in payloads(view)]) for view in views]
    assert min(map(len, words)) > 2000
    for own in words:
        assert len(np.unique(own)) == len(own)
    assert not np.intersect1d(*words).size
    assert not public_keys(views[0]) & public_keys(views[1])


def test_one_random_state_gives_one_run_so_it_is_for_tests_alone():
    first, second = (watched(columns(TABLE, WIDTHS), scheme="mask", random_state=5) for _ in range(2))
    assert all(map(np.array_equal, payloads(csp_view(first)), payloads(csp_view(second))))


# Repeated and replayed.


def replayed(outcome, upto):
    """A fresh CSP of the same plan that has heard the recorded messages up to the first of this kind, it included."""
    csp = ServiceProvider(outcome.plan, choose_store)
    for sender, message in outcome.views.received[CSP]:
        csp.receive(sender, message)
        if isinstance(message, upto):
            return csp, sender, message
    raise AssertionError(f"no {upto.__name__} was heard")


@pytest.mark.parametrize("kind", [SumShare, PaddedBatch])
def test_a_share_that_comes_twice_ends_the_session(kind):
    outcome = watched(np.split(TABLE, [10, 25]), task=Task.PCA, split=Split.HORIZONTAL, components=4)
    csp, sender, message = replayed(outcome, kind)
    (abort,) = csp.receive(sender, message)
    assert isinstance(abort, Abort)
    assert isinstance(abort.error, RepeatedShare)
    assert csp.over


def test_a_share_of_another_session_ends_the_session():
    outcome, other = (watched(columns(TABLE, WIDTHS), scheme="mask", random_state=state) for state in (1, 2))
    csp = ServiceProvider(outcome.plan, choose_store)
    sender, message = other.views.received[CSP][0]
    (abort,) = csp.receive(sender, message)
    assert isinstance(abort.error, PlanMismatch)


def test_a_user_never_pads_one_batch_twice():
    """A CSP that asks for a batch again would get two ciphertexts under one pad; it gets none."""
    federation = Federation(columns(TABLE, WIDTHS), mode=Mode.B)

    def again(origin, to, message):
        if isinstance(message, BatchRequest) and to == user(1):
            return (message, message)
        return (message,)

    with pytest.raises(UnexpectedMessage):
        federation.run(meddle=again)
    sent = [m for origin, _, m in federation.sent if origin == user(1) and isinstance(m, PaddedBatch)]
    assert len(sent) == 1


def test_a_pad_is_spent_once_whichever_role_asks():
    once = PadsOnce()
    once.claim("pair", "upload", 0)
    with pytest.raises(LocalProtocolError):
        once.claim("pair", "upload", 0)
