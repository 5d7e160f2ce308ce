"""Users-only sums: statistics the users may read and the CSP may not, though it adds them up (step 6).

Every share carries pairwise pads, which cancel in the sum, and one pad more, which the CSP cannot remove: from the
group seed when all users may read the total, from the receiver's own key when one user may. Exactly one user adds it.
"""

import numpy as np

from fedsvd.randomness.seed import Seed
from fedsvd.roles.user.requests import Sum
from fedsvd.secagg import fixed_point, wide
from fedsvd.secagg.keys import PadKeys
from fedsvd.secagg.pads import PadsOnce, add_group_pad, pad, remove_group_pad
from fedsvd.types import Float, Ring, expect_shape


class UsersOnly:
    """One user's end of all users-only sums of a session."""

    def __init__(self, keys: PadKeys, group: Seed, own: Seed, once: PadsOnce) -> None:
        self._keys = keys
        self._group = group.derive("users only")
        self._own = own.derive("users only")
        self._once = once

    def __repr__(self) -> str:
        return f"UsersOnly(user={self._keys.user})"

    def share(self, request: Sum) -> Ring:
        """Our padded share."""
        values = np.ravel(request.values)
        if request.bound is None:
            payload = wide.encode(values)
        else:
            k = self._keys.k
            payload = fixed_point.encode(values, fixed_point.exponent(request.bound, k), terms=k)
        if self._keys.user == (request.receiver or 1):
            add_group_pad(payload, self._lock(request), request.name, 0, self._once)
        return pad(payload, self._keys, request.name, 0, self._once)

    def total(self, request: Sum, padded: Ring) -> Float:
        """The sum behind the CSP's reply, in the shape of our own values."""
        size = np.size(request.values)
        expect_shape(f"the sum {request.name!r}", padded, *((size, wide.WORDS) if request.bound is None else (size,)))
        total = remove_group_pad(padded.copy(), self._lock(request), request.name, 0)
        if request.bound is None:
            summed = wide.decode(total)
        else:
            summed = fixed_point.decode(total, fixed_point.exponent(request.bound, self._keys.k))
        return summed.reshape(np.shape(request.values))

    def _lock(self, request: Sum) -> Seed:
        return self._group if request.receiver is None else self._own
