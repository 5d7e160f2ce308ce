"""What Sphinx needs to know of this project: pages made from the program, and drawings of role tables.

``reference/cli.md`` is made from the commands themselves, ``reference/job-schema.json`` from the models that check job
files and ``reference/api`` from the public classes, whenever the site is built; none is kept in the repository. The
Mermaid blocks of ``docs/diagrams`` are drawn here, as arcs between states, because the site loads no script from
anywhere.
"""

import html
import json
import math
import re
from enum import Enum
from pathlib import Path
from typing import Any

import typer
from docutils import nodes
from docutils.parsers.rst import Directive

from fedsvd.results.report.lettering import text_width

_STEP = 48


def setup(app: Any) -> dict[str, bool]:
    """Sphinx's entry point."""
    app.connect("config-inited", lambda app, config: write_reference(Path(app.srcdir) / "reference"))
    app.connect("html-page-context", lambda app, name, template, context, tree: whole_words(context))
    app.add_directive("mermaid", StateDiagram)
    return {"parallel_read_safe": True}


def whole_words(context: dict[str, Any]) -> None:
    """Commands that are wrapped are not broken inside an option or a name: browsers break after a hyphen."""

    def block(found: re.Match[str]) -> str:
        pieces = re.split(r"(<[^>]*>)", found[0])
        pieces[::2] = [re.sub(r"[^\s]*-[^\s]*", r'<span class="whole">\g<0></span>', text) for text in pieces[::2]]
        return "".join(pieces)

    if "body" in context:
        context["body"] = re.sub(
            r'<div class="highlight-(?:sh|text) .*?</pre>', block, context["body"], flags=re.DOTALL
        )


def write_reference(folder: Path) -> None:
    """The pages that are made from the program."""
    import api_pages

    from fedsvd.studies.job_file import schema

    api_pages.write(folder / "api")
    (folder / "cli.md").write_text(cli_page(), encoding="utf-8")
    (folder / "job-schema.json").write_text(json.dumps(schema(), indent=2) + "\n", encoding="utf-8")


def cli_page() -> str:
    """Every command with its arguments and options."""
    from fedsvd.cli.main import cli

    command = typer.main.get_command(cli)
    lines = ["# Command line", "", "Made from the commands themselves; `--help` of each command says the same.", ""]
    lines += [
        "Every command takes `--help`. Exit codes: 0 done, 1 an error with a code, 2 misuse, 3 a defect.",
        "`fedsvd --install-completion` adds completion to your shell, `fedsvd --show-completion` prints it.",
        "",
    ]
    lines += _described("fedsvd", command, 2)
    return "\n".join(lines) + "\n"


def _described(name: str, command: Any, level: int) -> list[str]:
    lines = [f"{'#' * min(level, 4)} `{name}`", "", (command.help or "").split("\f")[0].strip(), ""]
    shown = [param for param in command.params if not getattr(param, "hidden", False) and param.name != "help"]
    if shown and not hasattr(command, "commands"):
        lines += ["| option | meaning |", "|---|---|", *(_option(param) for param in shown), ""]
    lazy = getattr(command, "LINES", {})  # imported when they are called
    for word, listed in getattr(command, "commands", {}).items():
        inner = command.loaded(word) if word in lazy else listed
        if not inner.hidden:
            lines += _described(f"{name} {word}", inner, level + 1)
    return lines


BAR = "\\|"  # within a table


def _option(param: Any) -> str:
    argument = param.param_type_name == "argument"
    names = [param.metavar or param.name.upper()] if argument else [*param.opts, *param.secondary_opts]
    kind = "" if argument or param.is_flag else f" {(param.metavar or _kind(param)).replace('|', BAR)}"
    words = " ".join((getattr(param, "help", "") or "").split()).replace("|", BAR)
    default = getattr(param, "default", None)
    plain = isinstance(default, str | int | float) and not isinstance(default, bool)
    more = " Needed." if param.required else f" Default: `{default}`." if plain and str(default) else ""
    return f"| {', '.join(f'`{name}`' for name in names)}{html.escape(kind)} | {words}{more} |"


