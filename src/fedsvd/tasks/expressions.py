"""Sizes of a foreign task: ``+ - * //`` of whole numbers and public names, and nothing else.

A declaration is a peer's text, so it is never run: the parsed tree is walked, and every node that is no sum, product or
quotient of known names is refused. Values stay below ``LARGEST`` on the way, so that no text takes long to work out.
"""

import ast
import operator
from collections.abc import Callable, Collection, Mapping

from fedsvd.errors import ConfigError

LARGEST = 1 << 40
_LONGEST = 200  # characters
_DEEPEST = 20
_QUOTIENT: type[ast.operator] = type(ast.parse("1 // 1", mode="eval").body.op)  # type: ignore[attr-defined]
_SIGNS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    _QUOTIENT: lambda a, b: a // b,
}


def expect_size(text: object, names: Collection[str], where: str) -> None:
    """Raise unless this text is a size, whatever the values of these names are."""
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise ConfigError(f"{where} is no size", f'a text of at most {_LONGEST} characters, such as "2 * features"')
    _expect(_tree(text, names, where), text, names, where, 0)


def size_of(text: str, names: Mapping[str, int], where: str) -> int:
    """The value of a size; ``where`` says in an error whose size it is."""
    expect_size(text, names, where)
    return _value(_tree(text, names, where), text, names, where)


def _tree(text: str, names: Collection[str], where: str) -> ast.AST:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise _refused(text, names, where) from None


def _expect(node: ast.AST, text: str, names: Collection[str], where: str, depth: int) -> None:
    match node:
        case ast.Constant(int() as number) if not isinstance(number, bool) and number <= LARGEST:
            return
        case ast.Name(name) if name in names:
            return
        case ast.BinOp(left, sign, right) if type(sign) in _SIGNS and depth < _DEEPEST:
            _expect(left, text, names, where, depth + 1)
            _expect(right, text, names, where, depth + 1)
            return
    raise _refused(text, names, where)


def _value(node: ast.AST, text: str, names: Mapping[str, int], where: str) -> int:
    match node:
        case ast.Constant(int() as number):
            found = number
        case ast.Name(name):
            found = names[name]
        case ast.BinOp(left, sign, right):
            a, b = _value(left, text, names, where), _value(right, text, names, where)
            if isinstance(sign, _QUOTIENT) and b == 0:
                raise ConfigError(f"{where}: the size {text!r} divides by zero", "change the options of the job")
            found = _SIGNS[type(sign)](a, b)
        case _:
            raise _refused(text, names, where)
    if abs(found) > LARGEST:
        raise ConfigError(f"{where}: the size {text!r} is beyond {LARGEST:,}", "change the options of the job")
    return found


def _refused(text: str, names: Collection[str], where: str) -> ConfigError:
    known = ", ".join(names)
    return ConfigError(f"{where}: {text!r} is no size", f"whole numbers and {known}, with + - * // and brackets")
