"""The options that several commands share and that are of no study; those of a study are in ``tasks/options.py``."""

from pathlib import Path
from typing import Annotated

import typer

from fedsvd.cli.output import Format

Parties = Annotated[
    list[str],
    typer.Option("--party", metavar="[NAME=]FILE", help="A party's table, once for each party; named by its file."),
]
Scratch = Annotated[Path | None, typer.Option(help="Folder for temporary files; the system's own where left out.")]
Out = Annotated[Path | None, typer.Option("--out", help="The results folder; results/NAME where left out.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace older results in that folder.")]
Figures = Annotated[
    Path | None, typer.Option("--figures", metavar="DIR", help="Draw every figure of the results there: PNG and PDF.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
FormatOption = Annotated[Format, typer.Option("--format", help="What standard output carries.")]
KitOption = Annotated[Path, typer.Option("--kit", metavar="DIR", help="The folder with this role's kit.")]
CspOption = Annotated[
    str | None, typer.Option("--csp", metavar="HOST:PORT", help="Where the CSP is; site.toml otherwise.")
]
JobId = Annotated[str, typer.Argument(metavar="JOB", help="The job's id, its beginning, or the job's name.")]
LinkOption = Annotated[
    str | None, typer.Option("--link", metavar="SPEED", help='The speed of the CSP\'s line, such as "100 Mbit/s".')
]