def _kind(param: Any) -> str:
    """What an option takes: its words, or the name of its type."""
    # Typer carries the annotation from 0.2x on; before, click's own type.
    kind = getattr(getattr(param, "type_descriptor", None), "annotation", None)
    if kind is None:
        return str(param.type.name).upper()
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(str(word.value) for word in kind)
    return str(getattr(kind, "__name__", "TEXT")).upper()


class StateDiagram(Directive):
    """A Mermaid state diagram as a drawing: states from top to bottom, arrows as arcs."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        return [nodes.raw("", state_diagram("\n".join(self.content)), format="html")]


def state_diagram(text: str) -> str:
    """The drawing of ``A --> B: message`` lines; boxes are as wide as the longest name in the widest common font."""
    arrows = [(a, b, (said or "").strip()) for a, b, said in re.findall(r"(\S+) --> (\S+?)(?:: (.*))?$", text, re.M)]
    arrows = [(a, b, said) for a, b, said in arrows if "[*]" not in (a, b)]
    states = list(dict.fromkeys(state for arrow in arrows for state in arrow[:2]))
    place = {state: 24 + _STEP * j for j, state in enumerate(states)}
    box = 24 + math.ceil(max(map(text_width, states)))
    reach = [_reach(place[b] - place[a]) for a, b, _ in arrows]
    left = 8 + max((-far for far in reach if far < 0), default=0.0)
    right = left + box
    said_at = right + max((far for far in reach if far > 0), default=0.0) + 10  # of loops: right of every arc
    loops = [text_width(said) for a, b, said in arrows if a == b]
    width, height = said_at + max(loops, default=0.0) + 8, 24 + _STEP * len(states)
    lines, words = zip(*(_arc(place[a], place[b], said, (left, right, said_at)) for a, b, said in arrows), strict=True)
    parts = [*lines]
    for state, y in place.items():
        parts.append(f'<rect x="{left:g}" y="{y - 14}" width="{box}" height="28" rx="5" class="state"/>')
        parts.append(f'<text x="{left + box / 2:g}" y="{y + 4}" text-anchor="middle">{html.escape(state)}</text>')
    parts += words  # above every arc
    title = f"States {', '.join(states)}; the table below lists every arrow"
    head = f'<svg class="states" role="img" aria-label="{html.escape(title)}" viewBox="0 0 {width:g} {height}">'
    mark = '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    tip = f'{mark}<path d="M0 0L8 4L0 8z" class="tip"/></marker></defs>'
    return f'<div class="states-frame" tabindex="0">{head}{tip}{"".join(parts)}</svg></div>'


def _reach(distance: int) -> float:
    """How far an arc leaves the boxes: to the right where it goes down, to the left where it goes back up."""
    steps = distance // _STEP
    if steps == 0:
        return 36.0
    return 0.0 if steps == 1 else math.copysign(0.75 * (30 + 22 * abs(steps)), steps)


def _arc(start: int, stop: int, said: str, places: tuple[float, float, float]) -> tuple[str, str]:
    """An arrow, and the words at it; words of long arcs are in their title alone."""
    left, right, said_at = places
    title = f"<title>{html.escape(said)}</title>"
    steps = (stop - start) // _STEP
    if steps == 1:
        x = (left + right) / 2
        label = f'<text x="{x + 8:g}" y="{(start + stop) / 2 + 4:g}" class="said">{html.escape(said)}</text>'
        return f'<path d="M{x:g} {start + 14}L{x:g} {stop - 14}" class="arrow">{title}</path>', label
    if steps == 0:
        d = f"M{right:g} {start - 6}c46 -14 46 26 0 14"
        label = f'<text x="{said_at:g}" y="{start + 4}" class="said">{html.escape(said)}</text>'
        return f'<path d="{d}" class="arrow">{title}</path>', label
    side, sign = (right, 1) if steps > 0 else (left, -1)
    reach = side + sign * (30 + 22 * abs(steps))
    d = f"M{side:g} {start + 4}C{reach:g} {start} {reach:g} {stop} {side:g} {stop - 4}"
    return f'<path d="{d}" class="arrow">{title}</path>', ""
