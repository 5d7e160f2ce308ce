"""Mixed models through the real roles: lme4's recorded values, statsmodels, and every degenerate case."""

import numpy as np
import pytest
import statsmodels.api as sm
from tests.kit import kit, r_said
from tests.tolerances import DIGITS_ERRORS_BAR, MIXED_LIKELIHOOD_BAR, SEVEN_DIGITS, STATSMODELS_MIXED_BAR

from fedsvd.errors import DataError, NotConverged
from fedsvd.protocol.model import Digits, ModelPlan
from fedsvd.protocol.openings import expected_bits, granted_bits
from fedsvd.protocol.tasks import Family, Split, Task
from fedsvd.testing.federation import Federation

pytestmark = pytest.mark.filterwarnings("ignore")


def session(tables, labels, digits=Digits.TABLE, **keys):
    about = ModelPlan(Family.MIXED, "identity", digits=digits, **{"beside": ("subject",)} | keys)
    return Federation(tables, Task.MIXED, Split.HORIZONTAL, labels=labels, glm=about)


def drawn(rows=(120, 60, 45), p=2, seed=0, spread=1.0):
    """Visits of persons, five of each; columns off centre, sites of uneven size."""
    rng = np.random.default_rng(seed)
    tables, labels = [], []
    scale, centre, effects = 10.0 ** rng.integers(-1, 3, p), rng.uniform(-20, 20, p), rng.normal(size=p)
    for n in rows:
        X = rng.normal(size=(n, p)) * scale + centre
        person = np.arange(n) // 5
        y = X @ (effects / scale) + spread * rng.normal(size=n)[person] + rng.normal(size=n) + 30.0
        tables.append(X)
        labels.append(np.column_stack((y, person)))
    return tables, labels


STUDIES = {
    "sleep1": ("sleepstudy", "Reaction", ("Days",), False),
    "sleep2": ("sleepstudy", "Reaction", ("Days",), True),
    "orthodont": ("orthodont", "distance", ("age", "female"), False),
    "pbcseq": ("pbcseq", "lbili", ("year", "age", "male"), False),
    "pbcseq2": ("pbcseq", "lbili", ("year", "age", "male"), True),
}


def of_r(name, criterion):
    """What lme4 1.1.31 and lmerTest 3.1.3 of R 4.2.2 printed."""
    return {kind: r_said(name, criterion, kind) for kind in ("coef", "se", "loglik", "vc", "df")}


def sites_of(name):
    file, y, columns, slope = STUDIES[name]
    data = kit(file)
    head, table = list(data.columns), data.to_numpy(float)
    beside = [head.index(column) for column in (y, "id", *columns[: int(slope)])]
    sites = [table[table[:, head.index("site")] == s] for s in np.unique(table[:, head.index("site")])]
    return [own[:, [head.index(column) for column in columns]] for own in sites], [own[:, beside] for own in sites]


@pytest.mark.parametrize("criterion", ["reml", "ml"])
@pytest.mark.parametrize("name", STUDIES)
def test_recorded_values_of_lme4_are_met(name, criterion):
    said, (tables, labels) = of_r(name, criterion), sites_of(name)
    beside = ("subject", "slope") if STUDIES[name][3] else ("subject",)
    model = session(tables, labels, reml=criterion == "reml", beside=beside).run()[0].models[0]
    assert np.abs((model.coefficients - said["coef"]) / said["se"]).max() < 2 * SEVEN_DIGITS  # lme4 stops there
    assert np.abs(model.standard_errors / said["se"] - 1.0).max() < DIGITS_ERRORS_BAR
    assert abs(model.log_likelihood - said["loglik"][0]) < MIXED_LIKELIHOOD_BAR * abs(model.log_likelihood)
    assert np.abs(model.degrees / said["df"] - 1.0).max() < 10 * DIGITS_ERRORS_BAR
    G = model.random
    variances = [G[0, 0], model.scale] if len(G) == 1 else [G[0, 0], G[1, 1], G[1, 0], model.scale]
    np.testing.assert_allclose(variances, said["vc"], rtol=10 * SEVEN_DIGITS)


