"""The effect of a treatment over records that several parties hold, by propensity weights."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from fedsvd.errors import ConfigError
from fedsvd.estimators.after_fit import data_frames
from fedsvd.estimators.base import Federated, one_of, projected
from fedsvd.estimators.models import FederatedModel
from fedsvd.estimators.parameters import documented
from fedsvd.estimators.robust_errors import RobustErrors
from fedsvd.estimators.stored import Found
from fedsvd.estimators.tables import parts_like_fitted
from fedsvd.protocol.families import EFFECTS, effect_on
from fedsvd.protocol.model import ModelPlan
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import LINKS, Estimand, Family, Robust, Task
from fedsvd.results.propensity_table import balance
from fedsvd.statistics.families import family_named
from fedsvd.statistics.propensity import Balance
from fedsvd.types import Float


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class FederatedPropensity(RobustErrors, FederatedModel):
    """The effect of a treatment by propensity weights, over records that stay with their parties.

    One study in three parts: a logistic regression of who was treated on all covariates; weights of every record, made
    at its party from the score of that model; a model of the outcome on the treatment alone, weighted, with robust
    errors. Effects and errors are those of R's ``glm`` or ``coxph`` with these weights and ``sandwich`` or ``cluster``.
    Scores and weights stay with their party. Errors take the score as known, which is conservative for ATE.

    Parameters
    ----------
    estimand : {"overlap", "ATE", "ATT"}, default="overlap"
        Whose effect: of those who might have been treated or not (weights 1 - e and e, which are bounded), of all
        (1 / e and 1 / (1 - e)), or of the treated (1 and e / (1 - e)).
    family : str, default=None
        Of the outcome: "gaussian", a difference of means, which None stands for; "binomial", an odds ratio; "poisson",
        a rate ratio. With events the outcome is a time, and the effect a hazard ratio within sites.
    link : {"logit", "probit"}, default="logit"
        Of the score.
    stabilised : bool, default=False
        Whether weights are multiplied with their group's share; it matters for hazard ratios.
    trim : {0.0, 0.01, 0.05, 0.1}, default=0.0
        Records whose score is nearer to 0 or 1 have no weight. A party that would leave out 1 to 4 of a group leaves
        out the five of its own that are nearest.
    {parameters}

    Attributes
    ----------
    coef_ : ndarray of shape (1,)
        The effect: a difference, or the logarithm of a ratio.
    inference_ : tuple of GLMInference or CoxInference
        Of length one: the weighted model of the outcome.
    balance_ : Balance
        Means and variances of covariates in both groups before and after weighting; ``balance_frame()`` is cobalt's
        table.
    ess_ : dict
        Effective sizes with weights, of "control" and "treated".
    propensity_coef_ : ndarray of shape (n_features + 1,)
        Of the score, an intercept first.
    n_iter_ : int
        How many iterations the second model took.
    target_name_, treatment_name_ : str
        The names of y and of the treatment where they have some.
    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> from fedsvd import FederatedPropensity
    >>> rng = np.random.default_rng(0)
    >>> tables = [rng.normal(size=(n, 2)) for n in (300, 500, 400)]
    >>> treated = [(rng.random(len(X)) < 1 / (1 + np.exp(-X[:, 0]))).astype(float) for X in tables]
    >>> outcome = [X[:, 0] + 0.5 * t + rng.normal(size=len(X)) for X, t in zip(tables, treated)]
    >>> effect = FederatedPropensity().fit(tables, outcome, treated)
    >>> effect.summary_frame().loc["treatment", ["coef", "se"]].round(2).tolist()
    [0.49, 0.08]
    """

    fit_intercept = True
    alpha = 0.0
    _task = Task.PROPENSITY

    estimand: str = field(default="overlap", kw_only=False)
    family: str | None = None
    link: str = "logit"
    stabilised: bool = False
    trim: float = 0.0

    def fit(self, X: Any, y: Any, treatment: Any, event: Any = None, groups: Any = None) -> Self:
        """Run the study.

        Parameters
        ----------
        X : list of one table per party, or one table of shape (n_samples, n_features)
            Covariates: NumPy arrays, memory maps, pandas or polars frames, SciPy sparse matrices, paths, MatrixSource.
        y : str, array-like of shape (n_samples,), or a list of one per party
            Outcomes. A text names a column of every table, which is then no covariate; so it does for all that follow.
        treatment : str, array-like of shape (n_samples,), or a list of one per party
            1 where a record was treated, 0 where not.
        event : likewise, default=None
            1 where the event was seen at the time y, 0 where follow-up ended.
        groups : array-like of shape (n_samples,), or a list of one per party, default=None
            To which cluster each row belongs, where no column is named by ``cluster``.

        Returns
        -------
        self
        """
        return self._fit(X, y, None, None, {"treatment": treatment, "event": event}, groups=groups)

    def _about(self, classes: int, beside: tuple[str, ...]) -> ModelPlan:
        one_of("estimand", self.estimand, tuple(Estimand))
        link = one_of("link", self.link, LINKS[Family.PROPENSITY])
        of_times = "event" in beside
        if of_times and self.family is not None:
            raise ConfigError("an outcome with events is a time, and has no family", "leave family or event out")
        effect = one_of("family", effect_on(self.family, of_times), tuple(EFFECTS))
        return ModelPlan(Family.PROPENSITY, link, effect=effect, beside=beside, **self._iterations())

    def _errors(self, clusters: bool) -> Robust | None:
        return super()._errors(clusters) or Robust.HC0  # weights need robust errors

    def _store(self, found: Found) -> None:
        super()._store(found)
        names = getattr(self, "feature_names_in_", None)
        self.balance_: Balance = balance(found.here)
        if names is not None:  # which a session does not have
            self.balance_ = replace(self.balance_, names=tuple(map(str, names)))
        self.ess_ = dict(zip(("control", "treated"), map(float, self.balance_.sizes[1]), strict=True))
        self.propensity_coef_: Float = np.array(found.fact("propensity_model")["coefficients"])
        columns = found.fact("columns") or found.known.get("columns") or {}
        self.treatment_name_ = str(columns.get("treatment", "treatment"))

    def _feature_names(self) -> Sequence[str]:
        """Of the model of the outcome."""
        return [self.treatment_name_]

    def balance_frame(self) -> Any:
        """The balance of the covariates as R's cobalt has it.

        Returns
        -------
        pandas.DataFrame
            A row for each covariate: ``Type, M.0.Un, M.1.Un, Diff.Un, V.Ratio.Un`` and the same with ``Adj``.
            Differences of numbers are in deviations before weighting; those of 0/1 columns are of their shares.
        """
        self._expect_fitted()
        return data_frames().DataFrame(self.balance_.columns()).set_index("covariate")

    def propensity(self, X: Any) -> Float:
        """The score of samples: the probability that they were treated; nothing is sent.

        Parameters
        ----------
        X : {samples}

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        self._expect_fitted()
        w, parts = self.propensity_coef_, parts_like_fitted(self, X)
        eta = np.concatenate([projected(part.source, w[1:, None]) for part in parts])[:, 0] + w[0]
        about = self.plan_.glm
        assert about is not None
        return family_named(str(about.family), about.link).evaluate(eta, np.zeros_like(eta)).mu


def estimators_of(plan: SessionPlan) -> tuple[type[Federated], type[Federated]]:
    """The estimator of a result, and that of one party's columns alone."""
    return FederatedPropensity, FederatedPropensity
