"""The tree of errors, the index of their pages and the head of each page, from the classes in ``errors.py``.

    python docs/_ext/error_pages.py

A class's code and the first line of its docstring are the source; the tree in the docstring of ``errors.py``, the table
in ``docs/errors/index.md`` and the first lines of every page are written from them. What a page says of causes and of
what to do is written by hand below that.
"""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from fedsvd import errors
from fedsvd.errors import FedSVDError

PAGES = Path("docs") / "errors"
_COLUMN = 43
_TREE = re.compile(r"(?<=in one tree\.\n\n).*?(?=\n\nA message names)", re.S)
_TABLE = re.compile(r"\| \[FSVD-000\].*?(?=\n\n)", re.S)
_CONTENTS = re.compile(r"(?<=\n)FSVD-000\n.*?(?=\n```)", re.S)


def summary(kind: type[BaseException]) -> str:
    """What this error means, in a few words without a full stop."""
    return inspect.cleandoc(kind.__doc__ or "").split("\n")[0].rstrip(".")


def kinds() -> list[type[FedSVDError]]:
    """Every error of ``errors.py``, by its code."""
    found = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, FedSVDError)]
    return sorted(found, key=lambda kind: kind.code)


def tree() -> str:
    """The errors and warnings as the docstring of ``errors.py`` draws them."""
    warnings = [
        f"    {kind.__name__ + ' (UserWarning)':<{_COLUMN + 12}}{_short(kind)}"
        for kind in (errors.PrivacyWarning, errors.BegunAgain, errors.DigitsLost, errors.DataWarning)
    ]
    below = f"    └─ {errors.RowsNotCompared.__name__:<{_COLUMN + 9}}{_short(errors.RowsNotCompared)}"
    return "\n".join(["    FedSVDError", *_branches(FedSVDError, "    "), *warnings, below])


def _short(kind: type[Warning]) -> str:
    return re.split("[;:,]", summary(kind))[0]


def _branches(kind: type[FedSVDError], indent: str) -> Iterator[str]:
    children = sorted((child for child in kinds() if kind in child.__bases__), key=lambda child: child.code)
    for place, child in enumerate(children):
        last = place == len(children) - 1
        others = [base.__name__ for base in child.__bases__ if not issubclass(base, FedSVDError)]
        name = f"{child.__name__} ({', '.join(others)})" if others else child.__name__
        head = f"{indent}{'└─' if last else '├─'} {name}"
        yield f"{head:<{_COLUMN}}  {child.code}  {summary(child)}"
        yield from _branches(child, f"{indent}{'   ' if last else '│  '}")


def title(kind: type[FedSVDError]) -> str:
    """The first line of an error's page."""
    return f"# {kind.code}: {'Unexpected error' if kind is FedSVDError else kind.__name__}"


def head(kind: type[FedSVDError]) -> str:
    """The title and the first paragraph of an error's page."""
    text = "a defect of fedsvd" if kind is FedSVDError else summary(kind)
    return f"{title(kind)}\n\n{text[0].upper()}{text[1:]}.\n"


def table() -> str:
    """The rows of the index."""
    return "\n".join(
        f"| [{kind.code}]({kind.code}.md) | `{title(kind).split(': ')[1]}` | {_row(kind)} |" for kind in kinds()
    )


def _row(kind: type[FedSVDError]) -> str:
    return "a defect of fedsvd" if kind is FedSVDError else summary(kind)


def written(root: Path) -> dict[Path, str]:
    """Every file with a part that is made here, as it should be."""
    source = root / "src" / "fedsvd" / "errors.py"
    index = root / PAGES / "index.md"
    contents = "\n".join(kind.code for kind in kinds())
    listed = _CONTENTS.sub(lambda _: contents, _TABLE.sub(lambda _: table(), index.read_text(encoding="utf-8")))
    files = {source: _TREE.sub(lambda _: tree(), source.read_text(encoding="utf-8")), index: listed}
    for kind in kinds():
        page = root / PAGES / f"{kind.code}.md"
        rest = page.read_text(encoding="utf-8").split("\n## ", 1)[1]
        files[page] = f"{head(kind)}\n## {rest}"
    return files


if __name__ == "__main__":
    for path, text in written(Path(__file__).parents[2]).items():
        path.write_text(text, encoding="utf-8")
