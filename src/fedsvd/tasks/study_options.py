"""Options of ``[job]`` that several tasks share, of ``[masks]``, ``[csp]``, ``[authority]`` and ``[[party]]``."""

from functools import partial

from fedsvd.protocol.tasks import MODEL_TASKS, Answer, Check, Ids, Mode, Split, Task, Trust, Write
from fedsvd.tasks.declared import declared
from fedsvd.tasks.option import CLI, ESTIMATOR, NEEDED, TASKS, Option
from fedsvd.tasks.values import (
    ADDRESS,
    BYTES,
    COMPONENTS,
    FLAG,
    ID_COLUMNS,
    ITEMS,
    LABELS,
    NAMED,
    SCHEME,
    TEXT,
    optional,
    whole,
    word,
)

# The samples of PCA and PCR are split over the parties, and no row is another party's too; CCA is of split columns.
# Models are of split rows; they take split to say why, and have no ids to compare and no records to match.
_SPLIT_EITHER_WAY = (Task.SVD, Task.LSA, Task.LR, *MODEL_TASKS)
_SPLIT_COLUMNS = (Task.SVD, Task.LSA, Task.LR, Task.CCA)

STUDY = (
    Option(
        "name",
        NAMED,
        NEEDED,
        "The job's name; the task's where left out.",
        "the study's name, and the name of its results folder: letters, digits, `.`, `_`, `-`",
        defaults={CLI: None},
    ),
    Option(
        "task",
        word(TASKS, Task),
        NEEDED,
        "",
        (
            "`svd`, `pca`, `lsa`, `lr`, `glm`, `cox`, `ordinal`, `survival`, `describe` (Table 1), `cca` (canonical "
            "correlations of split columns) or `pcr` (regression on components, split rows); `foreign` is the "
            "statistic that `[foreign]` names"
        ),
    ),
    Option(
        "split",
        word(Split),
        Split.HORIZONTAL,
        "horizontal: parties hold different rows. vertical: different columns.",
        '`"horizontal"`: parties hold different rows; `"vertical"`: different columns',
        tasks=_SPLIT_EITHER_WAY,
        defaults={"cca": Split.VERTICAL},
    ),
    Option(
        "components",
        optional(COMPONENTS),
        None,
        ("How many components; all where left out. PCA: a share of variance, mle, parallel, gavish-donoho, too."),
        (
            "how many singular vectors or components; needed for `lsa` and `pcr`, unknown to `lr` and `glm`. "
            'For `pca` and `pcr` also a share of the variance (`0.95`), `"mle"` or `"gavish-donoho"`, for `pca` '
            'also `"parallel"`: [choose components](howto/components.md). All of U and S is released then, and '
            "each party takes the first components at home. For `cca` as many as the narrowest table has "
            "columns where left out"
        ),
        unset="all",
        tasks=(*(task for task in TASKS if declared(task).answer is Answer.FACTORS), Task.PCR),
        names={ESTIMATOR: "n_components"},
        defaults={"FederatedLSA": 2, "FederatedPCR": 0.95},
        metavar="COUNT|SHARE|RULE",
    ),
    Option(
        "release",
        optional(ITEMS),
        None,
        (
            "What all parties get beyond the default; once for each, or with commas. A PCA's singular values (spectrum)"
            " are not in it, and are in that of FederatedPCA."
        ),
        "what the parties come to hold, see below",
        unset="what the task needs",
        tasks=(Task.PCA, Task.LR),
        names={ESTIMATOR: "release_spectrum"},
        defaults={ESTIMATOR: True},
    ),
    Option(
        "label",
        LABELS,
        (),
        "The column to predict, or of times; once for each of several.",
        "the column to predict, or a list of several (`lr`, `pcr`); of `cox` and `survival` the time",
        unset="needed for `lr`, `glm`, `cox`, `survival`, `ordinal`, `pcr`",
        tasks=tuple(task for task in TASKS if declared(task).labelled or task is Task.SURVIVAL),
        columns=True,
    ),
    Option(
        "label_party",
        optional(NAMED),
        None,
        "Who holds the label, where columns are split.",
        "with split columns, the party that holds the label",
        unset="the party that has it",
        tasks=(Task.LR,),
    ),
    Option(
        "id",
        optional(ID_COLUMNS),
        None,
        "The column of row ids, once for each of several; compared where columns are split.",
        "the column of row ids, or a list of several that make an id together; left out of the data",
        columns=True,
    ),
    Option(
        "sort_by_id",
        FLAG,
        False,
        "Let every party sort its rows by id first, locally.",
        "with split columns: every party first sorts its rows by id, locally",
        tasks=_SPLIT_COLUMNS,
    ),
    Option(
        "ids",
        word(Ids),
        Ids.COMPARE,
        "Split columns: compare the rows' ids, or trust that all have their rows in one order.",
        (
            'with split columns: `"compare"` the ids of all parties\' rows, and warn where no `id` is named; or '
            '`"trust"` that all have their rows in one order, see below'
        ),
        tasks=_SPLIT_COLUMNS,
    ),
)
"""What is studied: before the options of a model."""

