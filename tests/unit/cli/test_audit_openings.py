"""``fedsvd audit-openings`` at the command line: a table of attacks, JSON, the owner's own policy."""

import numpy as np
import pandas as pd
import pytest

from fedsvd.policy.policy_file import spelt_policy
from fedsvd.policy.rules import Policy


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(4)
    table = pd.DataFrame((rng.random((150, 4)) < 0.4).astype(int), columns=list("abcd"))
    table["city"] = "Bonn"
    table["ill"] = (rng.random(150) < 0.4).astype(int)
    table.to_csv("own.csv", index=False)
    return tmp_path


def test_each_attack_stands_next_to_what_stops_it(fedsvd, own):
    said = fedsvd("audit-openings", "own.csv", "--label", "ill")
    assert said.code == 0
    assert "100 of 100 records (100 %)" in said.out
    assert "refused: formula" in said.out
    assert "city" in said.out
    assert "not played: formulas that no grammar holds" in said.out
    assert not [path for path in own.iterdir() if path.name != "own.csv"], "nothing is written"


def test_in_json_and_with_a_policy_that_stops_nothing(fedsvd, own):
    (own / "policy.toml").write_text(spelt_policy(Policy.permissive()))
    said = fedsvd("audit-openings", "own.csv", "--label", "ill", "--policy", "policy.toml", "--format", "json")
    assert said.code == 0
    first = said.json["attacks"][0]
    assert (first["read"], first["of"], first["verdict"]["stop"]) == (100, 100, "not stopped")


def test_with_events_who_left_between_two_times_is_played(fedsvd, own):
    table = pd.read_csv("own.csv")
    table["months"] = np.ceil(np.random.default_rng(5).exponential(20.0, 150))
    table.to_csv("times.csv", index=False)
    said = fedsvd("audit-openings", "times.csv", "--label", "months", "--event", "ill", "--format", "json")
    assert said.code == 0, said.err
    exact, rounded = said.json["attacks"][-2:]
    assert exact["read"] > 0 == rounded["read"]
    assert "cells" in exact["verdict"]["rules"]
    assert said.json["attacks"][-3]["attack"].endswith("one time moved: who left between")


def test_a_label_that_the_table_has_not_is_an_error(fedsvd, own):
    said = fedsvd("audit-openings", "own.csv", "--label", "sick")
    assert said.code == 1
    assert "no column of numbers 'sick'" in said.err
