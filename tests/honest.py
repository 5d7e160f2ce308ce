"""Honest studies, and what the rules at home say of them: ``python -m tests.honest`` writes the page of the docs.

Data sets come with scikit-learn and statsmodels, or are drawn here with a seed where a kind of study has none. Rows are
dealt to the parties at random, once. Tables that come with R are not in this repository; ``python -m tests.honest
FOLDER``, where they lie as CSV files, records the verdicts on them.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.datasets as econometric
from sklearn import datasets
from tests import datasets as datasets_beside

from fedsvd.data.arrays import ArraySource
from fedsvd.data.source import MatrixSource
from fedsvd.policy.bits_held import balance, judged_by_bits
from fedsvd.policy.opened_columns import OpenedColumns
from fedsvd.policy.rules import Policy
from fedsvd.prepare.at_home import HomeReport
from fedsvd.prepare.derived import names_of
from fedsvd.prepare.joint_counts import CountRule, Rare
from fedsvd.prepare.missing import Filled, Gaps, Missing
from fedsvd.prepare.recipe import Recipe
from fedsvd.prepare.rule import Rule
from fedsvd.prepare.script import play_together, prepare
from fedsvd.protocol.model import Digits, ModelPlan
from fedsvd.protocol.openings import expected_bits
from fedsvd.protocol.tasks import Family, Item, Split, Task
from fedsvd.randomness.seed import Seed
from fedsvd.studies.opened_before import Before, earlier_bits, study_columns
from fedsvd.studies.own_bits import measured_bits
from fedsvd.studies.own_rows import home_findings
from fedsvd.studies.parties import PartyData
from fedsvd.studies.planning import plan_study
from fedsvd.studies.study import Study
from fedsvd.types import SessionId

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "honest-studies.md"
RECORDED = Path(__file__).parent / "vectors" / "honest-r.json"
OF_DATA = Path(__file__).parent / "vectors" / "honest-data.json"
RELEASE = (Item.COEFFICIENTS, Item.INTERCEPT, Item.INFERENCE)
TABLE = {"release": RELEASE, "digits": Digits.AUTO}
ROBUST = {"release": (*RELEASE, Item.ROBUST), "robust": "HC3", "digits": Digits.AUTO}
FINE, ASKS, REFUSED = "fine", "asks", "refused"
_HEAD = """\
# Honest studies, and what the rules say of them

