"""What the four estimators have in common: parameters, the run, being fitted (ADR 0011).

Only public names of scikit-learn are used. An estimator holds results, the plan and the certificate: no secret, no
role and no message, so that its owner can save it as any other estimator.

``FederatedTransformer`` is what FederatedSVD, FederatedPCA and FederatedLSA share: their components project samples.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from inspect import cleandoc, signature
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError as UnfittedInSklearn
from sklearn.utils.extmath import row_norms
from sklearn.utils.validation import check_array, check_is_fitted

from fedsvd.data.source import MatrixSource
from fedsvd.data.sparse import SparsePanels
from fedsvd.engine.progress import shown
from fedsvd.errors import ConfigError, NotFittedError, ShapeError, warn_caller
from fedsvd.estimators.matched import Align, common_positions, joint_ids, matching_rule, words_of
from fedsvd.estimators.rows import expect_same
from fedsvd.estimators.tables import Part, Tables, are_parties, parts_like_fitted, tables_of
from fedsvd.policy.rules import Policy
from fedsvd.protocol.certificate import Certificate
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Ids, Mode, Split, Task, Trust
from fedsvd.studies.doubts import doubts, warn_of
from fedsvd.studies.matching import run_stages
from fedsvd.studies.parties import PartyData
from fedsvd.studies.run import Outcome
from fedsvd.studies.study import Study
from fedsvd.types import Float

# One owner's table, divided to rehearse, is not released to another party: only what a scheme leaks is worth a warning.
_REHEARSED = replace(Policy.permissive(), schemes=Policy().schemes, warn=True)
# Parameters and attributes that the estimators share, as they stand in the docstring of each (``documented``).
_PARAMETERS = """\
scheme : {"auto", "sum", "mask", "paper"}, default="auto"
    How data is hidden before it is added up; "auto" picks "sum" where the side that all parties share is short,
    else "mask".
mode : {"A", "B"}, default=None
    Who opens the sum of Gram matrices in the scheme "sum": the parties, who then hold all of it (A), or the CSP
    under a mask (B). None for A where the release determines that matrix, else B.
trust : {"peers", "authority"}, default="peers"
    Who deals the masks: the parties among themselves, or a Trusted Authority.
block_size : int, default=None
    Width of mask blocks in the paper's scheme; None for 1000.
memory : int, default=None
    Bytes that each role may use; None for 2 GiB, or as much as a joint Gram matrix needs, up to
    half of this machine's memory.
n_parties : int, default=2
    Among how many parties a single table is divided, to rehearse.
policy : Policy, default=None
    What the owners allow to be released. None for the default policy, which warns of a study below it
    (``PrivacyWarning``) and does not refuse it; one table, which has one owner, is not held to it.
device : str, default=None
    Where every role computes: "cuda", "cuda:1", "cupy"; None for NumPy on the CPU.
engine : str, default=None
    "dask" compresses and factorises on a cluster of this machine's cores, "tls://host:port" on the cluster of
    that scheduler; None for this process alone.
random_state : int, default=None
    None takes every secret from the operating system. A number is for tests, and warns.
id : str or list of str, default=None
    The column of row ids in every party's table, or several that make an id together: they are left out of the data.
"""
_IDS = """\
ids : {"compare", "trust"}, default="compare"
    Split by features, rows belong together by position. Ids (``id``, or the indexes of pandas frames, which need not be
    named) are compared, and a difference is an error (``RowsDiffer``); where there are none, a ``RowsNotCompared``
    warns. "trust" takes the order on your word.
align : {"server", "ecdh"} or mapping, default=None
    Split by features, match the parties' records by ``id`` first, in a session of its own: tables may hold any records
    in any order, and the joint samples are those that all parties have. "server": the CSP compares keyed hashes and
    learns how large sets and overlaps are. "ecdh": the parties blind points in turn, and it learns how large sets are.
    A mapping has the words of ``[match]`` in a job file: ``{"align": "ecdh", "dates": ["born"], "least_overlap": 50}``.
"""
_VERBOSE = """\
verbose : bool, default=False
    Show progress on standard error: bars on a terminal or in a notebook, otherwise a line to every ten per cent.
"""
_ATTRIBUTES = """\
n_features_in_ : int
    Features of the joint table.
feature_names_in_ : ndarray of shape (n_features,)
    Where the tables have column names that are text, all different.
certificate_ : Certificate
    Residual and orthogonality of the result, bytes by link, seconds by stage.
plan_ : SessionPlan
    What the parties agreed on before anything was sent.
row_ids_ : ndarray of shape (n_samples,)
    With ``align``, the ids of the joint samples in their order.
matching_ : tuple of MatchReport
    With ``align``, how many of each party's records were matched.
"""

E = TypeVar("E", bound=type)


def documented(estimator: E) -> E:
    """The class with ``{parameters}`` and ``{attributes}`` in its docstring replaced by what all estimators share."""
    text = cleandoc(estimator.__doc__ or "")
    taken = signature(estimator).parameters
    entries = re.split(r"^(?=\w+ : )", _PARAMETERS + _IDS + _VERBOSE, flags=re.MULTILINE)
    said = "".join(entry for entry in entries if entry.partition(" : ")[0] in taken)
    text = text.replace("{parameters}", said.rstrip("\n"))
    estimator.__doc__ = text.replace("{attributes}", _ATTRIBUTES.rstrip("\n"))
    return estimator


class NotFitted(NotFittedError, UnfittedInSklearn):  # type: ignore[misc]
    """Not fitted yet: the error of fedsvd and scikit-learn's at once."""


