"""Foreign tasks are found by entry point and hashed by RECORD; nothing of them is imported."""

import hashlib
import sys

import pytest
from tests.foreign import NAME, install, install_example, install_task

from fedsvd.engine.installed_tasks import installed_names, installed_task
from fedsvd.errors import ConfigError, ReleaseRefused

LOUD = 'import pathlib, sys\npathlib.Path(__file__).with_suffix(".ran").touch()\nraise SystemExit\n'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_a_task_is_listed_and_hashed_and_shown_without_being_imported(folder):
    install_task(folder, LOUD)
    before = set(sys.modules)
    assert "one-sum" in installed_names()
    found = installed_task("one-sum")
    assert (found.module, found.function) == ("trial_task", "script")
    assert not {name for name in set(sys.modules) - before if name.startswith("trial_task")}
    assert not [*folder.rglob("*.ran"), *folder.rglob("__pycache__")]


def test_the_hash_is_of_all_files_and_the_entry_point(folder):
    install_example(folder)
    found = installed_task(NAME)
    lines = [f"fedsvd.tasks {NAME} = group_variance:script\n"]
    for path in ("group_variance/__init__.py", "group_variance/group-variance.json"):
        lines.append(f"{path} {hashlib.sha256((folder / path).read_bytes()).hexdigest()}\n")
    assert found.hash == "sha256:" + hashlib.sha256("".join(lines).encode()).hexdigest()
    assert found.requires[0].startswith("numpy ")


def test_one_changed_byte_is_another_hash_and_is_refused(folder):
    install_example(folder)
    allowed = installed_task(NAME).hash
    source = (folder / "group_variance" / "__init__.py").read_text()
    declaration = (folder / "group_variance" / "group-variance.json").read_text()
    files = {"group_variance/__init__.py": source + "#", "group_variance/group-variance.json": declaration}
    install(folder, files, f"{NAME} = group_variance:script", "fedsvd-group-variance")
    with pytest.raises(ReleaseRefused, match="hash"):
        installed_task(NAME).expect_hash(allowed)


def test_a_file_that_was_altered_after_it_was_installed_is_refused(folder):
    install_example(folder)
    path = folder / "group_variance" / "__init__.py"
    path.write_text(path.read_text() + "\n")
    with pytest.raises(ConfigError, match="not as it was installed"):
        installed_task(NAME)


@pytest.mark.parametrize(
    ("files", "entry", "match"),
    [
        ({"a/__init__.py": "", "a/x.json": "{}"}, "y = a:script", "0 files y.json"),
        ({"a/__init__.py": "", "a/y.json": "{}", "b/y.json": "{}"}, "y = a:script", "2 files y.json"),
        ({"a/__init__.py": "", "a/y.json": "{}"}, "y = b:script", "did not install the module"),
        ({"a/__init__.py": "", "a/y.json": "{}"}, "y = a", "no function"),
        ({"a/__init__.py": "", "a/y.json": "{}", "a/fast.so": "x"}, "y = a:script", "installs a/fast.so"),
        ({"a/__init__.py": "", "a/y.json": "{}", "y.pth": "import a"}, "y = a:script", "installs y.pth"),
        ({"a/__init__.py": "", "a/y.json": "{}", "a/big.txt": "x" * (1 << 21)}, "y = a:script", "larger than"),
        ({"a/__init__.py": "", "a/y.json": b"\xff"}, "y = a:script", "no UTF-8"),
    ],
)
def test_a_distribution_that_is_not_source_to_be_read_is_refused(folder, files, entry, match):
    install(folder, files, entry)
    with pytest.raises(ConfigError, match=match):
        installed_task("y")


def test_files_outside_of_the_package_are_refused(folder):
    install(folder / "lib", {"../bin/tool": "x", "a/__init__.py": "", "a/y.json": "{}"}, "y = a:script")
    sys.path.insert(0, str(folder / "lib"))
    try:
        with pytest.raises(ConfigError, match=r"installs \.\./bin/tool"):
            installed_task("y")
    finally:
        sys.path.remove(str(folder / "lib"))


def test_a_task_that_two_distributions_bring_is_refused(folder):
    install(folder, {"a/__init__.py": "", "a/y.json": "{}"}, "y = a:script", "first")
    install(folder, {"b/__init__.py": "", "b/y.json": "{}"}, "y = b:script", "second")
    with pytest.raises(ConfigError, match=r"twice: first 1\.0, second 1\.0"):
        installed_task("y")


def test_a_task_that_is_not_here_is_named_with_those_that_are(folder):
    install_example(folder)
    with pytest.raises(ConfigError, match=rf"not installed here.*{NAME}"):
        installed_task("mean-of-means")
