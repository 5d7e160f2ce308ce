"""What a party brings to a study, and what it must pass before anything is sent.

Here are the one rule of who holds the labels and the one check of whether the parties' tables fit together; a job file,
an estimator, a simulation and a CSP with the members' shapes all ask these. Each fault gets one error with a code and a
fix, and no key, hash or share has left the site by then. What can only be known together (whether the parties' ids
agree) is found inside the session.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.source import MatrixSource
from fedsvd.data.views import Stacked
from fedsvd.errors import ConfigError, DataError, FedSVDError, NotFinite, RepeatedIds, ShapeError, together
from fedsvd.prepare.at_home import HomeReport
from fedsvd.prepare.matching import MatchReport
from fedsvd.prepare.table_map import NOTHING, TableMap
from fedsvd.protocol.families import Outcome
from fedsvd.protocol.model import ModelPlan
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Answer, Labels, Robust, Split, Task
from fedsvd.studies.problems import Problems
from fedsvd.studies.study import Study
from fedsvd.tasks.declared import declared
from fedsvd.types import Float, closest

_THESE = "name those that all have (columns), leave others out (drop), or call them alike (rename)"
_MATCH = 'Or match records by their ids: align = "ecdh" under [match], and id = "COLUMN" under [job]'
_NAMES_COMPARED = 10_000  # of tables with more columns the missing ones are not looked for
_NAMES_SHOWN = 10
_NO_NAME = ("", "nan", "none", "<na>", "nat")  # what tables make of an empty cell, as text


@dataclass(frozen=True, repr=False)
class PartyData:
    """What one party brings: its table D_i, samples in rows, and what goes with it."""

    table: MatrixSource
    labels: Float | None = None  # (samples, targets)
    ids: NDArray[Any] | None = None
    weights: tuple[Float, Float] | None = None  # to predict with: (features, targets), (targets,)
    row_weights: Float | None = None  # (samples,), above 0, where the study is of weighted rows
    clusters: NDArray[Any] | None = None  # (samples,), where errors are robust to clusters
    file: str = ""  # where the table was read from, for texts about it
    prepared: HomeReport | None = None  # what was done to it at home; never sent
    without_link: int = 0  # records that its linkage map does not know, and that are left out
    matched: MatchReport | None = None  # how many of its records all parties have; never sent
    mapped: TableMap = NOTHING  # how its site mapped it; never sent

    def __repr__(self) -> str:
        return f"PartyData(table={self.table.shape}, labels={self.labels is not None})"


def oriented(study: Study | SessionPlan, party: PartyData) -> MatrixSource:
    """X_i, (m, n_i): the table as it is when columns are split, transposed when rows are."""
    if study.split is Split.VERTICAL:
        return party.table
    # Labels of a generalised linear model are no rows: weights are made of them.
    if (study.labels if isinstance(study, SessionPlan) else study.labels_at) is Labels.JOINED:
        if party.labels is None:
            raise ConfigError(
                "every party of a horizontal regression needs its labels", "name the label column (label)"
            )
        return Stacked(party.table, party.labels).T
    return party.table.T


def expect_shapes(study: Study, parties: Sequence[PartyData]) -> None:
    """Refuse parties that do not fit together, as far as shapes show; all that is wrong is one error."""
    if len(parties) < 2:
        raise ConfigError(
            f"a federation needs at least two parties, got {len(parties)}",
            "name another party, each with a table of its own",
        )
    found = [*_shape_faults(study, parties)]
    if found:
        raise together(found)


def _shape_faults(study: Study, parties: Sequence[PartyData]) -> Iterator[FedSVDError]:
    if study.about.answer is not Answer.RECORDS:  # whose tables have as many rows as they like
        extents = {str(i): Extent(*party.table.shape) for i, party in enumerate(parties, start=1)}
        yield from misfits(study.split, extents)
    if study.labels_at is Labels.STACKED or study.about.answer is Answer.SCORES:
        _expect_label_user(study, len(parties))
    for index, party in enumerate(parties, start=1):
        try:
            if study.about.labelled:
                _expect_labels(study, index, party)
            if study.about.answer is Answer.SOLUTION:
                _expect_rows(study, index, party)
            if study.robust is Robust.CLUSTER:
                _expect_clusters(index, party)
            if study.glm is not None:
                _expect_target(study.glm, index, party)
            if study.about.answer is Answer.SCORES:
                _expect_weights(index, party)
            if study.check_ids or study.about.answer is Answer.RECORDS:
                _expect_ids(index, party)
        except FedSVDError as error:
            yield error


# --- do the tables fit ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Extent:
    """How large a party's table is; its column names, or a digest of them, where they must agree."""

    rows: int
    columns: int
    features: Sequence[str] = ()  # in any order: a table is put in the order of the others


