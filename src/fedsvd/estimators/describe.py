"""Table 1 of records that several parties hold: ``FederatedTable``."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self

from fedsvd.data.open import open_source
from fedsvd.data.source import MatrixSource
from fedsvd.errors import ConfigError
from fedsvd.estimators.as_job import asked_of, job_file, results_of
from fedsvd.estimators.base import Federated, one_of
from fedsvd.estimators.federation import Local
from fedsvd.estimators.parameters import documented
from fedsvd.estimators.stored import Found, of_outcome, store
from fedsvd.policy.rules import Policy
from fedsvd.prepare.derived import names_of
from fedsvd.prepare.described import described
from fedsvd.prepare.dictionary import Dictionary, read_dictionary
from fedsvd.protocol.model import Digits
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Task
from fedsvd.statistics.describe import Description, Number, description_of
from fedsvd.statistics.table_one import (
    TABLEONE,
    TableOne,
    histograms_of,
    numbers_of,
    table_one,
    tests_of,
)
from fedsvd.storage.toml import spelt_fields
from fedsvd.studies.described_table import table_plan, table_words
from fedsvd.studies.job_file import job_from
from fedsvd.studies.made_dictionary import silent_dictionary
from fedsvd.studies.parties import PartyData
from fedsvd.studies.prepare_section import PrepareSection
from fedsvd.studies.stages import prepared_for

if TYPE_CHECKING:
    import pandas as pd

_SUFFIXES = {".html": "html", ".tex": "latex", ".docx": "docx", ".csv": "csv", ".txt": "text"}


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class FederatedTable(Federated):
    """Table 1 over records that stay with their parties: counts, means, quartiles, tests and standardised differences.

    Counts and what follows from them equal those of ``tableone`` on the joint table; means and deviations too, to the
    digits that are opened. Levels that too few records have outside of some party are joined. Medians, quartiles and
    histograms come from counts on a grid, which every party rounds to multiples of five at home; no smallest or largest
    value is opened. Ranks are those within each party. Between institutions columns are described by a dictionary; in
    one process one is made of the tables.

    Parameters
    ----------
    by : str, default=None
        The column whose levels are the groups.
    columns : sequence of str, default=()
        The columns that are described; all where left out.
    categorical : sequence of str, default=()
        Columns of numbers that are categories. Texts always are.
    nonnormal : sequence of str, default=()
        Numbers that are shown by median and quartiles, with a test of ranks within sites.
    counts : {"fives", "exact"}, default="fives"
        Counts on grids, rounded at home or as they are.
    quantiles : bool, default=True
        Whether counts on grids are opened.
    correlations : bool, default=False
        Whether Pearson's correlations of all numbers are.
    digits : str, default="auto"
        Digits of sums: ``table`` opens 10, 16 or 24 bits by the size of a group, ``more`` 44; ``auto`` is 44 bits in
        one process.
    dictionary : path, default=None
        The consortium's ``dictionary.toml``; None makes one of the tables.
    {parameters}

    Attributes
    ----------
    description_ : Description
        Everything below, as numbers.
    table_ : DataFrame
        Table 1 as ``tableone`` prints it.
    numbers_ : DataFrame
        The same unrounded, a row for each variable, level and group.
    tests_ : DataFrame
        Every test: t, Welch, analysis of variance, chi-squared, Fisher, ranks within sites.
    smd_ : DataFrame
        Standardised differences, a column for each pair of groups.
    histogram_ : DataFrame
        Counts between the edges of every number's grid.
    correlations_ : DataFrame
        With ``correlations``: r, low, high of every pair.
    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from fedsvd import FederatedTable
    >>> rng = np.random.default_rng(0)
    >>> tables = [
    ...     pd.DataFrame({"arm": rng.choice(["a", "b"], n), "age": rng.integers(40, 80, n)}) for n in (120, 90, 150)
    ... ]
    >>> table = FederatedTable("arm").fit(tables)
    >>> table.description_.columns, int(table.description_.sizes[-1])
    (('a', 'b', 'Overall'), 360)
    """

    split = "horizontal"

    by: str | None = field(default=None, kw_only=False)
    columns: Sequence[str] = ()
    categorical: Sequence[str] = ()
    nonnormal: Sequence[str] = ()
    counts: str = "fives"
    quantiles: bool = True
    correlations: bool = False
    digits: str = "auto"
    dictionary: str | Path | None = None

    def fit(self, X: Any, y: None = None) -> Self:
        """Run the study.

        Parameters
        ----------
        X : list of one table per party
            pandas or polars frames, paths, MatrixSource; None on a ``Federation``, whose tables are at the parties.
        y : None
            Ignored.

        Returns
        -------
        self
        """
        if self._between(Task.DESCRIBE, X):
            return self
        if not isinstance(X, list | tuple) or len(X) < 2:
            raise ConfigError("Table 1 is of the tables of two parties or more", "give a list, one table per party")
        sources = [open_source(each) for each in X]
        ids = [self.id] if isinstance(self.id, str) else list(self.id or ())
        sources = [each.without([name for name in ids if name in (each.names or ())]) for each in sources]
        agreed = self._dictionary(sources)
        if isinstance(self._where, Local):
            found = self._locally(self._where, sources, agreed)
        else:
            found = self._here(sources, agreed)
        self.n_features_in_ = len(found.plan.table.variables) if found.plan.table is not None else 0
        store(self, found)
        return self

    def _dictionary(self, sources: Sequence[MatrixSource]) -> Dictionary:
        if self.dictionary is not None:
            return read_dictionary(Path(self.dictionary))
        columns = tuple(self.columns)
        more = () if self.by is None else (self.by,)
        if columns and self.by is not None and self.by not in columns:
            columns = (self.by, *columns)
        return silent_dictionary(sources, columns, tuple(dict.fromkeys((*self.categorical, *more))))

    def _here(self, sources: Sequence[MatrixSource], agreed: Dictionary) -> Found:
        words = PrepareSection.model_validate({"columns": tuple(self.columns)})
        words = table_words(agreed, self.by, words, agreed.features, ())
        digits = Digits(one_of("digits", self.digits, tuple(Digits)))
        counts = one_of("counts", self.counts, ("fives", "exact"))
        flags = bool(self.quantiles), bool(self.correlations)
        about = table_plan(agreed, words, self.by, self.nonnormal, counts, *flags, digits)
        tables = [described(each, agreed, words.columns) for each in sources]
        parties = [PartyData(prepared_for(words, each, (), None, False).table) for each in tables]
        ran = self._simulated(self._study(Task.DESCRIBE, table=about), parties, rehearsed=False)
        return of_outcome(ran)

    def _locally(self, where: Local, sources: Sequence[MatrixSource], agreed: Dictionary) -> Found:
        """Processes on this machine, on files in a private folder that is gone afterwards."""
        words = {**asked_of(Task.DESCRIBE, self.get_params(deep=False)), "device": where.device, "engine": where.engine}
        words = {key: value for key, value in words.items() if value is not None}
        with TemporaryDirectory(prefix="fedsvd-tables-") as root:
            folder = Path(root)
            parties = []
            for number, source in enumerate(sources, start=1):
                path = folder / f"party-{number}.csv"
                _write(path, source, agreed)
                parties.append({"name": f"party-{number}", "data": str(path), "map": "levels.toml"})
            (folder / "levels.toml").write_text(spelt_fields({"map": _codes(agreed)}), encoding="utf-8")
            file = job_file({"name": "fit", **words}, self._masks, parties)
            file |= {"dictionary": {"says": agreed.record()}}
            file |= {"prepare": {"columns": list(self.columns)}} if self.columns else {}
            return results_of(job_from(file, folder), folder, where.policy or Policy())

    def _store(self, found: Found) -> None:
        kept = found.here.objects.get("described")
        if not isinstance(kept, Description):
            kept = description_of(found.fact("described"))
        self.description_: Description = kept

    @property
    def table_(self) -> "pd.DataFrame":
        """Table 1 as ``tableone`` prints it."""
        return _frame(self.as_table())

    @property
    def numbers_(self) -> "pd.DataFrame":
        """The same unrounded, in long form."""
        return _data_frame(numbers_of(self._described))

    @property
    def tests_(self) -> "pd.DataFrame":
        """Every test of every variable."""
        return _data_frame(tests_of(self._described))

    @property
    def smd_(self) -> "pd.DataFrame":
        """Standardised differences of every pair of groups."""
        import pandas as pd

        found = {each.name: dict(each.smd) for each in self._described.variables}
        return pd.DataFrame.from_dict(found, orient="index")

    @property
    def histogram_(self) -> "pd.DataFrame":
        """Counts between the edges of every number's grid."""
        return _data_frame(histograms_of(self._described))

    @property
    def correlations_(self) -> "pd.DataFrame":
        """Correlations of every pair of numbers, with intervals."""
        found = self._described.correlations
        if found is None:
            raise AttributeError("this table has no correlations: fit with correlations=True")
        upper = [(a, b) for a in range(len(found.names)) for b in range(a + 1, len(found.names))]
        rows = [(found.names[a], found.names[b], found.r[a, b], found.low[a, b], found.high[a, b]) for a, b in upper]
        columns = ("first", "second", "r", "low", "high")
        return _data_frame({key: [row[j] for row in rows] for j, key in enumerate(columns)})

    @property
    def _described(self) -> Description:
        self._expect_fitted()
        return self.description_

    def as_table(self, style: str = TABLEONE, decimals: int = 1) -> TableOne:
        """Table 1 as texts, to print or to write.

        Parameters
        ----------
        style : {"tableone", "gtsummary"}
            Whose wording rows have.
        decimals : int
            Of means, deviations, quartiles and shares.

        Returns
        -------
        TableOne
            ``print`` shows it as text, a notebook as a table; ``to_html()``, ``to_latex()``, ``to_docx(path)``.
        """
        return table_one(self._described, style, decimals)

    def summary(self) -> TableOne:
        """Table 1 as ``tableone`` prints it, under the name that models have for their table: ``as_table()``.

        Returns
        -------
        TableOne
        """
        return self.as_table()

    def tidy(self) -> "pd.DataFrame":
        """All numbers of the table in long form: ``numbers_``.

        Returns
        -------
        pandas.DataFrame
        """
        return self.numbers_

    def write(self, path: str | Path, style: str = TABLEONE, decimals: int = 1) -> None:
        """Write Table 1; the suffix says how: .html, .tex, .docx, .csv or .txt.

        Parameters
        ----------
        path : path
            Where to.
        style, decimals
            As in ``as_table``.
        """
        path, shown = Path(path), self.as_table(style, decimals)
        kind = _SUFFIXES.get(path.suffix)
        if kind is None:
            raise ConfigError(f"{path.name} has no suffix of a table", f"one of {', '.join(_SUFFIXES)}")
        if kind == "docx":
            shown.to_docx(path)
        elif kind == "csv":
            _frame(shown).to_csv(path, index=False)
        else:
            made = {"html": shown.to_html, "latex": shown.to_latex, "text": shown.__str__}[kind]()
            path.write_text(made + "\n", encoding="utf-8")

    def quantile(self, name: str, share: float, column: str = "Overall") -> float:
        """A quantile of a number, from its counts on the grid.

        Parameters
        ----------
        name : str
            The number.
        share : float
            Between 0.05 and 0.95: beyond, it is close to single records.
        column : str
            The group, or "Overall".

        Returns
        -------
        float
        """
        from fedsvd.statistics.describe import quantile

        found = self._described.of(name)
        if not isinstance(found, Number) or found.grid is None or found.edges is None:
            raise ConfigError(f"{name!r} has no grid", "name a number of a table with quantiles")
        if not 0.05 <= share <= 0.95:
            raise ConfigError(f"a share of {share:g}", "between 0.05 and 0.95")
        place = self._described.columns.index(column)
        return quantile(found.grid[place], found.edges, share, found.low)


