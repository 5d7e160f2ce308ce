"""Weights, offsets, robust errors, clusters and ridges in job files and options, as statsmodels and scikit-learn do."""

import html
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import RidgeCV
from tests.tolerances import GLM_BAR, STATISTIC_BAR, assert_close, assert_each_close
from tests.unit.statistics.tables import fitted

from fedsvd import FederatedRidgeCV, load
from fedsvd.errors import ConfigError
from fedsvd.studies.job_file import job_from

NAMES = ("north", "south", "west", "east")


@pytest.fixture
def joint(tmp_path, monkeypatch):
    """Four parties of a table with a weight, an offset and a ward in every row; some weights are 0."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(11)
    table = pd.DataFrame(rng.normal(size=(480, 3)) + 2.0, columns=["age", "dose", "size"])
    table["y"] = table @ [1.0, -2.0, 0.5] + rng.normal(size=480) * (1.0 + np.abs(table["age"]))
    table["w"] = rng.uniform(0.5, 2.0, 480)
    table.loc[::60, "w"] = 0.0
    table["base"] = rng.normal(size=480)
    table["ward"] = [f"ward {i // 120}-{i % 9}" for i in range(480)]
    for name, rows in zip(NAMES, np.array_split(np.arange(480), 4), strict=True):
        table.iloc[rows].to_csv(f"{name}.csv", index=False)
    return table


def parties():
    return [word for name in NAMES for word in ("--party", f"{name}.csv")]


def test_options_give_the_table_of_weighted_clusters(fedsvd, joint):
    options = ("--weights", "w", "--offset", "base", "--cluster", "ward", "--inference", "--label", "y", "--out", "out")
    said = fedsvd("lr", *parties(), *options)
    assert said.code == 0, said.err
    there = joint[joint["w"] > 0.0]
    features = there[["age", "dose", "size"]].to_numpy()
    expected = fitted(features, (there["y"] - there["base"]).to_numpy(), weights=there["w"].to_numpy(),
                      cov_type="cluster", cov_kwds={"groups": pd.factorize(there["ward"])[0]})  # fmt: skip
    for folder in ("out", "out/parties/west"):
        model = load(folder)
        assert_each_close(model.inference_[0].standard_errors, expected.bse, STATISTIC_BAR)
        assert_each_close(model.inference_[0].p, expected.pvalues, STATISTIC_BAR)
        assert "cluster" in str(model.summary())
        level = model.summary_frame(level=0.9)
        assert_close(level[["low", "high"]].to_numpy(), expected.conf_int(0.1), STATISTIC_BAR)
    assert "Leverage of your own rows, y" in Path("out/parties/west/report.html").read_text(encoding="utf-8")
    assert "Leverage of your own rows" not in Path("out/report.html").read_text(encoding="utf-8")
    count = there["ward"].nunique()
    said_of_clusters = f"Clusters are each party's own: {count} clusters. A name at two parties is two of them."
    assert said_of_clusters in html.unescape(Path("out/parties/west/report.html").read_text(encoding="utf-8"))
    assert model.inference_[0].clusters == count
    joint_names = fedsvd("lr", *parties(), *options, "--clusters", "joint")
    assert joint_names.code != 0
    assert "clusters at several parties are not offered" in joint_names.err


def test_alphas_of_a_job_file_choose_a_ridge_and_the_report_shows_the_path(fedsvd, joint):
    text = '[job]\nname = "path"\ntask = "lr"\nlabel = "y"\nweights = "w"\nalphas = [0.1, 10.0, 1000.0]\n'
    text += '[prepare]\ndrop = ["ward", "base"]\n'
    text += "".join(f'[[party]]\nname = "{name}"\ndata = "{name}.csv"\n' for name in NAMES)
    Path("job.toml").write_text(text, encoding="utf-8")
    said = fedsvd("run", "job.toml", "--format", "json", "-q")
    assert said.code == 0, said.err
    assert said.json["released"] == ["coefficients", "intercept", "ridge path"]
    there = joint[joint["w"] > 0.0]
    X, y = there[["age", "dose", "size"]].to_numpy(), there["y"].to_numpy()
    twin = RidgeCV([0.1, 10.0, 1000.0]).fit(X, y, sample_weight=there["w"].to_numpy())
    model = load("results/path")
    assert isinstance(model, FederatedRidgeCV)
    assert model.alpha_ == twin.alpha_
    assert_close(model.coef_, twin.coef_, GLM_BAR)
    assert_each_close(model.best_score_, twin.best_score_, GLM_BAR)
    path = pd.read_csv("results/path/ridge_path.csv")
    assert list(path.columns) == ["alpha", "error", "chosen", "age", "dose", "size"]
    page = Path("results/path/report.html").read_text(encoding="utf-8")
    assert "Error of every penalty" in page
    assert "Coefficients of y along the path" in page


def record(**keys):
    named = {"name": "x", "task": "lr", "label": "y", **keys}
    return {"job": named, "party": [{"name": "a"}, {"name": "b"}]}


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"cov_type": "HC3"}, "inference = true"),
        ({"cov_type": "HC3", "cluster": "c", "inference": True}, "two kinds"),
        ({"cluster": "c", "clusters": "joint", "inference": True}, "parties would learn which names others have"),
        ({"cluster": "c", "clusters": "all", "inference": True}, "one of own, joint"),
        ({"cov_type": "HC9", "inference": True}, "one of nonrobust, HC0"),
        ({"weights": "y"}, "named twice"),
        ({"alphas": [1.0, 2.0], "inference": True}, "leave inference or alphas out"),
        ({"alphas": [1.0, 1.0]}, "different"),
        ({"alphas": [0.0]}, "alphas"),
        ({"alphas": [1.0], "alpha": 1.0}, "leave one of them out"),
        ({"choose_by": "gcv"}, "alphas"),
        ({"alphas": [1.0], "split": "vertical"}, 'choose_by = "gcv"'),
        ({"offset": "o", "split": "vertical"}, "subtract it"),
        ({"task": "svd", "label": [], "weights": "w"}, "weights does not apply"),
        ({"task": "pca", "label": [], "alphas": [1.0]}, "alphas does not apply"),
    ],
)
def test_what_does_not_go_together_is_refused_before_any_data_is_opened(keys, said, tmp_path):
    with pytest.raises(ConfigError) as refusal:
        job_from(record(**keys), tmp_path)
    assert said in str(refusal.value)
