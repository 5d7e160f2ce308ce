"""What users of one process compute from one and the same object is computed once.

In a simulation the CSP's answer reaches all users as the same object, and every user would check it alike and take the
same P off it. An answer that differs is another object. Between institutions there is no memo: each computes by itself.
"""

import weakref
from collections.abc import Callable
from typing import Any

Memo = dict[bytes, Any]


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
