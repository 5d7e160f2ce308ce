"""What a party's own records say against a study whose sums are opened: for its owner alone.

The plan of a study shows shapes; whether one record stands out in its sums only the party itself can see. So each party
judges its own table before anything is sent, and the verdict is one bit to the others: which rule, column or record it
was stays at home. A verdict is *fine*, an *ask* (a sentence that a person answers) or a refusal.

Leverage, and why a party's own bounds the joint one: ``statistics/leverage.py`` and the threat model. What a job made
can be refused, since another job would do; what the data is, its owner is asked about (specification, section 10).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from fedsvd.policy.rules import Finding, Policy, settled

REFUSED = 0.8
"""Leverage in a column that the job made, that no owner is asked about: what is opened there is that record, but for a
quarter of its size. In all columns together it is what an owner is asked from."""

UNJUDGED = 1.0
"""``most_leverage`` of an owner who wants no own rows judged, since the table is public."""

LARGEST_OFFSET = 20.0
"""On the scale of the linear predictor: beyond it one record has all the weight, or none."""

MOST_VALUES = 20
"""Values of a column that is a code: directions among codes can be guessed, which those among measurements cannot."""

_NAMED = 6  # columns that a sentence names
_FEWEST_CLUSTERS = 5
_FEWEST_EVENTS = 50
_HINT = "log, rank or cap it, or leave it out"


@dataclass(frozen=True)
class Leverage:
    """The largest leverage of a record among some columns, and what adds most to it, in words."""

    value: float = 0.0
    column: str = ""


@dataclass(frozen=True)
class Cells:
    """Columns, the records in combinations of them that few records have, and how many combinations have none.

    Empty ones count where a dictionary says which there are, without its structural zeros: then 0 and 1 to 4 records
    end alike, and that a study waits tells the others neither.
    """

    columns: str
    few: int
    empty: int = 0


@dataclass(frozen=True)
class Grid:
    """Cells of a public grid whose exact counts are opened, and how many of them hold few own records."""

    what: str  # "time bins", say
    few: int
    cells: int
    fix: str = 'leave counts = "exact" out, which rounds them at home'
    said: str = "their exact counts are opened"


@dataclass(frozen=True)
class OwnRows:
    """What is judged of a party's own rows, as they are summed."""

    records: int = 0
    rows: int = 0  # where persons have several, and fewer of them are here than are asked for
    asked: int = 0  # how many these are
    columns: int = 0  # that are judged together, the constant among them
    made: Leverage = Leverage()  # with columns of the job, of a record that has less without them
    weighted: Leverage = Leverage()  # with the weights of the study, of a record that has less without them
    alone: Leverage = Leverage()  # in one column, with the constant
    codes: Leverage = Leverage()  # in all columns of few values
    outcome: Leverage = Leverage()  # at the weights that the outcome gives the records
    design: Leverage = Leverage()  # in all columns
    alike: tuple[str, ...] = ()  # two columns that passed joint counts and that few own records tell apart
    cells: tuple[Cells, ...] = ()  # of columns whose products are asked for
    grids: tuple[Grid, ...] = ()  # whose counts are opened as they are
    gapped: tuple[str, ...] = ()  # columns that few own records of a group miss, where it is opened how many do
    groups: tuple[int, ...] = ()  # own records of each group whose ranks are summed
    visits: bool = False  # whether persons have several rows, each of which is counted
    fills: tuple[str, ...] = ()  # columns with gaps that are filled with numbers unlike their entries
    classes: tuple[int, ...] = ()  # records of each
    compared: tuple[int, ...] = ()  # own records, treated and others, that a study weights by a score
    events: int = 0  # of two parties, where each has the other's sums: own events whose rows are summed
    clusters: tuple[int, ...] = ()  # records of each
    random: bool = False  # whether they have random effects
    offset: float = 0.0  # the largest, without its sign


@dataclass(frozen=True)
class Together:
    """The largest leverage in this study and an earlier one, of a record that has less in each by itself."""

    guessed: Leverage = Leverage()  # among codes and what jobs made: anyone can combine these without a record
    made: bool = False  # whether this job made a column
    every: Leverage = Leverage()  # among all columns


def row_findings(own: OwnRows, policy: Policy) -> tuple[Finding, ...]:
    """Everything that this party's own rows say against the study."""
    if policy.most_leverage >= UNJUDGED:
        return ()
    return (
        *_at_once(tuple(_leverage(own, policy)), tuple(_few(own, policy)), policy),
        *_cells(own, policy),
        *_grids(own, policy),
        *_table(own, policy),
        *_fills(own),
        *_classes(own, policy),
        *_clusters(own),
        *_offset(own),
    )


