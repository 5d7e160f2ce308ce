"""Every task is one declaration, in the file of its name; what a plan says of it is what is declared."""

from pathlib import Path

import pytest

import fedsvd.tasks
from fedsvd.protocol.tasks import Answer, Item, Labels, Own, Split, Task
from fedsvd.roles.user.script import script_of
from fedsvd.tasks.declared import declared
from fedsvd.tasks.option import TASKS

# Written by hand from the specification, section 1: what a session ends with, where labels are on split rows and on
# split columns, what a user's own part is.
KNOWN = {
    "svd": (Answer.FACTORS, "", "", Own.VECTORS),
    "lsa": (Answer.FACTORS, "", "", Own.VECTORS),
    "pca": (Answer.FACTORS, "", "", Own.SCORES),
    "cca": (Answer.FACTORS, "", "", Own.VARIATES),
    "lr": (Answer.SOLUTION, Labels.JOINED, Labels.STACKED, Own.NONE),
    "pcr": (Answer.GRAM, Labels.JOINED, "", Own.NONE),
    "glm": (Answer.GRAM, Labels.APART, "", Own.NONE),
    "cox": (Answer.GRAM, Labels.APART, "", Own.NONE),
    "survival": (Answer.SUMS, "", "", Own.NONE),
    "ordinal": (Answer.GRAM, Labels.APART, "", Own.NONE),
    "describe": (Answer.SUMS, "", "", Own.NONE),
    "mixed": (Answer.GRAM, Labels.APART, "", Own.NONE),
    "propensity": (Answer.GRAM, Labels.APART, "", Own.NONE),
    "predict": (Answer.SCORES, "", "", Own.NONE),
    "match": (Answer.RECORDS, "", "", Own.NONE),
    "prepare": (Answer.SUMS, "", "", Own.NONE),
    "foreign": (Answer.SUMS, "", "", Own.NONE),
}


@pytest.mark.parametrize("task", Task)
def test_a_task_is_declared_in_the_file_of_its_name(task):
    assert (Path(next(iter(fedsvd.tasks.__path__))) / f"{task}.py").is_file()
    assert declared(task).task is task


@pytest.mark.parametrize("task", Task)
def test_a_plan_knows_a_task_by_these_facts(task):
    answer, by_rows, by_columns, own = KNOWN[task]
    assert declared(task).facts(Split.HORIZONTAL) == {"answer": answer, "labels": by_rows, "own": own}
    assert declared(task).facts(Split.VERTICAL) == {"answer": answer, "labels": by_columns, "own": own}


@pytest.mark.parametrize("task", Task)
def test_a_task_has_a_script_at_the_users_and_a_heading(task):
    assert callable(script_of(task))
    assert task.heading


def test_what_a_person_asks_for_has_a_line_and_the_sessions_that_go_with_it_have_none():
    assert {str(task) for task in Task if not task.line} == {"predict", "match", "prepare", "foreign"}
    assert [str(task) for task in TASKS] == [
        "svd",
        "pca",
        "lsa",
        "lr",
        "glm",
        "cox",
        "survival",
        "ordinal",
        "describe",
        "mixed",
        "propensity",
        "cca",
        "pcr",
        "foreign",
    ]


@pytest.mark.parametrize("task", Task)
def test_an_own_part_is_released_where_there_is_one(task):
    about = declared(task)
    assert (Item.OWN_PART in about.released) == (about.own is not Own.NONE)
    assert not set(about.released) & set(about.on_request)
