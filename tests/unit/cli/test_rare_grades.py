"""An ordered outcome with a grade that few have: the study ends before any score, and a dictionary joins it."""

import numpy as np
import pandas as pd
import pytest
from statsmodels.miscmodels.ordinal_model import OrderedModel
from tests.tolerances import DIGITS_ERRORS_BAR, SEVEN_DIGITS

from fedsvd import load

pytestmark = pytest.mark.filterwarnings("ignore")
GRADES = ["none", "mild", "moderate", "severe"]
PARTIES = [word for place in range(3) for word in ("--party", f"{place}.csv")]
DICTIONARY = """
[columns.x]
range = [-10, 10]
[columns.grade]
levels = ["none", "mild", "moderate", "severe"]
groups = { joined = { none = ["none"], mild = ["mild"], more = ["moderate", "severe"] } }
"""


@pytest.fixture
def joint(tmp_path, monkeypatch):
    """Three hospitals, of which the second alone has three patients of the last grade."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dictionary.toml").write_text(DICTIONARY, encoding="utf-8")
    rng = np.random.default_rng(1)
    frames = []
    for place, n in enumerate((300, 200, 150)):
        x = rng.normal(size=n).round(2)
        grade = np.array(GRADES[:3])[np.digitize(x + rng.logistic(size=n), [-1.0, 0.5])].astype(object)
        if place == 1:
            grade[np.flatnonzero(grade == "moderate")[:3]] = "severe"
        frames.append(pd.DataFrame({"x": x, "grade": grade}))
        frames[-1].to_csv(f"{place}.csv", index=False)
    return pd.concat(frames, ignore_index=True)


def classes(names):
    return [word for name in names for word in ("--class", name)]


@pytest.mark.parametrize("more", [[], ["--dictionary", "dictionary.toml"]])
def test_a_grade_that_three_patients_have_ends_the_study_and_is_never_joined_with_others_by_itself(fedsvd, joint, more):
    """Pooled as "other" it would have no place in the order."""
    said = fedsvd("ordinal", *PARTIES, "--label", "grade", *classes(GRADES), *more, "--out", "out")
    text = " ".join(said.err.split())
    assert said.code != 0
    assert "join classes" in text or "a group, or fewer cut points" in text
    assert "3" not in text.split("FSVD")[-1].split(":", 1)[1], "how many have it is not said"
    assert joint.grade.value_counts()["severe"] == 3


def test_a_group_of_the_dictionary_joins_it_with_its_neighbour_and_the_model_is_statsmodels(fedsvd, joint):
    words = ["--dictionary", "dictionary.toml", "--columns", "x", "--label", "joined"]
    said = fedsvd("ordinal", *PARTIES, *words, *classes(["none", "mild", "more"]), "--out", "out")
    assert said.code == 0, said.err
    model, at = load("out").inference_[0], 0  # effects, then thresholds
    codes = joint.grade.map({"none": 0, "mild": 1, "moderate": 2, "severe": 2})
    expected = OrderedModel(codes, joint[["x"]], distr="logit").fit(method="newton", tol=1e-12, disp=False)
    assert abs(model.coefficients[at] - expected.params.iloc[0]) / expected.bse.iloc[0] < SEVEN_DIGITS
    assert abs(model.standard_errors[at] / expected.bse.iloc[0] - 1.0) < DIGITS_ERRORS_BAR
