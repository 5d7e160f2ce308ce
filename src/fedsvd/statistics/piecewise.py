"""A hazard that is level between public times: events of a bin over the time at risk in it, weighed by hazards.

It is the estimate of a piecewise exponential model at given effects: with ``R_b`` the sum over records of
``exp(x b)`` times the time that each was at risk in bin b, the hazard of a record of zeros there is ``d_b / R_b``, and
the cumulative hazard is straight between two times.
"""

import numpy as np

from fedsvd.types import Float


def time_in_bins(entry: Float | None, exit: Float, edges: Float) -> Float:
    """How long each record was at risk in each bin, (records, bins); the first begins at 0."""
    begin = np.concatenate(([0.0], edges[:-1]))
    came = np.zeros(len(exit)) if entry is None else entry
    found: Float = np.minimum(exit[:, None], edges) - np.maximum(came[:, None], begin)
    return np.maximum(found, 0.0)


def hazards(edges: Float, events: Float, exposed: Float) -> Float:
    """Time, events, exposure and cumulative hazard at the end of each bin, (bins, 4)."""
    width = np.diff(edges, prepend=0.0)
    some = exposed > 0.0
    rate = np.divide(events, exposed, out=np.zeros(len(edges)), where=some)
    return np.column_stack((edges, events, exposed, np.cumsum(rate * width)))


def survival(found: Float, times: Float, relative: Float) -> Float:
    """The share without an event up to each time, (records, times), of records with these hazards relative to zeros."""
    H = np.interp(times, np.concatenate(([0.0], found[:, 0])), np.concatenate(([0.0], found[:, 3])))
    H = np.where(times > found[-1, 0], np.nan, H)
    alive: Float = np.exp(-relative[:, None] * H)
    return alive
