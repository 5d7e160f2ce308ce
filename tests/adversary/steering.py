"""One attack on every model by Newton steps: user 1 steers coefficients to where one record is most of a sum.

It adds to its first score what leads the next step to a chosen aim, from its own information (users have rows of one
kind), and lies of its deviance from then on, so that the joint one seems to fall: stronger than a real liar, it knows
the others' deviance. What counts is the largest part of one of the others' records in an information that was opened.
"""

from contextlib import suppress

import numpy as np

from fedsvd.errors import NotConverged, Separated
from fedsvd.roles.user.home import FEW
from fedsvd.statistics.newton_requests import Asked, Point

_TIMES = 2.6  # the joint information is about this much of the liar's own
_DEVIANCE = 20.0  # that the joint one seems to be


def lying(home, aim, others, tested=True):
    """A kind of ``home`` whose user 1 lies; ``others``: the records of all but user 1."""

    class Liar(home):
        def __init__(self, work, *given):
            super().__init__(work, *given)
            self.lies, self.scores = work.i == 0, 0

        def values(self, asked):
            found = super().values(asked)
            if not self.lies or asked.of != "score":
                return found
            self.scores += 1
            found = found.copy()
            if self.scores == 1:
                P = len(asked.at.beta)
                H = np.zeros((P, P))
                H[np.triu_indices(P)] = _TIMES * super().values(Asked("information", asked.units, asked.at))
                found[2:] += (H + np.triu(H, 1).T) @ (aim - asked.at.beta)
            else:
                at = Point(asked.at.beta, asked.at.centre, information=False)
                found[0] = _DEVIANCE - sum(records.part(at).deviance for records in others)
            return found

    class Trusting(Liar):
        """Among users that make no home test."""

        def stands_out(self, at):
            return False

        def beyond(self, at, dispersion):
            return False

    return Liar if tested else Trusting


def recording(monkeypatch, module, see):
    """Let ``see`` have each sum that fits of this module ask for, with its answer."""
    plain = module.fit_by_digits

    def recorded(*asked, **settings):
        steps = plain(*asked, **settings)
        request = next(steps)
        while True:
            answer = yield request
            if isinstance(request, Asked):
                see(request, answer)
            try:
                request = steps.send(answer)
            except StopIteration as end:
                return end.value

    monkeypatch.setattr(module, "fit_by_digits", recorded)


def steered(monkeypatch, module, home, aim, others, run, tested=True):
    """The largest part of one of the others' records in an information matrix that was opened.

    ``module`` has the class ``home`` by its name, and ``fit_by_digits``, whose requests are recorded.
    """
    monkeypatch.setattr(module, home, lying(getattr(module, home), aim, others, tested))
    seen = []

    def see(request, answer):
        if request.of in ("information", "table", "tilt"):
            seen.append(request.at)

    recording(monkeypatch, module, see)
    with suppress(NotConverged, Separated):  # or a later honest score leads back
        run()
    assert seen, "nothing was opened"
    return max(largest_part(records, at) for records in others for at in seen)


def largest_part(records, at):
    """Of one record in the information of its owner at a point, of the parameters that are tested."""
    tested = records.tested
    here = Point(at.beta, at.centre, information=True, expected=at.expected or tested != slice(None))
    values, vectors = np.linalg.eigh(records.part(here).information[tested, tested])
    kept = values > FEW * values[-1]
    return records.largest_part(here, vectors[:, kept] / np.sqrt(values[kept]))
