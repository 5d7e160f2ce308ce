"""Tables with the column names of R's ``broom``: ``tidy``, one row for each term, and ``glance``, one for each model.

Numbers are those of ``summary``. AIC and BIC of linear regressions and of gaussian and gamma models do not count the
variance as a parameter, as statsmodels; R's are larger by 2 and by log n.
"""

import math
from collections.abc import Sequence
from typing import Any

from fedsvd.errors import ConfigError
from fedsvd.statistics import model_table, table
from fedsvd.statistics.glm import INTERCEPT, GLMInference
from fedsvd.statistics.inference import LinearInference
from fedsvd.statistics.model_table import GLModel
from fedsvd.statistics.summary import ratio_of
from fedsvd.statistics.undefined import Number, is_number

Model = LinearInference | GLModel

_TIDY = {"coef": "estimate", "se": "std.error", "t": "statistic", "z": "statistic", "p": "p.value"}
_TIDY |= {"low": "conf.low", "high": "conf.high", "class": "y.level"}
_RATIO = ("estimate", "conf.low", "conf.high")


def at_level(model: Model, level: float) -> Model:
    """The same model with confidence intervals of another level."""
    return table.at_level(model, level) if isinstance(model, LinearInference) else model_table.at_level(model, level)


def tidy(
    model: Model, features: Sequence[str], classes: Sequence[str] = (), *, exponentiate: bool = False
) -> dict[str, list[Any]]:
    """``term, estimate, std.error, statistic, p.value, conf.low, conf.high``; of several classes ``y.level`` first.

    With ``exponentiate`` the estimates and the ends of their intervals are ratios; standard errors stay as they are.
    """
    if isinstance(model, LinearInference):
        found = table.columns(model, features)
    else:
        found = model_table.columns(model, features, classes)
    named = {_TIDY.get(name, name): cells for name, cells in found.items()}
    if isinstance(model, GLMInference) and model.naive_first and "naive_se" in named:
        errors = {"std.error": named.pop("naive_se"), "robust.se": named["std.error"]}
        before = {name: named.pop(name) for name in ("term", "estimate")}
        named = before | errors | {name: cells for name, cells in named.items() if name != "std.error"}
    named["term"] = ["(Intercept)" if term == INTERCEPT else term for term in named["term"]]
    if exponentiate:
        expect_ratio(model)
        named |= {name: [_exp(value) for value in named[name]] for name in _RATIO}
    return model.tidied(named) if isinstance(model, GLMInference) else named


def expect_ratio(model: Model) -> str:
    """What the exponential of a coefficient is, or a ``ConfigError`` where it is no ratio."""
    ratio = ratio_of(model)
    if not ratio:
        raise ConfigError("the exponential of these coefficients is no ratio", "leave exponentiate out")
    return ratio


def glance(model: Model) -> dict[str, Any]:
    """What broom says of the model as one."""
    both = {"logLik": model.log_likelihood, "AIC": model.aic, "BIC": model.bic}
    if isinstance(model, LinearInference):
        first = {"r.squared": model.r2, "adj.r.squared": model.adjusted_r2, "sigma": model.sigma}
        first |= {"statistic": model.f, "p.value": model.f_p, "df": float(model.df_model)}
        last = {"deviance": model.sums.residual, "df.residual": model.df_residual, "nobs": model.n}
        return {name: _plain(value) for name, value in (first | both).items()} | last
    if isinstance(model, GLMInference):
        return model.glance() | {name: _plain(value) for name, value in both.items()} | model.glance_last()
    return {"edf": model.coefficients.size, "deviance": model.deviance, "AIC": _plain(model.aic), "nobs": model.n}


def _plain(value: Number) -> float:
    return float(value) if is_number(value) else math.nan


def _exp(value: float) -> float:
    return math.exp(value) if value < 700.0 else math.inf
