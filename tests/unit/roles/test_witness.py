"""The digest of a session: the same whether users of one process hash an object once or each by itself."""

import numpy as np
from tests import explicit
from tests.unit.roles.test_panels_of_y import plan

from fedsvd.protocol.parties import user
from fedsvd.roles.user.agreement import Group
from fedsvd.sealing.sign import SigningKey

U = np.random.default_rng(0).normal(size=(50, 4))


def groups(memo):
    return [Group(user(i), plan(50), explicit.seed(1), SigningKey(explicit.seed(i)), memo) for i in (1, 2)]


def digests(memo, first, second):
    """What two users hold that saw these arrays, after some words that both saw."""
    pair = groups(memo)
    for group, seen in zip(pair, (first, second), strict=True):
        group.witness("bound 0", np.arange(3, dtype=np.uint64))
        group.witness("answer", seen)
        group.witness("rest", b"the same")
    return [group.digest() for group in pair]


def test_users_of_one_process_have_the_digest_that_each_would_have_alone():
    alone = digests(None, U, U)
    assert alone[0] == alone[1]
    assert digests({}, U, U) == alone
    assert digests({}, U, U.copy()) == alone
    assert digests({}, np.asfortranarray(U), U) == alone


def test_another_answer_is_another_digest():
    other = U.copy()
    other[3, 1] = np.nextafter(other[3, 1], 9.0)
    for memo in (None, {}):
        first, second = digests(memo, U, other)
        assert first != second


def test_the_same_object_after_another_history_is_hashed_again():
    one, two = groups({})
    one.witness("bound 0", b"one")
    two.witness("bound 0", b"two")
    one.witness("answer", U)
    two.witness("answer", U)
    assert one.digest() != two.digest()
