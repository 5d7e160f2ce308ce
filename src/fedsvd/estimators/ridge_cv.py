"""Ridge regression whose penalty is chosen by cross-validation, over samples that several parties hold."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedsvd.errors import ConfigError
from fedsvd.estimators.base import documented, one_of
from fedsvd.estimators.linear_model import LinearModel
from fedsvd.policy.rules import Policy
from fedsvd.protocol.tasks import RELEASED_BY_DEFAULT, ChosenBy, Item, Task
from fedsvd.roles.user.prediction import RegressionResult
from fedsvd.types import Float


@documented
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
        Who holds y when features are split, counted from 0 in the list given to ``fit``; None for the last.
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

    def __init__(
        self,
        alphas: Sequence[float] | Float = (0.1, 1.0, 10.0),
        *,
        fit_intercept: bool = True,
        choose_by: str = "loo",
        split: str = "horizontal",
        label_party: int | None = None,
        scheme: str = "auto",
        mode: str | None = None,
        trust: str = "peers",
        block_size: int | None = None,
        memory: int | None = None,
        n_parties: int = 2,
        policy: Policy | None = None,
        device: str | None = None,
        engine: str | None = None,
        random_state: int | None = None,
        id: str | None = None,
        ids: str = "compare",
        verbose: bool = False,
    ) -> None:
        self.alphas = alphas
        self.fit_intercept = fit_intercept
        self.choose_by = choose_by
        self.split = split
        self.label_party = label_party
        self.scheme = scheme
        self.mode = mode
        self.trust = trust
        self.block_size = block_size
        self.memory = memory
        self.n_parties = n_parties
        self.policy = policy
        self.device = device
        self.engine = engine
        self.random_state = random_state
        self.id = id
        self.ids = ids
        self.verbose = verbose

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
        release = (*RELEASED_BY_DEFAULT[Task.LR], Item.RIDGE_PATH)
        return {"alphas": alphas, "chosen_by": by, "release": release}

    def _store(self, results: tuple[RegressionResult, ...], flat: bool) -> None:
        super()._store(results, flat)
        found = results[0].path
        assert found is not None
        path = found.coefficients if len(found.coefficients) else None
        self._choose(found.alphas, found.errors, found.alpha, path, flat)

    def _choose(self, alphas: Float, errors: Float, alpha: float, path: Float | None, flat: bool) -> None:
        self.alpha_, self.cv_errors_ = alpha, errors
        self.best_score_ = -float(errors[int(np.flatnonzero(alphas == alpha)[0])])
        if path is not None:
            self.coef_path_ = path[:, :, 0] if flat else np.moveaxis(path, 2, 1)
