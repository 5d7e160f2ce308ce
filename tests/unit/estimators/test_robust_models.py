"""Robust errors of models, as a person asks for them: estimators, a command, and what is asked of a fitted model."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from tests.robust_data import TERMS, by_site, table
from tests.tolerances import DIGITS_MORE_BAR, GLM_BAR, assert_close
from typer.testing import CliRunner

import fedsvd
from fedsvd import FederatedCox, FederatedGLM, FederatedLogisticRegression, FederatedOrdinalRegression
from fedsvd.cli.main import cli
from fedsvd.errors import ConfigError, DataError

pytestmark = pytest.mark.filterwarnings("ignore")
SITES = [own for _, own in table().groupby("site")]
X, GROUPS = sm.add_constant(table()[TERMS]), table()["cluster"]


def reference(outcome="binomial", family=None, **keys):
    return sm.GLM(table()[outcome], X, family or sm.families.Binomial()).fit(tol=1e-14, maxiter=100, **keys)


def clustered():
    return reference(cov_type="cluster", cov_kwds={"groups": GROUPS})


def wards():
    return [own[:, 0] for own in by_site("cluster")]


def tables(*more):
    return [own[[*TERMS, *more]] for own in SITES]


def test_a_column_of_clusters_by_name_is_no_feature_and_groups_are_the_same():
    named = FederatedLogisticRegression(cluster="cluster").fit(tables("cluster", "binomial"), "binomial")
    given = FederatedLogisticRegression().fit(tables(), by_site("binomial"), groups=wards())
    expected = clustered()
    for model in (named, given):
        assert list(model.feature_names_in_) == TERMS
        assert_close(model.inference_[0].standard_errors, expected.bse.to_numpy(), GLM_BAR)
        assert_close(model.inference_[0].p, expected.pvalues.to_numpy(), GLM_BAR)
    assert f"cluster, {GROUPS.nunique()}" in str(named.summary())


@pytest.mark.parametrize("gap", [None, np.nan, pd.NA])
def test_rows_without_a_cluster_are_refused_and_are_no_cluster(gap):
    lost = [own.astype(object) for own in wards()]
    lost[0][3] = gap
    with pytest.raises(DataError, match="the group of some rows is missing"):
        FederatedLogisticRegression().fit(tables(), by_site("binomial"), groups=lost)


def test_one_table_is_divided_with_its_clusters():
    whole = table()[[*TERMS, "cluster", "binomial"]]
    model = FederatedLogisticRegression(cluster="cluster").fit(whole, "binomial")
    assert model.inference_[0].errors.clusters >= GROUPS.nunique(), "a cluster may be cut in two"


@pytest.mark.parametrize("made", [FederatedCox, FederatedOrdinalRegression])
def test_cox_and_ordinal_models_have_the_same_words(made):
    y = by_site("time" if made is FederatedCox else "grade")
    more = {"event": by_site("status")} if made is FederatedCox else {}
    plain = made().fit(tables(), y, **more).inference_[0]
    robust = made(cov_type="HC0").fit(tables(), y, **more).inference_[0]
    groups = made().fit(tables(), y, **more, groups=wards()).inference_[0]
    assert (robust.errors.kind, groups.errors.kind, plain.errors.kind) == ("HC0", "cluster", "nonrobust")
    assert_close(robust.naive, plain.covariance, DIGITS_MORE_BAR)
    assert np.abs(groups.standard_errors / robust.standard_errors - 1.0).max() > 0.01
    with pytest.raises(ConfigError, match="leverage of one linear predictor"):
        made(cov_type="HC2").fit(tables(), y, **more)


def test_a_formula_names_clusters():
    words = "Surv(time, status) ~ age + sex + marker + cluster(cluster)"
    by_words = FederatedCox().fit(tables("time", "status", "cluster"), formula=words).inference_[0]
    given = FederatedCox().fit(tables(), by_site("time"), by_site("status"), groups=wards()).inference_[0]
    assert by_words.errors == given.errors
    assert_close(by_words.standard_errors, given.standard_errors, GLM_BAR)


def test_two_kinds_at_once_joint_names_and_a_ridge_are_refused():
    y = by_site("binomial")
    with pytest.raises(ConfigError, match="two kinds of standard errors"):
        FederatedLogisticRegression(cov_type="HC1").fit(tables(), y, groups=wards())
    with pytest.raises(ConfigError, match="which names others have"):
        FederatedLogisticRegression(clusters="joint").fit(tables(), y, groups=wards())
    with pytest.raises(ConfigError, match="a ridge leaves no standard errors"):
        FederatedLogisticRegression(1.0, cov_type="HC1").fit(tables(), y)


# --- what is asked of a fitted model ----------------------------------------------------------------------------------


def test_tests_and_contrasts_are_of_the_robust_covariance():
    model = FederatedLogisticRegression(cluster="cluster").fit(tables("cluster", "binomial"), "binomial")
    expected = clustered()
    found = model.wald_test(["sex", "marker"])
    other = expected.wald_test(np.eye(4)[2:], scalar=True)
    assert_close([found.statistic, found.p], [float(other.statistic), float(other.pvalue)], GLM_BAR)
    each = model.anova().set_index("term")
    assert_close(each["statistic"].to_numpy(), np.square(expected.tvalues.to_numpy()[1:]), GLM_BAR)
    row = model.contrast({"age": 10.0, "sex": -1.0})
    t = expected.t_test(np.array([0.0, 10.0, -1.0, 0.0]))
    assert_close([row["estimate"][0], row["std.error"][0]], [float(t.effect[0]), float(t.sd[0, 0])], GLM_BAR)
    frame = model.summary_frame()
    assert_close(frame["naive_se"].to_numpy(), reference().bse.to_numpy(), GLM_BAR)


def test_average_marginal_effects_are_of_the_models_own_information():
    """Slopes of all rows are read from the model's covariance, whichever errors are shown; errors are robust."""
    poisson = FederatedGLM("poisson", cov_type="HC0").fit(tables("poisson"), "poisson")
    expected = sm.Poisson(table()["poisson"], X).fit(tol=1e-14, maxiter=100, disp=False, cov_type="HC0").get_margeff()
    found = poisson.marginal_effects()
    assert_close(found["estimate"].to_numpy(), expected.margeff, GLM_BAR)
    assert_close(found["std.error"].to_numpy(), expected.margeff_se, GLM_BAR)
    logit = FederatedLogisticRegression(cov_type="HC0").fit(tables("binomial"), "binomial").marginal_effects()
    mu, slopes = reference().fittedvalues, reference().params.to_numpy()[1:]
    assert_close(logit["estimate"].to_numpy(), float((mu * (1.0 - mu)).mean()) * slopes, GLM_BAR)


