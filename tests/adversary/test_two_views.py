"""Two views of a dictionary whose rows differ in one person: a table of each, and the difference is that person."""

import json
from pathlib import Path

import numpy as np
from tests.adversary.test_memory_of_tables import MEMORY, PARTIES, ROWS, clinic, ended, hospitals, lay, records

from fedsvd.policy.policy_file import spelt_policy
from fedsvd.policy.rules import Policy
from fedsvd.prepare.dictionary import dictionary_of, spelt_dictionary
from fedsvd.service.records import JobState

WORDS = {
    "columns": {
        **{name: {"range": [-9, 9]} for name in ("age", "bmi", "sbp")},
        "arm": {"levels": ["u", "v"]},
        "patient": {"role": "id"},
    },
    "views": {"with_bmi": ["age", "bmi", "arm"], "without": ["age", "arm"]},
}


def table_of(view, name):
    asked = {"name": name, "task": "describe", "by": "arm"}
    prepare = {"view": view, "columns": ["age", "arm"], "missing": "drop"}
    return {
        "job": asked,
        "prepare": prepare,
        "dictionary": {"says": WORDS},
        "party": [{"name": each} for each in PARTIES],
    }


def test_of_two_views_that_differ_in_one_person_the_second_takes_the_same_rows(tmp_path):
    with hospitals(tmp_path) as (federation, csp):
        for number, name in enumerate(PARTIES, 1):
            table = clinic(number).assign(arm=np.resize(["u", "v"], ROWS))
            if name == "a":
                table.loc[7, "bmi"] = np.nan
            lay(federation, name, table)
            rules = Policy(**{**vars(Policy.permissive()), **MEMORY, "answered": ("rows", "gaps", "cells")})
            kit: Path = federation.kits[f"party/{name}"]
            (kit / "policy.toml").write_text(spelt_policy(rules))
            (kit / "dictionary.toml").write_text(spelt_dictionary(dictionary_of(json.loads(json.dumps(WORDS)))))
        counts = []
        for view, name in (("with_bmi", "first"), ("without", "second")):
            job, why = ended(federation, csp, table_of(view, name))
            assert job.state is JobState.DONE, why
            counts.append(records(federation, job))
        assert counts == [ROWS - 1, ROWS - 1], "the one who misses bmi waits for four others in the second, too"
