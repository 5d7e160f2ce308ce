"""Estimators behave as estimators do: cloned, saved, searched over, put in pipelines; and nothing secret is kept."""

import ast
import doctest
import io
import pickle
import pickletools
import subprocess
import sys
import warnings
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn.exceptions
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    RegressorMixin,
    TransformerMixin,
    clone,
)
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.tolerances import RESULT_BAR, assert_close, digits_lost

import fedsvd
from fedsvd import FederatedLinearRegression, FederatedLSA, FederatedPCA, FederatedSVD, Masks, Policy, Simulation
from fedsvd.errors import ConfigError, NotFittedError, PrivacyWarning, ReleaseRefused
from fedsvd.estimators import linear_regression, lsa, pca, svd

from .joint import parts, table

ALL = (FederatedSVD, FederatedPCA, FederatedLSA, FederatedLinearRegression)
D = table(90, 5, condition=10.0)
y = D @ np.arange(1.0, 6.0) + 0.01 * np.random.default_rng(0).standard_normal(90)
quiet = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")


def fitted(kind, split="horizontal", **options):
    estimator = kind(split=split, **options)
    return estimator.fit(parts(D, split), y)


def answer(estimator):
    return estimator.predict(D) if isinstance(estimator, FederatedLinearRegression) else estimator.transform(D)


def test_the_package_names_all_that_is_public():
    assert {kind.__name__ for kind in ALL} | {"Policy", "__version__"} <= set(fedsvd.__all__) <= set(dir(fedsvd))
    with pytest.raises(AttributeError, match="no attribute 'FederatedNMF'"):
        fedsvd.FederatedNMF  # noqa: B018


def test_only_public_names_of_scikit_learn_are_used():
    bases = (BaseEstimator, ClassNamePrefixFeaturesOutMixin, RegressorMixin, TransformerMixin)
    private = {name for base in bases for name in dir(base) if name.startswith("_") and not name.endswith("__")}
    assert private
    used = []
    for path in sorted(Path(svd.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("sklearn"):
                names = [*str(node.module).split("."), *(alias.name for alias in node.names)]
                used += [name for name in names if name.startswith("_")]
            elif isinstance(node, ast.Import):
                used += [alias.name for alias in node.names if alias.name.startswith("sklearn") and "._" in alias.name]
            elif isinstance(node, ast.Attribute) and node.attr in private:
                used.append(node.attr)
    assert used == []


def test_importing_the_package_stays_light():
    heavy = "import sys, fedsvd; print([name for name in ('numpy', 'scipy', 'sklearn') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@quiet
@pytest.mark.parametrize("module", [linear_regression, lsa, pca, svd], ids=lambda module: module.__name__)
def test_the_examples_in_the_docstrings_run(module):
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


@quiet
@pytest.mark.parametrize("kind", ALL)
def test_a_fitted_estimator_is_saved_and_loaded_by_its_owner(kind, tmp_path):
    estimator = fitted(kind)
    joblib.dump(estimator, tmp_path / "estimator.joblib")
    loaded = joblib.load(tmp_path / "estimator.joblib")
    np.testing.assert_array_equal(answer(loaded), answer(estimator))
    assert loaded.plan_ == estimator.plan_
    assert loaded.certificate_ == estimator.certificate_
    assert len(loaded.parties_) == 3


@quiet
@pytest.mark.parametrize("kind", ALL)
def test_a_fitted_estimator_holds_no_secret_no_role_and_nothing_said(kind):
    saved = pickle.dumps(fitted(kind, federation=Simulation(random_state=7)), protocol=5)
    words = {str(argument) for _, argument, _ in pickletools.genops(io.BytesIO(saved)) if isinstance(argument, str)}
    ours = {word for word in words if word.startswith("fedsvd.")}
    assert "fedsvd.protocol.plan" in ours
    packages = (
        "randomness",
        "sealing",
        "secagg",
        "masks",
        "compress",
        "roles",
        "transport",
        "data",
        "runtime",
        "linalg.h",
    )
    assert [word for word in ours for package in packages if word.startswith(f"fedsvd.{package}")] == []
    assert not any(word.startswith(("fedsvd.protocol.messages", "fedsvd.protocol.messages")) for word in ours)


@quiet
@pytest.mark.parametrize("kind", ALL)
def test_parameters_are_read_set_and_cloned(kind):
    estimator = kind(masks=Masks("mask"), federation=Simulation(policy=Policy(records=3), memory=1 << 24))
    copy = clone(estimator)
    assert copy.get_params() == estimator.get_params()
    assert copy.set_params(masks=Masks("sum")).masks == Masks("sum")
    fresh = clone(fitted(kind))
    assert not hasattr(fresh, "plan_")
    assert not hasattr(fresh, "parties_")


@pytest.mark.parametrize("kind", ALL)
def test_what_is_not_fitted_says_so_in_both_languages(kind):
    for error in (NotFittedError, sklearn.exceptions.NotFittedError, ValueError, AttributeError):
        with pytest.raises(error, match=r"FSVD-600: this Federated\w+ is not fitted yet. Fix: call fit first"):
            answer(kind())
    if hasattr(kind, "inverse_transform"):
        with pytest.raises(NotFittedError):
            kind().inverse_transform(D)


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"split": "diagonal"}, "split is"),
        ({"masks": Masks(scheme="magic")}, "scheme is"),
        ({"masks": Masks(mode="C")}, "mode is"),
        ({"masks": Masks(trust="nobody")}, "trust is"),
        ({"masks": Masks(block_size=0)}, "block_size is"),
        ({"masks": "mask"}, r"masks is of the type str. Fix: give fedsvd.Masks\(...\)"),
        ({"federation": Simulation(memory=-1)}, "memory is"),
        ({"federation": Simulation(memory=1.5)}, "memory is"),
        ({"federation": Simulation(parties=1)}, "parties is"),
        ({"federation": Simulation(parties=True)}, "parties is"),
        ({"federation": Simulation(random_state=-1)}, "random_state is"),
        ({"federation": Simulation(random_state="seed")}, "random_state is"),
        ({"federation": "local"}, r"federation is of the type str. Fix: give fedsvd.Simulation\(...\)"),
    ],
)
@pytest.mark.parametrize("kind", ALL)
def test_a_wrong_parameter_is_refused_when_it_is_used(kind, given, fault):
    estimator = kind(**given)
    with pytest.raises(ConfigError, match=fault):
        estimator.fit(parts(D, "horizontal"), y)


