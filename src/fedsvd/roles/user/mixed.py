"""Linear mixed models on split rows: a user's own groups in the iteration that models by few digits have.

A group lies in one user, so all of its rows are taken at once. What is tested before each share (``records.py``) is the
part of a *group* in the own information of the effects. What a restricted likelihood needs is asked for ahead of the
score at a point; the same tests stand before it, and where one fails the user adds nothing to what it sent before. By
what is then public of all users' information a user adds to its score; it adds nothing if that is less than its own.
"""

from dataclasses import replace

import numpy as np

from fedsvd.protocol.model import ModelPlan
from fedsvd.roles.user.fit_records import Fitted, fitted
from fedsvd.roles.user.records import RecordsHome, own_table
from fedsvd.roles.user.requests import Script
from fedsvd.roles.user.work import Work
from fedsvd.statistics.mixed import Clusters
from fedsvd.statistics.mixed_covariance import Variances
from fedsvd.statistics.mixed_fit import fit_by_digits
from fedsvd.statistics.mixed_records import MixedRecords, Random
from fedsvd.statistics.mixed_table import MixedInference
from fedsvd.statistics.newton import Fitting
from fedsvd.statistics.newton_requests import Asked, Point, Shape, Sizes
from fedsvd.types import Float

_BY_CHANGE = {"tilt": "tilt", "slopes": "slopes", "last slopes": "slopes"}
"""Sums that are opened by what has changed since, and what they are of."""


def script(work: Work) -> Script:
    """The one model of the plan."""

    def steps(about: ModelPlan, shape: Shape) -> Fitting:
        random = random_of(about)
        return fit_by_digits(random, replace(shape, extra=random.covariance.parameters))

    fit: Fitted = yield from fitted(work, lambda about, labels: MixedHome(work, about, random_of(about)), steps)
    return fit.result(fit.model.solution, fit.model.rank)


def random_of(about: ModelPlan) -> Random:
    """The random effects of a plan."""
    return Random(len(about.columns("slope")), about.correlated, about.reml)


def records(about: ModelPlan, X: Float, labels: Float, random: Random) -> MixedRecords:
    """A user's records, from rows and labels in the plan's order."""
    (groups,) = about.columns("subject")
    return MixedRecords(X, labels[:, 0], labels[:, groups], labels[:, about.columns("slope")], random)


def predicted(about: ModelPlan, model: MixedInference, X: Float, labels: Float) -> tuple[Float, Float, Float]:
    """Of own rows the predicted random effects of their group, (n, q), the standard deviations of these given the
    outcomes, and fitted values with them."""
    (groups,) = about.columns("subject")
    n, codes = len(labels), labels[:, groups]
    Z = np.column_stack((np.ones(n), labels[:, about.columns("slope")]))
    own = Clusters(np.column_stack((np.ones(n), X)), Z, labels[:, 0], codes)
    point = Variances(float(np.asarray(model.scale)), model.random, np.zeros((0, *model.random.shape)))
    effects, spread, fitted = own.predicted(model.solution, point)
    errors = np.sqrt(np.maximum(np.diagonal(spread, axis1=1, axis2=2), 0.0))
    rows = np.unique(codes, return_inverse=True)[1]
    return effects[rows], errors[rows], fitted


class MixedHome(RecordsHome):
    """One user's own parts of the sums of a mixed model."""

    def __init__(self, work: Work, about: ModelPlan, random: Random) -> None:
        assert work.labels is not None
        self._mixed = records(about, own_table(work), work.labels, random)
        super().__init__(work, self._mixed)
        self._before: dict[str, Float] = {}  # what was sent of sums that are opened by what has changed

    def sizes(self, asked: Sizes) -> Float:
        if asked.of != "start":
            return super().sizes(asked)
        limits, self._before = (self._start_deviance, self._least_leverage), {}
        found = super().sizes(asked)
        if limits[0] is not None:  # a later start is at numbers that others went into: it does not move the limits
            self._start_deviance, self._least_leverage = limits
        return found

    def stands_out(self, at: Point) -> bool:
        return super().stands_out(at) or (at.tilt is not None and not self._mixed.within(at))

    def values(self, asked: Asked) -> Float:
        if asked.of not in _BY_CHANGE:
            return super().values(asked)
        assert asked.at is not None
        before = self._before.get(_BY_CHANGE[asked.of], np.zeros(len(asked.units)))
        if self.beyond(asked.at, 1.0) or self.stands_out(asked.at):
            return np.zeros(len(before))
        return super().values(asked) - before

    def sent(self, asked: Asked, values: Float) -> None:
        if asked.of in _BY_CHANGE:
            sum_of = _BY_CHANGE[asked.of]
            self._before[sum_of] = self._before.get(sum_of, 0.0) + values
        super().sent(asked, values)
