"""The studies on which the cost model is compared with what happens: all tasks, schemes and splits, k from 2 to 50."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedsvd.protocol.tasks import Item, Split, Task, Trust
from fedsvd.testing.federation import Federation


@dataclass(frozen=True)
class Shape:
    """A study on random data of full rank: samples x features, cut among k parties."""

    name: str
    task: Task
    split: Split
    samples: int
    features: int
    k: int
    asked: dict[str, Any]
    targets: int = 0

    def federation(self) -> Federation:
        """The parties of this study; the shorter side has very different sizes, so that V wants its correction."""
        rng = np.random.default_rng(self.samples + self.features)
        D = rng.standard_normal((self.samples, self.features))
        short = int(self.features < self.samples)
        D *= np.expand_dims(np.logspace(0, -3, D.shape[short]), 1 - short)
        vertical = self.split is Split.VERTICAL
        cut = [np.array(part) for part in np.array_split(D, self.k, axis=int(vertical))]
        asked = dict(self.asked)
        if self.task is Task.PREDICT:
            weights = [(rng.standard_normal((part.shape[1], self.targets)), np.zeros(self.targets)) for part in cut]
            return Federation(cut, self.task, self.split, weights=weights, targets=self.targets, label_user=1, **asked)
        if not self.targets:
            return Federation(cut, self.task, self.split, **asked)
        y = D @ rng.standard_normal((self.features, self.targets)) + rng.standard_normal((self.samples, self.targets))
        labels = [y, *[None] * (self.k - 1)] if vertical else np.array_split(y, self.k)
        return Federation(cut, self.task, self.split, labels=labels, **asked)


def shapes() -> Iterator[Shape]:
    """From the smallest that shows something to a few seconds each."""
    h, v = Split.HORIZONTAL, Split.VERTICAL
    scored = {"release": (Item.COEFFICIENTS, Item.INTERCEPT, Item.SCORE)}
    spectrum = {"release": (Item.COMPONENTS, Item.MEAN, Item.SPECTRUM, Item.OWN_PART)}
    yield Shape("svd, mode A", Task.SVD, v, 600, 24_000, 2, {})
    yield Shape("svd, mode A, few users more", Task.SVD, h, 20_000, 400, 5, {"trust": Trust.AUTHORITY})
    yield Shape("svd, tall", Task.SVD, v, 6_000, 800, 2, {})
    yield Shape("svd, wide, masks", Task.SVD, v, 200, 30_000, 3, {"scheme": "mask"})
    yield Shape("svd, wide, little memory", Task.SVD, v, 200, 30_000, 3, {"scheme": "mask", "memory": 1 << 26})
    yield Shape("svd, top 20, mode B", Task.SVD, v, 500, 12_000, 3, {"components": 20})
    yield Shape("svd, as in the paper", Task.SVD, v, 600, 3_000, 2, {"scheme": "paper"})
    yield Shape("svd, fifty users", Task.SVD, h, 12_000, 60, 50, {})
    yield Shape("lsa, top 50", Task.LSA, v, 1_500, 2_500, 4, {"components": 50, "scheme": "mask"})
    yield Shape("pca, mode B, with its spectrum", Task.PCA, h, 30_000, 500, 3, {"components": 10, **spectrum})
    yield Shape("pca, more features than samples", Task.PCA, h, 2_000, 6_000, 2, {"components": 10})
    yield Shape("pca, unit variance, ten users", Task.PCA, h, 30_000, 200, 10, {"components": 5, "unit_variance": True})
    yield Shape("pca, fifty users", Task.PCA, h, 10_000, 50, 50, {"components": 5})
    yield Shape("lr, split columns", Task.LR, v, 60_000, 80, 3, scored, 1)
    yield Shape("lr, split columns, ridge", Task.LR, v, 30_000, 200, 2, {"alpha": 1.0}, 2)
    yield Shape("lr, as in the paper", Task.LR, v, 20_000, 60, 2, {"scheme": "paper"}, 1)
    yield Shape("lr, split rows", Task.LR, h, 40_000, 200, 5, {}, 1)
    yield Shape("lr, split columns, fifty users", Task.LR, v, 10_000, 150, 50, {}, 1)
    yield Shape("predict", Task.PREDICT, v, 100_000, 60, 3, {}, 1)
