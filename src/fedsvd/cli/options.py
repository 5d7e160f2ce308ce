"""The options that several commands share, each described once."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fedsvd.cli.output import Format
from fedsvd.prepare.missing import Missing
from fedsvd.prepare.sites import Over
from fedsvd.protocol.tasks import Align, Check, ChosenBy, ComponentRule, Family, Ids, Mode, Split, Trust, Write, is_rule


class SchemeName(StrEnum):
    """A scheme, or the choice of one by cost."""

    AUTO = "auto"
    SUM = "sum"
    MASK = "mask"
    PAPER = "paper"


class IdCaseName(StrEnum):
    """What becomes of upper and lower case in ids."""

    FOLD = "fold"
    EXACT = "exact"


class IdSpacesName(StrEnum):
    """What becomes of blanks in ids."""

    TRIM = "trim"
    REMOVE = "remove"
    EXACT = "exact"


class Covariance(StrEnum):
    """Which standard errors."""

    NONROBUST = "nonrobust"
    HC0 = "HC0"
    HC1 = "HC1"
    HC2 = "HC2"
    HC3 = "HC3"


Parties = Annotated[
    list[str],
    typer.Option("--party", metavar="[NAME=]FILE", help="A party's table, once for each party; named by its file."),
]


def _count(value: str | None) -> str | None:
    """A number of components, a share of the variance or a rule."""
    if value is None or is_rule(value) or (value.isdecimal() and int(value) > 0):
        return value
    raise typer.BadParameter(f"not a number from 1 up, a share between 0 and 1, or one of {', '.join(ComponentRule)}.")


Components = Annotated[
    str | None,
    typer.Option(
        metavar="COUNT|SHARE|RULE",
        callback=_count,
        help="How many components; all where left out. PCA: a share of variance, mle, parallel, gavish-donoho, too.",
    ),
]
SplitOption = Annotated[
    Split, typer.Option("--split", help="horizontal: parties hold different rows. vertical: different columns.")
]
Id = Annotated[
    list[str] | None,
    typer.Option("--id", help="The column of row ids, once for each of several; compared where columns are split."),
]
SortById = Annotated[bool, typer.Option("--sort-by-id", help="Let every party sort its rows by id first, locally.")]
IdsOption = Annotated[
    Ids,
    typer.Option("--ids", help="Split columns: compare the rows' ids, or trust that all have their rows in one order."),
]
AlignOption = Annotated[
    Align | None,
    typer.Option("--align", help="Match records by id first: hashes at the CSP, or points the parties blind in turn."),
]
LeastOverlap = Annotated[
    int | None, typer.Option("--least-overlap", min=1, help="With --align: fewer common records end the study; 10.")
]
IdDates = Annotated[
    list[str] | None, typer.Option("--id-dates", help="With --align: an id column that holds dates; once for each.")
]
IdCase = Annotated[
    IdCaseName | None, typer.Option("--id-case", help="With --align: upper and lower case alike (fold), or exact.")
]
IdSpaces = Annotated[
    IdSpacesName | None, typer.Option("--id-spaces", help="With --align: blanks trimmed, all removed, or exact.")
]
MonthFirst = Annotated[
    bool, typer.Option("--month-first", help="With --id-dates: 03/04/2024 is a day in March, not in April.")
]
Linkage = Annotated[
    list[str] | None,
    typer.Option(
        "--linkage", metavar="NAME=FILE", help="With --align: a party's linkage map, own id and entity; once for each."
    ),
]
Label = Annotated[list[str] | None, typer.Option("--label", help="The column to predict; once for each of several.")]
LabelParty = Annotated[str | None, typer.Option(help="Who holds the label, where columns are split.")]
Alpha = Annotated[float, typer.Option(min=0.0, help="Strength of the ridge; 0 for ordinary least squares.")]
Alphas = Annotated[
    list[float] | None, typer.Option("--alphas", help="Ridges to choose among by cross-validation; once for each.")
]
ChooseBy = Annotated[
    ChosenBy | None, typer.Option("--choose-by", help="How: leave out each row (loo), or generalised (gcv).")
]
CovType = Annotated[
    Covariance, typer.Option("--cov-type", help="Standard errors: nonrobust, or HC0 to HC3; with --inference.")
]
Cluster = Annotated[
    str | None, typer.Option(help="The column of clusters that standard errors are robust to; with --inference.")
]
Intercept = Annotated[bool, typer.Option("--intercept/--no-intercept", help="Whether the model has an intercept.")]
Inference = Annotated[
    bool,
    typer.Option("--inference", help="Standard errors, tests, intervals; all parties then hold the joint Gram matrix."),
]
FamilyOption = Annotated[Family, typer.Option("--family", help="The distribution of the target.")]
LinkFunction = Annotated[str | None, typer.Option("--link", help="The link; the family's usual one where left out.")]
Classes = Annotated[
    list[str] | None,
    typer.Option("--class", help="The target's classes, once for each; the first is the reference. 0 and 1 otherwise."),
]
Offset = Annotated[str | None, typer.Option("--offset", help="The column that is added to the linear predictor.")]
Weights = Annotated[str | None, typer.Option("--weights", help="The column of prior weights.")]
Tolerance = Annotated[float, typer.Option("--tolerance", help="Ends the iteration: standard errors of the next step.")]
MaxIterations = Annotated[int, typer.Option("--max-iterations", min=1, help="Beyond, the fit has not converged.")]
LeastClass = Annotated[
    int, typer.Option("--least-class", min=0, help="Rows of the smallest class, below which the session ends.")
]
LeastEvents = Annotated[
    int, typer.Option("--least-events", min=0, help="Events for each coefficient, below which the session ends.")
]
UnitVariance = Annotated[bool, typer.Option("--unit-variance", help="Scale every column to unit variance first.")]
FullMatrices = Annotated[bool, typer.Option("--full-matrices", help="Square factors; in the paper's scheme alone.")]
Release = Annotated[
    list[str] | None,
    typer.Option("--release", help="What all parties get beyond the default; once for each, or with commas."),
]
SchemeOption = Annotated[
    SchemeName, typer.Option("--scheme", help="How data is hidden: sums, masks, as the paper; auto chooses by shape.")
]
ModeOption = Annotated[
    Mode | None,
    typer.Option("--mode", help="Scheme sum: A, parties open the joint Gram matrix and hold it; B, the CSP, masked."),
]
TrustOption = Annotated[Trust, typer.Option("--trust", help="Who deals the masks: peers, or an authority.")]
BlockSize = Annotated[int | None, typer.Option(min=1, help="Width of mask blocks.")]
Memory = Annotated[str | None, typer.Option(help='Bytes a role may use, such as "512 MiB"; 2 GiB or more by need.')]
DeviceOption = Annotated[
    str | None, typer.Option("--device", help="Where roles compute: cuda, cuda:1, cupy; NumPy where left out.")
]
EngineOption = Annotated[
    str | None,
    typer.Option(
        "--engine", metavar="dask|tls://HOST:PORT", help="A Dask cluster of this machine's cores, or another."
    ),
]
WriteOption = Annotated[
    Write, typer.Option("--write", help="A large own part: as .npy, as Parquet, or not at all, only verified.")
]
VerifyOption = Annotated[
    Check, typer.Option("--verify", help="What parties verify of their own singular vectors: all, a sample, nothing.")
]
ColumnsOption = Annotated[
    list[str] | None,
    typer.Option("--columns", help="The columns of the study, in this order; once for each, or with commas."),
]
DropOption = Annotated[
    list[str] | None, typer.Option("--drop", help="Columns to leave out; once for each, or with commas.")
]
MissingOption = Annotated[
    Missing | None,
    typer.Option("--missing", help="Missing values: an error, rows dropped, a constant, the joint mean, low-rank."),
]
ConstantOption = Annotated[float | None, typer.Option("--constant", help="What --missing constant fills in; 0.")]
PenaltyOption = Annotated[
    float | None,
    typer.Option(
        "--penalty", help="With --missing low-rank: how much singular values are lowered, of the largest; 0.05."
    ),
]
RoundsOption = Annotated[
    int | None, typer.Option("--rounds", min=1, help="With --missing low-rank: how many sums it takes; 30.")
]
RenameOption = Annotated[
    list[str] | None,
    typer.Option("--rename", metavar="OLD=NEW", help="What a column is called in the study; once for each."),
]
OrdinalOption = Annotated[
    list[str] | None,
    typer.Option("--ordinal", metavar="COLUMN=FIRST,SECOND,...", help="Texts in order become 0, 1, 2; once for each."),
]
IndicatorsForOption = Annotated[
    list[str] | None,
    typer.Option("--indicators-for", help="The same for these columns; once for each, or with commas."),
]
IndicatorsOption = Annotated[
    bool, typer.Option("--indicators", help="A column NAME_missing says where an entry was filled in.")
]
CategoriesOption = Annotated[
    list[str] | None,
    typer.Option("--categories", help="Text columns that become indicators; once for each, or with commas."),
]
ReferenceOption = Annotated[
    list[str] | None,
    typer.Option("--reference", metavar="COLUMN=LEVEL", help="Indicators of all levels but this one; once for each."),
]
DropFirstOption = Annotated[
    list[str] | None,
    typer.Option("--drop-first", help="Indicators of all levels of these columns but the first; with commas."),
]
MissingLevelOption = Annotated[
    list[str] | None,
    typer.Option("--missing-level", metavar="COLUMN=LEVEL", help="The level that an empty cell is; once for each."),
]
MostLevelsOption = Annotated[
    int | None, typer.Option("--most-levels", min=2, help="Levels of one column that the sums have space for; 256.")
]
FormulaOption = Annotated[
    str | None, typer.Option("--formula", help='The columns, in the style of R: "y ~ age * C(sex)"; ~ alone for a PCA.')
]
CovariatesOption = Annotated[
    list[str] | None,
    typer.Option("--covariates", help="Columns partialled out of all others; once for each, or with commas."),
]
CombatOption = Annotated[bool, typer.Option("--combat", help="Remove site effects by ComBat.")]
PreserveOption = Annotated[
    list[str] | None,
    typer.Option("--preserve", help="What --combat leaves in; once for each, or with commas."),
]
CentreOption = Annotated[
    Over | None, typer.Option("--centre", help="Subtract means: of all parties, of each site, or none.")
]
ScaleOption = Annotated[
    Over | None, typer.Option("--scale", help="Divide by deviations: of all parties, of each site, or none.")
]
MinimumOption = Annotated[
    int | None, typer.Option("--minimum", min=1, help="Rarer levels are pooled; no mean of fewer entries is taken.")
]
Scratch = Annotated[Path | None, typer.Option(help="Folder for temporary files; the system's own where left out.")]
Name = Annotated[str | None, typer.Option("--name", help="The job's name; the task's where left out.")]
Out = Annotated[Path | None, typer.Option("--out", help="The results folder; results/NAME where left out.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace older results in that folder.")]
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
