"""A fitted linear mixed model: effects with Satterthwaite's degrees of freedom, and the spread of random effects."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from fedsvd.statistics.glm import Fact, GLMInference
from fedsvd.types import Float


@dataclass(frozen=True, repr=False)
class MixedInference(GLMInference):
    """A fitted mixed model: ``deviance`` is -2 log likelihood or REML's criterion, ``scale`` the residual variance."""

    clusters: int = 0
    random: Float = field(default_factory=lambda: np.zeros((0, 0)))  # G, an intercept first, in the units of the data
    degrees: Float = field(default_factory=lambda: np.zeros(0))  # of freedom, by Satterthwaite
    reml: bool = True
    slope: bool = False
    correlated: bool = True

    says_tests: ClassVar[bool] = True  # each effect has degrees of freedom of its own
    title: ClassVar[str] = "Linear mixed model"
    ratio: ClassVar[str] = ""

    @property
    def freedom(self) -> Float:
        """Of Student's t, for each effect."""
        return self.degrees

    @property
    def singular(self) -> bool:
        """Whether the random intercept has no variance: the fit is least squares."""
        return not self.random.any()

    @property
    def intraclass(self) -> float:
        """The share of a random intercept in the variance of an outcome; NaN with random slopes."""
        between, within = float(self.random[0, 0]), float(np.asarray(self.scale))
        return between / (between + within) if not self.slope else math.nan

    def components(self) -> dict[str, float]:
        """Standard deviations and correlation of the random effects, and of the residuals, under broom's names."""
        deviations = np.sqrt(np.maximum(self.random.diagonal(), 0.0)).tolist()
        names = ("(Intercept)", "slope")
        found = {f"sd__{name}": value for name, value in zip(names, deviations, strict=False)}
        if self.slope and self.correlated and min(deviations) > 0.0:
            found["cor__(Intercept).slope"] = float(self.random[1, 0] / math.prod(deviations))
        return found | {"sd__Observation": math.sqrt(float(np.asarray(self.scale)))}

    def said(self) -> dict[str, Fact]:
        found: dict[str, Fact] = {"criterion": "REML" if self.reml else "ML", "rows": self.n, "clusters": self.clusters}
        found |= {"iterations": self.iterations}
        names = {"sd__(Intercept)": "sd of random intercepts", "sd__slope": "sd of random slopes"}
        names |= {"cor__(Intercept).slope": "their correlation", "sd__Observation": "sd of residuals"}
        found |= {names[name]: value for name, value in self.components().items()}
        if not self.slope:
            found["intraclass correlation"] = self.intraclass
        if self.singular:
            found["singular fit"] = "the random intercept has no variance: this is least squares"
        return (
            found
            | {"REML criterion" if self.reml else "-2 log-likelihood": self.deviance}
            | {"log-likelihood": self.log_likelihood}
        )

    def in_words(self, name: str) -> str:
        end = " The variance of the random intercept is zero (a singular fit)." if self.singular else ""
        return (
            f"{name}: {self.n} rows in {self.clusters} clusters, by {'REML' if self.reml else 'maximum likelihood'}, "
            f"{self.iterations} iterations. Each cluster lies in one site; predictions of its random effects stay "
            f"there.{end}"
        )

    def glance(self) -> dict[str, float]:
        return {"nobs": self.n, "sigma": math.sqrt(float(np.asarray(self.scale)))}

    def glance_last(self) -> dict[str, float]:
        return {"REMLcrit" if self.reml else "deviance": self.deviance, "df.residual": self.df_residual}

    @classmethod
    def freedom_from(cls, said: Mapping[str, Any]) -> Float:
        return np.array(said["degrees"])

    def more(self) -> dict[str, Any]:
        found: dict[str, Any] = {"clusters": self.clusters, "random": self.random.tolist(), "reml": self.reml}
        found |= {"degrees": self.degrees.tolist(), "slope": self.slope, "correlated": self.correlated}
        return found

    @classmethod
    def own_fields(cls, said: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {name: said[name] for name in ("clusters", "reml", "correlated", "slope")}
        return found | {"random": np.array(said["random"]), "degrees": np.array(said["degrees"])}

    def __repr__(self) -> str:
        return f"MixedInference(coefficients={len(self.coefficients)}, clusters={self.clusters})"
