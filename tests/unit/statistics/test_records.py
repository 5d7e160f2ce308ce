"""The part of a person in what a party sends of a model: that of all its rows together."""

import numpy as np
import pytest
from tests.tolerances import RESULT_BAR, assert_close

from fedsvd.statistics.cox import Cohort
from fedsvd.statistics.hazard_bins import BinRecords
from fedsvd.statistics.negative_binomial import CountRecords
from fedsvd.statistics.newton_requests import Point
from fedsvd.statistics.ordinal import OrdinalRecords
from fedsvd.statistics.records import largest_share

rng = np.random.default_rng(0)
ROWS, PERSON = 60, np.repeat(np.arange(12), 5)
X = rng.normal(size=(ROWS, 2))
CLASSES, COUNTS = rng.integers(0, 3, ROWS).astype(float), rng.poisson(3.0, ROWS).astype(float)
TIME, EVENT, EDGES = rng.exponential(2.0, ROWS), rng.integers(0, 2, ROWS).astype(float), np.array([1.0, 2.0, 4.0])

MODELS = {
    "ordinal": (lambda rows: OrdinalRecords(X[rows], CLASSES[rows], 3, "logit"), [0.3, -0.2, -0.7, 0.6]),
    "counts": (lambda rows: CountRecords(X[rows], COUNTS[rows], True), [1.0, 0.2, -0.1, 0.5]),
    "bins": (lambda rows: BinRecords(X[rows], TIME[rows], EVENT[rows], EDGES, "cloglog"), [0.2, 0.1, -1.0, -1.0, -1.0]),
}


def found(records, at, of_person):
    """The largest part, and the information that it is of."""
    records.of_person = of_person
    information = records.part(at).information[records.tested, records.tested]
    return largest_share(records, at, information, np.ones(len(information))), information


@pytest.mark.parametrize("name", MODELS)
def test_the_part_of_a_person_is_that_of_its_rows_alone(name):
    model, beta = MODELS[name]
    at = Point(np.array(beta), np.zeros(2), information=True, expected=True)
    largest, whole = found(model(slice(None)), at, PERSON)
    root = np.linalg.inv(np.linalg.cholesky(whole)).T
    alone = [found(model(person == PERSON), at, None)[1] for person in range(12)]
    parts = [np.linalg.eigvalsh(root.T @ part @ root)[-1] for part in alone]
    assert largest >= max(parts) * (1.0 - RESULT_BAR), "or a bound of it up to a half"
    one = np.where(PERSON < 9, 0, PERSON)  # who has most rows
    block = np.sum(alone[:9], axis=0)
    assert_close(found(model(slice(None)), at, one)[0], np.linalg.eigvalsh(root.T @ block @ root)[-1], RESULT_BAR)


def test_rows_of_a_person_in_several_strata_are_one_part_of_a_cox_model():
    strata, at = rng.integers(0, 3, ROWS).astype(float), Point(np.array([0.3, -0.2]), np.zeros(2), information=True)
    cohort = Cohort(X, TIME, EVENT, strata=strata)
    by_rows, _ = found(cohort, at, None)
    assert found(cohort, at, np.arange(ROWS))[0] == by_rows
    assert_close(found(cohort, at, np.zeros(ROWS, np.intp))[0], 1.0, RESULT_BAR)
    halves = [found(cohort, at, np.where(half, 0, np.arange(ROWS)))[0] for half in (strata == 0, strata != 0)]
    assert min(halves) > 2 * by_rows
