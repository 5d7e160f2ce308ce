"""What earlier studies of a party's records forbid or ask; and the digest by which a table that changed is found."""

from dataclasses import replace

import numpy as np
import pytest

from fedsvd.data.open import open_source
from fedsvd.policy.earlier_rules import Asked, OwnRows, record_findings
from fedsvd.policy.rules import Policy
from fedsvd.policy.source_digest import Reading, source_digest
from fedsvd.randomness.seed import Seed
from fedsvd.studies.parties import PartyData

FIRST = Asked("aa", frozenset("ABC"))
ZERO, MEAN = replace(FIRST, filled={"age": "0.0"}), replace(FIRST, filled={"age": "mean 0"})
SPLIT = replace(FIRST, columns=tuple("pqrstuvwxyz"))


@pytest.mark.parametrize(
    ("now", "earlier", "rows", "verdicts"),
    [
        (FIRST, [FIRST], OwnRows(), []),
        (FIRST, [FIRST], OwnRows(smallest=1), ["re-run refused"]),
        (FIRST, [FIRST], OwnRows(weighted_apart=1), ["re-run refused"]),
        (ZERO, [MEAN], OwnRows(), ["re-run refused"]),
        (replace(FIRST, filled={"age": "mean 1"}), [FIRST, MEAN], OwnRows(), ["re-run refused"]),
        (replace(FIRST, filled={"bmi": "mean 1"}), [MEAN], OwnRows(), []),
        (MEAN, [FIRST, MEAN], OwnRows(), []),
        (replace(FIRST, completed="ab"), [FIRST, replace(FIRST, completed="cd")], OwnRows(), ["rows asks"]),
        (replace(FIRST, completed="ab"), [FIRST, replace(FIRST, completed="ab")], OwnRows(), []),
        (FIRST, [replace(FIRST, completed="ab")], OwnRows(), []),
        (SPLIT, [SPLIT], OwnRows(), []),
        (SPLIT, [replace(SPLIT, columns=tuple("pqrstuvwxy"))], OwnRows(), ["re-run refused"]),
        (SPLIT, [replace(SPLIT, columns=tuple("pqrstu"))], OwnRows(), []),
        (SPLIT, [SPLIT], OwnRows(corrected=frozenset("p")), ["re-run refused"]),
        (SPLIT, [SPLIT], OwnRows(corrected=frozenset("pqrst")), []),
        (replace(FIRST, chooser="columns 1"), [FIRST], OwnRows(), ["rows asks"]),
        (replace(FIRST, chooser="columns 1"), [replace(FIRST, chooser="columns 1")], OwnRows(), []),
        (replace(FIRST, chooser="view main"), [FIRST], OwnRows(), []),
        (FIRST, [], OwnRows(unlike=1), ["other records asks"]),
    ],
)
def test_what_earlier_studies_forbid_or_ask(now, earlier, rows, verdicts):
    found = record_findings(now, earlier, rows, Policy())
    assert [f"{each.rule} {'asks' if each.asks else 'refused'}" for each in found] == verdicts
    assert all(each.below is not each.asks for each in record_findings(now, earlier, rows, Policy()))


def test_what_is_written_of_a_study_is_read_again():
    study = replace(SPLIT, job="ab" * 32, chooser="view main", filled={"a": "mean 0"}, completed="ab", weights="w")
    assert Asked.of({"event": "study", "when": "now", "table": 1, **study.record()}) == study


rng = np.random.default_rng(4)
ROWS = rng.normal(170.0, 10.0, size=(300, 5))
KEY = Seed(bytes(range(32)))


def digest(rows, ids=None, labels=None, reading=None, key=KEY):
    return source_digest(PartyData(open_source(np.ascontiguousarray(rows)), labels, ids), key, reading)


def test_the_digest_of_the_source_changes_with_every_cell_row_id_label_and_key():
    ids = np.arange(300)
    one = ROWS.copy()
    one[3, 3] = np.nextafter(one[3, 3], np.inf)
    assert digest(ROWS, ids) == digest(ROWS.copy(), ids)
    every = [digest(ROWS, ids), digest(one, ids), digest(ROWS[::-1], ids), digest(ROWS, ids[::-1])]
    every += [digest(ROWS, ids, ROWS[:, :1]), digest(ROWS, ids, key=KEY.derive("other"))]
    assert len(set(every)) == len(every)


def test_data_that_has_not_changed_is_read_once():
    source = open_source(ROWS)
    passes, inner = [], source.rows
    source.rows = lambda start, stop: (passes.append(start), inner(start, stop))[1]
    same, data = [True], PartyData(source)
    reading = Reading(lambda: same[0])
    first = source_digest(data, KEY, reading)
    assert source_digest(data, KEY, reading) == first
    assert passes == [0]
    same[0] = False
    assert source_digest(data, KEY, reading) == first
    assert passes == [0, 0]
