"""An estimator's study as a job file and tables as files: the study is the same one, and so is what it leaves."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from tests.tolerances import STATISTIC_BAR, assert_close

from fedsvd import (
    FederatedCCA,
    FederatedGLM,
    FederatedLinearRegression,
    FederatedLogisticRegression,
    FederatedLSA,
    FederatedPCA,
    FederatedPCR,
    FederatedRidgeCV,
    FederatedSVD,
    Federation,
    Local,
    Masks,
    Policy,
    Simulation,
)
from fedsvd.errors import ConfigError
from fedsvd.estimators import base
from fedsvd.estimators.as_job import job_on_files
from fedsvd.estimators.between import job_of
from fedsvd.estimators.stored import of_results, results_in
from fedsvd.protocol.tasks import Task
from fedsvd.results.write import write_job
from fedsvd.studies.job_data import prepare
from fedsvd.studies.job_file import job_from
from fedsvd.studies.jobs import results_of, run_job
from fedsvd.studies.submitted import submitted_file

RNG = np.random.default_rng(7)
X = RNG.normal(size=(180, 4)) @ RNG.normal(size=(4, 4)) + 3.0
Y = X @ [1.0, -2.0, 0.5, 0.0] + RNG.normal(size=180)
LIKELY = RNG.random(180) < 1 / (1 + np.exp(-(X[:, 0] - X[:, 0].mean())))
ROWS = np.split(X, [50, 110])
LABELS = np.split(Y, [50, 110])
COLUMNS = [X[:, :1], X[:, 1:3], X[:, 3:]]
IDS = [f"patient {i}" for i in range(180)]
FRAMES = [pd.DataFrame(part, columns=["age", "dose, mg", "y", "é"]) for part in ROWS]
WITH_IDS = [
    pd.DataFrame(part, columns=[f"c{i}{j}" for j in range(part.shape[1])], index=IDS) for i, part in enumerate(COLUMNS)
]
SPARSE = [scipy.sparse.csr_array(np.where(part > 3.0, part, 0.0)) for part in ROWS]
COUNTS = RNG.poisson(2.0, size=180)
KINDS = RNG.choice(np.array(["low", "middle", "high"]), size=180)
SHARED = (
    "components_",
    "singular_values_",
    "coef_",
    "intercept_",
    "mean_",
    "explained_variance_",
    "correlations_",
    "U_",
)

CASES = {
    "svd": (FederatedSVD(3), (ROWS,)),
    "svd of columns": (FederatedSVD(split="vertical", ids="trust"), (COLUMNS,)),
    "svd of columns with ids": (FederatedSVD(2, split="vertical"), (WITH_IDS,)),
    "svd, masked, by an authority": (FederatedSVD(2, masks=Masks("mask", trust="authority")), (ROWS,)),
    "pca": (FederatedPCA(2, unit_variance=True), (FRAMES,)),
    "pca by a share, one table": (FederatedPCA(0.9), (X,)),
    "pca without a spectrum": (FederatedPCA(2, release_spectrum=False), (ROWS,)),
    "lsa": (FederatedLSA(2), (SPARSE,)),
    "cca": (FederatedCCA(ids="trust"), ([X[:, :2], X[:, 2:]],)),
    "pcr": (FederatedPCR(2, unit_variance=True), (ROWS, LABELS)),
    "lr": (FederatedLinearRegression(0.5), (FRAMES, LABELS)),
    "lr with a table and clusters": (
        FederatedLinearRegression(inference=True),
        (ROWS, LABELS, 1.0 + COUNTS, None, np.arange(180) // 5),
    ),
    "lr of two targets": (FederatedLinearRegression(), (ROWS, [np.column_stack((y, -y)) for y in LABELS])),
    "lr of columns": (FederatedLinearRegression(split="vertical", label_party=1), (WITH_IDS, pd.Series(Y, index=IDS))),
    "lr of a column by name": (FederatedLinearRegression(), (FRAMES, "y")),
    "pcr of a column by name": (FederatedPCR(2), (FRAMES, "dose, mg")),
    "two classes by name": (
        FederatedLogisticRegression(0.5),
        ([own.assign(kind=part) for own, part in zip(FRAMES, np.split(LIKELY, [50, 110]), strict=True)], "kind"),
    ),
    "ridge by cross-validation": (FederatedRidgeCV((0.1, 5.0)), (ROWS, LABELS)),
    "counts with an offset and weights": (
        FederatedGLM("poisson", alpha=1.0),
        (ROWS, np.split(COUNTS, [50, 110]), 1.0 + LIKELY, 0.1 * X[:, 0]),
    ),
    "two classes": (FederatedLogisticRegression(), (ROWS, LIKELY)),
    "three classes": (FederatedLogisticRegression(0.5), (X, KINDS)),
    "each class": (FederatedLogisticRegression(0.5, multi_class="ovr"), (ROWS, KINDS)),
}  # fmt: skip


@pytest.fixture
def in_process(monkeypatch, tmp_path):
    """A local federation without processes: the job that would be run, run here from its files."""
    seen = []

    def found(words, masks, study, parties, policy):
        with job_on_files(words, masks, study, parties) as (job, folder):
            prepared = prepare(job)
            outcome = run_job(prepared, policy=policy)
            write_job(tmp_path / "out", results_of(prepared, outcome), overwrite=True)
            seen.append((study, prepared.study))
        assert not folder.exists()
        return of_results(*results_in(tmp_path / "out"))

    monkeypatch.setattr(base, "found_locally", found)
    return seen


@pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning", "ignore::fedsvd.errors.DataWarning")
@pytest.mark.parametrize("case", CASES)
def test_a_study_as_a_job_is_the_same_study_and_leaves_the_same_attributes(case, in_process):
    estimator, given = CASES[case]
    one, two = (type(estimator)(**estimator.get_params(deep=False)) for _ in range(2))
    here = one.set_params(federation=Simulation(3, policy=Policy.permissive())).fit(*given)
    there = two.set_params(federation=Local(3, policy=Policy.permissive())).fit(*given)
    ((asked, in_the_file),) = in_process
    assert (in_the_file.task, in_the_file.split, in_the_file.targets) == (asked.task, asked.split, asked.targets)
    assert there.plan_.steps == here.plan_.steps
    assert there.plan_.counts == here.plan_.counts
    assert set(vars(there)) == set(vars(here))
    for name in SHARED:
        if hasattr(here, name):
            assert_close(np.asarray(getattr(there, name)), np.asarray(getattr(here, name)), STATISTIC_BAR)
    assert len(there.parties_) == len(here.parties_) if hasattr(here, "parties_") else True
    for name in ("feature_names_in_", "classes_", "target_names_", "target_name_"):
        if hasattr(here, name):
            assert list(getattr(there, name)) == list(getattr(here, name))


def test_a_second_fit_leaves_nothing_of_the_first(in_process):
    pca = FederatedPCA(2, unit_variance=True, federation=Local(policy=Policy.permissive())).fit(ROWS)
    assert pca.scale_.shape == (4,)
    assert not hasattr(pca.set_params(unit_variance=False).fit(ROWS), "scale_")


WHERE = Federation("kit", ["a", "b", "c"], "study", columns=["age", "dose"], memory=1 << 30, authority="ta")
PARTIES = [{"name": "a"}, {"name": "b"}, {"name": "c"}]
FILES = [
    (FederatedSVD(3), Task.SVD, {}, {"task": "svd", "components": 3}),
    (
        FederatedLinearRegression(inference=True, split="vertical", id="pid"),
        Task.LR,
        {"y": "cost"},
        {"task": "lr", "split": "vertical", "inference": True, "id": "pid", "label": ["cost"]},
    ),
    (
        FederatedLinearRegression(inference=True, cov_type="HC3"),
        Task.LR,
        {"y": ["cost", "days"], "weights": "w"},
        {"task": "lr", "inference": True, "cov_type": "HC3", "label": ["cost", "days"], "weights": "w"},
    ),
    (
        FederatedRidgeCV([1.0, 2.0]),
        Task.LR,
        {"y": "cost"},
        {"task": "lr", "alphas": [1.0, 2.0], "choose_by": "loo", "label": ["cost"]},
    ),
    (
        FederatedGLM("poisson"),
        Task.GLM,
        {"y": "n", "offset": "o"},
        {"task": "glm", "family": "poisson", "label": ["n"], "offset": "o"},
    ),
    (
        FederatedLogisticRegression(2.0),
        Task.GLM,
        {"y": "died"},
        {"task": "glm", "family": "binomial", "classes": ["0", "1"], "alpha": 2.0, "label": ["died"], "link": "logit"}
        | {"max_iterations": 50},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("estimator", "task", "given", "words"), FILES, ids=lambda each: type(each).__name__)
def test_a_job_between_institutions_asks_for_what_the_estimator_does(estimator, task, given, words):
    found = submitted_file(job_of(estimator, WHERE, task, Masks("sum", trust="authority"), given))
    file = {
        "job": {"name": "study", "memory": 1 << 30, **words},
        "prepare": {"columns": ["age", "dose"]},
        "party": PARTIES,
    }
    file |= {"masks": {"scheme": "sum"}, "authority": {"name": "ta"}}
    assert found == submitted_file(job_from(file, Path()))


def test_a_job_by_a_dictionary_names_its_columns(tmp_path):
    (tmp_path / "dictionary.toml").write_text("[columns.age]\nrange = [18, 110]\n[columns.dose]\n")
    where = replace(WHERE, dictionary=tmp_path / "dictionary.toml")
    found = job_of(FederatedSVD(2), where, Task.SVD, Masks(), {})
    assert submitted_file(found)["dictionary"]["says"]["columns"]["age"] == {"range": [18.0, 110.0]}
    with pytest.raises(ConfigError, match="'weight', which is not in the dictionary"):
        job_of(FederatedSVD(2), replace(where, columns=["weight"]), Task.SVD, Masks(), {})


def test_every_different_fit_may_be_a_job():
    where = replace(WHERE, each_fit_is_a_job=True)
    first, again, other = (job_of(FederatedSVD(n), where, Task.SVD, Masks(), {}).study.name for n in (3, 3, 2))
    assert first == again != other
    assert first.startswith("study-")


def test_records_are_not_matched_on_files():
    frames = [pd.DataFrame({"id": IDS, f"c{i}": X[:, i]}) for i in range(3)]
    model = FederatedSVD(split="vertical", id="id", align="server", federation=Local(policy=Policy.permissive()))
    with pytest.raises(ConfigError, match=r"matched in a simulation only\. Fix: leave federation out, or run a job"):
        model.fit(frames)
