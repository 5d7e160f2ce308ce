"""A fitted linear mixed model: effects with Satterthwaite's degrees of freedom, and the spread of random effects."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from fedsvd.errors import ConfigError
from fedsvd.statistics.glm import Fact, GLMInference
from fedsvd.statistics.undefined import is_array
from fedsvd.types import Float


@dataclass(frozen=True, repr=False)
class MixedInference(GLMInference):
    """A fitted mixed model: ``deviance`` is -2 log likelihood or REML's criterion, ``scale`` the residual variance."""

    clusters: int = 0
    random: Float = field(default_factory=lambda: np.zeros((0, 0)))  # G, an intercept first, in the units of the data
    degrees: Float = field(default_factory=lambda: np.zeros(0))  # of freedom, by Satterthwaite
    moves: Float = field(default_factory=lambda: np.zeros((0, 0, 0)))  # of the covariance, with variances; by REML
    reml: bool = True
    correlated: bool = True
    singular: bool = False  # G is at the boundary of the covariances: some combination of effects has no variance
    fixed: float = 0.0  # variance of the fixed part of the outcomes, over all rows
    mean_random: float = 0.0  # variance of the random part of an outcome, the mean over all rows
    slopes: tuple[str, ...] = ()  # names of the columns that have random slopes
    subject: str = ""  # and of the column of groups

    says_tests: ClassVar[bool] = True  # each effect has degrees of freedom of its own
    title: ClassVar[str] = "Linear mixed model"
    ratio: ClassVar[str] = ""

    @property
    def freedom(self) -> Float:
        """Of Student's t, for each effect."""
        return self.degrees

    def freedom_of(self, L: Float) -> Float:
        """Satterthwaite's of each combination ``L w``; without slopes of the covariance the least of its effects."""
        if not len(self.moves):
            found: Float = np.where(L != 0.0, self.degrees, np.inf).min(axis=1)
            return found
        assert is_array(self.covariance)
        errors = np.einsum("ri,ij,rj->r", L, self.covariance, L)
        moved = np.einsum("ri,uij,rj->ur", L, self.moves, L)
        return np.asarray(2.0 * np.square(errors) / np.square(moved).sum(axis=0))

    def freedom_together(self, L: Float) -> float:
        """Of the F test of ``L w = 0``, by Fai and Cornelius as lmerTest has it: of independent combinations that span
        the same, each a squared t, F has the mean that it would have with this denominator."""
        if not len(self.moves):
            return float(self.freedom_of(L).min())
        assert is_array(self.covariance)
        values, vectors = np.linalg.eigh(L @ self.covariance @ L.T)
        each = self.freedom_of(vectors[:, values > _FEW * values[-1]].T @ L)
        if np.ptp(each) <= _FEW * each[0]:
            return float(each.mean())
        if each.min() <= 2.0:  # a squared t has no mean
            return 2.0
        mean = float((each / (each - 2.0)).sum())
        return 2.0 * mean / (mean - len(each))

    @property
    def compared(self) -> float:
        if self.reml:
            raise ConfigError(
                "restricted likelihoods of models with other fixed effects do not compare", 'fit both by criterion="ml"'
            )
        return self.deviance

    @property
    def by_scale(self) -> bool:
        return False

    def same_family(self, other: GLMInference) -> bool:
        """The random part too: a test of fixed effects has it the same in both."""
        if not isinstance(other, MixedInference):
            return False
        return (self.random.shape, self.correlated) == (other.random.shape, other.correlated)

    @property
    def intraclass(self) -> float:
        """The share of the random part in what the fixed one leaves of an outcome's variance, at a mean row."""
        return self.mean_random / (self.mean_random + float(np.asarray(self.scale)))

    @property
    def r_squared(self) -> tuple[float, float]:
        """Nakagawa's: the share of the fixed part in an outcome's variance (marginal), with the random one too."""
        total = self.fixed + self.mean_random + float(np.asarray(self.scale))
        return self.fixed / total, (self.fixed + self.mean_random) / total

    @property
    def random_names(self) -> tuple[str, ...]:
        """Names of the random effects."""
        known = self.slopes if len(self.slopes) == len(self.random) - 1 else _numbered(len(self.random) - 1)
        return ("(Intercept)", *known)

    def of_columns(self, columns: Mapping[str, Any]) -> Self:
        slopes = columns.get("slope", self.slopes)
        slopes = (slopes,) if isinstance(slopes, str) else tuple(slopes)
        return replace(self, slopes=slopes, subject=str(columns.get("subject", self.subject)))

    def components(self) -> dict[str, float]:
        """Standard deviations and correlations of the random effects, and of the residuals, under broom's names."""
        deviations, names = np.sqrt(np.maximum(self.random.diagonal(), 0.0)).tolist(), self.random_names
        found = {}
        for j, name in enumerate(names):
            found[f"sd__{name}"] = deviations[j]
            for i in range(j if self.correlated else 0):
                both = deviations[i] * deviations[j]
                found[f"cor__{names[i]}.{name}"] = float(self.random[i, j]) / both if both > 0.0 else math.nan
        return found | {"sd__Observation": math.sqrt(float(np.asarray(self.scale)))}

    def said(self) -> dict[str, Fact]:
        found: dict[str, Fact] = {"criterion": "REML" if self.reml else "ML", "rows": self.n, "clusters": self.clusters}
        found |= {"iterations": self.iterations}
        found |= {_in_words(name): value for name, value in self.components().items()}
        found |= {"intraclass correlation": self.intraclass}
        found |= {f"R2, {kind}": value for kind, value in zip(("marginal", "conditional"), self.r_squared, strict=True)}
        if self.singular:
            found["singular fit"] = self._singular_words
        return (
            found
            | {"REML criterion" if self.reml else "-2 log-likelihood": self.deviance}
            | {"log-likelihood": self.log_likelihood}
        )

    @property
    def _singular_words(self) -> str:
        if not self.random.any():
            return "the random effects have no variance: this is least squares"
        return "the covariance of the random effects is at its boundary: these rows do not need all of them"

    def in_words(self, name: str) -> str:
        end = f" A singular fit: {self._singular_words}." if self.singular else ""
        return (
            f"{name}: {self.n} rows in {self.clusters} clusters, by {'REML' if self.reml else 'maximum likelihood'}, "
            f"{self.iterations} iterations. Each cluster lies in one site; predictions of its random effects stay "
            f"there.{end}"
        )

    def tidied(self, table: dict[str, list[Any]]) -> dict[str, list[Any]]:
        """broom.mixed's: fixed effects, then standard deviations and correlations of random ones."""
        parts, fixed = self.components(), len(table["term"])
        of = ["Residual" if name == "sd__Observation" else self.subject or "subject" for name in parts]
        found: dict[str, list[Any]] = {"effect": ["fixed"] * fixed + ["ran_pars"] * len(parts)}
        found |= {"group": [None] * fixed + of}
        order = ("term", "estimate", "std.error", "statistic", "df", "p.value", "conf.low", "conf.high")
        own: dict[str, list[Any]] = {"term": list(parts), "estimate": list(parts.values())}
        return found | {name: table[name] + own.get(name, [math.nan] * len(parts)) for name in order}

    def glance(self) -> dict[str, float]:
        return {"nobs": self.n, "sigma": math.sqrt(float(np.asarray(self.scale)))}

    def glance_last(self) -> dict[str, float]:
        return {"REMLcrit" if self.reml else "deviance": self.deviance, "df.residual": self.df_residual}

    @classmethod
    def freedom_from(cls, said: Mapping[str, Any]) -> Float:
        return np.array(said["degrees"])

    def more(self) -> dict[str, Any]:
        arrays = {"random": self.random.tolist(), "degrees": self.degrees.tolist(), "moves": self.moves.tolist()}
        return arrays | {name: getattr(self, name) for name in _PLAIN} | {"slopes": list(self.slopes)}

    @classmethod
    def own_fields(cls, said: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {name: said[name] for name in _PLAIN}
        found |= {name: np.array(said[name]) for name in ("random", "degrees")}
        if len(said.get("moves", ())):  # an earlier version released none
            found["moves"] = np.array(said["moves"])
        return found | {"slopes": tuple(said["slopes"])}

    def __repr__(self) -> str:
        return f"MixedInference(coefficients={len(self.coefficients)}, clusters={self.clusters})"


_FEW = 1e-8  # of the largest, below which an eigenvalue is zero, or degrees of freedom are alike
_PLAIN = ("clusters", "reml", "correlated", "singular", "fixed", "mean_random", "subject")


def _numbered(count: int) -> tuple[str, ...]:
    return ("slope",) if count == 1 else tuple(f"slope {j + 1}" for j in range(count))


def _in_words(component: str) -> str:
    """What a component is in a report, from its name in broom."""
    kind, _, of = component.partition("__")
    if kind == "cor":
        return f"correlation of {of.replace('.', ' and ', 1)}"
    return {"(Intercept)": "sd of random intercepts", "Observation": "sd of residuals"}.get(of, f"sd of slopes of {of}")