def misfits(split: Split, extents: Mapping[str, Extent]) -> Iterator[ShapeError]:
    """Why the tables of these parties, by name, do not fit together: the common side and, split by rows, the names."""
    if not extents:
        return
    vertical = split is Split.VERTICAL
    what = "rows" if vertical else "columns"
    first = next(iter(extents))
    sizes = {name: extent.rows if vertical else extent.columns for name, extent in extents.items()}
    unequal = [name for name in sizes if sizes[name] != sizes[first]]
    names = [] if vertical else _other_names({name: extent.features for name, extent in extents.items()})
    if unequal:
        listed = ", ".join(f"party {name} has {sizes[name]}" for name in (first, *unequal[:3]))
        more = f", and {len(unequal) - 3} more differ" if len(unequal) > 3 else ""
        fix = f"give all parties the same {what}" + (f". {_MATCH}" if vertical else f": {_THESE}" if names else "")
        fault = "; ".join([f"parties have different numbers of {what}: {listed}{more}", *names])
        yield ShapeError(fault, fix)
    elif names:
        yield ShapeError(f"parties have different columns: {'; '.join(names)}", f"give all parties the same: {_THESE}")


def expect_fitting(split: Split, extents: Mapping[str, Extent]) -> None:
    """Raise ``ShapeError`` unless the tables of these parties fit together."""
    found: list[FedSVDError] = [*misfits(split, extents)]
    if found:
        raise together(found)


def _other_names(features: Mapping[str, Sequence[str]]) -> list[str]:
    """Which columns each party lacks, and which only some have; every party is named. Digests say that they differ."""
    (first, ours), *others = features.items()
    if any(isinstance(names, str) for names in features.values()):  # digests: which names differ is not known
        unlike = [name for name, theirs in others if theirs != ours]
        several = "have" if len(unlike) > 1 else "has"
        return [f"party {_listed(unlike, str)} {several} columns of other names than party {first}"] if unlike else []
    if max(map(len, features.values())) > _NAMES_COMPARED:
        unlike = [name for name, theirs in others if not _alike(theirs, ours)]
        return [f"party {_listed(unlike, str)} has other names than party {first}"] if unlike else []
    holders: dict[str, list[str]] = {}
    for party, names in features.items():
        for name in names:
            holders.setdefault(name, []).append(party)
    lacking: dict[str, list[str]] = {}
    surplus: dict[tuple[str, ...], list[str]] = {}
    for name, held in holders.items():
        if len(held) <= len(features) / 2:
            surplus.setdefault(tuple(held), []).append(name)
        else:
            for party in features:
                if party not in held:
                    lacking.setdefault(party, []).append(name)
    found = [f"party {party} has no column {_listed(names)}" for party, names in lacking.items()]
    for holding, names in surplus.items():
        like = closest(names[0], lacking.get(holding[0], ())) if len(holding) == 1 else None
        hint = "" if like is None else f" (another name for {like!r}?)"
        found.append(f"only party {_listed(holding, str)} has {_listed(names)}{hint}")
    return found


def _listed(names: Sequence[str], spelt: Callable[[str], str] = repr) -> str:
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(map(spelt, names[:_NAMES_SHOWN])) + more


def one_order(features: Mapping[str, Sequence[str]]) -> tuple[str, ...] | None:
    """The order of the columns for all parties, where they have the same ones in different orders: that of their names.

    None where all have them in one order already.
    """
    first, *others = features.values()
    return None if all(_alike(names, first) for names in others) else tuple(sorted(first))


