"""What a command loads before it does anything: modules are listed, nothing is timed."""

import json
import os
import subprocess
import sys

import pytest

from fedsvd.cli.job import job
from fedsvd.cli.main import VERBS, Verbs

COMPUTING = {"scipy.linalg", "scipy.fft", "scipy.sparse", "scipy.special", "scipy.stats", "scipy.optimize"}
HEAVY = {
    *COMPUTING,
    "sklearn",
    "grpc",
    "pandas",
    "pyarrow",
    "matplotlib",
    "fedsvd.audit.attacks",
    "fedsvd.roles.user.role",
}
SAYS = """
import json, sys, contextlib, io
try:
    with contextlib.redirect_stdout(io.StringIO()):
        {}
except SystemExit:
    pass
print(json.dumps(sorted(sys.modules)))
"""


def modules_after(statement: str) -> set[str]:
    """What is loaded in a fresh interpreter once this has run."""
    run = subprocess.run(
        [sys.executable, "-c", SAYS.format(statement)], check=True, capture_output=True, text=True, timeout=120
    )
    return set(json.loads(run.stdout.splitlines()[-1]))


def modules_of(*words: str) -> set[str]:
    return modules_after(f"import fedsvd.cli.main as m; m.cli({list(words)!r})")


def test_the_version_and_the_list_of_commands_load_no_verb_and_no_numpy():
    for words in (["--version"], ["--help"]):
        found = modules_of(*words)
        assert "fedsvd.cli.main" in found
        assert not found & {*HEAVY, "numpy", "scipy", "fedsvd.cli.tasks", "fedsvd.cli.audit"}


@pytest.mark.parametrize(
    "words",
    [
        ["init", "--help"],
        ["plan", "--help"],
        ["doctor", "--help"],
        ["federation", "--help"],
        ["join", "--help"],
        ["svd", "--help"],
        ["csp", "start", "--help"],
        ["audit", "--help"],
        ["reproduce", "--help"],
        ["audit-log", "verify", "--help"],
    ],
    ids=" ".join,
)
def test_a_command_that_does_not_compute_yet_loads_nothing_to_compute_with(words):
    assert not modules_of(*words) & HEAVY


def test_following_a_job_loads_the_transport_and_no_role():
    found = modules_of("job", "watch", "--help")
    assert "grpc" in found
    assert not found & {*COMPUTING, "sklearn", "fedsvd.roles.user.role", "fedsvd.roles.service_provider.role"}


def test_importing_the_library_loads_neither_numpy_nor_scikit_learn_before_a_name_is_asked_for():
    assert not modules_after("import fedsvd") & {"numpy", "scipy", "sklearn", "typer", "rich"}
    assert "sklearn" in modules_after("from fedsvd import FederatedPCA")


def test_a_table_of_numbers_is_read_without_pandas(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1.5,2\n3,4e-3\n")
    found = modules_after(f"from fedsvd.data.open import open_source; open_source({str(tmp_path / 'a.csv')!r})")
    assert "fedsvd.data.csv" in found
    assert not found & {"pandas", "pyarrow.compute", "sklearn"}


@pytest.mark.parametrize("verb", VERBS)
def test_the_list_of_commands_says_of_a_verb_what_the_verb_says_of_itself(verb):
    assert VERBS[verb] == first_words(Verbs.loaded(verb))


def test_so_does_the_list_of_a_group():
    group = job.info.cls
    assert {name: first_words(group.loaded(name)) for name in group.LINES} == group.LINES


def first_words(command) -> str:
    return " ".join(command.help.split("\n\n")[0].split())


def completed(line: str) -> list[str]:
    """What the shell is offered after this line."""
    words = line.split(" ")
    asked = {"_FEDSVD_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    run = subprocess.run(
        [sys.executable, "-c", "import fedsvd.cli.main as m; m.cli(prog_name='fedsvd')"],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return run.stdout.split()


def test_the_shell_completes_verbs_words_of_a_group_and_options_of_a_verb():
    assert completed("fedsvd pl") == ["plan"]
    assert completed("fedsvd job wa") == ["watch"]
    assert "--scratch" in completed("fedsvd plan --s")


def test_the_package_is_the_command():
    run = subprocess.run([sys.executable, "-m", "fedsvd", "--version"], capture_output=True, text=True, timeout=120)
    assert run.stdout.startswith("fedsvd ")
    assert run.returncode == 0
