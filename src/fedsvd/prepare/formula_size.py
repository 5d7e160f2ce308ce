"""How large a formula becomes, counted before anything of it is expanded, and the calls that stand in it.

A formula comes from another party, and 116 characters can ask for more terms than any memory holds: ``a*b*c*...`` has
2^n, ``(a + b) ** 99`` as many tuples. Here it is read by a grammar of our own, which is smaller than the parser's that
expands it later: operators that stand alone, names, numbers, calls, brackets. What is not in it is refused and named,
so that the two cannot read one text in two ways.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from fedsvd.errors import ConfigError

LONGEST = 10_000
"""Characters of a formula."""

MOST_TERMS = 10_000
"""Terms of a formula, and of every part of it, before equal ones are merged."""

_MOST_FACTORS = 50_000  # of all terms together
_MOST_WORK = 4_000_000  # factors of every part that is expanded, added up: about a second
_MOST_POWER = 10
_DEEPEST = 20  # brackets within brackets
_LONGEST_CALL = 1000  # characters
_SHOWN = 40
_WORD = re.compile(r"[.\w]+")
_OPERATORS = re.compile(r"\s*%in%|[~+\-*/:^|!<>=&@,;?$#\s]+")
_LEVELS = {"+": 1, "-": 1, "*": 2, "/": 2, "%in%": 2, ":": 3, "**": 4, "^": 4}
_OPERAND = "write terms such as y ~ age + C(sex)"


@dataclass(frozen=True)
class Token:
    """A piece of a formula: ``kind`` is one of name, number, call, operator, ( and )."""

    kind: str
    text: str
    place: int


@dataclass(frozen=True)
class Size:
    """Terms, and factors of all of them together; both at most."""

    terms: int
    factors: int

    def __add__(self, other: "Size") -> "Size":
        return Size(self.terms + other.terms, self.factors + other.factors)

    def crossed(self, other: "Size") -> "Size":
        """Every term of the one times every term of the other."""
        return Size(self.terms * other.terms, self.factors * other.terms + other.factors * self.terms)

    def within(self, other: "Size") -> "Size":
        """The terms of this, and each of the other's times all of them."""
        return self + Size(other.terms, other.factors + self.factors * other.terms)

    def power(self, number: int) -> "Size":
        """Every tuple of so many terms."""
        return Size(self.terms**number, number * self.factors * self.terms ** (number - 1))


def measured(text: str) -> tuple[Size, tuple[str, ...]]:
    """How large a formula becomes, and its calls as they stand there; refused where that is too large."""
    if len(text) > LONGEST:
        raise ConfigError(f"the formula has {len(text):,} characters", f"at most {LONGEST:,}")
    tokens = list(_tokens(text))
    return _Reader(tokens).formula(), tuple(token.text for token in tokens if token.kind == "call")


def _tokens(text: str) -> Iterator[Token]:
    place = 0
    while place < len(text):
        start, sign = place, text[place]
        if sign in "()":
            kind, place = sign, place + 1
        elif sign == "`":
            kind, place = "name", text.find("`", place + 1) + 1
            if not place or "\\" in text[start:place]:
                raise _refused(Token("name", text[start:], start), "close the name with another `")
        elif found := _WORD.match(text, place):
            place = found.end()
            kind = "number" if re.fullmatch(r"[0-9.]+", found[0]) else "name"
            if kind == "name" and text[place : place + 1] == "(":
                kind, place = "call", _end_of_call(text, start, place)
        elif found := _OPERATORS.match(text, place):
            # Blanks do not part operators for the parser, which reads "* *" as "**".
            kind, place = "operator", found.end()
            if not found[0].strip():
                continue
        else:
            raise _refused(Token("", sign, place), _OPERAND)
        yield Token(kind, "".join(text[start:place].split()) if kind == "operator" else text[start:place], start)


def _end_of_call(text: str, start: int, place: int) -> int:
    """Behind the bracket that closes a call; brackets in quotes count as well, as they do for the parser."""
    depth = 0
    for here in range(place, min(len(text), start + _LONGEST_CALL)):
        sign = text[here]
        if sign in "[]{}\\`":
            raise _refused(Token("", sign, here), "rename columns with odd names first; use C, I and arithmetic")
        depth += (sign == "(") - (sign == ")")
        if depth > _DEEPEST:
            raise _refused(Token("", text[here:], here), f"at most {_DEEPEST} brackets within each other")
        if not depth:
            return here + 1
    raise _refused(Token("", text[start:], start), f"close its bracket within {_LONGEST_CALL:,} characters")


