"""Generalised linear models over samples that several parties hold."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_consistent_length

from fedsvd.errors import ConfigError, DataError
from fedsvd.estimators.base import Federated, one_of
from fedsvd.estimators.models import FederatedModel
from fedsvd.estimators.parameters import documented
from fedsvd.estimators.robust_errors import RobustErrors
from fedsvd.estimators.rows import joint_labels
from fedsvd.estimators.sklearn_types import RegressorMixin
from fedsvd.estimators.target import target_in
from fedsvd.protocol.model import ModelPlan
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import FAMILIES, LINKS, Family, Split
from fedsvd.statistics.families import Family as Distribution
from fedsvd.statistics.families import best_constant, family_named
from fedsvd.types import Float


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class FederatedGLM(RegressorMixin, RobustErrors, FederatedModel):
    """A generalised linear model over samples that stay with their parties.

    The result is that of ``statsmodels.api.GLM`` or of R's ``glm`` on the joint table, to rounding: coefficients,
    standard errors, Wald tests, deviance, AIC. Where the two differ: tests of gaussian and gamma models, whose scale is
    estimated, are those of Student's t (R's, and statsmodels' with ``use_t=True``); the likelihood of shares that have
    trials as weights has the binomial coefficient (R's); the scale is no parameter that AIC and BIC count
    (statsmodels'; R's AIC of a gaussian model is larger by 2). It is found by iteratively reweighted least squares.
    Between institutions the parties open a few digits of each step; with ``digits="all"``, as in one process, the joint
    weighted Gram matrix of every iteration. Split features are not possible, because the iterations would show a party
    its partners' columns.

    Parameters
    ----------
    family : str, default="gaussian"
        The distribution of the target: "gaussian", "binomial", "poisson", "gamma", "negative-binomial",
        "quasibinomial", "quasipoisson". A binomial target is 0 or 1, or a share with the number of trials as weight;
        for labels of classes there is ``FederatedLogisticRegression``. Of a negative binomial model theta is found
        with the coefficients, and is in ``inference_``: R's ``glm.nb``. A quasi family has errors times the root of
        Pearson's sum over its degrees of freedom, Student's t, and no likelihood: R's.
    link : str, default=None
        None for the family's usual link: identity, logit, log, log. A binomial family also has "probit".
    alpha : float, default=0.0
        Strength of a ridge, ``alpha ||w||^2 / 2`` next to minus the log-likelihood; the intercept is not penalised.
        With a ridge there are no standard errors.
    fit_intercept : bool, default=True
        Whether the model has an intercept.
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
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
        0.0 without an intercept.
    inference_ : tuple of GLMInference
        Of length one: covariance, deviance, null deviance, AIC, BIC, scale, ...
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
    >>> from fedsvd import FederatedGLM
    >>> rng = np.random.default_rng(0)
    >>> tables = [rng.normal(size=(n, 2)) for n in (300, 500, 400)]
    >>> counts = [rng.poisson(np.exp(0.5 + X @ [0.3, -0.2])) for X in tables]
    >>> glm = FederatedGLM("poisson").fit(tables, counts)
    >>> glm.summary_frame().round(2)[["coef", "se"]].values.tolist()
    [[0.5, 0.02], [0.3, 0.02], [-0.19, 0.02]]
    """

    family: str = field(default="gaussian", kw_only=False)
    link: str | None = None
    alpha: float = 0.0
    fit_intercept: bool = True
    quality: bool = False
    roc: int = 0
    thresholds: Sequence[float] = ()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self.family in ("poisson", "quasipoisson", "gamma")
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None, groups: Any = None) -> Self:
        """Run the study.

        Parameters
        ----------
        X : list of one table per party, or one table of shape (n_samples, n_features)
            NumPy arrays, memory maps, pandas or polars frames, SciPy sparse matrices, paths, MatrixSource. One table is
            divided evenly among the parties of ``federation``.
        y : str, array-like of shape (n_samples,), or a list of one per party
            A text names a column of every table, which is then no feature.
        sample_weight : str, array-like of shape (n_samples,), or a list of one per party, default=None
            Prior weights, 0 or more (R's ``weights``, statsmodels' ``var_weights``); a text names a column of every
            table, which is then no feature.
        offset : str, array-like of shape (n_samples,), or a list of one per party, default=None
            What is added to the linear predictor: the logarithm of the exposure, say.
        groups : array-like of shape (n_samples,), or a list of one per party, default=None
            To which cluster each row belongs, where no column is named by ``cluster``.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight, offset, groups=groups)

    def predict(self, X: Any, offset: Any = None) -> Float:
        """The expected target of samples; nothing is sent.

        Parameters
        ----------
        X : {samples}
        offset : as in ``fit``, default=None
            None takes the column of that name again where ``fit`` had one, and 0 where it had an array or none.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        self._expect_fitted()
        eta = self._linear(X, offset)[:, 0]
        return self._distribution().evaluate(eta, np.ones_like(eta)).mu

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """The share of the deviance that ``predict(X)`` explains; R^2 for the gaussian family.

        What is left is compared with the best constant, which is next to the offset where there is one.

        Parameters
        ----------
        X : as in ``predict``
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
        X, target = target_in(X, y, Split.HORIZONTAL)
        rows = self._rows(X, offset)
        y = joint_labels(target.values, rows.counts).reshape(-1)
        weights = np.ones_like(y) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        check_consistent_length(y, weights)
        family = self._distribution()
        family.expect(y)
        try:
            constant = best_constant(family, y, weights, rows.shift)
        except ValueError:
            raise DataError("all targets are 0, so there is nothing to explain", "check the label column") from None
        null = float(weights @ family.evaluate(constant + rows.shift, y).deviance)
        own = float(weights @ family.evaluate(rows.eta[:, 0] + rows.shift, y).deviance)
        return 1.0 - own / null if null > 0.0 else float(own <= 0.0)

    def _about(self, classes: int, beside: tuple[str, ...]) -> ModelPlan:
        return ModelPlan(*self._family(), **self._iterations())

    def _distribution(self) -> Distribution:
        return family_named(*map(str, self._family()))

    def _family(self) -> tuple[Family, str]:
        allowed = tuple(str(family) for family in FAMILIES if family is not Family.MULTINOMIAL)
        family = Family(one_of("family", self.family, allowed))
        link = LINKS[family][0] if self.link is None else self.link
        if link not in LINKS[family]:
            raise ConfigError(f"link is {link!r}", f"one of {', '.join(LINKS[family])} for family {str(family)!r}")
        return family, link


def estimators_of(plan: SessionPlan) -> tuple[type[Federated], type[Federated]]:
    """The estimator of a result, and that of one party's columns alone."""
    # Imported here: it is another estimator of the same models.
    from fedsvd.estimators.logistic_regression import FederatedLogisticRegression

    if plan.glm is not None and plan.glm.classes:
        return FederatedLogisticRegression, FederatedLogisticRegression
    return FederatedGLM, FederatedGLM
