"""What estimators have in common: the study that parameters ask for, the run, being fitted (ADR 0011).

Only public names of scikit-learn are used. An estimator holds results, the plan and the certificate: no secret, no
role and no message, so that its owner can save it as any other estimator.

``FederatedTransformer`` is what FederatedSVD, FederatedPCA and FederatedLSA share: their components project samples.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError as UnfittedInSklearn
from sklearn.utils.extmath import row_norms
from sklearn.utils.validation import check_array, check_is_fitted

from fedsvd.data.source import MatrixSource
from fedsvd.data.sparse import SparsePanels
from fedsvd.engine.progress import shown
from fedsvd.errors import ConfigError, NotFittedError, ShapeError, warn_caller
from fedsvd.estimators.as_job import asked_of, found_locally
from fedsvd.estimators.federation import Federation, Local, Masks, Simulation
from fedsvd.estimators.matched import Align, common_positions, joint_ids, matching_rule, words_of
from fedsvd.estimators.parameters import Common, expect_not_moved, with_samples
from fedsvd.estimators.plots import Plots
from fedsvd.estimators.rows import expect_same
from fedsvd.estimators.sklearn_types import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from fedsvd.estimators.stored import Found, of_outcome, store
from fedsvd.estimators.tables import Part, Tables, are_parties, expect_own_intercept, parts_like_fitted, tables_of
from fedsvd.policy.rules import Policy
from fedsvd.protocol.certificate import Certificate
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Ids, Mode, Split, Task, Trust
from fedsvd.studies.doubts import doubts, warn_of
from fedsvd.studies.matching import run_stages
from fedsvd.studies.parties import PartyData
from fedsvd.studies.run import Outcome
from fedsvd.studies.study import Study
from fedsvd.tasks.option import ESTIMATOR
from fedsvd.tasks.options import scripted
from fedsvd.tasks.surface import Surface, in_words_of
from fedsvd.types import Float

# One owner's table, divided to rehearse, is not released to another party: only what a scheme leaks is worth a warning.
_REHEARSED = replace(Policy.permissive(), schemes=Policy().schemes, warn=True)


T = TypeVar("T")


class NotFitted(NotFittedError, UnfittedInSklearn):  # type: ignore[misc]
    """Not fitted yet: the error of fedsvd and scikit-learn's at once."""