@pytest.mark.parametrize("n_components", [0, -1, 2.0, "two", True])
@pytest.mark.parametrize("kind", [FederatedSVD, FederatedPCA, FederatedLSA])
def test_a_wrong_number_of_components_is_refused(kind, n_components):
    with pytest.raises(ConfigError, match="n_components"):
        kind(n_components).fit(D)


def test_lsa_needs_a_number_of_components():
    with pytest.raises(ConfigError, match="n_components is None"):
        FederatedLSA(None).fit(D)


@quiet
@pytest.mark.parametrize("kind", [FederatedSVD, FederatedPCA, FederatedLSA])
def test_output_is_named_where_it_is_asked_for(kind):
    estimator = kind(2).set_output(transform="pandas")
    frame = pd.DataFrame(D, columns=list("abcde"), index=np.arange(100, 190))
    for out in (estimator.fit_transform(frame), estimator.transform(frame)):
        assert list(out.columns) == list(estimator.get_feature_names_out())
        assert list(out.columns) == [f"{kind.__name__.lower()}{j}" for j in range(2)]
        assert list(out.index) == list(frame.index)
    joint = estimator.fit_transform([frame[:30], frame[30:]])
    assert_close(joint.to_numpy(), out.to_numpy(), RESULT_BAR)
    assert estimator.set_output(transform="polars").transform(frame).columns == list(out.columns)


def test_it_works_in_a_pipeline():
    ours = make_pipeline(StandardScaler(), FederatedPCA(3), FederatedLinearRegression()).fit(D, y)
    theirs = make_pipeline(StandardScaler(), PCA(3, svd_solver="full"), LinearRegression()).fit(D, y)
    assert_close(ours.predict(D), theirs.predict(D), digits_lost(6))
    assert list(ours[:-1].get_feature_names_out()) == ["federatedpca0", "federatedpca1", "federatedpca2"]


