"""The table of a fitted generalised linear model: text, HTML in a notebook, a data frame."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from fedsvd.errors import ConfigError
from fedsvd.estimators.after_fit import AfterFit, data_frames
from fedsvd.statistics.broom import expect_ratio
from fedsvd.statistics.glm import GLMInference
from fedsvd.statistics.model_table import GLModel, at_level, columns
from fedsvd.statistics.summary import Summary, glm_summary, multinomial_summary


class ModelTable(AfterFit):
    """``summary`` and ``summary_frame`` of an estimator with ``inference_``."""

    inference_: tuple[GLModel, ...]
    target_name_: str

    def summary(self, target: int = 0, *, level: float = 0.95, exponentiate: bool = False) -> Summary:
        """The table of the model.

        Parameters
        ----------
        target : int, default=0
            Of which model, where each class has one against the rest.
        level : float, default=0.95
            Of the confidence intervals.
        exponentiate : bool, default=False
            Odds ratios, rate ratios or ratios of means in the place of coefficients.

        Returns
        -------
        Summary
            ``print`` shows it as text, a notebook as a table; ``to_latex()``, ``to_html()``, ``to_docx(path)``. What is
            not defined is a dash, with the reason below.
        """
        self._expect_fitted()
        models = self.inference_
        if target not in range(len(models)):
            raise ConfigError(f"target is {target!r}", f"between 0 and {len(models) - 1}")
        model, names = at_level(models[target], level), self._feature_names()
        if isinstance(model, GLMInference):
            found = glm_summary(model, names, self._model_names()[target])
        else:
            found = multinomial_summary(model, names, self._class_names(), self.target_name_)
        return found.exponentiated(expect_ratio(model)) if exponentiate else found

    def summary_frame(self, *, level: float = 0.95) -> Any:
        """The coefficients with their statistics as a data frame.

        Parameters
        ----------
        level : float, default=0.95
            Of the confidence intervals, columns ``low`` and ``high``.

        Returns
        -------
        pandas.DataFrame
            Columns ``coef, se, z, p, low, high``, one row for each term; with several classes the rows are indexed by
            class and term. NaN where a statistic is not defined.
        """
        self._expect_fitted()
        pandas, names = data_frames(), self._feature_names()
        models = [at_level(model, level) for model in self.inference_]
        if len(models) > 1:
            frames = [pandas.DataFrame(columns(model, names)).set_index("term") for model in models]
            return pandas.concat(frames, keys=self._class_names(), names=["class"])
        found = columns(models[0], names, self._class_names())
        return pandas.DataFrame(found).set_index(["class", "term"] if "class" in found else "term")

    @abstractmethod
    def _expect_fitted(self) -> None:
        """Raise unless ``fit`` was called."""

    def _all_models(self) -> tuple[GLModel, ...]:
        self._expect_fitted()
        return self.inference_

    def _model_labels(self) -> Sequence[str]:
        return self._class_names()

    def _key(self) -> str:
        return "y.level"

    def _model_names(self) -> list[str]:
        """What each model predicts."""
        if len(self.inference_) == 1:
            return [self.target_name_]
        return [f"{self.target_name_} = {name}" for name in self._class_names()]
