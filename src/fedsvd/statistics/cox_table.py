"""A fitted Cox model: its tests, what a summary and broom say of it, and its record."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedsvd.statistics.distributions import chi2_tail
from fedsvd.statistics.glm import Fact, GLMInference
from fedsvd.statistics.undefined import is_array, is_number


@dataclass(frozen=True, repr=False)
class CoxInference(GLMInference):
    """A fitted model; ``deviance`` is -2 log partial likelihood, which R's ``loglik`` is -1/2 of."""

    ties: str = "efron"
    events: int = 0
    concordance: float = math.nan  # within sites; NaN where no pair is comparable
    score_statistic: float = math.nan  # of all effects at zero; NaN with a penalty

    @property
    def score(self) -> tuple[float, float]:
        """The score test of all effects together, of one factor the log-rank test within sites; NaN without one."""
        value = self.score_statistic if is_number(self.log_likelihood) else math.nan
        return value, chi2_tail(value, self.rank)

    @property
    def likelihood_ratio(self) -> tuple[float, float]:
        """Twice what the features add to the log-likelihood, and the probability of more without any effect; NaN where
        there is no likelihood."""
        ratio = max(self.null_deviance - self.deviance, 0.0) if is_number(self.log_likelihood) else math.nan
        return ratio, chi2_tail(ratio, self.rank)

    @property
    def wald(self) -> tuple[float, float]:
        """The test of all effects together by their covariance; NaN without one."""
        if not is_array(self.covariance):
            return math.nan, math.nan
        found = float(self.coefficients @ np.linalg.solve(self.covariance, self.coefficients))
        return found, chi2_tail(found, self.rank)

    title: ClassVar[str] = "Cox regression, stratified by site"
    ratio: ClassVar[str] = "hazard ratio"
    prints_ratios: ClassVar[bool] = True
    naive_first: ClassVar[bool] = True
    says_tests: ClassVar[bool] = True
    expects: ClassVar[str] = "a Cox model has hazard ratios, and no expected outcome"

    def said(self) -> dict[str, Fact]:
        named = {"likelihood ratio": self.likelihood_ratio, "Wald": self.wald, "score": self.score}
        tests: dict[str, Fact] = {
            f"{name}, df {self.rank}": value
            if math.isnan(value)
            else f"{value:.{4 if name == 'score' else 6}g} (p {p:.3g})"
            for name, (value, p) in named.items()
        }
        return {
            "ties": self.ties,
            "rows": self.n,
            "events": self.events,
            "iterations": self.iterations,
            "log-likelihood": self.log_likelihood,
            "without features": -0.5 * self.null_deviance,
            **tests,
            "concordance": self.concordance,
        }

    def cautions(self) -> tuple[str, ...]:
        if not is_number(self.log_likelihood):
            return ("with a penalty there is no likelihood, so tests of all effects, AIC and BIC are not defined",)
        if not self.errors.robust:
            return ()
        return ("the likelihood ratio and score tests assume independent records, the Wald test does not",)  # as R says

    def in_words(self, name: str) -> str:
        return (
            f"{name}: {self.events} events of {self.n} records, {self.iterations} iterations. Records are "
            "compared with those of their own site: hazard ratios are within sites, and each site has a baseline "
            "hazard of its own, which stays there."
        )

    def glance(self) -> dict[str, float]:
        found: dict[str, float] = {"n": self.n, "nevent": self.events}
        tests = {"log": self.likelihood_ratio, "sc": self.score, "wald": self.wald}
        for name, (value, p) in tests.items():
            found |= {f"statistic.{name}": value, f"p.value.{name}": p}
        return found | {"concordance": self.concordance}

    def glance_last(self) -> dict[str, float]:
        return {"nobs": self.events}

    def more(self) -> dict[str, Any]:
        pairs = self.concordance if math.isfinite(self.concordance) else None
        score = self.score_statistic if math.isfinite(self.score_statistic) else None
        return {"ties": self.ties, "events": self.events, "concordance": pairs, "score_statistic": score}

    @classmethod
    def own_fields(cls, said: Mapping[str, Any]) -> dict[str, Any]:
        pairs = math.nan if said["concordance"] is None else float(said["concordance"])
        score = said.get("score_statistic")
        own = {"concordance": pairs, "score_statistic": math.nan if score is None else float(score)}
        return {"ties": said["ties"], "events": said["events"], **own}

    def __repr__(self) -> str:
        return f"CoxInference({self.ties}, coefficients={len(self.coefficients)}, events={self.events})"


def of_inference(
    table: GLMInference, ties: str, events: int, concordance: float, score: float = math.nan
) -> CoxInference:
    """The same table with R's numbers of a Cox model: of events, by which BIC and the degrees of freedom count."""
    own: dict[str, Any] = {"ties": ties, "events": events, "concordance": concordance, "score_statistic": score}
    if isinstance(table.log_likelihood, float):
        own["bic"] = -2.0 * table.log_likelihood + math.log(events) * table.rank
    return CoxInference.of(table, df_residual=events - table.rank, df_null=events, **own)
