"""A page for each public class and function, made from the code: docstrings, the option table, declared drawings.

The pages are written when the site is built (``fedsvd_pages``), below ``reference/api``, and are not kept in the
repository. ``python docs/_ext/api_pages.py`` writes the list of them into ``docs/reference/api.md``, which a test holds
to the code. What a page says of a class is in its docstring, but for two tables here: of which task it is, and which
classes are near to it.
"""

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import fedsvd

DOCS = Path(__file__).parents[1]
PAGE = DOCS / "reference" / "api.md"
HEAD = "| class | what it is | command |\n|---|---|---|\n"

TASKS = {
    "FederatedPCA": "pca",
    "FederatedSVD": "svd",
    "FederatedLSA": "lsa",
    "FederatedCCA": "cca",
    "FederatedPCR": "pcr",
    "FederatedLinearRegression": "lr",
    "FederatedRidgeCV": "lr",
    "FederatedGLM": "glm",
    "FederatedLogisticRegression": "glm",
    "FederatedOrdinalRegression": "ordinal",
    "FederatedMixedLM": "mixed",
    "FederatedPropensity": "propensity",
    "FederatedCox": "cox",
    "FederatedKaplanMeier": "survival",
    "FederatedTable": "describe",
    "FederatedStatistic": "",
}
"""Estimators by the task that they are of; one that any task may be of has none."""

NEAR = (
    ("FederatedPCA", "FederatedSVD", "FederatedLSA", "FederatedPCR", "FederatedCCA"),
    ("FederatedLinearRegression", "FederatedRidgeCV", "FederatedPCR", "FederatedGLM", "FederatedMixedLM"),
    ("FederatedGLM", "FederatedLogisticRegression", "FederatedOrdinalRegression", "FederatedCox"),
    ("FederatedCox", "FederatedKaplanMeier"),
    ("FederatedPropensity", "FederatedLogisticRegression", "FederatedCox", "FederatedTable"),
    ("FederatedTable", "FederatedKaplanMeier", "FederatedStatistic"),
)
"""Groups of classes that one may take in each other's place."""

OTHERS = {
    "federations": (
        "Where a study runs",
        ("fedsvd.Simulation", "fedsvd.Local", "fedsvd.Federation", "fedsvd.Masks", "fedsvd.Policy", "fedsvd.connect"),
        ("fedsvd.service.client.Connection",),
    ),
    "data": ("Tables and results", ("fedsvd.open_source", "fedsvd.prepared", "fedsvd.load"), ()),
    "fitted": (
        "What a fitted estimator has",
        (),
        (
            "fedsvd.estimators.plots.Plots",
            "fedsvd.estimators.after_fit.AfterFit",
            "fedsvd.statistics.summary.Summary",
            "fedsvd.statistics.pooled_roc.PooledROC",
            "fedsvd.statistics.ranking.Quality",
        ),
    ),
}
"""Pages of what is no estimator: a title, names without their methods, and names with them."""

_FIRST = ("fit", "fit_transform", "transform", "inverse_transform", "predict", "predict_proba", "score")


def write(folder: Path) -> None:
    """All pages, anew: one of a class that is gone stays on no site."""
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.md"):
        old.unlink()
    for name in TASKS:
        (folder / f"{name}.md").write_text(estimator_page(name), encoding="utf-8")
    for name, (title, plain, whole) in OTHERS.items():
        (folder / f"{name}.md").write_text(other_page(title, plain, whole), encoding="utf-8")


def listed() -> list[str]:
    """The rows of the list: every estimator with its first line and its command."""
    return [f"| [{name}](api/{name}.md) | {_first_line(name)} | {_command(name)} |" for name in TASKS]


def made(text: str) -> str:
    """The page with its list as the code is."""
    start = text.index(HEAD) + len(HEAD)
    return text[:start] + "\n".join(listed()) + "\n" + re.sub(r"\A(?:\|.*\n)+", "", text[start:])


def _first_line(name: str) -> str:
    return inspect.cleandoc(getattr(fedsvd, name).__doc__ or "").split("\n")[0].removesuffix(".")


def _command(name: str) -> str:
    task = TASKS[name]
    return f"`fedsvd {task}`" if task else "`fedsvd run`, a task of your own"


# --- one estimator ----------------------------------------------------------------------------------------------------


