"""What a user should look at before a study runs: its numbers will be exact, and may be those of the wrong table.

Nothing here is an error, and nothing is read beyond the beginning of a table. Rows that cannot be compared are known
from the plan; the rest is about one party's own data and is shown to that party alone (on one machine: to the user).
Where all tables are here, units are compared in every study of split rows (``prepare/units.py``); between institutions
each party does it with the joint means that its study opens.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.compared import counts_rows, zeros_lost
from fedsvd.data.source import MatrixSource
from fedsvd.data.sparse import SparsePanels
from fedsvd.data.suspects import FEWEST_ROWS, id_columns, is_list_of_ratings, misread_columns
from fedsvd.errors import DataError, DataWarning, RowsNotCompared, warn_caller
from fedsvd.policy.learned import ROWS_BY_POSITION
from fedsvd.prepare.missing import Filled
from fedsvd.prepare.spellings import spelt_apart
from fedsvd.prepare.units import Spread, units_between
from fedsvd.protocol.model import Digits, ModelPlan
from fedsvd.protocol.table import TablePlan
from fedsvd.protocol.tasks import Answer, Split, Task
from fedsvd.studies.parties import PartyData
from fedsvd.studies.prepare_section import PrepareSection
from fedsvd.studies.study import Study
from fedsvd.tasks.options import option_of
from fedsvd.tasks.surface import Surface, spelt
from fedsvd.types import Float

Doubt = tuple[str, type[DataWarning]]

_COMPARED = 1000  # columns of two tables, to say whether they are one


def doubts(study: Study, parties: Sequence[PartyData], targets: Sequence[str] = ()) -> Iterator[Doubt]:
    """Everything there is to point out of a study whose tables are all here; parties by their numbers."""
    vertical = study.split is Split.VERTICAL and Split.VERTICAL in study.about.splits
    if vertical and not (study.check_ids or study.trust_rows):
        yield f"no row ids are compared, for none are named. Rows are {ROWS_BY_POSITION}", RowsNotCompared
    if vertical or study.align:
        yield from ((text, DataWarning) for text in of_ids(parties))
    if study.about.answer is Answer.SCORES:
        return  # of columns that were pointed out when the model was made
    found: dict[str, list[int]] = {}
    for index, party in enumerate(parties, start=1):
        for text in of_table(study.task, party.table):
            found.setdefault(text, []).append(index)
    for text, who in found.items():
        more = f" and {len(who) - 3} more" if len(who) > 3 else ""
        yield f"{', '.join(f'party {index}' for index in who[:3])}{more}: {text}", DataWarning
    for text in of_labels(parties, targets) if study.about.answer is Answer.SOLUTION else ():
        yield text, DataWarning
    if study.glm is not None and study.glm.facts.against_rest and not study.glm.weighted:
        yield from ((text, DataWarning) for text in of_shares(parties))
    if study.split is Split.HORIZONTAL:
        clusters = study.task in option_of("job", "cluster").tasks
        yield from ((text, DataWarning) for text in of_repeated(parties, study.glm, clusters))
        yield from ((text, DataWarning) for text in (of_levels(study.table, parties) if study.table else ()))
        classes = study.glm is not None and study.glm.classes > 0
        for text in other_units(parties, () if classes else targets):
            yield text, DataWarning


def of_shares(parties: Sequence[PartyData]) -> Iterator[str]:
    """Binomial outcomes that are neither 0 nor 1, where nothing says of how many trials they are shares."""
    for index, party in enumerate(parties, start=1):
        y = np.zeros(0) if party.labels is None else party.labels[:, 0]
        between = int(((y > 0.0) & (y < 1.0)).sum())
        if between:
            yield (
                f"party {index}: {between} outcomes of {len(y)} are neither 0 nor 1, and no weights say of how many "
                "trials they are shares: each counts as one trial. Name the number of trials as weights, or recode the "
                "outcome to 0 and 1"
            )


def of_ids(parties: Sequence[PartyData]) -> Iterator[str]:
    """Ids that have lost zeros in front at one party: no row of its would belong to a row of the others."""
    held = {
        f"party {index}": np.asarray(party.ids, np.str_)
        for index, party in enumerate(parties, start=1)
        if party.ids is not None
    }
    yield from map(str, zeros_lost("id", held))


def of_repeated(parties: Sequence[PartyData], model: ModelPlan | None = None, clusters: bool = True) -> Iterator[str]:
    """Records that a study of split rows has twice: ids of one table or of two, and one table given twice."""
    grouped = model is not None and bool(model.facts.grouped)
    clustered = grouped or any(party.clusters is not None for party in parties)
    yield from repeated_ids([*map(_ids, parties)], clustered, clusters)
    first_rows = [_beginning_of(party.table) for party in parties]
    marks = [b"" if rows is None else np.where(np.isnan(rows), 0.0, rows + 0.0).tobytes() for rows in first_rows]
    for (i, first), (j, second) in combinations(enumerate(parties, start=1), 2):
        if marks[i - 1] != marks[j - 1] or first.table is second.table or first.table.shape != second.table.shape:
            continue
        if _same_beginning(first_rows[i - 1], first_rows[j - 1]):
            yield f"party {i} and party {j} bring the same table: each of its records counts twice. Name another file"


def repeated_ids(
    held: Sequence[NDArray[np.str_] | None], clustered: bool = False, clusters: bool = True
) -> Iterator[str]:
    """Ids that several rows of one party have, and no clusters say so, or rows of two parties.

    ``clusters``: whether the study could be told of them.
    """
    fix = "Name the id as cluster too (cluster) for standard errors, or leave repeated rows out"
    if not clusters:
        fix = "Leave repeated rows out, if each person is to count once; else all is well"
    own = [None if ids is None else np.unique(ids) for ids in held]
    for index, (ids, rows) in enumerate(zip(own, held, strict=True), start=1):
        if ids is not None and rows is not None and len(ids) < len(rows) and not clustered:
            yield (
                f"party {index}: {len(rows) - len(ids)} of {len(rows)} rows have an id that another row has "
                f"too: rows of one person are not independent. {fix}"
            )
    for (i, one), (j, two) in combinations(enumerate(own, start=1), 2):
        if one is None or two is None or (counts_rows(one) and counts_rows(two)):
            continue
        shared = len(np.intersect1d(one, two, assume_unique=True))
        if shared:
            yield (
                f"party {i} and party {j} have {shared} ids in common: records that both bring count twice. Leave them "
                "out at one of them, if they are the same people"
            )


def _ids(party: PartyData) -> NDArray[np.str_] | None:
    """The ids of a party's rows: those of the study, or an index that has a name or holds texts."""
    if party.ids is not None:
        return np.asarray(party.ids, np.str_)
    labels = party.table.row_labels()
    if labels is None or (party.table.label_name is None and labels.dtype.kind in "iu"):
        return None
    return labels.astype(np.str_)