class Federated(BaseEstimator):  # type: ignore[misc]
    """The common parameters, checked when they are used, as scikit-learn wants it."""

    split: str
    scheme: str
    mode: str | None
    trust: str
    block_size: int | None
    memory: int | None
    n_parties: int
    policy: Policy | None
    device: str | None
    engine: str | None
    preparation_: Any = None  # what prepares new tables, of a result that was loaded
    random_state: int | None
    id: str | Sequence[str] | None
    ids: str = Ids.COMPARE  # a parameter where features may be split
    align: Align | None = None  # likewise
    verbose: bool
    n_features_in_: int
    plan_: SessionPlan
    certificate_: Certificate

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _tables(self, X: Any, y: Any = None) -> tuple[Tables, Any]:
        split = Split(one_of("split", self.split, tuple(Split)))
        one_of("ids", self.ids, tuple(Ids))
        words_of(self.align)  # refuses what is none
        return tables_of(self, X, y, split, whole_number("n_parties", self.n_parties, 2))

    def _study(self, task: Task, tables: Tables | None = None, **asked: Any) -> Study:
        block, memory = self.block_size, self.memory
        if tables is not None:
            asked["check_ids"] = tables.compared
        # Of one table that was divided here, the rows are in one order.
        known = self.ids == Ids.TRUST or (tables is not None and tables.rehearsed)
        if self.align is not None:
            rule, words = matching_rule(self), words_of(self.align)
            said = "least_overlap" in words.model_fields_set
            least = words.least_overlap if said else (self.policy or Policy()).least_overlap
            asked |= {"align": words.align, "id_rule": "" if rule is None else rule.text(), "least_overlap": least}
        return Study(
            task,
            Split(self.split),
            scheme=self.scheme,
            mode=None if self.mode is None else Mode(one_of("mode", self.mode, tuple(Mode))),
            trust=Trust(one_of("trust", self.trust, tuple(Trust))),
            block_size=0 if block is None else whole_number("block_size", block, 1),
            memory=None if memory is None else whole_number("memory", memory, 1),
            trust_rows=known and self.split == Split.VERTICAL,
            **asked,
        )

    def _run(
        self, study: Study, parties: Sequence[PartyData], rehearsed: bool, policy: Policy | None = None
    ) -> Outcome:
        """Run the study under the owners' policy; the caller stores the result."""
        seed = self.random_state
        if seed is not None:
            seed = whole_number("random_state", seed, 0)
            warn_caller(
                "random_state makes every mask and pad a function of one number: insecure seeds, for tests only"
            )
        warn_of(doubts(study, parties))
        policy = policy or (_REHEARSED if rehearsed and self.policy is None else self.policy)
        how: dict[str, Any] = {"random_state": seed, "policy": policy, "device": self.device, "engine": self.engine}
        if not self.verbose:
            return run_stages(study, parties, **how)
        with shown(tuple(str(i + 1) for i in range(len(parties)))) as progress:
            return run_stages(study, parties, progress=progress, **how)

    def _remember_run(self, outcome: Outcome) -> None:
        """The plan, the certificate and, where records were matched, which of them are the joint samples."""
        self.plan_, self.certificate_ = outcome.plan, outcome.certificate
        for name in ("row_ids_", "matching_"):
            self.__dict__.pop(name, None)
        if outcome.matched is not None:
            self.row_ids_, self.matching_ = joint_ids(outcome.matched), outcome.matched.reports

    def _expect_rows_belong(self, parts: Sequence[Part]) -> None:
        """Where new features are split: parts whose rows have ids have the same ones, or it is said that none do."""
        if all(part.ids is not None for part in parts):
            for part in parts[1:]:
                expect_same(np.asarray(parts[0].ids), np.asarray(part.ids), "the row ids of two parties")
        else:
            warn_of(doubts(self._study(Task.PREDICT), ()))

    def _expect_fitted(self) -> None:
        try:
            check_is_fitted(self)
        except UnfittedInSklearn:
            raise NotFitted(f"this {type(self).__name__} is not fitted yet", "call fit first") from None


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


class FederatedTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Federated):  # type: ignore[misc]
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
        X : array-like, frame, sparse matrix, path or MatrixSource of shape (n_samples, n_features), or a list
            A list is read as in ``fit``: one part of the joint table per party.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        self._expect_fitted()
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
            raise ShapeError(f"X has {coordinates.shape[1]} coordinates, expected {self._n_features_out}")
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


def padded(A: Float, length: int, axis: int) -> Float:
    """A with zeros up to ``length`` along one axis: the shape scikit-learn promises where rank was lost."""
    missing = length - A.shape[axis]
    if missing <= 0:
        return A
    return np.pad(A, [(0, missing if side == axis else 0) for side in range(A.ndim)])
