"""What robust errors add to a session: how many clusters there are, and one sum of squared scores for each model.

The sum is of this user's own ``M^T M`` in the coordinates of the model's root (``statistics/robust.py``). In all
digits it is in a unit that ``scores bound`` finds, since one row of large leverage may make it large. A cluster lies
within one user: equal names at two users are two clusters, for names are not compared.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import ConfigError, LocalProtocolError
from fedsvd.protocol.steps import FINE_STEP
from fedsvd.protocol.tasks import Robust
from fedsvd.roles.user.requests import Script
from fedsvd.roles.user.sums import bound_sum, total_sum, wide_sum
from fedsvd.roles.user.work import Work
from fedsvd.secagg import wide
from fedsvd.statistics.robust import NONROBUST, Errors
from fedsvd.types import Float

_MOST_NOISE = 62
BEYOND = 2.0**1000
"""What a user sends for a number that is not defined; 500 of them are a float64."""


def own_clusters(work: Work) -> NDArray[Any]:
    """The cluster of each own row."""
    if work.clusters is None:
        raise LocalProtocolError(
            "the plan has cluster-robust errors, and this party has no clusters", "name their column (cluster)"
        )
    return work.clusters


def joint_clusters(work: Work, defined: bool = True) -> Script:
    """How many clusters all parties have."""
    own = len(np.unique(own_clusters(work))) if defined else 0
    (joint,) = yield from wide_sum("clusters", [own << wide.LOWEST], [3], work.own)
    return round(joint / (1 << wide.LOWEST))


def errors_of(work: Work) -> Script:
    """Which standard errors a model of this plan has, an ``Errors``; clusters are counted first."""
    kind = work.plan.robust or NONROBUST
    if kind != Robust.CLUSTER:
        return Errors(kind)
    clusters: int = yield from joint_clusters(work)
    if clusters < 2:
        raise ConfigError(
            f"{clusters} clusters do not show how clusters differ", "name a column that has two or more (cluster)"
        )
    return Errors(kind, clusters)


def exact_squares(work: Work, own: Float, number: str = "") -> Script:
    """The total of these numbers, to the last digit of the largest of each user; ``number`` of a round, if one is."""
    size = float(np.abs(own).max(initial=0.0))
    E = yield from bound_sum(f"scores bound{number}", math.frexp(size)[1] if size else None, work.own)
    if E is None:
        E = 0
    width = min(_MOST_NOISE, max(0, FINE_STEP + math.frexp(math.ulp(size))[1] - E)) if size else 0
    total = yield from total_sum(work.plan, f"squared scores{number}", np.ldexp(own, -E), work.own, width)
    return np.ldexp(total, E)
