"""The federation for tests: real roles, given seeds, and what was sent even when it ended badly."""

import numpy as np
import pytest
from hypothesis import find

from fedsvd.errors import LocalProtocolError, RepeatedShare
from fedsvd.protocol.messages import KeyOffer, PaddedBatch
from fedsvd.protocol.parties import CSP, user
from fedsvd.protocol.tasks import Split, Task
from fedsvd.testing.federation import INSECURE_SEED, Federation, altering
from fedsvd.testing.strategies import KINDS, joints

X = np.random.default_rng(0).normal(size=(4, 7))
PARTS = np.split(X, [3], axis=1)


def test_the_same_seed_gives_the_same_bytes_and_another_one_does_not():
    shares = []
    for seed in (INSECURE_SEED, INSECURE_SEED, bytes(32)):
        federation = Federation(PARTS, insecure_seed=seed, components=2)
        federation.run()
        shares.append(federation.views.of(CSP, PaddedBatch)[0][1].payload)
    np.testing.assert_array_equal(shares[0], shares[1])
    assert not np.any(shares[0] == shares[2])


def test_the_labels_say_how_many_targets_there_are_and_who_holds_them():
    y = np.ones((4, 3))
    vertical = Federation(PARTS, Task.LR, labels=[None, y])
    assert (vertical.study.targets, vertical.study.label_user) == (3, 2)
    horizontal = Federation([X, X], Task.LR, Split.HORIZONTAL, labels=[y[:, 0], y[:, 0]])
    assert (horizontal.study.targets, horizontal.study.label_user) == (1, 0)


def test_before_a_run_there_is_nothing_to_ask_for():
    federation = Federation(PARTS)
    for question in ("plan", "machines", "certificate"):
        with pytest.raises(LocalProtocolError, match="no session was run"):
            getattr(federation, question)
    assert federation.sent == []
    assert federation.views.received == {}


def test_what_was_said_and_heard_is_there_after_a_bad_end():
    federation = Federation(PARTS)
    with pytest.raises(RepeatedShare):
        federation.run(meddle=altering(KeyOffer, lambda offer: (offer, offer), origin=user(1)))
    assert [type(message) for _, _, message in federation.sent[:2]] == [KeyOffer, KeyOffer]
    assert len(federation.views.of(CSP, KeyOffer)) >= 2
    assert federation.machines[CSP].failure is not None
    federation.run()
    assert federation.machines[CSP].failure is None


def test_a_meddler_may_keep_a_message_to_itself():
    said = []
    federation = Federation(PARTS)
    federation.run(meddle=lambda origin, to, message: said.append((origin, to)) or (message,))
    assert len(said) == len(federation.sent)


def test_strategies_draw_every_kind_of_matrix_and_parts_that_make_it_up():
    for kind in KINDS:
        joint = find(joints(), lambda joint, kind=kind: joint.kind == kind and joint.X.shape[0] > 1)
        np.testing.assert_array_equal(np.hstack(joint.parts), joint.X)
        np.testing.assert_array_equal(np.vstack(joint.tables(Split.HORIZONTAL)).T, joint.X)
        assert tuple(part.shape[1] for part in joint.parts) == joint.widths
        assert "array" not in repr(joint)
