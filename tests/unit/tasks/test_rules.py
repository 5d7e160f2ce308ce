"""Rules between options: each refuses something that no rule before it refuses, in whole sentences."""

import random
from pathlib import Path

import pytest

from fedsvd.errors import ConfigError
from fedsvd.protocol.model import Digits, ModelPlan
from fedsvd.protocol.tasks import (
    Align,
    Check,
    ChosenBy,
    Family,
    Item,
    Mode,
    Robust,
    Split,
    Task,
)
from fedsvd.studies.job_file import job_from
from fedsvd.studies.study import Study, expect_legal
from fedsvd.tasks import job_rules
from fedsvd.tasks.declared import declared
from fedsvd.tasks.option import Rule, broken
from fedsvd.tasks.rules import RULES

VALUES = {
    "components": (1, 3, 0, 2.5),
    "components_by": ("mle", "0.5", "parallel", "elbow"),
    "scheme": ("sum", "mask", "steps", "paper", "compressed", "sun"),
    "mode": tuple(Mode),
    "centre": (True, False),
    "unit_variance": (True,),
    "alpha": (0.5, -1.0, float("nan")),
    "alphas": ((0.1, 1.0), (0.1, 0.1), (0.0,)),
    "chosen_by": tuple(ChosenBy),
    "weighted": (True,),
    "robust": tuple(Robust),
    "label_user": (1, -1),
    "block_size": (5, -1),
    "memory": (0, 10**9),
    "trust_rows": (True,),
    "align": tuple(Align),
    "least_overlap": (3, -3),
    "check": tuple(Check),
}


H, V = Split.HORIZONTAL, Split.VERTICAL
TABLE = (*declared(Task.LR).released, Item.INFERENCE)
PATH = (*declared(Task.LR).released, Item.RIDGE_PATH)
SPECTRUM = (*declared(Task.PCA).released, Item.SPECTRUM)
QUALITY = (*declared(Task.GLM).released, Item.QUALITY)
ROC = (*QUALITY, Item.ROC)
BINOMIAL = ModelPlan(Family.BINOMIAL, "logit")
FIVES = (("roc", 5),)
EFFECT = ModelPlan(Family.PROPENSITY, "logit", effect="gaussian", beside=("treatment",), digits=Digits.TABLE)
SQUARES = (*declared(Task.GLM).released, Item.ROBUST)
# Studies that few draws would hit: they say three things that do not go together, and nothing else that is wrong.
RARE = [
    ("the paper's scheme as published is in fedsvd-lab", Task.SVD, H, {"scheme": "paper"}),
    ("a ridge shrinks the coefficients", Task.LR, H, {"release": (*TABLE, Item.RIDGE_PATH), "alphas": (1.0,)}),
    ("a ridge leaves no standard errors", Task.LR, V, {"release": TABLE, "alpha": 0.5}),
    ("robust errors need the residual", Task.LR, V, {"release": (*TABLE, Item.ROBUST), "robust": Robust.HC3}),
    ("inference follows from the exact sum", Task.LR, H, {"release": TABLE, "scheme": "mask"}),
    ("inference shows every party the joint Gram", Task.LR, H, {"release": TABLE, "mode": Mode.B}),
    ("digits are those of a model's sums", Task.LR, H, {"digits": "table"}),
    ("fewer digits of vectors are those of scheme", Task.SVD, H, {"digits": "table", "components": 2}),
    (
        "robust errors are those of a regression table",
        Task.LR,
        H,
        {"release": (*declared(Task.LR).released, Item.ROBUST), "robust": Robust.HC3},
    ),
    ("alphas are different finite numbers", Task.LR, H, {"release": PATH, "alphas": (0.1, 0.1)}),
    ("alpha is one penalty", Task.LR, H, {"release": PATH, "alphas": (0.1,), "alpha": 0.5}),
    ("leave-one-out needs the leverage", Task.LR, V, {"release": PATH, "alphas": (0.1,)}),
    ("a ridge is chosen from the joint Gram", Task.LR, H, {"release": PATH, "alphas": (0.1,), "mode": Mode.B}),
    ("parallel analysis adds up", Task.PCA, H, {"release": SPECTRUM, "components_by": "parallel", "mode": Mode.B}),
    (
        "components = 'mle' needs the singular values",
        Task.PCA,
        H,
        {"components_by": "mle", "release": declared(Task.PCA).released},
    ),
    (
        "a number of components and a rule exclude",
        Task.PCA,
        H,
        {"release": SPECTRUM, "components": 2, "components_by": "mle"},
    ),
    ('scheme "steps" is of svd, pca, lsa', Task.LR, H, {"scheme": "steps"}),
    ('scheme "steps" finds a number', Task.SVD, H, {"scheme": "steps"}),
    ('scheme "steps" shows every party', Task.PCA, H, {"scheme": "steps", "components": 2}),
    ('scheme "steps" certifies', Task.SVD, H, {"scheme": "steps", "components": 2, "check": Check.ALL}),
    ("a mode says who opens a sum", Task.SVD, H, {"scheme": "steps", "components": 2, "mode": Mode.A}),
    (
        "the family 'binomial' is of task",
        Task.COX,
        H,
        {"glm": ModelPlan(Family.BINOMIAL, "logit")},
    ),
    ("PCR follows from the joint Gram", Task.PCR, H, {"components": 2, "mode": Mode.B}),
    (
        "HC3 divides by the leverage of one linear predictor",
        Task.GLM,
        H,
        {"release": SQUARES, "robust": Robust.HC3, "glm": ModelPlan(Family.MULTINOMIAL, "logit", classes=3)},
    ),
    (
        "a ridge leaves no standard errors, and so no robust ones",
        Task.GLM,
        H,
        {"release": SQUARES, "robust": Robust.HC0, "alpha": 0.5, "glm": ModelPlan(Family.POISSON, "log")},
    ),
    ("quality is of a binomial model", Task.GLM, H, {"release": QUALITY, "glm": ModelPlan(Family.POISSON, "log")}),
    (
        "roc is of a binomial model",
        Task.GLM,
        H,
        {"release": ROC, "options": FIVES, "glm": ModelPlan(Family.POISSON, "log")},
    ),
    ("the release of roc goes with", Task.GLM, H, {"release": (*QUALITY[:-1], Item.ROC), "glm": BINOMIAL}),
    ("the errors of a weighted effect are robust", Task.PROPENSITY, H, {"targets": 2, "glm": EFFECT}),
    (
        "trim = 0.07: a limit of a job's own",
        Task.PROPENSITY,
        H,
        {
            "targets": 2,
            "glm": EFFECT,
            "release": (*declared(Task.PROPENSITY).released, Item.ROBUST),
            "robust": Robust.HC0,
            "options": (("trim", 0.07),),
        },
    ),
    ("thresholds are those of a ROC curve", Task.GLM, H, {"options": (("thresholds", "[0.5]"),), "glm": BINOMIAL}),
]


