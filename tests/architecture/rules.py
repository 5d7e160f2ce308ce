"""Floors and doors: the tables of ``docs/architecture.md``, and what breaks them.

Rooms are named without the leading ``fedsvd.``. A room that has no files yet stands in the tables already.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from .imports import UNSEEN, House, calls

FLOORS = {
    16: ("", "__main__"),  # fedsvd/__init__.py: public names only; fedsvd/__main__.py: the command
    15: ("cli",),
    14: ("lab",),
    13: ("estimators", "testing"),
    12: ("service", "runtime"),
    11: ("results",),
    10: ("studies",),
    9: ("engine", "cost"),
    8: ("transport",),
    7: ("roles", "identity"),
    6: ("wire", "policy"),
    5: ("protocol",),
    4: ("masks", "secagg", "compress"),
    3: ("linalg", "statistics"),
    2: ("data", "sealing"),
    1: ("types", "randomness", "storage"),
    0: ("errors",),
}
FLOOR_OF = {room: floor for floor, rooms in FLOORS.items() for room in rooms}
# Plain modules are not rooms: the words of a floor, which the rooms of that floor may use.
VOCABULARY = ("types",)
ROLES = ("roles.service_provider", "roles.trusted_authority", "roles.user")


@dataclass(frozen=True)
class Door:
    """``rooms`` (but not ``but``) may not lead to ``shut``."""

    rooms: tuple[str, ...]
    shut: tuple[str, ...]
    because: str
    but: tuple[str, ...] = ()


EVERYBODY = ("*", "")
# Followed through any number of imports.
ROOM_DOORS = (
    Door(
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
            "statistics",
            *ROLES[1:],
        ),
        "the CSP neither makes nor removes a mask, and computes no statistic of a party",
    ),
    Door(
        ("roles.trusted_authority",),
        ("linalg.*svd*", "linalg.streaming_factor", "storage", "data", "secagg", "compress", ROLES[0], ROLES[2]),
        "the TA receives no data",
    ),
    Door(("roles.user",), ROLES[:2], "a user is not two parties"),
)
# What a file itself mentions.
OUTSIDE_DOORS = (
    Door(
        ("protocol", "roles", "masks", "secagg", "linalg", "statistics"),
        ("asyncio", "socket", "ssl", "threading", "time", "logging", "os"),
        "the core is a function of its inputs",
    ),
    Door(
        EVERYBODY,
        ("os.urandom", "os.getrandom", "posix.urandom", "posix.getrandom", "secrets"),
        "one door for entropy",
        but=("randomness.entropy",),
    ),
    Door(
        EVERYBODY,
        ("numpy.random", "random"),
        "not cryptographic, streams not promised stable",
        but=("lab", "testing"),
    ),
    Door(
        EVERYBODY,
        ("pickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib.load", "joblib.dump", UNSEEN),
        "a peer's bytes are never code",
    ),
)


def violations(house: House) -> list[str]:
    """Every broken rule, one sentence each."""
    return [*_floors(house), *_room_doors(house), *_outside_doors(house), *_pickles(house)]


def within(name: str, room: str) -> bool:
    """Whether a dotted name is ``room`` (which may hold a ``*``) or lies inside it."""
    return fnmatchcase(name, room) or fnmatchcase(name, f"{room}.*")


def _floors(house: House) -> Iterator[str]:
    for module in house.files:
        room = _short(house, module).split(".")[0]
        if room not in FLOOR_OF:
            yield f"{module} stands on no floor: place {room!r} in FLOORS and in docs/architecture.md"
            continue
        for target, use in house.imports(module):
            other = _short(house, target).split(".")[0]
            if other != room and not _below(other, room):
                yield f"{module}:{use.line} imports {use.name}, which is not on a lower floor"


def _below(other: str, room: str) -> bool:
    here, there = FLOOR_OF[room], FLOOR_OF.get(other, 99)
    return there < here or (there == here and other in VOCABULARY)


def _room_doors(house: House) -> Iterator[str]:
    for door in ROOM_DOORS:
        for module in house.files:
            if not any(within(_short(house, module), room) for room in door.rooms):
                continue
            for target, way in house.reach(module).items():
                if any(within(_short(house, target), shut) for shut in door.shut):
                    yield f"{' -> '.join(way)}: this door is shut, because {door.because}"


def _outside_doors(house: House) -> Iterator[str]:
    for door in OUTSIDE_DOORS:
        for module, file in house.files.items():
            name = _short(house, module)
            if any(within(name, room) for room in door.but):
                continue
            if not any(within(name, room) for room in door.rooms):
                continue
            for use in file.uses:
                if any(_mentions(use.name, shut) for shut in door.shut):
                    yield f"{module}:{use.line} mentions {use.name}: this door is shut, because {door.because}"


def _mentions(name: str, shut: str) -> bool:
    """Whether ``name`` is ``shut`` or inside it, or a star import that brings it along."""
    if name == shut or name.startswith(f"{shut}."):
        return True
    return name.endswith(".*") and shut.rpartition(".")[0] == name[:-2]


def _pickles(house: House) -> Iterator[str]:
    """Pickle by another name: ``allow_pickle``, and the methods of data frames."""
    for module, file in house.files.items():
        for call in calls(file):
            method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
            allowed = any(
                keyword.arg == "allow_pickle"
                and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False)
                for keyword in call.keywords
            )
            if allowed or method in ("read_pickle", "to_pickle"):
                yield f"{module}:{call.lineno} allows pickle: this door is shut, because a peer's bytes are never code"


def _short(house: House, module: str) -> str:
    """A module's name without the package; empty for the package itself."""
    return module.removeprefix(house.package).removeprefix(".")