def _alike(theirs: Sequence[str], ours: Sequence[str]) -> bool:
    return theirs == ours or (len(theirs) == len(ours) and all(a == b for a, b in zip(theirs, ours, strict=True)))


# --- who holds the labels ---------------------------------------------------------------------------------------------


def label_user(task: Task, split: Split, names: Sequence[str], holding: Sequence[bool], asked: str | None) -> int:
    """The user, from 1, who alone holds the labels: of a regression on split columns; 0 elsewhere.

    ``holding`` says which parties have the label column, ``asked`` who should, if the study says so.
    """
    if declared(task).label_place(split) is not Labels.STACKED:
        return 0
    found = [name for name, holds in zip(names, holding, strict=True) if holds]
    if asked is None and len(found) != 1:
        if not found:
            raise ConfigError("no party's table has the label column", "check its name (label)")
        fault = f"the label column is in the tables of {', '.join(found)}, and one party has the labels"
        raise ConfigError(fault, f'say which: label_party = "{found[0]}"')
    if asked is not None and asked not in found:
        raise ConfigError(f"party {asked} has no label column", "name the party that holds the label (label_party)")
    holder = found[0] if asked is None else asked
    others = [name for name in found if name != holder]
    if others:
        raise _label_twice(", ".join(others))
    return list(names).index(holder) + 1


def brings_labels(task: Task, split: Split, name: str, present: bool, asked: str | None) -> bool:
    """Whether this party brings the labels, as far as it can know alone: ``label_user`` is for when all have said."""
    if not declared(task).labelled:
        return False
    if split is Split.HORIZONTAL or asked == name:
        return True
    if present and asked is not None:
        raise _label_twice(name)
    return present


def _label_twice(who: str) -> ConfigError:
    # As a feature it would be the answer among the questions.
    return ConfigError(f"{who} has a column with the name of the label too", "rename or remove it there")


def expect_readable(
    parties: Sequence[PartyData], seen: Callable[[int, float | None], None] = lambda index, seconds: None
) -> None:
    """Read every table once: what would stop a pass in the middle of a session is refused before it, all at once.

    ``seen`` is called with the number of a party when its table begins to be read, and with the seconds that it took.
    """

    def tables() -> Iterator[tuple[str, str, MatrixSource]]:
        for index, party in enumerate(parties, start=1):
            seen(index, None)
            started = perf_counter()
            yield str(index), party.file, party.table
            seen(index, perf_counter() - started)

    problems = Problems()
    problems.read(tables())
    problems.expect_none()


def _expect_label_user(study: Study, k: int) -> None:
    if not 1 <= study.label_user <= k:
        raise ConfigError(f"label_user = {study.label_user}", f"the party with the labels, 1 to {k}")


def _expect_labels(study: Study, index: int, party: PartyData) -> None:
    holder = study.split is Split.HORIZONTAL or index == study.label_user
    if party.labels is None:
        if holder:
            raise ConfigError(
                f"party {index} has no labels",
                "name the label column (label) and the party that holds it (label_party)",
            )
        return
    if not holder:
        raise ConfigError(f"party {index} has labels, and party {study.label_user} holds them", "give them once")
    expected = party.table.shape[0], study.targets
    if party.labels.shape != expected:
        raise ShapeError(
            f"party {index} has labels of shape {party.labels.shape}, expected {expected}",
            "give one label for each row and target",
        )
    missing = int(np.count_nonzero(~np.isfinite(party.labels)))
    if missing:
        raise NotFinite(
            f"{missing} of party {index}'s {party.labels.size} labels are missing, NaN or infinite",
            'leave these rows out: missing = "drop", at all parties alike',
        )


def _expect_target(about: ModelPlan, index: int, party: PartyData) -> None:
    """Refuse a target that its family does not have, and weights that are none; this needs no other party."""
    assert party.labels is not None
    try:
        expect_target(about, party.labels)
    except FedSVDError as error:
        error.fault = f"party {index}: {error.fault}"
        raise


