"""The option table is what every surface is made from or held to."""

import inspect
import json
import re
import runpy
from dataclasses import replace

import pytest
from tests.docs.snippets import DOCS

import fedsvd
from fedsvd.cli.option_table import match_options, parameters, prepare_options, study_options
from fedsvd.errors import ConfigError
from fedsvd.policy.rules import Policy
from fedsvd.prepare.categories import MOST_LEVELS
from fedsvd.prepare.missing import Missing
from fedsvd.prepare.rule import LowRank
from fedsvd.prepare.sites import Over
from fedsvd.protocol.certificate import Certificate
from fedsvd.protocol.tasks import Split, Task
from fedsvd.results.result import PartyResult, result_from
from fedsvd.studies.foreign import ForeignSection
from fedsvd.studies.job_file import AuthoritySection, CspSection, MasksSection, PartySection
from fedsvd.studies.match_section import MatchSection
from fedsvd.studies.planning import plan_study
from fedsvd.studies.prepare_section import CategorySection, PrepareSection
from fedsvd.studies.study import Study
from fedsvd.studies.study_section import StudySection
from fedsvd.tasks.declared import declared
from fedsvd.tasks.option import CLI, ESTIMATOR, NEEDED, TASKS, Option
from fedsvd.tasks.options import OPTIONS, applies, completed, option_of, scripted, section_of
from fedsvd.tasks.values import FLAG, number
from fedsvd.types import SessionId

SECTIONS = {
    "job": StudySection,
    "masks": MasksSection,
    "match": MatchSection,
    "prepare": PrepareSection,
    "prepare.categories": CategorySection,
    "csp": CspSection,
    "authority": AuthoritySection,
    "party": PartySection,
    "foreign": ForeignSection,
}
# Parameters of estimators that a job file has no words for: where a fit runs, and what becomes of its result.
NOT_OF_A_JOB = {
    "whiten": False,
    "missing": "error",  # in rows to transform; [prepare] missing is another thing
    "multi_class": "multinomial",
    "parties": 2,
    "policy": None,
    "random_state": None,
    "verbose": False,
    "federation": None,
    "masks": None,
    "columns": (),  # of the tables that are described: [prepare] columns
    "categorical": (),  # in one process, where a dictionary is made of the tables
    "dictionary": None,  # [dictionary] file
}
# The options of a foreign task are its declaration's, not rows of the table.
NAMED = [name for name in sorted(fedsvd.__all__) if name.startswith("Federated") and name != "FederatedStatistic"]
ESTIMATORS = [getattr(fedsvd, name) for name in NAMED]
SURFACES = [*ESTIMATORS, fedsvd.Masks, fedsvd.Simulation]
BY_ESTIMATOR = {option.name(ESTIMATOR): option for option in OPTIONS if option.section in ("job", "match", "masks", "")}


def pages():
    return runpy.run_path(str(DOCS / "_ext" / "option_tables.py"))


def test_the_tables_of_the_job_file_page_are_those_of_the_options():
    text = (DOCS / "job-file.md").read_text(encoding="utf-8")
    assert pages()["made"](text) == text, "run `python docs/_ext/option_tables.py`"


def test_a_changed_option_changes_its_row():
    option = option_of("job", "alpha")
    row = pages()["row"]
    assert row(option) == (
        "| `alpha` | `0.0` | strength of a ridge (`lr`, `glm`, `cox`, `ordinal`); the intercept is never penalised |\n"
    )
    assert "`0.5`" in row(replace(option, default=0.5))
    assert row(option_of("authority", "name")).startswith("| `[authority]` `name` | none |")


@pytest.mark.parametrize("name", SECTIONS)
def test_a_section_has_the_keys_of_the_table_and_their_defaults(name):
    fields = SECTIONS[name].model_fields
    assert list(fields) == [option.key for option in section_of(name)]
    for option in section_of(name):
        field = fields[option.key]
        assert field.is_required() is (option.default is NEEDED)
        assert option.default is NEEDED or field.default == option.default


@pytest.mark.parametrize("task", TASKS)
def test_a_command_has_the_options_that_its_task_heeds_and_no_others(task):
    made = set(parameters(*study_options(task), *match_options(task), *prepare_options()))
    heeded = {option.key for option in section_of("job") if task in option.tasks} - {"name", "task"}
    assert heeded <= made
    refused = {option.key for option in section_of("job") if task not in option.tasks}
    assert not made & refused
    assert ("align" in made) is applies("ids", task) is (Split.VERTICAL in declared(task).splits)


