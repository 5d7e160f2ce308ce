"""The grammar of formulas: ``outcome ~ age * C(sex) + log(dose)``, read into terms; nothing of it is evaluated.

A formula comes from another party. What is not in the grammar (names, calls of ``formula_factors.py``, terms of
``formula_terms.py`` that are no columns of the model, and ``+ - * : 0 1 ~ ( )``) is refused by its token. Terms are
counted before any is expanded: ``a*b*c*...`` has 2^n of them. The columns are made in ``formula_table.py``.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from fedsvd.errors import ConfigError
from fedsvd.prepare.formula_factors import ALLOWED, AT_HOME, SPLINE, Factor, Token, factor_of, refused
from fedsvd.prepare.formula_terms import (
    ASIDE,
    BARS,
    NONE,
    SITE,
    SURVIVAL,
    Beside,
    called,
    survival,
    with_aside,
    with_random,
)

LONGEST = 2_000
"""Characters of a formula."""

MOST_TERMS = 200
"""Terms of a formula, and of every part of it, before equal ones are merged."""

MOST_FACTORS = 3
"""Columns that may be multiplied with each other in a term."""

_DEEPEST = 20  # brackets within brackets
_WORD = re.compile(r"[.\w]+")
_OPERATORS = re.compile(r"%in%|\*\*|\|\||[~+\-*/:^|!<>=&@,;?$#%]")
_OPERAND = "write terms such as y ~ age + C(sex)"
_INSTEAD = {
    "**": "write products out (a*b), and powers as poly(a, 2, raw=True)",
    "^": "write products out (a*b), and powers as poly(a, 2, raw=True)",
    "/": "write a + a:b for b within a, and I(x / 10) to divide a column",
    "%in%": "write a + a:b for b within a",
    "||": "write random effects in brackets: (visit || patient)",
    "|": "write random effects in brackets, (1 | patient), and the site as a term: y ~ age + site",
}


Term = tuple[Factor, ...]


@dataclass(frozen=True)
class Parsed:
    """A formula: its text, the columns it reads, which of them stand left of ``~``, and whether it has an intercept."""

    text: str
    variables: tuple[str, ...]
    outcome: tuple[str, ...]
    intercept: bool
    left: tuple[Factor, ...] = ()
    terms: tuple[Term, ...] = ()  # right of ~, less the intercept, by the number of their factors
    beside: Beside = NONE  # columns next to the outcome that are none of the model

    @property
    def targets(self) -> tuple[str, ...]:
        """The terms left of ``~``, as they are called."""
        return tuple(factor.text for factor in self.left)

    @property
    def categorical(self) -> frozenset[str]:
        """The columns in C(...)."""
        every = (*self.left, *(factor for term in self.terms for factor in term))
        return frozenset(name for factor in every if factor.kind == "C" for name in factor.columns)

    @property
    def splines(self) -> frozenset[str]:
        """The columns in ns(...)."""
        every = (*self.left, *(factor for term in self.terms for factor in term))
        return frozenset(name for factor in every if factor.kind == SPLINE for name in factor.columns)

    @property
    def has_site(self) -> bool:
        """Whether a bare ``site`` stands right of ``~``."""
        return any(factor.kind == "column" and factor.text == SITE for term in self.terms for factor in term)


@lru_cache(maxsize=64)
def parse(text: str) -> Parsed:
    """A formula that any party may have written; what is not in the grammar is refused."""
    if len(text) > LONGEST:
        raise ConfigError(f"the formula has {len(text):,} characters", f"at most {LONGEST:,}; {AT_HOME}")
    reader = _Reader(list(_tokens(text)))
    left, right, intercept = reader.formula()
    # As formulaic and R order terms: by degree, in the order of the text otherwise.
    terms = tuple(sorted(right, key=len))
    outcome = [name for factor in left for name in factor.columns]
    variables = [name for term in terms for factor in term for name in factor.columns]
    if not variables and reader.beside.event is None:
        raise ConfigError("the formula reads no column", _OPERAND)
    every = tuple(dict.fromkeys([*outcome, *variables]))
    return Parsed(text, every, tuple(dict.fromkeys(outcome)), intercept, left, terms, reader.beside)


def _tokens(text: str) -> Iterator[Token]:
    place = 0
    while place < len(text):
        start, sign = place, text[place]
        if sign.isspace():
            place += 1
            continue
        if sign in "()":
            kind, place = sign, place + 1
        elif sign == "`":
            kind, place = "name", _end_of_quoted(text, place)
        elif found := _WORD.match(text, place):
            place = found.end()
            kind = "number" if re.fullmatch(r"[0-9.]*[0-9][0-9.]*", found[0]) else "name"
            if kind == "name" and text[place : place + 1] == "(":
                kind, place = "call", _end_of_call(text, start, place)
        elif found := _OPERATORS.match(text, place):
            kind, place = "operator", found.end()
        else:
            raise refused(Token("", sign, place), _OPERAND)
        yield Token(kind, text[start:place], start)


def _end_of_quoted(text: str, place: int) -> int:
    """Behind the backtick that closes a name."""
    end = text.find("`", place + 1) + 1
    if not end or end == place + 2 or "\\" in text[place:end]:
        raise refused(Token("name", text[place:], place), "close the name with another `")
    return end


def _end_of_call(text: str, start: int, place: int) -> int:
    """Behind the bracket that closes a call; names in backticks and texts in quotes may hold brackets."""
    depth = 0
    while place < len(text):
        sign = text[place]
        if sign == "`":
            place = _end_of_quoted(text, place)
            continue
        if sign in "\"'":
            end = text.find(sign, place + 1)
            if end < 0 or "\\" in text[place:end]:
                raise refused(Token("", text[place:], place), "close the text with another quote")
            place = end + 1
            continue
        if sign in "[]{}\\":
            raise refused(Token("", sign, place), f"a term is one of {ALLOWED}; {AT_HOME}")
        depth += (sign == "(") - (sign == ")")
        place += 1
        if depth > _DEEPEST:
            raise refused(Token("", text[place:], place), f"at most {_DEEPEST} brackets within each other")
        if not depth:
            return place
    raise refused(Token("", text[start:], start), "close its bracket")


class _Reader:
    """Reads tokens one after the other into terms; ``*`` and ``:`` are counted first."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._next = 0
        self._depth = 0
        self._intercept = True
        self.beside = NONE

    def formula(self) -> tuple[tuple[Factor, ...], tuple[Term, ...], bool]:
        """Both sides, or the only one, to the end; and whether there is an intercept."""
        left: tuple[Factor, ...] = ()
        if any(token.text == "~" for token in self._tokens):
            left = () if self._at("~") else self._outcomes()
            if not self._at("~"):
                raise self._unexpected(_OPERAND)
            self._take()
            self._intercept = True
        terms = self._sum()
        if self._now is not None:
            raise self._unexpected(_OPERAND)
        return left, terms, self._intercept

    def _outcomes(self) -> tuple[Factor, ...]:
        """What stands left of ``~``: columns, or functions of one, with + between them; or survival times."""
        if called(self._now) == SURVIVAL:
            time, self.beside = survival(self._take())
            return (Factor(time, "column", (time,)),)
        found = [self._factor()]
        while self._at("+"):
            self._take()
            found.append(self._factor())
        return tuple(dict.fromkeys(found))

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

    def _unexpected(self, fix: str) -> ConfigError:
        token = self._take()
        return refused(token, _INSTEAD.get(token.text, fix) if token.kind == "operator" else fix)

    def _sum(self) -> tuple[Term, ...]:
        """Terms with + and - between them; 0 and 1 stand for the intercept."""
        found: dict[frozenset[Factor], Term] = {}
        sign = self._take() if self._at("+", "-") else Token("operator", "+", 0)
        while True:
            if self._now is not None and self._now.kind == "number":
                self._constant(sign, self._take())
            elif called(self._now) in ASIDE:
                self.beside = with_aside(self.beside, sign, self._take(), self._alone)
            elif self._at("(") and (inside := self._random()):
                self.beside = with_random(self.beside, sign, inside, self._alone)
            else:
                for term in self._product():
                    if sign.text == "-":
                        found.pop(frozenset(term), None)
                    else:
                        found.setdefault(frozenset(term), term)
            self._expect_few(len(found), sign)
            if not self._at("+", "-"):
                return tuple(found.values())
            sign = self._take()

    @property
    def _alone(self) -> bool:
        """Whether the term just read stands outside of brackets and products."""
        return not self._depth and (self._now is None or self._at("+", "-"))

    def _random(self) -> list[Token]:
        """The tokens between the brackets of a random term, which is then read; none of any other bracket."""
        end = next((i for i in range(self._next + 1, len(self._tokens)) if self._tokens[i].kind in "()"), None)
        inside = self._tokens[self._next + 1 : end]
        if end is None or self._tokens[end].text != ")" or not any(token.text in BARS for token in inside):
            return []
        self._next = end + 1
        return inside

    def _constant(self, sign: Token, number: Token) -> None:
        """``0``, ``-1``: without an intercept; ``1``: with one."""
        if (sign.text, number.text) not in {("+", "0"), ("+", "1"), ("-", "1")} or self._at("*", ":"):
            raise refused(number, "numbers that stand alone are 0 or -1 (no intercept) and 1; I(x / 10) rescales x")
        if self._depth:
            raise refused(number, "write 0, 1 and -1 outside of brackets")
        self._intercept = (sign.text, number.text) == ("+", "1")

    def _product(self) -> tuple[Term, ...]:
        """``a * b``: both, and their product; ``:`` binds closer."""
        found = self._crossed()
        while self._at("*"):
            sign = self._take()
            other = self._crossed()
            self._expect_few(len(found) + len(other) + len(found) * len(other), sign)
            found = (*found, *other, *_multiplied(found, other, sign))
        return found

    def _crossed(self) -> tuple[Term, ...]:
        found = self._operand()
        while self._at(":"):
            sign = self._take()
            other = self._operand()
            self._expect_few(len(found) * len(other), sign)
            found = _multiplied(found, other, sign)
        if self._now is not None and self._now.text in _INSTEAD:
            raise self._unexpected(_OPERAND)
        return found

    def _operand(self) -> tuple[Term, ...]:
        if not self._at("("):
            return ((self._factor(),),)
        if inside := self._random():
            with_random(self.beside, inside[0], inside, alone=False)
        token = self._take()
        self._depth += 1
        if self._depth > _DEEPEST:
            raise refused(token, f"at most {_DEEPEST} brackets within each other")
        found = self._sum()
        if not self._at(")"):
            raise refused(self._now or token, "close the bracket")
        self._take()
        self._depth -= 1
        return found

    def _factor(self) -> Factor:
        token = self._take()
        if token.kind not in ("name", "call"):
            raise refused(token, _INSTEAD.get(token.text, _OPERAND))
        return factor_of(token)

    def _expect_few(self, terms: int, sign: Token) -> None:
        if terms > MOST_TERMS:
            fault = f"the formula is too large at {sign.text!r} (character {sign.place + 1})"
            raise ConfigError(fault, f"at most {MOST_TERMS} terms: name fewer of them")


def _multiplied(ones: tuple[Term, ...], others: tuple[Term, ...], sign: Token) -> tuple[Term, ...]:
    """Every term of the one times every term of the other; a factor counts once (``a:a`` is ``a``)."""
    found = [tuple(dict.fromkeys((*one, *other))) for one, other in product(ones, others)]
    if any(sum(factor.multiplied for factor in term) > MOST_FACTORS for term in found):
        fix = f"at most {MOST_FACTORS} columns in a product"
        raise ConfigError(f"the formula multiplies too many columns at {sign.text!r} (character {sign.place + 1})", fix)
    return tuple(found)
