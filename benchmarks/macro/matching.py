"""Record matching of three parties through whole sessions in one process: seconds, processor seconds, bytes.

    python -m benchmarks.macro.matching                     3 x 1,000,000 ids by the server, 3 x 100,000 by points
    python -m benchmarks.macro.matching 100000 10000        smaller: ids of each party for ``server`` and for ``ecdh``

From tables with an id column to positions: ids are read, normalised, hashed, matched and checked, all roles included.
Two numbers of a run are compared with Python sets before it is printed. Written to benchmarks/results/matching.json.
"""

import json
import os
import resource
import sys
from collections.abc import Iterator
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.measure import RESULTS, Row, fingerprint
from fedsvd.data.open import open_source
from fedsvd.policy.rules import Policy
from fedsvd.prepare.identifiers import RecordIds, identified
from fedsvd.protocol.tasks import Align, Split, Task
from fedsvd.studies.matching import match
from fedsvd.studies.parties import PartyData
from fedsvd.studies.study import Study

PARTIES, SHARED = 3, 0.8
SIZES = {Align.SERVER: 1_000_000, Align.ECDH: 100_000}
_IDS = RecordIds(("patient",))


def processor_seconds() -> float:
    """Of this process and of those that it has started and waited for."""
    spent = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in spent)


def tables(size: int) -> list[pd.DataFrame]:
    """One table for each party; about half of the ids are common, spelt differently."""
    rng = np.random.default_rng(1)
    spellings = ("P{:08d}", " p{:08d}", "P{:08d} ")
    return [
        pd.DataFrame(
            {"patient": [how.format(n) for n in rng.permutation(int(size / SHARED))[:size]], "x": rng.normal(size=size)}
        )
        for how in spellings[:PARTIES]
    ]


def measured(align: Align, size: int) -> dict[str, Any]:
    """One matching, its answer compared with Python sets."""
    given = tables(size)
    began, busy = perf_counter(), processor_seconds()
    parties = []
    for table in given:
        found = identified(open_source(table), _IDS).table
        parties.append(PartyData(found, ids=found.column(_IDS.name)))
    study = Study(Task.MATCH, Split.VERTICAL, align=align, id_rule=_IDS.text(), least_overlap=10)
    matched = match(study, parties, policy=Policy.permissive())
    seconds, spent = perf_counter() - began, processor_seconds() - busy
    expected = set.intersection(*({text.strip().lower() for text in table["patient"]} for table in given))
    orders = [np.asarray(party.ids).tolist() for party in matched.parties]
    assert set(orders[0]) == expected
    assert all(order == orders[0] for order in orders)
    return {
        "align": str(align),
        "parties": PARTIES,
        "ids": size,
        "common": len(expected),
        "seconds": seconds,
        "cpu_seconds": spent,
        "bytes": matched.outcome.certificate.bytes_total,
        "load": os.getloadavg()[0],
    }


def rows() -> Iterator[Row]:
    """Seconds of both ways of matching; there is no rival in one place that learns as little."""
    for align, size in SIZES.items():
        found = measured(align, size)
        name, each = f"matching {PARTIES} x {size:,} ids, {align}", 1e6 * found["seconds"] / (PARTIES * size)
        yield Row(name, found["seconds"], found["cpu_seconds"], "CPU time", "for orientation", each, True)


def main(words: list[str]) -> int:
    """Measure, print, write."""
    sizes = dict(SIZES)
    sizes.update(zip(SIZES, map(int, words), strict=False))
    rows = []
    for align, size in sizes.items():
        row = measured(align, size)
        rows.append(row)
        print(
            f"{align}: {PARTIES} x {size:,} ids, {row['common']:,} common: {row['seconds']:.1f} s, "
            f"{row['cpu_seconds']:.1f} s of processors, {row['bytes'] / 1e6:.0f} MB, load {row['load']:.1f}"
        )
    (RESULTS / "matching.json").write_text(json.dumps({"rows": rows, "machine": fingerprint()}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