def _frame(shown: TableOne) -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame(list(shown.rows), columns=list(shown.header))


def _data_frame(columns: dict[str, list[object]]) -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame(columns)


def _codes(agreed: Dictionary) -> dict[str, dict[str, dict[str, str]]]:
    """What stands for each level in a file: a text such as ``none`` would be read as a gap."""
    levels = {name: agreed.levels_of(name) for name in agreed.described}
    return {name: {"levels": {f"level {j}": each for j, each in enumerate(of)}} for name, of in levels.items() if of}


def _write(path: Path, source: MatrixSource, agreed: Dictionary) -> None:
    """The columns of the dictionary as CSV: codes of levels, numbers to the last digit, gaps as empty cells."""
    columns, codes = [], _codes(agreed)
    for name in agreed.described:
        if name in codes:
            values, gaps = source.text(name)
            of = {level: code for code, level in codes[name]["levels"].items()}
            texts = zip(values.tolist(), gaps.tolist(), strict=True)
            columns.append(["" if gap else of.get(text, text) for text, gap in texts])
        else:
            place = names_of(source).index(name)
            numbers = source.raw(slice(0, source.shape[0]), slice(place, place + 1))[:, 0].tolist()
            columns.append(["" if value != value else repr(value) for value in numbers])
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(list(agreed.described))
        writer.writerows(zip(*columns, strict=True))


def estimators_of(plan: SessionPlan) -> tuple[type[Federated], type[Federated]]:
    """The estimator of a result, and that of one party's columns alone."""
    return FederatedTable, FederatedTable
