"""The table of changed error texts: ``python docs/_ext/changed_messages.py`` writes it, and a test holds it.

A text is what an error of fedsvd, or a rule between options, is made with, fault and fix, with ``{...}`` where values
are put in. Those of version 0.2.0 are in ``messages-0.2.0.json``, which ``texts`` made of a checkout of it. Texts that
both have are left out; of the others each is shown next to the older one that it is most like, first of its own
package, if their words are alike enough to be one message. What has no such text is new, and is counted.
"""

import ast
import difflib
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/changed-messages.md"
BEFORE = Path(__file__).with_name("messages-0.2.0.json")
_ALIKE = 0.5  # of the words of both faults
_SHARED = 2  # words at least
_SMALL = re.compile(r"an?|and|are|as|at|be|by|for|ha(?:s|ve)|in|is|its?|none?|not|o[fnr]|th(?:an|at|e|is)|to|with")
_HEAD = """\
# Changed messages

What errors said in version 0.2.0 and say now, by package: {changed} texts that were rewritten; {same} are the same,
{new} are new and {gone} are gone. `{{...}}` stands for a name, a number or a place. Written by
`python docs/_ext/changed_messages.py`. At the command line keys of job files are spelt as options, so that
`missing = "mean"` reads `--missing mean` there. A text without a fix has the one of its
[kind of error](../errors/index.md).
"""

Texts = dict[str, set[str]]


def texts(tree: Path) -> Texts:
    """The texts of each package."""
    source, found = tree / "src/fedsvd", defaultdict[str, set[str]](set)
    kinds = {node.name for node in ast.parse((source / "errors.py").read_text()).body if isinstance(node, ast.ClassDef)}
    for path in sorted(source.rglob("*.py")):
        package = path.relative_to(source).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                found[package].update(_made(node, kinds))
    return {package: each for package, each in found.items() if each}


def _made(call: ast.Call, kinds: set[str]) -> Iterator[str]:
    """The text of an error, or of a rule between options."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    arguments = call.args[:2] if name in kinds else call.args[1:3] if name == "Rule" else []
    parts = [said(each) for each in arguments]
    if parts and re.search(r"[a-z]{3}", parts[0].replace("{...}", "")):
        yield ". Fix: ".join(part for part in parts if part)


def said(node: ast.expr) -> str:
    """A text with its values left open; "" where it is made elsewhere."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(said(each) if isinstance(each, ast.Constant) else "{...}" for each in values)
        case ast.BinOp(left=left, right=right):
            return said(left) + said(right)
        case ast.Lambda(body=body):
            return said(body)
    return ""


def pairs(before: set[str], now: set[str]) -> list[tuple[str, str]]:
    """Texts that were rewritten, each with what it was; an older text is taken once, by the one it is most like.

    Faults must be alike by themselves: many errors have one fix.
    """
    words = {text: _content(text.partition(". Fix: ")[0]) for text in before | now}
    likeness = []
    for new in now:
        matcher = difflib.SequenceMatcher(None, autojunk=False)
        matcher.set_seq2(words[new])
        for old in before:
            matcher.set_seq1(words[old])
            if len({*words[old]} & {*words[new]}) >= _SHARED and matcher.quick_ratio() >= _ALIKE:
                likeness.append((matcher.ratio(), difflib.SequenceMatcher(None, old, new).ratio(), old, new))
    taken: dict[str, str] = {}
    for ratio, _, old, new in sorted(likeness, reverse=True):
        if ratio < _ALIKE:
            break
        if new not in taken and old not in taken.values():
            taken[new] = old
    return sorted((old, new) for new, old in taken.items())


def _content(fault: str) -> list[str]:
    """The words of a fault that say what it is about."""
    return [word for word in re.findall(r"[\w-]+", fault.replace("{...}", " ")) if not _SMALL.fullmatch(word)]


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("`", "'").replace("\n", " ")


def page(before: Texts, now: Texts) -> str:
    """The page, from the texts of an older version and of this one."""
    every_old, every_new = set().union(*before.values()), set().union(*now.values())
    gone, come = every_old - every_new, every_new - every_old
    rewritten = {}
    for package in sorted(now):
        rewritten[package] = pairs(before.get(package, set()) & gone, now[package] & come)
        gone -= {old for old, _ in rewritten[package]}
        come -= {new for _, new in rewritten[package]}
    for old, new in pairs(gone, come):  # what moved
        package = next(each for each in sorted(now) if new in now[each])
        rewritten[package] = sorted([*rewritten[package], (old, new)])
        gone, come = gone - {old}, come - {new}
    changed, same = sum(map(len, rewritten.values())), len(every_old & every_new)
    lines = [_HEAD.format(changed=changed, same=same, new=len(come), gone=len(gone))]
    for package, found in rewritten.items():
        if found:
            lines += [f"\n## {package}\n", "| 0.2.0 | now |", "|---|---|"]
            lines += [f"| `{cell(old_text)}` | `{cell(new)}` |" for old_text, new in found]
    return "\n".join(lines) + "\n"


def written() -> str:
    """The page of this tree."""
    recorded = json.loads(BEFORE.read_text(encoding="utf-8"))
    return page({package: set(each) for package, each in recorded.items()}, texts(ROOT))


if __name__ == "__main__":
    PAGE.write_text(written(), encoding="utf-8")