class Federated(Common, BaseEstimator):
    """The common parameters, checked when they are used, as scikit-learn wants it."""

    split: str
    preparation_: Any = None  # what prepares new tables, of a result that was loaded
    ids: str = Ids.COMPARE  # a parameter where features may be split
    align: Align | None = None  # likewise
    job_: str  # the job that this was fitted by, of a federation
    _part = False  # one party's part of split columns
    _elsewhere = ""  # who has what this kit has not
    n_features_in_: int
    feature_names_in_: NDArray[Any]
    # Attributes that are outputs as their task declares them: those of its own an estimator has (``stored.py``).
    mean_: Float
    U_: Float
    singular_values_: Float
    cv_errors_: Float
    plan_: SessionPlan
    certificate_: Certificate
    _found: Found  # the result, which ``plot`` draws

    def __init_subclass__(cls, **settings: Any) -> None:
        """Errors of every estimator's ``fit`` are in keywords, which its user typed; docstrings say what X is."""
        super().__init_subclass__(**settings)
        with_samples(cls)
        if "fit" in vars(cls):
            cls.fit = in_words_of(Surface.KEYWORDS)(cls.fit)  # type: ignore[attr-defined]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def set_params(self, **params: Any) -> Self:
        """Set parameters, as scikit-learn does.

        Parameters
        ----------
        **params : dict
            Parameters by name.

        Returns
        -------
        self
        """
        expect_not_moved(params)
        return super().set_params(**params)

    @property
    def plot(self) -> Plots:
        """Drawings of the result with Matplotlib: ``plot.scree()``, ``plot.forest()``, ..."""
        self._expect_fitted()
        return Plots(self)

    @property
    def _masks(self) -> Masks:
        return Masks() if self.masks is None else _expect_kind("masks", self.masks, Masks)

    @property
    def _where(self) -> Simulation | Local:
        if isinstance(self.federation, Local):
            return self.federation
        if isinstance(self.federation, Federation):
            return Simulation()  # what is computed after ``fit`` is computed here
        return Simulation() if self.federation is None else _expect_kind("federation", self.federation, Simulation)

    def _between(self, task: Task, X: Any, y: Any = None, **columns: Any) -> bool:
        """Fit as a job between institutions where ``federation`` says so; whether it was."""
        if not isinstance(self.federation, Federation):
            for name in ("_part", "_elsewhere", "job_"):  # of an earlier fit
                vars(self).pop(name, None)
            return False
        from fedsvd.estimators.between import fit_between  # which brings sockets and certificates along

        fit_between(self, self.federation, task, self._masks, {"X": X, "y": y, **columns})
        return True

    def _expect_whole(self, what: str) -> None:
        if self._part:
            raise ConfigError(
                f"these are the {what} of one party's columns, and mean little without the others'",
                "run fedsvd predict with all parties",
            )

    if not TYPE_CHECKING:  # a type checker that saw it would accept every attribute

        def __getattr__(self, name: str) -> Any:
            elsewhere = vars(self).get("_elsewhere", "")
            if elsewhere and name.endswith("_") and not name.startswith("_"):
                raise AttributeError(f"{type(self).__name__} has no {name} here: {elsewhere}")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def _split(self) -> Split:
        return Split(one_of("split", self.split, tuple(Split)))

    def _tables(self, X: Any, y: Any = None) -> tuple[Tables, Any]:
        one_of("ids", self.ids, tuple(Ids))
        words_of(self.align)  # refuses anything else
        tables, y = tables_of(self, X, y, self._split, whole_number("parties", self._where.parties, 2))
        if getattr(self, "fit_intercept", False):
            expect_own_intercept(tables.sources)
        return tables, y

    def _study(self, task: Task, tables: Tables | None = None, **asked: Any) -> Study:
        masks, memory = self._masks, self._where.memory
        if tables is not None:
            asked["check_ids"] = tables.compared
        # Of one table that was divided here, the rows are in one order.
        known = self.ids == Ids.TRUST or (tables is not None and tables.rehearsed)
        if self.align is not None:
            rule, words = matching_rule(self), words_of(self.align)
            said = "least_overlap" in words.model_fields_set
            least = words.least_overlap if said else (self._where.policy or Policy()).least_overlap
            asked |= {"align": words.align, "id_rule": "" if rule is None else rule.text(), "least_overlap": least}
        return Study(
            task,
            Split(self.split),
            scheme=masks.scheme,
            mode=None if masks.mode is None else Mode(one_of("mode", masks.mode, tuple(Mode))),
            trust=Trust(one_of("trust", masks.trust, tuple(Trust))),
            block_size=0 if masks.block_size is None else whole_number("block_size", masks.block_size, 1),
            memory=None if memory is None else whole_number("memory", memory, 1),
            trust_rows=known and self.split == Split.VERTICAL,
            options=scripted(task, lambda option: getattr(self, option.name(ESTIMATOR))),
            **asked,
        )

    def _run(self, study: Study, parties: Sequence[PartyData], rehearsed: bool, **said: Any) -> Outcome | Found:
        """Run the study under the owners' policy; what it gives, which the caller stores.

        Said may be the policy of a party and ``targets``, the names of y.
        """
        where = self._where
        if isinstance(where, Simulation):
            return self._simulated(study, parties, rehearsed, **said)
        warn_of(doubts(study, parties, said.get("targets", ())), Surface.KEYWORDS)
        words = {**asked_of(study.task, self.get_params(deep=False)), "device": where.device, "engine": where.engine}
        rules = where.policy or (Policy.permissive() if rehearsed else Policy())
        return found_locally(words, self._masks, study, parties, rules)

    def _simulated(
        self,
        study: Study,
        parties: Sequence[PartyData],
        rehearsed: bool,
        policy: Policy | None = None,
        targets: Sequence[str] = (),
    ) -> Outcome:
        where = self._where if isinstance(self._where, Simulation) else Simulation(policy=self._where.policy)
        seed = where.random_state
        if seed is not None:
            seed = whole_number("random_state", seed, 0)
            warn_caller(
                "random_state makes every mask and pad a function of one number: insecure seeds, for tests only"
            )
        warn_of(doubts(study, parties, targets), Surface.KEYWORDS)
        policy = policy or (_REHEARSED if rehearsed and where.policy is None else where.policy)
        how: dict[str, Any] = {"random_state": seed, "policy": policy, "device": where.device, "engine": where.engine}
        if not where.verbose:
            return run_stages(study, parties, **how)
        with shown(tuple(str(i + 1) for i in range(len(parties)))) as progress:
            return run_stages(study, parties, progress=progress, **how)

    def _store_run(self, ran: Outcome | Found, tables: Tables, **about: Any) -> Found:
        """Every attribute that a study gives; ``about`` is what ``fit`` alone knows of it (``Found``)."""
        if isinstance(ran, Outcome):
            matched = ran.matched
            ids = None if matched is None else joint_ids(matched, np.asarray(tables.ids[0]), tables.spelt)
            ran = of_outcome(ran, about.get("targets", ()), ids)
        found = replace(ran, **about)
        store(self, found)
        return found

    @abstractmethod
    def _store(self, found: Found) -> None:
        """Set the attributes that follow from several outputs; those that are one output are set before."""

    def _expect_rows_belong(self, parts: Sequence[Part]) -> None:
        """Where new features are split: parts whose rows have ids have the same ones, or it is said that none do."""
        if all(part.ids is not None for part in parts):
            for part in parts[1:]:
                expect_same(np.asarray(parts[0].ids), np.asarray(part.ids), "the row ids of two parties")
        else:
            warn_of(doubts(self._study(Task.PREDICT), ()), Surface.KEYWORDS)

    def _expect_fitted(self) -> None:
        try:
            check_is_fitted(self)
        except UnfittedInSklearn:
            raise NotFitted(f"this {type(self).__name__} is not fitted yet", "call fit first") from None