def test_a_flag_that_is_on_has_a_flag_that_turns_it_off_and_words_have_their_list():
    _, default = parameters(option_of("job", "intercept"))["intercept"]
    assert default is True
    annotation, default = parameters(option_of("job", "cov_type"))["cov_type"]
    assert [str(each) for each in annotation.__origin__] == ["nonrobust", "HC0", "HC1", "HC2", "HC3"]
    assert default == "nonrobust"
    shown = parameters(Option("shrink", FLAG, True, "Whether."))["shrink"][0].__metadata__[0]
    assert shown.default == "--shrink/--no-shrink"  # where Typer has what stands first


def test_numbers_and_words_that_the_table_cannot_import_are_those_of_their_packages():
    """``tasks`` imports neither ``policy`` nor ``prepare``: what they define is written there too."""
    assert option_of("job", "least_class").default == Policy().least_class
    assert option_of("job", "least_events").default == Policy().least_events
    assert option_of("prepare", "penalty").default == LowRank().penalty
    assert option_of("prepare", "rounds").default == LowRank().rounds
    assert option_of("prepare", "most_levels").default == MOST_LEVELS
    assert option_of("prepare", "missing").kind.choices == tuple(Missing)
    assert option_of("prepare", "centre").kind.choices == option_of("prepare", "scale").kind.choices == tuple(Over)


def test_there_are_estimators_to_compare():
    assert len(ESTIMATORS) >= 9


def of_estimator(kind):
    """Parameters of an estimator, by name."""
    return {name: each for name, each in inspect.signature(kind).parameters.items() if name != "self"}


@pytest.mark.parametrize("kind", SURFACES, ids=lambda kind: kind.__name__)
def test_parameters_of_an_estimator_are_options_with_their_defaults(kind):
    for name, parameter in of_estimator(kind).items():
        option = BY_ESTIMATOR.get(name)
        if option is None:
            assert name in NOT_OF_A_JOB, f"{name} is no option: add it to src/fedsvd/tasks"
            assert parameter.default == NOT_OF_A_JOB[name]
            continue
        task = kind.__name__.removeprefix("Federated").lower()
        assert parameter.default == option.default_of(kind.__name__, task, ESTIMATOR), name


@pytest.mark.parametrize("kind", SURFACES, ids=lambda kind: kind.__name__)
def test_the_docstring_of_an_estimator_describes_each_parameter_with_its_default(kind):
    text = inspect.cleandoc(kind.__doc__).partition("Attributes\n---")[0]
    entries = dict(re.findall(r"^(\w+) : (.*)$", text, flags=re.MULTILINE))
    taken = of_estimator(kind)
    assert list(entries) == [name for name in entries if name in taken], "described, and not taken"
    for name, parameter in taken.items():
        assert name in entries, f"{kind.__name__} does not describe {name}"
        said = re.search(r"default=(.*)$", entries[name])
        if said is not None and isinstance(parameter.default, bool | str | int | float | None):
            value = parameter.default
            shown = f'"{value}"' if isinstance(value, str) else repr(value)
            assert said[1].rstrip(".") == shown.replace("e-0", "e-"), name


def test_names_on_surfaces_are_unique():
    for surface in (CLI, ESTIMATOR):
        of_study = [option.name(surface) for option in OPTIONS if option.section in ("job", "match", "masks")]
        assert len(set(of_study)) == len(of_study)


SHRINK = Option("shrink", number(ge=0), 0.5, "How much.", tasks=(Task.PCA,), script=True)


def test_an_option_of_a_script_is_in_the_plan_and_in_its_digest():
    assert scripted(Task.PCA, lambda option: 0.25, (SHRINK,)) == (("shrink", 0.25),)
    assert scripted(Task.SVD, lambda option: 0.25, (SHRINK,)) == ()
    assert completed(Task.PCA, (), (SHRINK,)) == (("shrink", 0.5),)
    assert completed(Task.PCA, (("shrink", 0.25), ("a", 1)), (SHRINK,)) == (("a", 1), ("shrink", 0.25))
    study = Study(Task.PCA, options=(("shrink", 0.25),))
    plan = plan_study(study, 4, (5, 6), SessionId("ab" * 16)).plan
    assert plan.option("shrink") == 0.25
    other = plan_study(replace(study, options=(("shrink", 0.5),)), 4, (5, 6), SessionId("ab" * 16)).plan
    assert other.digest != plan.digest
    held = Certificate(plan_digest=plan.digest, residual=0.0, orthogonality=0.0, rank=2, versions={})
    result = PartyResult("study", ("a", "b"), plan, held)
    assert result_from(json.loads(json.dumps(result.record(), default=str)), {}).plan == plan


@pytest.mark.parametrize("value", [-1.0, "much", None])
def test_an_option_of_a_script_is_checked_by_its_kind(value):
    with pytest.raises(ConfigError, match="shrink is not usable"):
        scripted(Task.PCA, lambda option: value, (SHRINK,))