def of_levels(table: TablePlan, parties: Sequence[PartyData]) -> Iterator[str]:
    """Levels of a description that one party alone has and that look like one of the others'."""
    for place, variable in enumerate(table.variables):
        if variable.is_number:
            continue
        counts = {}
        for index, party in enumerate(parties, start=1):
            rows = slice(0, party.table.shape[0])
            codes = party.table.raw(rows, slice(place, place + 1))[:, 0]
            if table.gaps:
                at = place + len(table.variables)
                codes = codes[party.table.raw(rows, slice(at, at + 1))[:, 0] == 0.0]
            held = np.bincount(codes.astype(np.intp), minlength=len(variable.levels)).tolist()
            counts[f"party {index}"] = {level: n for level, n in zip(variable.levels, held, strict=True) if n}
        yield from spelt_apart(variable.name, counts)


def _beginning_of(table: MatrixSource) -> Float | None:
    """The first rows of a table, to compare with another one's; None where nothing is to be compared."""
    if table.shape[0] < FEWEST_ROWS or table.lazy() is not None or table.made_up or isinstance(table, SparsePanels):
        return None
    try:
        return table.raw(slice(0, FEWEST_ROWS), slice(0, min(table.shape[1], _COMPARED)))
    except DataError:
        return None


def _same_beginning(one: Float | None, two: Float | None) -> bool:
    """Whether two tables have the same first rows, which vary."""
    if one is None or two is None or not np.array_equal(one, two, equal_nan=True):
        return False
    return len(np.unique(one, axis=0)) > FEWEST_ROWS // 2


def other_units(parties: Sequence[PartyData], targets: Sequence[str] = ()) -> Iterator[str]:
    """Columns and outcomes that may be in another unit at one party; not where a preparation has compared them."""
    recipes = [None if party.prepared is None else party.prepared.recipe for party in parties]
    if len(parties) < 2 or any(recipe is not None and recipe.compared_units for recipe in recipes):
        return
    spreads = [spread for party in parties if (spread := _spread(party, len(targets))) is not None]
    if len(spreads) < len(parties) or len({len(each.means) for each in spreads}) > 1:
        return  # tables that do not fit together are refused
    table = _with_gaps(parties[0].table)
    names = [*(table.names or (f"x{j}" for j in range(table.shape[1]))), *targets]
    found = units_between(names, {f"party {index}": each for index, each in enumerate(spreads, start=1)})
    suspected = {each.of for each in found}
    misread = {  # what is wrong with these is no unit, and was said
        (of, each.name)
        for index, party in enumerate(parties, 1)
        if (of := f"party {index}") in suspected
        for each in misread_columns(_with_gaps(party.table))
    }
    yield from (str(each) for each in found if (each.of, each.name) not in misread)


