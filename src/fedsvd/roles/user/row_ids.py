"""Keyed hashes of a user's row ids (step 2): the key is the users', so that the CSP can compare and not guess."""

import hashlib
import hmac
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import LocalProtocolError
from fedsvd.randomness.seed import Seed
from fedsvd.types import Ring


def hashed_ids(ids: NDArray[Any] | None, users_seed: Seed) -> Ring:
    """One keyed hash of 64 bits for every row id, in order."""
    if ids is None:
        raise LocalProtocolError("the plan compares row ids, and this party has none", "name the id column")
    key = users_seed.derive("row ids").reveal()
    digests = (hmac.new(key, str(row).encode(), hashlib.sha256).digest()[:8] for row in ids.tolist())
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)
