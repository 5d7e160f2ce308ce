"""A warning points at the line of the person who called, however the estimator was reached."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fedsvd import FederatedLinearRegression, FederatedPCA, FederatedSVD, Simulation
from fedsvd.errors import PrivacyWarning

TABLES = np.split(np.random.default_rng(3).normal(size=(60, 4)), 2)
TABLE = np.vstack(TABLES)


def fit():
    return FederatedSVD().fit(TABLES)


def fit_transform():
    return FederatedPCA(n_components=2, federation=Simulation(random_state=1)).fit_transform(TABLE)


def in_a_pipeline():
    made = make_pipeline(
        StandardScaler(), FederatedPCA(n_components=2, federation=Simulation(random_state=1)), LinearRegression()
    )
    return made.fit(TABLE, TABLE[:, 0])


def in_a_search():
    search = GridSearchCV(FederatedLinearRegression(federation=Simulation(random_state=1)), {"alpha": [0.1]}, cv=2)
    return search.fit(TABLE, TABLE[:, 0])


@pytest.mark.parametrize("call", [fit, fit_transform, in_a_pipeline, in_a_search])
def test_the_file_and_the_line_are_the_callers(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    private = [each for each in caught if issubclass(each.category, PrivacyWarning)]
    assert private
    first = call.__code__.co_firstlineno
    last = max(line for _, _, line in call.__code__.co_lines() if line)
    for each in private:
        assert each.filename == __file__
        assert first < each.lineno <= last