def rare(task, split, asked):
    targets = int(task in (Task.LR, Task.PCR, Task.GLM, Task.COX))
    return Study(task, split, **{"targets": targets, **asked})


@pytest.mark.parametrize(("text", "task", "split", "asked"), RARE)
def test_what_does_not_go_together_is_refused_in_these_words(text, task, split, asked):
    with pytest.raises(ConfigError) as found:
        expect_legal(rare(task, split, asked))
    assert found.value.fault.startswith(text)


def some_studies(count):
    """Studies at random, most of which say two or three things too many."""
    rng = random.Random(7)
    for _ in range(count):
        task = rng.choice(list(Task))
        asked = {"task": task, "split": rng.choice(list(Split)), "targets": rng.choice((0, 1, 1, 2, -1))}
        asked |= {key: rng.choice(VALUES[key]) for key in rng.sample(sorted(VALUES), rng.choice((0, 1, 1, 2, 3)))}
        if rng.random() < 0.4:
            more = rng.sample(list(Item), rng.choice((0, 1, 2)))
            asked["release"] = tuple(dict.fromkeys((*declared(task).released, *more)))[rng.choice((0, 0, 1)) :]
        if rng.random() < (0.7 if task is Task.GLM else 0.03):
            asked["glm"] = ModelPlan(Family.BINOMIAL, "logit")
        if rng.random() < (0.8 if task is Task.PREPARE else 0.02):
            asked["rule"] = object()
        if rng.random() < (0.8 if task is Task.FOREIGN else 0.02):
            asked["foreign"] = object()
        yield Study(**asked)


def test_every_rule_of_a_study_refuses_something_that_no_rule_before_it_refuses():
    studies = [*some_studies(40_000), *(rare(*asked) for _, *asked in RARE)]
    found = {id(broken(RULES, study)) for study in studies}
    assert [place for place, rule in enumerate(RULES) if id(rule) not in found] == []
    assert id(None) in found, "some studies are legal"


def test_a_broken_rule_is_an_error_with_its_fault_and_its_fix():
    with pytest.raises(ConfigError) as found:
        expect_legal(Study(Task.SVD, scheme="mask", mode=Mode.A))
    assert found.value.fault == "a mode says who opens a sum of Gram matrices, and scheme 'mask' has none"
    assert found.value.fix == "leave mode out"
    assert Rule(bool, lambda asked: f"{asked} is too many").texts(3) == ("3 is too many", "")


