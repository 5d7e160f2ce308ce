"""Low-rank imputation equals fancyimpute's ``SoftImpute`` on the joint table, whose values are stored here.

fancyimpute 0.7 does not run with the scikit-learn of the tests, so its answers were made once; how stands in the file.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.tolerances import assert_close, digits_lost

from fedsvd.data.open import open_source
from fedsvd.prepare.rule import LowRank, Rule
from fedsvd.prepare.script import play_together, prepare
from fedsvd.randomness.seed import Seed

STORED = json.loads((Path(__file__).parent / "soft_impute.json").read_text())
TABLE = np.array(STORED["table"], dtype=float)


@pytest.mark.parametrize("case", STORED["cases"], ids=lambda case: f"penalty {case['penalty']}")
@pytest.mark.parametrize("cuts", [[8, 17], [3]], ids=["three parties", "two parties"])
def test_gaps_are_filled_as_fancyimpute_fills_them(case, cuts):
    rule = Rule(low_rank=LowRank(case["penalty"], rounds=200))
    scripts = [prepare(open_source(part), rule, Seed(bytes(32))) for part in np.split(TABLE, cuts)]
    found = np.vstack([each.table.rows(0, each.table.shape[0]) for each in play_together(scripts)])
    assert_close(found[np.isnan(TABLE)], np.array(case["filled"]), digits_lost(5))
