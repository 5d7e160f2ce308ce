"""Options of ``[match]`` and ``[prepare]``: how records are matched, and tables prepared, before a study."""

from functools import partial
from typing import Literal

from fedsvd.protocol.tasks import Align
from fedsvd.tasks.option import CLI, Option
from fedsvd.tasks.values import (
    CATEGORIES,
    COLUMN,
    DATES,
    FLAG,
    FLAG_OR_NAMES,
    FORMULA,
    LEVELS,
    NAMES,
    ORDERS,
    RENAMES,
    number,
    optional,
    whole,
    word,
)

LEAST_OVERLAP = 10
"""Fewest common records where a job does not say."""

LEAST_COUNT = 5
"""Fewest occurrences of a level, and fewest entries behind a joint mean, unless a job says otherwise."""

_OVER = ("joint", "site", "none")

_match, _prepare = partial(Option, section="match"), partial(Option, section="prepare")
_categories = partial(Option, section="prepare.categories")

MATCH = (
    _match(
        "align",
        optional(word(Align)),
        None,
        "Match records by id first: the CSP compares hashes, or points that all blind.",
        (
            '`"server"`: the CSP compares keyed hashes, fast; it learns how large the sets are and how they '
            'overlap. `"ecdh"`: the CSP compares points of a curve that every party has blinded; it learns the '
            "same, and no party together with it can look up ids that were not brought"
        ),
    ),
    _match(
        "case",
        word(("fold", "exact"), Literal["fold", "exact"]),
        "fold",
        "With --align: upper and lower case alike (fold), or exact.",
        '`"fold"`: upper and lower case are one; `"exact"`',
        names={CLI: "id_case"},
    ),
    _match(
        "spaces",
        word(("trim", "remove", "exact"), Literal["trim", "remove", "exact"]),
        "trim",
        "With --align: blanks trimmed, all removed, or exact.",
        'blanks at the ends go and others become one; `"remove"`: all go; `"exact"`',
        names={CLI: "id_spaces"},
    ),
    _match(
        "dates",
        DATES,
        (),
        "With --align: an id column that holds dates; once for each.",
        "id columns that hold dates: `2024-12-31`, `20241231`, `31.12.2024` and `31/12/2024` are one",
        names={CLI: "id_dates"},
        columns=True,
    ),
    _match(
        "month_first",
        FLAG,
        False,
        "With --id-dates: 03/04/2024 is a day in March, not in April.",
        "whether `03/04/2024` is a day in March",
    ),
    _match(
        "least_overlap",
        whole(1),
        LEAST_OVERLAP,
        "With --align: fewer common records end the study; 10.",
        (
            "fewer common records end the study, before any party learns which they are "
            "([FSVD-212](errors/FSVD-212.md)); a party's `policy.toml` may ask for more"
        ),
    ),
)

