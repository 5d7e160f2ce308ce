"""The keyed hash of a user's row ids (step 2): the key is the users', so that the CSP can compare and not guess.

One hash of the whole column, in order. Hashes of single rows would show the CSP which rows differ, and a count of them
would answer a user's questions about membership; so neither is sent, and ids that occur twice are found here.
"""

import hashlib
import hmac
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import LocalProtocolError, RepeatedIds
from fedsvd.protocol.messages import ID_WORDS
from fedsvd.randomness.seed import Seed
from fedsvd.types import Ring


def hashed_ids(ids: NDArray[Any] | None, users_seed: Seed) -> Ring:
    """HMAC-SHA-256 of all row ids in order, each with its length, as four words."""
    if ids is None:
        raise LocalProtocolError("the plan compares row ids, and this party has none", "name the id column")
    texts = [str(row).encode() for row in ids.tolist()]
    if repeated := len(texts) - len(set(texts)):
        raise RepeatedIds(f"{repeated} of {len(texts)} row ids occur more than once", "keep one row for each id")
    code = hmac.new(users_seed.derive("row ids").reveal(), digestmod=hashlib.sha256)
    for text in texts:
        code.update(len(text).to_bytes(4, "big") + text)
    return np.frombuffer(code.digest(), "<u8").astype(np.uint64)[:ID_WORDS]
