"""A foreign task in a study: ``[foreign]`` of a job file, its declaration, and the module that plays it here.

The declaration travels in the job. Who writes a job file need not copy it: it is read from the distribution that is
installed here, without importing it (``with_declaration``). A party compares the job's with its own, and the hash of
what it has installed with its policy, before the script is run in a process of its own (``expect_installed``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedsvd.engine.installed_tasks import Installed, installed_task
from fedsvd.engine.task_process import Statistic, statistic_of
from fedsvd.errors import ConfigError
from fedsvd.policy.rules import Finding, Policy
from fedsvd.protocol.plan import SessionPlan
from fedsvd.studies.sections import Section, with_keys
from fedsvd.tasks.declaration import Declaration, declaration_of, read_declaration


@dataclass(frozen=True)
class ForeignStudy:
    """Which foreign task a study is of, with which options."""

    declaration: Declaration
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", self.declaration.options(self.options))

    @property
    def section(self) -> dict[str, Any]:
        """``[foreign]`` of a job file of this study, with its declaration."""
        return {
            "name": self.declaration.name,
            "options": dict(self.options),
            "declaration": self.declaration.record,
        }


@with_keys("foreign")
class ForeignSection(Section):
    """``[foreign]``: the statistic of a task that is not fedsvd's own, and its options."""

    @property
    def study(self) -> ForeignStudy:
        """The task and its options, checked."""
        declaration = declaration_of(self.declaration)
        if declaration.name != self.name:
            fault = f"[foreign] is of {self.name}, and its declaration of {declaration.name}"
            raise ConfigError(fault, "leave the declaration out: it is read from what is installed")
        return ForeignStudy(declaration, self.options)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that options name: every party's table has them."""
        found = self.study
        return found.declaration.aside(found.options)

    def written(self, every: bool) -> dict[str, Any]:
        """The section as it is submitted, with its declaration; with ``every`` also the options that have defaults."""
        options = self.study.options if every else self.options
        return {"name": self.name, "options": dict(options), "declaration": self.declaration}


def with_declaration(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """A parsed job file, with the declaration of its foreign task where it names one and does not bring it."""
    section = record.get("foreign")
    named = isinstance(section, Mapping) and isinstance(section.get("name"), str) and "declaration" not in section
    if not named or not isinstance(section, Mapping):
        return record
    declared = read_declaration(installed_task(section["name"]).declaration)
    return {**record, "foreign": {**section, "declaration": declared.record}}


def installed_study(name: str, options: Mapping[str, Any]) -> ForeignStudy:
    """A study of the task of this name that is installed here."""
    return ForeignStudy(read_declaration(installed_task(name).declaration), options)


def expect_installed(plan: SessionPlan, policy: Policy) -> Installed | None:
    """The module of a plan's foreign task: with the plan's declaration, and with the hash that the policy names.

    None where the plan is of no foreign task. Where the policy does not name the task at all, ``guard`` has refused the
    plan, or warned of it.
    """
    about = plan.foreign
    if about is None:
        return None
    found = installed_task(about.name)
    if about.name in policy.foreign:
        found.expect_hash(policy.foreign[about.name])
    if read_declaration(found.declaration).digest != about.declaration:
        raise ConfigError(
            f"the job declares {about.name} otherwise than {found.distribution}, which is installed here",
            "install the version that the researcher has, read it, and write its hash into policy.toml",
        )
    return found


def installed_findings(plan: SessionPlan, policy: Policy) -> tuple[Finding, ...]:
    """What an owner is told of the module that would run here, before it approves."""
    if plan.foreign is None or plan.foreign.name not in policy.foreign:
        return ()  # that it is not allowed is a finding of the policy's own
    try:
        found = expect_installed(plan, policy)
    except ConfigError as fault:
        return (Finding("foreign", f"{fault.fault}; {fault.fix}"),)
    assert found is not None
    runs = f"{found.distribution} runs here, {found.hash}, as your policy names it"
    return (Finding("foreign", f"{runs}; with {', '.join(found.requires) or 'no dependency'}", below=False),)


def statistic_for(task: Installed | None, plan: SessionPlan, names: Sequence[str]) -> Statistic | None:
    """What plays the plan's foreign task on a table with these columns; None where there is none."""
    return None if task is None else statistic_of(task, plan, names)
