"""What linear models over several parties' data share: fit, predict, score, and what goes with the rows."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import ConfigError
from fedsvd.estimators.base import Federated, projected, whole_number
from fedsvd.estimators.matched import in_own_rows
from fedsvd.estimators.row_columns import numbers_of_rows, set_aside, texts_of_rows
from fedsvd.estimators.rows import cut, expect_labels_fit, joint_labels, labels_of
from fedsvd.estimators.sklearn_types import RegressorMixin
from fedsvd.estimators.stored import Found
from fedsvd.estimators.tables import Tables, are_parties, parts_like_fitted
from fedsvd.estimators.target import target_in
from fedsvd.protocol.tasks import Ids, Split, Task
from fedsvd.results.result import PartyResult
from fedsvd.studies.parties import PartyData
from fedsvd.studies.party_rows import without_zero_weights
from fedsvd.types import Float


@dataclass(frozen=True, repr=False)
class PartyCoefficients:
    """After a regression: ``coef_`` is its own when columns are split, shared when rows are."""

    coef_: Float
    intercept_: Float | float
    constant_: tuple[int, ...]  # its columns without variance, whose coefficients are zero

    def __repr__(self) -> str:
        return f"PartyCoefficients(coef_={self.coef_.shape})"


class LinearPredictor(RegressorMixin, Federated):
    """An estimator with coefficients and an intercept, which predicts for samples and is scored by its predictions."""

    coef_: Float
    intercept_: Any
    target_names_: tuple[str, ...]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def predict(self, X: Any) -> Float:
        """Predictions for samples.

        Split by features, a list of one table per party runs the federated prediction: partial scores are added up for
        the party that holds the labels, and no other party learns them. Otherwise the coefficients on this estimator
        are applied here.

        Parameters
        ----------
        X : {samples}

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_targets)
            With ``align`` a row for each of the label holder's table, NaN where not all parties have the record.
        """
        self._expect_fitted()
        self._expect_whole("coefficients")
        parts = parts_like_fitted(self, X)
        W = np.atleast_2d(self.coef_).T
        if are_parties(X) and self.plan_.split is Split.VERTICAL:
            compared = all(part.ids is not None for part in parts)
            study = self._study(Task.PREDICT, targets=W.shape[1], label_user=self.plan_.label_user, check_ids=compared)
            bias = np.broadcast_to(self.intercept_, W.shape[1:])
            parties = [PartyData(part.source, None, part.ids, (W[part.columns], bias)) for part in parts]
            outcome = self._simulated(study, parties, rehearsed=False)
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
        y : array-like of shape (n_samples,) or (n_samples, n_targets), a list of one per party, or columns' names
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        float
        """
        X, target = target_in(X, y, Split(self.split))
        y = target.values
        if are_parties(X) and self.ids == Ids.COMPARE:
            self._expect_fitted()
            expect_labels_fit(y, [labels_of(item) for item in X], Split(self.split), self.plan_.label_user - 1)
        if are_parties(X) and self.split == Split.HORIZONTAL:
            y = joint_labels(y, [part.source.shape[0] for part in parts_like_fitted(self, X)])
        return float(super().score(X, y, sample_weight))


