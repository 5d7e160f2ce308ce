"""Cox regression over records that several parties hold."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from fedsvd.errors import ConfigError
from fedsvd.estimators.after_fit import data_frames
from fedsvd.estimators.base import Federated, one_of
from fedsvd.estimators.models import FederatedModel
from fedsvd.estimators.parameters import documented
from fedsvd.estimators.robust_errors import RobustErrors
from fedsvd.estimators.tables import Tables
from fedsvd.protocol.model import ModelPlan
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import LINKS, Baseline, Clock, Family, Task, Ties
from fedsvd.statistics.fives import LEAST_COUNT, even_edges
from fedsvd.statistics.piecewise import survival
from fedsvd.statistics.schoenfeld import Schoenfeld
from fedsvd.studies.parties import PartyData
from fedsvd.studies.study import Study
from fedsvd.types import Float


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class FederatedCox(RobustErrors, FederatedModel):
    """Cox's proportional hazards, stratified by site, over records that stay with their parties.

    The result is that of R's ``coxph(Surv(time, event) ~ ... + strata(site))`` on the joint table: effects to 1e-10
    standard errors, standard errors to 1e-7 in one process and to 1e-5 between institutions. A record is compared with
    records of its own site alone; what the parties open are sums of scores and information in a few digits. No time,
    risk set or count of a site leaves it. A column that is constant inside every site has no effect here.

    Parameters
    ----------
    ties : {"efron", "breslow"}, default="efron"
        How events at one time share a risk set.
    alpha : float, default=0.0
        Strength of a ridge, ``alpha ||w||^2 / 2`` next to minus the log-likelihood. With a ridge there are no standard
        errors.
    schoenfeld : {"none", "km", "rank", "identity", "log"}, default="none"
        The clock of the test of proportional hazards (``zph``): R's ``cox.zph`` with strata by site. "km" and "rank"
        are of each site's own records. It opens about half as many bits as the fit.
    baseline : {"site", "common", "bins"}, default="site"
        "common": there is also a baseline hazard of all parties together, level between ``times``; between institutions
        every owner is asked. "bins": it takes the place of those of sites, and records of all sites are compared:
        grouped proportional hazards (``glm`` with link cloglog), with ``ties="breslow"`` R's ``coxph(Surv(bin, event),
        ties = "breslow")``. A column that is constant inside every site has an effect then. Exact numbers of events and
        records of each bin are opened.
    times : sequence of float, default=()
        Of a baseline of all parties; of a common one about 40 even ones are made in one process where none are given.
    least_count : int, default=5
        What counts of events of a common baseline are multiples of.
    {parameters}

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Logarithms of hazard ratios.
    inference_ : tuple of CoxInference
        Of length one: covariance, deviance (-2 log partial likelihood), events, AIC, BIC, ...
    schoenfeld_ : ndarray of shape (n_features, 1 + n_features)
        With ``schoenfeld``: the score of effects that change with time, and its variance; ``zph()`` has the tests.
    common_hazard_ : ndarray of shape (n_times, 4)
        With ``baseline="common"``: times, events and exposure since the time before, the cumulative hazard of a sample
        of zeros. With "bins" the exposure is the number of records at risk.
    n_iter_ : int
        How many iterations it took.
    target_name_ : str
        The name of y where it has one, else "y".
    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> from fedsvd import FederatedCox
    >>> rng = np.random.default_rng(0)
    >>> tables = [rng.normal(size=(n, 2)) for n in (300, 500, 400)]
    >>> times = [rng.exponential(np.exp(-(X @ [0.5, -0.3]))) for X in tables]
    >>> seen = [(t < 2.0).astype(float) for t in times]
    >>> cox = FederatedCox().fit(tables, [np.minimum(t, 2.0) for t in times], seen)
    >>> cox.summary_frame().round(2)[["coef", "se"]].values.tolist()
    [[0.5, 0.04], [-0.26, 0.03]]
    """

    fit_intercept = False
    intercept_ = 0.0
    _task = Task.COX

    ties: str = field(default="efron", kw_only=False)
    alpha: float = 0.0
    schoenfeld: str = Clock.NONE
    baseline: str = Baseline.SITE
    times: Sequence[float] = ()
    least_count: int = LEAST_COUNT

    def fit(
        self,
        X: Any,
        y: Any = None,
        event: Any = None,
        entry: Any = None,
        strata: Any = None,
        sample_weight: Any = None,
        offset: Any = None,
        groups: Any = None,
        *,
        formula: str | None = None,
    ) -> Self:
        """Run the study.

        Parameters
        ----------
        X : list of one table per party, or one table of shape (n_samples, n_features)
            NumPy arrays, memory maps, pandas or polars frames, SciPy sparse matrices, paths, MatrixSource. One table is
            divided evenly among the parties of ``federation``, each of which is then a stratum.
        y : str, array-like of shape (n_samples,), or a list of one per party
            Times at which records left: by the event, or because follow-up ended. A text names a column of every table,
            which is then no feature; so it does for all that follow.
        event : str, array-like of shape (n_samples,), or a list of one per party
            1 where the event was seen at that time, 0 where follow-up ended.
        entry : likewise, default=None
            Times after which records were at risk; from the beginning where left out.
        strata : likewise, default=None
            Records are compared with those of their own site and the same value alone.
        sample_weight : likewise, default=None
            Weights, 0 or more, as R's ``weights``.
        offset : likewise, default=None
            What is added to the linear predictor.
        groups : array-like of shape (n_samples,), or a list of one per party, default=None
            To which cluster each row belongs, where no column is named by ``cluster``.
        formula : str, default=None
            In the place of y and all that follow it, for tables with names: ``"Surv(time, event) ~ age + C(sex) +
            strata(clinic)"``; ``Surv(start, stop, event)``, ``cluster(ward)``, ``offset(x)``. Terms as
            ``fedsvd.prepared`` has them.

        Returns
        -------
        self
        """
        beside = {"event": event, "entry": entry, "strata": strata}
        return self._fit(X, y, sample_weight, offset, beside, groups=groups, formula=formula)

    def _about(self, classes: int, beside: tuple[str, ...]) -> ModelPlan:
        if "event" not in beside:
            raise ConfigError("a Cox model needs events", "give 1 where the event was seen, 0 where follow-up ended")
        ties = one_of("ties", self.ties, tuple(Ties))
        bins = len(self.times) if self.baseline == Baseline.BINS else 0
        if self.baseline == Baseline.BINS and not bins:
            raise ConfigError("a baseline of all parties in bins needs their times", "times=[12, 24, 36], say")
        link = LINKS[Family.COX][int(bins > 0 and ties != Ties.BRESLOW)]
        return ModelPlan(Family.COX, link, ties=ties, bins=bins, beside=beside, **self._iterations())

    def _model_study(self, tables: Tables, parties: Sequence[PartyData], about: ModelPlan, **said: Any) -> None:
        self._even: tuple[float, ...] = ()
        if self.baseline == Baseline.COMMON and not len(self.times):
            self._even = even_edges(max(float(own.labels[:, 0].max()) for own in parties if own.labels is not None))
        super()._model_study(tables, parties, about, **said)

    def _study(self, task: Task, tables: Tables | None = None, **asked: Any) -> Study:
        study = super()._study(task, tables, **asked)
        made = (("times", json.dumps(list(self._even))),) if self._even else ()
        return replace(study, options=tuple({**dict(study.options), **dict(made)}.items()))

    def zph(self, terms: bool = True) -> Any:
        """The test of proportional hazards, as R's ``cox.zph`` prints it; of a fit with ``schoenfeld``.

        Parameters
        ----------
        terms : bool, default=True
            One test for all coefficients of a factor or spline, or one for each.

        Returns
        -------
        pandas.DataFrame
            ``chisq, df, p`` of each term, and ``GLOBAL``.
        """
        self._expect_fitted()
        if not hasattr(self, "schoenfeld_"):
            raise ConfigError("this fit has no test of proportional hazards", 'FederatedCox(schoenfeld="km")')
        names = list(self._feature_names())
        groups = self._terms() if terms else {name: [place] for place, name in enumerate(names)}
        tests = Schoenfeld(self.schoenfeld_[:, 0], self.schoenfeld_[:, 1:]).tests(groups)
        cells = {"chisq": [test.chisq for test in tests], "df": [test.df for test in tests]}
        cells["p"] = [test.p for test in tests]
        return data_frames().DataFrame(cells, index=[test.name for test in tests])

    def predict(
        self, X: Any, offset: Any = None, *, kind: str = "lp", times: Any = None, party: Any = 1, stratum: int = 0
    ) -> Float:
        """Linear predictors, risks or survival of samples; nothing is sent.

        Parameters
        ----------
        X : {samples}
        offset : as in ``fit``, default=None
            None takes the column of that name again where ``fit`` had one, and 0 where it had an array or none.
        kind : {"lp", "risk", "survival"}, default="lp"
            The logarithm of the hazard relative to a sample of zeros, that ratio itself, or the probability of no event
            up to each of ``times`` by the baseline hazard of one party, which each party has of its own records alone,
            or by the common one.
        times : array-like, default=None
            Of "survival"; None for all event times of the party, or of the common baseline.
        party : int or "all", default=1
            Whose baseline "survival" takes, among the parties that are here; a party's folder has its own. "all" is the
            common one of a fit with ``baseline="common"``; beyond its last time survival is NaN.
        stratum : int, default=0
            Which of its strata, counted from 0, where the model has some.

        Returns
        -------
        ndarray of shape (n_samples,), or (n_samples, n_times) for "survival"
        """
        found: Float = self._linear(X, offset)[:, 0]
        if one_of("kind", kind, ("lp", "risk", "survival")) == "lp":
            return found
        if kind == "risk":
            return np.exp(found)
        if party == "all":
            joint = self._common()
            return survival(joint, joint[:, 0] if times is None else np.asarray(times, np.float64), np.exp(found))
        own = self.baseline_hazard(party, stratum)
        wanted = own[:, 0] if times is None else np.asarray(times, dtype=np.float64)
        lived = np.concatenate(([0.0], own[:, 1]))[np.searchsorted(own[:, 0], wanted, side="right")]
        alive: Float = np.exp(-np.exp(found)[:, None] * lived)
        return alive

    def _common(self) -> Float:
        self._expect_fitted()
        if not hasattr(self, "common_hazard_"):
            raise ConfigError("this fit has no common baseline hazard", 'FederatedCox(baseline="common"), or "bins"')
        return np.asarray(self.common_hazard_)

    def baseline_hazard(self, party: Any = 1, stratum: int = 0) -> Float:
        """The cumulative hazard of a sample of zeros at one party: R's ``basehaz(centered = FALSE)``.

        Parameters
        ----------
        party : int or "all", default=1
            Which of the parties whose results are here: of a study in this process any, of a party's folder its own;
            "all" is the common baseline, which is straight between its times.
        stratum : int, default=0
            Which of its strata, counted from 0.

        Returns
        -------
        ndarray of shape (n_event_times, 2)
            Times and hazards.
        """
        if party == "all":
            return self._common()[:, [0, 3]]
        self._expect_fitted()
        here = {part.index: part.arrays["baseline"] for part in self._found.parts if "baseline" in part.arrays}
        if party not in here:
            own = ", ".join(str(index) for index in here) or "none"
            raise ConfigError(f"the baseline of party {party} is not here", f"those that are: {own}; each has its own")
        rows: Float = here[party][here[party][:, 0] == stratum]
        return rows[:, 1:]


def estimators_of(plan: SessionPlan) -> tuple[type[Federated], type[Federated]]:
    """The estimator of a result, and that of one party's columns alone."""
    return FederatedCox, FederatedCox
