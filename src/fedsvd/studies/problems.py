"""All that is wrong with the parties' data, collected in one run: three faulty files should not take three runs.

A problem that is found is noted and the next party is looked at; at the end they are one error, in the order in which
they were found. Errors call parties by their names.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from fedsvd.data.source import MatrixSource
from fedsvd.errors import FedSVDError, together
from fedsvd.protocol.parties import named
from fedsvd.tasks.surface import Surface, spell, spelt


class Problems:
    """What was found so far, each with the party and the file it is about; one of several parties is said once."""

    def __init__(self) -> None:
        self._found: list[FedSVDError] = []
        self._same: dict[tuple[type[FedSVDError], str, str], tuple[FedSVDError, list[str]]] = {}

    @contextmanager
    def of(self, party: str, file: str = "") -> Iterator[None]:
        """An error in this block is a problem of this party's, and no more than that."""
        try:
            yield
        except FedSVDError as error:
            self.note(error, party, file)

    def note(self, error: FedSVDError, party: str = "", file: str = "") -> None:
        """One more problem; the text says whose it is, and in which file unless it does already."""
        if error.problems:
            for each in error.problems:
                self.note(each, party, file)
            return
        said = error.fault.replace(f" of {file}", "") if file else error.fault
        first, whose = self._same.setdefault((type(error), said, error.fix), (error, []))
        whose.append(party)
        if first is not error and all(whose):
            who = ", ".join(f"party {each}" for each in whose[:-1])
            first.fault = f"{who} and party {party}: {said}"
            return
        where = f"party {party}" if party else ""
        if file and file not in error.fault:
            where = f"{where}, {file}"
        error.fault = f"{where}: {error.fault}" if where else error.fault
        self._found.append(error)

    def read(self, tables: Iterable[tuple[str, str, MatrixSource]]) -> None:
        """Read every (party, file, table) once: what would stop a pass in the middle of a session is noted."""
        for party, file, table in tables:
            for fault in table.faults():
                self.note(fault, party, file)

    def __bool__(self) -> bool:
        return bool(self._found)

    def expect_none(self) -> None:
        """Raise all of them as one error, if there are any."""
        if self._found:
            raise together(self._found) from None


def at_a_site(text: str) -> str:
    """A text as the owner of a site reads it, whose words are those of ``site.toml``."""
    return spelt(text, Surface.SITE)


def spell_at_a_site(error: FedSVDError) -> FedSVDError:
    """The same of an error."""
    return spell(error, Surface.SITE)


@contextmanager
def parties_named(names: tuple[str, ...]) -> Iterator[None]:
    """Errors in this block call a party by its name, not by its number."""
    try:
        yield
    except FedSVDError as error:
        for each in (error, *error.problems):
            each.fault = named(each.fault, names)
        raise


@contextmanager
def party_named(name: str) -> Iterator[None]:
    """Errors in this block say whose data it is about."""
    try:
        yield
    except FedSVDError as error:
        error.fault = f"party {name}: {error.fault}"
        raise
