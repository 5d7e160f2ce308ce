"""Regression on the principal components of samples that several parties hold."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from fedsvd.errors import ConfigError
from fedsvd.estimators.after_fit import AfterFit
from fedsvd.estimators.base import Federated, one_of, whole_number
from fedsvd.estimators.linear_model import LinearPredictor
from fedsvd.estimators.parameters import documented
from fedsvd.estimators.rows import cut, expect_labels_fit, joint_labels
from fedsvd.estimators.stored import Found
from fedsvd.estimators.target import target_in
from fedsvd.protocol.model import Digits
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import ComponentRule, Ids, Split, Task
from fedsvd.results.component_tables import component_models
from fedsvd.statistics.components import Choice
from fedsvd.statistics.inference import LinearInference
from fedsvd.statistics.summary import Summary, linear_summary

_RULES = (ComponentRule.MLE, ComponentRule.GAVISH_DONOHO)


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class FederatedPCR(AfterFit, LinearPredictor):
    """Principal component regression over samples that stay with their parties.

    The result is that of scikit-learn's ``make_pipeline(PCA(n_components), LinearRegression())`` on the joint table,
    with a ``StandardScaler`` before them for ``unit_variance``. The parties open the joint Gram matrix of features and
    labels, which all of them then hold (mode "A"), and compute everything else at home, standard errors and tests of
    the components included. A number or a share of components of many features is found by steps instead (``masks``),
    without that matrix.

    Parameters
    ----------
    n_components : int, float, "mle" or "gavish-donoho", default=0.95
        How many components, or how to find their number, as for ``FederatedPCA``; None for all there are.
    unit_variance : bool, default=False
        Scale every feature to unit variance first; constant features are left at zero.
    split : {"horizontal"}, default="horizontal"
        Parties hold different samples of the same features.
    digits : {"auto", "table", "more", "all"}, default="auto"
        By ``masks=Masks("steps")``, how far vectors are found and how many digits are opened: "table" to residuals of
        1e-8 of the largest singular value, "more" 1e-11, "all" and "auto" 5e-14, as every other scheme gives them.
    {parameters}

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Coefficients of the features, in their own units; one-dimensional for a one-dimensional y.
    intercept_ : float or ndarray of shape (n_targets,)
    components_ : ndarray of shape (n_components, n_features)
        The components that were taken.
    singular_values_ : ndarray of shape (n_components,)
        Of the centred features.
    mean_, scale_ : ndarray of shape (n_features,)
        ``scale_`` with ``unit_variance`` only.
    n_components_ : int
    n_samples_ : int
        Counts.
    choice_ : Choice
        What the rule made of the spectrum, where the number was not given.
    inference_ : tuple of LinearInference
        For each target the table of the components: coefficients, standard errors, t, p, R2, F, ...
    target_names_ : tuple of str
        Names of the targets where y has some, else "y" or "y0", "y1", ...
    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> from fedsvd import FederatedPCR, Simulation
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 2)) @ rng.normal(size=(2, 5)) + 0.1 * rng.normal(size=(600, 5))
    >>> y = X.sum(axis=1) + rng.normal(size=600)
    >>> pcr = FederatedPCR(2, federation=Simulation(parties=3)).fit(X, y)
    >>> pcr.coef_.shape, pcr.n_components_
    ((5,), 2)
    """

    n_components: int | float | str | None = field(default=0.95, kw_only=False)
    unit_variance: bool = False
    split: str = "horizontal"
    digits: str = "auto"

    def fit(self, X: Any, y: Any) -> Self:
        """Run the study.

        Parameters
        ----------
        X : list of one table per party, each of shape (n_i, n_features), or one table
            NumPy arrays, memory maps, pandas or polars frames, SciPy sparse matrices, paths, MatrixSource. One table
            is divided evenly among the parties of ``federation``.
        y : str, list of str, array-like of shape (n_samples,) or (n_samples, n_targets), or a list of one per party
            A text names a column of every table, which is then no feature; a list of texts names several.

        Returns
        -------
        self
        """
        if self._between(Task.PCR, X, y):
            return self
        X, target = target_in(X, y, self._split)
        tables, y = self._tables(X, target.values)
        if tables.split is not Split.HORIZONTAL:
            raise ConfigError("PCR needs samples split over the parties", 'split="horizontal"')
        if self.ids == Ids.COMPARE and not tables.rehearsed:
            expect_labels_fit(y, [source.row_labels() for source in tables.sources], tables.split, 0)
        given, y = y, joint_labels(y, tables.counts)
        Y = y.reshape(len(y), -1)
        asked = self._asked(min(tables.n_samples, tables.n_features))
        study = self._study(
            Task.PCR, tables, targets=Y.shape[1], unit_variance=bool(self.unit_variance),
            digits=Digits(one_of("digits", self.digits, tuple(Digits))),
            components=asked if isinstance(asked, int) else None, components_by=asked if isinstance(asked, str) else "",
        )  # fmt: skip
        called = target.called(given, Y.shape[1])
        outcome = self._run(study, tables.parties([*cut(Y, tables.edges)]), tables.rehearsed, targets=called)
        self._store_run(outcome, tables, targets=called, flat=y.ndim == 1)
        return self

    def summary(self, target: int = 0) -> Summary:
        """The regression table of the components.

        Parameters
        ----------
        target : int, default=0
            Of which target, where y has several columns.

        Returns
        -------
        Summary
            ``print`` shows it as text, a notebook as a table.
        """
        self._chosen(target)
        return linear_summary(self.inference_[target], self._feature_names(), self.target_names_[target])

    def _all_models(self) -> tuple[LinearInference, ...]:
        self._expect_fitted()
        return self.inference_

    def _model_labels(self) -> Sequence[str]:
        return self.target_names_

    def _key(self) -> str:
        return "response"

    def _feature_names(self) -> Sequence[str]:
        """Terms of the table are the components."""
        return [f"component {j + 1}" for j in range(len(self.singular_values_))]

    def _asked(self, most: int) -> int | str:
        """A number of components, or a rule as text."""
        asked: Any = self.n_components
        if asked is None:
            return most
        if isinstance(asked, str) and asked in _RULES:
            return str(asked)
        if isinstance(asked, float | np.floating) and 0 < asked < 1:
            return repr(float(asked))
        if isinstance(asked, str | float | np.floating):
            allowed = f"a whole number, a share between 0 and 1, or one of {', '.join(_RULES)}"
            raise ConfigError(f"n_components is {asked!r}", allowed)
        wanted = whole_number("n_components", asked, 1)
        if wanted > most:
            raise ConfigError(f"n_components={wanted} is too large for this table", f"between 1 and {most}")
        return wanted

    def _store(self, found: Found) -> None:
        arrays, plan = found.here.arrays, found.plan
        for earlier in ("scale_", "choice_"):
            self.__dict__.pop(earlier, None)
        self.n_components_, self.n_samples_ = len(arrays["components"]), plan.n
        self.singular_values_ = arrays["singular_values"][: self.n_components_]
        self.target_names_ = found.targets
        if "scale" in arrays:
            self.scale_ = np.where(arrays["scale"] > 0, arrays["scale"], 1.0)
        if plan.components_by:
            self.choice_ = Choice(plan.components_by, found.wanted, arrays.get("spectrum_threshold"))
        self.inference_: tuple[LinearInference, ...] = component_models(found.here)


def estimators_of(plan: SessionPlan) -> tuple[type[Federated], type[Federated]]:
    """The estimator of a result, and that of one party's columns alone."""
    return FederatedPCR, FederatedPCR
