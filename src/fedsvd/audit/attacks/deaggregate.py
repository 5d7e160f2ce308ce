"""Equation 6 undoes secure aggregation (C1).

For V the paper's users send ``Q_i^T R_i``. Whatever R_i is, the column space of that is the column space of Q_i^T, and
``X' Q_i^T Q_i`` is user i's own share: the CSP projects the sum and has what aggregation was to hide.
"""

import numpy as np

from fedsvd.audit.attacks.view import CspView
from fedsvd.errors import ConfigError
from fedsvd.types import Float


def share_of(view: CspView, i: int) -> Float:
    """User i's masked share ``P X_i Q_i`` from the CSP's view, window by window; no prior knowledge is needed."""
    blinded = view.blinded_mask(i)
    if blinded is None:
        raise ConfigError("no one sent a blinded mask in this session", "eq. 6 is there in the paper's scheme alone")
    share = np.zeros_like(view.Y)
    for window, block in zip(view.plan.right_windows, blinded, strict=True):
        if block is not None:
            basis = np.linalg.qr(block)[0]
            share[:, window.outputs] = view.Y[:, window.outputs] @ basis @ basis.T
    return share