LR, COLUMNS = {"task": "lr", "label": "y"}, {"task": "svd", "split": "vertical", "id": "key"}
GLM = {"task": "glm", "label": "y", "family": "binomial"}
TREATED = {"task": "propensity", "label": "y", "treatment": "t"}
PARTIES = [{"name": "a"}, {"name": "b"}]
# Rules of a job file: what breaks each of them, and what is said of it.
REFUSED = {
    "STUDY_RULES": [
        ({"job": {"task": "svd", key: value}}, f"{key} does not apply to task 'svd'")
        for key, value in {
            "label": "y",
            "label_party": "a",
            "alpha": 0.5,
            "intercept": False,
            "inference": True,
            "cov_type": "HC3",
            "cluster": "ward",
            "clusters": "joint",
            "alphas": [1.0],
            "choose_by": "gcv",
            "family": "binomial",
            "link": "logit",
            "classes": ["a", "b"],
            "offset": "o",
            "weights": "w",
            "tolerance": 1e-7,
            "max_iterations": 9,
            "quality": True,
            "roc": 5,
            "thresholds": [0.5],
            "least_class": 3,
            "least_events": 2,
            "unit_variance": True,
            "event": "e",
            "entry": "b",
            "strata": "s",
            "ties": "breslow",
            "schoenfeld": "km",
            "baseline": "common",
            "group": "g",
            "groups": ["a", "b"],
            "causes": ["a", "b"],
            "times": [1.0],
            "counts": "exact",
            "least_count": 7,
            "test": "none",
            "conf_type": "log",
            "level": 0.9,
            "until": 1.0,
            "by": "arm",
            "nonnormal": ["age"],
            "quantiles": False,
            "correlations": True,
            "subject": "g",
            "slope": "s",
            "criterion": "ml",
            "correlated": False,
            "treatment": "t",
            "estimand": "ATE",
            "stabilised": True,
            "trim": 0.1,
        }.items()
    ]
    + [
        ({"job": {"task": "cca", "digits": "table"}}, "digits does not apply to task 'cca'"),
        ({"job": {**LR, "write": "none"}}, "write does not apply to task 'lr'"),
        ({"job": {**LR, "verify": "all"}}, "verify does not apply to task 'lr'"),
        ({"job": {"task": "lsa"}}, "task 'lsa' needs a number of components"),
        ({"job": {**LR, "weights": "y"}}, "one column is named twice among label, event"),
        ({"job": {"task": "survival", "label": "y"}}, "task 'survival' needs the column of times and that of events"),
        ({"job": {**LR, "inference": True, "cluster": "w", "clusters": "joint"}}, "clusters at several parties"),
        ({"job": {**LR, "cluster": "w", "cov_type": "HC3"}}, "cov_type and cluster are two kinds"),
        ({"job": {**LR, "split": "vertical", "offset": "o"}}, "an offset is subtracted from labels"),
        ({"job": {**LR, "label_party": "a"}}, "label_party is for columns split over the parties"),
        ({"job": {"task": "svd", "sort_by_id": True}}, "sort_by_id needs split = 'vertical'"),
        ({"job": {"task": "svd", "ids": "trust"}}, "ids are compared where columns are split"),
        ({"job": {**COLUMNS, "ids": "trust", "sort_by_id": True}}, "sort_by_id has ids to be compared"),
        ({"job": {"task": "svd", "verify": "sample"}}, "a sample is verified and not written"),
    ],
    "MODEL_RULES": [
        ({"job": {"task": "glm", "label": "y"}}, "task 'glm' needs a family"),
        ({"job": {"task": "cox", "label": "y"}}, "task 'cox' needs the column of events"),
        ({"job": {"task": "propensity", "label": "y"}}, "task 'propensity' needs the column of treatments"),
        ({"job": {**TREATED, "event": "e", "family": "poisson"}}, "an outcome with a column of events is a time"),
        ({"job": {**TREATED, "family": "gamma"}}, "the effect of a treatment on a gamma outcome is not offered"),
        ({"job": {"task": "ordinal", "label": "y", "classes": ["a", "b"]}}, "task 'ordinal' needs the names of three"),
        ({"job": {"task": "mixed", "label": "y"}}, "task 'mixed' needs the column of subjects"),
        ({"job": {**GLM, "classes": ["a", "a"]}}, "a class is named twice"),
        ({"job": {**GLM, "family": "multinomial", "classes": ["a", "b"]}}, "a multinomial model needs the names"),
    ],
    "PARTY_RULES": [
        ({"job": {"task": "svd"}, "party": PARTIES[:1]}, "parties in this job: 1"),
        ({"job": {"task": "svd"}, "party": [{"name": "a"}, {"name": "A"}]}, "two parties are named A"),
        ({"job": {**LR, "label_party": "c"}}, "label_party is 'c', and no party has that name"),
    ],
    "MATCH_RULES": [
        ({"job": COLUMNS, "match": {"align": "ecdh", "month_first": True}}, "month_first is for the columns in dates"),
        ({"job": COLUMNS, "match": {"case": "exact"}}, "case is for records that are matched: set align"),
    ],
    "MATCHED_RULES": [
        ({"job": COLUMNS, "party": [{"name": "a", "link": "m.csv"}, {"name": "b"}]}, "party a has a linkage map"),
        ({"job": {"task": "svd"}, "match": {"align": "ecdh"}}, "[match] is for columns split over the parties"),
        ({"job": {"task": "cca"}, "match": {"align": "ecdh"}}, "records are matched by ids, and no id is named"),
        ({"job": {**COLUMNS, "sort_by_id": True}, "match": {"align": "ecdh"}}, "sort_by_id is for records that are"),
    ],
    "PREPARE_WORDS": [
        ({"job": LR, "prepare": {"align": "ecdh"}}, "align is no word of [prepare]: it belongs to [match]"),
        ({"job": LR, "prepare": {"soft_impute": 1}}, "soft_impute is no word of [prepare]"),
    ],
    "CATEGORY_RULES": [
        ({"job": LR, "prepare": {"categories": {"s": {"order": ["x"], "missing": "y"}}}}, "an order makes one column"),
        ({"job": LR, "prepare": {"categories": {"s": {"drop_first": True, "reference": "f"}}}}, "both leave a level"),
    ],
    "PREPARE_RULES": [
        ({"job": LR, "prepare": {"constant": 1.0}}, 'constant is for missing = "constant"'),
        ({"job": LR, "prepare": {"penalty": 0.1}}, 'penalty is for missing = "low-rank"'),
        ({"job": LR, "prepare": {"rounds": 3}}, 'rounds is for missing = "low-rank"'),
        ({"job": LR, "prepare": {"rank": 3}}, 'rank is for missing = "low-rank"'),
        ({"job": LR, "prepare": {"indicators": True}}, 'indicators are for missing = "constant" or "mean"'),
        ({"job": LR, "prepare": {"ordinal": {"s": ["I", "I"]}}}, "a level of column 's' is named twice"),
        ({"job": LR, "prepare": {"ordinal": {"s": ["I"]}, "categories": "s"}}, "under ordinal and under categories"),
        ({"job": {"task": "lr"}, "prepare": {"formula": "y ~ a", "columns": "a"}}, "a formula names its columns"),
        ({"job": LR, "prepare": {"preserve": "a", "covariates": "a"}}, "a covariate is preserved by combat"),
    ],
    "PREPARED_RULES": [
        ({"job": LR, "prepare": {"formula": "y ~ a"}}, "label and formula both say what is predicted"),
        ({"job": {"task": "lr"}, "prepare": {"formula": "~ a"}}, "the formula has no outcome"),
        ({"job": {"task": "cox"}, "prepare": {"formula": "Surv(t, e) ~ 1"}}, "the formula has no column right of ~"),
        (
            {"job": {"task": "lr"}, "prepare": {"formula": "y ~ a", "categories": "y"}},
            "the outcome of the formula is a category",
        ),
        ({"job": {"task": "lr"}, "prepare": {"formula": "y ~ a - 1"}}, "the formula has no intercept"),
        ({"job": COLUMNS, "prepare": {"missing": "drop"}}, 'missing = "drop" where columns are split'),
        ({"job": COLUMNS, "prepare": {"combat": True}}, "combat reads columns of several parties"),
    ],
}


@pytest.mark.parametrize("rules", REFUSED)
def test_every_rule_of_a_job_file_refuses_what_it_is_there_for(rules):
    assert len(REFUSED[rules]) == len(getattr(job_rules, rules)), "an example for each rule"
    for record, text in REFUSED[rules]:
        with pytest.raises(ConfigError) as found:
            job_from({"party": PARTIES, **record, "job": {"name": "s", **record["job"]}}, Path())
        assert text in f"{found.value.fault}; {found.value.fix}", record


def test_no_list_of_rules_is_without_examples():
    lists = {name for name, value in vars(job_rules).items() if name.isupper() and isinstance(value, tuple)}
    assert {name for name in lists if name not in ("FAMILIES", "LABELLED", "TASKS") and name[0] != "_"} == set(REFUSED)
