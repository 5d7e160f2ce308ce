"""The digest of a table that is to be prepared: every number, gap, text and name of it counts, and nothing else."""

import hashlib
import json

import numpy as np
import pandas as pd
import pytest

from fedsvd.data.open import open_source
from fedsvd.prepare.derived import Committed, table_digest

TABLE = pd.DataFrame({"dose": [1.5, np.nan, 3.0], "ward": ["a", None, "ü"], "age": [4.0, 5.0, 6.0]})


def expected(table, text):
    names = list(table.columns)
    content = json.dumps([names, list(table.shape)], separators=(",", ":")).encode()
    content += table.drop(columns=text).to_numpy(float).tobytes()
    for entry in table[text]:
        content += b"\xff" * 8 if entry is None else len(entry.encode()).to_bytes(8, "little") + entry.encode()
    return hashlib.sha256(content).digest()


@pytest.mark.parametrize("cells", [1 << 20, 2], ids=["one panel", "many panels"])
def test_it_is_what_the_reference_says(monkeypatch, cells):
    monkeypatch.setattr("fedsvd.prepare.derived.PANEL_CELLS", cells)
    assert table_digest(open_source(TABLE)) == expected(TABLE, "ward")
    assert Committed(open_source(TABLE)).content_digest() == expected(TABLE, "ward")


@pytest.mark.parametrize(
    "other",
    [
        TABLE.assign(dose=[1.5, 0.0, 3.0]),
        TABLE.assign(dose=[1.5, np.nan, np.nextafter(3.0, 4.0)]),
        TABLE.assign(ward=["a", "", "ü"]),
        TABLE.assign(ward=["a", "ü", None]),
        TABLE.rename(columns={"age": "years"}),
        TABLE[["age", "ward", "dose"]],
        TABLE[::-1],
        TABLE[:2],
    ],
    ids=["a gap filled", "a last digit", "an empty text", "texts moved", "a name", "an order", "rows", "a row less"],
)
def test_another_table_has_another_digest(other):
    assert table_digest(open_source(other.reset_index(drop=True))) != table_digest(open_source(TABLE))
