"""Terms of a formula that are no columns of the model: ``Surv(time, event)``, ``strata(x)``, ``(1 | id)`` and so on.

They name the columns that stand next to the outcome. Keys of ``[job]`` say the same (``options``), and whether a task
has such a key is decided there: the grammar reads all of them for every task.
"""

from dataclasses import dataclass, replace
from typing import Any

from fedsvd.errors import ConfigError
from fedsvd.prepare.formula_factors import Token, names_in, refused

SURVIVAL = "Surv"
ASIDE = ("strata", "cluster", "offset")
"""Calls that name one column, between + and +."""

SITE = "site"
"""Which party a row is of, as a term (``site_term.py``)."""

_ALONE = "such a term stands alone, with + before and after it"
_RANDOM = "write (1 | patient), (visit | patient) or (visit || patient), of columns"


@dataclass(frozen=True)
class Beside:
    """Columns that a formula names and that are none of the model, by what they are there for."""

    event: str | None = None
    entry: str | None = None
    strata: str | None = None
    cluster: str | None = None
    offset: str | None = None
    subject: str | None = None
    slopes: tuple[str, ...] = ()
    correlated: bool = True
    by_site: bool = False  # strata(site), as sites are anyway

    @property
    def options(self) -> dict[str, Any]:
        """The keys of ``[job]`` that say the same."""
        one = {key: getattr(self, key) for key in ("event", "entry", *ASIDE, "subject")}
        found = {key: name for key, name in one.items() if name is not None}
        if self.slopes:
            found["slope"] = self.slopes[0] if len(self.slopes) == 1 else list(self.slopes)
        return found if self.correlated else {**found, "correlated": False}

    @property
    def columns(self) -> tuple[str, ...]:
        """All of them."""
        names = (self.event, self.entry, self.strata, self.cluster, self.offset, self.subject, *self.slopes)
        return tuple(dict.fromkeys(name for name in names if name is not None))


NONE = Beside()


def called(token: Token | None) -> str:
    """The function of a call."""
    return token.text.partition("(")[0] if token is not None and token.kind == "call" else ""


def survival(token: Token) -> tuple[str, Beside]:
    """The time of ``Surv(time, event)`` or ``Surv(start, stop, event)``, and what stands next to it."""
    fix = "write Surv(time, event) or Surv(start, stop, event), of different columns; an event is coded 0 or 1"
    names = names_in(token, fix)
    if len(names) not in (2, 3) or len(set(names)) < len(names):
        raise refused(token, fix)
    return names[-2], Beside(event=names[-1], entry=names[0] if len(names) == 3 else None)


def with_aside(found: Beside, sign: Token, token: Token, alone: bool) -> Beside:
    """With ``strata(x)``, ``cluster(x)`` or ``offset(x)``; sites are strata whether ``strata(site)`` says so or not."""
    word = called(token)
    if sign.text == "-" or not alone:
        raise refused(token, _ALONE)
    names = names_in(token, f"write {word}(x) of one column; what it needs more is made in your own table before")
    if word == "strata" and names == (SITE,):
        return replace(found, by_site=True)
    if len(names) != 1:
        raise refused(token, f"{word}(x) names one column: make one of several in your own table before the study")
    once: dict[str, Any] = {word: _once(token, getattr(found, word), names[0])}
    return replace(found, **once)


def with_random(found: Beside, sign: Token, tokens: list[Token], alone: bool) -> Beside:
    """With ``(x | id)``, of the tokens between its brackets; ``||``: without correlations."""
    bar = next(place for place, token in enumerate(tokens) if token.text in BARS)
    if sign.text == "-" or not alone:
        raise refused(tokens[bar], _ALONE)
    if found.subject is not None:
        raise refused(tokens[bar], "a formula has one random term: (visit | patient)")
    effects, subjects = tokens[:bar], tokens[bar + 1 :]
    if len(subjects) != 1 or subjects[0].kind != "name":
        raise refused(subjects[0] if subjects else tokens[bar], _RANDOM)
    if subjects[0].text == SITE:
        raise refused(subjects[0], "a party is one group of a random effect: name it as a fixed one, y ~ age + site")
    named, plus = effects[::2], effects[1::2]
    if len(named) != len(plus) + 1 or any(token.text != "+" for token in plus):
        raise refused(effects[-1] if effects else tokens[bar], _RANDOM)
    wrong = next((token for token in named if token.kind != "name" and token.text != "1"), None)
    if wrong is not None:
        fix = "a random term has an intercept: (x | id) is (1 + x | id)" if wrong.text == "0" else _RANDOM
        raise refused(wrong, fix)
    slopes = tuple(dict.fromkeys(token.text.strip("`") for token in named if token.kind == "name"))
    correlated = tokens[bar].text == "|" or not slopes
    return replace(found, subject=subjects[0].text.strip("`"), slopes=slopes, correlated=correlated)


BARS = ("|", "||")


def _once(token: Token, known: str | None, name: str) -> str:
    if known is not None and known != name:
        raise ConfigError(f"the formula has {called(token)}(...) twice", "name one column")
    return name
