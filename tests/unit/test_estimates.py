"""The benchmark of estimates has many shapes of every task, and names what is off."""

import numpy as np
import pytest
from benchmarks import estimates
from benchmarks.macro.shapes import by_steps, shapes, unseen
from tests.tolerances import A_TENTH

from fedsvd.cost.estimate import predict
from fedsvd.cost.rates import Rates
from fedsvd.data.open import open_source
from fedsvd.data.sparse import share_stored
from fedsvd.policy.rules import Policy
from fedsvd.protocol.tasks import Task
from fedsvd.randomness.seed import Seed
from fedsvd.studies.run import plan_for, run_study

RIGHT = estimates.Compared("svd", 9, 9, (7, 7), (3.0, 2.5), (4.0, 3.0), {"csp": (100 << 20, 110 << 20)})


def test_there_are_fifteen_shapes_and_all_tasks_among_them():
    assert len(shapes()) >= 15
    assert {Task.SVD, Task.PCA, Task.LSA, Task.LR, Task.GLM} <= {shape.study.task for shape in shapes()}
    assert len({shape.name for shape in shapes()}) == len(shapes())


@pytest.mark.parametrize("name", ["svd, long", "svd, columns split, tall", "pca, long", "lr, columns split"])
def test_bytes_of_a_shape_are_those_that_were_expected(name):
    shape = next(shape for shape in shapes() if shape.name == name)
    small = shape.scaled(0.06)
    parties = small.parties()
    expected = predict(plan_for(small.study, parties, Seed(bytes(32)))[0].plan, Rates())
    assert run_study(small.study, parties, policy=Policy.permissive()).certificate.bytes_total == expected.bytes_total


@pytest.mark.parametrize("shape", unseen(), ids=lambda shape: shape.name)
def test_bytes_of_ten_shapes_that_nothing_was_fitted_to_are_those_that_were_expected(shape):
    """Given what the data decides: how many steps a search takes, and how many iterations a model."""
    small = shape.scaled(0.2 if shape.study.components_by else 0.06)  # a share takes records
    outcome = run_study(small.study, small.parties(), policy=Policy.permissive())
    expected = predict(outcome.plan, Rates(), **estimates.decided(outcome))
    assert outcome.certificate.bytes_total == expected.bytes_total


def test_a_sparse_table_takes_less_than_a_dense_one_as_far_as_it_is_known_to_be():
    shape = next(shape for shape in unseen() if "sparse" in shape.name).scaled(0.06)
    parties = shape.parties()
    plan = plan_for(shape.study, parties, Seed(bytes(32)))[0].plan
    stored = tuple(share_stored(party.table) for party in parties)
    assert all(0 < share < A_TENTH for share in stored)
    sparse, dense = predict(plan, Rates(), stored=stored), predict(plan, Rates())
    assert sparse.seconds_on_one_machine < dense.seconds_on_one_machine
    assert sparse.bytes_total == dense.bytes_total
    assert share_stored(open_source(np.eye(3))) == 1.0


@pytest.mark.parametrize("shape", by_steps(), ids=lambda shape: shape.name)
def test_bytes_of_a_search_by_steps_are_those_of_the_passes_it_took(shape):
    small = shape.scaled(0.05)
    parties = small.parties()
    outcome = run_study(small.study, parties, policy=Policy.permissive())
    passes = outcome.parties[0].checked.order.passes
    assert outcome.certificate.bytes_total == predict(outcome.plan, Rates(), passes=passes).bytes_total


def test_what_is_off_is_named():
    assert RIGHT.faults == []
    off = estimates.Compared("svd", 9, 9, (7, 8), (3.0, 1.0), (4.0, 3.0), {"csp": (100 << 20, 200 << 20)})
    assert off.faults == ["bytes", "time, even busy", "memory of csp"]


def test_what_is_shorter_than_half_a_second_counts_as_half_a_second():
    assert estimates.Compared("svd", 9, 9, (7, 7), (0.4, 0.01), (4.0, 3.0)).faults == []