What a party's own rules say of studies as people run them, with the policy that a new kit has, before anything is sent
([specification](../specification.md#12-bits-held)). *Fine*: nothing is said. *Asks*: a sentence that the owner answers
with the approval. Verdicts are the worst of all parties; bits held are those of the party with the largest ratio. A
test computes this page (`python -m tests.honest`). How many parties and records a release needs, which the plan alone
decides, is not in it.

| study | data | records of the parties | columns | bits opened | bits held | ratio | verdict |
|---|---|---|---|---|---|---|---|
"""
_FOOT = """
Where columns are split, bits are not counted: users get numbers of their own columns, or one for each record, which is
asked about. Models and regression tables open as few digits as `digits = "auto"` decides. Tables that come with R are
not in this repository: verdicts on them were recorded (`python -m tests.honest FOLDER`), in 20 ways of dealing rows to
three parties 'lung' asks in all and 'birthwt' in 16; in four it is refused, at 3.0 to 3.2 times what records hold.
MNIST and MovieLens were recorded too, and are computed again where they lie beside the repository. With ten components
the ratings are refused: these open 3.2 times what records hold.
"""


@dataclass(frozen=True, repr=False)
class Honest:
    """One study: what is asked, and the joint table."""

    name: str
    data: str
    X: Any
    counts: tuple[int, ...]
    task: Task
    y: Any = None
    split: Split = Split.HORIZONTAL
    names: tuple[str, ...] | None = None
    months: int = 1  # in each of which the study is done again, the tables having grown to their size in the last
    counted: bool = False  # by a dictionary: joint counts are taken before
    decimals: Mapping[str, int] | None = None  # of columns whose gaps are filled with means; None for no gaps
    more: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Verdict:
    """What came of it."""

    said: str
    rules: tuple[str, ...]
    columns: int
    opened: int
    held: float | None
    ratio: float | None


def judged(study: Honest) -> Verdict:
    """The worst verdict of all parties."""
    vertical = study.split is Split.VERTICAL
    X = np.asarray(study.X, dtype=float)
    order = np.arange(len(X)) if vertical else np.random.default_rng(0).permutation(len(X))
    X, y = X[order], None if study.y is None else np.asarray(study.y, dtype=float).reshape(len(X), -1)[order]
    asked = Study(study.task, study.split, targets=0 if y is None else y.shape[1], **study.more)
    edges = np.cumsum((0, *study.counts))
    taken = _passed(study, X, edges) if study.counted else np.arange(X.shape[1])
    X, m = X[:, taken], len(X) if vertical else len(taken)
    plan = plan_study(asked, m, study.counts, SessionId("00" * 16)).plan
    found, balances = [], []
    for i, (first, last) in enumerate(pairwise(edges)):
        rows, columns = (slice(None), slice(first, last)) if vertical else (slice(first, last), slice(None))
        labels = None if y is None or (vertical and i) else y[rows]
        table: MatrixSource = ArraySource(X[rows, columns], study.names)
        if study.decimals is not None:
            table = Filled(table, _means(X, names_of(table), study.decimals), decimals=study.decimals)
        own = PartyData(table, labels=labels, prepared=_report(study, m))
        before = _before(asked, study, X[rows, columns], labels) if study.months > 1 else Before()
        found += home_findings(plan, own, Policy(), before)
        if judged_by_bits(plan):
            balances.append(balance(plan, measured_bits(plan, own), earlier_bits(plan, own, before)))
    said = REFUSED if any(each.below for each in found) else ASKS if any(each.asks for each in found) else FINE
    worst = max(balances, key=lambda each: each.ratio, default=None)
    rules = tuple(sorted({each.rule for each in found if each.below or each.asks}))
    held, ratio = (None, None) if worst is None else (worst.held, worst.ratio)
    return Verdict(said, rules, X.shape[1], expected_bits(plan) if worst is None else worst.opened, held, ratio)


def _means(X: Any, names: Sequence[str], decimals: Mapping[str, int]) -> Any:
    """What gaps are filled with."""
    means = np.nanmean(X, axis=0)
    return np.array([round(mean, decimals.get(name, 17)) for mean, name in zip(means.tolist(), names, strict=True)])


def _passed(study: Honest, X: Any, edges: Any) -> Any:
    """The columns that joint counts leave, by what the parties' scripts say to each other."""
    rule = Rule(counts=CountRule(len(study.counts) > 2, drop=study.task is Task.PCA))
    tables = [ArraySource(np.ascontiguousarray(X[first:last])) for first, last in pairwise(edges)]
    left = names_of(play_together([prepare(table, rule, Seed(bytes(32))) for table in tables])[0].table)
    return np.array([int(name.removeprefix("x")) for name in left])


def _report(study: Honest, m: int) -> HomeReport | None:
    """What a party knows after joint counts: all columns that are left passed."""
    names = tuple(f"x{j}" for j in range(m))
    recipe = Recipe(rare=Rare(current=names)) if study.counted else None
    return HomeReport(Missing.ERROR, Gaps(names, 0, np.zeros(m, np.int64)), 0, (), recipe)


def _before(asked: Study, study: Honest, X: Any, y: Any) -> Before:
    """What the months before opened of one party's table, of whose records a third came in them."""
    opened, rows = OpenedColumns(), np.arange(len(X))
    for month in range(study.months - 1):
        records = len(X) - len(X) * (study.months - 1 - month) // (3 * study.months)
        own = PartyData(ArraySource(X[:records]), labels=y[:records])
        counts = tuple(n * records // len(X) for n in study.counts)
        plan = plan_study(asked, X.shape[1], counts, SessionId("00" * 16)).plan
        opens = study_columns(plan, own)
        assert opens is not None
        opened = opened.after(records).with_study(f"{month}", opens, rows[:records])
    return Before(opened, np.where(rows < len(opened.values), rows, -1))


def model(family: str, link: str, classes: int = 0, **more: Any) -> dict[str, Any]:
    """A model whose digits the plan decides."""
    return {"glm": ModelPlan(Family(family), link, classes=classes, digits=Digits.AUTO, **more)}


def thirds(n: int) -> tuple[int, ...]:
    return n - 2 * (n // 3), n // 3, n // 3


LOGIT = model("binomial", "logit", 2)


def _findings(rng: np.random.Generator, n: int, p: int) -> Any:
    return (rng.random((n, p)) < rng.uniform(0.2, 0.6, p)).astype(float)


def _drawn() -> Iterator[Honest]:
    """Kinds of studies that no bundled data set has."""
    rng = np.random.default_rng(27)
    age, bmi = rng.normal(52, 14, 350).round(1), rng.normal(27, 5, 350).round(1)
    X, y = np.column_stack((_findings(rng, 350, 6), age, bmi)), rng.random(350) < 0.4
    clinic = "drawn: 6 findings, age, BMI"
    yield Honest("clinical outcome, logistic regression", clinic, X, (150, 100, 100), Task.GLM, y, more=LOGIT)
    X = np.column_stack((_findings(rng, 5000, 10), rng.normal(size=(5000, 10)).round(2)))
    wide = "drawn: 10 findings, 10 measurements"
    yield Honest(
        "health survey, logistic regression", wide, X, thirds(5000), Task.GLM, rng.random(5000) < 0.3, more=LOGIT
    )
    X = np.column_stack(
        (rng.permutation(np.arange(1200) < 9), rng.normal(60, 12, 1200).round(1), _findings(rng, 1200, 2))
    )
    rare = "drawn: a comorbidity of 9, age, 2 findings"
    sick = rng.random(1200) < 0.3
    yield Honest("rare comorbidity, logistic regression", rare, X, thirds(1200), Task.GLM, sick, more=LOGIT)
    named = "the same by a dictionary, after joint counts"
    yield Honest(named, rare, X, thirds(1200), Task.GLM, sick, counted=True, more=LOGIT)
    X = np.column_stack((rng.lognormal(7, 2, 600).round(2), rng.normal(60, 12, 600).round(1), _findings(rng, 600, 2)))
    costs = "drawn: costs with a long tail, age, 2 findings"
    yield Honest(
        "heavy-tailed costs, regression table", costs, X, thirds(600), Task.LR, rng.normal(size=600), more=TABLE
    )
    shares = rng.uniform(0.05, 0.5, 300)
    genotypes = (rng.random((720, 300)) < shares).astype(float) + (rng.random((720, 300)) < shares)
    kept = {"components": 10}
    yield Honest("genotypes, PCA with 10 components", "drawn: 300 variants", genotypes, (240,) * 3, Task.PCA, more=kept)
    X = np.column_stack((_findings(rng, 258, 3), rng.normal(52, 14, 258).round(1), rng.normal(27, 5, 258).round(1)))
    small = "drawn: 3 findings, age, BMI"
    yield Honest(
        "a site of 8 rows, regression table", small, X, (150, 100, 8), Task.LR, rng.normal(size=258), more=TABLE
    )
    n, sizes = 6000, (2000,) * 3
    X = np.column_stack((_findings(rng, n, 4), rng.normal(60, 12, n).round(1), rng.normal(27, 5, n).round(1)))
    registry = "drawn: 4 findings, age, BMI; a third of the records in 24 months"
    y, often = rng.normal(size=n), 24
    yield Honest("a registry each month, regression table", registry, X, sizes, Task.LR, y, months=often, more=TABLE)
    yield Honest("a registry each month, logistic", registry, X, sizes, Task.GLM, y > 0.5, months=often, more=LOGIT)
    X = np.column_stack((rng.normal(62, 9, 900).round(), rng.normal(27, 5, 900).round(1), _findings(rng, 900, 3)))
    X[rng.random(X.shape) < 0.02] = np.nan
    gaps, y = "drawn: age, BMI, 3 findings, 2 % of the entries missing", rng.normal(size=900)
    yield Honest("gaps filled with means, regression table", gaps, X, thirds(900), Task.LR, y, decimals={}, more=TABLE)
    named, each = "the same by a dictionary with decimals", {"x0": 0, "x1": 1, "x2": 0, "x3": 0, "x4": 0}
    yield Honest(named, gaps, X, thirds(900), Task.LR, y, decimals=each, more=TABLE)


def studies() -> Iterator[Honest]:
    """All of them."""
    yield from _drawn()
    X, y = datasets.load_breast_cancer(return_X_y=True)
    hospitals = (219, 200, 150)
    yield Honest("the demo: SVD of all components", "breast cancer", X, hospitals, Task.SVD)
    yield Honest("PCA with 5 components", "breast cancer", X, hospitals, Task.PCA, more={"components": 5})
    yield Honest("logistic regression", "breast cancer, 5 columns", X[:, :5], hospitals, Task.GLM, y, more=LOGIT)
    X, y = datasets.load_diabetes(return_X_y=True, scaled=False)
    yield Honest("linear regression, coefficients alone", "diabetes", X, thirds(442), Task.LR, y)
    yield Honest("linear regression, table", "diabetes", X, thirds(442), Task.LR, y, more=TABLE)
    yield Honest("linear regression, robust errors", "diabetes", X, thirds(442), Task.LR, y, more=ROBUST)
    X, _ = datasets.load_wine(return_X_y=True)
    yield Honest("PCA of all components, two users", "wine", X, (89, 89), Task.PCA)
    yield Honest("PCA of all components, three users", "wine", X, thirds(178), Task.PCA)
    X, _ = datasets.load_digits(return_X_y=True)
    yield Honest("PCA with 10 components", "digits", X, thirds(1797), Task.PCA, more={"components": 10})
    named, ten = "the same by a dictionary, rare pixels left out", {"components": 10}
    yield Honest(named, "digits", X, thirds(1797), Task.PCA, counted=True, more=ten)
    X, _ = datasets.load_iris(return_X_y=True)
    yield Honest("linear regression, table", "iris", X[:, :3], thirds(150), Task.LR, X[:, 3], more=TABLE)
    d = econometric.anes96.load_pandas()
    yield Honest("vote, logistic regression", "anes96", d.exog, thirds(944), Task.GLM, d.data["vote"], more=LOGIT)
    d = econometric.fair.load_pandas()
    yield Honest("affairs, logistic regression", "fair", d.exog, thirds(6366), Task.GLM, d.endog > 0, more=LOGIT)
    d = econometric.randhie.load_pandas()
    counts = model("poisson", "log")
    yield Honest("visits, Poisson regression", "randhie", d.exog, thirds(20190), Task.GLM, d.endog, more=counts)
    d = econometric.modechoice.load_pandas()
    X = d.data[["ttme", "invc", "invt", "gc", "hinc", "psize"]]
    yield Honest("choice, logistic regression", "modechoice", X, (280,) * 3, Task.GLM, d.data["choice"], more=LOGIT)
    d = econometric.engel.load_pandas()
    yield Honest("food expenditure, regression table", "engel", d.exog, thirds(235), Task.LR, d.endog, more=TABLE)
    d = econometric.ccard.load_pandas()
    X = d.data[["AGE", "INCOME", "OWNRENT"]]
    yield Honest("expenditure, robust errors", "ccard", X, (24,) * 3, Task.LR, d.endog, more=ROBUST)
    X, _ = datasets.load_breast_cancer(return_X_y=True)
    split = Split.VERTICAL
    yield Honest("CCA, columns split", "breast cancer, 10 and 20 columns", X, (10, 20), Task.CCA, split=split)


def of_r(folder: Path) -> Iterator[Honest]:
    """Studies of tables that come with R's packages survival and MASS, complete cases, from a folder of CSV files."""
    asked = {
        "low birth weight, logistic regression": ("birthwt", "low", "age lwt smoke ht ui"),
        "death, logistic regression": ("lung", "status", "age sex ph.ecog wt.loss"),
        "relapse or death, logistic regression": ("colon", "status", "sex age obstruct nodes differ lev lev5"),
        "death or transplant, logistic regression": ("pbc", "status", "age edema lbili albumin lpro"),
    }
    for name, (file, label, columns) in asked.items():
        table = pd.read_csv(folder / f"{file}.csv")
        X, y = table[columns.split()], table[label]
        yield Honest(name, f"R: {file}", X, thirds(len(table)), Task.GLM, y, more=LOGIT)


def of_data() -> Iterator[Honest]:
    """Studies of data sets that lie beside the repository; a skip where they do not."""
    dictionary = {"task": Task.PCA, "counted": True}
    images, ratings = datasets_beside.mnist()[0], datasets_beside.movielens()
    ten, five = {"components": 10}, {"components": 5}
    named = "PCA with 10 components, by a dictionary, rare pixels left out"
    yield Honest(named, "MNIST, 10,000 images", images, thirds(len(images)), more=ten, **dictionary)
    named = "PCA with 5 components, by a dictionary, rare films left out"
    yield Honest(named, "MovieLens 100K", ratings, thirds(len(ratings)), more=five, **dictionary)


def page() -> str:
    """The page, with all verdicts computed but for the recorded ones."""
    recorded = [line for file in (RECORDED, OF_DATA) for line in json.loads(file.read_text(encoding="utf-8"))]
    return _HEAD + "".join((*lines(studies()), *recorded)) + _FOOT


def lines(asked: Iterable[Honest]) -> list[str]:
    """Rows of the page."""
    found_lines = []
    for study in asked:
        found = judged(study)
        held = "-" if found.held is None else f"{_short(found.held)}"
        ratio = "-" if found.ratio is None else f"{found.ratio:.1f}"
        said = found.said + (f": {', '.join(found.rules)}" if found.rules else "")
        columns = found.columns
        sizes = " / ".join(map(str, study.counts)) if study.split is Split.HORIZONTAL else str(len(study.X))
        cells = (study.name, study.data, sizes, columns, f"{found.opened:,}", held, ratio, said)
        found_lines.append(f"| {' | '.join(map(str, cells))} |\n")
    return found_lines


def _short(bits: float) -> str:
    """Two digits: the rest depends on the machine's rounding of singular values."""
    return f"{float(f'{bits:.1e}'):,.0f}"


if __name__ == "__main__":
    if sys.argv[1:]:
        RECORDED.write_text(json.dumps(lines(of_r(Path(sys.argv[1]))), indent=1) + "\n", encoding="utf-8")
        OF_DATA.write_text(json.dumps(lines(of_data()), indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
