"""Pads put on words of 128 bits on a device are those put on in host memory, bit for bit, and cancel in a sum there."""

import numpy as np
import pytest

from fedsvd.linalg.device import Device
from fedsvd.randomness.keystream import Keystream
from fedsvd.randomness.seed import Seed
from fedsvd.secagg.aggregate import WordSum
from fedsvd.secagg.keys import PadKeys
from fedsvd.secagg.pads import PadsOnce, claimed, pad
from fedsvd.secagg.pads_on_device import padded_there

PAIRS = {(1, 2): Seed(b"\x01" * 32), (1, 3): Seed(b"\x02" * 32), (2, 3): Seed(b"\x03" * 32)}


def keys(user):
    return PadKeys(user, {sum(pair) - user: seed for pair, seed in PAIRS.items() if user in pair})


def words(count, number):
    return Keystream(Seed(bytes([9, number] * 16))).words(2 * count).reshape(-1, 2)


@pytest.mark.parametrize("user", [1, 2, 3])
@pytest.mark.parametrize("count", [1, 70_000])
def test_they_are_the_pads_of_host_memory(library, user, count):
    device, payload = Device("test", library.array([0.0])), words(count, user)
    there = device.put(payload.view(np.int64)) if library.name != "numpy" else payload.copy()
    found = padded_there(there, claimed(keys(user), "gram", 4, PadsOnce(), halves=2), device, map)
    expected = pad(payload.copy(), keys(user), "gram", 4, PadsOnce(), halves=2)
    np.testing.assert_array_equal(found, expected)


def test_shares_add_up_on_a_device_with_their_carries(foreign):
    device, count = Device("test", foreign.array([0.0])), 1000
    here, there = WordSum(count, 3), WordSum(count, 3, device=device)
    for user in (1, 2, 3):
        share = pad(words(count, user), keys(user), "gram", 0, PadsOnce(), halves=2)
        here.add(user, share)
        there.add(user, share)
    total = foreign.numpy(there.total()).view(np.uint64)
    np.testing.assert_array_equal(total, here.total())
    plain = sum(int(low) + (int(high) << 64) for low, high in (words(count, user)[0] for user in (1, 2, 3)))
    assert int(total[0, 0]) + (int(total[0, 1]) << 64) == plain % (1 << 128)
