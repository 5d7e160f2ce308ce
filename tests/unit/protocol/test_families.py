"""Facts of models: every family has its own, and no other code asks for a family by its name."""

import ast
from pathlib import Path

import fedsvd
from fedsvd.protocol.families import FACTS, Outcome
from fedsvd.protocol.model import Digits, ModelPlan
from fedsvd.protocol.tasks import FAMILIES, LINKS, MODEL_TASKS, OWN_FAMILY, Family, Task

SOURCE = Path(fedsvd.__file__).parent
OWN = ("protocol/families.py", "protocol/tasks.py", "audit/openings_patterns.py")  # an audit plays one model
OF_ONE_MODEL = "estimators/"  # each names its own


def test_every_family_has_facts_and_a_link():
    assert set(FACTS) == set(Family) == set(LINKS)
    assert set(MODEL_TASKS) == {Task.GLM, *OWN_FAMILY}
    for family, facts in FACTS.items():
        assert facts.task is (Task.GLM if family in FAMILIES else Task(family.value))
        assert set(facts.needs) <= set(facts.beside)
        assert facts.counted_at <= len(facts.beside)
        assert bool(facts.counts) == (facts.outcome is not Outcome.NUMBER)
        assert facts.name or not facts.only_few_digits, "an error names it"


def asked(text):
    """Members of Family that a file names, outside of defaults of options."""
    tree = ast.parse(text)
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Family"
    }


def test_code_outside_of_a_models_own_files_asks_for_no_family():
    found = {}
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE).as_posix()
        if name not in OWN and not name.startswith(OF_ONE_MODEL):
            found[name] = asked(path.read_text())
    assert {name: members for name, members in found.items() if members} == {
        "tasks/model_options.py": {"GAUSSIAN"}  # the default of an estimator
    }
    assert asked("if about.family is Family.COX: ...") == {"COX"}


def test_columns_next_to_the_target_are_in_the_order_of_the_facts_and_needed_ones_are_there():
    about = ModelPlan(Family.COX, "log", ties="efron", digits=Digits.TABLE, beside=("strata", "entry"), offset=True)
    assert about.beside == ("event", "entry", "strata")
    assert [about.column(name) for name in ("event", "entry", "strata", "group")] == [1, 2, 3, None]
    assert (about.offset_at, about.labels) == (4, 5)
