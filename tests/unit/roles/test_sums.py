"""Users-only sums: exact for those who may read them, noise for everybody else."""

import numpy as np
import pytest
from tests.tolerances import digits_lost

from fedsvd.errors import FixedPointOverflow, LocalProtocolError, ShapeError
from fedsvd.randomness.seed import Seed
from fedsvd.roles.user.requests import Sum
from fedsvd.roles.user.sums import UsersOnly
from fedsvd.secagg import wide
from fedsvd.secagg.keys import PadKeys
from fedsvd.secagg.pads import PadsOnce

K = 3
GROUP = Seed(b"g" * 32)


def pair(i, j):
    return Seed(bytes([min(i, j), max(i, j)]) * 16)


def users():
    """The three users' ends of one session."""
    return {
        i: UsersOnly(
            PadKeys(i, {j: pair(i, j) for j in range(1, K + 1) if j != i}),
            GROUP,
            Seed(bytes([100 + i]) * 32),
            PadsOnce(),
        )
        for i in range(1, K + 1)
    }


VALUES = {i: np.array([[1e300, 0.1 * i], [-1e-300, i]]) for i in range(1, K + 1)}


def total_of(requests, ends):
    shares = [ends[i].share(requests[i]) for i in ends]
    return np.add.reduce(shares), shares


def test_a_sum_of_any_magnitude_is_exact_at_all_users():
    ends = users()
    requests = {i: Sum("norm", VALUES[i]) for i in ends}
    total, _ = total_of(requests, ends)
    for i, end in ends.items():
        summed = end.total(requests[i], total)
        assert summed.shape == (2, 2)
        assert summed.tolist() == [[3e300, 0.1 + 0.2 + 0.30000000000000004], [-3e-300, 6.0]]


def test_a_bounded_sum_costs_one_word_a_value():
    ends = users()
    requests = {i: Sum("orthogonality", np.array([0.25 * i, -1.0, 1 / 3]), bound=2.0) for i in ends}
    total, shares = total_of(requests, ends)
    assert shares[0].shape == (3,)
    np.testing.assert_array_equal(ends[2].total(requests[2], total), [1.5, -3.0, 1.0])


def test_without_the_group_seed_the_sum_is_noise():
    """The CSP adds the shares up and sees this: no value, no zero, not even that two sums are equal."""
    ends = users()
    zeros = np.zeros(200)
    first, _ = total_of({i: Sum("norm", zeros, bound=1.0) for i in ends}, ends)
    second, _ = total_of({i: Sum("mean", zeros, bound=1.0) for i in ends}, ends)
    assert len(set(first.tolist()) | set(second.tolist())) == 400
    bits = np.unpackbits(first.view(np.uint8))
    assert abs(bits.mean() - 0.5) < 0.02


def test_one_receiver_reads_what_nobody_else_can():
    ends = users()
    requests = {i: Sum("scores", np.array([1.0 * i, 2.0]), bound=8.0, receiver=2) for i in ends}
    total, _ = total_of(requests, ends)
    np.testing.assert_allclose(ends[2].total(requests[2], total), [6.0, 6.0], rtol=digits_lost(1))
    for other in (1, 3):
        try:
            misread = ends[other].total(requests[other], total)
        except FixedPointOverflow:
            continue
        assert misread.tolist() != pytest.approx([6.0, 6.0])


def test_a_share_is_made_once():
    ends = users()
    ends[1].share(Sum("norm", np.ones(2)))
    with pytest.raises(LocalProtocolError, match="already padded"):
        ends[1].share(Sum("norm", np.ones(2)))


def test_a_value_beyond_its_bound_is_an_overflow_and_not_a_wrong_sum():
    with pytest.raises(FixedPointOverflow):
        users()[1].share(Sum("orthogonality", np.array([2.7]), bound=2.0))


@pytest.mark.parametrize("shape", [(1, wide.WORDS), (3, wide.WORDS), (2,), (2, 3)])
def test_a_reply_of_another_shape_is_refused(shape):
    with pytest.raises(ShapeError, match="the sum 'norm'"):
        users()[1].total(Sum("norm", np.ones(2)), np.zeros(shape, np.uint64))


def test_the_reply_itself_is_left_alone():
    ends = users()
    requests = {i: Sum("norm", np.ones(2)) for i in ends}
    total, _ = total_of(requests, ends)
    kept = total.copy()
    ends[1].total(requests[1], total)
    np.testing.assert_array_equal(total, kept)
    assert repr(ends[1]) == "UsersOnly(user=1)"
