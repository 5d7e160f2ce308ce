"""Steps of several parties in one place: the sums that a study makes under pads, as plain sums."""

import numpy as np

from fedsvd.prepare import categories, level_sketch
from fedsvd.prepare.missing import Totals, totals


def joint_totals(tables):
    """The sum of all parties' totals."""
    return summed([totals(table) for table in tables])


def summed(parts):
    """The sum of several parties' totals."""
    return Totals.of_vector(np.sum([part.vector() for part in parts], axis=0), len(parts[0].totals))


def joint_levels(parts, key, minimum=1, sites=2):
    """The levels that parties agree on, from those that each has."""
    every = level_sketch.read(np.sum([categories.sketch(part, key) for part in parts], axis=0), categories.MOST_LEVELS)
    agreed = categories.agree(parts[0].name, every, minimum, sites)
    texts = np.sum([categories.texts_to_add(part, key, agreed) for part in parts], axis=0)
    return categories.named(agreed, key, texts)
