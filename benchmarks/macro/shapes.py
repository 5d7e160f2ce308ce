"""The studies on which estimates are compared with what happens: all tasks and schemes, both splits, small and large.

Numbers are random and of full rank; a ``condition`` above 1 spreads the singular values evenly over so many decades.
Genotypes are counts of 0, 1 and 2 in bytes; ratings are sparse.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse

from fedsvd.data.open import open_source
from fedsvd.prepare.rule import Rule
from fedsvd.protocol.model import ModelPlan
from fedsvd.protocol.tasks import Align, Family, Item, Split, Task
from fedsvd.studies.parties import PartyData
from fedsvd.studies.study import Study
from fedsvd.types import Float

H, V = Split.HORIZONTAL, Split.VERTICAL
_DENSITY = 0.01
_SHARED = 0.8  # of the ids of a party, how many another has as well, at most


def normal(rng: np.random.Generator, samples: int, features: int) -> Any:
    """Standard normal entries."""
    return rng.standard_normal((samples, features))


def genotypes(rng: np.random.Generator, samples: int, features: int) -> Any:
    """Counts of an allele, a byte each."""
    return rng.binomial(2, 0.3, size=(samples, features)).astype(np.int8)


def ratings(rng: np.random.Generator, samples: int, features: int) -> Any:
    """Few entries that are not zero."""
    return scipy.sparse.random_array((samples, features), density=_DENSITY, rng=rng, format="csc")


def factors(rng: np.random.Generator, samples: int, features: int) -> Any:
    """Twelve factors above noise: a spectrum that falls, as the top by steps is asked for."""
    strong = rng.standard_normal((samples, 12)) * np.linspace(6.0, 2.0, 12)
    return strong @ rng.standard_normal((12, features)) + rng.standard_normal((samples, features))


def sparse_factors(rng: np.random.Generator, samples: int, features: int) -> Any:
    """Few entries that are not zero, of records and features that differ in how many they have."""
    drawn = ratings(rng, samples, features)
    rows, columns = (np.exp(rng.standard_normal(count)) for count in (samples, features))
    return scipy.sparse.diags_array(rows) @ drawn @ scipy.sparse.diags_array(columns)


@dataclass(frozen=True)
class Shape:
    """A study on drawn data: samples x features, cut among k parties."""

    name: str
    study: Study
    samples: int
    features: int
    k: int = 3
    condition: float = 1.0
    draw: Callable[[np.random.Generator, int, int], Any] = field(default=normal)

    def scaled(self, by: float) -> "Shape":
        """The same with both sides longer or shorter."""
        return replace(self, samples=round(self.samples * by), features=round(self.features * by))

    def parties(self) -> list[PartyData]:
        """What every party brings; ids instead of a table where records are matched."""
        rng = np.random.default_rng(self.samples + self.features)
        if self.study.task is Task.MATCH:
            return [self._records(rng) for _ in range(self.k)]
        D = self._table(rng)
        rows_split = self.study.split is H
        ends = np.linspace(0, self.samples if rows_split else self.features, self.k + 1).astype(int)
        cuts = [slice(start, stop) for start, stop in pairwise(ends.tolist())]
        tables = [D[cut] if rows_split else D[:, cut] for cut in cuts]
        labels: list[Any] = [None] * self.k
        if self.study.targets and self.study.task is not Task.PREDICT:
            y = self._labels(rng, D)
            labels = [y[cut] for cut in cuts] if rows_split else [y, *labels[1:]]
        if self.study.task is Task.PREDICT:
            return [
                PartyData(open_source(np.ascontiguousarray(X)), weights=(np.ones((X.shape[1], 1)), np.zeros(1)))
                for X in tables
            ]
        return [
            PartyData(open_source(X if scipy.sparse.issparse(X) else np.ascontiguousarray(X)), own)
            for X, own in zip(tables, labels, strict=True)
        ]

    def _table(self, rng: np.random.Generator) -> Any:
        D = self.draw(rng, self.samples, self.features)
        if self.condition == 1.0:
            return D
        short = int(self.features < self.samples)
        n = D.shape[short]
        scales, Q = np.geomspace(1.0, 1.0 / self.condition, n), np.linalg.qr(rng.standard_normal((n, n)))[0]
        return (D * scales) @ Q.T if short else Q @ (scales[:, None] * D)

    def _labels(self, rng: np.random.Generator, D: Any) -> Float:
        linear = D[:, :5].sum(axis=1, keepdims=True) / 5
        if self.study.glm is None:
            return np.asarray(linear + rng.standard_normal((self.samples, 1)), dtype=np.float64)
        return (rng.random((self.samples, 1)) < 1.0 / (1.0 + np.exp(-linear))).astype(np.float64)

    def _records(self, rng: np.random.Generator) -> PartyData:
        chosen = rng.permutation(int(self.samples / _SHARED))[: self.samples]
        return PartyData(open_source(np.zeros((self.samples, 1))), ids=np.array([f"p{n:08d}" for n in chosen]))


def by_steps() -> tuple[Shape, ...]:
    """The family `steps`: rows and columns, dense and sparse, scaled, with labels, of few and of many parties."""
    release = (Item.COMPONENTS, Item.SPECTRUM, Item.MEAN, Item.OWN_PART)
    pca = Study(Task.PCA, components=5, scheme="steps", release=release)
    svd = Study(Task.SVD, components=5, scheme="steps")
    lsa = Study(Task.LSA, components=10, scheme="steps")
    pcr = Study(Task.PCR, components=5, scheme="steps", targets=1)
    return (
        Shape("steps, pca, long", pca, 20_000, 1_000, 2, draw=factors),
        Shape("steps, pca, wide", replace(pca, components=10), 6_000, 4_000, draw=factors),
        Shape("steps, pca, scaled", replace(pca, unit_variance=True), 8_000, 1_500, draw=factors),
        Shape("steps, pca, few records", pca, 600, 20_000, draw=factors),
        Shape("steps, pca, genotypes", replace(pca, components=2), 1_500, 10_000, draw=genotypes),
        Shape("steps, svd, twenty users", svd, 10_000, 800, 20, draw=factors),
        Shape("steps, svd, columns split", replace(svd, split=V), 4_000, 3_000, draw=factors),
        Shape("steps, lsa, sparse rows", lsa, 20_000, 6_000, draw=sparse_factors),
        Shape("steps, lsa, sparse columns", replace(lsa, split=V), 6_000, 4_000, draw=sparse_factors),
        Shape("steps, pcr", pcr, 10_000, 2_000, draw=factors),
    )


def unseen() -> tuple[Shape, ...]:
    """Ten shapes that no rate was fitted to, of all families and of few and many parties."""
    release = (Item.COMPONENTS, Item.SPECTRUM, Item.MEAN, Item.OWN_PART)
    pca = Study(Task.PCA, components=3, scheme="steps", release=release)
    gram = Study(Task.PCA, components=8, scheme="sum")
    logistic = Study(Task.GLM, targets=1, glm=ModelPlan(Family.BINOMIAL, "logit"))
    share = replace(pca, components=None, components_by="0.5")
    return (
        Shape("new, pca by steps", pca, 15_000, 2_500, 4, draw=factors),
        Shape("new, pca by steps, a share", share, 9_000, 700, 2, draw=factors),
        Shape(
            "new, svd by steps, columns",
            Study(Task.SVD, V, components=4, scheme="steps"),
            3_500,
            5_000,
            2,
            draw=factors,
        ),
        Shape(
            "new, lsa by steps, sparse",
            Study(Task.LSA, components=20, scheme="steps"),
            15_000,
            9_000,
            3,
            draw=sparse_factors,
        ),
        Shape("new, svd by gram", Study(Task.SVD), 90_000, 350, 4),
        Shape("new, pca by gram", gram, 15_000, 1_100, 2),
        Shape("new, pca, thirty parties", gram, 30_000, 240, 30),
        Shape("new, regression", Study(Task.LR, targets=1), 60_000, 500, 5),
        Shape("new, regression, columns", Study(Task.LR, V, targets=1, label_user=1), 50_000, 150, 3),
        Shape("new, logistic", logistic, 150_000, 40, 2),
    )


def shapes() -> tuple[Shape, ...]:
    """From a fraction of a second to some seconds each, on two cores."""
    svd, pca = Study(Task.SVD), Study(Task.PCA, components=10)
    columns = Study(Task.SVD, V)
    regression = Study(Task.LR, targets=1)
    inference = replace(regression, release=(Item.COEFFICIENTS, Item.INTERCEPT, Item.INFERENCE))
    split = Study(Task.LR, V, targets=1, label_user=1)
    logistic = Study(Task.GLM, targets=1, glm=ModelPlan(Family.BINOMIAL, "logit"))
    return (
        Shape("svd, small", svd, 2_000, 50),
        Shape("svd, square", svd, 1_000, 1_000),
        Shape("svd, long", svd, 60_000, 600, 2),
        Shape("svd, long, condition 1e8", svd, 60_000, 600, 2, 1e8),
        Shape("svd, columns split, wide", columns, 500, 40_000),
        Shape("svd, columns split, tall", columns, 8_000, 800, 2),
        Shape("svd, columns split, tall, condition 1e8", columns, 8_000, 800, 2, 1e8),
        Shape("svd, columns split, scratch", replace(columns, memory=64 << 20), 30_000, 400, 2),
        Shape("svd, top 20", replace(svd, components=20), 2_400, 1_200),
        Shape("svd, fifty users", svd, 20_000, 100, 50),
        Shape("pca, long", pca, 200_000, 200),
        Shape("pca, genotypes", pca, 1_500, 50_000, draw=genotypes),
        Shape("pca, genotypes, scratch", replace(pca, memory=96 << 20), 600, 20_000, draw=genotypes),
        Shape("lsa, sparse", Study(Task.LSA, V, components=50), 1_200, 4_000, draw=ratings),
        *by_steps(),
        Shape("lr, rows split", regression, 200_000, 200),
        Shape("lr, rows split, inference", inference, 200_000, 100),
        Shape("lr, columns split", split, 80_000, 200, 2),
        Shape("lr, columns split, scratch", replace(split, memory=64 << 20), 100_000, 100, 2),
        Shape("glm, logistic", logistic, 100_000, 50),
        Shape("matching, server", Study(Task.MATCH, V, align=Align.SERVER, least_overlap=10), 200_000, 1),
        Shape("matching, points", Study(Task.MATCH, V, align=Align.ECDH, least_overlap=10), 10_000, 1),
        Shape("preparation", Study(Task.PREPARE, rule=Rule(mean=True)), 100_000, 100),
        Shape("predictions", Study(Task.PREDICT, V, targets=1, label_user=1), 200_000, 60),
    )
