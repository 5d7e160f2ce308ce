"""What is asked of a fitted regression, linear or generalised, from what it released: no session, no message.

``tidy`` and ``glance`` with broom's names; ``wald_test``, ``anova``, ``contrast`` and ``marginal_effects``.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedsvd.errors import ConfigError, MissingExtra
from fedsvd.statistics import broom
from fedsvd.statistics.broom import Model
from fedsvd.statistics.glm import INTERCEPT, GLMInference
from fedsvd.statistics.multinomial import MultinomialInference
from fedsvd.statistics.terms import Test, between, contrasts, freedom, marginal_effects, wald_test
from fedsvd.types import Float


class AfterFit(ABC):
    """Tables and tests of an estimator with ``inference_``."""

    n_features_in_: int

    def tidy(self, *, exponentiate: bool = False, level: float = 0.95) -> Any:
        """The coefficients as a data frame with the names of R's broom.

        Parameters
        ----------
        exponentiate : bool, default=False
            Odds ratios, rate ratios or ratios of means in the place of coefficients; ``std.error`` stays that of the
            coefficient, as broom has it.
        level : float, default=0.95
            Of ``conf.low`` and ``conf.high``.

        Returns
        -------
        pandas.DataFrame
            ``term, estimate, std.error, statistic, p.value, conf.low, conf.high``; several targets have ``response``
            first, several classes ``y.level``.
        """
        pandas, names = data_frames(), self._feature_names()
        found = []
        for label, model in self._labelled():
            table = broom.tidy(broom.at_level(model, level), names, self._class_names(), exponentiate=exponentiate)
            found.append(pandas.DataFrame({**({self._key(): label} if label else {}), **table}))
        return pandas.concat(found, ignore_index=True)

    def glance(self) -> Any:
        """What is said of the model as one, as a data frame with the names of R's broom.

        Returns
        -------
        pandas.DataFrame
            A row for each target or model: ``logLik, AIC, BIC, deviance, df.residual, nobs`` and more. AIC and BIC do
            not count an estimated variance, as in ``summary``; R counts it.
        """
        pandas = data_frames()
        rows = [{**({self._key(): label} if label else {}), **broom.glance(model)} for label, model in self._labelled()]
        return pandas.DataFrame(rows)

    def wald_test(self, terms: Any, *, target: int = 0) -> Test:
        """Whether several coefficients are zero together.

        Parameters
        ----------
        terms : str, list of str, or array-like of shape (n_restrictions, n_coefficients)
            Names of coefficients, or of terms of a formula; a matrix L tests ``L w = 0``, the intercept first.
        target : int, default=0
            Of which target or model, where there are several.

        Returns
        -------
        Test
            ``statistic``, ``df``, ``p``; F with ``df_residual`` where a scale is estimated, chi-squared otherwise.
        """
        model = self._chosen(target)
        if not isinstance(terms, str) and np.ndim(terms) == 2:
            return wald_test(model, np.asarray(terms, dtype=np.float64))
        wanted = [terms] if isinstance(terms, str) else list(terms)
        groups = self._terms()
        places = [place for name in wanted for place in self._places(name, groups)]
        return wald_test(model, self._restriction(model, places), name=" + ".join(wanted))

    def anova(self, other: Any = None, *, target: int = 0) -> Any:
        """Wald tests of every term; or the likelihood-ratio test against a larger model.

        Parameters
        ----------
        other : a fitted estimator, default=None
            A model of the same records and target with more features, which the first one's are among. Both are as
            they were released, so nothing checks that the records are the same but their number.
        target : int, default=0

        Returns
        -------
        pandas.DataFrame
            ``term, df, statistic, p.value``, and ``df.residual`` where the test is F (R's ``anova`` of two models,
            ``car::Anova(type = 3)`` of one). In a mixed model a term has Satterthwaite's degrees of freedom as
            lmerTest gives them, one of several coefficients by ``criterion="ml"`` the smallest of theirs; two are
            compared by ``criterion="ml"``.
        """
        if other is not None:
            missing = set(self._feature_names()) - set(other._feature_names())
            if missing:
                raise ConfigError(
                    f"{len(missing)} features of the first model are not in the second", "give the larger model"
                )
            return _frame([between(self._chosen(target), other._chosen(target))])
        return _frame([self._term_test(self._chosen(target), *term) for term in self._terms().items()])

    def contrast(
        self, weights: Mapping[str, float] | Sequence[Mapping[str, float]], *, target: int = 0, level: float = 0.95
    ) -> Any:
        """Linear combinations of the coefficients, with their errors and tests.

        Parameters
        ----------
        weights : dict of str to float, or a list of them
            By coefficient; ``"(intercept)"`` is the intercept. ``{"dose[T.high]": 1, "dose[T.low]": -1}``, say.
        target : int, default=0
        level : float, default=0.95

        Returns
        -------
        pandas.DataFrame
            ``term, estimate, std.error, statistic, p.value, conf.low, conf.high``.
        """
        several = [weights] if isinstance(weights, Mapping) else list(weights)
        model = self._chosen(target)
        _one_equation(model)
        names = self._coefficients(model)
        L = np.zeros((len(several), len(names)))
        for row, asked in zip(L, several, strict=True):
            for name, weight in asked.items():
                row[_place(name, names)] = weight
        said = [" ".join(f"{weight:+g} {name}" for name, weight in asked.items()).lstrip("+") for asked in several]
        return data_frames().DataFrame(contrasts(model, L, said, level).columns())

    def marginal_effects(self, at: Mapping[str, float] | None = None, *, target: int = 0, level: float = 0.95) -> Any:
        """How much the mean of the target changes where a feature rises and all others stay the same.

        Parameters
        ----------
        at : dict of str to float, default=None
            The row of features at which, one number for each. None: the average over all rows of the fit, which the
            covariance determines for a linear, logit or Poisson model with an intercept and without an offset or
            weights; for a logit without errors, which need a sum that no study opens.
        target : int, default=0
        level : float, default=0.95

        Returns
        -------
        pandas.DataFrame
            ``term, estimate, std.error, statistic, p.value, conf.low, conf.high``; NaN where not defined.
        """
        names, model = list(self._feature_names()), self._chosen(target)
        row = None
        if at is not None:
            strange = [name for name in at if name not in names]
            if strange or len(at) != len(names):
                raise ConfigError(f"at has {len(at)} features", f"one number for each of {', '.join(names[:10])}")
            row = np.array([float(at[name]) for name in names])
        elif self._weighted():
            raise ConfigError("the fit had weights or an offset: slopes of rows are not known", "give a row: at=...")
        return data_frames().DataFrame(marginal_effects(model, names, level, row).columns())

    # --- models by their names ----------------------------------------------------------------------------------------

    @abstractmethod
    def _all_models(self) -> tuple[Model, ...]:
        """The models; an error before a fit."""

    @abstractmethod
    def _model_labels(self) -> Sequence[str]:
        """The target, or class, of each model."""

    @abstractmethod
    def _key(self) -> str:
        """The column that distinguishes several models."""

    def _class_names(self) -> list[str]:
        return [str(name) for name in getattr(self, "classes_", ())]

    def _feature_names(self) -> Sequence[str]:
        names = getattr(self, "feature_names_in_", None)
        return [f"x{j}" for j in range(self.n_features_in_)] if names is None else [str(name) for name in names]

    def _weighted(self) -> bool:
        about = self.plan_.glm  # type: ignore[attr-defined]
        return about is not None and (about.weighted or about.offset)

    def _labelled(self) -> list[tuple[str, Model]]:
        models = self._all_models()
        labels = self._model_labels() if len(models) > 1 else [""]
        return list(zip(labels, models, strict=True))

    def _chosen(self, target: int) -> Model:
        models = self._all_models()
        if target not in range(len(models)):
            raise ConfigError(f"target is {target!r}", f"between 0 and {len(models) - 1}")
        return models[target]

    def _coefficients(self, model: Model) -> list[str]:
        if isinstance(model, GLMInference):
            return model.terms(self._feature_names())
        return [INTERCEPT, *self._feature_names()] if model.intercept else list(self._feature_names())

    def _terms(self) -> dict[str, list[int]]:
        """Features of each term: those of one factor, spline or product of a formula belong together."""
        found: dict[str, list[int]] = {}
        for place, name in enumerate(self._feature_names()):
            found.setdefault(_term(name), []).append(place)
        return found

    def _places(self, name: str, groups: Mapping[str, list[int]]) -> list[int]:
        names = list(self._feature_names())
        if name in names:
            return [names.index(name)]
        if name in groups:
            return groups[name]
        raise ConfigError(f"there is no coefficient or term {name!r}", f"one of {', '.join(dict.fromkeys(groups))}")

    def _term_test(self, model: Model, name: str, places: Sequence[int]) -> Test:
        """The Wald test of one term; NaN where none of its coefficients is defined."""
        first = int(model.intercept)
        if np.isfinite(np.atleast_2d(model.coefficients)[:, [first + place for place in places]]).any():
            return wald_test(model, self._restriction(model, places), name=name)
        degrees = freedom(model, np.ones((1, model.coefficients.shape[-1])))
        return Test(name, np.nan, 0, np.nan, degrees if isinstance(degrees, int) else None)

    def _restriction(self, model: Model, places: Sequence[int]) -> Float:
        """The rows that make these features' coefficients zero, in every equation; aliased ones are left out."""
        q, first, equations = model.coefficients.shape[-1], int(model.intercept), np.atleast_2d(model.coefficients)
        chosen = [
            k * q + first + place
            for k in range(len(equations))
            for place in places
            if np.isfinite(equations[k, first + place])
        ]
        if not chosen:
            raise ConfigError("no coefficient of this term is defined", "its columns depend on others: leave it out")
        return np.eye(equations.size)[chosen]


