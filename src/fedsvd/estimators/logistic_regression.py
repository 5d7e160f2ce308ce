"""Logistic regression, of two classes or several, over samples that several parties hold."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import special
from sklearn.utils.validation import check_consistent_length

from fedsvd.errors import ConfigError
from fedsvd.estimators.base import one_of
from fedsvd.estimators.models import FederatedModel
from fedsvd.estimators.parameters import documented
from fedsvd.estimators.robust_errors import RobustErrors
from fedsvd.estimators.sklearn_types import ClassifierMixin
from fedsvd.estimators.stored import Found
from fedsvd.estimators.target import class_labels, target_in
from fedsvd.protocol.model import ModelPlan
from fedsvd.protocol.tasks import LINKS, Family, Split
from fedsvd.results.model_table import classes_of
from fedsvd.statistics.multinomial import MultinomialInference
from fedsvd.types import Float


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class FederatedLogisticRegression(ClassifierMixin, RobustErrors, FederatedModel):
    """Logistic regression over samples that stay with their parties.

    The result is the optimum that ``sklearn.linear_model.LogisticRegression`` approaches on the joint table, with
    standard errors and tests as ``statsmodels`` and R's ``glm`` give them. It is found by iteratively reweighted least
    squares. Between institutions the parties open a few digits of each step; with ``digits="all"``, as in one process,
    the joint weighted Gram matrix of every iteration. Split features are not possible, because the iterations would
    show a party its partners' columns.

    Parameters
    ----------
    alpha : float, default=0.0
        Strength of a ridge on the coefficients, scikit-learn's ``1 / C``; the intercept is not penalised. 0 for none.
        With a ridge there are no standard errors. Without one, classes that a combination of features separates have no
        finite coefficients (``Separated``).
    multi_class : {"multinomial", "ovr"}, default="multinomial"
        Three classes or more: one model of all, or one of each against the rest.
    link : {"logit", "probit"}, default="logit"
        Of two classes, or of each against the rest.
    fit_intercept : bool, default=True
        Whether the model has an intercept.
    max_iterations : int, default=50
        Beyond, the fit ends in ``NotConverged``.
    digits : str, default="auto"
        Digits of the sums that parties open: ``table``, ``more``, ``all``; ``auto`` is ``all`` in one process.
    quality : bool, default=False
        Whether the parties add up how well a model of two classes ranks and predicts all their records: ``quality_``.
    roc : int, default=0
        Whether they also count their cases and controls on a grid of the linear predictor: ``roc_``, the ROC curve,
        calibration and Hosmer-Lemeshow test of all records together. 5: each party rounds its own counts to multiples
        of five; 1: counts as they are; 0: no counts. Between institutions every owner is asked.
    thresholds : sequence of float, default=()
        Probabilities at which ``roc_`` has sensitivity and specificity.
    {parameters}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Of a multinomial model, those of all classes, which sum to 0.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    inference_ : tuple of GLMInference or MultinomialInference
        One model, or one for each class against the rest: covariance, deviance, AIC, ... A multinomial model has the
        first class as its reference.
    quality_ : Quality
        With ``quality``: ``auc`` by ``pairs`` of a case and a control of one party, ``auc_error``, ``brier``.
    roc_ : PooledROC
        With ``roc``: ``area``, ``sensitivity``, ``specificity``, ``at_thresholds``, ``calibration()``,
        ``hosmer_lemeshow()``; ``plot.roc()`` and ``plot.calibration()`` draw it.
    n_iter_ : int
        How many iterations it took.
    rank_ : int
        Of the features, beyond the intercept.
    target_name_ : str
        The name of y where it has one, else "y".
    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> from fedsvd import FederatedLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> tables = [rng.normal(size=(n, 2)) for n in (300, 500, 400)]
    >>> outcomes = [rng.random(len(X)) < 1 / (1 + np.exp(-X @ [1.0, -2.0])) for X in tables]
    >>> logistic = FederatedLogisticRegression().fit(tables, outcomes)
    >>> logistic.coef_.round(1).tolist()
    [[1.0, -1.9]]
    """

    alpha: float = field(default=0.0, kw_only=False)
    multi_class: str = "multinomial"
    link: str = "logit"
    fit_intercept: bool = True
    max_iterations: int = 50
    quality: bool = False
    roc: int = 0
    thresholds: Sequence[float] = ()
    _of_classes = True

    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None, groups: Any = None) -> Self:
        """Run the study.

        Parameters
        ----------
        X : list of one table per party, or one table of shape (n_samples, n_features)
            NumPy arrays, memory maps, pandas or polars frames, SciPy sparse matrices, paths, MatrixSource. One table is
            divided evenly among the parties of ``federation``.
        y : str, array-like of shape (n_samples,), or a list of one per party
            Classes, as numbers or texts; one text names a column of every table, which is then no feature.
        sample_weight : str, array-like of shape (n_samples,), or a list of one per party, default=None
            Prior weights, 0 or more; a text names a column of every table, which is then no feature.
        offset : str, array-like of shape (n_samples,), or a list of one per party, default=None
            What is added to the linear predictor of two classes.
        groups : array-like of shape (n_samples,), or a list of one per party, default=None
            To which cluster each row belongs, where no column is named by ``cluster``.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight, offset, groups=groups)

    def _store(self, found: Found) -> None:
        super()._store(found)
        # A folder has the classes as text; here they are as they were given.
        given = found.known.get("classes")
        self.classes_: NDArray[Any] = np.array(classes_of(found.here)) if given is None else given

    def decision_function(self, X: Any, offset: Any = None) -> Float:
        """The linear predictor of samples: the log-odds of each class, or of the second of two.

        Parameters
        ----------
        X : {samples}
        offset : as in ``fit``, default=None
            None takes the column of that name again where ``fit`` had one, and 0 where it had an array or none.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        self._expect_fitted()
        eta = self._linear(X, offset)
        return eta[:, 0] if eta.shape[1] == 1 else eta

    def predict_proba(self, X: Any, offset: Any = None) -> Float:
        """The probability of each class.

        Parameters
        ----------
        X : as in ``decision_function``
        offset : as in ``decision_function``

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Of models of each class against the rest, their probabilities divided by the sum.
        """
        eta = self.decision_function(X, offset)
        if isinstance(self.inference_[0], MultinomialInference):
            return np.asarray(special.softmax(eta, axis=1))
        distribution = special.ndtr if self.inference_[0].family.link_name == "probit" else special.expit
        if eta.ndim == 1:
            return np.column_stack((distribution(-eta), distribution(eta)))
        shares: Float = distribution(eta)
        shares /= shares.sum(axis=1, keepdims=True)
        return shares

    def predict_log_proba(self, X: Any, offset: Any = None) -> Float:
        """The logarithm of the probability of each class.

        Parameters
        ----------
        X : as in ``decision_function``
        offset : as in ``decision_function``

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return np.log(self.predict_proba(X, offset))

    def predict(self, X: Any, offset: Any = None) -> NDArray[Any]:
        """The most probable class.

        Parameters
        ----------
        X : as in ``decision_function``
        offset : as in ``decision_function``

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        eta = self.decision_function(X, offset)
        chosen = (eta > 0).astype(np.int64) if eta.ndim == 1 else np.argmax(eta, axis=1)
        found: NDArray[Any] = self.classes_[chosen]
        return found

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """The share of samples whose class is predicted.

        Parameters
        ----------
        X : as in ``decision_function``
        y : array-like of shape (n_samples,), a list of one per party, or the name of a column of X
        sample_weight : array-like of shape (n_samples,), default=None
        offset : as in ``fit``, default=None
            A model that was fitted with an array needs one here.

        Returns
        -------
        float
        """
        self._expect_fitted()
        self._expect_offset(offset)
        X, target = target_in(X, y, Split.HORIZONTAL, classes=True)
        labels, predicted = class_labels(target.values), self.predict(X, offset)
        check_consistent_length(labels, predicted, sample_weight)
        return float(np.average(labels == predicted, weights=sample_weight))

    def _about(self, classes: int, beside: tuple[str, ...]) -> ModelPlan:
        link = one_of("link", self.link, LINKS[Family.BINOMIAL])
        several = one_of("multi_class", self.multi_class, ("multinomial", "ovr"))
        family = Family.MULTINOMIAL if classes > 2 and several == "multinomial" else Family.BINOMIAL
        if family is Family.MULTINOMIAL and link != "logit":
            raise ConfigError(
                "several classes in one model have the link 'logit'", 'multi_class="ovr", or link="logit"'
            )
        return ModelPlan(family, link, classes=classes, **self._iterations())
