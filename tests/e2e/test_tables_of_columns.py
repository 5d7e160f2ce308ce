"""Standard errors and a chosen ridge of split columns, among processes over TLS: each party has its own rows."""

import json
import re

import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from tests.e2e.commands import command
from tests.exact_csv import read_exact
from tests.studies import FEATURES, companies
from tests.tolerances import STATISTIC_BAR, assert_each_close
from tests.unit.statistics.tables import fitted

KEYS = {"task": "lr", "split": "vertical", "label": "outcome", "label_party": "shop", "id": "patient"}
OWN = {"bank": FEATURES[:2], "shop": FEATURES[2:4], "insurer": FEATURES[4:]}


@pytest.fixture
def files(tmp_path):
    """The middle one of three companies holds the labels."""
    found = companies(tmp_path, shuffled=False)
    for name, own in OWN.items():
        columns = ["patient", *own, *(["outcome"] if name == "shop" else [])]
        found.joint[columns].to_csv(tmp_path / f"{name}.csv", index=False)
    return found


def run(files, **keys):
    files.job("study", **KEYS, **keys)
    words = ("run", "job.toml", "--env", "local", "--quiet", "--format", "json")
    (files.folder / "policy.toml").write_text("records = 1\n", encoding="utf-8")
    refused = command(*words, "--policy", "policy.toml", cwd=files.folder)
    assert "consent_to_columns = true" in json.loads(refused.stdout)["error"]["fault"]
    (files.folder / "policy.toml").write_text("records = 1\nconsent_to_columns = true\n", encoding="utf-8")
    ran = command(*words, "--policy", "policy.toml", cwd=files.folder)
    assert ran.returncode == 0, ran.stdout
    return json.loads(ran.stdout), files.folder / "results/study/parties"


def test_each_process_has_the_standard_errors_of_its_own_columns(files):
    said, folder = run(files, inference=True)
    expected = fitted(files.D, files.y)
    assert set(said["own_inference"]) == set(OWN)
    for name, own in OWN.items():
        table = read_exact(folder / name / "coefficients.csv")
        rows = [0, *(1 + FEATURES.index(feature) for feature in own)]
        assert list(table["term"]) == ["(intercept)", *own]
        assert_each_close(table["se"], expected.bse[rows], STATISTIC_BAR)
        assert_each_close(said["own_inference"][name]["outcome"]["f"], expected.fvalue, STATISTIC_BAR)


def test_each_process_has_its_coefficients_of_the_ridge_that_the_label_holder_chose(files):
    _, folder = run(files, alphas=[0.1, 10.0, 1000.0], choose_by="gcv")
    curves = {name: pd.read_csv(folder / name / "ridge_path.csv") for name in OWN}
    chosen = {float(curve.loc[curve["chosen"], "alpha"].iloc[0]) for curve in curves.values()}
    (alpha,) = chosen
    twin = Ridge(alpha, solver="svd").fit(files.D, files.y)
    for name, own in OWN.items():
        table = read_exact(folder / name / "coefficients.csv")
        wanted = [twin.coef_[FEATURES.index(feature)] for feature in own]
        assert_each_close(table["outcome"], wanted, STATISTIC_BAR)
        page = (folder / name / "report.html").read_text(encoding="utf-8")
        assert re.search(r"Rounding moves no coefficient by more than \de-\d\d\.", page)
