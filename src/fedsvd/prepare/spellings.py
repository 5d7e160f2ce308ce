"""Levels and classes that one party spells otherwise: ``f`` and ``Female``, ``Yes`` and ``yes ``, 1 and ``male``.

A level that one party alone has is pooled as "other", and a label that one party alone has is a class of its own. Both
are exact results of a table that no one meant where it is the same level in another spelling. A party is told how many
of its own records are pooled and which joint level each of its own is like; where it is more than half of them the
study ends at that party. Own levels that look like a joint one are named in the line of the map that recodes them, for
the person who has the table (``at_home``): a log names none of them, since logs are collected and read by others, and
peers receive a code.
"""

import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedsvd.data.suspects import Finding
from fedsvd.data.written import map_line
from fedsvd.errors import AtHome, DataError
from fedsvd.prepare.categories import JointLevels, OwnLevels
from fedsvd.prepare.columns import listed
from fedsvd.types import closest

MOST_POOLED = 0.5
"""Of one party's records in a column, beyond which pooled levels end the study."""

_SHOWN = 5


def like(level: str, levels: Sequence[str]) -> str | None:
    """The one of these levels that this may be in another spelling; None where none or several may be."""
    own, others = _plain(level), {each: _plain(each) for each in levels if each != level}
    others = {each: plain for each, plain in others.items() if own == plain or not (_counts(own) and _counts(plain))}
    for way in (operator.eq, _begins, _short_for):
        found = [each for each, plain in others.items() if way(own, plain)]
        if len(found) == 1:
            return found[0]
        if found:
            return None
    nearest = closest(own, others.values())
    return None if nearest is None else next(each for each, plain in others.items() if plain == nearest)


def _counts(level: str) -> bool:
    """Whether a level ends in a digit or is a Roman number: II is another level than I, and not a spelling of it."""
    return re.fullmatch(r".*\d|[ivxl]+", level) is not None


def _begins(one: str, two: str) -> bool:
    return bool(one and two) and (one.startswith(two) or two.startswith(one))


def _short_for(one: str, two: str) -> bool:
    """Whether one is a letter or two, and both begin alike."""
    return one[:1] == two[:1] != "" and min(len(one), len(two)) <= 2


def _plain(level: str) -> str:
    """Without case, blanks, punctuation and zeros behind a point."""
    return re.sub(r"[\W_]+", "", re.sub(r"\.0+$", "", level.strip().casefold()))


def _is_number(level: str) -> bool:
    return re.fullmatch(r"[+-]?\d+(\.\d+)?", level.strip()) is not None


def _are_numbers(levels: Iterable[str]) -> bool:
    return all(map(_is_number, levels))


def pooled(own: OwnLevels, joint: JointLevels) -> tuple[AtHome, ...]:
    """What the owner is told of its records whose level became "other"; refused where that is most of them."""
    lost = [(level, n) for level, n in zip(own.levels, own.counts, strict=True) if level not in joint.levels]
    records, every = sum(n for _, n in lost), sum(own.counts)
    if not records:
        return ()
    known = listed(joint.levels[:_SHOWN])
    if records > MOST_POOLED * every:
        alike = _alike((level for level, _ in lost), joint.levels)
        seen = listed(sorted(set(alike.values())))
        hint = f", and some of its own look like {seen} in another spelling" if alike else ""
        if not alike and _are_numbers(level for level, _ in lost) and not all(map(_is_number, joint.levels)):
            hint = ", and its own are numbers"
        raise DataError(
            f"{records} of {every} records of column {own.name!r} have levels that no other party has or that are "
            f"rare, and would all be {joint.pool!r}; the joint levels are {known}{hint}",
            *(
                f"recode them at home without editing the file ({recoding(own.name, joint.levels, named)} in the map "
                "of the table), or leave the column out (drop)"
                for named in ({}, alike)
            ),
        )
    said = [f"{level!r} ({n})" + _like(level, joint.levels) for level, n in lost[:_SHOWN]]
    more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
    told = f"{records} of {every} own records of column {own.name!r} become {joint.pool!r}"
    return (AtHome(f"{told}: {', '.join(said)}{more}", f"{told}: the report of this study here names their levels"),)


def _like(level: str, levels: Sequence[str]) -> str:
    found = like(level, levels)
    return "" if found is None else f", {found!r} in another spelling?"


def recoding(name: str, levels: Sequence[str], alike: Mapping[str, str]) -> str:
    """How levels are recoded, for a fix: the own ones that look like one of these levels, or any to the first."""
    return map_line(name, {"levels": dict(_first(alike)) or {"...": levels[0]}})


def _alike(own: Iterable[str], levels: Sequence[str]) -> dict[str, str]:
    """Own levels that look like one of these, with that one."""
    return {level: found for level in own if (found := like(level, levels)) is not None}


