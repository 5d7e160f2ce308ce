"""``fit(tables, formula="Surv(time, event) ~ age + strata(clinic)")``: the columns of a model and those next to them.

The grammar, and what each term stands for, are those of a job file (``prepare/formula.py``). Tables are prepared by the
formula as ``fedsvd.prepared`` prepares them; columns next to the outcome become what ``fit`` takes by their names.
"""

from collections.abc import Mapping
from typing import Any

from fedsvd.errors import ConfigError
from fedsvd.estimators.prepared import prepared
from fedsvd.estimators.row_columns import one_by_one, set_aside
from fedsvd.estimators.target import Target
from fedsvd.policy.rules import Policy
from fedsvd.prepare.formula import Parsed, parse
from fedsvd.protocol.tasks import Task
from fedsvd.studies.formula_options import expect_of_task


def read_formula(formula: str, task: Task, given: Mapping[str, Any]) -> Parsed:
    """A formula of this task; refused where ``fit`` was given what it says."""
    parsed = parse(formula)
    also = [key for key, value in given.items() if value is not None]
    if also:
        raise ConfigError(f"{also[0]} and the formula both say what is modelled", f"leave {also[0]} out")
    expect_of_task(parsed, task)
    if not parsed.outcome:
        raise ConfigError("the formula has no outcome", "write y ~ age + C(sex)")
    return parsed


def by_formula(
    X: Any, parsed: Parsed, weights: Any, policy: Policy | None
) -> tuple[Any, Target, dict[str, Any], dict[str, Any]]:
    """Tables of the formula's columns, its outcome, the columns next to it by their keys, and further settings.

    Columns next to the outcome are read where tables have all their rows; preparing leaves none of them out.
    """
    if not parsed.terms:
        raise ConfigError("the formula has no column right of ~", "write y ~ age + C(sex)")
    said = parsed.beside.options
    named = one_by_one({key: name for key, name in said.items() if not isinstance(name, bool)})
    named |= {"weights": weights} if isinstance(weights, str) else {}
    tables = prepared(X, formula=parsed.text, policy=policy)
    listed = tables if isinstance(tables, list) else [tables]
    columns = set_aside(X, named)[1]
    outcome = [table.column(parsed.targets[0]) for table in listed]
    target = Target(outcome if isinstance(tables, list) else outcome[0], parsed.targets)
    return tables, target, columns, {key: value for key, value in said.items() if isinstance(value, bool)}