def estimator_page(name: str) -> str:
    """Parameters, attributes and example of the docstring, methods, drawings, the same options elsewhere, see also."""
    task = TASKS[name]
    lines = [f"# {name}", "", *_rst(f".. autoclass:: fedsvd.{name}"), "## Methods", ""]
    lines += _rst(*(f".. automethod:: fedsvd.{name}.{method}" for method in methods(getattr(fedsvd, name))))
    if task:
        lines += ["## The same on other surfaces", ""]
        lines += [f'A job file has `task = "{task}"`; the command is [`fedsvd {task}`](../cli.md).', ""]
        lines += ["| parameter | `[job]` | command line |", "|---|---|---|", *elsewhere(name, task), ""]
        lines += _drawings(task)
    lines += ["## See also", "", *(f"- {line}" for line in see_also(name, task)), ""]
    return "\n".join(lines)


def methods(kind: type) -> list[str]:
    """The public methods of a class that are documented here and not in scikit-learn, the usual ones first."""
    found = [
        name
        for name, value in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_") and value.__module__.startswith("fedsvd") and value.__doc__
    ]
    return sorted(found, key=lambda name: (_FIRST.index(name) if name in _FIRST else len(_FIRST), name))


def elsewhere(name: str, task: str) -> Iterator[str]:
    """For each parameter its key in a job file and its option, where it has these."""
    from fedsvd.protocol.tasks import Task
    from fedsvd.tasks.option import CLI, ESTIMATOR
    from fedsvd.tasks.options import section_of

    by_name = {option.name(ESTIMATOR): option for option in section_of("job") if Task(task) in option.tasks}
    for parameter in inspect.signature(getattr(fedsvd, name)).parameters:
        option = by_name.get(parameter)
        if option is not None:
            typed = "--" + option.name(CLI).replace("_", "-")
            yield f"| `{parameter}` | `{option.key}` | `{typed}` |"


def _drawings(task: str) -> list[str]:
    """What ``plot`` draws, from the outputs that the task declares."""
    from fedsvd.protocol.tasks import Task
    from fedsvd.tasks.declared import outputs_of

    drawn = dict.fromkeys(name for output in outputs_of(Task(task)) for name in output.draws)
    if not drawn:
        return []
    shown = ", ".join(f"`plot.{name}()`" for name in drawn)
    return ["## Drawings", "", f"{shown}: [how each is called](fitted.md), and which of them a family has.", ""]


def see_also(name: str, task: str) -> Iterator[str]:
    """Classes near to this one, its page of steps, and guides that use it."""
    near = dict.fromkeys(other for group in NEAR if name in group for other in group if other != name)
    if near:
        yield "Near to it: " + ", ".join(f"[{other}]({other}.md)" for other in near) + "."
    guides = [_link(page) for page in guides_with(name, task)]
    if guides:
        yield "Guides: " + ", ".join(guides) + "."
    if task:
        yield "[Every step of its session](../steps.md); [its outputs](../formats.md)."


def guides_with(name: str, task: str) -> list[Path]:
    """How-tos and tutorials in which the class, or its command, stands in code."""
    called = re.compile(rf"\b{name}\b" + (rf"|\bfedsvd {task} |task = \"{task}\"" if task else ""))
    pages = [*sorted((DOCS / "tutorial").glob("*.md")), *sorted((DOCS / "howto").glob("*.md"))]
    return [page for page in pages if page.stem != "index" and called.search(page.read_text(encoding="utf-8"))]


def _link(page: Path) -> str:
    title = page.read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("# ")
    return f"[{title}](../../{page.relative_to(DOCS).as_posix()})"


# --- everything else --------------------------------------------------------------------------------------------------


def other_page(title: str, plain: tuple[str, ...], whole: tuple[str, ...]) -> str:
    """Classes and functions one after the other."""
    lines = [f"# {title}", ""]
    for name in (*plain, *whole):
        lines += [f"## {name.rpartition('.')[2]}", "", *_rst(*_documented(name, name in whole))]
    return "\n".join(lines)


def _documented(name: str, whole: bool) -> list[str]:
    if not inspect.isclass(_named(name)):
        return [f".. autofunction:: {name}"]
    return [f".. autoclass:: {name}", *(["   :members:"] if whole else [])]


def _named(name: str) -> Any:
    package, _, last = name.rpartition(".")
    if package == "fedsvd":
        return getattr(fedsvd, last)
    return getattr(import_module(package), last)


def _rst(*lines: str) -> list[str]:
    return ["```{eval-rst}", *lines, "```", ""]


if __name__ == "__main__":
    PAGE.write_text(made(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