def _at_once(leverage: tuple[Finding, ...], few: tuple[Finding, ...], policy: Policy) -> tuple[Finding, ...]:
    """One question instead of two: with few records one of them mostly stands out somewhere. An owner who answers that
    of few records once for all is still asked about single ones."""
    asked = [each.text.partition(":")[0] for each in leverage if each.asks]
    if not (asked and few) or not settled(few, policy)[0].asks:
        return (*leverage, *few)
    return (replace(few[0], text=f"{few[0].text}; {asked[0]}"),)


def few_records(records: int, columns: int, policy: Policy) -> bool:
    """Whether so few records span so many columns that a leverage says nothing of a single one."""
    return records < policy.least_count * columns


def _leverage(own: OwnRows, policy: Policy) -> Iterator[Finding]:
    """The gravest, in one sentence."""
    limit, refused = policy.most_leverage, max(REFUSED, policy.most_leverage)
    for found, why in ((own.made, "which the job makes"), (own.weighted, "by which the job weighs records")):
        if found.value > refused:
            text = (
                f"one record makes up more than {refused:g} of the opened sums with {found.column}, {why}: users can "
                "compute its row from them. Leave it out, or pool levels"
            )
            yield Finding("leverage", text)
            return
    for found in (own.made, own.weighted, own.alone, own.codes, own.outcome):
        if found.value > limit:
            text = (
                f"one record makes up more than {limit:g} of the opened sums with {found.column}: users can compute "
                f"its row from them, roughly. Researchers can {_HINT}"
            )
            yield Finding("leverage", text, below=False, asks=True)
            return
    if own.alike:
        first, other = own.alike
        text = (
            f"{first} and {other} differ in 1 to {policy.least_count - 1} of your records: users can compute sums of "
            "these alone. Researchers can leave one of both columns out"
        )
        yield Finding("leverage", text, below=False, asks=True)
        return
    if own.design.value > refused:
        text = (
            f"one record makes up more than {refused:g} of the opened sums in one direction, mostly by "
            f"{own.design.column}: a user who knows all its values but one can compute that one, roughly. Researchers "
            f"can {_HINT}"
        )
        yield Finding("leverage", text, below=False, asks=True)


def together_findings(own: Together, policy: Policy) -> tuple[Finding, ...]:
    """What stands out in the columns of this study and of earlier ones together."""
    limit, refused = policy.most_leverage, max(REFUSED, policy.most_leverage)
    sums = "of what this study and earlier ones of your table open together"
    if own.made and own.guessed.value > refused:
        text = (
            f"one record makes up more than {refused:g} {sums}, by {own.guessed.column}: users can compute its row "
            "from the difference. Leave out what the job makes, or pool levels"
        )
        return (Finding("leverage", text),)
    found, most = (own.guessed, limit) if own.guessed.value > limit else (own.every, refused)
    if not found.value > most:
        return ()
    text = (
        f"one record makes up more than {most:g} {sums}, by {found.column}: users can compute its row from the "
        "difference, roughly. Researchers can take the columns of the earlier study, or leave it out"
    )
    return (Finding("leverage", text, below=False, asks=True),)


def _few(own: OwnRows, policy: Policy) -> Iterator[Finding]:
    if own.rows:
        text = (
            f"your {own.rows} rows are of {own.records} persons, and {own.asked} are asked for: single persons can "
            "stand out in what is released"
        )
        yield Finding("records", text, below=False, asks=True)
    if own.columns and few_records(own.records, own.columns, policy):
        text = (
            f"{own.records} records for {own.columns} columns whose sums of products are opened, "
            f"{policy.least_count * own.columns} are asked for: with so few, sums say much of single records. "
            "Researchers can name fewer columns"
        )
        yield Finding("few", text, below=False, asks=True)


def _cells(own: OwnRows, policy: Policy) -> Iterator[Finding]:
    if own.cells:
        worst = max(own.cells, key=lambda each: (each.few, each.empty))
        text = (
            f"{worst.few} records are in combinations of {worst.columns} that 1 to {policy.least_count - 1} of your "
            "records have, and products of these columns count them. Researchers can leave products out, or pool levels"
        )
        if not worst.few:
            text = (
                f"{worst.empty} combinations of {worst.columns} have none of your records, and products of these "
                "columns may show it. The dictionary can list what cannot occur (structural_zeros), and researchers "
                "can leave products out, or pool levels"
            )
        yield Finding("cells", text, below=False, asks=True)