def _one_equation(model: Model) -> None:
    if isinstance(model, MultinomialInference):
        raise ConfigError("contrasts of several classes are not here", "use wald_test with a matrix")


def _place(name: str, names: Sequence[str]) -> int:
    if name not in names:
        raise ConfigError(f"there is no coefficient {name!r}", f"one of {', '.join(names[:10])}")
    return names.index(name)


def _term(name: str) -> str:
    """The term of a formula that a column belongs to: ``C(ward)[T.a]:age`` is of ``C(ward):age``."""
    return ":".join(part.partition("[")[0] if part.endswith("]") else part for part in _factors(name))


def _factors(name: str) -> list[str]:
    """The parts of a product; a colon inside brackets belongs to a level."""
    parts, depth = [""], 0
    for character in name:
        depth += {"[": 1, "(": 1, "]": -1, ")": -1}.get(character, 0)
        if character == ":" and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _frame(tests: Sequence[Test]) -> Any:
    found: dict[str, list[Any]] = {"term": [test.name for test in tests], "df": [test.df for test in tests]}
    if tests[0].df_residual is not None:
        found["df.residual"] = [test.df_residual for test in tests]
    found |= {"statistic": [test.statistic for test in tests], "p.value": [test.p for test in tests]}
    return data_frames().DataFrame(found)


def data_frames() -> Any:
    """The module ``pandas``, or an error that names it."""
    try:
        import pandas
    except ImportError:
        raise MissingExtra("a data frame needs pandas", "pip install pandas") from None
    return pandas


def not_here(what: str) -> ConfigError:
    """A result of which this part is not here: it is another party's, or was not released."""
    return ConfigError(
        f"{what} are not among these results: a party has its own alone, and what all share has none",
        'load the folder of a party, fedsvd.load("results/NAME/parties/PARTY"), or fit with their release',
    )


def entries_of(label: str, rows: Any, values: Float) -> Any:
    """A matrix with a column for each component as broom has it, one entry a row: ``label, PC, value``."""
    places = np.tile(np.arange(1, values.shape[1] + 1), len(values))
    return data_frames().DataFrame({label: np.repeat(rows, values.shape[1]), "PC": places, "value": np.ravel(values)})
