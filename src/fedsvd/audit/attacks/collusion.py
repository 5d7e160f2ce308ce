"""Parties who pool what they know: outside the model, and stated.

CSP and one user together know P, Q and c, so they take every mask off the sum and are left with ``A_i T_i`` of every
other user: its Gram matrix, and of its columns what any rotation of them shows. All users but one together know of the
last one what one of two would.
"""

from collections.abc import Sequence

from fedsvd.audit.attacks.outputs import others_gram, own_part
from fedsvd.audit.attacks.view import CspView, UserView
from fedsvd.roles.user.masking import Masks
from fedsvd.types import Float


def csp_and_user(csp: CspView, masks: Masks, i: int) -> Float:
    """``A_i T_i`` of user i, from the CSP's view and the masks that any user has; i counts from 0."""
    found: Float = masks.Q.right_t(i, masks.P.left_t(csp.Y) / masks.c)
    return found


def pooled_gram(views: Sequence[UserView]) -> Float:
    """The Gram matrices of those who do not pool, summed: results of one of the pool, less the own ones of the pool."""
    found = others_gram(views[0])
    for view in views[1:]:
        own = own_part(view)
        found -= own @ own.T
    return found
