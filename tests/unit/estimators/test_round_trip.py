"""What is fitted, written and loaded is what was fitted: every public attribute and parameter of every estimator.

The estimator fits frames; the same study runs as a job on the same tables in files, and its folder is loaded. What a
folder by design does not have stands in one list below, with the reason.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.protocol.cases import CASES
from tests.studies import FEATURES, Files, companies, hospitals
from tests.tolerances import GLM_BAR, STATISTIC_BAR

import fedsvd
from fedsvd.estimators.federation import Masks, Simulation
from fedsvd.policy.rules import Policy
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Split, Task
from fedsvd.results.write import write_job
from fedsvd.studies.job_data import prepare
from fedsvd.studies.job_file import read_job
from fedsvd.studies.jobs import results_of
from fedsvd.studies.matching import run_stages

pytestmark = pytest.mark.filterwarnings(
    "ignore::fedsvd.errors.PrivacyWarning", "ignore::fedsvd.errors.DigitsLost", "ignore:random_state makes"
)
ALLOWED, SEED = Policy.permissive(), 11
COLUMNS = [*FEATURES, "outcome"]

NOT_IN_A_FOLDER = {
    "federation.policy": "what an owner allows is the owner's file, not a result",
    "federation.device": "of the machine that computed",
    "federation.engine": "of the machine that computed",
    "federation.random_state": "a result is computed with fresh secrets",
    "federation.verbose": "how progress was shown",
    "federation.parties": "among how many one table is divided to rehearse: a job has as many as took part",
    "whiten": "how scores are shown, which no party agrees on; the folder has them as they are",
    "missing": "how new rows are projected, which no party agrees on",
    "multi_class": "of two classes, both of its words are the same study",
    "inference_[0].root": "of robust errors: a root of the inverse Gram matrix, which nothing but them is made of",
}
OF_THE_SESSION = ("session", "identities", "csp_identity", "prekeys", "job", "ticket", "column_names")
"""Fields of a plan that two sessions of one study differ in."""


@dataclass(frozen=True)
class Case:
    """One study, as it is fitted and as a job file asks for it."""

    estimator: Callable[..., Any]
    asked: dict[str, Any]  # parameters
    keys: dict[str, Any]  # of [job]
    by_columns: bool = False
    labels: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    masks: str = ""
    authority: bool = False
    given: tuple[tuple[str, Any], ...] = ()  # further arguments of fit
    match: str = ""
    bar: float = STATISTIC_BAR

    def table(self, folder: Any) -> Files:
        files = companies(folder, shuffled=False) if self.by_columns else hospitals(folder)
        joint = files.joint
        joint["weight"] = 1.0 + joint.index % 3
        joint["dose"] = joint["dose"] if self.classes != ("twice",) else 2.0 * joint["age"]
        if len(self.classes) > 1:
            places = pd.qcut(joint["outcome"] + 8.0 * np.sin(np.arange(len(joint))), len(self.classes), labels=False)
            joint["outcome"] = np.array(self.classes)[places]
        if self.keys.get("family") == "poisson":
            joint["outcome"] = np.random.default_rng(3).poisson(4.0, size=len(joint)).astype(float)
        for (name, _), part in zip(files.parties, self.parts(joint), strict=True):
            part.to_csv(folder / f"{name}.csv", index=False)
        return Files(folder, joint, tuple((name, f"{name}.csv") for name, _ in files.parties))

    def parts(self, joint: pd.DataFrame) -> list[pd.DataFrame]:
        if not self.by_columns:
            return [joint[:40], joint[40:75], joint[75:]]
        return [joint[["patient", *own]] for own in (FEATURES[:2], FEATURES[2:4], [*FEATURES[4:], "outcome"])]

    def fitted(self, joint: pd.DataFrame) -> Any:
        where = {"policy": ALLOWED, "random_state": SEED, "memory": self.keys.get("memory")}
        split = {} if "split" in self.asked or not self.by_columns else {"split": "vertical"}
        if self.by_columns and self.labels:
            split["label_party"] = 2  # a job finds the party that has the column, a fit takes the last
        found = self.estimator(**self.asked, **split, id="patient", federation=Simulation(**where))
        tables = [part.drop(columns=[name for name in self.labels if name in part]) for part in self.parts(joint)]
        if not self.labels:
            return found.fit(tables)
        wanted = self.labels[0] if len(self.labels) == 1 else [*self.labels]
        y = joint[wanted] if self.by_columns else [part[wanted] for part in self.parts(joint)]
        return found.fit(tables, y, **dict(self.given))

    def written(self, files: Files) -> Any:
        keys = {"split": "vertical"} if self.by_columns else {}
        keys |= {"label": list(self.labels)} if self.labels else {}
        # An estimator asks for the least that its policy allows, a job for what it says.
        keys |= {"least_class": 0, "least_events": 0} if self.keys["task"] == "glm" else {}
        path = files.job(id="patient", masks=self.masks, authority=self.authority, **keys, **self.keys)
        path.write_text(path.read_text() + self.match)
        prepared = prepare(read_job(path))
        outcome = run_stages(prepared.study, prepared.parties, random_state=SEED, policy=ALLOWED, asked=prepared.asked)
        write_job(files.folder / "out", results_of(prepared, outcome))
        return files.folder / "out"


SVD, LSA, PCA, PCR, CCA = (
    *(fedsvd.FederatedSVD, fedsvd.FederatedLSA, fedsvd.FederatedPCA, fedsvd.FederatedPCR, fedsvd.FederatedCCA),
)
LR, RIDGE, GLM, LOGIT = (
    *(fedsvd.FederatedLinearRegression, fedsvd.FederatedRidgeCV),
    *(fedsvd.FederatedGLM, fedsvd.FederatedLogisticRegression),
)
Y, TWO = ("outcome",), ("outcome", "pressure")
SPECTRUM = ["components", "mean", "spectrum", "own part"]
TABLE = {"inference": True}
ALPHAS = [0.1, 1.0, 10.0]
MATCHED, MATCH = {"align": "server", "least_overlap": 1}, '[match]\nalign = "server"\nleast_overlap = 1\n'
STUDIES = {
    "svd": Case(SVD, {}, {"task": "svd"}),
    "svd of three": Case(SVD, {"n_components": 3}, {"task": "svd", "components": 3}),
    "svd under masks": Case(SVD, {"masks": Masks("mask")}, {"task": "svd"}, masks='scheme = "mask"'),
    "svd dealt by the TA": Case(SVD, {"masks": Masks(trust="authority")}, {"task": "svd"}, authority=True),
    "svd in mode B": Case(SVD, {"masks": Masks("sum", "B")}, {"task": "svd"}, masks='scheme = "sum"\nmode = "B"'),
    "svd in 64 MiB": Case(SVD, {}, {"task": "svd", "memory": 1 << 26}),
    "svd of columns": Case(SVD, {}, {"task": "svd"}, by_columns=True),
    "svd of trusted columns": Case(SVD, {"ids": "trust"}, {"task": "svd", "ids": "trust"}, by_columns=True),
    "svd of matched columns": Case(
        SVD, {"align": MATCHED}, {"task": "svd"}, by_columns=True, match=MATCH
    ),
    "svd of lost rank": Case(SVD, {}, {"task": "svd"}, classes=("twice",)),
    "lsa": Case(LSA, {"n_components": 3}, {"task": "lsa", "components": 3}),
    "lsa of columns": Case(LSA, {"n_components": 3}, {"task": "lsa", "components": 3}, by_columns=True),
    "pca": Case(PCA, {}, {"task": "pca", "release": SPECTRUM}),
    "pca of two": Case(PCA, {"n_components": 2}, {"task": "pca", "components": 2, "release": SPECTRUM}),
    "pca without spectrum": Case(
        PCA, {"n_components": 2, "release_spectrum": False}, {"task": "pca", "components": 2}
    ),
    "pca, whitened": Case(
        PCA, {"n_components": 2, "whiten": True}, {"task": "pca", "components": 2, "release": SPECTRUM}
    ),
    "pca of standardised columns": Case(
        PCA, {"unit_variance": True}, {"task": "pca", "unit_variance": True, "release": SPECTRUM}
    ),
    "pca by a share": Case(PCA, {"n_components": 0.9}, {"task": "pca", "components": 0.9}),
    "pca by likelihood": Case(PCA, {"n_components": "mle"}, {"task": "pca", "components": "mle"}),
    "pca by parallel analysis": Case(
        PCA, {"n_components": "parallel", "unit_variance": True},
        {"task": "pca", "components": "parallel", "unit_variance": True},
    ),
    "pca of lost rank": Case(PCA, {}, {"task": "pca", "release": SPECTRUM}, classes=("twice",)),
    "pcr": Case(PCR, {"n_components": 2}, {"task": "pcr", "components": 2}, labels=Y),
    "pcr of two targets": Case(PCR, {"n_components": 2}, {"task": "pcr", "components": 2}, labels=TWO),
    "pcr by a share": Case(
        PCR, {"unit_variance": True}, {"task": "pcr", "components": 0.95, "unit_variance": True}, labels=Y
    ),
    "pcr of lost rank": Case(PCR, {"n_components": 2}, {"task": "pcr", "components": 2}, labels=Y, classes=("twice",)),
    "cca": Case(CCA, {}, {"task": "cca"}, by_columns=True),
    "cca of one": Case(CCA, {"n_components": 1}, {"task": "cca", "components": 1}, by_columns=True),
    "regression": Case(LR, {}, {"task": "lr"}, labels=Y),
    "regression of two targets": Case(LR, {**TABLE}, {"task": "lr", **TABLE}, labels=TWO),
    "regression without intercept": Case(
        LR, {"fit_intercept": False, **TABLE}, {"task": "lr", "intercept": False, **TABLE}, labels=Y
    ),
    "regression with a table": Case(LR, TABLE, {"task": "lr", **TABLE}, labels=Y),
    "regression with a table of lost rank": Case(LR, TABLE, {"task": "lr", **TABLE}, labels=Y, classes=("twice",)),
    "ridge": Case(LR, {"alpha": 1.5}, {"task": "lr", "alpha": 1.5}, labels=Y),
    "ridge with a table": Case(LR, {"alpha": 1.5, **TABLE}, {"task": "lr", "alpha": 1.5, **TABLE}, labels=Y),
    "regression with robust errors": Case(
        LR, {"cov_type": "HC3", **TABLE}, {"task": "lr", "cov_type": "HC3", **TABLE}, labels=Y
    ),
    "regression with clusters": Case(
        LR, {"cluster": "weight", **TABLE}, {"task": "lr", "cluster": "weight", **TABLE}, labels=Y
    ),
    "weighted regression": Case(
        LR, TABLE, {"task": "lr", "weights": "weight", **TABLE}, labels=Y, given=(("sample_weight", "weight"),)
    ),
    "regression with an offset": Case(
        LR, TABLE, {"task": "lr", "offset": "weight", **TABLE}, labels=Y, given=(("offset", "weight"),)
    ),
    "regression of columns": Case(LR, {}, {"task": "lr"}, by_columns=True, labels=Y),
    "regression of columns with a table": Case(LR, TABLE, {"task": "lr", **TABLE}, by_columns=True, labels=Y),
    "ridge of columns": Case(LR, {"alpha": 1.5}, {"task": "lr", "alpha": 1.5}, by_columns=True, labels=Y),
    "regression of matched columns": Case(
        LR, {"align": MATCHED}, {"task": "lr", "label_party": "insurer"}, by_columns=True, labels=Y,
        match=MATCH,
    ),
    "chosen ridge": Case(
        RIDGE, {"alphas": ALPHAS}, {"task": "lr", "alphas": ALPHAS, "choose_by": "loo"}, labels=Y
    ),
    "chosen ridge of two targets": Case(
        RIDGE, {"alphas": ALPHAS, "choose_by": "gcv"}, {"task": "lr", "alphas": ALPHAS, "choose_by": "gcv"},
        labels=TWO,
    ),
    "chosen ridge of columns": Case(
        RIDGE, {"alphas": ALPHAS, "choose_by": "gcv"}, {"task": "lr", "alphas": ALPHAS, "choose_by": "gcv"},
        by_columns=True, labels=Y,
    ),
    "gaussian model": Case(GLM, {}, {"task": "glm", "family": "gaussian"}, labels=Y, bar=GLM_BAR),
    "poisson model": Case(
        GLM, {"family": "poisson"}, {"task": "glm", "family": "poisson", "offset": "weight"}, labels=Y,
        given=(("offset", "weight"),), bar=GLM_BAR,
    ),
    "poisson model without intercept": Case(
        GLM, {"family": "poisson", "fit_intercept": False, "alpha": 2.0},
        {"task": "glm", "family": "poisson", "intercept": False, "alpha": 2.0}, labels=Y, bar=GLM_BAR,
    ),
    "logistic regression": Case(
        LOGIT, {"max_iterations": 25}, {"task": "glm", "family": "binomial", "classes": ["no", "yes"]}, labels=Y,
        classes=("no", "yes"), bar=GLM_BAR,
    ),
    "weighted logistic regression": Case(
        LOGIT, {"max_iterations": 30, "tolerance": 1e-8},
        {"task": "glm", "family": "binomial", "classes": ["no", "yes"], "weights": "weight", "max_iterations": 30,
         "tolerance": 1e-8},
        labels=Y, classes=("no", "yes"), given=(("sample_weight", "weight"),), bar=GLM_BAR,
    ),
    "multinomial regression": Case(
        LOGIT, {"max_iterations": 25}, {"task": "glm", "family": "multinomial", "classes": ["a", "b", "c"]}, labels=Y,
        classes=("a", "b", "c"), bar=GLM_BAR,
    ),
    "each class against the rest": Case(
        LOGIT, {"multi_class": "ovr", "max_iterations": 25},
        {"task": "glm", "family": "binomial", "classes": ["a", "b", "c"]}, labels=Y, classes=("a", "b", "c"),
        bar=GLM_BAR,
    ),
}  # fmt: skip


def public(estimator: Any) -> set[str]:
    """The names of fitted attributes, properties included."""
    kind = type(estimator)
    names = {name for name in (*vars(estimator), *dir(kind)) if name.endswith("_") and not name.startswith("_")}
    return {name for name in names if not callable(getattr(kind, name, None)) and hasattr(estimator, name)}


def differences(where: str, found: Any, expected: Any, bar: float) -> list[str]:
    """Where two values differ, by what leads to them."""
    if isinstance(expected, SessionPlan):
        names = [each.name for each in fields(expected) if each.name not in OF_THE_SESSION]
        return [f"{where}.{name}" for name in names if getattr(found, name) != getattr(expected, name)]
    if type(found) is not type(expected) and not (isinstance(found, int | float) and isinstance(expected, int | float)):
        return [f"{where}: {type(found).__name__}, fitted {type(expected).__name__}"]
    if is_dataclass(expected):
        pairs = [(name.name, getattr(found, name.name), getattr(expected, name.name)) for name in fields(expected)]
        # A root of the inverse Gram matrix is one of many.
        pairs = [(name, *map(square, both)) if name == "root" else (name, *both) for name, *both in pairs]
        return [text for name, *both in pairs for text in differences(f"{where}.{name}", *both, bar)]
    if isinstance(expected, tuple | list):
        if len(found) != len(expected):
            return [f"{where}: {len(found)} items, fitted {len(expected)}"]
        each = enumerate(zip(found, expected, strict=True))
        return [text for i, both in each for text in differences(f"{where}[{i}]", *both, bar)]
    if isinstance(expected, np.ndarray) and expected.shape != found.shape:
        return [f"{where}: shape {found.shape}, fitted {expected.shape}"]
    if isinstance(expected, np.ndarray | float | np.floating) and np.asarray(expected).dtype.kind == "f":
        scale = float(np.max(np.abs(np.nan_to_num(expected)), initial=0.0)) or 1.0
        same = np.allclose(found, expected, rtol=0, atol=bar * scale, equal_nan=True)
        return [] if same else [f"{where}: other numbers"]
    return [] if np.array_equal(found, expected) else [f"{where}: {found!r}, fitted {expected!r}"]


def square(root: Any) -> Any:
    return root @ root.T if isinstance(root, np.ndarray) else root


@pytest.mark.parametrize("name", STUDIES)
def test_every_attribute_and_parameter_of_a_fit_is_there_again_when_it_is_loaded(name, tmp_path):
    case = STUDIES[name]
    files = case.table(tmp_path)
    expected, found = case.fitted(files.joint), fedsvd.load(case.written(files))
    assert type(found) is type(expected)
    lost = [f"{attribute} is missing" for attribute in sorted(public(expected) - public(found))]
    lost += [f"{attribute} was not fitted" for attribute in sorted(public(found) - public(expected))]
    for attribute in sorted(public(expected) & public(found) - {"certificate_"}):
        lost += differences(attribute, getattr(found, attribute), getattr(expected, attribute), case.bar)
    # Errors, bytes and seconds are of the session.
    assert found.certificate_.versions == expected.certificate_.versions
    params, fitted = found.get_params(), expected.get_params()
    lost += [text for key in fitted for text in differences(key, params[key], fitted[key], 0.0)]
    robust = params.get("cov_type", "nonrobust") != "nonrobust" or params.get("cluster") is not None
    excused = {key for key in NOT_IN_A_FOLDER if robust or not key.endswith("root")}
    assert not [text for text in lost if text.partition(":")[0] not in excused]


def test_every_task_and_split_that_has_an_estimator_is_among_these_studies():
    estimated = (Task.SVD, Task.LSA, Task.PCA, Task.PCR, Task.CCA, Task.LR, Task.GLM)
    federations = [make() for make in CASES.values()]
    played = {(each.study.task, each.study.split) for each in federations if each.study.task in estimated}
    here = {
        (Task(case.keys["task"]), Split.VERTICAL if case.by_columns else Split.HORIZONTAL) for case in STUDIES.values()
    }
    assert here >= played


def test_nothing_is_excused_that_no_estimator_has():
    parameters = {key for case in STUDIES.values() for key in case.estimator().get_params()}
    parameters |= {f"federation.{each.name}" for each in fields(Simulation)}
    assert {key for key in NOT_IN_A_FOLDER if "_[" not in key} <= parameters
