"""Every source is the same matrix: the plain NumPy array decides what is right."""

import hashlib

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from fedsvd.errors import ConfigError, ShapeError
from fedsvd.types import Float

M, N = 11, 5


@pytest.fixture
def X() -> Float:
    rng = np.random.default_rng(7)
    X = rng.normal(size=(M, N)) * 10.0 ** rng.integers(-200, 200, size=(M, N))
    X[rng.random((M, N)) < 0.4] = 0.0
    return X


class TestEverySource:
    def test_shape_and_number_of_names_are_those_of_the_matrix(self, build, X):
        source = build(X)
        assert source.shape == (M, N)
        assert source.names is None or len(source.names) == N

    def test_rows_are_the_rows_of_the_matrix(self, build, X):
        source = build(X)
        for start, stop in ((0, M), (0, 1), (3, 9), (M - 1, M), (4, 4)):
            assert_array_equal(source.rows(start, stop), X[start:stop], strict=True)

    def test_columns_are_the_columns_of_the_matrix(self, build, X):
        source = build(X)
        for start, stop in ((0, N), (0, 1), (1, 4), (N - 1, N), (2, 2)):
            assert_array_equal(source.columns(start, stop), X[:, start:stop], strict=True)

    @pytest.mark.parametrize("axis", [0, 1])
    def test_panels_side_by_side_are_the_matrix(self, build, X, axis):
        source, length = build(X), X.shape[axis]
        for width in (1, 2, 3, N, M, 100):
            panels = list(source.panels(axis, width))
            widths = [min(width, length - start) for start in range(0, length, width)]
            assert [panel.shape[axis] for panel in panels] == widths
            assert_array_equal(np.concatenate(panels, axis), X, strict=True)

    def test_two_passes_side_by_side_do_not_disturb_each_other(self, build, X):
        source = build(X)
        for whole, half in zip(source.panels(0, 2), source.panels(0, 2), strict=True):
            assert_array_equal(whole, half)
        assert_array_equal(np.vstack(list(source.panels(0, 4))), X)
        assert_array_equal(source.rows(5, 8), X[5:8])
        assert_array_equal(source.rows(2, 4), X[2:4])

    def test_the_transposed_source_is_the_transposed_matrix(self, build, X):
        source = build(X)
        Xt = source.T
        assert Xt.shape == (N, M)
        assert Xt.names is None
        assert_array_equal(Xt.rows(1, 4), X.T[1:4], strict=True)
        assert_array_equal(Xt.columns(2, 9), X.T[:, 2:9], strict=True)
        assert_array_equal(np.hstack(list(Xt.panels(1, 4))), X.T, strict=True)
        assert_array_equal(np.vstack(list(Xt.panels(0, 3))), X.T, strict=True)
        assert_array_equal(Xt.T.rows(0, M), X, strict=True)

    def test_the_fingerprint_is_the_stated_hash_of_shape_and_content(self, build, X):
        head = b"fedsvd/matrix/1\x00" + M.to_bytes(8, "little") + N.to_bytes(8, "little")
        expected = hashlib.sha256(head + (X + 0.0).astype("<f8").tobytes("C")).hexdigest()
        assert build(X).fingerprint() == expected

    def test_the_fingerprint_of_a_wide_matrix_goes_column_after_column(self, build, X):
        W = X[:3]
        head = b"fedsvd/matrix/1\x00" + (3).to_bytes(8, "little") + N.to_bytes(8, "little")
        expected = hashlib.sha256(head + (W + 0.0).astype("<f8").tobytes("F")).hexdigest()
        assert build(W).fingerprint() == expected

    def test_the_fingerprint_does_not_depend_on_the_panels_it_is_made_in(self, build, X, monkeypatch):
        source = build(X)
        before = source.fingerprint()
        monkeypatch.setattr("fedsvd.data.source.FINGERPRINT_BYTES", 8 * N * 3)
        assert source.fingerprint() == before

    def test_panels_cannot_be_written_to(self, build, X):
        source = build(X)
        for panel in (source.rows(0, 3), source.columns(0, 2), source.T.rows(0, 2)):
            with pytest.raises(ValueError, match="read-only"):
                panel[0, 0] = 1.0
        assert_array_equal(source.rows(0, M), X)

    def test_rows_in_another_order_are_those_rows(self, build, X):
        order = np.random.default_rng(3).permutation(M)
        shuffled = build(X).reordered(order)
        assert_array_equal(shuffled.rows(2, 9), X[order][2:9], strict=True)
        assert_array_equal(shuffled.columns(1, 4), X[order][:, 1:4], strict=True)
        assert_array_equal(shuffled.reordered([4, 4, 0]).rows(0, 3), X[order][[4, 4, 0]], strict=True)
        assert_array_equal(shuffled.T.rows(0, 2), X[order].T[:2], strict=True)

    def test_named_columns_can_be_left_out_and_still_be_read(self, build, X):
        source = build(X)
        if source.names is None:
            with pytest.raises(ConfigError, match="no column names"):
                source.without(["age"])
            return
        second, last = source.names[1], source.names[-1]
        rest = source.without([second, last])
        kept = [0, 2, 3]
        assert rest.names == tuple(source.names[j] for j in kept)
        assert_array_equal(rest.rows(1, 7), X[1:7, kept], strict=True)
        assert_array_equal(rest.columns(1, 3), X[:, kept][:, 1:3], strict=True)
        assert_array_equal(rest.column(second), X[:, 1], strict=True)
        assert_array_equal(rest.reordered([5, 1]).column(last), X[[5, 1], -1], strict=True)
        assert source.without([]) is source

    def test_rows_and_columns_beyond_the_matrix_are_refused(self, build, X):
        source = build(X)
        for read, length in ((source.rows, M), (source.columns, N)):
            for start, stop in ((-1, 2), (3, 2), (0, length + 1)):
                with pytest.raises(ShapeError):
                    read(start, stop)

    def test_panels_of_no_width_or_on_a_third_axis_are_refused(self, build, X):
        source = build(X)
        for axis, width in ((0, 0), (1, -1), (2, 1)):
            with pytest.raises(ConfigError):
                source.panels(axis, width)

    def test_the_representation_shows_the_shape_and_no_entry(self, build, X):
        source = build(X)
        assert repr(source) == f"{type(source).__name__}(shape=({M}, {N}))"
