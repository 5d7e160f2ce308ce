"""Survival curves of records that several parties hold."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.arrays import ArraySource
from fedsvd.errors import ConfigError, DataError, ShapeError
from fedsvd.estimators.after_fit import data_frames
from fedsvd.estimators.base import Federated
from fedsvd.estimators.by_formula import read_formula
from fedsvd.estimators.parameters import documented
from fedsvd.estimators.row_columns import expect_everywhere, expect_groups, opened
from fedsvd.estimators.rows import expect_no_text
from fedsvd.estimators.stored import Found
from fedsvd.estimators.tables import Tables
from fedsvd.protocol.model import Digits
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Counts, Interval, RankTest, Split, Task
from fedsvd.results.survival_tables import Curves
from fedsvd.statistics.fives import LEAST_COUNT, even_edges
from fedsvd.statistics.incidence import Incidence
from fedsvd.statistics.log_rank import GroupTest
from fedsvd.statistics.summary import Summary
from fedsvd.studies.formula_options import columns_of_curves
from fedsvd.studies.study import Study
from fedsvd.studies.table_columns import as_text
from fedsvd.tasks.option import ESTIMATOR
from fedsvd.tasks.options import scripted
from fedsvd.types import Float

_NAMES = ("time", "event", "group")
_GLANCE = ["strata", "records", "n.max", "n.start", "events", "rmean", "rmean.std.error"]
_GLANCE += ["median", "conf.low", "conf.high", "nobs"]


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class FederatedKaplanMeier(Federated):
    """Kaplan-Meier and Nelson-Aalen curves by group, and the log-rank test within sites.

    What the parties open are joint counts of events and departures at the times of a public grid, each party's rounded
    at home to multiples of five, and totals of what each party finds when it compares its own records. The hazard of a
    bin counts half of the censored at risk. With exact counts a curve is R's ``survfit`` on counts in these bins; the
    test is R's ``survdiff(... + strata(site))``.

    Parameters
    ----------
    times : sequence of float, default=()
        The times at which counts are opened, rising, at most 200. In one process about 40 even ones are made if
        none are given; a job between institutions names them, or has those of its dictionary.
    groups : sequence, default=()
        The values of the groups, in their order; those that there are, in one process.
    counts : {"fives", "exact"}, default="fives"
        Rounded at home to multiples of ``least_count``, or as they are, which may ask owners.
    least_count : int, default=5
        What counts in fives are multiples of.
    causes : sequence, default=()
        The values of events where causes compete, 0 being the end of follow-up: ``incidence_`` has the cumulative
        incidence of each. The test compares hazards of the first.
    test : {"log-rank", "gehan", "tarone-ware", "peto", "fleming-harrington", "none"}, default="log-rank"
        How groups are compared within sites.
    conf_type : {"log-log", "log", "plain"}, default="log-log"
        The scale on which intervals are symmetric.
    level : float, default=0.95
        Of intervals.
    until : float, default=0.0
        The time up to which the restricted mean is taken; 0 for the last of the times.
    digits : {"auto", "table", "more"}, default="auto"
        Of the totals of the test: 24 bits, or 44 with "more".
    {parameters}

    Attributes
    ----------
    counts_ : ndarray of shape (n_curves, 2 * n_times + 1)
        Joint cumulative events and departures at each time, and records.
    curves_ : tuple of Curve
        ``time, at_risk, events, censored, survival, error, low, high, hazard``, of each group.
    groups_, causes_ : tuple of str
        What the curves and the causes are called.
    incidence_ : tuple of tuple of Incidence
        With ``causes``: ``events, share, error, low, high`` of each group and cause.
    test_ : GroupTest or None
        ``statistic, df, p`` of the comparison within sites.
    most_off_, deviation_ : float
        How many records a count in fives may be off, at most and in the root mean square; 0 for exact ones.
    certificate_ : Certificate
    plan_ : SessionPlan
        What was opened, and what the parties agreed on before.

    Examples
    --------
    >>> import numpy as np
    >>> from fedsvd import FederatedKaplanMeier
    >>> rng = np.random.default_rng(0)
    >>> times = [rng.exponential(10, size=n) for n in (300, 500, 400)]
    >>> seen = [(t < 12).astype(float) for t in times]
    >>> km = FederatedKaplanMeier([2, 4, 6, 8, 10, 12]).fit(None, [np.minimum(t, 12) for t in times], seen)
    >>> km.curves_[0].survival.round(2).tolist()
    [0.83, 0.69, 0.58, 0.47, 0.38, 0.3]
    """

    split = "horizontal"

    times: Sequence[float] = field(default=(), kw_only=False)
    groups: Sequence[Any] = ()
    causes: Sequence[Any] = ()
    counts: str = Counts.FIVES
    least_count: int = LEAST_COUNT
    test: str = RankTest.LOG_RANK
    conf_type: str = Interval.LOG_LOG
    level: float = 0.95
    until: float = 0.0
    digits: str = "auto"

    def fit(self, X: Any, y: Any = None, event: Any = None, group: Any = None, *, formula: str | None = None) -> Self:
        """Run the study.

        Parameters
        ----------
        X : list of one table per party, or None
            Data frames, paths or MatrixSource with the columns that the others name; None where these are arrays.
        y : str, or list of one array per party
            Times at which records left: by the event, or because follow-up ended.
        event : likewise
            1 where the event was seen at that time, 0 where follow-up ended.
        group : likewise, default=None
            Of which group each record is.
        formula : str, default=None
            In their place: ``"Surv(time, event) ~ group"``, or ``~ 1`` for one curve.

        Returns
        -------
        self
        """
        if formula is not None:
            y, event, group = columns_of_curves(
                read_formula(formula, Task.SURVIVAL, {"y": y, "event": event, "group": group})
            )
        if self._between(Task.SURVIVAL, X, y, event=event, group=group):
            return self
        if event is None:
            raise ConfigError("survival curves need events", "give 1 where the event was seen, 0 where follow-up ended")
        columns = self._columns(X, {"y": y, "event": event, "group": group})
        groups, coded = self._coded(columns)
        sources = tuple(ArraySource(part, _NAMES[: part.shape[1]]) for part in coded)
        tables = Tables(sources, _NAMES[: coded[0].shape[1]], Split.HORIZONTAL, rehearsed=False)
        given = {"times": self._grid(coded), "groups": groups, "causes": _texts(self.causes)}
        parties = tables.parties()
        study: Study = self._study(Task.SURVIVAL, tables, digits=Digits(self.digits))
        options = scripted(
            Task.SURVIVAL, lambda option: given.get(option.key, getattr(self, option.name(ESTIMATOR), None))
        )
        outcome = self._run(replace(study, options=options), parties, rehearsed=False)
        self.n_features_in_ = len(tables.names or ())
        known = {"groups": groups, "causes": _texts(self.causes)}
        self._store_run(outcome, tables, known={key: names for key, names in known.items() if names})
        return self

    def tidy(self) -> Any:
        """The curves as a data frame, with the columns of R's ``broom::tidy(survfit)``.

        Returns
        -------
        pandas.DataFrame
            ``time, n.risk, n.event, n.censor, estimate, std.error, conf.high, conf.low, cumhaz, strata``; with
            ``causes`` also ``state``, and rows for each of them.
        """
        return data_frames().DataFrame(self._drawn().columns())

    def summary_frame(self) -> Any:
        """A row for each curve: records, events, median with its interval, restricted mean with its error.

        Returns
        -------
        pandas.DataFrame
        """
        return data_frames().DataFrame(self._drawn().rows())

    def summary(self) -> Summary:
        """A row for each curve: records, events, median and restricted mean, and the comparison of groups.

        Returns
        -------
        Summary
            ``print`` shows it as text, a notebook as a table; ``to_latex()``, ``to_html()``, ``to_docx(path)``.
        """
        return self._drawn().summary(self.test_, self.most_off_)

    def glance(self) -> Any:
        """A row for each curve with the names of R's ``broom::glance(survfit)``.

        Returns
        -------
        pandas.DataFrame
            ``strata, records, n.max, n.start, events, rmean, rmean.std.error, median, conf.low, conf.high, nobs``.
        """
        found = self.summary_frame().rename(columns={"std.error": "rmean.std.error"})
        found = found.assign(**dict.fromkeys(("n.max", "n.start", "nobs"), found["records"]))
        return found[_GLANCE]

    def _drawn(self) -> Curves:
        self._expect_fitted()
        return Curves.of(self.plan_, self.counts_, self.groups_, self.causes_)

    def _columns(self, X: Any, named: dict[str, Any]) -> dict[str, list[NDArray[Any]]]:
        """Every column by party."""
        given = {key: value for key, value in named.items() if value is not None}
        if "y" not in given:
            raise ConfigError(
                "survival curves need times", "give them as y: a column of the tables X, or X=None and arrays"
            )
        if any(isinstance(value, str) for value in given.values()):
            sources = opened(X)
            for key, name in given.items():
                expect_everywhere(sources, key, str(name))
            return {key: [source.column(str(name)) for source in sources] for key, name in given.items()}
        found = {key: [np.asarray(part) for part in value] for key, value in given.items()}
        lengths = {key: [len(part) for part in parts] for key, parts in found.items()}
        if len(found["y"]) < 2 or any(each != lengths["y"] for each in lengths.values()):
            raise ShapeError("times, events and groups are lists of one array per party", "give each the same lengths")
        expect_groups(given.get("group", ()))
        return found

    def _coded(self, columns: dict[str, list[NDArray[Any]]]) -> tuple[tuple[str, ...], list[Float]]:
        """The names of the groups, and every party's table of times, events and numbers of groups."""
        plain = [
            np.column_stack((_numbers(time, "time"), self._events(event)))
            for time, event in zip(columns["y"], columns["event"], strict=True)
        ]
        if "group" not in columns:
            return (), plain
        texts = [as_text(np.asarray(part)) for part in columns["group"]]
        names = _texts(self.groups) or tuple(np.unique(np.concatenate(texts)).tolist())
        wrong = DataError("a record is in none of the groups", "name all groups, or leave these rows out")
        return names, [
            np.column_stack((own, _codes(part, names, wrong))) for own, part in zip(plain, texts, strict=True)
        ]

    def _events(self, event: NDArray[Any]) -> Float:
        """Events as numbers: 0 or 1, or 0 and the number of a cause from 1."""
        if not len(self.causes):
            return _numbers(event, "event")
        wrong = DataError("an event is neither 0 nor one of the causes", "name every cause, and code the rest as 0")
        return _codes(as_text(np.asarray(event)), ("0", *_texts(self.causes)), wrong)

    def _grid(self, tables: Sequence[Float]) -> tuple[float, ...]:
        """The times that were given; in one process, where all records are here, even ones up to the last."""
        if len(self.times):
            return tuple(float(time) for time in self.times)
        # Times that are missing or infinite are refused where they are read.
        return even_edges(max(float(part[np.isfinite(part[:, 0]), 0].max(initial=0.0)) for part in tables))

    def _store(self, found: Found) -> None:
        self.counts_ = found.here.arrays["counts"]
        # Tables of a local run have numbers where groups and causes have names.
        drawn = Curves.of(found.plan, self.counts_, *(found.known.get(key, ()) for key in ("groups", "causes")))
        self.groups_, self.causes_, self.curves_ = drawn.names, drawn.causes, drawn.drawn
        self.incidence_: tuple[tuple[Incidence, ...], ...] = tuple(each.causes for each in drawn.groups if each.causes)
        rounded = found.fact("rounded") or {}
        self.most_off_, self.deviation_ = float(rounded.get("most_off", 0)), float(rounded.get("deviation", 0.0))
        said = found.fact("test")
        self.test_ = None
        if said is not None:
            numbers = {key: math.nan if said[key] is None else said[key] for key in ("statistic", "p")}
            self.test_ = GroupTest(**{**said, **numbers, "difference": tuple(said["difference"])})


def _numbers(values: NDArray[Any], what: str) -> Float:
    expect_no_text(values, what)
    return np.asarray(values, np.float64)


def _texts(values: Sequence[Any]) -> tuple[str, ...]:
    return tuple(as_text(np.asarray(list(values))).tolist()) if len(values) else ()


def _codes(texts: NDArray[np.str_], names: Sequence[str], wrong: DataError) -> Float:
    """Of each text the number of its place among the names."""
    place = {name: float(code) for code, name in enumerate(names)}
    if not place.keys() >= set(texts.tolist()):
        raise wrong
    return np.array([place[text] for text in texts.tolist()])


def estimators_of(plan: SessionPlan) -> tuple[type[Federated], type[Federated]]:
    """The estimator of a result, and that of one party's columns alone."""
    return FederatedKaplanMeier, FederatedKaplanMeier
