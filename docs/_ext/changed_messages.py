"""The table of changed error texts: ``python docs/_ext/changed_messages.py TREE`` compares with an older tree.

A text is what stands in a ``raise`` of an error of fedsvd, fault and fix, with ``{...}`` where values are put in. Texts
that both trees have are left out; of the others each is shown next to the one of the older tree in the same package
that it is most like, if it is alike enough to be the same message. What has no such text is new, or its older one was
of another package, and is counted.
"""

import ast
import difflib
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/changed-messages.md"
_ALIKE = 0.6
_HEAD = """\
# Changed messages

What errors said in version 0.2.0 and say now, by package: {changed} texts that were rewritten; {same} are the same,
and {new} are new or said in another package before. `{{...}}` stands for a name, a number or a place. Written by
`python docs/_ext/changed_messages.py TREE`, with a checkout of 0.2.0 as the tree. At the command line keys of job
files are spelt as options, so `missing = "mean"` reads `--missing mean` there. A text without a fix has the one of
its [kind of error](../errors/index.md).
"""


def texts(tree: Path) -> dict[str, set[str]]:
    """The texts of each package."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in sorted((tree / "src/fedsvd").rglob("*.py")):
        package = path.relative_to(tree / "src/fedsvd").parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                parts = [said(each) for each in node.exc.args[:2]]
                if parts and parts[0]:
                    found[package].add(". Fix: ".join(part for part in parts if part))
    return found


def said(node: ast.expr) -> str:
    """A text with its values left open; "" where it is made elsewhere."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(said(each) if isinstance(each, ast.Constant) else "{...}" for each in values)
        case ast.BinOp(left=left, right=right):
            return said(left) + said(right)
    return ""


def pairs(before: set[str], now: set[str]) -> list[tuple[str, str]]:
    """Texts that were rewritten, each with what it was; an older text is taken once, by the one it is most like."""
    gone, come = before - now, now - before
    likeness = [
        (difflib.SequenceMatcher(None, old, new, autojunk=False).ratio(), old, new) for new in come for old in gone
    ]
    taken: dict[str, str] = {}
    for ratio, old, new in sorted(likeness, reverse=True):
        if ratio < _ALIKE:
            break
        if new not in taken and old not in taken.values():
            taken[new] = old
    return sorted((old, new) for new, old in taken.items())


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("`", "'").replace("\n", " ")


def page(old: Path) -> str:
    """The page, from an older tree and this one."""
    before, now = texts(old), texts(ROOT)
    rewritten = {package: pairs(before.get(package, set()), now[package]) for package in sorted(now)}
    changed = sum(map(len, rewritten.values()))
    same = sum(len(now[package] & before.get(package, set())) for package in now)
    lines = [_HEAD.format(changed=changed, same=same, new=sum(map(len, now.values())) - changed - same)]
    for package, found in rewritten.items():
        if found:
            lines += [f"\n## {package}\n", "| 0.2.0 | now |", "|---|---|"]
            lines += [f"| `{cell(old_text)}` | `{cell(new)}` |" for old_text, new in found]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(Path(sys.argv[1])), encoding="utf-8")