def expect_target(about: ModelPlan, labels: Float) -> None:
    """Raise ``DataError`` unless these labels fit the model: its target, and weights where it has some."""
    # Imported here: a job is followed without special functions.
    from fedsvd.statistics.families import family_named

    y = labels[:, 0]
    if about.facts.weighs:
        from fedsvd.statistics.propensity import expect_treated

        event = about.column("event")
        expect_treated(labels[:, about.facts.counted_at], y, None if event is None else labels[:, event], about.effect)
    elif about.facts.outcome is Outcome.TIMES:
        from fedsvd.statistics.cox import expect_times

        entry = about.column("entry")
        expect_times(y, labels[:, about.facts.counted_at], None if entry is None else labels[:, entry])
    elif about.classes:
        whole = np.all((y == np.floor(y)) & (y >= 0) & (y < about.classes))
        if not whole:
            raise DataError(
                "a row has another class than those of the study",
                "name all of them: classes = [...]",
            )
    else:
        family_named(str(about.family), about.link).expect(y)
    if about.weighted and not np.all(labels[:, -1] > 0.0):
        raise DataError("a weight is not above 0", "leave out rows without weight")


def _expect_rows(study: Study, index: int, party: PartyData) -> None:
    """Refuse weights that are not there, or are none."""
    rows = party.table.shape[0]
    if study.weighted != (party.row_weights is not None):
        fault = "brings weights that the study does not have" if party.row_weights is not None else "has no weights"
        raise ConfigError(f"party {index} {fault}", "name the column of weights (weights) for all parties, or for none")
    if party.row_weights is not None:
        expect_row_weights(party.row_weights, f"party {index}", rows)


def _expect_clusters(index: int, party: PartyData) -> None:
    """Refuse clusters that are not there, or have no name."""
    rows = party.table.shape[0]
    if party.clusters is None or party.clusters.shape != (rows,):
        raise ConfigError(
            f"party {index} has no cluster for each of its {rows} rows", "name the column of clusters (cluster)"
        )
    nameless = sum(name.strip().lower() in _NO_NAME for name in party.clusters.astype(np.str_).tolist())
    if nameless:
        fix = "name the cluster of each row, or leave these rows out"
        raise DataError(f"{nameless} rows of party {index} have no cluster: the column is empty there", fix)


def expect_row_weights(weights: Float, who: str, rows: int) -> None:
    """Raise unless there is a finite weight above 0 for each row: rows of weight 0 are left out before."""
    if weights.shape != (rows,):
        raise ShapeError(f"{who} has weights of shape {weights.shape} for {rows} rows", "give one for each row")
    if not (np.isfinite(weights).all() and np.all(weights > 0.0)):
        raise NotFinite(f"{who} has weights that are missing, not finite or not above 0", "leave these rows out")


def _expect_weights(index: int, party: PartyData) -> None:
    if party.weights is None:
        raise ConfigError(f"party {index} has no coefficients to predict with", "load them from a result first")
    w_i, intercept = party.weights
    expected = party.table.shape[1], len(intercept)
    if w_i.shape != expected:
        raise ShapeError(
            f"party {index} has coefficients of shape {w_i.shape}, expected {expected}",
            "predict on the columns the model was fitted on",
        )


def _expect_ids(index: int, party: PartyData) -> None:
    if party.ids is None:
        raise ConfigError(f"party {index} has no row ids to compare", "name the id column (id)")
    rows = party.table.shape[0]
    if party.ids.shape != (rows,):
        raise ShapeError(
            f"party {index} has ids of shape {party.ids.shape} for {rows} rows", "give one id for each row"
        )
    expect_distinct(party.ids, f"party {index}'s {rows}")


def expect_distinct(ids: NDArray[Any], whose: str) -> None:
    """Raise ``RepeatedIds`` where two rows have one id; the CSP could not see it."""
    repeated = len(ids) - len(np.unique(ids.astype(np.str_)))
    if repeated:
        raise RepeatedIds(f"{repeated} of {whose} row ids occur more than once", "leave one row for each id")
