"""Parameters of estimators: what is part of the study, what says where it runs, and where those of 0.2.0 went."""

import copy
import dataclasses
import inspect
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from tests.tolerances import RESULT_BAR, assert_close

import fedsvd
from fedsvd import (
    FederatedGLM,
    FederatedLinearRegression,
    FederatedLogisticRegression,
    FederatedPCA,
    Federation,
    Local,
    Masks,
    Simulation,
)
from fedsvd.errors import ConfigError

# A foreign statistic is no scikit-learn estimator: its parameters are a name and a mapping of options.
NAMED = [name for name in fedsvd.__all__ if name.startswith("Federated") and name != "FederatedStatistic"]
ALL = [getattr(fedsvd, name) for name in NAMED]
SHARED = {"id", "masks", "federation"}
VALUES = [
    Masks(),
    Masks("sum", "A", "authority", 20),
    Simulation(),
    Simulation(3, memory=1 << 30, verbose=True),
    Local(3),
    Federation("kit", ["a", "b"], "study", columns=["age"]),
]
IN_THE_STUDY = ("scheme", "mode", "trust", "block_size")
ABOUT_THE_RUN = ("memory", "device", "engine", "policy", "random_state", "verbose")


def test_there_are_fifteen_estimators():
    assert len(ALL) == 15


@pytest.mark.parametrize("kind", ALL)
def test_all_share_three_parameters_and_take_one_by_position(kind):
    taken = inspect.signature(kind).parameters
    assert set(taken) >= SHARED
    assert all(taken[name].default is None for name in SHARED)
    assert [p.kind for p in taken.values()].count(inspect.Parameter.POSITIONAL_OR_KEYWORD) == 1
    assert {field.name for field in dataclasses.fields(kind)} == set(taken) == set(kind().get_params())
    assert len(taken) <= 18


@pytest.mark.parametrize("kind", ALL)
def test_every_parameter_is_described_and_no_other(kind):
    said = (kind.__doc__ or "").partition("Parameters\n----------\n")[2].partition("Attributes\n---")[0]
    assert set(re.findall(r"^(\w+) :", said, flags=re.MULTILINE)) == set(kind().get_params())


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize(
    ("name", "place"),
    [(name, rf"masks=fedsvd\.Masks\({name}=\.\.\.\)") for name in IN_THE_STUDY]
    + [(name, rf"federation=fedsvd\.Simulation\({name}=\.\.\.\)") for name in ABOUT_THE_RUN]
    + [("n_parties", r"federation=fedsvd\.Simulation\(parties=\.\.\.\)")],
)
def test_a_parameter_of_0_2_0_names_its_new_place(kind, name, place):
    with pytest.raises(ConfigError, match=f"no parameter {name!r} any more. Fix: give {place}"):
        kind(**{name: 1})
    with pytest.raises(ConfigError, match=place):
        kind().set_params(**{name: 1})


@pytest.mark.parametrize("kind", ALL)
def test_a_misspelt_parameter_is_an_error(kind):
    with pytest.raises(TypeError, match="alhpa"):
        kind(alhpa=1.0)
    with pytest.raises(ValueError, match="alhpa"):
        kind().set_params(alhpa=1.0)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_are_frozen_compared_by_content_and_pickled(value):
    assert pickle.loads(pickle.dumps(value)) == value == copy.deepcopy(value)  # noqa: S301
    assert len({value, copy.deepcopy(value)}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, dataclasses.fields(value)[0].name, 5)


def test_a_federation_does_not_change_with_the_list_it_was_made_from():
    names = ["a", "b"]
    where = Federation("kit", names, "study")
    names.append("c")
    assert where.parties == ("a", "b")


@pytest.mark.parametrize("kind", ALL)
def test_estimators_are_hashed_by_identity_and_clones_are_equal_in_parameters(kind):
    estimator = kind(masks=Masks("sum"), federation=Simulation(3, memory=1 << 28))
    again = clone(estimator)
    assert again.get_params() == estimator.get_params()
    assert len({estimator, again}) == 2
    assert repr(again) == repr(estimator)
    assert "Simulation(parties=3" in repr(estimator).replace("\n", "")
    assert "federation" not in repr(kind())


def test_a_simulation_divides_one_table_among_its_parties():
    X = np.random.default_rng(0).normal(size=(120, 4))
    pca = FederatedPCA(2, federation=Simulation(4)).fit(X)
    assert [len(party.scores_) for party in pca.parties_] == [30, 30, 30, 30]
    assert pca.plan_.k == 4


@pytest.mark.parametrize("model", [FederatedGLM, FederatedLogisticRegression])
@pytest.mark.parametrize("masks", [Masks("mask"), Masks(mode="B")], ids=repr)
def test_models_that_add_up_gram_matrices_refuse_other_masks(model, masks):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(60, 2)), rng.integers(0, 2, size=60)
    with pytest.raises(ConfigError, match=r"task .glm. (adds up Gram matrices|open the sum)"):
        model(masks=masks).fit(X, y)


MISSPELT = """
from fedsvd import FederatedGLM, FederatedLinearRegression, FederatedPCA, Masks, Simulation
FederatedPCA(2, unit_variance=True, masks=Masks("sum"), federation=Simulation(3))
FederatedPCA(2, unit_varaince=True)
FederatedPCA(2, True)
FederatedGLM("poisson", split="horizontal")
FederatedLinearRegression(1.0, scheme="sum")
Simulation(n_parties=3)
"""


@pytest.mark.slow
def test_a_type_checker_finds_a_misspelt_parameter(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "misspelt.py").write_text(MISSPELT)
    source = Path(fedsvd.__file__).parents[1]
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir", str(tmp_path / "c")]
    found = subprocess.run(
        [*command, "misspelt.py"], cwd=tmp_path, env={"MYPYPATH": str(source)}, capture_output=True, text=True
    ).stdout
    assert 'Unexpected keyword argument "unit_varaince" for "FederatedPCA"; did you mean "unit_variance"?' in found
    faults = [line for line in found.splitlines() if line.startswith("misspelt.py") and "error" in line]
    assert sorted({int(line.split(":")[1]) for line in faults}) == [4, 5, 6, 7, 8]


def test_a_setting_of_the_run_changes_no_result():
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(150, 3)), rng.normal(size=150)
    two, five = (FederatedLinearRegression(federation=Simulation(parties)).fit(X, y) for parties in (2, 5))
    truth = np.linalg.lstsq(np.column_stack((np.ones(150), X)), y, rcond=None)[0]
    for found in (two, five):
        assert_close(np.r_[found.intercept_, found.coef_], truth, RESULT_BAR)