class LinearModel(LinearPredictor):
    """A linear model that is found by one study of task lr."""

    fit_intercept: bool
    label_party: int | None
    cluster: str | None = None
    rank_: int
    parties_: tuple[PartyCoefficients, ...]

    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None, groups: Any = None) -> Self:
        """Run the study.

        Parameters
        ----------
        X : list of one table per party, or one table of shape (n_samples, n_features)
            NumPy arrays, memory maps, pandas or polars frames, SciPy sparse matrices, paths, MatrixSource. Parties'
            tables have the shape (n_i, n_features) split by samples, (n_samples, n_i) split by features. One table
            is divided evenly among the parties of ``federation``.
        y : str, list of str, array-like of shape (n_samples,) or (n_samples, n_targets), or a list of one per party
            A text names a column, which is then no feature; a list of texts names several. Split by samples every table
            has them; split by features one party's table has them, which holds the labels. A list of arrays has one per
            party, and one array is cut as the samples are; split by features it belongs to ``label_party``.
        sample_weight : str, array-like of shape (n_samples,), or a list of one per party, default=None
            Weights of the rows, inverse variances (statsmodels' WLS, R's ``weights``); rows of weight 0 are left out. A
            text names a column of every table, which is then no feature. Split by features, all parties have them.
        offset : str, array-like of shape (n_samples,), or a list of one per party, default=None
            What is subtracted from y first; statistics are those of the difference. A text names a column.
        groups : array-like of shape (n_samples,), or a list of one per party, default=None
            To which cluster each row belongs, where no column is named by ``cluster``.

        Returns
        -------
        self
        """
        if self._between(Task.LR, X, y, weights=sample_weight, offset=offset, groups=groups):
            return self
        words = {"weights": sample_weight, "offset": offset, "cluster": self.cluster}
        X, named = set_aside(X, {key: value for key, value in words.items() if isinstance(value, str)})
        asked = self._label_holder(len(X)) if are_parties(X) and self.label_party is not None else None
        X, target = target_in(X, y, self._split, asked)
        tables, y = self._tables(X, target.values)
        holder = self._label_holder(len(tables.sources)) if target.holder is None else target.holder
        if self.ids == Ids.COMPARE and not tables.rehearsed:
            expect_labels_fit(y, [source.row_labels() for source in tables.sources], tables.split, holder)
        given, y = y, joint_labels(y, (tables.sources[holder].shape[0],) if tables.aligned else tables.counts)
        Y = y.reshape(len(y), -1)
        rows = _Rows(
            tables, {**{key: value for key, value in words.items() if key != "cluster"}, "cluster": groups} | named
        )
        rows.expect_fit()
        shift = rows.numbers("offset")
        Y = Y if shift is None else Y - shift[:, None]
        labels: list[Float | None] = [Y if i == holder else None for i in range(len(tables.sources))]
        if tables.split is Split.HORIZONTAL:
            labels = [*cut(Y, tables.edges)]
        study = self._study(
            Task.LR,
            tables,
            centre=bool(self.fit_intercept),
            targets=Y.shape[1],
            label_user=holder + 1 if tables.split is Split.VERTICAL else 0,
            weighted=rows.given("weights"),
            **self._asked(rows.given("cluster")),
        )
        called = target.called(given, Y.shape[1])
        outcome = self._run(study, rows.of_parties(tables.parties(labels)), tables.rehearsed, targets=called)
        found = self._store_run(outcome, tables, targets=called, flat=y.ndim == 1)
        self._warn_of(found)
        return self

    def _warn_of(self, found: Found) -> None:
        """Warn of what a study that was just run lost."""

    @abstractmethod
    def _asked(self, clusters: bool) -> dict[str, Any]:
        """What the study is asked beyond what all linear models ask; ``clusters`` where rows have some."""

    def _label_holder(self, parties: int) -> int:
        last = parties - 1
        if self.label_party is None:
            return last
        holder = whole_number("label_party", self.label_party, 0)
        if holder > last:
            raise ConfigError(f"label_party is {holder}", f"between 0 and {last} for {last + 1} parties")
        return holder

    def _store(self, found: Found) -> None:
        plan, by_columns = found.plan, found.plan.split is Split.VERTICAL
        self.target_names_ = found.targets
        if not plan.centre:
            self.intercept_ = 0.0
        self.rank_ = found.here.rank
        self.parties_ = tuple(self._held(part, found.flat, by_columns) for part in found.parts)

    def _held(self, part: PartyResult, flat: bool, by_columns: bool) -> PartyCoefficients:
        own = part.arrays["coefficients"][0] if flat else part.arrays["coefficients"]
        names, constant = part.features, part.facts.get("constant_columns", [])
        places = tuple(names.index(name) if names else int(name.removeprefix("x")) for name in constant)
        return PartyCoefficients(own if by_columns else self.coef_, self.intercept_, places)


@dataclass(frozen=True, repr=False)
class _Rows:
    """Weights, offset and clusters as they were given: arrays, lists of one per party, or nothing."""

    tables: Tables
    values: dict[str, Any]

    def expect_fit(self) -> None:
        """Raise where rows are matched first: what is given for the rows of one table would not fit the others'."""
        if self.tables.aligned and any(self.given(key) for key in self.values):
            raise ConfigError(
                "weights, an offset or clusters are given, and records are matched first", "run it as a job file"
            )

    def given(self, key: str) -> bool:
        return self.values.get(key) is not None

    def numbers(self, key: str) -> Float | None:
        """One number for each joint row."""
        return numbers_of_rows(self.values[key], self.tables.counts, key) if self.given(key) else None

    def of_parties(self, parties: Sequence[PartyData]) -> list[PartyData]:
        """What the parties bring, with their weights and clusters; rows of weight 0 are left out."""
        weights = self._cut(self.numbers("weights"))
        clusters = self._cut(
            texts_of_rows(self.values["cluster"], self.tables.counts) if self.given("cluster") else None
        )
        extra = zip(parties, weights, clusters, strict=True)
        return [without_zero_weights(replace(own, row_weights=w, clusters=c)) for own, w, c in extra]

    def _cut(self, joint: NDArray[Any] | None) -> Sequence[NDArray[Any] | None]:
        count = len(self.tables.sources)
        if joint is None or self.tables.split is Split.VERTICAL:
            return [joint] * count
        return cut(joint, self.tables.edges)
