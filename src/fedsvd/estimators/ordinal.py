"""Ordinal regression over records that several parties hold."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import ConfigError, DataError
from fedsvd.estimators.base import Federated, one_of
from fedsvd.estimators.models import FederatedModel
from fedsvd.estimators.parameters import documented
from fedsvd.estimators.robust_errors import RobustErrors
from fedsvd.estimators.sklearn_types import ClassifierMixin
from fedsvd.estimators.stored import Found
from fedsvd.protocol.model import ModelPlan
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import LINKS, Family, Task
from fedsvd.results.model_table import classes_of
from fedsvd.statistics.ordinal import OrdinalInference
from fedsvd.types import Float


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class FederatedOrdinalRegression(ClassifierMixin, RobustErrors, FederatedModel):
    """Proportional odds of classes in an order, over records that stay with their parties.

    The result is that of R's ``MASS::polr`` on the joint table: effects and thresholds to 1e-10 standard errors,
    standard errors to 1e-7 in one process and to 1e-4 between institutions. ``P(y <= k) = F(z_k - x b)``: a positive
    effect is one of a higher class, the same at every threshold. What the parties open are the number of records of
    each class, and sums of scores and information in a few digits.

    Parameters
    ----------
    link : {"logit", "probit", "cloglog"}, default="logit"
        F is the logistic law, the normal law, or ``1 - exp(-exp(.))``.
    levels : sequence, default=None
        The classes from the lowest to the highest, three or more; None takes numbers in their order.
    alpha : float, default=0.0
        Strength of a ridge on the effects, ``alpha ||b||^2 / 2`` next to minus the log-likelihood. With a ridge there
        are no standard errors.
    {parameters}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        From the lowest to the highest.
    coef_ : ndarray of shape (1, n_features)
    thresholds_ : ndarray of shape (n_classes - 1,)
    inference_ : tuple of OrdinalInference
        Of length one: effects and thresholds with their covariance, deviance, AIC, BIC, ...
    n_iter_ : int
        How many iterations it took.
    target_name_ : str
        The name of y where it has one, else "y".
    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> from fedsvd import FederatedOrdinalRegression
    >>> rng = np.random.default_rng(0)
    >>> tables = [rng.normal(size=(n, 2)) for n in (300, 500, 400)]
    >>> hidden = [X @ [1.0, -0.5] + rng.logistic(size=len(X)) for X in tables]
    >>> grades = [np.digitize(u, [-1.0, 1.0]) for u in hidden]
    >>> ordinal = FederatedOrdinalRegression().fit(tables, grades)
    >>> ordinal.summary_frame().round(2)[["coef", "se"]].values.tolist()
    [[1.03, 0.07], [-0.52, 0.06], [-1.05, 0.07], [1.02, 0.07]]
    """

    fit_intercept = False
    intercept_ = 0.0
    _task = Task.ORDINAL
    _of_classes = True

    link: str = field(default="logit", kw_only=False)
    levels: Any = None
    alpha: float = 0.0

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Run the study.

        Parameters
        ----------
        X : list of one table per party, or one table of shape (n_samples, n_features)
            NumPy arrays, memory maps, pandas or polars frames, SciPy sparse matrices, paths, MatrixSource. One table is
            divided evenly among the parties of ``federation``.
        y : str, array-like of shape (n_samples,), or a list of one per party
            Classes, as numbers or texts; one text names a column of every table, which is then no feature.
        sample_weight : str, array-like of shape (n_samples,), or a list of one per party, default=None
            Prior weights, 0 or more (R's ``weights``); a text names a column of every table, which is then no feature.
        groups : array-like of shape (n_samples,), or a list of one per party, default=None
            To which cluster each row belongs, where no column is named by ``cluster``.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight, None, groups=groups)

    def _about(self, classes: int, beside: tuple[str, ...]) -> ModelPlan:
        link = one_of("link", self.link, LINKS[Family.ORDINAL])
        if classes < 3:
            raise ConfigError(f"y has {classes} classes", "two are FederatedLogisticRegression's; three or more here")
        return ModelPlan(Family.ORDINAL, link, classes=classes, **self._iterations())

    def _coded(self, labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
        if self.levels is None:
            if labels.dtype.kind not in "iufb":
                raise ConfigError("the classes are texts, whose order is not known", 'levels=["low", "medium", "high"]')
            return super()._coded(labels)
        levels = np.asarray(self.levels)
        place = {level: code for code, level in enumerate(levels.tolist())}
        codes = [place.get(label, -1) for label in labels.tolist()]
        if len(place) < len(levels) or min(codes) < 0:
            raise DataError("y has a class that levels do not name, or levels name one twice", "name every class once")
        return levels, np.array(codes, dtype=np.intp)

    def _store(self, found: Found) -> None:
        super()._store(found)
        given = found.known.get("classes")
        self.classes_: NDArray[Any] = np.array(classes_of(found.here)) if given is None else given
        self.inference_ = (self._model().of_classes([str(level) for level in self.classes_]),)
        self.thresholds_: Float = self._model().thresholds

    def _model(self) -> OrdinalInference:
        model = self.inference_[0]
        assert isinstance(model, OrdinalInference)
        return model

    def decision_function(self, X: Any) -> Float:
        """The linear predictor of samples; nothing is sent.

        Parameters
        ----------
        X : {samples}

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        found: Float = self._linear(X)[:, 0]
        return found

    def predict_proba(self, X: Any) -> Float:
        """The probability of each class.

        Parameters
        ----------
        X : as in ``decision_function``

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        eta = self.decision_function(X)
        return self._model().expected(eta)

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class.

        Parameters
        ----------
        X : as in ``decision_function``

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        chosen = self.predict_proba(X).argmax(axis=1)
        found: NDArray[Any] = self.classes_[chosen]
        return found


def estimators_of(plan: SessionPlan) -> tuple[type[Federated], type[Federated]]:
    """The estimator of a result, and that of one party's columns alone."""
    return FederatedOrdinalRegression, FederatedOrdinalRegression
