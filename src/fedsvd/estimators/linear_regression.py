"""Linear regression, ordinary or ridge, over data that several parties hold (section 4 of the paper)."""

from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np

from fedsvd.errors import ConfigError
from fedsvd.estimators.base import one_of
from fedsvd.estimators.inference import InferenceTable
from fedsvd.estimators.linear_model import LinearModel
from fedsvd.estimators.matched import Align
from fedsvd.estimators.parameters import documented
from fedsvd.estimators.robust_errors import RobustErrors
from fedsvd.estimators.stored import Found
from fedsvd.estimators.tables import parts_like_fitted
from fedsvd.protocol.model import Digits
from fedsvd.protocol.tasks import Item, Split, Task
from fedsvd.results.regression_table import models_of
from fedsvd.statistics.inference import LinearInference
from fedsvd.statistics.own_block import joined
from fedsvd.tasks.declared import declared
from fedsvd.types import Float

_ROWS = 4096  # of new samples that are read at a time


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class FederatedLinearRegression(RobustErrors, InferenceTable, LinearModel):
    """Least squares over features, or samples, that stay with their parties.

    The result is that of ``sklearn.linear_model.LinearRegression`` on the joint table, or of ``Ridge`` with a
    positive ``alpha``; the intercept is never penalised. Where rank is lost, the coefficients are those of least norm.
    Split by features, each party ends with its own coefficients and all with the intercept; split by samples, all
    parties end with all coefficients.

    Parameters
    ----------
    alpha : float, default=0.0
        Strength of the ridge; 0 for ordinary least squares.
    fit_intercept : bool, default=True
        Whether the model has an intercept.
    inference : bool, default=False
        Whether the parties compute standard errors, t, p and intervals: ``summary()``, ``summary_frame()``. Split by
        samples, each party computes them from the joint Gram matrix of features and labels, which all parties then
        hold (mode "A"). Split by features, each party has the rows of its own features and the covariances among
        them, and all parties have what is said of the model as one; covariances across parties are NaN.
    digits : {"auto", "table", "more", "all"}, default="auto"
        Digits of the sums that parties open for ``inference`` on split samples; ``auto`` is ``all`` in one process.
    split : {"horizontal", "vertical"}, default="horizontal"
        Parties hold different samples of the same features, or different features of the same samples.
    label_party : int, default=None
        Who holds y when features are split, counted from 0 in the list given to ``fit``; None for the last, or for the
        one whose table has the column that y names.
    {parameters}

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Coefficients over the joint features; one-dimensional for a one-dimensional y.
    intercept_ : float or ndarray of shape (n_targets,)
        0.0 without an intercept.
    rank_ : int
        Rank of the (centred) joint table, of the ridge's rows as well where there is a ridge.
    inference_ : tuple of LinearInference
        With ``inference``, the statistics of each target: covariance, sigma, R2, F, log-likelihood, AIC, VIF, ...
    target_names_ : tuple of str
        Names of the targets where y has some, else "y" or "y0", "y1", ...
    parties_ : tuple of PartyCoefficients
        What each party would hold: ``coef_``, its own part when features are split, and ``intercept_``.
    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> from fedsvd import FederatedLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> bank, shop, insurer = rng.normal(size=(500, 2)), rng.normal(size=(500, 1)), rng.normal(size=(500, 3))
    >>> y = bank @ [1.0, 2.0] + shop @ [3.0] + insurer @ [4.0, 5.0, 6.0] + 7.0
    >>> regression = FederatedLinearRegression(split="vertical", ids="trust").fit([bank, shop, insurer], y)
    >>> [party.coef_.round(10).tolist() for party in regression.parties_]
    [[1.0, 2.0], [3.0], [4.0, 5.0, 6.0]]
    >>> round(float(regression.intercept_), 10)
    7.0
    """

    alpha: float = field(default=0.0, kw_only=False)
    fit_intercept: bool = True
    inference: bool = False
    digits: str = "auto"
    split: str = "horizontal"
    label_party: int | None = None
    ids: str = "compare"
    align: Align | None = None

    def _dense(self, X: Any) -> Float:
        self._expect_fitted()
        panels = [panel for part in parts_like_fitted(self, X) for panel in part.source.panels(0, _ROWS)]
        return np.concatenate(panels) if panels else np.zeros((0, self.n_features_in_))

    def _models(self) -> tuple[LinearInference, ...]:
        self._expect_fitted()
        return super()._models()

    def _alpha(self) -> float:
        if not isinstance(self.alpha, Real) or not 0 <= self.alpha < np.inf:
            raise ConfigError(f"alpha is {self.alpha!r}", "a number of at least 0")
        return float(self.alpha)

    def _asked(self, clusters: bool) -> dict[str, Any]:
        robust = self._errors(clusters)
        more = {Item.INFERENCE: self.inference, Item.ROBUST: robust is not None}
        release = (*declared(Task.LR).released, *(item for item, asked in more.items() if asked))
        digits = Digits(one_of("digits", self.digits, tuple(Digits)))
        asked = {"alpha": self._alpha(), "robust": robust, "digits": digits}
        return {**asked, "release": release if any(more.values()) else None}

    def _store(self, found: Found) -> None:
        super()._store(found)
        if found.plan.split is Split.HORIZONTAL:
            self.inference_ = models_of(found.here)
            return
        each = zip(*(models_of(part) for part in found.parts), strict=True)
        self.inference_ = tuple(joined(models) for models in each)
