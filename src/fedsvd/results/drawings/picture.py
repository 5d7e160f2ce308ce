"""A drawing as data: what is drawn, where, and what it says; two renderers draw it (ADR 0098).

``report/charts.py`` draws it as SVG for a page that is the same byte for byte wherever it is drawn again, and
``drawings/figures.py`` with Matplotlib for notebooks, scripts and files. Neither computes a number: all numbers are
here, so that both show the same ones. A record is never named: its name may be that of a person.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from fedsvd.protocol.outputs import RECORD, To
from fedsvd.results.outputs import declared
from fedsvd.results.report.sections import Grid
from fedsvd.results.result import PartyResult
from fedsvd.types import Float

Range = tuple[float, float]


@dataclass(frozen=True, repr=False)
class Line:
    """Points that a line connects; ``marked`` where each is worth a mark of its own, which ``says`` describes."""

    points: Float  # (n, 2)
    series: int = 1
    dashed: bool = False
    marked: bool = False
    says: tuple[str, ...] = ()
    label: str = ""


@dataclass(frozen=True, repr=False)
class Dots:
    """Many points of one colour."""

    points: Float  # (n, 2)
    series: int = 1
    label: str = ""
    values: Float | None = None  # by which each has a colour of its own, in Matplotlib


@dataclass(frozen=True, repr=False)
class Named:
    """A few points with their names; ``arrows`` from zero for the features of a biplot."""

    points: Float  # (n, 2)
    names: tuple[str, ...]
    arrows: bool = False


@dataclass(frozen=True, repr=False)
class Bars:
    """A bar at 1, 2, ...; those from ``solid`` on are hollow."""

    heights: Float
    solid: int | None = None


@dataclass(frozen=True, repr=False)
class Band:
    """What lies between two lines: an interval at every place across, in a light tone of its series."""

    low: Float  # (n, 2)
    high: Float  # (n, 2), at the same places
    series: int = 1

    @property
    def points(self) -> Float:
        """All that it reaches."""
        return np.concatenate((self.low, self.high))


Mark = Line | Dots | Named | Bars | Band


@dataclass(frozen=True, repr=False)
class Plane:
    """Marks between two axes."""

    x_label: str
    y_label: str
    marks: tuple[Mark, ...]
    x_range: Range | None = None  # None: as wide as the marks
    y_range: Range | None = None
    counted: bool = False  # components 1, 2, ... across
    zero: bool = False  # dashed lines where an axis is zero
    height: float = 320.0
    square: bool = False  # both axes have one scale
    below: tuple["Below", ...] = ()  # under the axis: numbers at risk


@dataclass(frozen=True)
class Below:
    """A row of numbers under an axis, each at its place across."""

    name: str
    series: int
    places: tuple[float, ...]
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Effect:
    """A number with the interval it may lie in, under a name; ``says`` is for those who point at it."""

    name: str
    value: float
    low: float
    high: float
    says: str
    shown: str = ""  # the number next to it, where it is not the value alone


@dataclass(frozen=True, repr=False)
class Rows:
    """A row for each name: a bar from zero, a point, or a point with its interval.

    ``ratio`` is where values are exponentials, on an axis of equal factors around 1. Drawings that are compared share
    a scale, ``span``, and its place: they leave space for the names and numbers of all rows ``among`` them.
    """

    effects: tuple[Effect, ...]
    intervals: bool = False
    ratio: bool = False
    x_label: str = ""
    span: Range | None = None
    among: tuple[Effect, ...] = ()
    dots: bool = False  # points without intervals
    before: tuple[float, ...] = ()  # a second, hollow point in each row: what the number was before
    limit: float | None = None  # what values are compared with: a dashed line


@dataclass(frozen=True, repr=False)
class Heat:
    """A square matrix of numbers between -1 and 1, with the names of its rows."""

    matrix: Float
    names: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class Picture:
    """One drawing: its name as tasks declare it, its title, what it shows in a sentence, and its numbers."""

    name: str
    title: str
    caption: str
    body: Plane | Rows | Heat
    numbers: Grid | None = None
    of: str = ""  # of which target, class or component, where there are several

    def __repr__(self) -> str:
        return f"Picture({self.name}, {self.title!r})"


@dataclass(frozen=True)
class Wish:
    """What a caller may ask of a drawing; a report takes what is usual."""

    exponentiate: bool | None = None  # None: where exponentials of the coefficients have a name
    standardised: bool | None = None  # None: where they have none
    level: float | None = None
    components: tuple[int, int] = (1, 2)
    colour: tuple[object, ...] = field(default=(), repr=False)  # one for each record


USUAL = Wish()


def whose(result: PartyResult, name: str) -> str:
    """Of which records an output has rows, in words for a title; ``objects`` says so where a caller gave them."""
    output = declared(result, name)
    if RECORD not in output.axes:
        return ""
    if output.receiver(result.split) is To.ALL:
        return "records that all parties share"
    if "records" in result.objects:
        return str(result.objects["records"])
    if result.index is not None:
        return "own records"
    return "records of all parties"


def points(x: ArrayLike, y: ArrayLike) -> Float:
    """Points in a plane, (n, 2)."""
    return np.column_stack((np.asarray(x, np.float64), np.asarray(y, np.float64)))
