"""``--categories`` of a model with an intercept: the commonest level has no column, and the table is statsmodels'."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from tests.tolerances import RESULT_BAR, assert_close

from fedsvd.prepare.categories import JointLevels
from fedsvd.prepare.encoding import Indicators
from fedsvd.studies.job_file import job_from

PARTIES = ("--party", "x.csv", "--party", "y.csv", "--party", "z.csv", "--categories", "sex,ward")
DESIGN = 'age + C(sex, Treatment("m")) + C(ward, Treatment("b"))'


@pytest.fixture
def joint(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    n = 330
    frame = pd.DataFrame({"age": rng.normal(50, 9, n), "sex": rng.choice(["f", "m"], n, p=[0.4, 0.6])})
    frame["ward"] = rng.choice(["a", "b", "c"], n, p=[0.2, 0.5, 0.3])
    frame["y"] = 0.1 * frame["age"] + (frame["sex"] == "m") + rng.normal(size=n)
    for i, name in enumerate("xyz"):
        frame[i * 110 : (i + 1) * 110].to_csv(f"{name}.csv", index=False)
    return frame


def test_the_commonest_level_is_what_others_are_compared_with(fedsvd, joint):
    said = fedsvd("lr", *PARTIES, "--label", "y", "--inference")
    assert said.code == 0, said.out + said.err
    assert "column 'ward' has the levels 'a', 'b', 'c', compared with 'b'" in " ".join(said.err.split())
    found = pd.read_csv("results/lr/coefficients.csv").set_index("term")
    assert list(found.index) == ["(intercept)", "age", "sex_f", "ward_a", "ward_c"]
    expected = smf.ols(f"y ~ {DESIGN}", joint).fit()
    order = [0, 4, 1, 2, 3]  # numbers stand before indicators
    assert_close(found["coef"].to_numpy(), expected.params.to_numpy()[order], RESULT_BAR)
    assert_close(found["se"].to_numpy(), expected.bse.to_numpy()[order], RESULT_BAR)
    new = fedsvd("predict", "results/lr", "--party", "x.csv", "--format", "json").json["parties"]["x"]["values"]
    assert_close(np.array(new["y"]), expected.predict(joint[:110]).to_numpy(), RESULT_BAR)


@pytest.mark.parametrize(
    ("task", "words", "says"),
    [
        ("lr", {}, "less the commonest, which others are compared with"),
        ("glm", {"family": "gaussian"}, "less the commonest, which others are compared with"),
        ("cox", {"event": "died"}, "less the commonest, which others are compared with"),
        ("ordinal", {"classes": ["a", "b", "c"]}, "less the commonest, which others are compared with"),
        ("mixed", {"subject": "ward"}, "less the commonest, which others are compared with"),
        ("lr", {"intercept": False}, "of its levels"),
        ("lr", {"alpha": 1.0}, "of its levels"),
        ("pca", {"label": ()}, "of its levels"),
    ],
)
def test_all_levels_have_a_column_where_there_is_no_intercept_or_a_penalty(tmp_path, task, words, says):
    record = {
        "job": {"name": "a", "task": task, "label": ["y"], **words},
        "prepare": {"categories": ["ward"]},
        "party": [{"name": "x"}, {"name": "y"}],
    }
    if task == "pca":
        del record["job"]["label"]
    section = job_from(record, tmp_path).prepare
    assert section.joint.less_one is says.startswith("less")
    assert any(line.endswith(says) for line in section.description())


def test_a_level_that_is_named_is_the_one_that_is_left_out():
    joint = JointLevels("ward", ("a", "b", "c"), other=True, reference="b")
    assert Indicators(joint).shown == (0, 2, 3)
    assert Indicators(joint, reference="c").shown == (0, 1, 3)
    assert Indicators(joint, first=True).shown == (1, 2, 3)
