"""A column in another unit is said at home when joint means are opened, and its owner may end the study there."""

import logging
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.e2e.federations import federation_of
from tests.e2e.outcomes import broken_everywhere, settled

from fedsvd.policy.rules import Policy

PARTIES = ("north", "south", "west")
ROLES = ["csp/csp", *(f"party/{name}" for name in PARTIES)]
STUDIES = {
    "lr": {"task": "lr", "label": "stay", "inference": True, "columns": ["age", "bili"]},
    "lr-without-errors": {"task": "lr", "label": "stay", "columns": ["age", "bili"]},
    "glm": {"task": "glm", "family": "binomial", "label": "died", "columns": ["age", "bili"]},
    "pca": {"task": "pca", "components": 1, "columns": ["age", "bili", "stay"]},
}


def tables(root):
    """Bilirubin in mg/dL at two hospitals, in umol/L at the third."""
    rng = np.random.default_rng(31)
    n = 450
    joint = pd.DataFrame({"age": rng.integers(30, 80, n).astype(float), "bili": rng.gamma(3.0, 0.4, n)})
    joint["stay"] = 3.0 + 0.1 * joint["age"] + joint["bili"] + rng.normal(size=n)
    joint["died"] = (rng.random(n) < 1.0 / (1.0 + np.exp(1.0 - 0.5 * joint["bili"]))).astype(float)
    for name, rows in zip(PARTIES, np.split(np.arange(n), 3), strict=True):
        own = joint.iloc[rows].copy()
        own["bili"] *= 17.1 if name == "west" else 1.0
        own.to_csv(root / f"{name}.csv", index=False)


def played(root, study, policy, more=None, west=""):
    """How the job ended, and what each party's log said, in order; ``more`` of [prepare], lines of one site.toml."""
    words = dict(STUDIES[study])
    columns = words.pop("columns")
    prepare = {"columns": [*columns, words["label"]] if "label" in words else columns, **(more or {})}
    file = {"job": {"name": study, **words}, "prepare": prepare, "party": [{"name": name} for name in PARTIES]}
    with federation_of(root, PARTIES, how="threads", policy=policy) as federation:
        for name in PARTIES:
            text = f'[data]\ndefault = "{root / name}.csv"\n{west if name == "west" else ""}'
            (federation.kits[f"party/{name}"] / "site.toml").write_text(text)
        federation.start(*ROLES)
        with federation.client() as client:
            ended = settled(client, client.submit(file).id, {"done", "broken"})
            if ended.state == "broken":
                broken_everywhere(federation, client, ended.id)
            return client.job(ended.id)


@pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
@pytest.mark.parametrize(
    "study", ["glm", *(pytest.param(name, marks=pytest.mark.slow) for name in STUDIES if name != "glm")]
)
def test_another_unit_is_said_at_home_before_the_session_goes_on_and_once(tmp_path, caplog, study):
    tables(tmp_path)
    with caplog.at_level(logging.INFO, logger="fedsvd"):
        done = played(tmp_path, study, Policy.permissive())
    assert done.state == "done", done.failures
    said = [each for each in caplog.records if "another unit" in each.getMessage()]
    # One of three in another unit moves the others' mean too: each reads it once, and whose it likely is.
    assert sorted(each.getMessage().split()[0] for each in said) == [f"role=party/{name}" for name in PARTIES]
    told = {each.getMessage().split()[0]: each for each in said}["role=party/west"]
    assert "likely in another unit here (17.1: mg/dL to umol/L?)" in told.getMessage()
    for right in (each.getMessage() for each in said if each is not told):
        assert "This column is likely right: nothing is to be done here" in right
        assert "multiply" not in right
        assert "[table]" not in right
    ended = next(each for each in caplog.records if "role=user-3 COMPUTING->AGREEING" in each.getMessage())
    assert caplog.records.index(told) < caplog.records.index(ended)


@pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
@pytest.mark.parametrize("study", ["lr", pytest.param("pca", marks=pytest.mark.slow)])
def test_an_owner_may_end_a_study_at_another_unit_and_no_one_else_reads_which(tmp_path, study):
    tables(tmp_path)
    broken = played(tmp_path, study, replace(Policy.permissive(), units="refuse"))
    assert broken.state == "broken"
    # All three refuse, and the first one ends it for all; each says how it ended.
    assert {failure.who for failure in broken.failures} >= {f"party/{name}" for name in PARTIES}
    assert not any("bili" in failure.text or "17.1" in failure.text for failure in broken.failures)
    assert not [*tmp_path.rglob("results/*/coefficients.npy")]


@pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
def test_a_map_of_a_column_that_is_not_there_is_said_at_home_before_the_first_session(tmp_path, caplog):
    tables(tmp_path)
    with caplog.at_level(logging.INFO, logger="fedsvd"):
        lines = "[table.map]\nbilli = { factor = 0.0585 }\n"
        done = played(tmp_path, "pca", Policy.permissive(), {"missing": "mean"}, lines)
    assert done.state == "done", done.failures
    assert len(done.stages) == 2
    said = [each for each in caplog.records if "the map is of column 'billi'" in each.getMessage()]
    assert {each.getMessage().split()[0] for each in said} == {"role=party/west"}
    assert all(each.getMessage().endswith("did you mean 'bili'?") for each in said)
    first = next(each for each in caplog.records if "role=user-3" in each.getMessage())
    assert caplog.records.index(said[0]) < caplog.records.index(first)
