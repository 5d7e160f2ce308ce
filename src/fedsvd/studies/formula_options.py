"""Keys of ``[job]`` that a formula says: ``Surv(time, event) ~ age + strata(clinic)`` names the columns of three.

They are added before a job file is checked, so that every rule and every party reads them as keys. A survival curve has
no columns but those: its formula is nothing else than keys.
"""

from collections.abc import Mapping
from typing import Any

from fedsvd.errors import ConfigError
from fedsvd.prepare.formula import Parsed, parse
from fedsvd.protocol.tasks import Task
from fedsvd.tasks.options import option_of

_WRITTEN = {"event": "Surv(time, event)", "entry": "Surv(start, stop, event)"}
_WRITTEN |= {"subject": "(1 | person)", "slope": "(x | person)", "correlated": "(x || person)"}
"""How a formula says these keys; the others are calls of their own name."""


def with_formula(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parsed job file with the keys that its formula says; as it is where it has no formula of text."""
    job, prepare = record.get("job"), record.get("prepare")
    formula = prepare.get("formula") if isinstance(prepare, Mapping) else None
    if not isinstance(job, Mapping) or not isinstance(prepare, Mapping) or not isinstance(formula, str) or not formula:
        return record
    try:
        parsed = parse(formula)
    except ConfigError:  # which the section itself says, with its place
        return record
    said = parsed.beside.options
    if job.get("task") in list(Task):
        expect_of_task(parsed, Task(job["task"]))
    if job.get("task") == Task.SURVIVAL:
        said |= _of_curves(parsed)
        rest = {key: value for key, value in prepare.items() if key != "formula"}
        record = {**{key: section for key, section in record.items() if key != "prepare"}, "prepare": rest}
    for key, value in said.items():
        if _listed(job.get(key)) not in ([None], _listed(value), _listed(option_of("job", key).default)):
            raise ConfigError(f"{key} and the formula do not say the same", f"leave {key} out")
    return {**record, "job": {**job, **said}}


def expect_of_task(parsed: Parsed, task: Task) -> None:
    """Refuse what a formula names next to its columns and the task does not heed, as the formula writes it."""
    for key in parsed.beside.options:
        tasks = option_of("job", key).tasks
        if task not in tasks:
            fault = f"the formula has {_WRITTEN.get(key, f'{key}(x)')}, which does not apply to task {str(task)!r}"
            raise ConfigError(fault, f"take it out of the formula; it is for {', '.join(tasks)}")


def _listed(value: Any) -> list[Any]:
    """A column, or several, as a list."""
    return list(value) if isinstance(value, list | tuple) else [value]


def columns_of_curves(parsed: Parsed) -> tuple[str, str, str | None]:
    """The columns of time, event and group that a formula of survival curves names."""
    factors = [factor for term in parsed.terms for factor in term]
    plain = all(len(term) == 1 for term in parsed.terms) and all(each.kind in ("column", "C") for each in factors)
    event = parsed.beside.event
    if event is None or len(factors) > 1 or not plain or not parsed.intercept:
        fix = "write Surv(time, event) ~ group, or ~ 1 for one curve; fedsvd cox (FederatedCox) is the regression"
        raise ConfigError("a formula of survival curves has times, events and at most one column of groups", fix)
    return parsed.outcome[0], event, factors[0].columns[0] if factors else None


def _of_curves(parsed: Parsed) -> dict[str, Any]:
    time, event, group = columns_of_curves(parsed)
    return {"label": [time], "event": event, **({} if group is None else {"group": group})}