PREPARE = (
    _prepare(
        "columns",
        NAMES,
        (),
        "The columns of the study, in this order; once for each, or with commas.",
        (
            "the features of the study; every party's table is brought into this order, and other columns stay "
            "out. Label and id need not be listed. Columns that parties lack are named at once for all of them, "
            "on one machine. With split columns a party takes those of the list that it has"
        ),
        unset="all",
        columns=True,
    ),
    _prepare(
        "drop",
        NAMES,
        (),
        "Columns to leave out; once for each, or with commas.",
        "columns to leave out",
        columns=True,
    ),
    _prepare(
        "rename",
        RENAMES,
        {},
        "What a column is called in the study; once for each.",
        (
            "new names by old ones, `[prepare.rename]`; a party that has no column of the old name skips it. A "
            "site that does not show its own names to the others puts them in its `site.toml` "
            "([deployment](deployment.md))"
        ),
        columns=True,
        metavar="OLD=NEW",
    ),
    _prepare(
        "view",
        optional(COLUMN),
        None,
        "A view of the dictionary: its columns, and the rows that miss nothing of them.",
        (
            "a named view of the dictionary: its columns are those of the study where none are named, and with "
            '`missing = "drop"` the rows are those that miss nothing of the view, whichever of its columns are taken'
        ),
    ),
    _prepare(
        "missing",
        word(("error", "mean", "constant", "drop", "low-rank")),
        "error",
        "Missing values: an error, rows dropped, a constant, the joint mean, low-rank.",
        (
            '`"error"`: empty cells are refused, with how many there are in each column of one\'s own table; '
            '`"drop"`: their rows are left out (labels and ids with them; not with split columns); '
            '`"constant"`: filled in; `"mean"`: filled in with the exact mean of the column\'s entries at all '
            'parties, together; `"low-rank"`: completed by low-rank imputation (soft-impute) of all columns of '
            "numbers, together, which shows all parties their joint Gram matrix (with `rank`, in `rank` + 8 directions "
            "a round) and takes every owner's `consent_to_gram`; rows whose gaps fewer than `minimum` rows of their "
            "table share take the means. A "
            "missing label is never filled in"
        ),
    ),
    _prepare(
        "constant",
        number(allow_inf_nan=False),
        0.0,
        "What --missing constant fills in; 0.",
        "what is filled in",
    ),
    _prepare(
        "penalty",
        number(gt=0, lt=1, allow_inf_nan=False),
        0.05,
        "With --missing low-rank: how much singular values are lowered, of the largest; 0.05.",
        'with `"low-rank"`: by how much singular values are lowered, as a share of the largest',
    ),
    _prepare(
        "rounds",
        whole(1, 500),
        30,
        "With --missing low-rank: how many sums it takes; 30.",
        'with `"low-rank"`: how many sums it takes; one that still moves then is refused',
    ),
    _prepare(
        "rank",
        optional(whole(1)),
        None,
        "With --missing low-rank: of many columns, how many singular values stay, at most.",
        (
            'with `"low-rank"` of many columns: how many singular values are above the penalty, at most; more are '
            "refused. Where 2 `rank` + 15 is below the number of columns, a round opens products of the Gram matrix "
            "with `rank` + 8 directions instead of the matrix, and seven rounds more are played"
        ),
        unset="the Gram matrix in every round",
    ),
    _prepare(
        "indicators",
        FLAG_OR_NAMES,
        False,
        "A column NAME_missing says where an entry was filled in.",
        (
            "a column `NAME_missing`, 1 where an entry was missing, after the others: a list of names, or "
            '`true`: with `"constant"` for every feature, with `"mean"` for every feature of which some party '
            "misses an entry. Every party has them, whether it misses an entry or not"
        ),
        columns=True,
    ),
    Option(
        "indicators_for",
        NAMES,
        (),
        "The same for these columns; once for each, or with commas.",
        section="",
        columns=True,
    ),
    _prepare(
        "ordinal",
        ORDERS,
        {},
        "Texts in order become 0, 1, 2; once for each.",
        (
            '`[prepare.ordinal]`, `grade = ["low", "mid", "high"]`: levels of a text column in order, which '
            "become 0, 1, 2. A level that is not listed is refused"
        ),
        columns=True,
        metavar="COLUMN=FIRST,SECOND,...",
    ),
    _prepare(
        "categories",
        CATEGORIES,
        {},
        "Text columns that become indicators; of models with an intercept, less the commonest.",
        (
            "text columns that become indicators of their levels at all parties, `NAME_LEVEL`, after the "
            "numbers, together: a name, a list, or `[prepare.categories]` with `sex = { drop_first = true }`, "
            '`{ reference = "f" }` (left out), `{ missing = "unknown" }` (the level that an empty cell is), '
            "`{ order = [...] }` (as `ordinal`) or `{ levels = [...] }`: all its levels, so that no session is needed "
            "to agree on them and one that is not listed is refused. A linear or generalised linear model with an "
            "intercept, or a Cox model, without a penalty has no column for the commonest level of all parties "
            "together (the first that is listed), with which the others are compared. Numbers may be categories "
            "too. Levels that one party alone has, or that are rarer than `minimum`, are pooled as `other` "
            "(`other (pooled)` where the data has a level called `other`)"
        ),
        columns=True,
    ),
    _categories(
        "drop_first",
        FLAG,
        False,
        "Indicators of all levels of these columns but the first; with commas.",
    ),
    _categories(
        "reference",
        optional(COLUMN),
        None,
        "Indicators of all levels but this one; once for each.",
        metavar="COLUMN=LEVEL",
    ),
    _categories("order", LEVELS, (), "", names={CLI: ""}),
    _categories("levels", LEVELS, (), "", names={CLI: ""}),
    _categories(
        "missing",
        optional(COLUMN),
        None,
        "The level that an empty cell is; once for each.",
        names={CLI: "missing_level"},
        metavar="COLUMN=LEVEL",
    ),
    _prepare(
        "formula",
        FORMULA,
        "",
        'The columns, in the style of R: "y ~ age * C(sex)", "Surv(time, event) ~ age"; ~ alone for a PCA.',
        (
            'the columns in the style of R and patsy, together where it has categories: `"outcome ~ age * '
            'C(sex) + log(dose)"`. What stands left of `~` is what a regression predicts (`lr`, `glm`, `pcr`; '
            'classes of a model are named in `[job] classes`), and `label` is left out; other tasks write `"~ '
            'age + C(sex)"`. Text stands in `C(...)`; another reference level is `C(sex, contr.treatment("m"))`. A '
            "bare `site` is which party a row is of (a column of that name is read as `C(site)`): its "
            "coefficients show the level of each party, and where the joint Gram matrix is opened (`glm`, "
            "`inference`) each party's totals of all columns. Names in results are the formula's. The grammar: "
            "columns (odd names in backticks), `C(x)`, `log(x)`, `log1p(x)`, `sqrt(x)`, `asinh(x)`, "
            "`poly(x, 2, raw=True)` or 3, `ns(x)` at knots of the dictionary, `I(x / 10)`, `I(x - 50)`, `I(x * z)`, "
            "and `+ - * : 0 1 ~ ( )`. Terms that are no columns of the model say keys of `[job]`: `Surv(time, event)` "
            "and `Surv(start, stop, event)` left of `~` (`label`, `event`, `entry`; of `survival` the group stands "
            "right of it), `strata(x)`, `cluster(x)`, `offset(x)`, and `(1 | id)`, `(x | id)` or `(x || id)` "
            "(`subject`, `slope`, `correlated`). At most three columns in a product, 200 terms, 2,000 characters. "
            "Other functions are refused by name: one "
            "such as `exp(-(200*(age-52.62))**2)` singles out a person (ADR 0072). Columns that need them are made "
            "in each party's own table before the study"
        ),
    ),
    _prepare(
        "combat",
        FLAG,
        False,
        "Remove site effects by ComBat.",
        ("site effects are removed by ComBat (location and scale, empirical Bayes), together; a party is a batch"),
    ),
    _prepare(
        "preserve",
        NAMES,
        (),
        "What --combat leaves in; once for each, or with commas.",
        "covariates whose effects ComBat leaves in the data; they are left out of the result",
        columns=True,
    ),
    _prepare(
        "covariates",
        NAMES,
        (),
        "Columns partialled out of all others; once for each, or with commas.",
        (
            "columns that are partialled out of all others (the residuals of a regression with an intercept), "
            "together, and left out of the result"
        ),
        columns=True,
    ),
    _prepare(
        "centre",
        word(_OVER),
        "none",
        "Subtract means: of all parties, of each site, or none.",
        '`"joint"`: subtract the means of all parties, together; `"site"`: of each party by itself',
    ),
    _prepare(
        "scale",
        word(_OVER),
        "none",
        "Divide by deviations: of all parties, of each site, or none.",
        '`"joint"`: divide by the deviations of all parties, together; `"site"`: of each party by itself',
    ),
    _prepare(
        "minimum",
        whole(1, 1_000_000),
        LEAST_COUNT,
        "Rarer levels are pooled; no mean of fewer entries is taken.",
        (
            "fewest records of a level that is named, and fewest entries behind a joint mean. Owners ask for at "
            "least their `least_count` ([policy.toml](deployment.md))"
        ),
    ),
    _prepare(
        "most_levels",
        whole(2, 4096),
        256,
        "Levels of one column that the sums have space for; 256.",
        "levels of one column, over all parties, that the sums have space for",
    ),
)
