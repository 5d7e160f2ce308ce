"""Tables with broom's names, tests of terms, contrasts and marginal effects are those of statsmodels on joint data."""

import io
import shutil
import zipfile
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.stats import chi2, f
from sklearn.decomposition import PCA
from sklearn.linear_model import RidgeCV
from statsmodels.multivariate.cancorr import CanCorr
from statsmodels.stats.anova import anova_lm
from tests.tolerances import GLM_BAR, RESULT_BAR, STATISTIC_BAR, assert_close, assert_each_close
from typer.testing import CliRunner

import fedsvd
from fedsvd import (
    FederatedCCA,
    FederatedGLM,
    FederatedLinearRegression,
    FederatedLogisticRegression,
    FederatedLSA,
    FederatedPCA,
    FederatedPCR,
    FederatedRidgeCV,
    FederatedSVD,
)
from fedsvd.cli.main import cli
from fedsvd.errors import ConfigError

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
X_OF = ["age", "dose", "C(ward)[T.b]", "C(ward)[T.c]"]
TIDY = ["estimate", "std.error", "statistic", "p.value", "conf.low", "conf.high"]


def joint():
    rng = np.random.default_rng(8)
    n = 420
    ward = rng.integers(0, 3, n)
    X = pd.DataFrame({"age": rng.normal(size=n), "dose": rng.normal(size=n)})
    X[X_OF[2]], X[X_OF[3]] = (ward == 1).astype(float), (ward == 2).astype(float)
    eta = X @ [0.6, -0.4, 0.5, 0.0]
    X["died"] = (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(int)
    X["pressure"], X["visits"] = 3.0 * eta + rng.normal(size=n), rng.poisson(np.exp(0.5 * eta))
    X["stage"] = np.array(["i", "ii", "iii"])[np.argsort(np.argsort(eta + rng.normal(size=n))) // 140]
    return X


JOINT = joint()


def parts(columns):
    rows = np.split(np.arange(len(JOINT)), [150, 300])
    return [JOINT[columns].iloc[own] for own in rows]


def fit(kind, target, features=X_OF):
    return kind.fit(parts(features), parts(target))


def design(features=X_OF):
    return sm.add_constant(JOINT[features])


@pytest.fixture(scope="module")
def logistic():
    return fit(FederatedLogisticRegression(), "died"), sm.Logit(JOINT["died"], design()).fit(disp=0, tol=1e-12)


@pytest.fixture(scope="module")
def linear():
    return fit(FederatedLinearRegression(inference=True), "pressure"), sm.OLS(JOINT["pressure"], design()).fit()


@pytest.fixture(scope="module")
def counts():
    return fit(FederatedGLM("poisson"), "visits"), sm.Poisson(JOINT["visits"], design()).fit(disp=0, tol=1e-12)


def test_tidy_and_glance_have_brooms_names_and_the_numbers_of_statsmodels(logistic, linear):
    for (found, theirs), bar in ((logistic, GLM_BAR), (linear, STATISTIC_BAR)):
        table = found.tidy(level=0.9)
        assert list(table.columns) == ["term", *TIDY]
        assert list(table["term"]) == ["(Intercept)", *X_OF]
        ends = theirs.conf_int(0.1).to_numpy()
        expected = np.column_stack((theirs.params, theirs.bse, theirs.tvalues, theirs.pvalues, ends))
        assert_close(table[TIDY].to_numpy(), expected, bar)
    row = linear[0].glance().iloc[0]
    theirs = linear[1]
    expected = {"r.squared": theirs.rsquared, "adj.r.squared": theirs.rsquared_adj, "sigma": np.sqrt(theirs.scale)}
    expected |= {"statistic": theirs.fvalue, "p.value": theirs.f_pvalue, "df": 4, "logLik": theirs.llf}
    expected |= {"AIC": theirs.aic, "BIC": theirs.bic, "deviance": theirs.ssr, "df.residual": 415, "nobs": 420}
    assert list(row.index) == list(expected)
    assert_each_close(row.to_numpy(float), list(expected.values()), STATISTIC_BAR)
    row, theirs = logistic[0].glance().iloc[0], logistic[1]
    expected = {"null.deviance": -2 * theirs.llnull, "df.null": 419, "logLik": theirs.llf, "AIC": theirs.aic}
    expected |= {"BIC": theirs.bic, "deviance": -2 * theirs.llf, "df.residual": 415, "nobs": 420}
    assert list(row.index) == list(expected)
    assert_each_close(row.to_numpy(float), list(expected.values()), GLM_BAR)


def test_several_targets_and_classes_have_a_column_of_their_own():
    two = FederatedLinearRegression(inference=True).fit(parts(X_OF), parts(["pressure", "visits"]))
    assert list(two.tidy().columns) == ["response", "term", *TIDY]
    assert list(two.glance()["response"]) == ["pressure", "visits"]
    stages = fit(FederatedLogisticRegression(), "stage")
    table = stages.tidy(exponentiate=True)
    theirs = sm.MNLogit(pd.Categorical(JOINT["stage"]).codes, design()).fit(disp=0, tol=1e-12)
    assert list(table["y.level"]) == ["ii"] * 5 + ["iii"] * 5
    assert_each_close(table["estimate"].to_numpy(), np.exp(theirs.params.to_numpy()).T.ravel(), GLM_BAR)
    test = stages.wald_test("age")
    assert (test.df, test.law) == (2, "chi2")
    restriction = np.zeros((2, 10))
    restriction[[0, 1], [1, 6]] = 1.0
    expected = theirs.wald_test(restriction, scalar=True)
    assert_each_close([test.statistic, test.p], [expected.statistic, expected.pvalue], GLM_BAR)


def test_ratios_are_exponentials_of_coefficients_and_of_their_intervals(logistic, linear):
    found, theirs = logistic
    table = found.tidy(exponentiate=True)
    assert_each_close(table["estimate"].to_numpy(), np.exp(theirs.params.to_numpy()), GLM_BAR)
    assert_each_close(table[["conf.low", "conf.high"]].to_numpy(), np.exp(theirs.conf_int().to_numpy()), GLM_BAR)
    assert_each_close(table["std.error"].to_numpy(), theirs.bse.to_numpy(), GLM_BAR)
    summary = found.summary(exponentiate=True)
    assert list(summary.cells) == ["odds ratio", "std error of log", "z", "P>|z|", "2.5%", "97.5%"]
    assert_each_close(summary.cells["odds ratio"], np.exp(theirs.params.to_numpy()), GLM_BAR)
    assert f"{np.exp(theirs.params.iloc[1]):.5g}" in str(summary)
    with pytest.raises(ConfigError, match="no ratio"):
        linear[0].tidy(exponentiate=True)
    with pytest.raises(ConfigError, match="no ratio"):
        fit(FederatedGLM("binomial", link="probit"), "died").summary(exponentiate=True)


def test_wald_tests_of_terms_are_those_of_statsmodels(logistic, linear):
    L = np.eye(5)[3:]
    for (found, theirs), bar in ((logistic, GLM_BAR), (linear, STATISTIC_BAR)):
        expected = theirs.wald_test(L, scalar=True)
        for asked in ("C(ward)", ["C(ward)[T.b]", "C(ward)[T.c]"], L):
            test = found.wald_test(asked)
            assert test.df == 2
            assert_each_close([test.statistic, test.p], [float(expected.statistic), float(expected.pvalue)], bar)
        table = found.anova()
        assert list(table["term"]) == ["age", "dose", "C(ward)"]
        assert_each_close(table["statistic"].iloc[2], float(expected.statistic), bar)
        with pytest.raises(ConfigError, match="no coefficient or term 'height'"):
            found.wald_test("height")
    assert (linear[0].wald_test("age").df_residual, logistic[0].wald_test("age").df_residual) == (415, None)


def test_two_nested_models_are_compared_as_r_does(logistic, linear, counts):
    few = X_OF[:2]
    small, theirs = (
        fit(FederatedLinearRegression(inference=True), "pressure", few),
        sm.OLS(JOINT["pressure"], design(few)),
    )
    expected = anova_lm(theirs.fit(), linear[1]).iloc[1]
    row = small.anova(linear[0]).iloc[0]
    assert (row["df"], row["df.residual"]) == (2, 415)
    assert_each_close([row["statistic"], row["p.value"]], [expected["F"], expected["Pr(>F)"]], STATISTIC_BAR)
    for kind, target, (large, known), model in (
        (FederatedLogisticRegression(), "died", logistic, sm.Logit),
        (FederatedGLM("poisson"), "visits", counts, sm.Poisson),
    ):
        without = model(JOINT[target], design(few)).fit(disp=0, tol=1e-12)
        statistic = 2.0 * (known.llf - without.llf)
        row = fit(kind, target, few).anova(large).iloc[0]
        assert row["df"] == 2
        assert_close(row["statistic"], statistic, GLM_BAR, abs(2 * known.llf))
        assert_close(row["p.value"], chi2.sf(statistic, 2), GLM_BAR, abs(known.llf))
    with pytest.raises(ConfigError, match="not in the second"):
        linear[0].anova(small)
    with pytest.raises(ConfigError, match="more coefficients"):
        small.anova(small)
    with pytest.raises(ConfigError, match="different rows, families or links"):
        fit(FederatedLinearRegression(inference=True), "visits", few).anova(linear[0])
    ridge = FederatedGLM("poisson", alpha=1.0).fit(parts(few), parts("visits"))
    with pytest.raises(ConfigError, match="penalty"):
        ridge.anova(counts[0])


def test_an_aliased_column_has_no_test_and_the_others_are_those_of_the_model_without_it(linear):
    twice = [table.assign(again=table["age"]) for table in parts(X_OF)]
    found = FederatedLinearRegression(inference=True).fit(twice, parts("pressure")).anova()
    assert found.iloc[-1][["term", "df"]].tolist() == ["again", 0]
    assert np.isnan(found["statistic"].iloc[-1])
    assert_each_close(found["statistic"].to_numpy()[:3], linear[0].anova()["statistic"].to_numpy(), STATISTIC_BAR)


def test_contrasts_are_t_tests_of_statsmodels(logistic, linear):
    weights = {"C(ward)[T.b]": 1.0, "C(ward)[T.c]": -1.0}
    for (found, theirs), bar in ((logistic, GLM_BAR), (linear, STATISTIC_BAR)):
        expected = theirs.t_test(np.array([[0, 0, 0, 1, -1], [1, 2, 0, 0, 0]]))
        table = found.contrast([weights, {"(intercept)": 1.0, "age": 2.0}])
        assert list(table["term"]) == ["1 C(ward)[T.b] -1 C(ward)[T.c]", "1 (intercept) +2 age"]
        parts = (expected.effect, expected.sd, expected.tvalue, expected.pvalue, expected.conf_int())
        assert_close(table[TIDY].to_numpy(), np.column_stack([np.squeeze(part) for part in parts]), bar)
        with pytest.raises(ConfigError, match="no coefficient 'height'"):
            found.contrast({"height": 1.0})


def test_marginal_effects_are_those_of_statsmodels(logistic, counts, linear):
    found, theirs = logistic
    average = found.marginal_effects()
    assert_close(average["estimate"].to_numpy(), theirs.get_margeff().margeff, GLM_BAR)
    assert average["std.error"].isna().all()
    at = {"age": 0.5, "dose": -1.0, "C(ward)[T.b]": 0.0, "C(ward)[T.c]": 1.0}
    expected = theirs.get_margeff(atexog={j + 1: value for j, value in enumerate(at.values())})
    assert_close(found.marginal_effects(at)["estimate"].to_numpy(), np.atleast_2d(expected.margeff)[0], GLM_BAR)
    assert_close(found.marginal_effects(at)["std.error"].to_numpy(), np.atleast_2d(expected.margeff_se)[0], GLM_BAR)
    found, theirs = counts
    average, expected = found.marginal_effects(), theirs.get_margeff()
    assert_close(average["estimate"].to_numpy(), expected.margeff, GLM_BAR)
    assert_close(average["std.error"].to_numpy(), expected.margeff_se, GLM_BAR)
    assert_close(linear[0].marginal_effects()["std.error"].to_numpy(), linear[1].bse.to_numpy()[1:], STATISTIC_BAR)
    probit, theirs = fit(FederatedGLM("binomial", link="probit"), "died"), sm.Probit(JOINT["died"], design())
    expected = theirs.fit(disp=0, tol=1e-12).get_margeff(atexog={j + 1: value for j, value in enumerate(at.values())})
    probit_at = probit.marginal_effects(at)
    assert_close(probit_at["estimate"].to_numpy(), np.atleast_2d(expected.margeff)[0], GLM_BAR)
    with pytest.raises(ConfigError, match="at has 1 features"):
        found.marginal_effects({"age": 1.0})
    with pytest.raises(ConfigError, match="do not follow from what this model released"):
        probit.marginal_effects()
    weighted = FederatedGLM("poisson").fit(parts(X_OF), parts("visits"), sample_weight=np.full(420, 2.0))
    with pytest.raises(ConfigError, match="weights or an offset"):
        weighted.marginal_effects()


def test_a_summary_is_latex_html_and_a_word_document(logistic, tmp_path):
    summary = logistic[0].summary(exponentiate=True)
    cells = [cell for row in summary.rows() for cell in row]
    assert r"\toprule" in summary.to_latex()
    assert all(cell in summary.to_latex() for cell in cells)
    assert summary._repr_html_() == summary.to_html()
    content = summary.to_docx(tmp_path / "table.docx")
    assert (tmp_path / "table.docx").read_bytes() == content
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["[Content_Types].xml", "_rels/.rels", "word/document.xml"]
        word = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
        tree = ElementTree.fromstring(archive.read("word/document.xml"))
    rows = [[text.text or "" for text in row.iter(f"{word}t")] for row in tree.iter(f"{word}tr")]
    assert rows[0] == list(summary.cells)  # the corner is empty
    assert [cell for row in rows[1:] for cell in row] == cells
    odd = fit(FederatedGLM("poisson"), "visits")
    odd.feature_names_in_ = np.array(["50% & <b>", "a_b", "{c}", "$d\\"], dtype=object)
    latex = odd.summary().to_latex()
    assert r"50\% \& \textless{}b\textgreater{}" in latex
    assert r"a\_b" in latex
    assert r"\{c\}" in latex
    assert r"\$d\textbackslash{}" in latex


def test_components_are_tidied_as_broom_tidies_prcomp():
    found, twin = FederatedPCA().fit(parts(X_OF)), PCA().fit(JOINT[X_OF])
    table = found.tidy()
    assert list(table.columns) == ["PC", "std.dev", "percent", "cumulative"]
    assert_close(table["std.dev"].to_numpy(), np.sqrt(twin.explained_variance_), RESULT_BAR)
    assert_close(table["cumulative"].to_numpy(), np.cumsum(twin.explained_variance_ratio_), RESULT_BAR)
    rotation = found.tidy("rotation").pivot(index="column", columns="PC", values="value").loc[X_OF]
    assert_close(rotation.to_numpy(), twin.components_.T, RESULT_BAR)
    scores = found.tidy("scores").pivot(index="row", columns="PC", values="value")
    assert_close(scores.to_numpy(), twin.transform(JOINT[X_OF]), RESULT_BAR)
    with pytest.raises(ConfigError, match="not released"):
        FederatedPCA(2, release_spectrum=False).fit(parts(X_OF)).tidy()


@pytest.mark.parametrize("kind", [FederatedSVD, FederatedLSA])
def test_factors_are_tidied_as_broom_tidies_svd(kind):
    found, D = kind(n_components=4).fit(parts(X_OF)), JOINT[X_OF].to_numpy()
    d = np.linalg.svd(D, compute_uv=False)
    table = found.tidy()
    assert list(table.columns) == ["PC", "std.dev", "percent", "cumulative"]
    assert_close(table["std.dev"].to_numpy(), d, RESULT_BAR)
    assert_close(table["percent"].to_numpy(), d**2 / np.sum(d**2), RESULT_BAR)
    assert_close(table["cumulative"].to_numpy(), np.cumsum(d**2) / np.sum(d**2), RESULT_BAR)
    u = found.tidy("u").pivot(index="row", columns="PC", values="value").to_numpy()
    v = found.tidy("v").pivot(index="column", columns="PC", values="value").loc[X_OF].to_numpy()
    assert_close(u * d @ v.T, D, RESULT_BAR)
    with pytest.raises(ConfigError, match="matrix"):
        found.tidy("scores")


@pytest.mark.parametrize(("task", "matrix"), [("pca", "scores"), ("svd", "u")])
def test_rows_that_are_not_in_what_all_share_are_said_to_be_elsewhere(tmp_path, monkeypatch, task, matrix):
    monkeypatch.chdir(tmp_path)
    words = ["--components", "2", "--name", "study"]
    for number, part in enumerate(parts(X_OF)):
        part.to_csv(f"{number}.csv", index=False)
        words += ["--party", f"p{number}={number}.csv"]
    assert CliRunner().invoke(cli, [task, *words]).exit_code == 0
    shutil.rmtree("results/study/parties")  # as a researcher gets it
    with pytest.raises(ConfigError, match=r"not among these results.*load the folder of a party"):
        fedsvd.load("results/study").tidy(matrix)


def test_shares_of_factors_are_not_made_of_some_of_them():
    columns = [[column] for column in X_OF]
    by_columns = FederatedSVD(split="vertical", ids="trust")
    assert "percent" in by_columns.fit([JOINT[own] for own in columns]).tidy()
    assert list(FederatedSVD(2).fit(parts(X_OF)).tidy().columns) == ["PC", "std.dev"]


def test_correlations_are_tidied_with_their_tests():
    X, Y = JOINT[X_OF], JOINT[["pressure", "visits"]]
    table, twin = FederatedCCA(ids="trust").fit([X, Y]).tidy(), CanCorr(Y, X)
    assert list(table.columns) == ["component", "correlation", "wilks", "statistic", "num.df", "den.df", "p.value"]
    assert_each_close(table["correlation"].to_numpy(), twin.cancorr, STATISTIC_BAR)
    wilks = np.array([np.prod(1 - twin.cancorr[i:] ** 2) for i in (0, 1)])
    # Rao's F; of (4, 2) columns its root is 2, of (3, 1) it is 1. statsmodels does not count the means.
    roots, upper = np.array([2.0, 1.0]), np.array([8.0, 3.0])
    lower = (len(JOINT) - 1.5 - 3) * roots - upper / 2 + 1
    statistic = (wilks ** (-1 / roots) - 1) * lower / upper
    expected = [wilks, statistic, upper, lower, f.sf(statistic, upper, lower)]
    assert_each_close(table.iloc[:, 2:].to_numpy().T, expected, STATISTIC_BAR)
    assert list(FederatedCCA(1, ids="trust").fit([X, Y]).tidy().columns) == ["component", "correlation"]


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_chosen_ridge_is_tidied(fit_intercept):
    alphas = [0.1, 10.0, 1000.0]
    found = fit(FederatedRidgeCV(alphas, fit_intercept=fit_intercept), "pressure")
    twin = RidgeCV(alphas, fit_intercept=fit_intercept).fit(JOINT[X_OF], JOINT["pressure"])
    table, whole = found.tidy(), found.glance()
    assert list(table.columns) == ["term", "estimate", "lambda"]
    assert table["term"].tolist() == ["(Intercept)"] * fit_intercept + X_OF
    expected = [twin.intercept_, *twin.coef_] if fit_intercept else twin.coef_
    assert_close(table["estimate"].to_numpy(), np.array(expected), RESULT_BAR)
    assert set(table["lambda"]) == {twin.alpha_}
    assert whole[["lambda.min", "nobs"]].iloc[0].tolist() == [twin.alpha_, len(JOINT)]
    assert_close(whole["cv.error"].to_numpy(), np.array([-twin.best_score_]), RESULT_BAR)


def test_chosen_ridges_of_several_targets_and_of_split_columns_are_tidied():
    two = fit(FederatedRidgeCV(), ["pressure", "visits"]).tidy()
    assert two["response"].tolist() == ["pressure"] * 5 + ["visits"] * 5
    assert two["term"].tolist() == 2 * ["(Intercept)", *X_OF]
    by_columns = FederatedRidgeCV(split="vertical", choose_by="gcv", ids="trust")
    found = by_columns.fit([JOINT[X_OF[:2]], JOINT[X_OF[2:]]], JOINT["pressure"])
    assert found.tidy()["term"].tolist() == ["(Intercept)", *X_OF]
    assert found.glance()["nobs"].tolist() == [len(JOINT)]


def test_ratios_of_overdispersed_counts_have_their_p_values_by_quasi_likelihood():
    rng = np.random.default_rng(3)
    tables = [rng.normal(size=(n, 2)) for n in (150, 200)]
    counts = [rng.negative_binomial(1, 0.3, len(X)) for X in tables]
    found = FederatedGLM("poisson").fit(tables, counts)
    plain, ratios = found.summary(), found.summary(exponentiate=True)
    assert list(ratios.cells)[-1] == list(plain.cells)[-1] == "P>|t| quasi"
    assert ratios.cells["P>|t| quasi"] == plain.cells["P>|t| quasi"]
    assert_close(ratios.cells["rate ratio"], np.exp(plain.cells["coefficient"]), RESULT_BAR)


def test_exponentials_of_a_linear_regression_are_refused_with_a_reason(linear):
    with pytest.raises(ConfigError, match="is no ratio"):
        linear[0].summary(exponentiate=True)


def test_components_and_a_regression_on_them_have_tables_as_models_have(tmp_path):
    found = FederatedPCA(2).fit(parts([*X_OF[:2], "pressure"]))
    table = found.summary()
    assert table.names == ("PC1", "PC2")
    assert table.cells["cumulative"] == tuple(found.tidy()["cumulative"])
    assert "Principal components: 420 rows" in table.to_latex()
    assert "PC1" in table.to_html()
    table.to_docx(tmp_path / "components.docx")
    pcr = FederatedPCR(2).fit(parts(X_OF), parts("pressure"))
    scores = JOINT[X_OF].to_numpy() @ pcr.components_.T
    theirs = sm.OLS(JOINT["pressure"].to_numpy(), sm.add_constant(scores - scores.mean(axis=0))).fit()
    tidy = pcr.tidy()
    assert tidy["term"].tolist() == ["(Intercept)", "component 1", "component 2"]
    assert_each_close(tidy["estimate"], theirs.params, RESULT_BAR)
    assert_each_close(tidy["p.value"], theirs.pvalues, STATISTIC_BAR)
    assert_each_close(pcr.glance()["r.squared"], [theirs.rsquared], STATISTIC_BAR)
    assert_each_close(pcr.wald_test(["component 1", "component 2"]).p, theirs.f_pvalue, STATISTIC_BAR)