class _Reader:
    """Reads tokens one after the other, and counts."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = [each for token in tokens for each in _parted(token)]
        self._next = 0
        self._depth = 0
        self._work = 0

    def formula(self) -> Size:
        """Both sides of a formula, or its only one, to the end."""
        if self._at("~"):
            self._take()
        size = self._sum()
        if self._at("~"):
            self._take()
            size += self._sum()
        if self._now is not None:
            raise _refused(self._now, _OPERAND)
        return size

    @property
    def _now(self) -> Token | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _at(self, *texts: str) -> bool:
        return self._now is not None and self._now.kind in ("operator", "(", ")") and self._now.text in texts

    def _take(self) -> Token:
        token = self._now
        if token is None:
            raise ConfigError("the formula ends where a term should stand", _OPERAND)
        self._next += 1
        return token

    def _sum(self) -> Size:
        """Terms with + and - between them, or before them."""
        while self._at("+", "-"):
            self._take()
        size = self._product(2)
        while self._at("+", "-"):
            while self._at("+", "-"):
                sign = self._take()
            size = self._expect_small(size + self._product(2), sign)
        return size

    def _product(self, level: int) -> Size:
        """Terms with operators of this level or a higher one between them; all but powers from the left."""
        if level > 3:
            return self._power()
        size = self._product(level + 1)
        while self._now is not None and self._now.kind == "operator" and _LEVELS.get(self._now.text) == level:
            sign = self._take()
            other = self._product(level + 1)
            found = {
                "*": lambda a, b: a + b + a.crossed(b),
                "/": lambda a, b: a.within(b),
                "%in%": lambda a, b: b.within(a),
                ":": lambda a, b: a.crossed(b),
            }[sign.text](size, other)
            size = self._expect_small(found, sign)
        return size

    def _power(self) -> Size:
        size = self._operand()
        if self._at("**", "^"):
            sign, number = self._take(), self._take()
            if number.kind != "number" or not re.fullmatch(r"[0-9]{1,3}", number.text):
                raise _refused(number, "a power of terms is a whole number: (a + b) ** 2")
            if not 1 <= int(number.text) <= _MOST_POWER or self._at("**", "^"):
                raise _refused(number, f"a power of terms is between 1 and {_MOST_POWER}")
            size = self._expect_small(size.power(int(number.text)), sign)
        return size

    def _operand(self) -> Size:
        token = self._take()
        if token.kind in ("name", "number", "call"):
            if token.kind == "number" and not re.fullmatch(r"[0-9]{1,15}(\.[0-9]{0,15})?|\.[0-9]{1,15}", token.text):
                raise _refused(token, "a number has at most 15 digits")
            return Size(1, 1)
        if token.kind != "(":
            raise _refused(token, _OPERAND)
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _refused(token, f"at most {_DEEPEST} brackets within each other")
        size = self._sum()
        if not self._at(")"):
            raise _refused(self._now or token, "close the bracket")
        self._take()
        self._depth -= 1
        return size

    def _expect_small(self, size: Size, sign: Token) -> Size:
        self._work += size.factors
        if size.terms > MOST_TERMS or size.factors > _MOST_FACTORS or self._work > _MOST_WORK:
            fault = f"the formula is too large at {sign.text!r} (character {sign.place + 1})"
            raise ConfigError(fault, f"at most {MOST_TERMS:,} terms of {_MOST_FACTORS:,} factors: name fewer of them")
        return size


def _parted(token: Token) -> list[Token]:
    """An operator as it is read: runs of + and -, also behind ~, are single signs; other runs are refused."""
    if token.kind != "operator":
        return [token]
    if re.fullmatch(r"~?[+\-]+", token.text):
        return [Token("operator", sign, token.place) for sign in token.text]
    if token.text != "~" and token.text not in _LEVELS:
        raise _refused(token, "one of ~ + - * / : ** %in%, with a term between any two")
    return [token]


def _refused(token: Token, fix: str) -> ConfigError:
    text = token.text if len(token.text) <= _SHOWN else f"{token.text[:_SHOWN]}..."
    return ConfigError(f"the formula cannot be read at {text!r} (character {token.place + 1})", fix)
