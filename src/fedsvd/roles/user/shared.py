"""What users of one process compute from one and the same array is computed once.

In a simulation the CSP's answer reaches all users as the same array, and every user would check it alike and take the
same P off it. Between institutions every user has an array of its own and there is no memo: each computes by itself.
"""

import weakref
from collections.abc import Callable
from typing import Any

from fedsvd.types import Float

Memo = dict[bytes, Any]


def once_for(memo: Memo | None, A: Float, what: str, users: int, work: Callable[[], Any]) -> Any:
    """What ``work`` makes of A, for the first of so many users; the others get the same, and it is dropped.

    A value that a user goes on to change must be copied by it.
    """
    if memo is None:
        return work()
    key = f"{what} {id(A)}".encode()
    found = memo.get(key)
    if found is None or found[0]() is not A:  # an address may have been another array's
        found = memo[key] = [weakref.ref(A), work(), users]
    found[2] -= 1
    if not found[2]:
        del memo[key]
    return found[1]