def test_a_grid_search_finds_what_it_finds_for_the_twin():
    grid = {"alpha": [0.01, 1.0, 100.0]}
    ours = GridSearchCV(FederatedLinearRegression(federation=Simulation(parties=3)), grid, cv=3).fit(D, y)
    theirs = GridSearchCV(Ridge(solver="svd"), grid, cv=3).fit(D, y)
    assert ours.best_params_ == theirs.best_params_
    assert_close(ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], digits_lost(6))
    search = GridSearchCV(
        make_pipeline(FederatedPCA(), LinearRegression()), {"federatedpca__n_components": [1, 5]}, cv=3
    )
    assert search.fit(D, y).best_params_ == {"federatedpca__n_components": 5}


def test_cross_validation_scores_are_those_of_the_twin():
    ours = cross_val_score(FederatedLinearRegression(), D, y, cv=4)
    assert_close(ours, cross_val_score(LinearRegression(), D, y, cv=4), digits_lost(6))


@quiet
@pytest.mark.parametrize("kind", ALL)
def test_a_number_as_random_state_repeats_every_digit_and_warns(kind):
    with pytest.warns(PrivacyWarning, match="insecure seeds, for tests only"):
        first = fitted(kind, federation=Simulation(random_state=3))
    again = fitted(kind, federation=Simulation(random_state=3))
    np.testing.assert_array_equal(answer(first), answer(again))
    assert first.plan_.session == again.plan_.session
    assert fitted(kind).plan_.session != fitted(kind).plan_.session


def rules(fit):
    """The rules that a fit warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
    assert all(warning.category is PrivacyWarning for warning in caught)
    return {str(warning.message).partition(":")[0] for warning in caught}


@pytest.mark.parametrize("kind", ALL)
def test_the_default_policy_warns_of_parties_but_not_of_a_rehearsal(kind):
    assert "records" in rules(lambda: kind().fit([D[:5], D[5:]], y))
    assert rules(lambda: kind().fit(D, y)) == set()
    assert "records" in rules(lambda: kind(federation=Simulation(policy=Policy())).fit(D[:14], y[:14]))


@pytest.mark.parametrize("kind", ALL)
def test_an_enforced_policy_refuses(kind):
    with pytest.raises(ReleaseRefused, match="records"):
        kind(federation=Simulation(policy=Policy(enforce=True))).fit([D[:5], D[5:]], y)
    with pytest.raises(ReleaseRefused, match="task"):
        kind(federation=Simulation(policy=Policy(enforce=True, tasks=()))).fit(D, y)


@quiet
@pytest.mark.parametrize("kind", ALL)
def test_nothing_of_the_data_shows_in_a_repr(kind):
    estimator = fitted(kind)
    for shown in (estimator, estimator.parties_, estimator.parties_[0]):
        assert "." not in repr(shown).replace("0.0", "")


@quiet
@pytest.mark.filterwarnings("ignore:party 1 and party 2 bring the same table")
def test_nothing_of_an_earlier_fit_stays():
    estimator = FederatedPCA(2).fit([pd.DataFrame(D, columns=list("abcde"))] * 2)
    assert hasattr(estimator, "feature_names_in_")
    estimator.fit(parts(D[:, :3], "horizontal"))
    assert not hasattr(estimator, "feature_names_in_")
    assert estimator.n_features_in_ == 3
    scaled = FederatedPCA(2, unit_variance=True).fit(D)
    assert hasattr(scaled, "scale_")
    assert not hasattr(scaled.set_params(unit_variance=False).fit(D), "scale_")


def test_verbose_shows_progress_and_the_default_says_nothing(capsys):
    X = np.random.default_rng(5).standard_normal((60, 4))
    FederatedSVD(2, federation=Simulation(policy=Policy.permissive())).fit([X[:30], X[30:]])
    assert capsys.readouterr() == ("", "")
    FederatedSVD(2, federation=Simulation(policy=Policy.permissive(), verbose=True)).fit([X[:30], X[30:]])
    said = capsys.readouterr()
    assert said.out == ""
    for line in ("party 1: compress 100 %", "party 2: right vectors 100 %", "csp: factorise 100 %"):
        assert line in said.err.splitlines()
