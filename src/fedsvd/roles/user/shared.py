"""What users of one process compute from the same inputs is computed once.

In a simulation the CSP's answer reaches all users as the same object, and every user would check it alike and take the
same P off it; so does the reply to a sum, which is opened once. What differs is another object. What follows from other
objects is compared. Between institutions there is no memo: each computes by itself.
"""

import hashlib
import weakref
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from fedsvd.sealing.sign import verify

Memo = dict[Hashable, Any]


def once_for(memo: Memo | None, given: object, what: str, users: int, work: Callable[[], Any]) -> Any:
    """What ``work`` makes of this object, for the first of ``users``; the others get the same, and it is dropped.

    A value that a user goes on to change must be copied by it.
    """
    if memo is None:
        return work()
    key = f"{what} {id(given)}".encode()
    found = memo.get(key)
    if found is None or found[0]() is not given:  # an address may have been another object's
        found = memo[key] = [weakref.ref(given), work(), users]
    found[2] -= 1
    if not found[2]:
        del memo[key]
    return found[1]


def once_in_process(memo: Memo | None, what: str, given: tuple[Any, ...], work: Callable[[], Any]) -> Any:
    """What ``work`` makes of these inputs, the last that users of one process had under this name.

    Arrays and bytes are compared, other objects are the same one; a value is shared, and no user may change it.
    """
    if memo is None:
        return work()
    key = f"last {what}".encode()
    last = memo.get(key)
    if last is None or not all(map(_same, last[0], given)):
        last = memo[key] = given, work()
    return last[1]


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.array_equal(a, b)
    return isinstance(a, bytes) and a == b


def verify_once(
    memo: Memo | None, public: bytes, purpose: str, message: bytes, signature: bytes, digest: bytes = b""
) -> None:
    """``verify``, of each signature once for all users of one process; what failed is verified again, and fails.

    ``digest`` is SHA-256 of a long message that many have signed, which is then hashed once.
    """
    if memo is None:
        verify(public, purpose, message, signature)
        return
    signed = digest or hashlib.sha256(message).digest()
    key = public, purpose, signed, signature
    if key not in memo:
        verify(public, purpose, message, signature)
        memo[key] = True