def spellings_between(name: str, counts: Mapping[str, Mapping[str, int]]) -> list[Finding]:
    """For each of several tables at hand, how many records have levels of a column that no other table has.

    ``counts`` are records by level, for each table by its name. Nothing is said where most tables share no level: that
    is a column of names or of free text.
    """
    said = []
    for who, own in counts.items():
        others, lost, alike = _alone(who, counts)
        every, records = sum(own.values()), sum(lost.values())
        if not records or not others or not (alike or records > MOST_POOLED * every):
            continue
        shown = [f"{level!r} looks like {found!r}" for level, found in _first(alike)]
        hint = f" ({', '.join(shown)})" if shown else f"; the others have {listed(others[:_SHOWN])}"
        words = {"levels": alike} if alike else {}
        how = recoding(name, others, alike)
        said.append(
            Finding(
                name,
                f"{records} of {every} records of column {name!r} of {who} have levels that no other table has{hint}. "
                f"A study pools them, and is refused where it is more than half; recode them ({how} in the map of the "
                "table)",
                words,
                who,
            )
        )
    return said if len(said) < len(counts) or len(counts) == 2 else []


def expect_one_spelling(name: str, counts: Mapping[str, Mapping[str, int]]) -> None:
    """Refuse a column in which most records of one table have the others' levels in another spelling, or as numbers."""
    for who, own in counts.items():
        others, lost, alike = _alone(who, counts)
        records, every = sum(lost.values()), sum(own.values())
        fault = f"{who}: {records} of {every} records of column {name!r} have levels that no other table has"
        fix = "recode them without editing the file ({} in the map of the table)"
        if sum(lost[level] for level in alike) > MOST_POOLED * every:
            shown = sorted(set(alike.values()))
            look = f"they look like {listed(shown[:_SHOWN])} in another spelling"
            how = (fix.format(recoding(name, others, named)) for named in ({}, alike))
            raise DataError(f"{fault}, and {look}", *how)
        if others and records > MOST_POOLED * every and _are_numbers(lost) and not any(map(_is_number, others)):
            words = f"they are numbers, and the others have {listed(others[:_SHOWN])}"
            raise DataError(f"{fault}: {words}", fix.format(recoding(name, others, {})))


def spelt_apart(name: str, counts: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Of each table, levels that no other one has and that look like one of theirs; a description keeps both."""
    for who in counts:
        _, lost, alike = _alone(who, counts)
        if not alike:
            continue
        shown = ", ".join(f"{level!r} ({lost[level]}) looks like {found!r}" for level, found in _first(alike))
        yield (
            f"{who}: levels of column {name!r} that no other table has: {shown}. In another spelling? If so, recode "
            f"them ({recoding(name, (), alike)} in the map of the table); else all is well"
        )


def _first(alike: Mapping[str, str]) -> list[tuple[str, str]]:
    return list(alike.items())[:_SHOWN]


def _alone(who: str, counts: Mapping[str, Mapping[str, int]]) -> tuple[list[str], dict[str, int], dict[str, str]]:
    """The levels of the other tables, those that this one alone has with their records, and what these look like."""
    others = sorted({level for other, held in counts.items() if other != who for level in held})
    lost = {level: n for level, n in counts[who].items() if level not in others}
    return others, lost, _alike(lost, others)


def other_levels(name: str, strange: Sequence[str], known: Sequence[str]) -> DataError:
    """The refusal of levels of a column, or classes of a label, that a study does not name.

    At home those are shown that look like one that it names. Without a name it is the outcome of a formula.
    """
    alike = _alike(strange, known)
    seen = sorted(set(alike.values()))
    hint = f", and some look like {listed(seen[:_SHOWN])} in another spelling" if alike else ""
    what, some = (
        f"column {name!r}" if name else "the outcome of the formula",
        "level" if len(strange) == 1 else "levels",
    )
    fault = f"{what} has {len(strange)} {some} that the study does not name; it names {listed(known[:_SHOWN])}{hint}"
    how = "name all of them"
    if not name:
        return DataError(fault, how)
    how = f"{how}; or recode those of this table: {{}} in the map of the table"
    return DataError(fault, *(how.format(recoding(name, known, named)) for named in ({}, alike)))


def expect_shared(labels: Mapping[str, NDArray[np.str_]]) -> None:
    """Refuse classes that are one in two spellings, or of which no two parties have any in common."""
    held = {who: set(np.unique(each).tolist()) for who, each in labels.items()}
    every = sorted(set().union(*held.values()))
    twice = [(a, b) for i, a in enumerate(every) for b in every[i + 1 :] if _plain(a) == _plain(b)]
    if twice:
        fault = (
            f"labels differ in case, blanks or zeros alone: {len(every)} classes, of which {len(twice)} pairs are alike"
        )
        raise DataError(fault, "spell them alike at all parties: y.str.strip().str.lower(), or a map of old to new")
    alone = [who for who, own in held.items() if not any(own & other for at, other in held.items() if at != who)]
    if len(held) > 1 and alone:
        fault = f"no other party has any of the labels of {alone[0]}: {len(every)} classes at {len(held)} parties"
        raise DataError(fault, "spell labels alike at all parties: y.replace({old: new})")
