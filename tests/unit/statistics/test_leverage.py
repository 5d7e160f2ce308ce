"""Leverages equal the diagonal of the hat matrix, and a party's own bound those among all parties' rows."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tolerances import assert_close, digits_lost

from fedsvd.statistics.leverage import in_each_column, leverages


def of(X, height=7):
    return leverages(lambda: (X[start : start + height] for start in range(0, len(X), height)))


def hat(X):
    """By the definition, with NumPy's pseudo-inverse of the scaled matrix itself."""
    scale = np.where((lengths := np.linalg.norm(X, axis=0)) > 0, lengths, 1.0)
    return np.einsum("ij,ji->i", X / scale, np.linalg.pinv(X / scale, rcond=digits_lost(4)))


@pytest.mark.parametrize("height", [1, 7, 100])
def test_leverages_are_the_diagonal_of_the_hat_matrix(height):
    X = np.random.default_rng(1).normal(size=(60, 5)) * [1, 1e-6, 1e6, 3, 10]
    found = of(X, height)
    assert_close(found.values, hat(X), digits_lost(4), scale=1.0)
    assert_close(found.values.sum(), 5.0, digits_lost(4))


def test_columns_that_depend_on_each_other_count_once():
    X = np.random.default_rng(2).normal(size=(40, 4))
    double = np.column_stack([X, X[:, 0] + X[:, 1], np.zeros(40), 7 * X[:, 2]])
    assert_close(of(double).values, of(X).values, digits_lost(4), scale=1.0)


def test_a_column_that_one_record_has_is_found_and_named():
    X = np.random.default_rng(3).normal(size=(50, 4))
    X[:, 2] = 0.0
    X[17, 2] = 1e-9
    found = of(X)
    assert_close(found.largest, 1.0, digits_lost(3))
    assert int(np.argmax(found.values)) == 17
    assert found.column == 2


def test_rows_of_zeros_and_no_rows_at_all_have_none():
    assert of(np.zeros((5, 3))).largest == 0.0
    assert of(np.zeros((0, 3))).largest == 0.0


sizes = st.tuples(st.integers(1, 30), st.integers(0, 40), st.integers(1, 6))


@settings(max_examples=150, deadline=None)
@given(sizes, st.integers(0, 2**32 - 1), st.sampled_from(["normal", "heavy", "binary", "few"]))
def test_a_records_leverage_among_all_rows_is_at_most_its_own_partys(size, seed, kind):
    """The lemma (threat model): whatever the others bring, and whatever columns depend on each other."""
    own, others, columns = size
    rng = np.random.default_rng(seed)
    X = {
        "normal": lambda: rng.normal(size=(own + others, columns)),
        "heavy": lambda: rng.standard_cauchy(size=(own + others, columns)),
        "binary": lambda: rng.integers(0, 2, size=(own + others, columns)).astype(float),
        "few": lambda: (rng.random(size=(own + others, columns)) < 0.1).astype(float),
    }[kind]()
    joint, alone = hat(X)[:own], of(X[:own]).values
    assert (joint <= alone + digits_lost(7)).all()


def weighted(X, w, height=7):
    return in_each_column(lambda: ((X[i : i + height], w[i : i + height]) for i in range(0, len(X), height)))


def test_the_leverage_in_each_column_is_that_of_a_line_and_the_bound_is_of_all_columns():
    rng = np.random.default_rng(4)
    X, w = rng.normal(size=(60, 5)) * [1, 1e-6, 1e6, 3, 10] + [0, 1, 5, 300, 0], rng.uniform(1, 4, 60)
    alone, bound = weighted(X, w)
    root = np.sqrt(w)[:, None]
    lines = [hat(root * np.column_stack([np.ones(60), X[:, j]])).max() for j in range(5)]
    assert_close(alone, np.array(lines), digits_lost(7), scale=1.0)
    assert bound >= hat(root * np.column_stack([np.ones(60), X])).max()
    without, none = in_each_column(lambda: [(X, w)], together=False)
    assert none == 1.0
    assert_close(without, np.array(lines), digits_lost(7), scale=1.0)


def test_constant_columns_and_columns_that_depend_on_each_other_are_no_bound():
    X = np.random.default_rng(5).normal(size=(40, 3))
    alone, bound = weighted(np.column_stack([X, np.full(40, 7.1), X[:, 0] - X[:, 2]]), np.ones(40))
    assert alone[3] == 0.0
    assert bound == 1.0
    assert weighted(np.full((40, 1), 7.1), np.ones(40)) == (np.zeros(1), 1 / 40)


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 40), st.integers(1, 5), st.integers(0, 2**32 - 1), st.booleans())
def test_the_bound_is_at_least_every_leverage(rows, columns, seed, heavy):
    rng = np.random.default_rng(seed)
    X = rng.standard_cauchy(size=(rows, columns)) if heavy else rng.integers(0, 3, size=(rows, columns)).astype(float)
    _, bound = weighted(X, np.ones(rows))
    assert bound + digits_lost(7) >= hat(np.column_stack([np.ones(rows), X])).max()


def block(X, groups, group):
    """The largest part that a group's rows are of any direction, by SciPy's generalised eigenvalues."""
    B = X[groups == group]
    return scipy.linalg.eigh(B.T @ B, X.T @ X, eigvals_only=True)[-1]


@pytest.mark.parametrize("height", [1, 7, 100])
def test_the_leverage_of_a_person_is_that_of_all_its_rows_together(height):
    rng = np.random.default_rng(6)
    X, groups = rng.normal(size=(60, 4)), rng.integers(0, 12, 60)
    X[groups == 3] *= 3.0
    panels = [X[start : start + height] for start in range(0, 60, height)]
    found = leverages(lambda: panels, groups).values
    exact = np.array([block(X, groups, group) for group in groups])
    large = exact > 0.25
    assert large.any()
    assert_close(found[large], exact[large], digits_lost(5))
    assert (found + digits_lost(5) >= exact).all()
    assert found[groups == 3].max() == found.max()
    w = rng.uniform(1, 4, 60)
    root = np.sqrt(w)[:, None]
    pieces = [(X[start : start + height], w[start : start + height]) for start in range(0, 60, height)]
    alone, bound = in_each_column(lambda: pieces, groups=groups)
    lines = [root * np.column_stack((np.ones(60), X[:, j])) for j in range(4)]
    assert_close(alone, np.array([max(block(line, groups, g) for g in range(12)) for line in lines]), digits_lost(5))
    assert bound + digits_lost(5) >= max(block(root * np.column_stack((np.ones(60), X)), groups, g) for g in range(12))


@settings(max_examples=100, deadline=None)
@given(st.integers(8, 30), st.integers(0, 40), st.integers(0, 2**32 - 1))
def test_a_persons_leverage_among_all_rows_is_at_most_its_own_partys(own, others, seed):
    """The lemma for several rows."""
    rng = np.random.default_rng(seed)
    X, groups = rng.standard_cauchy(size=(own + others, 3)), np.minimum(np.arange(own + others) // 2, own // 2)
    alone = leverages(lambda: [X[:own]], groups[:own]).values
    scale = np.linalg.norm(X, axis=0)
    q = np.linalg.qr(X / scale)[0]
    joint = [np.linalg.norm(q[:own][groups[:own] == group], 2) ** 2 for group in groups[:own]]
    assert (np.array(joint) <= alone + digits_lost(7)).all()
