"""What a party does to its own table before a study: none of it is seen outside, in facts, messages or the plan."""

import numpy as np
import pandas as pd
import pytest
from tests.unit.wire.said import same

from fedsvd.audit.attacks.view import record
from fedsvd.prepare.table_map import TableMap
from fedsvd.protocol.parties import CSP, user
from fedsvd.protocol.tasks import Task
from fedsvd.service.enlist import open_data
from fedsvd.studies.job_file import study_of
from fedsvd.studies.own_table import OwnTables
from fedsvd.studies.submitted import submitted_job

ROWS, NAMES = 60, ["age", "dose", "weight"]


@pytest.fixture
def tables(tmp_path):
    """The same table twice: tidy, and with gaps, a name of its own, a text column and another order; and another's."""
    rng = np.random.default_rng(8)
    tidy = pd.DataFrame(rng.normal(size=(ROWS, 3)), columns=NAMES)
    holes = rng.random((ROWS, 2)) < 0.1
    assert holes.sum() > 3
    tidy[NAMES[:2]] = tidy[NAMES[:2]].mask(holes, 0.25)
    messy = tidy.copy()
    messy[NAMES[:2]] = messy[NAMES[:2]].mask(holes)
    messy = messy.rename(columns={"weight": "Gewicht"}).assign(note="text")[["note", "Gewicht", "dose", "age"]]
    other = pd.DataFrame(rng.normal(size=(ROWS, 3)), columns=NAMES)
    for name, table in (("tidy", tidy), ("messy", messy), ("other", other)):
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    return tmp_path


def seen_outside(folder, name, task, constant):
    """Facts, plan, and what CSP and partner hear of a study by the party of this table; all secrets are the same."""
    words = {"columns": NAMES, "missing": "constant", "constant": constant}
    file = {"job": {"name": "j", "task": task}, "prepare": words, "party": [{"name": "a"}, {"name": "b"}]}
    job = submitted_job(file)
    own = open_data(job, "a", folder / f"{name}.csv", folder, OwnTables(TableMap(map={"Gewicht": "weight"})))
    partner = open_data(job, "b", folder / "other.csv", folder)
    recorded = record(study_of(job), [own.data, partner.data], 5)
    heard = tuple(said for party in (CSP, user(2)) for _, said in recorded.views.received[party])
    return own.facts, recorded.plan, heard


@pytest.mark.parametrize("task", [Task.PCA, Task.SVD])
def test_neither_gaps_nor_names_nor_left_out_columns_of_a_table_show_outside_its_site(tables, task):
    tidy, messy = (seen_outside(tables, name, task, 0.25) for name in ("tidy", "messy"))
    assert tidy[:2] == messy[:2]
    assert same(tidy[2], messy[2])
    assert not same(tidy[2], seen_outside(tables, "messy", task, 0.5)[2]), "numbers themselves enter the messages"
