"""How cells are written: what a reader takes for a number, and what a column of text probably holds.

A column that holds something else than numbers as ``Writing`` reads them is text, and text is refused, or becomes
levels that no one meant. What is found here is the words of the table's map by which the column is read as it was
meant (``prepare/table_map.py``); they hold marks, formats and usual codes, never an entry.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

MISSING_TEXTS = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NAN", "null", "NULL", "-")
MISSING = (*MISSING_TEXTS, "None", "none")
"""Among numbers; among texts none is a level, as in none, mild, severe."""
USUAL_TEXTS = (
    *(
        ".",
        "?",
        "*",
        "x",
        "--",
        "---",
        "unknown",
        "unk",
        "missing",
        "not known",
        "not done",
        "nd",
        "n.d.",
        "na.",
        "n.a.",
    ),
    *("na.", "n.a.", "unbekannt", "fehlt", "k.a.", "k. a.", "keine angabe", "inconnu", "desconocido", "sconosciuto"),
)
_WAYS = (  # decimal mark, mark between thousands, how people call it
    (",", "", "decimal commas"),
    (".", ",", "commas between thousands"),
    (",", ".", "decimal commas and points between thousands"),
    (".", "'", "apostrophes between thousands"),
    (",", "'", "decimal commas and apostrophes between thousands"),
    (".", " ", "blanks between thousands"),
    (",", " ", "decimal commas and blanks between thousands"),
)
_FORMATS = ("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%d.%m.%y", "%d/%m/%y", "%m/%d/%y")
_LIMIT = re.compile(r"[<>≤≥]=?\s*[\d.,]+$")
_MOSTLY = 0.8  # of the entries of a column, which its numbers or dates are where codes stand among them
_CODES = 3  # different texts that may stand for no entry in one column
_LOOKED_AT = 2000  # different texts


@dataclass(frozen=True)
class Writing:
    """How cells are written: marks inside of numbers, and what stands for a missing entry."""

    decimal: str = "."
    thousands: str = ""
    missing: tuple[str, ...] = MISSING
    missing_texts: tuple[str, ...] = MISSING_TEXTS  # the same in columns of text
    missing_in: Mapping[int, tuple[str, ...]] = field(default_factory=dict)  # further spellings, by column
    marks_in: Mapping[int, tuple[str, str]] = field(default_factory=dict)  # decimal, thousands, where they are others
    encoding: str | None = None  # None: UTF-8, or what a byte order mark says

    @property
    def is_plain(self) -> bool:
        """Whether ``float`` reads every number once the decimal mark is a point."""
        return not self.thousands and not self.missing_in and not self.marks_in

    def number(self, cell: str, column: int | None = None) -> float | None:
        """The number in a cell, NaN when it is missing, None when it is text."""
        text = cell.strip()
        if text in self.missing or (column is not None and text in self.missing_in.get(column, ())):
            return float("nan")
        decimal, thousands = self.decimal, self.thousands
        if column is not None and column in self.marks_in:
            decimal, thousands = self.marks_in[column]
        text = text.translate(_SPACES) if thousands in (" ", "'") else text
        # float() also reads "1_000" and digits of other scripts, which no other reader of text tables does.
        if "_" in text or not text.isascii():
            return None
        if thousands and thousands in text:
            # Three digits after each mark, or it is another mark: 1.5 is not 15.
            groups = rf"[+-]?\d{{1,3}}(?:{re.escape(thousands)}\d{{3}})+(?:{re.escape(decimal)}\d*)?"
            if re.fullmatch(groups, text) is None:
                return None
            text = text.replace(thousands, "")
        if decimal != ".":
            if "." in text:
                return None
            text = text.replace(decimal, ".")
        try:
            return float(text)
        except ValueError:
            return None


# What spreadsheets write between thousands for a blank or an apostrophe.
_SPACES = str.maketrans({"\u00a0": " ", "\u2009": " ", "\u202f": " ", "\u2019": "'"})
PLAIN = Writing()


@dataclass(frozen=True)
class Written:
    """What a column holds, in words, and what its map says of it."""

    what: str
    words: Mapping[str, object] = field(default_factory=dict)
    or_else: str = ""  # the same texts read otherwise, where they do not say which

    def fix(self, name: str) -> str:
        """How the column is read as it was meant."""
        other = f" ({self.or_else})" if self.or_else else ""
        return f"read it so by {map_line(name, self.words)} in the map of the table{other}"


MOST_TEXTS_OF_LEVELS = 20
"""Numbers or dates in more different texts than these are hardly the levels of a category."""


def read_as_levels(texts: Mapping[str, int], meant: bool = True) -> Written | None:
    """Numbers or dates in a column whose texts would be levels of a category, and are hardly that; None for others.

    ``meant``: whether a study asks for levels of this column, rather than for whatever its texts are.
    """
    found = written(texts)
    if found is None or found.words == {"decimal": "."}:
        return None
    marked = not meant and bool({"thousands", "date"} & found.words.keys() or found.words.get("decimal"))
    return found if marked or len(texts) > MOST_TEXTS_OF_LEVELS else None


def misread_texts(columns: Mapping[str, Written | None]) -> Iterator[tuple[str, str]]:
    """Columns of text that were meant as numbers or dates, alike ones together: what they hold, and how to read it."""
    for what in dict.fromkeys(found.what for found in columns.values() if found is not None):
        alike = {name: found for name, found in columns.items() if found is not None and found.what == what}
        name, first = next(iter(alike.items()))
        several, also = ("s", "; the others likewise") if len(alike) > 1 else ("", "")
        hold = "hold" if several else "holds"
        yield f"column{several} {', '.join(map(repr, alike))} {hold} text: {what}", f"{first.fix(name)}{also}"


def written_in(cells: Iterable[str]) -> Written | None:
    """What a column of these cells holds; None for plain text."""
    return written(Counter(cells))


def written(texts: Mapping[str, int]) -> Written | None:
    """The same of texts, with how often each occurs."""
    texts = {text.strip(): count for text, count in list(texts.items())[:_LOOKED_AT] if text.strip()}
    every = sum(texts.values())
    if not texts or _are_codes(texts):
        return None
    for kind in (_numbers, _dates):
        found = kind(list(texts))
        if found is not None:
            return found if found.words else replace(found, words={"decimal": "."})
        for codes in (_usual(texts), _few(texts)):
            rest = [text for text in texts if text not in codes]
            kept = sum(texts[text] for text in rest)
            inner = kind(rest) if codes and kept >= _MOSTLY * every else None
            if inner is not None:
                return _with_codes(inner, codes, every - kept)
    return None


def _are_codes(texts: Collection[str]) -> bool:
    """Whether these are digits of one length with zeros in front, as ids and postcodes are: no numbers."""
    widths = {len(text) for text in texts}
    return len(widths) == 1 < max(widths) and all(map(str.isdigit, texts)) and any(text[0] == "0" for text in texts)


def _with_codes(found: Written, codes: Collection[str], records: int) -> Written:
    """The same with texts among it that stand for no entry; those are named that many tables have."""
    known = sorted(code for code in codes if code.lower() in USUAL_TEXTS)
    listed: list[str] = known if len(known) == len(codes) else [*known, "..."]
    limits = " (< or > before a number: beyond a limit)" if any(map(_LIMIT.match, codes)) else ""
    what = f"{found.what}, but for {records} of the entries, which hold other text{limits}"
    return Written(what, {**found.words, "missing": listed}, found.or_else)


def _usual(texts: Iterable[str]) -> set[str]:
    return {text for text in texts if text.lower() in USUAL_TEXTS}


def _few(texts: Sequence[str] | Mapping[str, int]) -> set[str]:
    """Texts without a digit, and limits of a measurement, where there are few of them."""
    found = {text for text in texts if _LIMIT.match(text) or not re.search(r"\d", text)}
    return found if len(found) <= _CODES else set()


def _numbers(texts: Sequence[str]) -> Written | None:
    if texts and all(PLAIN.number(text) is not None for text in texts):
        return Written("numbers")
    fitting = [way for way in _WAYS if texts and _all_numbers(texts, Writing(way[0], way[1]))]
    if not fitting:
        return None
    decimal, thousands, called = fitting[0]
    # 1,564 next to 987 is either; 1,5 and 12,25 are decimal commas alone, 1,234,567 are thousands alone.
    if len(fitting) > 1 and fitting[1][1] == ",":
        return Written(f"numbers with {fitting[1][2]}", _marks(*fitting[1][:2]), 'decimal = "," if these are decimals')
    return Written(f"numbers with {called}", _marks(decimal, thousands))


def _marks(decimal: str, thousands: str) -> dict[str, object]:
    said = {"decimal": decimal if decimal != "." else "", "thousands": thousands}
    return {key: mark for key, mark in said.items() if mark}


def _all_numbers(texts: Sequence[str], writing: Writing) -> bool:
    return all(writing.number(text) is not None for text in texts)


def _dates(texts: Sequence[str]) -> Written | None:
    fitting = [each for each in _FORMATS if texts and all(_is_date(text, each) for text in texts)]
    if not fitting:
        return None
    since = "since is the day that all parties count from"
    turned = f'; date = "{fitting[1]}" if days and months are the other way round' if len(fitting) > 1 else ""
    return Written("dates", {"date": fitting[0], "since": "2000-01-01", "count": "years"}, f"{since}{turned}")


def _is_date(text: str, written_as: str) -> bool:
    try:
        datetime.strptime(re.split(r"[ T]", text, maxsplit=1)[0], written_as)
    except ValueError:
        return False
    return True


def map_line(name: str, words: Mapping[str, object]) -> str:
    """A line of a map in TOML: ``bili = { factor = 17.1 }``; ``...`` is for the reader to fill in."""
    return f"{_key(name)} = {{ {', '.join(f'{key} = {_value(value)}' for key, value in words.items())} }}"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _value(name)


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_key(str(old))} = {_value(new)}' for old, new in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return "..." if value is ... else repr(value)