def test_likelihoods_do_not_compare_models_with_robust_errors():
    small = FederatedLogisticRegression(cov_type="HC1").fit([own[TERMS[:1]] for own in SITES], by_site("binomial"))
    large = FederatedLogisticRegression(cov_type="HC1").fit(tables(), by_site("binomial"))
    with pytest.raises(ConfigError, match="no test by sums of squares or by likelihoods"):
        small.anova(large)


def test_tidy_of_a_cox_model_has_both_errors_as_broom_has_them():
    cox = FederatedCox(cov_type="HC0").fit(tables(), by_site("time"), by_site("status"))
    frame, model = cox.tidy(), cox.inference_[0]
    assert list(frame.columns[:4]) == ["term", "estimate", "std.error", "robust.se"]
    assert_close(frame["robust.se"].to_numpy(), model.standard_errors, GLM_BAR)
    assert_close(frame["std.error"].to_numpy(), np.sqrt(np.diag(model.naive)), GLM_BAR)


# --- a command, and its folder ----------------------------------------------------------------------------------------


def test_a_command_writes_robust_errors_and_they_are_read_back(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for place, own in enumerate(SITES, start=1):
        own[[*TERMS, "cluster", "binomial"]].to_csv(f"{place}.csv", index=False)
    parties = [word for place in (1, 2, 3) for word in ("--party", f"{place}.csv")]
    words = ["glm", *parties, "--label", "binomial", "--family", "binomial", "--cluster", "cluster", "--name", "wards"]
    said = CliRunner().invoke(cli, [*words, "--id", "cluster"])  # rows of one id are a cluster
    assert said.exit_code == 0, said.output
    model = fedsvd.load("results/wards")
    expected = clustered()
    assert_close(model.inference_[0].standard_errors, expected.bse.to_numpy(), GLM_BAR)
    assert_close(np.sqrt(np.diag(model.inference_[0].naive)), reference().bse.to_numpy(), GLM_BAR)
    assert model.inference_[0].errors.clusters == GROUPS.nunique()
    frame = pd.read_csv("results/wards/coefficients.csv")
    assert list(frame.columns) == ["term", "coef", "se", "z", "p", "low", "high", "naive_se"]
    assert "A name at two parties is two of them" in (tmp_path / "results" / "wards" / "report.html").read_text("utf-8")
