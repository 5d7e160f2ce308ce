"""``fedsvd tasks``: the foreign tasks that are installed here, and what one of them declares; nothing is imported."""

import json
import shutil
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from fedsvd.cli.group import Group
from fedsvd.cli.options import FormatOption
from fedsvd.cli.output import Format, Output, facts, listing
from fedsvd.policy.foreign import ENFORCED

tasks = Group(help="Foreign tasks that are installed here: list them, show one.", no_args_is_help=False)

_SANDBOXES = ("bwrap", "firejail", "nsjail", "systemd-run")


@tasks.callback(invoke_without_command=True)
def listed(context: typer.Context, format: FormatOption = Format.TEXT) -> None:
    """List the foreign tasks that are installed here; none of them is imported."""
    if context.invoked_subcommand is not None:
        return
    from fedsvd.engine.installed_tasks import installed_names, installed_task
    from fedsvd.tasks.declaration import read_declaration

    found = []
    for name in installed_names():
        task = installed_task(name)
        about = read_declaration(task.declaration).about
        found.append({"name": name, "about": about, "distribution": task.distribution, "hash": task.hash})
    Output(format).answer({"tasks": found}, lambda console: _list(console, found))


def _list(console: Console, found: list[dict[str, str]]) -> None:
    if not found:
        console.print("no foreign task is installed here; docs/howto/write-a-statistic.md says how to write one")
        return
    console.print(listing(("task", "about", "distribution"), [tuple(each.values())[:3] for each in found]))


@tasks.command()
def show(name: Annotated[str, typer.Argument(help="The task's name.")], format: FormatOption = Format.TEXT) -> None:
    """Show what a foreign task declares, its hash and its files, for an owner who reads them."""
    from fedsvd.engine.installed_tasks import installed_task
    from fedsvd.tasks.declaration import read_declaration

    task = installed_task(name)
    declared = read_declaration(task.declaration)
    record: dict[str, Any] = {
        "name": name,
        "about": declared.about,
        "distribution": task.distribution,
        "script": f"{task.module}:{task.function}",
        "requires": list(task.requires),
        "hash": task.hash,
        "files": {path: len(content) for path, content in sorted(task.files.items())},
        "folder": str(task.folder),
        "declaration": declared.record,
        "declaration_digest": declared.digest,
        "sandboxes_found": sandboxes(),
    }
    Output(format).answer(record, lambda console: _show(console, record))


def sandboxes() -> list[str]:
    """What this machine has that could confine a script; fedsvd starts none of it."""
    found = [word for word in _SANDBOXES if shutil.which(word)]
    inside = any(Path(mark).exists() for mark in ("/.dockerenv", "/run/.containerenv"))
    return [*found, *(["a container around this process"] if inside else [])]


def _show(console: Console, record: dict[str, Any]) -> None:
    keys = ("name", "about", "distribution", "script", "folder", "hash")
    about = {key: record[key] for key in keys}
    about["requires"] = ", ".join(record["requires"]) or "nothing"
    about["confined by"] = f"nothing of fedsvd; found here: {', '.join(record['sandboxes_found']) or 'none'}"
    console.print(facts(about))
    console.print(listing(("file", "bytes"), [*record["files"].items()]))
    console.print(json.dumps(record["declaration"], indent=2, ensure_ascii=False), markup=False, highlight=False)
    console.print("\nOnce you have read these files, policy.toml allows the task by\n\n[foreign]", markup=False)
    console.print(f'"{record["name"]}" = "{record["hash"]}"\n', markup=False, highlight=False, soft_wrap=True)
    console.print(ENFORCED)
