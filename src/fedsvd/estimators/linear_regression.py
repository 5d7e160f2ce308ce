"""Linear regression, ordinary or ridge, over data that several parties hold (section 4 of the paper)."""

from dataclasses import dataclass
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin

from fedsvd.errors import ConfigError
from fedsvd.estimators.base import Federated, documented, projected, whole_number
from fedsvd.estimators.inference import InferenceTable, names_of_targets
from fedsvd.estimators.matched import in_own_rows
from fedsvd.estimators.rows import cut, expect_labels_fit, joint_labels, labels_of
from fedsvd.estimators.tables import Tables, are_parties, parts_like_fitted
from fedsvd.policy.rules import Policy
from fedsvd.protocol.tasks import RELEASED_BY_DEFAULT, Ids, Item, Split, Task
from fedsvd.roles.user.prediction import RegressionResult
from fedsvd.statistics.inference import LinearInference
from fedsvd.studies.parties import PartyData
from fedsvd.types import Float

_ROWS = 4096  # of new samples that are read at a time


@dataclass(frozen=True, repr=False)
class PartyCoefficients:
    """After a regression: ``coef_`` is its own when columns are split, shared when rows are."""

    coef_: Float
    intercept_: Float | float
    constant_: tuple[int, ...]  # its columns without variance, whose coefficients are zero

    def __repr__(self) -> str:
        return f"PartyCoefficients(coef_={self.coef_.shape})"


