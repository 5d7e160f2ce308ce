"""Layers and forbidden imports: the tables of ``docs/architecture.md``, and what breaks them.

Packages are named without the leading ``fedsvd.``. A package that has no files yet stands in the tables already.
"""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from .imports import UNSEEN, Codebase, calls

LAYERS = {
    16: ("", "__main__"),  # fedsvd/__init__.py: public names only; fedsvd/__main__.py: the command
    15: ("cli",),
    14: ("audit",),
    13: ("estimators", "testing"),
    12: ("service",),
    11: ("studies",),
    10: ("results",),
    9: ("engine", "cost"),
    8: ("transport",),
    7: ("roles", "identity"),
    6: ("wire", "policy", "prepare", "tasks"),
    5: ("protocol",),
    4: ("masks", "secagg", "compress"),
    3: ("linalg", "statistics"),
    2: ("data", "sealing"),
    1: ("types", "randomness", "storage"),
    0: ("errors", "kernels"),
}
LAYER_OF = {package: layer for layer, packages in LAYERS.items() for package in packages}
# Plain modules are not packages: the words of a layer, which the packages of that layer may use.
VOCABULARY = ("types",)
ROLES = ("roles.service_provider", "roles.trusted_authority", "roles.user")


@dataclass(frozen=True)
class Forbidden:
    """``packages`` (but not ``but``) may not lead to ``shut``."""

    packages: tuple[str, ...]
    shut: tuple[str, ...]
    because: str
    but: tuple[str, ...] = ()


ALL = ("*", "")
# Followed through any number of imports.
REACH_RULES = (
    Forbidden(
        ("roles.service_provider",),
        (
            "masks",
            "randomness",
            "sealing",
            "secagg.pads",
            "secagg.keys",
            "secagg.tagged",
            "compress",
            "data",
            "prepare",
            "statistics",
            *ROLES[1:],
        ),
        "the CSP neither makes nor removes a mask, and computes no statistic of a party",
    ),
    Forbidden(
        ("roles.trusted_authority",),
        ("linalg.*svd*", "linalg.streaming_factor", "storage", "data", "secagg", "compress", ROLES[0], ROLES[2]),
        "the TA receives no data",
    ),
    Forbidden(("roles.user",), ROLES[:2], "a user is not two parties"),
    Forbidden(("roles", "policy", "cost", "engine", "results"), ("tasks",), "what is played is read from the plan"),
)
# What a file itself mentions.
MENTION_RULES = (
    Forbidden(
        ("protocol", "roles", "masks", "secagg", "linalg", "statistics"),
        ("asyncio", "socket", "ssl", "threading", "time", "logging", "os"),
        "the core is a function of its inputs",
        but=("linalg.pools",),  # counts and limits threads of the BLAS, from several threads
    ),
    Forbidden(
        ALL,
        ("os.urandom", "os.getrandom", "posix.urandom", "posix.getrandom", "secrets"),
        "one source of entropy",
        but=("randomness.entropy",),
    ),
    Forbidden(
        ALL,
        ("numpy.random", "random"),
        "not cryptographic, streams not promised stable",
        but=("audit", "testing"),
    ),
    Forbidden(ALL, ("fedsvd_lab",), "the product needs no experiment (ADR 0038)"),
    Forbidden(
        ("service", "transport", "identity", "audit", "testing"),
        ("fedsvd.tasks",),
        "studies reads declarations; the command line and estimators their options (ADR 0063)",
    ),
    Forbidden(
        ALL,
        ("pickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib.load", "joblib.dump"),
        "a peer's bytes are never code",
    ),
    Forbidden(
        ALL,
        (UNSEEN,),
        "a peer's bytes are never code",
        but=("engine.task_child",),  # a program of its own, which imports what an owner's policy names (ADR 0065)
    ),
)


def violations(codebase: Codebase) -> list[str]:
    """Every broken rule, one sentence each."""
    return [*_layers(codebase), *_reach(codebase), *_mentioned(codebase), *_pickles(codebase)]


def within(name: str, package: str) -> bool:
    """Whether a dotted name is ``package`` (which may hold a ``*``) or lies inside it."""
    return fnmatchcase(name, package) or fnmatchcase(name, f"{package}.*")


def _layers(codebase: Codebase) -> Iterator[str]:
    for module in codebase.files:
        package = _short(codebase, module).split(".")[0]
        if package not in LAYER_OF:
            yield f"{module} is in no layer: place {package!r} in LAYERS and in docs/architecture.md"
            continue
        for target, use in codebase.imports(module):
            other = _short(codebase, target).split(".")[0]
            if other != package and not _below(other, package):
                yield f"{module}:{use.line} imports {use.name}, which is not in a lower layer"


def _below(other: str, package: str) -> bool:
    here, there = LAYER_OF[package], LAYER_OF.get(other, 99)
    return there < here or (there == here and other in VOCABULARY)


def _reach(codebase: Codebase) -> Iterator[str]:
    for rule in REACH_RULES:
        for module in codebase.files:
            if not any(within(_short(codebase, module), package) for package in rule.packages):
                continue
            for target, way in codebase.reach(module).items():
                if any(within(_short(codebase, target), shut) for shut in rule.shut):
                    yield f"{' -> '.join(way)}: forbidden, because {rule.because}"


def violations_of_lab(codebase: Codebase) -> list[str]:
    """What even experiments may not do: read pickles, or ask the system for entropy."""
    rules = [rule for rule in MENTION_RULES if {"pickle", "secrets", UNSEEN} & set(rule.shut)]
    return [*_mentioned(codebase, rules), *_pickles(codebase)]


def _mentioned(codebase: Codebase, rules: Sequence[Forbidden] = MENTION_RULES) -> Iterator[str]:
    for rule in rules:
        for module, file in codebase.files.items():
            name = _short(codebase, module)
            if any(within(name, package) for package in rule.but):
                continue
            if not any(within(name, package) for package in rule.packages):
                continue
            for use in file.uses:
                if any(_mentions(use.name, shut) for shut in rule.shut):
                    yield f"{module}:{use.line} mentions {use.name}: forbidden, because {rule.because}"


def _mentions(name: str, shut: str) -> bool:
    """Whether ``name`` is ``shut`` or inside it, or a star import that brings it along."""
    if name == shut or name.startswith(f"{shut}."):
        return True
    return name.endswith(".*") and shut.rpartition(".")[0] == name[:-2]


def _pickles(codebase: Codebase) -> Iterator[str]:
    """Pickle by another name: ``allow_pickle``, and the methods of data frames."""
    for module, file in codebase.files.items():
        for call in calls(file):
            method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
            allowed = any(
                keyword.arg == "allow_pickle"
                and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False)
                for keyword in call.keywords
            )
            if allowed or method in ("read_pickle", "to_pickle"):
                yield f"{module}:{call.lineno} allows pickle: forbidden, because a peer's bytes are never code"


def _short(codebase: Codebase, module: str) -> str:
    """A module's name without the package; empty for the package itself."""
    return module.removeprefix(codebase.package).removeprefix(".")
