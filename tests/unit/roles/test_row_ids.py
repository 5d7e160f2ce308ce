"""One keyed hash of a whole column of ids: equal for equal columns, and nothing else can be read from it."""

import hashlib
import hmac

import numpy as np
import pytest

from fedsvd.errors import LocalProtocolError, RepeatedIds
from fedsvd.randomness.seed import Seed
from fedsvd.roles.user.seeding import hashed_ids

KEY = Seed(bytes(range(32)))
IDS = np.array(["p1", "p2", "p33"])


def test_the_hash_is_hmac_of_all_ids_with_their_lengths():
    told = b"".join(len(text).to_bytes(4, "big") + text.encode() for text in IDS.tolist())
    expected = hmac.new(KEY.derive("row ids").reveal(), told, hashlib.sha256).digest()
    assert hashed_ids(IDS, KEY).tobytes() == expected
    assert hashed_ids(IDS, KEY).shape == (4,)  # 32 bytes, however many rows


@pytest.mark.parametrize("other", [["p1", "p2", "p34"], ["p2", "p1", "p33"], ["p1p", "2", "p33"], ["p1", "p2"]])
def test_other_ids_another_order_or_another_cut_give_another_hash(other):
    assert not np.array_equal(hashed_ids(IDS, KEY), hashed_ids(np.array(other), KEY))
    assert not np.array_equal(hashed_ids(IDS, KEY), hashed_ids(IDS, Seed(bytes(32))))


def test_ids_that_occur_twice_are_found_at_home():
    """Test 28: with one hash to a column the CSP cannot see them."""
    with pytest.raises(RepeatedIds, match="1 of 3 row ids"):
        hashed_ids(np.array(["p1", "p2", "p1"]), KEY)
    with pytest.raises(LocalProtocolError):
        hashed_ids(None, KEY)