@documented
class FederatedLinearRegression(InferenceTable, RegressorMixin, Federated):  # type: ignore[misc]
    """Least squares over features, or samples, that stay with their parties.

    The result is that of ``sklearn.linear_model.LinearRegression`` on the joint table, or of ``Ridge`` with a
    positive ``alpha``; the intercept is never penalised. Where rank is lost, the solution of least norm (over
    coefficients and intercept in the paper's scheme, split by features: there the intercept is a column of ones).
    Split by features, each party ends with its own coefficients and all with the intercept; split by samples, all
    parties end with all coefficients. All roles run in this process.

    Parameters
    ----------
    alpha : float, default=0.0
        Strength of the ridge; 0 for ordinary least squares.
    fit_intercept : bool, default=True
        Whether the model has an intercept.
    inference : bool, default=False
        Whether the parties compute standard errors, t, p and intervals: ``summary()``, ``summary_frame()``. Split by
        samples only. Each party computes them from the joint Gram matrix of features and labels, which all parties
        then hold (mode "A").
    split : {"horizontal", "vertical"}, default="horizontal"
        Parties hold different samples of the same features, or different features of the same samples.
    label_party : int, default=None
        Who holds y when features are split, counted from 0 in the list given to ``fit``; None for the last.
    {parameters}

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Coefficients over the joint features; one-dimensional for a one-dimensional y.
    intercept_ : float or ndarray of shape (n_targets,)
        0.0 without an intercept.
    rank_ : int
        Rank of the (centred) joint table, of the ridge's rows as well where there is a ridge.
    inference_ : tuple of LinearInference
        With ``inference``, the statistics of each target: covariance, sigma, R2, F, log-likelihood, AIC, VIF, ...
    target_names_ : tuple of str
        Names of the targets where y has some, else "y" or "y0", "y1", ...
    parties_ : tuple of PartyCoefficients
        What each party would hold: ``coef_``, its own part when features are split, and ``intercept_``.
    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> from fedsvd import FederatedLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> bank, shop, insurer = rng.normal(size=(500, 2)), rng.normal(size=(500, 1)), rng.normal(size=(500, 3))
    >>> y = bank @ [1.0, 2.0] + shop @ [3.0] + insurer @ [4.0, 5.0, 6.0] + 7.0
    >>> regression = FederatedLinearRegression(split="vertical", ids="trust").fit([bank, shop, insurer], y)
    >>> [party.coef_.round(10).tolist() for party in regression.parties_]
    [[1.0, 2.0], [3.0], [4.0, 5.0, 6.0]]
    >>> round(float(regression.intercept_), 10)
    7.0
    """

    def __init__(
        self,
        alpha: float = 0.0,
        *,
        fit_intercept: bool = True,
        inference: bool = False,
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
        id: str | list[str] | None = None,
        ids: str = "compare",
        align: str | None = None,
        verbose: bool = False,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.inference = inference
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
        self.align = align
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Run the study.

        Parameters
        ----------
        X : list of one table per party, or one table of shape (n_samples, n_features)
            NumPy arrays, memory maps, pandas or polars frames, SciPy sparse matrices, paths, MatrixSource. Parties'
            tables have the shape (n_i, n_features) split by samples, (n_samples, n_i) split by features. One table
            is divided evenly among ``n_parties``.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), or a list of one per party
            Split by samples, a list has one array of labels per party, and one array is cut as the samples are.
            Split by features, y is one array and belongs to ``label_party``.

        Returns
        -------
        self
        """
        tables, y = self._tables(X, y)
        holder = self._label_holder(tables)
        if self.ids == Ids.COMPARE and not tables.rehearsed:
            expect_labels_fit(y, [source.row_labels() for source in tables.sources], tables.split, holder)
        given, y = y, joint_labels(y, (tables.sources[holder].shape[0],) if tables.aligned else tables.counts)
        Y = y.reshape(len(y), -1)
        if tables.split is Split.HORIZONTAL:
            labels: list[Float | None] = [*cut(Y, tables.edges)]
        else:
            labels = [Y if i == holder else None for i in range(len(tables.sources))]
        study = self._study(
            Task.LR,
            tables,
            alpha=self._alpha(),
            centre=bool(self.fit_intercept),
            release=(*RELEASED_BY_DEFAULT[Task.LR], Item.INFERENCE) if self.inference else None,
            targets=Y.shape[1],
            label_user=holder + 1 if tables.split is Split.VERTICAL else 0,
        )
        outcome = self._run(study, tables.parties(labels), tables.rehearsed)
        self._remember_run(outcome)
        self._store(outcome.parties, flat=y.ndim == 1)
        self.target_names_ = names_of_targets(given, Y.shape[1])
        return self

    def predict(self, X: Any) -> Float:
        """Predictions for samples.

        Split by features, a list of one table per party runs the federated prediction: partial scores are added up for
        the party that holds the labels, and no other party learns them. Otherwise the coefficients on this estimator
        are applied here.

        Parameters
        ----------
        X : array-like, frame, sparse matrix, path or MatrixSource of shape (n_samples, n_features), or a list
            A list is read as in ``fit``: one part of the joint table per party.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_targets)
            With ``align`` a row for each of the label holder's table, NaN where not all parties have the record.
        """
        self._expect_fitted()
        parts = parts_like_fitted(self, X)
        W = np.atleast_2d(self.coef_).T
        if are_parties(X) and self.plan_.split is Split.VERTICAL:
            compared = all(part.ids is not None for part in parts)
            study = self._study(Task.PREDICT, targets=W.shape[1], label_user=self.plan_.label_user, check_ids=compared)
            bias = np.broadcast_to(self.intercept_, W.shape[1:])
            parties = [PartyData(part.source, None, part.ids, (W[part.columns], bias)) for part in parts]
            outcome = self._run(study, parties, rehearsed=False)
            holder = self.plan_.label_user - 1
            predicted: Float = outcome.parties[holder].predictions
            if outcome.matched is not None:
                predicted = in_own_rows(predicted, np.asarray(parts[holder].ids), outcome.matched, holder)
        else:
            predicted = np.concatenate([projected(part.source, W) for part in parts]) + self.intercept_
        return predicted[:, 0] if self.coef_.ndim == 1 else predicted

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The coefficient of determination R^2 of ``predict(X)``.

        Parameters
        ----------
        X : as in ``predict``
        y : array-like of shape (n_samples,) or (n_samples, n_targets), or a list of one per party
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        float
        """
        if are_parties(X) and self.ids == Ids.COMPARE:
            self._expect_fitted()
            expect_labels_fit(y, [labels_of(item) for item in X], Split(self.split), self.plan_.label_user - 1)
        if are_parties(X) and self.split == Split.HORIZONTAL:
            y = joint_labels(y, [part.source.shape[0] for part in parts_like_fitted(self, X)])
        return float(super().score(X, y, sample_weight))

    def _dense(self, X: Any) -> Float:
        self._expect_fitted()
        panels = [panel for part in parts_like_fitted(self, X) for panel in part.source.panels(0, _ROWS)]
        return np.concatenate(panels) if panels else np.zeros((0, self.n_features_in_))

    def _models(self) -> tuple[LinearInference, ...]:
        self._expect_fitted()
        return super()._models()

    def _alpha(self) -> float:
        if not isinstance(self.alpha, Real) or not 0 <= self.alpha < np.inf:
            raise ConfigError(f"alpha is {self.alpha!r}", "a number of at least 0")
        return float(self.alpha)

    def _label_holder(self, tables: Tables) -> int:
        last = len(tables.sources) - 1
        if self.label_party is None:
            return last
        holder = whole_number("label_party", self.label_party, 0)
        if holder > last:
            raise ConfigError(f"label_party is {holder}", f"between 0 and {last} for {last + 1} parties")
        return holder

    def _store(self, results: tuple[RegressionResult, ...], flat: bool) -> None:
        vertical = self.plan_.split is Split.VERTICAL
        bias: Float | float = results[0].intercept[0] if flat else results[0].intercept
        self.intercept_ = bias if self.plan_.centre else 0.0
        own = [result.coefficients[0] if flat else result.coefficients for result in results]
        self.coef_ = np.concatenate(own, axis=-1) if vertical else own[0]
        # The paper's column of ones adds one to the rank of the features about their means.
        self.rank_ = results[0].rank - int(self.plan_.biased)
        self.inference_ = results[0].inference
        self.parties_ = tuple(
            PartyCoefficients(part if vertical else self.coef_, self.intercept_, result.constant)
            for part, result in zip(own, results, strict=True)
        )