def _with_gaps(table: MatrixSource) -> MatrixSource:
    """The table before its gaps were filled: one constant in all of them looks like a code, and shifts means."""
    return table.gapped if isinstance(table, Filled) else table


def _spread(party: PartyData, targets: int) -> Spread | None:
    """Of the columns, and the first ones of the labels; None where a table is no table of numbers at hand."""
    table = _with_gaps(party.table)
    if table.made_up or isinstance(table, SparsePanels) or table.lazy() is not None:
        return None
    try:
        found = Spread.of(table)
    except DataError:
        return None  # the study's own reading will refuse it, with the place
    return found.beside(Spread.of_rows(party.labels[:, :targets])) if targets and party.labels is not None else found


def units(study: Study, words: PrepareSection, described: bool = False) -> str | None:
    """Whether columns are compared for their units, in a sentence; None where a column is one party's.

    ``described`` where a dictionary says which columns there are.
    """
    if study.split is Split.VERTICAL:
        return None
    if described:
        return (
            "those of the dictionary: each party's table is compared with its ranges at home, and refused where it "
            "leaves them"
        )
    rule, centred = words.joint, study.about.centred if study.centre is None else study.centre
    centred = centred or (study.glm is not None and study.glm.facts.centred)
    by_means = centred and (study.glm is None or study.glm.digits is not Digits.ALL)
    if by_means or (rule is not None and rule.compares_units):
        return (
            "each party compares the means of its columns with those of the others together, and is shown which of its "
            "own may be in another unit"
        )
    return (
        "compared where all tables are on one machine. Between institutions this study opens no means, and a column in "
        'another unit is not noticed; centre = "joint" under [prepare] would compare them'
    )


def of_own(task: Task, party: PartyData, targets: Sequence[str] = ()) -> list[str]:
    """What an owner should know of its own data before it agrees to a study."""
    return [*of_table(task, party.table), *(of_labels([party], targets) if task is Task.LR else ())]


def of_table(task: Task, table: MatrixSource) -> Iterator[str]:
    """What looks wrong about the columns of one table."""
    if task is Task.LSA and is_list_of_ratings(table):
        yield (
            f"its {table.shape[1]} columns look like a list of ratings (user, item, rating), and lsa is of the matrix "
            "they fill: users in rows, items in columns. Make it one, scipy.sparse.coo_array((rating, (user, item))), "
            "and save it with save_npz; docs/howto/ratings.md shows how"
        )
        return
    yield from map(str, misread_columns(_with_gaps(table)))
    found = id_columns(table)
    if found:
        several = len(found) > 1
        columns = f"columns {' and '.join(found)} hold" if several else f"column {found[0]} holds"
        name = "NAME" if several or table.names is None else found[0].strip("'") or "NAME"
        yield (
            f"{columns} distinct whole numbers, one to each row, as row ids are; as data they can drown all other "
            f'columns. Name it as id (id = "{name}"), which leaves it out, or remove it; if it is data, '
            "all is well"
        )


def of_labels(parties: Sequence[PartyData], targets: Sequence[str] = ()) -> Iterator[str]:
    """The targets that are 0 or 1 wherever they are known."""
    known = [party.labels for party in parties if party.labels is not None]
    if not known:
        return
    for j in range(known[0].shape[1]):
        values = np.unique(np.concatenate([np.unique(labels[:, j]) for labels in known]))
        if values.tolist() == [0.0, 1.0]:
            what = (
                f"the outcome {targets[j]!r}" if targets else "the outcome" if known[0].shape[1] == 1 else f"target {j}"
            )
            yield (
                f"{what} is 0 or 1 in every row, so this is a linear probability model: a coefficient is the change of "
                "the probability of a 1 for one unit more, good in the middle of the data; predictions may lie below 0 "
                "or above 1, and R^2 is low even for a good model. On split rows task glm fits a logistic regression "
                "(FederatedLogisticRegression)"
            )


def warn_of(found: Iterator[Doubt], surface: Surface = Surface.KEYS) -> None:
    """Warn of each, at the line of the user's own code that asked for the study."""
    for text, kind in found:
        warn_caller(spelt(text, surface) if surface is Surface.KEYWORDS else text, kind)
