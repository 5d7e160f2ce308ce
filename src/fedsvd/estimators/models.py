"""What the estimators of generalised linear models share: columns by name, the study, the linear predictor.

An offset and weights are arrays, lists of one array per party, or the name of a column that every party's table has.
Rows of weight 0 are left out at the party that has them, before anything is sent.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning

from fedsvd.errors import ConfigError, DataError, ShapeError, warn_caller
from fedsvd.estimators.base import Federated, projected, whole_number
from fedsvd.estimators.by_formula import by_formula, read_formula
from fedsvd.estimators.federation import Local
from fedsvd.estimators.model_table import ModelTable
from fedsvd.estimators.parameters import Iterated
from fedsvd.estimators.row_columns import is_named, one_by_one, set_aside, texts_of_rows
from fedsvd.estimators.rows import cut, expect_labels_fit, joint_labels
from fedsvd.estimators.stored import Found
from fedsvd.estimators.tables import Tables, are_parties, parts_like_fitted
from fedsvd.estimators.target import Target, class_labels, target_in
from fedsvd.policy.rules import Policy
from fedsvd.protocol.families import Outcome
from fedsvd.protocol.model import Digits, ModelPlan
from fedsvd.protocol.tasks import Item, Robust, Split, Task
from fedsvd.results.model_table import models_of, with_columns
from fedsvd.statistics.pooled_roc import PooledROC
from fedsvd.statistics.ranking import Quality
from fedsvd.studies.parties import PartyData, expect_target
from fedsvd.studies.party_rows import without_zero_label_weights
from fedsvd.tasks.declared import declared
from fedsvd.types import Float

_GROUPS = ("strata", "subject")  # what names groups of a party's own rows


@dataclass(frozen=True, repr=False)
class _NewRows:
    """Rows that are predicted: their linear predictor (n, models) without the offset, the offset, rows by party."""

    eta: Float
    shift: Float
    counts: tuple[int, ...]


class FederatedModel(Iterated, Federated, ModelTable):
    """An estimator that fits a model on split rows by an iteration."""

    split = "horizontal"
    _task = Task.GLM
    _of_classes = False  # whether y has classes, of which the number is part of the model
    alpha: float
    fit_intercept: bool
    quality: bool
    cluster: str | None = None
    quality_: Quality
    roc: int
    roc_: PooledROC
    coef_: Float
    intercept_: Any
    offset_: str | None  # the column's name; None where it was an array, or none

    @abstractmethod
    def _about(self, classes: int, beside: tuple[str, ...]) -> ModelPlan:
        """The model of a target with this number of classes, and these columns next to it."""

    def _errors(self, clusters: bool) -> Robust | None:
        """Standard errors beyond the usual ones; ``clusters`` where rows have some."""
        return None

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        offset: Any,
        beside: Mapping[str, Any] = MappingProxyType({}),
        *,
        groups: Any = None,
        formula: str | None = None,
    ) -> Self:
        """Run the study, here or between institutions; ``beside`` is what stands between y and the offset."""
        columns, settings = {**beside, "offset": offset, "weights": sample_weight}, dict[str, Any]()
        parsed = None if formula is None else read_formula(formula, self._task, {"y": y, **beside, "offset": offset})
        if self._between(self._task, X, y, formula=formula, groups=groups, **columns):
            return self
        if parsed is not None:
            X, y, said, settings = by_formula(X, parsed, sample_weight, self._where.policy)
            columns |= said
            groups = columns.pop("cluster", groups)
        texts = beside if parsed is None else parsed.beside.options
        known: dict[str, Any] = {"columns": {key: each for key, each in texts.items() if is_named(each)}}
        given = one_by_one(
            {key: each for key, each in columns.items() if key.split()[0] in beside and each is not None}
        )
        sample_weight, offset = columns["weights"], columns["offset"]
        X, named = set_aside(X, {} if self.cluster is None else {"cluster": self.cluster})
        groups = named.get("cluster", groups)  # arrays of every table
        if not self._of_classes:
            about = replace(self._about(0, tuple(key.split()[0] for key in given)), **settings)
            X, target = (X, y) if isinstance(y, Target) else target_in(X, y, Split.HORIZONTAL)
            self._fit_here(
                X, target.values, target, sample_weight, offset, about, given, groups, known=known, flat=True
            )
            return self
        X, target = target_in(X, y, Split.HORIZONTAL, classes=True)
        classes, codes = self._coded(class_labels(target.values))
        if len(classes) < 2:
            raise DataError(
                "all labels are of one class",
                "give labels of two classes or more; check the column and its missing codes",
            )
        about = self._about(len(classes), tuple(given))
        y = codes.astype(np.float64)
        known["classes"] = classes
        self._fit_here(X, y, target, sample_weight, offset, about, given, groups, known=known)
        return self

    def _coded(self, labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """The classes in their order, and the number of each label."""
        classes, codes = np.unique(labels, return_inverse=True)
        return classes, codes

    def _fit_here(
        self,
        X: Any,
        y: Any,
        target: Target,
        sample_weight: Any,
        offset: Any,
        about: ModelPlan,
        beside: Mapping[str, Any],
        groups: Any,
        **said: Any,
    ) -> None:
        """Run the study in this process; ``target`` is y as it was given, for its name and its index."""
        said["known"] = {**said.get("known", {}), "offset": offset if isinstance(offset, str) else None}
        X, extra = _by_name(X, {**beside, "offset": offset, "weights": sample_weight})
        tables, y = self._tables(X, y)
        if not tables.rehearsed:
            expect_labels_fit(target.values, [source.row_labels() for source in tables.sources], tables.split, 0)
        said |= {"targets": target.called(target.values, 1)}
        labels = [_one_column(joint_labels(y, tables.counts))]
        words = {"weights": "sample_weight"}
        given_too = [
            (key, _numbered(each, tables.counts) if key in _GROUPS else each)
            for key, each in extra.items()
            if each is not None
        ]
        labels += [_flat(joint_labels(each, tables.counts, words.get(key, key))) for key, each in given_too]
        about = replace(about, offset=extra["offset"] is not None, weighted=extra["weights"] is not None)
        parties = tables.parties(cut(np.column_stack(labels), tables.edges))
        if groups is not None:
            clusters = cut(texts_of_rows(groups, tables.counts), tables.edges)
            parties = [replace(own, clusters=names) for own, names in zip(parties, clusters, strict=True)]
        if about.weighted:
            parties = [without_zero_label_weights(party) for party in parties]
        joint = np.concatenate([part for party in parties if (part := party.labels) is not None])
        if about.classes and len(np.unique(joint[:, 0])) < 2:
            raise DataError(
                "all rows with a weight are of one class", "give weights above 0 to rows of two classes or more"
            )
        expect_target(about, joint)
        self._model_study(tables, parties, about, **said)

    def _model_study(self, tables: Tables, parties: Sequence[PartyData], about: ModelPlan, **said: Any) -> None:
        policy = self._where.policy
        if about.digits is Digits.AUTO and not (policy is not None and policy.enforce):
            about = replace(about, digits=about.most_digits)  # one machine holds all records
        if policy is not None:
            about = replace(about, least_class=policy.least_class, least_events=policy.least_events)
        elif isinstance(self._where, Local):
            own = Policy()  # what every party enforces
            about = (
                about
                if tables.rehearsed
                else replace(about, least_class=own.least_class, least_events=own.least_events)
            )
        elif not tables.rehearsed:
            self._warn_of_few(parties, about)
            policy = replace(Policy(), least_class=0, least_events=0)
        asked: dict[str, Any] = {"robust": self._errors(parties[0].clusters is not None)}
        task = declared(self._task)
        if task.centred and "fit_intercept" in self.get_params(deep=False):
            asked["centre"] = bool(self.fit_intercept)
        quality = Item.QUALITY in task.on_request and (self.quality or self.roc)
        more = {Item.QUALITY: quality, Item.ROC: quality and self.roc, Item.ROBUST: asked["robust"] is not None}
        if any(more.values()):
            asked["release"] = (*task.released, *(item for item, wanted in more.items() if wanted))
        study = self._study(self._task, tables, alpha=self._alpha(), targets=about.labels, glm=about, **asked)
        outcome = self._run(study, parties, tables.rehearsed, policy=policy, targets=said["targets"])
        self._store_run(outcome, tables, **said)

    def _store(self, found: Found) -> None:
        columns: Mapping[str, Any] = found.fact("columns") or found.known.get("columns") or {}
        self.inference_, self.rank_ = with_columns(models_of(found.here), columns), found.here.rank
        self.__dict__.pop("quality_", None)
        if (said := found.fact("quality")) is not None:
            self.quality_ = Quality(**said)
        self.__dict__.pop("roc_", None)
        if (said := found.fact("roc_curve")) is not None:
            self.roc_ = PooledROC.read(found.array("roc"), said)
        self.n_iter_ = max(model.iterations for model in self.inference_)
        self.target_name_ = found.targets[0]
        self.offset_ = found.known.get("offset", columns.get("offset"))

    def _warn_of_few(self, parties: Sequence[PartyData], about: ModelPlan) -> None:
        """The default policy warns; how many events there are is known here, where all parties are."""
        if not about.counts_outcomes:
            return
        outcome = about.facts.counted_at
        y = np.concatenate([part[:, outcome] for party in parties if (part := party.labels) is not None])
        counts = np.bincount(y.astype(np.int64)) if about.classes else np.array([np.sum(y), np.sum(1.0 - y)])
        fewest = float(counts.min()) if about.facts.outcome is Outcome.CLASSES else float(np.sum(y))
        p, asked = self.n_features_in_ + int(bool(self.fit_intercept)), Policy()
        if fewest < max(asked.least_class, asked.least_events * p):
            warn_caller(
                f"events: {fewest:g} events or rows of the smallest class for {p} coefficients, {asked.least_class} "
                f"and {asked.least_events} for each coefficient are asked for: such a model follows single records"
            )

    def _linear(self, X: Any, offset: Any = None) -> Float:
        """The linear predictor, (n, models); None takes the column again that was the offset in ``fit``."""
        rows = self._rows(X, offset)
        return rows.eta + rows.shift[:, None]

    def _rows(self, X: Any, offset: Any = None) -> "_NewRows":
        self._expect_fitted()
        offset = self.offset_ if offset is None else offset
        if isinstance(offset, str):
            X, extra = _by_name(X, {"offset": offset})
            offset = extra["offset"]
        parts = parts_like_fitted(self, X)
        products = [projected(part.source, np.atleast_2d(self.coef_).T) for part in parts]
        eta: Float = np.concatenate(products) + self.intercept_
        counts = tuple(part.source.shape[0] for part in parts) if are_parties(X) else (len(eta),)
        shift = np.zeros(len(eta)) if offset is None else _flat(joint_labels(offset, counts, "offset"))
        return _NewRows(eta, shift, counts)

    def _expect_offset(self, offset: Any) -> None:
        """Raise where the model was fitted with an offset that is not known for the rows it is judged by."""
        about = self.plan_.glm
        if offset is None and self.offset_ is None and about is not None and about.offset:
            raise ConfigError(
                "the model was fitted with an offset, and these rows come without", "give score their offset"
            )

    def _alpha(self) -> float:
        if not isinstance(self.alpha, Real) or not 0 <= self.alpha < np.inf:
            raise ConfigError(f"alpha is {self.alpha!r}", "a number of at least 0")
        return float(self.alpha)

    def _iterations(self) -> dict[str, Any]:
        if not isinstance(self.tolerance, Real) or not 0 < self.tolerance < 1:
            raise ConfigError(f"tolerance is {self.tolerance!r}", "a number between 0 and 1")
        if self.digits not in tuple(Digits):
            raise ConfigError(f"digits is {self.digits!r}", f"one of {', '.join(Digits)}")
        return {
            "tolerance": float(self.tolerance),
            "max_iterations": whole_number("max_iterations", self.max_iterations, 1),
            "digits": Digits(self.digits),
        }


def _by_name(X: Any, asked: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The tables without the columns that are named, and what these hold; arrays stay as they are."""
    rest, found = set_aside(X, {key: value for key, value in asked.items() if isinstance(value, str)})
    return rest, asked | {key: np.concatenate(columns) for key, columns in found.items()}


def _numbered(names: Any, counts: Sequence[int]) -> Any:
    """Names of groups as numbers, as a job has them: of one party alone, so that any numbers will do."""
    parts = names if isinstance(names, list | tuple) and all(np.ndim(part) for part in names) else [names]
    if not any(np.asarray(part).dtype.kind in "USOT" for part in parts):
        return names
    return np.unique(texts_of_rows(names, counts), return_inverse=True)[1].astype(np.float64)


def _one_column(y: Float) -> Float:
    """y as scikit-learn takes it: a column is flattened, with its warning."""
    if y.ndim == 2 and y.shape[1] == 1:
        warn_caller("A column-vector y was passed when a 1d array was expected", DataConversionWarning)
    return _flat(y)


def _flat(labels: Float) -> Float:
    if labels.ndim > 1 and labels.shape[1] != 1:
        raise ShapeError(f"y has {labels.shape[1]} targets, expected one", "fit one model per target")
    return labels.reshape(-1)
