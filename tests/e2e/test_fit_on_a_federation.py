"""The same ``fit`` call on processes of this machine: the numbers of a simulation, and nothing left behind."""

import pickle
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from tests.tolerances import RESULT_BAR, STATISTIC_BAR, assert_close

from fedsvd import FederatedLinearRegression, FederatedLogisticRegression, Local, Policy, Simulation
from fedsvd.errors import ReleaseRefused

RNG = np.random.default_rng(11)
X = RNG.normal(size=(240, 3))
Y = X @ [1.0, -2.0, 0.5] + RNG.normal(size=240)


@pytest.fixture
def scratch(monkeypatch, tmp_path):
    """Where temporary folders are made, so that a test can see that none is left."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_table_of_split_columns_is_that_of_a_simulation(scratch):
    ids = pd.Index([f"p{i}" for i in range(240)])
    tables = [pd.DataFrame(X[:, :2], ids, ["age", "dose"]), pd.DataFrame(X[:, 2:], ids, ["marker"])]
    asked = FederatedLinearRegression(inference=True, split="vertical", label_party=0)
    where = Local(policy=Policy.permissive())
    found = clone(asked).set_params(federation=where).fit(tables, pd.Series(Y, ids, name="outcome"))
    expected = np.linalg.lstsq(np.column_stack((np.ones(240), X)), Y, rcond=None)[0]
    assert_close(np.r_[found.intercept_, found.coef_], expected, RESULT_BAR)
    assert [party.coef_.shape for party in found.parties_] == [(2,), (1,)]
    assert list(found.feature_names_in_) == ["age", "dose", "marker"]
    assert found.target_names_ == ("outcome",)
    here = asked.set_params(federation=Simulation(policy=Policy.permissive())).fit(tables, pd.Series(Y, ids))
    assert_close(found.inference_[0].standard_errors, here.inference_[0].standard_errors, STATISTIC_BAR)
    assert_close(found.predict(tables), X @ expected[1:] + expected[0], RESULT_BAR)
    assert found.federation == pickle.loads(pickle.dumps(found)).federation == where  # noqa: S301
    assert list(Path(scratch).iterdir()) == []


@pytest.mark.slow
def test_classes_of_text_are_those_that_were_given(scratch):
    kinds = np.where(np.median(Y) < Y, "yes", "no")
    found = FederatedLogisticRegression(1.0, federation=Local(3)).fit(X, kinds)
    twin = LogisticRegression(C=1.0, tol=1e-12, max_iter=10_000).fit(X, kinds)
    assert found.classes_.tolist() == ["no", "yes"]
    assert found.score(X, kinds) == twin.score(X, kinds)
    assert list(Path(scratch).iterdir()) == []


def test_y_is_a_column_of_every_table_of_split_rows(scratch):
    table = pd.DataFrame(X, columns=["age", "dose", "marker"]).assign(outcome=Y)
    where = Local(policy=Policy.permissive())
    found = FederatedLinearRegression(federation=where).fit([table[:80], table[80:160], table[160:]], y="outcome")
    expected = np.linalg.lstsq(np.column_stack((np.ones(240), X)), Y, rcond=None)[0]
    assert_close(np.r_[found.intercept_, found.coef_], expected, RESULT_BAR)
    assert list(found.feature_names_in_) == ["age", "dose", "marker"]
    assert found.target_names_ == ("outcome",)


@pytest.mark.slow
def test_y_is_a_column_of_one_party_of_split_columns(scratch):
    ids = pd.Index([f"p{i}" for i in range(240)])
    first = pd.DataFrame({"age": X[:, 0], "outcome": Y, "dose": X[:, 1]}, ids)
    where = Local(policy=Policy.permissive())
    asked = FederatedLinearRegression(split="vertical", federation=where)
    found = asked.fit([first, pd.DataFrame({"marker": X[:, 2]}, ids)], y="outcome")
    expected = np.linalg.lstsq(np.column_stack((np.ones(240), X)), Y, rcond=None)[0]
    assert_close(np.r_[found.intercept_, found.coef_], expected, RESULT_BAR)
    assert (found.plan_.label_user, found.target_names_) == (1, ("outcome",))


@pytest.mark.slow
def test_each_party_enforces_its_policy(scratch):
    where = Local(policy=Policy(records=100))
    with pytest.raises(ReleaseRefused, match="records"):
        FederatedLinearRegression(federation=where).fit(np.split(X, [80, 160]), np.split(Y, [80, 160]))
    assert list(Path(scratch).iterdir()) == []