def _expect_kind(name: str, value: Any, kind: type[T]) -> T:
    if not isinstance(value, kind):
        raise ConfigError(f"{name} is of the type {type(value).__name__}", f"give fedsvd.{kind.__name__}(...)")
    return value


def one_of(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """A parameter that is one of these words, or ``ConfigError``."""
    if value not in allowed:
        raise ConfigError(f"{name} is {value!r}", f"one of {', '.join(allowed)}")
    return str(value)


def whole_number(name: str, value: Any, least: int) -> int:
    """A parameter that is a whole number of at least ``least``, or ``ConfigError``."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ConfigError(f"{name} is {value!r}", f"a whole number of at least {least}")
    return int(value)


_PANEL_BYTES = 1 << 26


class FederatedTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Federated):
    """An estimator whose ``components_``, (r, n_features), project samples."""

    n_components: int | float | str | None  # only PCA takes a share or a rule
    components_: Float

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def transform(self, X: Any) -> Float:
        """Coordinates of samples along the components.

        Parameters
        ----------
        X : {samples}

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        self._expect_fitted()
        self._expect_whole("components")
        vertical = are_parties(X) and self.split == Split.VERTICAL
        given = parts_like_fitted(self, X)
        if vertical and self.align is not None:
            orders = common_positions([np.asarray(part.ids) for part in given])
            given = [part._replace(source=part.source.reordered(own)) for part, own in zip(given, orders, strict=True)]
        elif vertical:
            self._expect_rows_belong(given)
        parts = [self._coordinates(part.source, part.columns) for part in given]
        return np.sum(parts, axis=0) if vertical else np.concatenate(parts)

    def inverse_transform(self, X: Any) -> Float:
        """Samples with these coordinates.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        self._expect_fitted()
        coordinates = check_array(X, dtype=np.float64)
        if coordinates.shape[1] != self._n_features_out:
            raise ShapeError(
                f"X has {coordinates.shape[1]} coordinates, expected {self._n_features_out}",
                "give what transform returned",
            )
        return self._samples(coordinates)

    def _coordinates(self, source: MatrixSource, columns: slice) -> Float:
        """Of samples of which only these columns are not zero."""
        return projected(source, self.components_[:, columns].T)

    def _samples(self, coordinates: Float) -> Float:
        return coordinates @ self.components_

    def _wanted(self, tables: Tables) -> int:
        """How many components are promised: all that the joint table can have, unless a number was asked for."""
        most = min(tables.n_samples, tables.n_features)
        if self.n_components is None:
            return most
        wanted = whole_number("n_components", self.n_components, 1)
        if wanted > most:
            shape = f"n_samples={tables.n_samples} and n_features={tables.n_features}"
            raise ConfigError(f"n_components={wanted} is too large for {shape}", f"between 1 and {most}")
        return wanted


def projected(source: MatrixSource, W: Float, mean: Float | None = None) -> Float:
    """``(D - mean) W`` by panels of rows; without a mean, a sparse D is never made dense."""
    out = np.empty((source.shape[0], W.shape[1]))
    for part, D in _panels(source, may_be_sparse=mean is None):
        # Centred before the product: with a large mean the difference of two products would cancel.
        out[part] = (D if mean is None else D - mean) @ W
    return out


def row_lengths(source: MatrixSource) -> Float:
    """The Euclidean norm of every row."""
    out = np.empty(source.shape[0])
    for part, D in _panels(source, may_be_sparse=True):
        out[part] = row_norms(D)
    return out


def _panels(source: MatrixSource, may_be_sparse: bool) -> Iterator[tuple[slice, Any]]:
    height = max(1, _PANEL_BYTES // (8 * source.shape[1]))
    for start in range(0, source.shape[0], height):
        part = slice(start, min(start + height, source.shape[0]))
        if may_be_sparse and isinstance(source, SparsePanels):
            yield part, source.sparse_rows(part.start, part.stop)
        else:
            yield part, source.rows(part.start, part.stop)


def only_a_part(what: str) -> ConfigError:
    """The refusal to apply one party's part of a result alone."""
    return ConfigError(
        f"these are the {what} of one party's columns, and mean little without the others'",
        "run fedsvd predict with all parties, or load the folder of the job",
    )
