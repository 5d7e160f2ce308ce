"""``fedsvd survival``: curves and the test on screen, in files, in the report, and read back; a dictionary's times."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.studies import hospitals
from tests.survival_data import edges_of, table
from tests.tolerances import CURVE_BAR, WITHIN_MORE_BAR, assert_close
from tests.unit.results.report.pages import page

from fedsvd import FederatedKaplanMeier, load

R = json.loads((Path(__file__).parents[2] / "vectors" / "survival-r.json").read_text(encoding="utf-8"))
DICTIONARY = """name = "wards"
[columns.outcome]
role = "time"
times = [1.0, 2.0, 3.0]
[columns.event]
role = "event"
"""


@pytest.fixture
def times(tmp_path):
    return hospitals(tmp_path, events=True)


def counted(joint, edge):
    return int(np.count_nonzero((joint["outcome"] <= edge) & (joint["event"] == 1)))


def test_a_command_gives_curves_a_report_and_what_is_loaded(fedsvd, times):
    words = ["--label", "outcome", "--event", "event", "--times", "1", "--times", "2", "--counts", "exact"]
    said = fedsvd("survival", *times.options(), *words, "--id", "patient", "--out", times.folder / "out")
    assert said.code == 0, said.err
    table = pd.read_csv(times.folder / "out/curves.csv")
    assert list(table.columns[1:6]) == ["time", "n.risk", "n.event", "n.censor", "estimate"]
    assert table["n.event"].cumsum().tolist() == [counted(times.joint, 1.0), counted(times.joint, 2.0)]
    loaded = load(times.folder / "out")
    assert isinstance(loaded, FederatedKaplanMeier)
    assert_close(loaded.tidy()["estimate"].to_numpy(), table["estimate"].to_numpy(), CURVE_BAR)
    assert "Numbers at risk" in page(times.folder / "out").text


def test_a_weighted_test_and_a_restricted_mean_from_files_are_rs(fedsvd, tmp_path):
    data, said_by_r, parties = table("made"), R["made"], []
    for site, own in data.groupby("site"):
        own[["time", "status", "group"]].to_csv(tmp_path / f"site{site}.csv", index=False)
        parties += ["--party", tmp_path / f"site{site}.csv"]
    grid = [word for edge in edges_of("made") for word in ("--times", edge)]
    groups = [word for group in (1, 2, 3) for word in ("--groups", group)]
    words = ["--formula", "Surv(time, status) ~ group", *groups, *grid, "--digits", "more", "--counts", "exact"]
    asked = ["--test", "fleming-harrington", "--until", said_by_r["until"]]
    said = fedsvd("survival", *parties, *words, *asked, "--out", tmp_path / "out")
    assert said.code == 0, said.err
    assert f"Fleming-Harrington test within sites: chi-squared {said_by_r['fleming']:.4g} on 2" in said.out
    found = load(tmp_path / "out")
    assert abs(found.test_.statistic / said_by_r["fleming"] - 1.0) < WITHIN_MORE_BAR
    shares = found.glance()["records"] / len(data)
    assert abs(shares @ found.glance()["rmean"] - said_by_r["rmean"]) < said_by_r["rmean.se"]


def test_times_are_the_dictionarys_and_others_are_refused(fedsvd, times):
    (times.folder / "dictionary.toml").write_text(DICTIONARY, encoding="utf-8")
    words = ["--label", "outcome", "--event", "event", "--dictionary", times.folder / "dictionary.toml"]
    said = fedsvd("survival", *times.options(), *words, "--out", times.folder / "out")
    assert said.code == 0, said.err
    assert pd.read_csv(times.folder / "out/curves.csv")["time"].tolist() == [1.0, 2.0, 3.0]
    said = fedsvd("survival", *times.options(), *words, "--times", "1.5", "--out", times.folder / "other")
    assert said.code != 0
    assert "times that are not the dictionary's" in said.err


def test_a_job_without_times_is_refused(fedsvd, times):
    said = fedsvd("survival", *times.options(), "--label", "outcome", "--event", "event")
    assert said.code != 0
    assert "need the times at which counts are opened" in said.err
