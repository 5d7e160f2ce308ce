"""Every command that the documentation writes exists, with the options it is written with."""

import re
import shlex

import pytest
import typer
from tests.docs.snippets import DOCS, ROOT

from fedsvd.cli.main import cli

COMMANDS = typer.main.get_command(cli)
WRITTEN = re.compile(r"`(fedsvd [^`\n]+)`")
TYPED = re.compile(r"^(fedsvd .+)$", re.MULTILINE)
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def commands_on(page):
    """What stands on a page as a command: in backticks, or on a line of its own in a block."""
    text = page.read_text(encoding="utf-8")
    blocks = "".join(re.findall(r"^```(?:sh|text)?\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    return [*WRITTEN.findall(text), *TYPED.findall(blocks.replace("\\\n", " "))]


def faults_of(line):
    """Words of a command line that the program does not know; ``svd|pca`` are two commands."""
    words = [word for word in shlex.split(line.replace("...", ""), comments=True)[1:] if word not in ("&", "|")]
    for place, word in enumerate(words[:2]):
        if "|" in word:
            return [fault for each in word.split("|") for fault in _faults([*words[:place], each, *words[place + 1 :]])]
    return _faults(words)


def _faults(words):
    known = COMMANDS
    while words and hasattr(known, "list_commands"):
        context = known.make_context("fedsvd", [], resilient_parsing=True)
        word, *words = words
        if word.startswith("-"):
            return [] if any(word in option.opts for option in known.params) else [word]
        if word not in known.list_commands(context):
            return [word]
        _, known, _ = known.resolve_command(context, [word])
    options = {name for option in known.params for name in (*option.opts, *option.secondary_opts)} | {"--help"}
    names = (word.partition("=")[0] for word in words)
    return [name for name in names if name.startswith("--") and name not in options]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_commands_on_a_page_exist_with_their_options(page):
    wrong = {line: faults for line in commands_on(page) if (faults := faults_of(line.rstrip(",;")))}
    assert not wrong


def test_a_command_that_does_not_exist_would_be_found():
    assert faults_of("fedsvd job aprove JOB --kit KIT") == ["aprove"]
    assert faults_of("fedsvd job approve JOB --kti KIT") == ["--kti"]
    assert faults_of("fedsvd federation approve request.pem --renew") == []
    assert faults_of("fedsvd --version") == []
    assert faults_of("fedsvd job aprove  # a comment is no word of it") == ["aprove"]


IN_TEXT = re.compile(
    r"fedsvd (?P<command>(?:federation|join|job|party|csp|authority|audit-log) [a-z-]+"
    r"|doctor|run|plan|init|predict|svd|pca|lsa|lr)(?P<rest>(?: (?:--[a-z-]+|[A-Z]+|\{[^}]*\}))*)"
)


def test_commands_in_error_texts_exist_with_their_options():
    wrong, seen = [], 0
    for path in sorted((ROOT / "src" / "fedsvd").rglob("*.py")):
        for found in IN_TEXT.finditer(path.read_text(encoding="utf-8").replace("fedsvd job file", "")):
            seen += 1
            options = re.findall(r"--[a-z-]+", found["rest"])
            wrong += [(path.name, found[0])] if _faults([*found["command"].split(), *options]) else []
    assert not wrong
    assert seen > 30
