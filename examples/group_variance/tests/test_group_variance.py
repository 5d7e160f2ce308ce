"""The script on one table, without any federation: its totals are its own, so every sum is answered as it is."""

import numpy as np
from group_variance import script


def played(options, columns):
    """What a script returns where this table is the only one."""
    playing, answer = script(options, columns), None
    while True:
        try:
            _, answer = playing.send(answer)
        except StopIteration as end:
            return end.value


def test_variances_are_numpys_within_each_group():
    rng = np.random.default_rng(0)
    g, x = rng.integers(0, 3, 200), rng.normal(5.0, 2.0, (200, 2))
    options = {"group": "g", "groups": 3, "weights": "", "ddof": 1}
    found = played(options, {"a": x[:, 0], "g": g.astype(float), "b": x[:, 1]})
    assert np.allclose(found["variance"], [x[g == j].var(0, ddof=1) for j in range(3)])
    assert found["records"].tolist() == [int(np.sum(g == j)) for j in range(3)]


def test_whole_weights_are_records_that_occur_as_often():
    rng = np.random.default_rng(1)
    g, x, w = rng.integers(0, 2, 50), rng.normal(size=50), rng.integers(1, 5, 50)
    options = {"group": "g", "groups": 2, "weights": "w", "ddof": 0}
    found = played(options, {"g": g.astype(float), "w": w.astype(float), "x": x})
    repeated = [np.repeat(x[g == j], w[g == j]) for j in range(2)]
    assert np.allclose(found["variance"][:, 0], [np.var(values) for values in repeated])


def test_a_group_without_records_has_no_variance():
    options = {"group": "g", "groups": 2, "weights": "", "ddof": 1}
    found = played(options, {"g": np.zeros(3), "x": np.arange(3.0)})
    assert np.isnan(found["variance"][1, 0])
    assert found["variance"][0, 0] == 1.0