FACTORISATION = (
    Option(
        "unit_variance",
        FLAG,
        False,
        "Scale every column to unit variance first.",
        "scale every column to unit variance first (`pca`, `pcr`)",
        tasks=(Task.PCA, Task.PCR),
    ),
    Option(
        "memory",
        optional(BYTES),
        None,
        'Bytes a role may use, such as "512 MiB"; 2 GiB or more by need.',
        (
            'bytes a role may use: a number, or `"512 MiB"`. Left out: 2 GiB, or as much as the joint Gram '
            "matrix needs where scheme `sum` needs more (70 to 110 bytes an entry by the cost model, `fedsvd "
            "plan` shows it: 1.5 GB for 4,096 features); with all roles in one process at most half of the "
            "machine. The interpreter and its libraries come on top"
        ),
        unset="by need",
    ),
    Option(
        "device",
        optional(TEXT),
        None,
        "Where roles compute: cuda, cuda:1, cupy; NumPy where left out.",
        (
            'where roles compute on this machine: `"cuda"`, `"cuda:1"`, `"cupy"`; between institutions '
            "`site.toml` says it"
        ),
        unset="the CPU",
    ),
    Option(
        "engine",
        optional(TEXT),
        None,
        "A Dask cluster of this machine's cores, or another.",
        '`"dask"`, a cluster of this machine\'s cores, or `"tls://host:port"`, a Dask scheduler; likewise',
        unset="this process",
        metavar="dask|tls://HOST:PORT",
    ),
    Option(
        "write",
        word(Write),
        Write.NPY,
        "A large own part: as .npy, as Parquet, or not at all, only verified.",
        (
            'how an own part of more than two million numbers is written, panel by panel: `"npy"` or '
            '`"parquet"`; smaller ones are written as `.npy`, CSV and Parquet in any case; with `"none"` no own '
            "part is written"
        ),
        tasks=(Task.SVD, Task.PCA, Task.LSA),
    ),
    Option(
        "verify",
        word(Check),
        Check.NONE,
        "What parties verify of their own singular vectors: all, a sample, nothing.",
        (
            'what parties verify of their own singular vectors (`svd`, `lsa`): `"all"` panels, or a `"sample"` '
            'of 16 panels, which makes no others and needs `write = "none"`'
        ),
        tasks=(Task.SVD, Task.LSA),
    ),
)
"""Options of factorisations, and of how a role computes and writes."""

_masks, _party = partial(Option, section="masks"), partial(Option, section="party")

MASKS = (
    _masks(
        "scheme",
        SCHEME,
        "auto",
        "How data is hidden: by sums, by masks or by steps; auto chooses by shape.",
        (
            '`"sum"`: exact sums of Gram matrices, where the side that all parties share is short; `"mask"`: '
            'masks over whole sides, where it is long; `"steps"`: the top of a long side by sums of products with a '
            "few directions at a time (`svd`, `lsa`, `pca`, `pcr`; a number of components, or a share of the "
            "variance; S released; on split columns it "
            'opens numbers of every record, and asks). `"auto"` picks by the shapes; `fedsvd plan` says why, and what '
            "another one would cost. "
            '`"sum"` with less `memory` than it needs is FSVD-350. The scheme of '
            "the paper as published is no option: it is in `fedsvd-lab`, which `make reproduce` runs"
        ),
        metavar="auto|sum|mask|steps",
    ),
    _masks(
        "mode",
        optional(word(Mode)),
        None,
        "Scheme sum: A, parties open the joint Gram matrix and hold it; B, the CSP, masked.",
        (
            'of the scheme `sum`, who opens the sum: `"A"`, the parties, who then hold the joint Gram matrix, '
            'and the CSP learns shapes; `"B"`, the CSP, under a rotation it does not know, which learns ratios '
            "of singular values. Left out: A where U and S are released whole, or a regression's inference, "
            "else B. A is asked for otherwise only with every owner's consent (`consent_to_gram` in "
            "policy.toml)"
        ),
        unset="by what is released",
    ),
    _masks(
        "block_size",
        optional(whole(1)),
        None,
        "Width of mask blocks.",
        'width of mask blocks; the scheme `"mask"` refuses less than 128',
        unset="128",
    ),
    Option(
        "address",
        optional(ADDRESS),
        None,
        "",
        "host and port of the computing server; not needed on one machine",
        section="csp",
    ),
    Option(
        "name",
        NAMED,
        NEEDED,
        "",
        "a named Trusted Authority deals the masks; without one the parties agree on them",
        unset="none",
        section="authority",
    ),
    _party("name", NAMED, NEEDED, "", "the party's name, and that of its results folder"),
    _party(
        "data",
        optional(TEXT),
        None,
        "",
        (
            "its table: `.csv`, `.tsv` (also `.gz`), `.parquet`, `.npy`, or sparse `.npz`, or an address "
            "(below); on one machine only"
        ),
    ),
    _party(
        "link",
        optional(TEXT),
        None,
        "With --align: a party's linkage map, own id and entity; once for each.",
        (
            "its linkage map, where its ids are others: a table of two columns, its own id and the entity's; on "
            "one machine only, else `[link]` in `site.toml`"
        ),
        names={CLI: "linkage"},
        metavar="NAME=FILE",
    ),
    _party(
        "map",
        optional(TEXT),
        None,
        "How a party's own table is mapped, or without NAME= all of them: a file with the keys of [table].",
        (
            "how its table becomes what the study wants: a TOML file with the keys of `[table]` of a `site.toml` "
            "([deployment](deployment.md)): names, levels, units, codes; on one machine only"
        ),
        metavar="[NAME=]FILE",
    ),
    Option("trust", word(Trust), Trust.PEERS, "Who deals the masks: peers, or an authority.", section=""),
)
"""How data is hidden, and between whom."""
