"""Ridge regression whose penalty is chosen by cross-validation, over samples that several parties hold."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedsvd.errors import ConfigError, DigitsLost, warn_caller
from fedsvd.estimators.after_fit import data_frames
from fedsvd.estimators.base import one_of
from fedsvd.estimators.linear_model import LinearModel
from fedsvd.estimators.parameters import documented
from fedsvd.estimators.stored import Found
from fedsvd.protocol.tasks import ChosenBy, Item, Split, Task
from fedsvd.tasks.declared import declared
from fedsvd.types import Float


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class FederatedRidgeCV(LinearModel):
    """Ridge regression over samples that stay with their parties, with the penalty that predicts best.

    The result is that of ``sklearn.linear_model.RidgeCV`` on the joint table: every penalty is tried in one study, with
    each row left out once, exactly, or by generalised cross-validation. All parties hold the joint Gram matrix of
    features and labels, which the whole path of penalties follows from (mode "A"), and the cross-validation error of
    every penalty. Split by features the penalty is chosen by generalised cross-validation, by the party that holds the
    labels: it learns the singular values of the joint table and how the labels lie along its singular vectors.

    Parameters
    ----------
    alphas : array-like of shape (n_alphas,), default=(0.1, 1.0, 10.0)
        Penalties to choose among, above 0.
    fit_intercept : bool, default=True
        Whether the model has an intercept, which is never penalised.
    choose_by : {"loo", "gcv"}, default="loo"
        By leaving out each row, or by generalised cross-validation, which needs no sum beyond the Gram matrix, and is
        the one way when features are split.
    split : {"horizontal", "vertical"}, default="horizontal"
        Parties hold different samples of the same features, or different features of the same samples.
    label_party : int, default=None
        Who holds y when features are split, counted from 0 in the list given to ``fit``; None for the last, or for the
        one whose table has the column that y names.
    {parameters}

    Attributes
    ----------
    alpha_ : float
        The penalty that was chosen.
    best_score_ : float
        Minus the mean squared error of the chosen penalty, in cross-validation.
    cv_errors_ : ndarray of shape (n_alphas,)
        The mean squared error of every penalty.
    coef_path_ : ndarray of shape (n_alphas, n_features) or (n_alphas, n_targets, n_features)
        The coefficients of every penalty; split by samples only.
    coef_within_ : float or ndarray of shape (n_targets,)
        Split by features: no coefficient is farther than this from that of exact arithmetic. Features in units far
        apart lose digits; ``FederatedLinearRegression`` with the penalty that was chosen does not lose them.
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
    intercept_ : float or ndarray of shape (n_targets,)
        0.0 without an intercept.
    rank_ : int
        Rank of the (centred) joint table.
    target_names_ : tuple of str
        Names of the targets where y has some, else "y" or "y0", "y1", ...
    parties_ : tuple of PartyCoefficients
        What each party would hold.
    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> from fedsvd import FederatedRidgeCV
    >>> rng = np.random.default_rng(0)
    >>> tables = [rng.normal(size=(n, 4)) for n in (200, 300, 250)]
    >>> labels = [X @ [1.0, 0.0, -1.0, 0.5] + rng.normal(size=len(X)) for X in tables]
    >>> FederatedRidgeCV([0.01, 1.0, 100.0]).fit(tables, labels).alpha_
    1.0
    """

    alphas: Sequence[float] | Float = field(default=(0.1, 1.0, 10.0), kw_only=False)
    fit_intercept: bool = True
    choose_by: str = "loo"
    split: str = "horizontal"
    label_party: int | None = None
    ids: str = "compare"

    def tidy(self) -> Any:
        """The coefficients of the chosen penalty as a data frame with the names of R's broom.

        Returns
        -------
        pandas.DataFrame
            ``term, estimate, lambda``, the intercept first where there is one; several targets have ``response``
            first. A choice by cross-validation has no standard errors.
        """
        self._expect_fitted()
        coef, intercept = np.atleast_2d(self.coef_), np.atleast_1d(self.intercept_)
        terms = list(getattr(self, "feature_names_in_", [f"x{j}" for j in range(coef.shape[1])]))
        if self.fit_intercept:
            coef, terms = np.column_stack([intercept, coef]), ["(Intercept)", *terms]
        several = {"response": np.repeat(self.target_names_, len(terms))} if len(coef) > 1 else {}
        columns = {"term": terms * len(coef), "estimate": np.ravel(coef), "lambda": self.alpha_}
        return data_frames().DataFrame({**several, **columns})

    def glance(self) -> Any:
        """The choice as a data frame of one row.

        Returns
        -------
        pandas.DataFrame
            ``lambda.min``, the penalty that was chosen, ``cv.error``, its mean squared error in cross-validation, and
            ``nobs``.
        """
        self._expect_fitted()
        rows = self.plan_.n if self.plan_.split is Split.HORIZONTAL else self.plan_.m
        return data_frames().DataFrame({"lambda.min": [self.alpha_], "cv.error": -self.best_score_, "nobs": rows})

    def _asked(self, clusters: bool) -> dict[str, Any]:
        if clusters:
            raise ConfigError("clusters are for standard errors, which a ridge does not have", "leave groups out")
        try:
            alphas = tuple(float(alpha) for alpha in np.atleast_1d(np.asarray(self.alphas, dtype=np.float64)))
        except (TypeError, ValueError):
            alphas = ()
        if not alphas:
            raise ConfigError("alphas are no numbers", "np.logspace(-3, 3, 13), say")
        by = ChosenBy(one_of("choose_by", self.choose_by, tuple(ChosenBy)))
        release = (*declared(Task.LR).released, Item.RIDGE_PATH)
        return {"alphas": alphas, "chosen_by": by, "release": release}

    def _store(self, found: Found) -> None:
        super()._store(found)
        self.__dict__.pop("coef_within_", None)
        said, alphas = found.fact("ridge"), np.asarray(found.plan.alphas)
        if said is None:  # of split columns, in a folder with no party's own part
            return
        self.alpha_: float = said["alpha"]
        self.best_score_ = -float(self.cv_errors_[int(np.flatnonzero(alphas == self.alpha_)[0])])
        if "within" in said:
            self.coef_within_ = float(said["within"][0]) if found.flat else np.array(said["within"])

    def _warn_of(self, found: Found) -> None:
        uncertain = sum(part.facts["ridge"].get("uncertain", 0) for part in found.parts)
        if uncertain:
            warn_caller(
                f"{uncertain} coefficients may be off in their first two digits: features are in units far apart, "
                f"and rounding moves them by up to coef_within_. FederatedLinearRegression(alpha={self.alpha_:.6g}) "
                "has all digits",
                DigitsLost,
            )
