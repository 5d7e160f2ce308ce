"""Linear mixed models over records that several parties hold."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from fedsvd.errors import ConfigError
from fedsvd.estimators.base import Federated, one_of
from fedsvd.estimators.models import FederatedModel
from fedsvd.estimators.parameters import documented
from fedsvd.estimators.stored import store
from fedsvd.estimators.tables import Tables
from fedsvd.protocol.model import ModelPlan
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import LINKS, Criterion, Family, Task
from fedsvd.results.model_table import with_random_effects
from fedsvd.studies.parties import PartyData
from fedsvd.types import Float


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class FederatedMixedLM(FederatedModel):
    """A linear model with random effects of groups, each of which lies in one party.

    The result is that of lme4's ``lmer(y ~ ... + (1 | subject))``, or of ``(x + z | subject)``, on the joint table:
    effects to 1e-7 standard errors, the log-likelihood to 1e-9, degrees of freedom by Satterthwaite as lmerTest has
    them, to 1e-3, with more digits to 1e-6. What the parties open are sums of scores and information in a few digits;
    which rows a group has, and the predictions of its random effects, stay with its party.

    Parameters
    ----------
    criterion : {"reml", "ml"}, default="reml"
        The restricted likelihood, or the likelihood, by which models of different effects can be compared.
    correlated : bool, default=True
        Whether a random intercept and slopes of one group may be: ``(x | id)``, else ``(x || id)``.
    {parameters}

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Fixed effects.
    intercept_ : float
        The fixed intercept.
    inference_ : tuple of MixedInference
        Of length one: covariance, variances of random effects, degrees of freedom, log-likelihood, AIC, BIC, ...
    random_effects_ : ndarray of shape (n_samples, 1 + slopes)
        Of each row the predicted random effects of its group; between institutions those of own rows.
    random_errors_ : ndarray of shape (n_samples, 1 + slopes)
        Their standard deviations given the outcomes.
    n_iter_ : int
        How many iterations it took.
    target_name_ : str
        The name of y where it has one, else "y".
    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> from fedsvd import FederatedMixedLM
    >>> rng = np.random.default_rng(0)
    >>> tables = [rng.normal(size=(n, 1)) for n in (400, 300, 300)]
    >>> persons = [np.arange(len(X)) // 5 for X in tables]
    >>> own = [rng.normal(size=len(X))[p] for X, p in zip(tables, persons)]
    >>> y = [2.0 + 0.5 * X[:, 0] + u + 0.5 * rng.normal(size=len(X)) for X, u in zip(tables, own)]
    >>> mixed = FederatedMixedLM().fit(tables, y, persons)
    >>> mixed.summary_frame().round(2)[["coef", "se"]].values.tolist()
    [[1.94, 0.07], [0.46, 0.02]]
    """

    fit_intercept = True
    alpha = 0.0
    _task = Task.MIXED

    criterion: str = field(default="reml", kw_only=False)
    correlated: bool = True

    def fit(self, X: Any, y: Any = None, subject: Any = None, slope: Any = None, *, formula: str | None = None) -> Self:
        """Run the study.

        Parameters
        ----------
        X : list of one table per party, or one table of shape (n_samples, n_features)
            NumPy arrays, memory maps, pandas or polars frames, SciPy sparse matrices, paths, MatrixSource. One table is
            divided evenly among the parties of ``federation``; a group that lies in two parts is then two.
        y : str, array-like of shape (n_samples,), or a list of one per party
            Outcomes. A text names a column of every table, which is then no feature.
        subject : str, array-like of shape (n_samples,), or a list of one per party
            The group of each row, a person or a clinic. A text names a column of numbers or texts, which is then no
            feature.
        slope : str, list of str, array-like of shape (n_samples,), or a list of one per party, default=None
            What has a random slope: numbers. Columns that are named, one or several, stay among the features.
        formula : str, default=None
            In the place of y and all that follow it, for tables with names: ``"value ~ age + (visit | patient)"``;
            ``||`` has no correlation. Terms of fixed effects as ``fedsvd.prepared`` has them.

        Returns
        -------
        self
        """
        return self._fit(X, y, None, None, {"subject": subject, "slope": slope}, formula=formula)

    def _about(self, classes: int, beside: tuple[str, ...]) -> ModelPlan:
        if "subject" not in beside:
            raise ConfigError(
                "a mixed model needs subjects",
                "name the column of subjects, or give the group of each row: subject=...",
            )
        reml = one_of("criterion", self.criterion, tuple(Criterion)) == Criterion.REML
        settings: dict[str, Any] = {"beside": beside, "reml": reml, "correlated": bool(self.correlated)}
        return ModelPlan(Family.MIXED, LINKS[Family.MIXED][0], **settings, **self._iterations())

    def _model_study(self, tables: Tables, parties: Sequence[PartyData], about: ModelPlan, **said: Any) -> None:
        super()._model_study(tables, parties, about, **said)
        parts = []
        for part, party in zip(self._found.parts, parties, strict=True):
            assert party.labels is not None
            own = with_random_effects(part, party.table, self.inference_[0], party.labels)
            parts.append(part.adding(own.arrays, facts=own.facts))
        store(self, replace(self._found, parts=tuple(parts)))

    def predict(self, X: Any) -> Float:
        """Expected outcomes of samples by the fixed effects alone; nothing is sent.

        Parameters
        ----------
        X : {samples}

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        found: Float = self._linear(X)[:, 0]
        return found


def estimators_of(plan: SessionPlan) -> tuple[type[Federated], type[Federated]]:
    """The estimator of a result, and that of one party's columns alone."""
    return FederatedMixedLM, FederatedMixedLM
