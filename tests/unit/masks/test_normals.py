"""Normals of a stream are the same numbers where they are computed with, and so are the masks that are made of them."""

import numpy as np
import pytest
from tests import tolerances
from tests.explicit import seed

from fedsvd.masks import orthogonal as drawn
from fedsvd.masks.orthogonal import DeviceNormals, normals_on, orthogonal
from fedsvd.randomness.keystream import Keystream, ThreadedNormals


def test_in_memory_they_are_made_by_threads():
    assert isinstance(normals_on(seed(1), map, None), ThreadedNormals)


@pytest.mark.parametrize("together", [1 << 25, 100])
def test_on_a_device_they_are_the_stream_s_call_after_call(foreign, together, monkeypatch):
    monkeypatch.setattr(drawn, "TOGETHER", together)
    there = normals_on(seed(1), map, foreign.array([0.0]))
    expected = Keystream(seed(1)).normal(1000)
    found = [foreign.numpy(there.normal(shape)) for shape in (7, (13, 11), (1000 - 150,))]
    assert [each.shape for each in found] == [(7,), (13, 11), (850,)]
    np.testing.assert_allclose(
        np.concatenate([each.ravel() for each in found]), expected, rtol=0, atol=64 * tolerances.EPS
    )
    assert repr(there) == "DeviceNormals(next=1000)"


@pytest.mark.parametrize(("n", "columns"), [(1, 3), (5, 3), (40, 1101), (1100, 3)])
def test_an_orthogonal_matrix_drawn_there_is_the_one_drawn_here(foreign, n, columns):
    on = foreign.array([0.0])
    here = orthogonal(n, ThreadedNormals(seed(n), None))
    there = orthogonal(n, DeviceNormals(seed(n), None, on), on)
    X = np.random.default_rng(n).normal(size=(n, columns))
    for way in ("left", "left_t"):
        found = foreign.numpy(getattr(there, way)(foreign.array(X)))
        np.testing.assert_allclose(found, getattr(here, way)(X), rtol=0, atol=tolerances.product(n, 16))
    np.testing.assert_array_equal(foreign.numpy(foreign.array(X)), X)