@pytest.mark.parametrize("reml", [True, False])
def test_random_tables_are_statsmodels(reml):
    tables, labels = drawn(seed=1)
    model = session(tables, labels, reml=reml, digits=Digits.MORE).run()[0].models[0]
    X, L = np.concatenate(tables), np.concatenate(labels)
    site = np.repeat(np.arange(len(tables)), [len(own) for own in tables])
    centre, scale = X.mean(axis=0), X.std(axis=0)
    design = sm.add_constant((X - centre) / scale)
    found = sm.MixedLM(L[:, 0], design, groups=1000 * site + L[:, 1]).fit(reml=reml)
    effects = found.fe_params[1:] / scale
    # Its own errors have the variances' part in them; those of lme4 are the roots of (X^T V^-1 X)^-1.
    between, gram = float(np.squeeze(found.cov_re)), np.zeros((3, 3))
    for group in np.unique(1000 * site + L[:, 1]):
        rows = design[1000 * site + L[:, 1] == group]
        gram += rows.T @ np.linalg.solve(found.scale * np.eye(len(rows)) + between, rows)
    errors = np.sqrt(np.linalg.inv(gram).diagonal())[1:] / scale
    assert np.abs((model.coefficients[1:] - effects) / errors).max() < STATSMODELS_MIXED_BAR
    assert np.abs(model.standard_errors[1:] / errors - 1.0).max() < STATSMODELS_MIXED_BAR
    restricted = np.log(scale).sum() if reml else 0.0  # which depends on the units of the columns
    assert abs(model.log_likelihood - found.llf + restricted) < STATSMODELS_MIXED_BAR
    assert model.clusters == sum(len(np.unique(own[:, 1])) for own in labels)


def test_a_slope_that_is_not_correlated_has_two_variances_and_no_covariance():
    tables, labels = drawn(p=1, seed=3)
    labels = [np.column_stack((own, X[:, 0])) for own, X in zip(labels, tables, strict=True)]
    rng = np.random.default_rng(4)
    for own in labels:
        own[:, 0] += rng.normal(size=len(own))[own[:, 1].astype(int)] * own[:, 2] / np.abs(own[:, 2]).max()
    found = session(tables, labels, beside=("subject", "slope"), correlated=False).run()[0].models[0]
    assert found.random[0, 1] == 0.0
    assert found.random[1, 1] > 0.0
    assert found.random[0, 0] > 0.0


def test_all_users_hold_the_same_model_and_open_what_the_plan_grants():
    tables, labels = drawn(seed=2)
    federation = session(tables, labels)
    results = federation.run()
    first = results[0].models[0]
    for other in results[1:]:
        assert np.array_equal(other.models[0].coefficients, first.coefficients)
        assert np.array_equal(other.models[0].random, first.random)
    plan = federation.plan
    assert results[0].bits <= granted_bits(plan)
    assert results[0].bits <= expected_bits(plan)


@pytest.mark.parametrize("seed", range(3))
def test_groups_that_do_not_differ_are_a_singular_fit_and_least_squares(seed):
    """Where groups are more alike than chance, R says "boundary (singular) fit": the variance is zero."""
    rng = np.random.default_rng(seed)
    tables, labels = [], []
    for n in (80, 60):
        X = rng.normal(size=(n, 1))
        person, noise = np.arange(n) // 4, rng.normal(size=n)
        noise -= np.bincount(person, noise)[person] / 4.0  # every group has the mean zero
        tables.append(X)
        labels.append(np.column_stack((1.0 + 2.0 * X[:, 0] + noise, person)))
    model = session(tables, labels).run()[0].models[0]
    X, y = np.concatenate(tables), np.concatenate(labels)[:, 0]
    ordinary = sm.OLS(y, sm.add_constant(X)).fit()
    assert model.singular
    np.testing.assert_allclose(model.coefficients, ordinary.params, rtol=SEVEN_DIGITS)
    np.testing.assert_allclose(model.standard_errors, ordinary.bse, rtol=DIGITS_ERRORS_BAR)


def test_an_outcome_that_is_constant_is_an_error():
    tables, labels = drawn()
    for own in labels:
        own[:, 0] = 3.0
    with pytest.raises(DataError, match="constant"):
        session(tables, labels).run()


def test_a_slope_of_a_constant_column_is_an_error():
    tables, labels = drawn()
    labels = [np.column_stack((own, np.ones(len(own)))) for own in labels]
    with pytest.raises((DataError, NotConverged), match="constant"):
        session(tables, labels, beside=("subject", "slope")).run()


def test_columns_that_depend_on_each_other_are_named():
    tables, labels = drawn()
    tables = [np.column_stack((own, own[:, 0] + own[:, 1])) for own in tables]
    with pytest.raises(DataError, match="depend on each other"):
        session(tables, labels).run()
