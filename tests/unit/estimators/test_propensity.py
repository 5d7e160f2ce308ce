"""FederatedPropensity: columns by name, what a folder has of a fit, and what is asked for that does not go together."""

import numpy as np
import pytest
from tests.studies import hospitals
from tests.tolerances import GLM_BAR, assert_close, digits_lost

import fedsvd
from fedsvd import FederatedPropensity
from fedsvd.errors import ConfigError, DataError
from fedsvd.policy.rules import Policy
from fedsvd.results.write import write_job
from fedsvd.studies.job_data import prepare
from fedsvd.studies.job_file import read_job
from fedsvd.studies.jobs import results_of
from fedsvd.studies.matching import run_stages

ALLOWED = Policy.permissive()
pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning", "ignore:events")


@pytest.fixture
def files(tmp_path):
    return hospitals(tmp_path, treated=True)


def parts(files, *left_out):
    joint = files.joint.drop(columns=["patient", *left_out])
    return [joint[:40], joint[40:75], joint[75:]]


def test_a_loaded_effect_is_the_one_that_was_fitted(files):
    fitted = FederatedPropensity("ATT", stabilised=True, digits="more").fit(parts(files), "outcome", "treated")
    keys = {"estimand": "ATT", "stabilised": True, "digits": "more"}
    path = files.job(task="propensity", label="outcome", treatment="treated", id="patient", **keys)
    ready, out = prepare(read_job(path)), files.folder / "out"
    write_job(out, results_of(ready, run_stages(ready.study, ready.parties, policy=ALLOWED, asked=ready.asked)))
    loaded = fedsvd.load(out / "parties" / "north")
    assert isinstance(loaded, FederatedPropensity)
    for key in ("estimand", "stabilised", "trim", "link", "digits"):
        assert getattr(loaded, key) == getattr(fitted, key), key
    assert (loaded.target_name_, loaded.treatment_name_) == ("outcome", "treated")
    assert loaded.balance_.names == fitted.balance_.names
    assert np.abs(loaded.coef_ / fitted.coef_ - 1.0).max() < GLM_BAR
    assert np.abs(loaded.propensity_coef_ / fitted.propensity_coef_ - 1.0).max() < GLM_BAR


def test_scores_are_those_of_the_model_of_the_treatment(files):
    tables = parts(files)
    effect = FederatedPropensity().fit(tables, "outcome", "treated")
    X = [own.drop(columns=["outcome", "treated"]) for own in tables]
    w = effect.propensity_coef_
    eta = w[0] + np.vstack([own.to_numpy() for own in X]) @ w[1:]
    assert_close(effect.propensity(X), 1.0 / (1.0 + np.exp(-eta)), digits_lost(len(w)))
    frame = effect.balance_frame()
    assert list(frame.index) == list(X[0].columns)
    assert (frame["Diff.Adj"].abs() <= frame["Diff.Un"].abs() + 0.01).all()
    assert effect.summary_frame().index.tolist() == ["(intercept)", "treated"]


def test_names_of_columns_are_those_of_the_drawings(files):
    pytest.importorskip("matplotlib").use("Agg")
    effect = FederatedPropensity().fit(parts(files), "outcome", "treated")
    named = {label.get_text() for label in effect.plot.love().get_yticklabels()}
    assert named == set(effect.balance_.names)
    assert [label.get_text() for label in effect.plot.forest().get_yticklabels()] == ["treated"]


@pytest.mark.parametrize(
    ("asked", "error", "text"),
    [
        ({"estimand": "ATC"}, ConfigError, "estimand is 'ATC'"),
        ({"family": "gamma"}, ConfigError, "family is 'gamma'"),
        ({"trim": 0.07}, ConfigError, "a limit of a job's own could be moved past one person"),
        ({"treatment": "age"}, DataError, "a treatment is neither 0 nor 1"),
    ],
)
def test_what_is_asked_for_is_what_there_is(files, asked, error, text):
    treatment = asked.pop("treatment", "treated")
    with pytest.raises(error, match=text):
        FederatedPropensity(**asked).fit(parts(files), "outcome", treatment)
