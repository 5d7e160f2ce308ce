"""What a job file cannot say: rules between its keys, section by section, before a study is made of them.

Each list looks at what its docstring names. Rules of the study itself, which estimators obey too, are in ``rules.py``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedsvd.protocol.families import EFFECTS, FACTS
from fedsvd.protocol.tasks import FAMILIES, Check, Ids, Split, Task, Write
from fedsvd.tasks.declared import declared
from fedsvd.tasks.model_rules import OWN_CLUSTERS, vertical
from fedsvd.tasks.option import TASKS, Option, Rule
from fedsvd.tasks.options import named_columns, option_of, section_of
from fedsvd.tasks.rules import does_not_apply
from fedsvd.types import near

# Of these a rule below, or one of the study, says more than that they do not apply.
_REFUSED_ELSEWHERE = ("split", "components", "release", "sort_by_id", "ids")


def _heeded(option: Option) -> Rule:
    return does_not_apply(option.key, lambda study: getattr(study, option.key) != option.default, option.tasks)


def _by_id(study: Any) -> int:
    """Rows of one person are a cluster: the id may be named as one too."""
    return int(study.cluster is not None and study.cluster in study.id_columns)


STUDY_RULES = (
    *(
        _heeded(option)
        for option in section_of("job")
        if option.tasks != TASKS and option.key not in _REFUSED_ELSEWHERE
    ),
    Rule(
        lambda study: study.task is Task.LSA and study.components is None,
        "task 'lsa' needs a number of components",
        "components = 100, say",
    ),
    Rule(
        lambda study: len(set(named_columns("job", study))) < len(named_columns("job", study)) - _by_id(study),
        "one column is named twice among label, event, entry, strata, weights, offset, cluster and id",
        "name different ones",
    ),
    Rule(
        lambda study: study.task is Task.SURVIVAL and (len(study.label) != 1 or study.event is None),
        "task 'survival' needs the column of times and that of events",
        'label = "time" and event = "status", say (1 where the event was seen, 0 where follow-up ended), or --formula '
        '"Surv(time, status) ~ group"',
    ),
    OWN_CLUSTERS,
    Rule(
        lambda study: study.cluster is not None and study.cov_type != "nonrobust",
        "cov_type and cluster are two kinds of standard errors",
        "leave one of them out",
    ),
    Rule(
        lambda study: study.offset is not None and vertical(study),
        "an offset is subtracted from labels where rows are split",
        "subtract it from the label column",
    ),
    Rule(
        lambda study: study.label_party is not None and not vertical(study),
        "label_party is for columns split over the parties",
        "leave it out: every party has labels",
    ),
    Rule(
        lambda study: study.sort_by_id and (study.id is None or not vertical(study)),
        "sort_by_id needs split = 'vertical' and the name of the id column",
        'id = "customer_id", say',
    ),
    Rule(
        lambda study: study.ids is Ids.TRUST and not vertical(study),
        "ids are compared where columns are split, and ids = 'trust' compares none",
        "leave ids out",
    ),
    Rule(
        lambda study: study.ids is Ids.TRUST and study.sort_by_id,
        "sort_by_id has ids to be compared, and ids = 'trust' compares none",
        "leave ids out",
    ),
    Rule(
        lambda study: study.verify is Check.SAMPLE and study.write is not Write.NONE,
        "a sample is verified and not written",
        'set write = "none", or verify = "all"',
    ),
)
"""Of ``[job]``: columns, ids, what is written."""

MODEL_RULES = (
    Rule(
        lambda study: study.task is Task.GLM and study.family is None,
        "task 'glm' needs a family",
        f"family = one of {', '.join(FAMILIES)}",
    ),
    Rule(
        lambda study: study.task is Task.COX and study.event is None,
        "task 'cox' needs the column of events",
        'event = "status", say (1 where the event was seen, 0 where follow-up ended), or a formula: '
        "Surv(time, status) ~ age",
    ),
    Rule(
        lambda study: study.task is Task.PROPENSITY and study.treatment is None,
        "task 'propensity' needs the column of treatments",
        'treatment = "treated", say: 1 where a record was treated, 0 where not',
    ),
    Rule(
        lambda study: study.task is Task.PROPENSITY and study.event is not None and study.family is not None,
        "an outcome with a column of events is a time, and has no family",
        "leave family or event out",
    ),
    Rule(
        lambda study: study.task is Task.PROPENSITY and str(study.family or "gaussian") not in EFFECTS,
        lambda study: f"the effect of a treatment on a {study.family} outcome is not offered",
        f"one of {', '.join(name for name in EFFECTS if name != 'cox')}; a time with its event",
    ),
    Rule(
        lambda study: study.task is Task.ORDINAL and len(study.classes) < 3,
        "task 'ordinal' needs the names of three classes or more, from the lowest to the highest",
        'classes = ["low", "medium", "high"]; two are task glm with family = "binomial"',
    ),
    Rule(
        lambda study: study.task is Task.MIXED and study.subject is None,
        "task 'mixed' needs the column of subjects",
        'subject = "patient", say (persons or clinics that have random effects), or (1 | patient) in the formula',
    ),
    Rule(lambda study: len(set(study.classes)) < len(study.classes), "a class is named twice", "name every class once"),
    Rule(
        lambda study: study.family is not None and len(study.classes) < FACTS[study.family].least_classes > 2,
        "a multinomial model needs the names of three classes or more",
        'classes = ["a", "b", "c"]',
    ),
)
"""Of the keys in ``[job]`` that describe a generalised linear model, for its task."""


# --- [[party]] --------------------------------------------------------------------------------------------------------


def _names(file: Any) -> list[str]:
    return [party.name for party in file.party]


def _twice(file: Any) -> str | None:
    names = _names(file)
    folded = [name.lower() for name in names]
    return next((name for place, name in enumerate(names) if name.lower() in folded[:place]), None)


PARTY_RULES = (
    Rule(
        lambda file: len(file.party) < 2,
        lambda file: f"parties in this job: {len(file.party)}",
        "a federation needs at least two",
    ),
    Rule(_twice, lambda file: f"two parties are named {_twice(file)}", "give every party a name of its own"),
    Rule(
        lambda file: file.job.label_party is not None and file.job.label_party not in _names(file),
        lambda file: f"label_party is {file.job.label_party!r}, and no party has that name",
        lambda file: f"one of {', '.join(_names(file))}{near(file.job.label_party, _names(file))}",
    ),
)
"""Of a whole file: who takes part."""


# --- [match] ----------------------------------------------------------------------------------------------------------


def _idle(match: Any) -> list[str]:
    """Keys that say how records are matched, in the order of the table."""
    return [
        option.key for option in section_of("match") if option.key != "align" and option.key in match.model_fields_set
    ]


@dataclass(frozen=True)
class Matched:
    """A section ``[match]``, the study it goes with, and which parties have a linkage map."""

    match: Any
    study: Any
    linked: tuple[str, ...]

    @property
    def trusted(self) -> str:
        """The key that takes rows as they stand, where one does."""
        return 'ids = "trust"' if self.study.ids is Ids.TRUST else "sort_by_id" if self.study.sort_by_id else ""


MATCH_RULES = (
    Rule(lambda match: match.month_first and not match.dates, "month_first is for the columns in dates"),
    Rule(
        lambda match: match.align is None and _idle(match),
        lambda match: f"{_idle(match)[0]} is for records that are matched: set align",
    ),
)
"""Of ``[match]`` alone: a key that would have no effect is refused, because its author relies on it."""

MATCHED_RULES = (
    Rule(
        lambda asked: asked.match.align is None and asked.linked,
        lambda asked: f"party {asked.linked[0]} has a linkage map, and no records are matched",
        "[match] align",
    ),
    Rule(
        lambda asked: asked.match.align is not None and asked.study.split is not Split.VERTICAL,
        "[match] is for columns split over the parties",
        'set split = "vertical", or leave it',
    ),
    Rule(
        lambda asked: asked.match.align is not None and not asked.study.id_columns,
        "records are matched by ids, and no id is named",
        'id = "patient" under [job], say',
    ),
    Rule(
        lambda asked: asked.match.align is not None and asked.trusted,
        lambda asked: f"{asked.trusted} is for records that are not matched",
        lambda asked: f"leave {asked.trusted} out, or [match]",
    ),
)
"""Of ``[match]`` together with ``[job]`` and the parties (``Matched``)."""


# --- [prepare] --------------------------------------------------------------------------------------------------------


def _no_word(word: str, fix: str) -> Rule:
    return Rule(lambda given: isinstance(given, Mapping) and word in given, f"{word} is no word of [prepare]: {fix}")


PREPARE_WORDS = _no_word("align", "it belongs to [match]"), _no_word("soft_impute", 'missing = "low-rank"')
"""Of what stands under ``[prepare]``, before it is parsed: words that a reader of other software may try."""

CATEGORY_RULES = (
    Rule(
        lambda each: each.order and (each.drop_first or each.reference is not None or each.missing is not None),
        "an order makes one column of numbers, and the other keys are for indicators",
    ),
    Rule(
        lambda each: each.drop_first and each.reference is not None,
        "drop_first and reference both leave a level out: use one of them",
    ),
)
"""Of ``[prepare.categories.NAME]``."""


def _low_rank_only(key: str) -> Rule:
    usual = option_of("prepare", key).default
    return Rule(
        lambda words: getattr(words, key) != usual and words.missing != "low-rank",
        f'{key} is for missing = "low-rank"',
        f'set missing = "low-rank" too, or leave out ({key})',
    )


def _repeated(words: Any) -> list[str]:
    return [name for name, levels in words.orders.items() if len(set(levels)) < len(levels)]


def _both(words: Any) -> list[str]:
    return sorted(set(words.ordinal) & set(words.categories))


PREPARE_RULES = (
    Rule(
        lambda words: words.constant and words.missing != "constant",
        'constant is for missing = "constant"',
        'set missing = "constant" too, or leave out (constant)',
    ),
    _low_rank_only("penalty"),
    _low_rank_only("rounds"),
    _low_rank_only("rank"),
    Rule(
        lambda words: words.indicators and words.missing not in ("constant", "mean"),
        'indicators are for missing = "constant" or "mean"',
        'set missing = "mean" too, or leave out (indicators)',
    ),
    Rule(
        _repeated,
        lambda words: f"a level of column {_repeated(words)[0]!r} is named twice in its order (ordinal)",
        "name each level once",
    ),
    Rule(
        _both,
        lambda words: f"column {_both(words)[0]!r} is named under ordinal and under categories",
        "leave it out of one of them: an order makes one column, categories make indicators",
    ),
    Rule(
        lambda words: words.formula and (words.columns or words.orders),
        "a formula names its columns",
        lambda words: f"leave out ({'columns' if words.columns else 'ordinal'})",
    ),
    Rule(
        lambda words: set(words.preserve) & set(words.covariates),
        "a covariate is preserved by combat and then partialled out",
        "name it once, under preserve or under covariates",
    ),
)
"""Of ``[prepare]`` alone: a key that would have no effect is refused, because its author relies on it."""


@dataclass(frozen=True)
class Prepared:
    """A section ``[prepare]``, its formula as it was read, the study it goes with, and whether records are matched."""

    words: Any
    parsed: Any  # None without a formula
    split: Split
    task: Task
    label: tuple[str, ...]
    intercept: bool
    aligned: bool

    @property
    def regression(self) -> bool:
        """Whether something is predicted."""
        return declared(self.task).labelled

    @property
    def across(self) -> str:
        """The first key that reads columns of several parties."""
        return next((key for key in ("formula", "combat", "covariates") if getattr(self.words, key)), "")


PREPARED_RULES = (
    # A formula says what is predicted, where anything is.
    Rule(
        lambda asked: asked.parsed is not None and asked.label,
        "label and formula both say what is predicted",
        "leave it out (label): it stands left of ~",
    ),
    Rule(
        lambda asked: asked.parsed is not None and bool(asked.parsed.outcome) is not asked.regression,
        lambda asked: "the formula has no outcome" if asked.regression else f"task {str(asked.task)!r} has no outcome",
        lambda asked: "write y ~ age + C(sex)" if asked.regression else "write ~ age + C(sex)",
    ),
    Rule(
        lambda asked: asked.parsed is not None and not asked.parsed.terms,
        "the formula has no column right of ~",
        "write Surv(time, event) ~ age + C(sex)",
    ),
    Rule(
        lambda asked: (
            asked.parsed is not None
            and any(name in asked.parsed.categorical or name in asked.words.categories for name in asked.parsed.outcome)
        ),
        "the outcome of the formula is a category",
        "write the bare column; a model of classes names them in [job] classes",
    ),
    Rule(
        lambda asked: asked.parsed is not None and asked.regression and asked.intercept is not asked.parsed.intercept,
        lambda asked: (
            "the formula has an intercept, and the study has none"
            if asked.parsed.intercept
            else "the formula has no intercept (0 or - 1), and the study has one"
        ),
        lambda asked: (
            "leave intercept = false out, or write - 1 into the formula"
            if asked.parsed.intercept
            else "say so too: intercept = false; or take 0 or - 1 out of the formula"
        ),
    ),
    # Split columns: each party has its own columns, and the rows of all.
    Rule(
        lambda asked: asked.split is Split.VERTICAL and asked.words.missing == "drop" and not asked.aligned,
        'missing = "drop" where columns are split: each party would leave out other rows',
        'missing = "constant", or match records by id ([match] align): what one party leaves out, all do',
    ),
    Rule(
        lambda asked: asked.split is Split.VERTICAL and asked.across,
        lambda asked: f"{asked.across} reads columns of several parties, and columns are split over them",
        "prepare the columns of each party by themselves: missing, categories, centre, scale",
    ),
)
"""Of ``[prepare]`` together with ``[job]`` and ``[match]`` (``Prepared``)."""
