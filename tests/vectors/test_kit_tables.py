"""Tables that come with R's packages are those that R was given when its answers were recorded (``tests/kit.py``)."""

import numpy as np
import pytest
from tests.kit import kit
from tests.tolerances import RESULT_BAR

# Rows of each site, and the sum of all entries times the number of their column.
RECORDED = {
    "lung": ([123, 61, 21, 8], 124377.0),
    "colon": ([533, 266, 89], 1753333.0),
    "pbc": ([250, 124, 42], 884699.84396),
    "veteran": ([82, 41, 14], 91706.0),
    "pbcseq": ([1137, 604, 204], 1636186.209851),
    "sleepstudy": ([90, 50, 40], 61721.4205),
    "orthodont": ([56, 28, 24], 12070.5),
    "housing": ([43, 21, 8], 15941.0),
    "quine": ([87, 44, 15], 19631.0),
    "birthwt": ([113, 56, 20], 3980941.0),
}


@pytest.mark.parametrize("name", RECORDED)
def test_a_table_has_the_rows_sites_and_entries_that_r_had(name):
    table, (rows, total) = kit(name), RECORDED[name]
    assert table.groupby("site").size().tolist() == rows
    found = float(table.to_numpy(float).sum(axis=0) @ np.arange(1, table.shape[1] + 1))
    assert abs(found / total - 1.0) < RESULT_BAR
