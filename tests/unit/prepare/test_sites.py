"""Centring, scaling and partialled covariates by sums equal scikit-learn and statsmodels on the joint table."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from numpy.testing import assert_array_equal
from sklearn.preprocessing import StandardScaler
from tests.tolerances import assert_close, digits_lost
from tests.unit.prepare.jointly import joint_totals

from fedsvd.data.open import open_source
from fedsvd.errors import ConfigError, DataError
from fedsvd.prepare.sites import (
    CovariateSums,
    Moments,
    Over,
    Residuals,
    Standardised,
    chosen_moments,
    covariate_sums,
    deviations,
    squares,
)

NAMES = ("age", "a", "dose", "b", "c")


@pytest.fixture(params=[1 << 20, 12], ids=["one panel", "many panels"])
def parts(request, monkeypatch):
    monkeypatch.setattr("fedsvd.prepare.derived.PANEL_CELLS", request.param)
    rng = np.random.default_rng(6)
    X = rng.normal(size=(45, 5)) @ rng.normal(size=(5, 5)) * [1, 1e4, 1, 1e-3, 1] + [50, 1e5, 0, 1, 0]
    return [pd.DataFrame(part, columns=NAMES) for part in np.split(X, [10, 28])]


def sources(parts):
    return [open_source(part) for part in parts]


def agreed(tables, ddof=0):
    total = joint_totals(tables)
    means = total.means(NAMES)
    return Moments(means, deviations(sum(squares(t, means) for t in tables), total.rows, means, ddof))


def site_standardised(table, centre, scale, joint=None):
    moments = chosen_moments(table, centre, scale, joint)
    return Standardised(table, moments.means, moments.deviations)


def stacked(tables):
    return np.vstack([table.rows(0, table.shape[0]) for table in tables])


def columns_close(found, expected, bar):
    for j in range(expected.shape[1]):
        assert_close(found[:, j], expected[:, j], bar)


class TestCentringAndScaling:
    def test_over_all_sites_is_that_of_scikit_learn_on_the_joint_table(self, parts):
        tables = sources(parts)
        moments = agreed(tables)
        found = stacked([site_standardised(table, Over.JOINT, Over.JOINT, moments) for table in tables])
        columns_close(found, StandardScaler().fit_transform(pd.concat(parts)), digits_lost(3))

    def test_within_each_site_is_that_of_scikit_learn_on_each_table(self, parts):
        found = stacked([site_standardised(table, Over.SITE, Over.SITE) for table in sources(parts)])
        expected = np.vstack([StandardScaler().fit_transform(part) for part in parts])
        columns_close(found, expected, digits_lost(3))

    def test_the_two_may_differ(self, parts):
        tables = sources(parts)
        moments = agreed(tables)
        found = stacked([site_standardised(table, Over.SITE, Over.JOINT, moments) for table in tables])
        whole = pd.concat(parts)
        expected = np.vstack([(part - part.mean()) / whole.std(ddof=0) for part in parts])
        columns_close(found, expected, digits_lost(3))

    def test_none_changes_nothing(self, parts):
        table = sources(parts)[0]
        unchanged = site_standardised(table, Over.NONE, Over.NONE)
        assert_array_equal(unchanged.rows(0, 10), table.rows(0, 10))
        with pytest.raises(ConfigError, match="none were agreed"):
            site_standardised(table, Over.JOINT, Over.NONE)

    def test_a_constant_column_is_divided_by_one(self):
        table = open_source(np.full((4, 1), 7.0))
        assert_array_equal(site_standardised(table, Over.SITE, Over.SITE).rows(0, 4), np.zeros((4, 1)))

    @pytest.mark.parametrize("value", [0.1, 1.0 / 3.0, 1e9 + 0.1])
    def test_a_constant_column_is_zero_whatever_its_digits(self, parts, value):
        """The mean of 0.1 is rounded: divided by what was left, each site had a column of 1, -1 or 0 of its own."""
        given = sources([part.assign(a=value) for part in parts])
        for over, joint in ((Over.SITE, None), (Over.JOINT, agreed(given))):
            found = stacked([site_standardised(table, over, over, joint) for table in given])[:, 1]
            assert np.abs(found).max() <= digits_lost(2) * value
            if over is Over.SITE:
                assert_array_equal(found, 0.0)

    def test_panels_of_rows_and_columns_agree(self, parts):
        table = site_standardised(sources(parts)[0], Over.SITE, Over.SITE)
        assert_array_equal(table.columns(1, 3), table.rows(0, 10)[:, 1:3])


class TestCovariates:
    def partialled(self, parts, covariates):
        tables = sources(parts)
        means = agreed(tables).means
        own = [covariate_sums(table, covariates, means) for table in tables]
        columns = len(NAMES) - len(covariates)
        vector = np.sum([each.vector() for each in own], axis=0)
        B = CovariateSums.of_vector(vector, len(covariates), columns).coefficients(covariates)
        return [Residuals(table, covariates, means, B) for table in tables]

    @pytest.mark.parametrize("covariates", [["age"], ["dose", "age"]])
    def test_residuals_are_those_of_statsmodels_on_the_joint_table(self, parts, covariates):
        whole = pd.concat(parts)
        found = self.partialled(parts, covariates)
        rest = [name for name in NAMES if name not in covariates]
        assert found[0].names == tuple(rest)
        Z = sm.add_constant(whole[covariates])
        expected = np.column_stack([sm.OLS(whole[name], Z).fit().resid for name in rest])
        columns_close(stacked(found), expected, digits_lost(5))

    def test_panels_of_rows_and_columns_agree(self, parts):
        table = self.partialled(parts, ["dose"])[0]
        whole = table.rows(0, 10)
        # A product of another shape is another order of additions.
        columns_close(table.columns(1, 4), whole[:, 1:4], digits_lost(2))

    def test_covariates_that_say_the_same_or_nothing_are_refused(self, parts):
        same = [part.assign(dose=2 * part["age"] + 1) for part in parts]
        with pytest.raises(DataError, match="linearly dependent"):
            self.partialled(same, ["age", "dose"])
        with pytest.raises(DataError, match="'age' is the same in every row"):
            self.partialled([part.assign(age=1.0) for part in parts], ["age"])
        with pytest.raises(ConfigError, match="no covariate 'weight'"):
            self.partialled(parts, ["weight"])
        with pytest.raises(ConfigError, match="every column"):
            self.partialled(parts, list(NAMES))
