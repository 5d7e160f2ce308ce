"""Parties who pool what they know: outside the model, and stated.

CSP and one user together know P, Q and c, so they take every mask off the sum and are left with ``A_i T_i`` of every
other user: its Gram matrix, and of its columns what any rotation of them shows.
"""

from fedsvd.audit.attacks.view import CspView
from fedsvd.roles.user.masking import Masks
from fedsvd.types import Float


def csp_and_user(csp: CspView, masks: Masks, i: int) -> Float:
    """``A_i T_i`` of user i, from the CSP's view and the masks that any user has; i counts from 0."""
    found: Float = masks.Q.right_t(i, masks.P.left_t(csp.Y) / masks.c)
    return found
