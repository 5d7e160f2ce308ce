"""Linear mixed models on split rows: a user's own groups in the iteration that models by few digits have.

A group lies in one user, so all of its rows are taken at once. What is tested before each share (``records.py``) is the
part of a *group* in the own information of the effects. Slopes of a restricted likelihood are asked for ahead of the
score at a point; the same tests stand before them, and where one fails the user adds nothing to what it sent before.
"""

from dataclasses import replace

import numpy as np

from fedsvd.errors import LocalProtocolError
from fedsvd.protocol.model import ModelPlan
from fedsvd.roles.user.digits import DigitsSession
from fedsvd.roles.user.glm import GLMResult
from fedsvd.roles.user.models import shape_of
from fedsvd.roles.user.records import RecordsHome, own_table
from fedsvd.roles.user.requests import Local, Script
from fedsvd.roles.user.work import Work
from fedsvd.statistics.mixed import Clusters
from fedsvd.statistics.mixed_fit import MixedRecords, Random, fit_by_digits
from fedsvd.statistics.mixed_table import MixedInference
from fedsvd.statistics.newton_requests import Asked, Sizes
from fedsvd.types import Float


def script(work: Work) -> Script:
    """The one model of the plan."""
    about = work.plan.glm
    if work.labels is None or about is None:
        raise LocalProtocolError(
            "a mixed model needs this party's outcomes and groups", "name their columns (label, subject)"
        )
    session, random = DigitsSession(work), random_of(about)
    home: MixedHome = yield Local("evaluate", lambda: MixedHome(work, about, random))
    shape = replace(shape_of(work.plan, about), extra=random.variances)
    found = yield from session.fit(home, fit_by_digits(random, shape))
    w = found.solution[1:][None, :]
    return GLMResult((found,), w, found.solution[:1], found.rank, session.residual, session.bits, means=session.means)


def random_of(about: ModelPlan) -> Random:
    """The random effects of a plan."""
    return Random(about.column("slope") is not None, about.correlated, about.reml)


def records(about: ModelPlan, X: Float, labels: Float, random: Random) -> MixedRecords:
    """A user's records, from rows and labels in the plan's order."""
    groups, slope = about.column("subject"), about.column("slope")
    assert groups is not None
    return MixedRecords(X, labels[:, 0], labels[:, groups], None if slope is None else labels[:, slope], random)


def predicted(about: ModelPlan, model: MixedInference, X: Float, labels: Float) -> tuple[Float, Float]:
    """Of own rows the predicted random effects of their group, (n, q), and fitted values with them."""
    groups, slope = about.column("subject"), about.column("slope")
    assert groups is not None
    n, codes = len(labels), labels[:, groups]
    Z = np.ones((n, 1)) if slope is None else np.column_stack((np.ones(n), labels[:, slope]))
    own = Clusters(np.column_stack((np.ones(n), X)), Z, labels[:, 0], codes, model.correlated)
    variances = np.array([float(np.asarray(model.scale)), *(model.random[i, j] for i, j in own.entries)])
    effects, fitted = own.predicted(model.solution, variances)
    return effects[np.unique(codes, return_inverse=True)[1]], fitted


class MixedHome(RecordsHome):
    """One user's own parts of the sums of a mixed model."""

    def __init__(self, work: Work, about: ModelPlan, random: Random) -> None:
        assert work.labels is not None
        super().__init__(work, records(about, own_table(work), work.labels, random))
        self._slopes_sent = np.zeros(0)

    def sizes(self, asked: Sizes) -> Float:
        found = super().sizes(asked)
        if asked.of == "tilt":
            self._slopes_sent = np.zeros(len(found))
        return found

    def values(self, asked: Asked) -> Float:
        if asked.of != "tilt":
            return super().values(asked)
        assert asked.at is not None
        if self.beyond(asked.at, 1.0) or self.stands_out(asked.at):
            return np.zeros(len(self._slopes_sent))
        return super().values(asked) - self._slopes_sent

    def sent(self, asked: Asked, values: Float) -> None:
        if asked.of == "tilt":
            self._slopes_sent = self._slopes_sent + values
        super().sent(asked, values)
