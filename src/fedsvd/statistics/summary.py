"""A regression table for a person: as text, HTML, LaTeX or a Word document, and as columns for a data frame.

A statistic that is not defined is a dash, and its reason stands below the table. Names come from column headers of
files, so they are made printable for text and escaped for HTML.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from textwrap import wrap

from fedsvd.errors import ShapeError, printable
from fedsvd.statistics import documents
from fedsvd.statistics.glm import INTERCEPT, Fact, GLMInference
from fedsvd.statistics.inference import LinearInference
from fedsvd.statistics.multinomial import MultinomialInference
from fedsvd.statistics.undefined import Number, Numbers, Undefined, is_array
from fedsvd.statistics.whole_model import shown
from fedsvd.types import Float

_DASH = "-"
_LONGEST_NAME = 40
_LEAST_NOTE = 80  # notes below a table are as wide as it is, and no narrower


@dataclass(frozen=True, repr=False)
class Summary:
    """Facts of the model, a row for each coefficient, and notes."""

    title: str
    facts: tuple[tuple[str, str], ...]
    names: tuple[str, ...]
    cells: dict[str, tuple[float, ...]]  # columns by header; NaN where not defined
    notes: tuple[str, ...]
    apart: int = 0  # rows at the end that are no effects: thresholds

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"Summary({self.title!r}, rows={len(self.names)})"

    def _repr_html_(self) -> str:
        return self.to_html()

    def columns(self) -> dict[str, list[object]]:
        """The table as columns, for ``pandas.DataFrame(...)`` or any other frame."""
        return {"name": list(self.names), **{header: list(values) for header, values in self.cells.items()}}

    def text(self) -> str:
        """The table in plain characters."""
        headers = ["", *self.cells]
        body = [headers, *self.rows()]
        widths = [max(len(row[k]) for row in body) for k in range(len(headers))]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
            for row in body
        ]
        facts = _two_columns(self.facts)
        width = max(len(line) for line in (self.title, *lines, *facts))
        rule, thin = "=" * width, "-" * width
        parts = [self.title.center(width).rstrip(), rule, *facts, rule, lines[0], thin, *lines[1:], rule]
        notes = [line for note in self.notes for line in wrap(f"Note: {note}.", max(width, _LEAST_NOTE))]
        return "\n".join(line.rstrip() for line in [*parts, *notes])

    def exponentiated(self, ratio: str) -> "Summary":
        """The same table with ratios and their intervals in the place of coefficients; errors stay as they are."""
        first, error, statistic, p, low, high, *more = self.cells
        cells = {ratio: _exponentials(self.cells[first]), f"{error} of log": self.cells[error]}
        cells |= {name: self.cells[name] for name in (statistic, p)}
        cells |= {name: _exponentials(self.cells[name]) for name in (low, high)}
        cells |= {name: self.cells[name] for name in more}  # p-values by quasi-likelihood
        return replace(self, cells=cells)

    def to_latex(self) -> str:
        """The table of coefficients in LaTeX, with the rules of the package booktabs."""
        return documents.latex(self._titled(), ("", *self.cells), self.rows(), self.notes)

    def to_docx(self, path: str | Path | None = None) -> bytes:
        """The table of coefficients as a Word document: its bytes, which are written to ``path`` where one is given."""
        return documents.written(documents.docx(self._titled(), ("", *self.cells), self.rows(), self.notes), path)

    def _titled(self) -> str:
        target, rows = (dict(self.facts).get(name, "") for name in ("target", "rows"))
        return f"{self.title}: {target + ', ' if target else ''}{rows} rows"

    def to_html(self) -> str:
        """The table as one HTML fragment without styles of its own."""
        facts = "".join(f"<tr><th>{escape(a)}</th><td>{escape(b)}</td></tr>" for a, b in self.facts)
        head = "".join(f'<th scope="col">{escape(header)}</th>' for header in ("", *self.cells))
        body = "".join(
            f'<tr><th scope="row">{escape(row[0])}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in row[1:])}</tr>'
            for row in self.rows()
        )
        notes = "".join(f"<p>Note: {escape(note)}.</p>" for note in self.notes)
        return (
            f'<div class="fedsvd-summary"><table class="facts"><caption>{escape(self.title)}</caption>'
            f'<tbody>{facts}</tbody></table><table class="coefficients"><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table>{notes}</div>"
        )

    def printed(self) -> list[list[str]]:
        """Each term but intercepts and thresholds with its ratio and interval as journals print them, and p."""
        columns = list(self.cells.values())
        found = []
        for k, name in enumerate(self.names):
            if name.endswith(INTERCEPT) or k >= len(self.names) - self.apart:
                continue
            value, low, high, p = (columns[place][k] for place in (0, 4, 5, 3))
            cell = _DASH if math.isnan(low) else printed_ratio(*_exponentials((value, low, high)))
            found.append([name, cell, _DASH if math.isnan(p) else f"{p:.3f}" if p >= 0.001 else "<0.001"])
        return found

    def rows(self) -> list[list[str]]:
        """The cells of the table as text, each row with its name first."""
        return [
            [name, *(_cell(header, values[k]) for header, values in self.cells.items())]
            for k, name in enumerate(self.names)
        ]


def ratio_of(model: LinearInference | GLMInference | MultinomialInference) -> str:
    """What the exponential of a coefficient is called; "" where it has no name."""
    if isinstance(model, GLMInference):
        return model.ratio
    return "" if isinstance(model, LinearInference) else "odds ratio"


def _exponentials(values: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(math.exp(value) if not value > 700.0 else math.inf for value in values)


def printed_ratio(ratio: float, low: float, high: float) -> str:
    """An odds ratio or its like with its interval, in the digits that journals print.

    Two decimals; more where the ratio and the ends of its interval would be printed alike, as of a feature in small
    units.
    """
    three = (ratio, low, high)
    if not all(0.1 <= each < 100.0 for each in three):
        cells = [f"{each:.2f}" if 0.1 <= each < 100.0 else _beyond(each) for each in three]
    else:
        for decimals in range(2, 7):
            cells = [f"{each:.{decimals}f}" for each in three]
            if len(set(cells)) == 3:
                break
    return f"{cells[0]} ({cells[1]} to {cells[2]})"


def _beyond(ratio: float) -> str:
    if 100.0 <= ratio < 1e6:
        return f"{ratio:.0f}"
    return f"{ratio:.3g}" if math.isfinite(ratio) else "beyond 1e304"


def linear_summary(model: LinearInference, names: Sequence[str], target: str = "y") -> Summary:
    """The table of a linear regression; names are those of the features, without the intercept."""
    statistic = "t" if model.distribution == "t" else "z"
    facts = (
        ("target", printable(target, _LONGEST_NAME)),
        ("rows", str(model.n)),
        ("df residual", str(model.df_residual)),
        ("df model", str(model.df_model)),
        ("standard errors", f"{model.kind}, {model.clusters}" if model.clusters else model.kind),
        ("sigma", _number(model.sigma)),
        ("R2", _number(model.r2)),
        ("adjusted R2", _number(model.adjusted_r2)),
        ("F", _number(model.f)),
        ("p of F", _number(model.f_p)),
        ("log-likelihood", _number(model.log_likelihood)),
        ("AIC", _number(model.aic)),
        ("BIC", _number(model.bic)),
        ("condition", _number(model.condition)),
    )
    cells = _cells(model.coefficients, model.standard_errors, statistic, model.t, model.p, model.intervals, model.level)
    rows = _names(names, model.intercept, model.coefficients.shape[0])
    notes = _notes(
        model.standard_errors,
        model.t,
        model.sigma,
        model.r2,
        model.adjusted_r2,
        model.f,
        model.log_likelihood,
        model.aic,
    )
    return Summary("Linear regression", facts, rows, cells, (*_aliased(rows, model.aliased), *notes))


def glm_summary(model: GLMInference, names: Sequence[str], target: str = "y") -> Summary:
    """The table of a generalised linear model, or of another one by Newton steps."""
    statistic = "z" if model.freedom is None else "t"
    cells = _cells(model.coefficients, model.standard_errors, statistic, model.z, model.p, model.intervals, model.level)
    rows = _printable(model.terms(names), model.coefficients.shape[0])
    if not isinstance(model.freedom, int | None):
        cells["df"] = tuple(map(float, model.freedom))
    notes = (*_notes(model.standard_errors, model.scale, model.log_likelihood, model.aic), *model.cautions())
    if model.overdispersed and model.dispersion is not None:
        p = model.quasi().p
        cells["P>|t| quasi"] = tuple(map(float, p)) if is_array(p) else (math.nan,) * len(rows)
        notes += (
            f"counts vary more than the {model.family.name} family says: Pearson chi2 / df is {model.dispersion:.3g}. "
            f"By quasi-likelihood (family quasi{model.family.name}) standard errors are "
            f"{math.sqrt(model.dispersion):.3g} times these, and p-values are the last column",
        )
    tests = {} if model.says_tests else shown(model)
    said = {**model.said(), **tests, **_shown_errors(model), "AIC": model.aic, "BIC": model.bic, "penalty": model.alpha}
    facts = (("target", printable(target, _LONGEST_NAME)), *((name, _fact(value)) for name, value in said.items()))
    apart = len(rows) - len(names) - int(model.intercept)
    return Summary(model.title, facts, rows, cells, (*_aliased(rows, model.aliased), *notes), apart)


def _shown_errors(model: GLMInference | MultinomialInference) -> dict[str, str]:
    """Which standard errors these are, where they are not those of the model itself."""
    errors = model.errors
    if not errors.robust:
        return {}
    return {"standard errors": f"{errors.kind}, {errors.clusters}" if errors.clusters else errors.kind}


def _fact(value: Fact) -> str:
    return str(value) if isinstance(value, int | str) else _number(value)


def multinomial_summary(
    model: MultinomialInference, names: Sequence[str], classes: Sequence[str], target: str = "y"
) -> Summary:
    """The table of a multinomial model: the rows of each class against the first, one class after the other."""
    q = model.coefficients.shape[1]
    own = _names(names, model.intercept, q)
    if len(classes) != model.counts.shape[0]:
        raise ShapeError(f"{model.counts.shape[0]} classes need as many names, got {len(classes)}")
    rows = tuple(f"{printable(c, _LONGEST_NAME)}: {name}" for c in classes[1:] for name in own)
    facts = (
        ("target", printable(target, _LONGEST_NAME)),
        ("reference class", printable(classes[0], _LONGEST_NAME)),
        ("rows", str(model.n)),
        ("iterations", str(model.iterations)),
        *_shown_errors(model).items(),
        ("deviance", _number(model.deviance)),
        ("null deviance", _number(model.null_deviance)),
        ("log-likelihood", _number(model.log_likelihood)),
        ("AIC", _number(model.aic)),
        ("BIC", _number(model.bic)),
        ("penalty", _number(model.alpha)),
    )

    def flat(values: Numbers, *more: int) -> Numbers:
        return values.reshape(-1, *more) if is_array(values) else values

    cells = _cells(
        model.coefficients.reshape(-1),
        flat(model.standard_errors),
        "z",
        flat(model.z),
        flat(model.p),
        flat(model.intervals, 2),
        model.level,
    )
    notes = (*_aliased(rows, model.aliased), *_notes(model.standard_errors, model.aic))
    return Summary("Multinomial logistic regression", facts, rows, cells, notes)


def _cells(
    w: Float, errors: Numbers, statistic: str, values: Numbers, p: Numbers, intervals: Numbers, level: float
) -> dict[str, tuple[float, ...]]:
    tail = 50.0 * (1.0 - level)
    low = intervals[:, 0] if is_array(intervals) else intervals
    high = intervals[:, 1] if is_array(intervals) else intervals
    columns: dict[str, Numbers] = {
        "coefficient": w,
        "std error": errors,
        statistic: values,
        f"P>|{statistic}|": p,
        f"{tail:g}%": low,
        f"{100.0 - tail:g}%": high,
    }
    count = w.shape[0]
    return {
        header: tuple(map(float, column)) if is_array(column) else (math.nan,) * count
        for header, column in columns.items()
    }


def _names(names: Sequence[str], intercept: bool, count: int) -> tuple[str, ...]:
    return _printable([INTERCEPT, *names] if intercept else names, count)


def _printable(terms: Sequence[str], count: int) -> tuple[str, ...]:
    if len(terms) != count:
        raise ShapeError(f"{count} coefficients need as many names, got {len(terms)} with the intercept")
    return tuple(printable(name, _LONGEST_NAME) for name in terms)


def _aliased(rows: Sequence[str], aliased: Sequence[int]) -> tuple[str, ...]:
    """Which coefficients have no row of numbers, and by which rule."""
    if not aliased:
        return ()
    names = ", ".join(rows[j] for j in aliased)
    return (f"aliased: {names} (depends on columns before it; the other rows are those of the model without, as in R)",)


def _notes(*statistics: Number | Numbers) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.reason for part in statistics if isinstance(part, Undefined)))


def _number(value: Number) -> str:
    return _DASH if isinstance(value, Undefined) or math.isnan(value) else f"{value:.6g}"


def _cell(header: str, value: float) -> str:
    if math.isnan(value):
        return _DASH
    if header.startswith("P>"):
        return f"{value:.3f}" if value >= 0.001 else f"{value:.1e}" if value > 0.0 else "<1e-300"
    return f"{value:.3f}" if header in ("t", "z") else f"{value:.5g}"


def _two_columns(facts: Sequence[tuple[str, str]]) -> list[str]:
    half = (len(facts) + 1) // 2
    left, right = facts[:half], [*facts[half:], *[("", "")] * (2 * half - len(facts))]

    def column(part: Sequence[tuple[str, str]]) -> list[str]:
        names, values = max(len(a) for a, _ in part), max(len(b) for _, b in part)
        return [f"{a.ljust(names)}  {b.rjust(values)}" for a, b in part]

    return [f"{a}    {b}" for a, b in zip(column(left), column(right), strict=True)]
