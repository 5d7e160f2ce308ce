"""Y_i up and U down: the two ways an upload goes, and the two ways its answer comes back (steps 2 to 4 of the paper).

By columns, where the matrix fits or is long the other way: P stands over all rows, and U' comes as one message. By
rows, where a tall matrix does not fit: each window of P is drawn, met and forgotten, once on the way up and once on the
way back, and U is unmasked window by window into an array that may lie on disk.
"""

import numpy as np

from fedsvd.errors import LocalProtocolError
from fedsvd.linalg.backend import to_numpy
from fedsvd.masks.remove import unmask_left
from fedsvd.protocol.messages import Factors
from fedsvd.roles.user.masking import Operand
from fedsvd.roles.user.requests import Fetch, Script, Upload
from fedsvd.roles.user.work import Work, entry_bound
from fedsvd.types import Float


def upload(work: Work, A_i: Operand, F: float) -> Upload:
    """A_i under its masks, in the order the plan says; A_i, T_i and Q are let go with the last panel of Y_i."""
    held: list[Operand | None] = [A_i]
    masks, last = work.masks, len(work.plan.panels) - 1

    def panel(w: int) -> Float:
        Y_iw = _panel(work, held[0], w)
        if w == last:
            held[0] = None
            masks.forget_right()
        return Y_iw

    return Upload(panel, (entry_bound(work, F), 0.0))


def _panel(work: Work, A_i: Operand | None, w: int) -> Float:
    if A_i is None:
        raise LocalProtocolError("a panel of Y_i was asked for after the last one")
    if work.plan.whole_shares:
        return _whole(work, A_i)
    if not work.plan.by_rows:
        columns: Float = work.masks.column_panel(A_i, w)
        return columns
    place = work.plan.left_windows[w]
    no_labels = work.put(np.empty((place.stop - place.start, 0)))
    rows: Float = work.masks.row_panel(A_i.rows(place.start, place.stop), no_labels, w)
    return rows


def _whole(work: Work, A_i: Operand) -> Float:
    """All of Y_i, as the paper has it before it cuts shares into mini-batches."""
    Y_i = np.empty((work.plan.M, work.plan.N))
    for w, window in enumerate(work.plan.right_windows):
        Y_i[:, window.outputs] = work.masks.column_panel(A_i, w)
    return Y_i


def left_vectors(work: Work, factors: Factors) -> Script:
    """U (m, r) from under P; signs are still the solver's."""
    plan, P = work.plan, work.masks.P
    if not plan.tall:
        return to_numpy(unmask_left(work.put(factors.U_masked), P))
    r = factors.U_masked.shape[1]
    U = work.allocate((plan.m, r))
    for w, place in enumerate(plan.left_windows):
        rows: Float = yield Fetch(w, r)
        U[place] = to_numpy(P.window(w).left_t(work.put(rows)))
    return U
