"""The parameters that all estimators share: their fields, their docstrings, and where earlier ones went (ADR 0064)."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import wraps
from inspect import cleandoc, signature
from typing import Any, TypeVar

from fedsvd.errors import ConfigError
from fedsvd.estimators.federation import Federation, Local, Masks, Simulation

# Shared entries of docstrings; an estimator shows those whose parameter it has and does not describe (``documented``).
_PARAMETERS = """\
tolerance : float, default=1e-9
    The iteration ends when the next step is below this number of standard errors.
max_iterations : int, default=25
    Beyond, the fit ends in ``NotConverged``.
digits : str, default="auto"
    Digits of the sums that parties open: ``table`` or ``more``; ``auto`` is ``more`` in one process.
id : str or list of str, default=None
    The column of row ids in every party's table, or several that make an id together: they are left out of the data.
ids : {"compare", "trust"}, default="compare"
    Split by features, rows belong together by position. Ids (``id``, or the indexes of pandas frames, which need not be
    named) are compared, and a difference is an error (``RowsDiffer``); where there are none, a ``RowsNotCompared``
    warns. "trust" takes the order on your word.
align : {"server", "ecdh"} or mapping, default=None
    Split by features, match the parties' records by ``id`` first, in a session of its own: tables may hold any records
    in any order, and the joint samples are those that all parties have. "server": the CSP compares keyed hashes and
    learns how large sets and overlaps are. "ecdh": it compares points that all parties blind, and learns the same.
    A mapping has the words of ``[match]`` in a job file: ``{"align": "ecdh", "dates": ["born"], "least_overlap": 50}``.
cov_type : {"nonrobust", "HC0", "HC1", "HC2", "HC3"}, default="nonrobust"
    Which standard errors: the usual ones, or those that do not assume equal variances, by one more sum of squared
    scores. HC2 and HC3 are of models with one linear predictor; of a linear regression all need ``inference``.
cluster : str, default=None
    The column of clusters that standard errors are robust to, in every party's table; it is then no feature.
clusters : {"own", "joint"}, default="own"
    Whose names of clusters are: each party's own, so that a name at two parties is two clusters; "joint" is refused,
    because parties would learn which names others have.
masks : Masks, default=None
    How data is hidden: scheme, mode, trust and block size, which are part of the study. None for ``Masks()``.
federation : Simulation, Local or Federation, default=None
    Where the study runs, and with what: how many parties, memory, device, policy, ... None for ``Simulation()``, all
    roles in this process; ``Local()`` starts one process for each; ``Federation(kit, ...)`` is a job between
    institutions.
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
row_ids_ : ndarray of shape (n_samples,), or (n_samples, n_columns) where several columns make an id
    With ``align``, the ids of the joint samples in their order, as the first party's table spells them.
matching_ : tuple of MatchReport
    With ``align``, how many of each party's records were matched.
"""
_SAMPLES = (
    "array-like, frame, sparse matrix, path or MatrixSource of shape (n_samples, n_features), or a list",
    "A list is read as in ``fit``: one part of the joint table per party.",
)
MOVED = {
    **{name: f"masks=fedsvd.Masks({name}=...)" for name in ("scheme", "mode", "trust", "block_size")},
    **{
        name: f"federation=fedsvd.Simulation({name}=...)"
        for name in ("memory", "device", "engine", "policy", "random_state", "verbose")
    },
    "n_parties": "federation=fedsvd.Simulation(parties=...)",
}
"""Keywords of 0.2.0, and where each is given now."""

E = TypeVar("E", bound=type)


@dataclass(eq=False, repr=False, kw_only=True)
class Common:
    """The parameters that every estimator has."""

    id: str | Sequence[str] | None = None
    masks: Masks | None = None
    federation: Simulation | Local | Federation | None = None


@dataclass(eq=False, repr=False, kw_only=True)
class Iterated:
    """Those of a model that is fitted by an iteration."""

    tolerance: float = 1e-9
    max_iterations: int = 25
    digits: str = "auto"


def documented(estimator: E) -> E:
    """The class with the shared entries in its docstring, and a constructor that says where a parameter went."""
    text = cleandoc(estimator.__doc__ or "")
    taken = signature(estimator).parameters
    entries = re.split(r"^(?=\w+ : )", _PARAMETERS, flags=re.MULTILINE)
    own = set(re.findall(r"^(\w+) : ", text.partition("{parameters}")[0], flags=re.MULTILINE))
    said = "".join(entry for entry in entries if entry.partition(" : ")[0] in taken.keys() - own)
    text = text.replace("{parameters}", said.rstrip("\n"))
    estimator.__doc__ = text.replace("{attributes}", _ATTRIBUTES.rstrip("\n"))
    made = vars(estimator)["__init__"]  # by the dataclass
    setattr(estimator, "__init__", _naming_moved(made))  # noqa: B010
    return estimator


def with_samples(estimator: type) -> None:
    """Say what samples may be wherever a method's docstring has ``X : {samples}``."""
    for method in vars(estimator).values():
        text = getattr(method, "__doc__", None) or ""
        if "{samples}" in text:
            method.__doc__ = re.sub(
                r"^( *)(X : )\{samples\}", rf"\1\2{_SAMPLES[0]}\n\1    {_SAMPLES[1]}", text, flags=re.M
            )


def expect_not_moved(names: Iterable[str]) -> None:
    """Raise ``ConfigError`` for a parameter of 0.2.0, with its new place."""
    for name in names:
        if name in MOVED:
            raise ConfigError(f"estimators have no parameter {name!r} any more", f"give {MOVED[name]}")


def _naming_moved(init: Callable[..., None]) -> Callable[..., None]:
    @wraps(init)
    def naming(self: Any, *args: Any, **given: Any) -> None:
        expect_not_moved(given)
        init(self, *args, **given)

    return naming
