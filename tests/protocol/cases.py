"""Small federations that between them say and hear everything the role tables list."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from fedsvd.prepare.rule import CategoryRule, Rule
from fedsvd.protocol.model import Digits, ModelPlan
from fedsvd.protocol.table import TablePlan, Variable
from fedsvd.protocol.tasks import LINKS, Align, Check, Family, Item, Mode, Split, Task, Ties, Trust
from fedsvd.studies.foreign import ForeignStudy
from fedsvd.tasks.declaration import declaration_of
from fedsvd.tasks.options import completed
from fedsvd.testing.federation import Federation
from fedsvd.types import Float

H, V = Split.HORIZONTAL, Split.VERTICAL
M, WIDTHS = 4, (3, 2)


def parts(k: int = 2, rows: int = M) -> list[Float]:
    """X_i of 3, 2, 3, 2 ... columns, with singular values over three decades, so that V is corrected."""
    rng = np.random.default_rng(k)
    return [rng.normal(size=(rows, WIDTHS[i % 2])) * np.logspace(0, -3, rows)[:, None] for i in range(k)]


def tables(k: int = 2) -> list[Float]:
    """The same split by rows: tables of M columns."""
    return [np.ascontiguousarray(X_i.T) for X_i in parts(k)]


def svd(k: int = 2, **asked) -> Federation:
    return Federation(parts(k), Task.SVD, V, **asked)


def tall(k: int = 2, **asked) -> Federation:
    """Rows in panels of a matrix that its memory does not hold: they stream, and so does U."""
    rows, width = 1100, sum(WIDTHS[i % 2] for i in range(k))
    X = [X_i + 0.1 for X_i in parts(k, rows)]
    return Federation(X, Task.SVD, V, memory=48 * width * (rows // 2 + 50), **({"scheme": "mask"} | asked))


def pca(k: int = 2, **asked) -> Federation:
    return Federation(tables(k), Task.PCA, H, components=2, **asked)


def lr_vertical(k: int = 2, **asked) -> Federation:
    rng = np.random.default_rng(9)
    X = [np.ascontiguousarray(rng.normal(size=(8, WIDTHS[i % 2]))) for i in range(k)]
    return Federation(X, Task.LR, V, labels=[None] * (k - 1) + [rng.normal(size=8)], **asked)


def lr_lost_rank(k: int = 2, **asked) -> Federation:
    """The first column of every user is the same one."""
    rng = np.random.default_rng(9)
    X = [np.column_stack((np.arange(8.0), rng.normal(size=8))) for _ in range(k)]
    return Federation(X, Task.LR, V, labels=[rng.normal(size=8)] + [None] * (k - 1), **asked)


def lr_horizontal(k: int = 2, **asked) -> Federation:
    rng = np.random.default_rng(9)
    D = [rng.normal(size=(5 + i, 2)) for i in range(k)]
    return Federation(D, Task.LR, H, labels=[rng.normal(size=len(D_i)) for D_i in D], **asked)


EVERY_KIND = declaration_of(
    {
        "fedsvd": 1,
        "name": "every-kind",
        "about": "A sum of every kind, and a repetition.",
        "options": {"most": {"kind": "integer", "least": 1, "most": 9, "default": 2, "help": "rounds at most"}},
        "steps": [
            {"name": "records", "kind": "whole", "size": "1", "says": "how many records there are"},
            {"name": "sums", "kind": "wide", "size": "features", "says": "the total of every feature"},
            {"name": "largest", "kind": "bound", "says": "a power of two above every entry"},
            {
                "repeat": "rounds",
                "most": "most",
                "steps": [
                    {"name": "unit", "kind": "bound", "says": "a power of two above every entry of a round"},
                    {
                        "name": "halved",
                        "kind": "total",
                        "size": "features",
                        "bits": 20,
                        "unit": "unit",
                        "says": "parts",
                    },
                ],
            },
            {"name": "checked", "kind": "total", "size": "2", "bits": 12, "says": "two numbers in units of 1"},
        ],
        "outputs": [
            {"name": "total", "axes": ["feature"], "size": ["features"], "says": "totals"},
            {"name": "bounds", "axes": ["place"], "size": ["3"], "says": "the bound, the last unit, the last part"},
        ],
    }
)


def every_kind(X_i: Float):
    """A script that asks for a sum of every kind, and plays two rounds."""
    X_i = np.asarray(X_i)
    yield "records", [X_i.shape[1]]
    total = yield "sums", X_i.sum(axis=1)
    (bound,) = yield "largest", [np.abs(X_i).max()]
    for number in (1, 2):
        (unit,) = yield "unit", [np.abs(X_i.sum(axis=1)).max() / number]
        part = yield "halved", X_i.sum(axis=1) / number
    yield "checked", [0.25, -1.0]
    return {"total": total, "bounds": [bound, unit, part[0]]}


def foreign(k: int = 2, script=every_kind, most: int = 2, **asked) -> Federation:
    """A foreign task, whose script runs in this process; ``script`` may be a list, one to each user."""
    scripts = script if isinstance(script, list) else [script] * k
    of = ForeignStudy(EVERY_KIND, {"most": most})
    return Federation(tables(k), Task.FOREIGN, H, foreign=of, statistic=lambda plan, i: scripts[i], **asked)


def by_steps(k: int = 2, task: Task = Task.PCA, features: int = 14, **asked) -> Federation:
    """The top of a table by steps: some directions more than the first block has, and a spectrum that falls."""
    rng = np.random.default_rng(6)
    spread = np.logspace(0, -2, features)
    tables = [rng.normal(size=(9 + i, features)) * spread + 1.0 for i in range(k)]
    release = () if task is not Task.PCA else (Item.COMPONENTS, Item.SPECTRUM, Item.MEAN, Item.OWN_PART)
    return Federation(
        tables, task, H, scheme="steps", **({"components": 2} | ({"release": release} if release else {}) | asked)
    )


def share_by_steps(k: int = 2, task: Task = Task.PCA) -> Federation:
    """As many components as hold a share of the variance, by steps; eight records a direction are outside."""
    rng = np.random.default_rng(6)
    tables = [rng.normal(size=(112, 14)) * np.logspace(0, -1.5, 14) + 1.0 for _ in range(k)]
    release = (Item.COMPONENTS, Item.SPECTRUM, Item.MEAN, Item.OWN_PART)
    return Federation(tables, task, H, scheme="steps", components_by="0.8", release=release)


def columns_by_steps(k: int = 2) -> Federation:
    """The top of a table whose columns are split: the common side are the records."""
    rng = np.random.default_rng(7)
    tables = [rng.normal(size=(14, 9 + i)) * np.logspace(0, -2, 9 + i) for i in range(k)]
    return Federation(tables, Task.SVD, V, scheme="steps", components=2)


def chosen(k: int = 2, **asked) -> Federation:
    """A PCA whose users take as many components as a rule says."""
    release = (Item.COMPONENTS, Item.SPECTRUM, Item.MEAN, Item.OWN_PART)
    return Federation([D_i + 1.0 for D_i in tables(k)], Task.PCA, H, release=release, **asked)


def cca(k: int = 2, **asked) -> Federation:
    rng = np.random.default_rng(9)
    return Federation([rng.normal(size=(9, WIDTHS[i % 2])) for i in range(k)], Task.CCA, V, **asked)


def pcr(k: int = 2, **asked) -> Federation:
    rng = np.random.default_rng(9)
    D = [rng.normal(size=(5 + i, 3)) for i in range(k)]
    return Federation(D, Task.PCR, H, labels=[rng.normal(size=len(D_i)) for D_i in D], **asked)


def pcr_by_steps(k: int = 2) -> Federation:
    """A regression on the first components of a table, found by steps."""
    rng = np.random.default_rng(9)
    D = [rng.normal(size=(9 + i, 14)) * np.logspace(0, -2, 14) + 1.0 for i in range(k)]
    labels = [rng.normal(size=len(D_i)) for D_i in D]
    return Federation(D, Task.PCR, H, labels=labels, scheme="steps", components=2)


def lr_table(k: int = 2, robust: str | None = None) -> Federation:
    """Weighted rows and nearly dependent features, so that the table is refined; each user has two clusters."""
    rng = np.random.default_rng(9)
    D = [rng.normal(size=(5 + i, 2)) @ [[1.0, 1.0], [0.0, 1e-4]] for i in range(k)]
    release = (Item.COEFFICIENTS, Item.INTERCEPT, Item.INFERENCE, *((Item.ROBUST,) if robust else ()))
    asked = {"labels": [rng.normal(size=len(D_i)) for D_i in D], "release": release, "robust": robust}
    rows = {
        "row_weights": [np.linspace(1.0, 2.0, len(D_i)) for D_i in D],
        "clusters": [np.arange(len(D_i)) % 2 for D_i in D],
    }
    return Federation(D, Task.LR, H, **asked, **rows, weighted=True)


def lr_of_few_digits(k: int = 2, robust: str | None = None) -> Federation:
    """Two features whose Gram matrix takes two pieces, and two targets."""
    rng = np.random.default_rng(4)
    D = [rng.normal(size=(12 + i, 2)) + 3.0 for i in range(k)]
    release = (Item.COEFFICIENTS, Item.INTERCEPT, Item.INFERENCE, *((Item.ROBUST,) if robust else ()))
    labels = [np.column_stack((D_i[:, 0] + rng.normal(size=len(D_i)), rng.normal(size=len(D_i)))) for D_i in D]
    asked = {"labels": labels, "release": release, "robust": robust, "digits": Digits.TABLE}
    return Federation(D, Task.LR, H, **asked)


def ridge(k: int = 2, chosen_by: str = "loo") -> Federation:
    release = (Item.COEFFICIENTS, Item.INTERCEPT, Item.RIDGE_PATH)
    return lr_horizontal(k, alphas=(0.1, 1.0, 10.0), chosen_by=chosen_by, release=release)


def glm(k: int = 2, family: Family = Family.BINOMIAL, classes: int = 0, **asked) -> Federation:
    """Few rows, whose outcome no feature separates: the same row with each outcome."""
    rng = np.random.default_rng(9)
    D = [np.repeat(rng.normal(size=(3 + i, 1)), classes or 2, axis=0) for i in range(k)]
    y = [np.tile(np.arange(float(classes or 2)), 3 + i) for i in range(k)]
    y[0][0] = 1.0
    about = ModelPlan(family, LINKS[family][0], classes=classes, tolerance=1e-3)
    return Federation(D, Task.GLM, H, labels=y, glm=about, **asked)


WITH_QUALITY = (Item.COEFFICIENTS, Item.INTERCEPT, Item.INFERENCE, Item.QUALITY)
WITH_ROC = (*WITH_QUALITY, Item.ROC)


def glm_of_few_digits(k: int = 2, **asked) -> Federation:
    """A feature that tells something of the outcome: the first gradient stands clear of its rounding."""
    rng = np.random.default_rng(3)
    D = [rng.normal(size=(20 + i, 1)) for i in range(k)]
    y = [(own[:, 0] + rng.normal(size=len(own)) > 0.0).astype(float) for own in D]
    about = ModelPlan(Family.BINOMIAL, "logit", tolerance=1e-3, digits=Digits.TABLE)
    return Federation(D, Task.GLM, H, labels=y, glm=about, **asked)


def ordinal(k: int = 2) -> Federation:
    """Three classes in an order that a feature tells something of."""
    rng = np.random.default_rng(1)
    D = [rng.normal(size=(40 + i, 1)) for i in range(k)]
    y = [np.digitize(own + rng.logistic(size=own.shape), [-0.8, 0.8]).astype(float) for own in D]
    about = ModelPlan(Family.ORDINAL, "logit", classes=3, tolerance=1e-3, digits=Digits.TABLE)
    return Federation(D, Task.ORDINAL, H, labels=y, glm=about)


BEYOND = (("baseline", "common"), ("schoenfeld", "km"), ("times", "[5.0, 10.0, 20.0]"))
IN_BINS = (("baseline", "bins"), ("times", "[5.0, 10.0, 20.0]"))
WITHOUT_INTERCEPT = (Item.COEFFICIENTS, Item.INFERENCE, Item.ROBUST)
WITH_ROBUST = (Item.COEFFICIENTS, Item.INTERCEPT, Item.INFERENCE, Item.ROBUST)


def robust(kind: str, made: Federation, clusters: int = 5) -> dict[str, object]:
    """What robust errors add to a federation: the words of its study, and clusters of its records."""
    of = [np.arange(party.table.shape[0]) % clusters for party in made.parties]
    return {"robust": kind, "release": WITH_ROBUST} | ({"clusters": of} if kind == "cluster" else {})


def cox(k: int = 2, **asked) -> Federation:
    """Times that a feature tells something of, two records tied, and one column of two values for strata."""
    rng = np.random.default_rng(0)
    D = [rng.normal(size=(20 + i, 1)) for i in range(k)]
    times = [np.ceil(10.0 * rng.exponential(np.exp(-own[:, 0]))) for own in D]
    y = [np.column_stack((time, np.arange(len(time)) % 4 > 0, np.arange(len(time)) % 2)) for time in times]
    about = ModelPlan(Family.COX, "log", tolerance=1e-3, digits=Digits.TABLE, ties=Ties.EFRON, beside=("strata",))
    return Federation(D, Task.COX, H, labels=y, glm=about, **asked)


def cox_in_bins(k: int = 2) -> Federation:
    """The same times in three bins, whose hazards are of all parties."""
    parties = cox(k).parties
    D, y = [own.table.rows(0, own.table.shape[0]) for own in parties], [own.labels[:, :2] for own in parties]
    about = ModelPlan(Family.COX, "cloglog", tolerance=1e-3, digits=Digits.TABLE, ties=Ties.EFRON, bins=3)
    return Federation(D, Task.COX, H, labels=y, glm=about, options=completed(Task.COX, IN_BINS))


def survival(k: int = 2) -> Federation:
    """Times in weeks, events and two groups, counted at four edges."""
    rng = np.random.default_rng(1)
    D = [
        np.column_stack((rng.integers(1, 9, 20 + i), rng.integers(0, 2, 20 + i), np.arange(20 + i) % 2))
        for i in range(k)
    ]
    options = (("groups", '["a", "b"]'), ("times", "[2.0, 4.0, 6.0, 8.0]"))
    return Federation([own.astype(float) for own in D], Task.SURVIVAL, H, options=options)


VARIABLES = Variable("arm", ("a", "b")), Variable("age", (), 0.0, 10.0, 0), Variable("stage", ("I", "II", "III"))
ALL_RECORDS = TablePlan(VARIABLES, counts="exact", digits=Digits.TABLE)


def describe(k: int = 2, table: TablePlan | None = None) -> Federation:
    """A number with gaps, a category with a rare level, and groups."""
    rng = np.random.default_rng(2)
    about = table or TablePlan(VARIABLES, by="arm", correlations=True, digits=Digits.TABLE)
    tables = []
    for i in range(k):
        n = 60 + i
        gaps = np.zeros((n, 3))
        gaps[: 5 + i, 1] = 1.0
        codes = rng.permutation(np.where(np.arange(n) < 2, 2, np.arange(n) % 2))
        tables.append(np.column_stack((np.arange(n) % 2, rng.integers(0, 11, n), codes, gaps)).astype(float))
    return Federation(tables, Task.DESCRIBE, H, table=about, options=(("counts", about.counts),))


def mixed(k: int = 2, reml: bool = True) -> Federation:
    """Rows of persons whose outcomes differ, and a column that tells something of them."""
    rng = np.random.default_rng(1)
    D = [rng.normal(size=(24 + 3 * i, 1)) for i in range(k)]
    persons = [np.arange(len(own)) // 3 for own in D]
    effects = [rng.normal(size=len(own))[person] for own, person in zip(D, persons, strict=True)]
    y = [
        np.column_stack((own[:, 0] + of + rng.normal(size=len(own)) / 2.0, person))
        for own, of, person in zip(D, effects, persons, strict=True)
    ]
    counted = {"least_class": 10, "least_events": 5}  # as a job has them
    about = ModelPlan(
        Family.MIXED, "identity", tolerance=1e-3, digits=Digits.TABLE, beside=("subject",), reml=reml, **counted
    )
    return Federation(D, Task.MIXED, H, labels=y, glm=about)


def propensity(k: int = 2, of_times: bool = False) -> Federation:
    """A treatment that a feature tells something of, and an outcome that both do; or a time, with clusters."""
    rng = np.random.default_rng(1)
    D = [rng.normal(size=(60 + i, 1)) for i in range(k)]
    treated = [(rng.random(len(own)) < 1.0 / (1.0 + np.exp(-own[:, 0] / 2.0))).astype(float) for own in D]
    y = [own[:, 0] + who + rng.normal(size=len(own)) for own, who in zip(D, treated, strict=True)]
    labels = [(np.exp(each / 2.0), who, np.arange(len(who)) % 4 > 0) for each, who in zip(y, treated, strict=True)]
    effect, beside = ("cox", ("treatment", "event")) if of_times else ("gaussian", ("treatment",))
    about = ModelPlan(Family.PROPENSITY, "logit", tolerance=1e-3, digits=Digits.TABLE, effect=effect, beside=beside)
    asked = {"robust": "HC0"}
    if of_times:
        asked = {"robust": "cluster", "clusters": [np.arange(len(own)) % 5 for own in D]}
    return Federation(
        D,
        Task.PROPENSITY,
        H,
        labels=[np.column_stack(each[: 1 + len(beside)]) for each in labels],
        glm=about,
        release=WITHOUT_INTERCEPT,
        options=(("estimand", "ATE"), ("stabilised", True), ("trim", 0.0)),
        **asked,
    )


def predict(k: int = 2, **asked) -> Federation:
    rng = np.random.default_rng(9)
    X = [rng.normal(size=(5, WIDTHS[i % 2])) for i in range(k)]
    weights = [(rng.normal(size=(X_i.shape[1], 1)), np.array([0.5])) for X_i in X]
    return Federation(X, Task.PREDICT, V, weights=weights, targets=1, label_user=1, **asked)


def prepared(k: int = 2, **asked) -> Federation:
    """Gaps, a category and a covariate: every kind of sum that a preparation has."""
    rng = np.random.default_rng(9)
    tables = [pd.DataFrame({"a": rng.normal(size=6), "b": rng.normal(size=6), "g": list("ffmmxx")}) for _ in range(k)]
    tables[0].loc[1, "a"] = np.nan
    rule = Rule(mean=True, indicators=True, categories=(CategoryRule("g"),), covariates=("b",), most_levels=4)
    return Federation(tables, Task.PREPARE, H, rule=rule, **asked)


def row_ids(k: int = 2, **asked) -> Federation:
    return svd(k, ids=[np.arange(M)] * k, check_ids=True, **asked)


def match(align: Align, k: int = 2, **asked) -> Federation:
    """Sets of 4, 5, 6 ... ids, all of which have three of them in common."""
    sets = [[f"{who} {row}" if row > 2 else f"all {row}" for row in range(4 + who)][::-1] for who in range(k)]
    tables = [np.zeros((len(ids), 1)) for ids in sets]
    return Federation(tables, Task.MATCH, V, ids=sets, align=align, least_overlap=3, **asked)


CASES: dict[str, Callable[..., Federation]] = {
    "svd": svd,
    "svd dealt by the TA": lambda k=2: svd(k, trust=Trust.AUTHORITY),
    "svd opened by the CSP": lambda k=2: svd(k, mode=Mode.B),
    "svd under masks": lambda k=2: svd(k, scheme="mask"),
    "svd of a tall matrix": tall,
    "svd of a tall matrix without own parts": lambda k=2: tall(k, release=(Item.COMPONENTS, Item.SPECTRUM)),
    "svd of checked rows": row_ids,
    "svd of checked rows dealt by the TA": lambda k=2: row_ids(k, trust=Trust.AUTHORITY),
    "svd verified": lambda k=2: svd(k, check=Check.ALL),
    "svd verified on a sample": lambda k=2: svd(k, check=Check.SAMPLE),
    "svd without own parts": lambda k=2: svd(k, release=(Item.COMPONENTS, Item.SPECTRUM)),
    "lsa": lambda k=2: Federation(parts(k), Task.LSA, V, components=2),
    "pca": pca,
    "pca with spectrum and unit variance": lambda k=2: pca(
        k, unit_variance=True, release=(Item.COMPONENTS, Item.SPECTRUM, Item.MEAN)
    ),
    "pca opened by the users": lambda k=2: pca(k, mode=Mode.A),
    "pca under masks": lambda k=2: pca(k, scheme="mask"),
    "pca by steps": by_steps,
    "pca by steps, of unit variance": lambda k=2: by_steps(k, unit_variance=True),
    "pca by steps, by a share of variance": share_by_steps,
    "svd by steps": lambda k=2: by_steps(k, Task.SVD),
    "svd by steps, dealt by the TA": lambda k=2: by_steps(k, Task.SVD, trust=Trust.AUTHORITY),
    "lsa by steps, of one block": lambda k=2: by_steps(k, Task.LSA, features=4),
    "svd by steps, of split columns": lambda k=2: columns_by_steps(k),
    "pca by a share of variance": lambda k=2: chosen(k, components_by="0.9"),
    "pca by parallel analysis": lambda k=2: chosen(k, components_by="parallel", unit_variance=True),
    "cca": cca,
    "cca opened by the CSP": lambda k=2: cca(k, scheme="sum", components=1),
    "pcr": lambda k=2: pcr(k, components=2),
    "pcr by steps": pcr_by_steps,
    "pcr by likelihood": lambda k=2: pcr(k, components_by="mle", unit_variance=True),
    "lr vertical": lr_vertical,
    "lr vertical with score": lambda k=2: lr_vertical(k, release=(Item.COEFFICIENTS, Item.INTERCEPT, Item.SCORE)),
    "lr vertical ridge": lambda k=2: lr_vertical(k, alpha=0.5),
    "lr vertical without intercept": lambda k=2: lr_vertical(k, centre=False),
    "lr vertical without intercept, with score": lambda k=2: lr_vertical(
        k, centre=False, release=(Item.COEFFICIENTS, Item.INTERCEPT, Item.SCORE)
    ),
    "lr vertical with standard errors": lambda k=2: lr_vertical(
        k, release=(Item.COEFFICIENTS, Item.INTERCEPT, Item.INFERENCE)
    ),
    "lr vertical, a ridge by generalised cross-validation": lambda k=2: lr_vertical(
        k, alphas=(0.1, 10.0), chosen_by="gcv", release=(Item.COEFFICIENTS, Item.INTERCEPT, Item.RIDGE_PATH)
    ),
    "lr vertical of lost rank": lr_lost_rank,
    "lr vertical in panels of two rows": lambda k=2: lr_vertical(
        k, memory=48 * (k + 2) * (sum(WIDTHS[i % 2] for i in range(k)) + 1)
    ),
    "lr horizontal": lr_horizontal,
    "lr horizontal opened by the users": lambda k=2: lr_horizontal(k, mode=Mode.A),
    "lr horizontal ridge": lambda k=2: lr_horizontal(k, alpha=0.5),
    "lr horizontal with a weighted, refined table": lr_table,
    "lr horizontal with robust errors": lambda k=2: lr_table(k, "HC3"),
    "lr horizontal with clusters": lambda k=2: lr_table(k, "cluster"),
    "lr horizontal with a table of few digits": lr_of_few_digits,
    "lr horizontal with robust errors of few digits": lambda k=2: lr_of_few_digits(k, "HC3"),
    "lr horizontal, a ridge by leaving out rows": ridge,
    "lr horizontal, a ridge by generalised cross-validation": lambda k=2: ridge(k, "gcv"),
    "glm": glm,
    "glm of few digits": glm_of_few_digits,
    "glm with its quality": lambda k=2: glm(k, release=WITH_QUALITY),
    "glm of few digits with its quality": lambda k=2: glm_of_few_digits(k, release=WITH_QUALITY),
    "glm of few digits with its ROC curve": lambda k=2: glm_of_few_digits(k, release=WITH_ROC, options=(("roc", 5),)),
    "glm with clusters": lambda k=2: glm(k, **robust("cluster", glm(k))),
    "glm of few digits with robust errors": lambda k=2: glm_of_few_digits(k, **robust("HC1", glm_of_few_digits(k))),
    "glm of three classes": lambda k=2: glm(k, Family.MULTINOMIAL, 3),
    "cox": cox,
    "cox with clusters": lambda k=2: cox(k, **robust("cluster", cox(k)) | {"release": WITHOUT_INTERCEPT}),
    "cox with a clock and a common baseline": lambda k=2: cox(k, options=completed(Task.COX, BEYOND)),
    "cox in bins of time": cox_in_bins,
    "survival": survival,
    "ordinal": ordinal,
    "describe": describe,
    "describe without groups": lambda k=2: describe(k, table=ALL_RECORDS),
    "mixed": mixed,
    "mixed by maximum likelihood": lambda k=2: mixed(k, False),
    "propensity": propensity,
    "propensity of times with clusters": lambda k=2: propensity(k, True),
    "predict": predict,
    "preparation": prepared,
    "preparation dealt by the TA": lambda k=2: prepared(k, trust=Trust.AUTHORITY),
    "predict dealt by the TA": lambda k=2: predict(k, trust=Trust.AUTHORITY),
    "foreign": foreign,
    "foreign dealt by the TA": lambda k=2: foreign(k, trust=Trust.AUTHORITY),
    "match by hashes": lambda k=2: match(Align.SERVER, k),
    "match by hashes, two ids a message": lambda k=2: match(Align.SERVER, k, memory=512),
    "match by blinded points": lambda k=2: match(Align.ECDH, k),
    "match by blinded points, two ids a message": lambda k=2: match(Align.ECDH, k, memory=512),
}

FREE = (
    "ordinal",
    "mixed",
    "mixed by maximum likelihood",
    "cox with clusters",
    "cox in bins of time",
    "propensity",
    "propensity of times with clusters",
)
"""Cases in which the data decides more than the number of iterations: which ask for information, and for slopes;
how many pieces a sum needs."""

LEAST = (
    "svd",
    "svd opened by the CSP",
    "svd of a tall matrix",
    "svd of checked rows dealt by the TA",
    "lsa",
    "pca",
    "svd by steps",
    "lsa by steps, of one block",
    "cca",
    "pcr",
    "lr vertical without intercept",
    "lr vertical with standard errors",
    "lr vertical in panels of two rows",
    "lr horizontal",
    "lr horizontal with a weighted, refined table",
    "glm",
    "glm of three classes",
    "cox",
    "survival",
    "ordinal",
    "describe",
    "mixed",
    "propensity",
    "predict",
    "preparation dealt by the TA",
    "foreign dealt by the TA",
    "match by hashes",
    "match by blinded points, two ids a message",
)
"""The cases of ``make test``: with them every row of the tables is taken, and every task, family and mode is played."""
