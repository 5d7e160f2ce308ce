"""The regression table of a fitted estimator: text, HTML in a notebook, a data frame, intervals of predictions."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedsvd.errors import ConfigError
from fedsvd.estimators.after_fit import AfterFit, data_frames
from fedsvd.statistics.broom import expect_ratio
from fedsvd.statistics.inference import LinearInference, predict
from fedsvd.statistics.summary import Summary, linear_summary
from fedsvd.statistics.table import at_level, columns
from fedsvd.statistics.undefined import OWN_BLOCK, is_array
from fedsvd.types import Float


class InferenceTable(AfterFit):
    """``summary``, ``summary_frame`` and ``prediction_frame`` of an estimator with ``inference_``."""

    inference_: tuple[LinearInference, ...]
    target_names_: tuple[str, ...]

    def summary(self, target: int = 0, *, level: float = 0.95, exponentiate: bool = False) -> Summary:
        """The regression table of a study with ``inference=True``.

        Parameters
        ----------
        target : int, default=0
            Of which target, where y has several columns.
        level : float, default=0.95
            Of the confidence intervals.
        exponentiate : bool, default=False
            Refused: exponentials of these coefficients are ratios where the outcome is a logarithm, which no study
            knows. Models with a log or logit link have it.

        Returns
        -------
        Summary
            ``print`` shows it as text, a notebook as a table; ``to_latex()``, ``to_html()``, ``to_docx(path)``. What is
            not defined is a dash, with the reason below.
        """
        model, name = self._model(target, level)
        if exponentiate:
            expect_ratio(model)
        return linear_summary(model, self._feature_names(), name)

    def summary_frame(self, *, level: float = 0.95) -> Any:
        """The coefficients with their statistics as a data frame.

        Parameters
        ----------
        level : float, default=0.95
            Of the confidence intervals, columns ``low`` and ``high``.

        Returns
        -------
        pandas.DataFrame
            Columns ``coef, se, t, p, low, high``, one row for each term; with several targets the rows are indexed
            by target and term. NaN where a statistic is not defined.
        """
        pandas = data_frames()
        names = self._feature_names()
        frames = [
            pandas.DataFrame(columns(self._model(k, level)[0], names)).set_index("term")
            for k in range(len(self._models()))
        ]
        if len(frames) == 1:
            return frames[0]
        return pandas.concat(frames, keys=self.target_names_, names=["target"])

    def prediction_frame(self, X: Any, target: int = 0, *, level: float = 0.95, sample_weight: Any = None) -> Any:
        """Predictions for samples held here, with intervals.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows with all features.
        target : int, default=0
            Of which target, where y has several columns.
        level : float, default=0.95
            Of the intervals.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights that the new values would have, where rows of the study had some; 1 for all.

        Returns
        -------
        pandas.DataFrame
            Columns ``mean``, ``se`` (of the mean), ``low``, ``high`` (confidence interval of the mean),
            ``new_low``, ``new_high`` (prediction interval of a new value).
        """
        pandas = data_frames()
        root = self._model(target, level)[0].root
        if not is_array(root) and root == OWN_BLOCK:
            raise ConfigError(
                "an interval of a prediction needs the covariances of all coefficients, and on split columns no party "
                "has those across parties",
                "use predict, which gives the predictions without intervals",
            )
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        found = predict(self._model(target, level)[0], self._dense(X), level=level, weights=weights)
        undefined = np.full((len(found.mean), 2), np.nan)
        confidence = found.confidence if is_array(found.confidence) else undefined
        prediction = found.prediction if is_array(found.prediction) else undefined
        errors = found.standard_errors if is_array(found.standard_errors) else undefined[:, 0]
        parts = (found.mean, errors, *confidence.T, *prediction.T)
        return pandas.DataFrame(dict(zip(("mean", "se", "low", "high", "new_low", "new_high"), parts, strict=True)))

    @abstractmethod
    def _dense(self, X: Any) -> Float:
        """Rows of new samples as numbers."""

    def _models(self) -> tuple[LinearInference, ...]:
        models: tuple[LinearInference, ...] = getattr(self, "inference_", ())
        if not models:
            raise ConfigError("this study computed no standard errors", "fit with inference=True")
        return models

    def _model(self, target: int, level: float) -> tuple[LinearInference, str]:
        models = self._models()
        if target not in range(len(models)):
            raise ConfigError(f"target is {target!r}", f"between 0 and {len(models) - 1}")
        return at_level(models[target], level), self.target_names_[target]

    def _all_models(self) -> tuple[LinearInference, ...]:
        return self._models()

    def _model_labels(self) -> Sequence[str]:
        return self.target_names_

    def _key(self) -> str:
        return "response"


def names_of_targets(y: Any, count: int) -> tuple[str, ...]:
    """What the targets are called: the names a series or a frame has for them, else y, or y0, y1, ..."""
    y = y[0] if isinstance(y, list | tuple) and len(y) and np.ndim(y[0]) > 0 else y
    named = list(getattr(y, "columns", ())) or [getattr(y, "name", None)]
    if len(named) == count and all(isinstance(name, str) for name in named):
        return tuple(named)
    return ("y",) if count == 1 else tuple(f"y{k}" for k in range(count))
