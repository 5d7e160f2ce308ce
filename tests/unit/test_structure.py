"""Lines that a task of the kit has for itself are counted without docs, and by files and entries that are its alone."""

from pathlib import Path

from benchmarks.structure import code_lines, task_lines

SHARED = '''
"""Facts."""
FACTS = {
    Family.ORDINAL: ModelFacts(
        Task.ORDINAL,
    ),
    Family.POISSON: ModelFacts(Task.GLM),
}
ROWS = (
    Option("link", tasks=(Task.ORDINAL, Task.PROPENSITY)),
    Option("trim", tasks=(Task.PROPENSITY,)),
)
'''

MINE = '''
"""A docstring
of two lines."""

x = """a text
that is code"""


def f():
    """One."""
    # a comment
    return x
'''


def test_docstrings_comments_and_blank_lines_are_no_lines_of_code() -> None:
    assert code_lines(MINE) == {5, 6, 9, 12}


def test_a_task_has_files_of_its_name_and_entries_that_name_it_alone(tmp_path: Path) -> None:
    (tmp_path / "statistics").mkdir()
    (tmp_path / "statistics" / "ordinal.py").write_text(MINE)
    (tmp_path / "families.py").write_text(SHARED)
    found = task_lines(tmp_path)
    assert found["ordinal"] == {"lines": 7, "statistics": 4, "entries": 3, "files": 1}
    assert found["propensity"] == {"lines": 1, "statistics": 0, "entries": 1, "files": 0}
    assert found["cox"]["lines"] == 0
