"""``fedsvd look``: what is in one's own files, before a study asks for them. Nothing is sent and no entry is shown."""

from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from fedsvd.cli.group import FAILED
from fedsvd.cli.options import FormatOption, Scratch
from fedsvd.cli.output import Format, Output, listing

_LEVELS = 50
_SHOWN = 60  # columns of one file, on a screen


def look(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Tables, as a job names them; FILE#SHEET.")],
    job: Annotated[
        Path | None, typer.Option("--job", help="A job file: what its study would refuse of these tables.")
    ] = None,
    map: Annotated[
        Path | None, typer.Option("--map", metavar="FILE", help="How the tables are mapped: the keys of [table].")
    ] = None,
    drop: Annotated[list[str] | None, typer.Option("--drop", help="A column to leave out; once for each.")] = None,
    scratch: Scratch = None,
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    format: FormatOption = Format.TEXT,
) -> None:
    """Say what tables hold and what a study would refuse; exit code 1 when it would."""
    # Imported here: --help needs no reader of files.
    from fedsvd.data.compared import compare, id_columns_of, ids_between
    from fedsvd.data.profile import Profile, profile
    from fedsvd.data.source import MatrixSource
    from fedsvd.errors import FedSVDError
    from fedsvd.prepare.mapped import not_there, open_mapped
    from fedsvd.prepare.table_map import NOTHING, read_map

    words = NOTHING if map is None else read_map(map)
    found: dict[str, Profile] = {}
    sources: dict[str, MatrixSource] = {}
    unread: dict[str, FedSVDError] = {}
    for file in dict.fromkeys(files):
        try:
            source = open_mapped(file, words, scratch)
            held = set(source.names or ())
            sources[file] = source.without([name for name in drop or () if name in held])
            found[file] = profile(sources[file], words.told())
            if job is not None:
                found[file] = replace(found[file], refused=_refused_by(job, source))
        except FedSVDError as error:
            unread[file] = error
    astray = [f"{Path(file).name}: {text}" for file, each in sources.items() for text in not_there(each, words)]
    between: list[Any] = []
    if len(found) > 1:
        ids = id_columns_of(sources)
        between = [*compare(found), *(each for name in ids for each in ids_between(name, sources))]
        misread = {(file, name) for file, table in found.items() for name in table.maps}
        between += [each for each in _other_units(sources, ids) if (each.of, each.name) not in misread]
        between += _other_spellings(sources)
    maps = _maps(found, between)
    units = None if len(found) > 1 else _units(job)
    refused = sum(len(each.refused) for each in found.values()) + len(unread)
    mapped = words.sentences()
    record: dict[str, Any] = {
        **({"mapped": mapped} if mapped else {}),
        "files": [_record(file, each) for file, each in found.items()],
        "unreadable": [{"file": file, "code": e.code, "text": e.fault, "fix": e.fix} for file, e in unread.items()],
        "notes": astray,
        "differences": [_said(str(each)) for each in between],
        "maps": maps,
        "units": units,
        "problems": refused,
    }

    def show(console: Console) -> None:
        for line in mapped:
            console.print(f"Mapped: {line}.")
        for file, each in found.items():
            _show(console, file, each)
        for text in astray:
            console.print(f"Suspicious: {text}.")
        for file, error in unread.items():
            console.print(_said(f"{file}: {error}"))
        for each in between:
            console.print(f"Between the files: {_said(str(each))}.")
        if units is not None:
            console.print(f"Units of other parties' columns: {units}.")
        _show_maps(console, maps)
        console.print("A study would take all of this." if not refused else f"{refused} to put right before a study.")

    Output(Format.JSON if json else format).answer(record, show)
    if refused:
        raise typer.Exit(FAILED)


def _said(text: str) -> str:
    """A text in the options of this command line."""
    from fedsvd.tasks.surface import Surface, spelt

    return spelt(text, Surface.OPTIONS)


