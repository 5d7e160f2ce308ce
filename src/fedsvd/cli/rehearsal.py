"""``fedsvd federation rehearse`` and ``start``: a federation on one machine, to try the commands out.

From nothing to the results of a first job among institutions that are all one person: five commands, of which the
first prints the other four. A real federation is founded with ``fedsvd federation init``; nothing here touches one.
"""

import json
import sys
import threading
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer
from rich.console import Console

from fedsvd.cli.options import FormatOption
from fedsvd.cli.output import Format, Output
from fedsvd.cli.signals import heed_signals
from fedsvd.storage import private

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The rehearsal's folder.")]
_HOSPITALS = {"hospital-a": slice(0, 200), "hospital-b": slice(200, 350), "hospital-c": slice(350, None)}
_COMPONENTS = "5"


def rehearse(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder; remove it to be rid of the rehearsal.")],
    job: Annotated[
        Path | None, typer.Option("--job", metavar="JOB.TOML", help="Rehearse this job; three hospitals otherwise.")
    ] = None,
    format: FormatOption = Format.TEXT,
) -> None:
    """Found a federation to try things out with, on this machine: all kits, pins, data and a job at once."""
    from fedsvd.identity.certificates import REHEARSAL
    from fedsvd.prepare.dictionary import FILE as DICTIONARY
    from fedsvd.service.rehearsal import found, new_folder
    from fedsvd.studies.job_file import read_job

    read = None if job is None else read_job(job)
    with new_folder(folder):
        file = job or _three_hospitals(folder)
        rehearsal = found(folder, read or read_job(file), file)
    name = (read or read_job(file)).study.name
    kit, researcher = quote(str(rehearsal.yours)), quote(str(rehearsal.researcher))
    commands = [
        f"fedsvd federation start {quote(str(folder))}",
        f"fedsvd job submit {quote(str(file))} --kit {researcher}",
        f"fedsvd job approve {name} --kit {kit}",
        f"fedsvd job watch {name} --kit {kit}",
    ]
    record = {
        "rehearsal": str(folder),
        "you": rehearsal.you,
        "kits": {caller: str(path) for caller, path in rehearsal.kits.items()},
        "next": commands,
    }

    def show(console: Console) -> None:
        console.print(REHEARSAL)
        console.print(f"Founded in {folder}: {', '.join(sorted(rehearsal.kits))}.")
        if job is None:
            made = "made from the three tables, which people of three hospitals would agree on"
            console.print(f"The dictionary ({folder / DICTIONARY}) was {made}.")
        elif read is not None and read.dictionary is None:
            console.print("The job names no dictionary; fedsvd dictionary propose FILE writes a first one.")
        console.print(f"You play {rehearsal.you}; the other parties approve every job that their policy allows.")
        console.print("Type next, the first in a terminal of its own (Ctrl-C ends it):")
        for command in commands:
            console.print(f"  {command}", soft_wrap=True)

    Output(format).answer(record, show)


def start(folder: Folder, format: FormatOption = Format.TEXT) -> None:
    """Start every role of a rehearsal on this machine, until Ctrl-C; a federation's roles start each at its place."""
    from fedsvd.errors import PeerLost
    from fedsvd.identity.certificates import REHEARSAL
    from fedsvd.service.rehearsal import Rehearsal

    rehearsal = Rehearsal.at(folder)
    stop = threading.Event()
    heed_signals(stop)
    typer.echo(REHEARSAL, err=True)
    with rehearsal.running() as processes:
        roles = [process.name for process in processes]
        if format is Format.JSON:
            typer.echo(json.dumps({"ready": {"roles": roles, "rehearsal": True}}))
        else:
            typer.echo(f"REHEARSAL: {', '.join(roles)} are running; Ctrl-C ends them. Logs: {folder / 'logs'}")
        sys.stdout.flush()
        while not stop.wait(0.5):
            for process in processes:
                if not process.running:
                    raise PeerLost(process.ended().fault, f"its log says why: {process.log}")


def _three_hospitals(folder: Path) -> Path:
    """The bundled table split over three hospitals, and the job file of a PCA over it."""
    from sklearn.datasets import load_breast_cancer

    from fedsvd.cli.init import JOB, job_text
    from fedsvd.data.arrays import ArraySource
    from fedsvd.prepare.dictionary import FILE as DICTIONARY
    from fedsvd.prepare.dictionary import spelt_dictionary
    from fedsvd.prepare.propose import propose
    from fedsvd.protocol.tasks import Split, Task

    table = load_breast_cancer()
    header = ",".join(str(name) for name in table.feature_names)
    (folder / "data").mkdir(mode=0o700)
    for name, rows in _HOSPITALS.items():
        lines = [header, *(",".join(map(repr, row)) for row in table.data[rows].tolist())]
        private.replace(folder / "data" / f"{name}.csv", ("\n".join(lines) + "\n").encode())
    found = propose(ArraySource(table.data, [str(name) for name in table.feature_names]), "three-hospitals", 1)
    private.replace(folder / DICTIONARY, spelt_dictionary(found.dictionary).encode())
    text = job_text("three-hospitals", Task.PCA, Split.HORIZONTAL, list(_HOSPITALS), _COMPONENTS, "")
    text += f'\n[dictionary]\nfile = "{DICTIONARY}"\n'
    private.replace(folder / JOB, text.replace("# unit_variance", "unit_variance").encode())
    return folder / JOB
