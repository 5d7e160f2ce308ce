"""The memory law of the specification covers what the cost model counts, with 1 to 64 threads, and is no machine's."""

from dataclasses import replace

import pytest

import fedsvd.cost.kernels
from fedsvd.cost.estimate import predict
from fedsvd.protocol.budget import DEFAULT_MEMORY, memory_of_sums
from fedsvd.protocol.model import ModelPlan
from fedsvd.protocol.tasks import Check, Family, Item, Mode, Split, Task
from fedsvd.studies.planning import plan_study
from fedsvd.studies.study import Study
from fedsvd.tasks.declared import declared
from fedsvd.types import SessionId

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")

THREADS = (1, 2, 4, 16, 64)
TABLE = (Item.COEFFICIENTS, Item.INTERCEPT, Item.INFERENCE)
STUDIES = {
    "svd": Study(Task.SVD),
    "svd opened by the CSP": Study(Task.SVD, components=10),
    "svd verified": Study(Task.SVD, check=Check.ALL),
    "lsa": Study(Task.LSA, components=100),
    "pca": Study(Task.PCA, components=10),
    "pca with spectrum": Study(Task.PCA, release=(Item.COMPONENTS, Item.SPECTRUM, Item.MEAN)),
    "pcr": Study(Task.PCR, scheme="sum", components=10, targets=1),
    "lr": Study(Task.LR, targets=1),
    "lr opened by the users": Study(Task.LR, targets=1, mode=Mode.A),
    "lr with a table": Study(Task.LR, targets=1, release=TABLE),
    "lr with robust errors": Study(Task.LR, targets=1, weighted=True, robust="HC3", release=(*TABLE, Item.ROBUST)),
    "ridge": Study(Task.LR, targets=1, alpha=0.5),
    "ridge path": Study(
        Task.LR, targets=1, alphas=(0.1, 1.0), release=(Item.COEFFICIENTS, Item.INTERCEPT, Item.RIDGE_PATH)
    ),
    "glm": Study(Task.GLM, targets=1, glm=ModelPlan(Family.BINOMIAL, "logit")),
    "glm of three classes": Study(Task.GLM, targets=1, glm=ModelPlan(Family.MULTINOMIAL, "logit", classes=3)),
    "cca": Study(Task.CCA, Split.VERTICAL, scheme="sum"),
    "parallel analysis": Study(Task.PCA, components_by="parallel", release=(Item.COMPONENTS, Item.SPECTRUM, Item.MEAN)),
}
SHAPES = ((2000, (1500, 900)), (2000, (40_000, 2000, 3000)), (6000, (6000,) * 3), (6000, (30_000,) * 2))


def planned(name, m, counts):
    counts = tuple(min(n_i, m) for n_i in counts) if name == "cca" else counts
    return plan_study(STUDIES[name], m, counts, SessionId("a session")).plan


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.parametrize(("m", "counts"), SHAPES)
def test_the_law_covers_the_peak_of_every_role_with_any_number_of_threads(name, m, counts, monkeypatch):
    plan = planned(name, m, counts)
    least = memory_of_sums(plan, declared(plan.task).c)
    for threads in THREADS:
        monkeypatch.setattr(fedsvd.cost.kernels, "available", lambda threads=threads: threads)
        cost = predict(replace(plan, memory=least), in_memory=False)
        taken = max(role.memory for role in cost.roles.values())
        assert taken <= 1.05 * least + (64 << 20)  # what does not grow with the square of M comes on top


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.parametrize(("m", "counts"), SHAPES)
def test_parties_with_1_to_64_threads_come_to_one_plan(name, m, counts, monkeypatch):
    digests = set()
    for threads in range(1, 65):
        monkeypatch.setattr(fedsvd.cost.kernels, "available", lambda threads=threads: threads)
        digests.add(planned(name, m, counts).digest)
    assert len(digests) == 1


def test_the_law_goes_with_the_square_of_the_common_side_whatever_the_data():
    for m in (1000, 4096):
        few, many = (planned("svd", m, (n,) * 2) for n in (2 * m, 100 * m))
        assert memory_of_sums(few, 80) == memory_of_sums(many, 80) == 80 * m * m
    assert planned("svd", 1000, (2000, 2000)).memory == DEFAULT_MEMORY