def _maps(found: dict[str, Any], between: list[Any]) -> dict[str, dict[str, Any]]:
    """What a map of each file would say, of all that was found."""
    maps: dict[str, dict[str, Any]] = {
        file: {name: dict(w) for name, w in each.maps.items()} for file, each in found.items()
    }
    for each in between:
        if each.of and each.words:
            maps[each.of].setdefault(each.name, {}).update(each.words)
    return {file: words for file, words in maps.items() if words}


def _show_maps(console: Console, maps: dict[str, dict[str, Any]]) -> None:
    """A map of each file, to be saved and given to a study; what is not so is taken out by a person."""
    from fedsvd.data.written import map_line

    for file, words in maps.items():
        stem = Path(file.partition("#")[0]).stem
        console.print(
            f"\nA map puts this right and leaves {Path(file).name} as it is. Take out what is not so, save it as "
            f"{stem}.toml, and give it by --map {stem}.toml (to a study by --map {stem}={stem}.toml), or as "
            "[table.map] in site.toml:\n\n[map]"
        )
        for name, line in words.items():
            console.print(map_line(name, line), soft_wrap=True)
        console.print()


def _other_units(sources: dict[str, Any], ids: list[str]) -> list[Any]:
    """Columns of numbers that all tables have and that may be in another unit in one of them; ids have none."""
    from fedsvd.prepare.columns import arranged
    from fedsvd.prepare.units import Spread, units_between

    numbers = [{*(each.names or ())} - each.text_names for each in sources.values()]
    first = next(iter(sources.values())).names or ()
    names = [name for name in first if name not in ids and all(name in held for held in numbers)]
    return (
        units_between(names, {file: Spread.of(arranged(each, names)) for file, each in sources.items()})
        if names
        else []
    )


def _other_spellings(sources: dict[str, Any]) -> Iterator[Any]:
    """Columns of text that all tables have, and whose levels one of them may spell otherwise."""
    import numpy as np

    from fedsvd.prepare.spellings import spellings_between

    for name in next(iter(sources.values())).names or ():
        if not all(name in each.text_names for each in sources.values()):
            continue
        counts: dict[str, dict[str, int]] = {}
        for file, each in sources.items():
            values, gaps = each.text(name)
            levels, records = np.unique(values[~gaps], return_counts=True)
            counts[file] = dict(zip(levels.tolist(), records.tolist(), strict=True))
        if max(map(len, counts.values())) <= _LEVELS:  # a column of more is of ids, or of free text
            yield from spellings_between(name, counts)


def _units(job: Path | None) -> str | None:
    """Whether a study compares units between parties, which one party's file cannot say."""
    from fedsvd.studies.doubts import units
    from fedsvd.studies.job_file import read_job, study_of

    if job is None:
        return "not looked at, for one file is here; fedsvd plan says whether a study compares them"
    asked = read_job(job)
    return units(study_of(asked), asked.prepare, asked.dictionary is not None)


def _refused_by(job: Path, source: Any) -> tuple[str, ...]:
    """All that the study of a job file would refuse of a table, prepared as the file says."""
    from fedsvd.studies.job_file import read_job
    from fedsvd.studies.own_faults import own_faults

    return tuple(f"{error.fault}. {error.fix}".rstrip(". ") for error in own_faults(read_job(job), source))


def _record(file: str, found: Any) -> dict[str, Any]:
    return {
        "file": file,
        "rows": found.rows,
        "columns": [{k: v for k, v in asdict(column).items() if k != "written"} for column in found.columns],
        "missing": found.missing,
        "refused": [_said(text) for text in found.refused],
        "suspicious": [_said(text) for text in found.suspicious],
    }


def _show(console: Console, file: str, found: Any) -> None:
    columns = found.columns
    console.print(f"{Path(file).name}: {found.rows} rows x {len(columns)} columns, {found.missing} entries missing")
    rows = [(c.name, c.kind, c.missing or "", c.levels or "") for c in columns[:_SHOWN]]
    console.print(listing(("column", "holds", "missing", "different texts"), rows))
    if len(columns) > _SHOWN:
        console.print(f"... and {len(columns) - _SHOWN} more columns; --json lists all of them")
    for text in found.refused:
        console.print(f"A study would refuse: {_said(text)}.")
    for text in found.suspicious:
        console.print(f"Suspicious: {_said(text)}.")
