"""What every file of a package mentions, read from its syntax tree; nothing is executed.

Decisions, so that the rules on top can be short:

- An import counts wherever it stands: at the top, inside a function, under ``TYPE_CHECKING``. A package that
  names another package's types knows that package.
- ``from a import b`` counts as ``a.b``; relative imports are made absolute; ``importlib.import_module`` and
  ``__import__`` count when their argument is written out, and are marked as unseen when it is not.
- Attributes are followed through the names that imports bind: after ``import os as x``, ``x.urandom`` and
  ``getattr(x, "urandom")`` count as ``os.urandom``.
- That importing ``a.b`` also runs ``a/__init__.py`` is counted for every package but the outermost one, which
  gathers the public names and would otherwise join everything to everything.
"""

import ast
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

UNSEEN = "<computed import>"
COMPUTED = ".{}"
"""After a package: any of its modules, found by a computed name. It counts as an import of all of them."""


@dataclass(frozen=True)
class Use:
    """A dotted name from outside the file, and the line that mentions it."""

    name: str
    line: int


@dataclass(frozen=True)
class SourceFile:
    """One module: its dotted name, its tree, what it mentions."""

    module: str
    path: Path
    tree: ast.Module
    uses: tuple[Use, ...]


class Codebase:
    """All modules of the package in ``folder`` and who imports whom."""

    def __init__(self, folder: Path) -> None:
        self.package = folder.name
        files = (_read(path, folder) for path in sorted(folder.rglob("*.py")))
        self.files = {file.module: file for file in files}

    def imports(self, module: str) -> Iterator[tuple[str, Use]]:
        """Modules of the codebase that ``module`` mentions, each with the mention."""
        for use in self.files[module].uses:
            if use.name.split(".")[0] != self.package or use.name == f"{self.package}.__version__":
                continue
            if COMPUTED in use.name:
                package = use.name.partition(COMPUTED)[0]
                yield from ((other, use) for other in self.files if other.startswith(f"{package}."))
                continue
            target = use.name
            while target not in self.files and "." in target:
                target = target.rpartition(".")[0]
            yield target, use

    def reach(self, module: str) -> dict[str, tuple[str, ...]]:
        """Every module that ``module`` leads to, each with a shortest way to it."""
        ways = {module: (module,)}
        queue = deque([module])
        while queue:
            here = queue.popleft()
            for target, _ in self.imports(here) if here in self.files else ():
                for step in (target, *self._packages_above(target)):
                    if step not in ways:
                        ways[step] = (*ways[here], step)
                        queue.append(step)
        return ways

    def _packages_above(self, module: str) -> Iterator[str]:
        above = module.rpartition(".")[0]
        while "." in above:
            yield above
            above = above.rpartition(".")[0]


@cache
def ours() -> Codebase:
    """The product, parsed once in a run."""
    return Codebase(Path(__file__).parents[2] / "src" / "fedsvd")


@cache
def nodes(source: str) -> tuple[ast.AST, ...]:
    """Every node of a text, outermost first: several laws read the same files, and parsing is what takes long."""
    return tuple(ast.walk(ast.parse(source)))


def build(folder: Path, files: dict[str, str]) -> Codebase:
    """A throwaway package named fedsvd with these files; folders get an empty ``__init__.py``."""
    package = folder / "fedsvd"
    for name, text in {"__init__.py": "", **files}.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        for above in path.relative_to(package).parents:
            (package / above / "__init__.py").touch()
        path.write_text(text)
    return Codebase(package)


def _read(path: Path, folder: Path) -> SourceFile:
    parts = [folder.name, *path.relative_to(folder).with_suffix("").parts]
    is_package = parts[-1] == "__init__"
    module = ".".join(parts[:-1] if is_package else parts)
    inside = nodes(path.read_text(encoding="utf-8"))
    tree = inside[0]
    assert isinstance(tree, ast.Module)
    package = module if is_package else module.rpartition(".")[0]
    return SourceFile(module, path, tree, tuple(_uses(inside, package)))


def _uses(inside: tuple[ast.AST, ...], package: str) -> Iterator[Use]:
    bound: dict[str, str] = {}
    for node in inside:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Use(alias.name, node.lineno)
                first = alias.name.split(".")[0]
                bound[alias.asname or first] = alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, package)
            for alias in node.names:
                bound[alias.asname or alias.name] = f"{base}.{alias.name}"
                yield Use(f"{base}.{alias.name}", node.lineno)
    for node in inside:
        name = _dotted(node, bound)
        if name is not None:
            yield Use(name, node.lineno)
        if isinstance(node, ast.Call) and _called(node, bound) in _IMPORTERS:
            yield Use(_literal(node), node.lineno)
        call = node.value if isinstance(node, ast.Attribute) else None
        if isinstance(call, ast.Call) and _called(call, bound) in _IMPORTERS:
            yield Use(f"{_literal(call)}.{node.attr}", node.lineno)


def _absolute(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    base = parts[: len(parts) - node.level + 1]
    return ".".join([*base, *([node.module] if node.module else [])])


def _dotted(node: ast.AST, bound: dict[str, str]) -> str | None:
    """The outside name that an attribute, or a ``getattr`` with a written name, stands for."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
        if len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
            owner = _owner(node.args[0], bound)
            return f"{owner}.{node.args[1].value}" if owner else None
        return None
    if isinstance(node, ast.Attribute):
        owner = _owner(node.value, bound)
        return f"{owner}.{node.attr}" if owner else None
    return None


def _owner(node: ast.AST, bound: dict[str, str]) -> str | None:
    return bound.get(node.id) if isinstance(node, ast.Name) else _dotted(node, bound)


def _called(node: ast.Call, bound: dict[str, str]) -> str | None:
    if isinstance(node.func, ast.Name):
        return bound.get(node.func.id, node.func.id)
    return _dotted(node.func, bound)


_IMPORTERS = ("importlib.import_module", "__import__")


def _literal(node: ast.Call) -> str:
    argument = node.args[0] if node.args else None
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str) and not argument.value.startswith("."):
        return argument.value
    if isinstance(argument, ast.JoinedStr) and len(argument.values) == 2:
        # f"fedsvd.package.{word}": whatever the word, a module inside the package.
        first, last = argument.values
        if isinstance(first, ast.Constant) and isinstance(last, ast.FormattedValue):
            package = str(first.value)
            if package.count(".") > 1 and package.endswith("."):
                return package[:-1] + COMPUTED
    return UNSEEN


def calls(file: SourceFile) -> Iterator[ast.Call]:
    """Every call in a file."""
    return (node for node in ast.walk(file.tree) if isinstance(node, ast.Call))