def _grids(own: OwnRows, policy: Policy) -> Iterator[Finding]:
    """Exact counts below the least count are a disclosure, in whichever study they come."""
    for grid in own.grids:
        if grid.few:
            text = (
                f"{grid.few} of {grid.cells} {grid.what} hold 1 to {policy.least_count - 1} of your records, and "
                f"{grid.said}. Researchers can {grid.fix}"
            )
            yield Finding("cells", text, below=False, asks=True)


def _table(own: OwnRows, policy: Policy) -> Iterator[Finding]:
    """What a description counts that no joint count has cleared: gaps, ranks of few, rows of one person."""
    few = f"1 to {policy.least_count - 1}"
    if own.gapped:
        columns = ", ".join(map(repr, own.gapped[:_NAMED])) + (" and more" if len(own.gapped) > _NAMED else "")
        text = (
            f"{few} of your records of a group miss {columns}, and how many records miss a column is opened. "
            'Researchers can describe a view of complete records (missing = "drop")'
        )
        yield Finding("gaps", text, below=False, asks=True)
    if any(0 < size < policy.least_count for size in own.groups):
        text = (
            f"a group has {few} of your records, and their ranks among your other records are summed: a sum of few "
            "ranks says much of single records. Researchers can name groups with more records"
        )
        yield Finding("groups", text, below=False, asks=True)
    if own.visits:
        text = "persons have several rows of your table, and the study counts rows: five of them may be one person"
        yield Finding("persons", text, below=False, asks=True)


def _fills(own: OwnRows) -> Iterator[Finding]:
    if own.fills:
        columns = ", ".join(map(repr, own.fills))
        text = (
            f"your gaps in {columns} are filled with numbers that no entries there are, which tells them apart in sums "
            "of products: users can compute other entries of these records. Researchers can name the decimals of these "
            'columns in a dictionary, to which means are rounded, or set missing = "drop"'
        )
        yield Finding("gaps", text, below=False, asks=True)


def _classes(own: OwnRows, policy: Policy) -> Iterator[Finding]:
    few = [records for records in own.classes if 0 < records < policy.least_count]
    if few:
        text = (
            f"{len(few)} classes of the outcome have 1 to {policy.least_count - 1} of your records: what the model "
            "says of such a class it says of them"
        )
        yield Finding("classes", text, below=False, asks=True)
    elif small := [records for records in own.compared if 0 < records < 2 * policy.least_count]:
        text = (
            f"{min(small)} of your records are treated, or are not: one of these may have more than a fifth of their "
            f"weight, at most {min(1.0, 2.0 / min(small)):.0%}; {2 * policy.least_count} are asked for"
        )
        yield Finding("classes", text, below=False, asks=True)
    elif 0 < own.events < _FEWEST_EVENTS:
        text = (
            f"{own.events} events of yours, and with two parties the other one sees what your events sum up to at "
            f"every step, in a few digits; {_FEWEST_EVENTS} are asked for"
        )
        yield Finding("classes", text, below=False, asks=True)


def _clusters(own: OwnRows) -> Iterator[Finding]:
    if not own.clusters:
        return
    if own.random and len(own.clusters) == 1:
        text = (
            "all of your rows are one group with random effects: an effect of sites is seen from their totals, and the "
            "totals of a few sites are fewer bits than one fit opens. Name the party as a fixed effect: y ~ age + site"
        )
        yield Finding("own clusters", text)
    elif len(own.clusters) < _FEWEST_CLUSTERS or 2 * max(own.clusters) > sum(own.clusters):
        text = (
            f"{len(own.clusters)} clusters, the largest with {max(own.clusters)} of {sum(own.clusters)} records; at "
            f"least {_FEWEST_CLUSTERS} are asked for, none with more than half: the opened sums of scores of few "
            "clusters are nearly those of one"
        )
        yield Finding("own clusters", text, below=False, asks=True)


def _offset(own: OwnRows) -> Iterator[Finding]:
    if own.offset > LARGEST_OFFSET:
        text = (
            f"an offset beyond {LARGEST_OFFSET:g} on the scale of the linear predictor gives one record all the weight "
            "of the opened sums: take its logarithm, or another unit"
        )
        yield Finding("offset", text)
