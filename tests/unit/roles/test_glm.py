"""Sessions of generalised linear models: statsmodels' table on the joint rows, and an end that is the same for all."""

import numpy as np
import pytest
import statsmodels.api as sm
from sklearn.datasets import load_breast_cancer
from statsmodels.genmod.tests.results.results_glm import Lbw
from tests.tolerances import GLM_BAR, PRINTED_BAR, assert_close, assert_each_close
from tests.unit.statistics.statsmodels_glm import assert_same

from fedsvd.errors import DataError, NotConverged, ReleaseRefused, Separated, VerificationFailed
from fedsvd.protocol.messages import SumShare
from fedsvd.protocol.model import ModelPlan
from fedsvd.protocol.parties import CSP
from fedsvd.protocol.tasks import LINKS, Family, Split, Task
from fedsvd.roles.user import glm
from fedsvd.testing.federation import Federation

STATSMODELS = {
    ("gaussian", "identity"): sm.families.Gaussian(),
    ("binomial", "logit"): sm.families.Binomial(),
    ("binomial", "probit"): sm.families.Binomial(sm.families.links.Probit()),
    ("poisson", "log"): sm.families.Poisson(),
    ("gamma", "log"): sm.families.Gamma(sm.families.links.Log()),
}


def federation(X, labels, about, cuts=None, **asked):
    """Three parties of unequal size."""
    n = len(X)
    rows = np.split(np.arange(n), cuts or [n // 6, n // 2])
    columns = np.column_stack(labels)
    return Federation(
        [np.ascontiguousarray(X[own]) for own in rows],
        Task.GLM,
        Split.HORIZONTAL,
        labels=[columns[own] for own in rows],
        glm=about,
        **asked,
    )


def fitted(X, labels, about, **asked):
    """The one model of a session."""
    (model,) = federation(X, labels, about, **asked).run()[0].models
    return model


def model_of(family, link=None, **keys):
    return ModelPlan(Family(family), link or LINKS[Family(family)][0], **keys)


def reference(family, link, X, y, **settings):
    fit = sm.GLM(y, sm.add_constant(X), family=STATSMODELS[family, link], **settings)
    return fit.fit(tol=1e-13, maxiter=200, tol_criterion="params", use_t=family in ("gaussian", "gamma"))


def breast_cancer():
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, :7]
    return (X - X.mean(axis=0)) / X.std(axis=0), y.astype(float)


def separated(gap=1.0, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat([0.0, 1.0], 60)
    return np.column_stack((rng.normal(size=120) + gap * 20.0 * y, rng.normal(size=120))), y


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_breast_cancer_is_statsmodels(link):
    X, y = breast_cancer()
    assert_same(fitted(X, [y], model_of("binomial", link)), reference("binomial", link, X, y))


def test_affairs_are_statsmodels_poisson_with_an_offset():
    data = sm.datasets.fair.load_pandas().data.iloc[::4]
    X = data[["rate_marriage", "age", "children", "religious"]].to_numpy()
    y, offset = np.rint(data["affairs"].to_numpy()), np.log(data["yrs_married"].to_numpy())
    model = fitted(X, [y, offset], model_of("poisson", offset=True))
    assert_same(model, reference("poisson", "log", X, y, offset=offset))


def test_scottish_votes_are_statsmodels_gamma():
    data = sm.datasets.scotland.load_pandas()
    X, y = data.exog.to_numpy()[:, :4], data.endog.to_numpy()
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    assert_same(fitted(X, [y], model_of("gamma")), reference("gamma", "log", X, y))


def test_star98_has_the_values_of_r():
    """Shares of pupils with the number of pupils as weights; R's values as recorded in statsmodels' own tests."""
    data = sm.datasets.star98.load_pandas()
    passed, failed = data.endog.to_numpy().T
    labels = [passed / (passed + failed), passed + failed]
    model = fitted(data.exog.to_numpy(), labels, model_of("binomial", weighted=True))
    values = [2.9588779262, -0.0168150366, 0.0099254766, -0.0187242148, -0.0142385609, 0.2544871730, 0.2406936644]
    assert np.round(model.coefficients[:7], 10).tolist() == values
    assert (round(model.deviance, 8), round(model.null_deviance, 7)) == (4078.76541772, 34345.3688931)


def test_low_birth_weights_have_the_values_of_r():
    """Hosmer and Lemeshow's births; R's and Stata's values as statsmodels' own tests record them (results_glm.Lbw)."""
    recorded = Lbw()
    X, y = np.asarray(recorded.exog, float)[:, :-1], np.asarray(recorded.endog, float)
    model = fitted(X, [y], model_of("binomial"), cuts=[40, 101])
    assert_each_close(model.coefficients, np.roll(recorded.params, 1), PRINTED_BAR)
    wanted = [recorded.null_deviance, recorded.deviance, recorded.aic_R, recorded.llf]
    assert_each_close([model.null_deviance, model.deviance, model.aic, model.log_likelihood], wanted, GLM_BAR)


def test_a_gaussian_model_is_least_squares_with_weights():
    rng = np.random.default_rng(3)
    X, weights = rng.normal(size=(90, 3)) * [1.0, 1e3, 1e-3], rng.uniform(0.5, 2.0, 90)
    y = X @ [1.0, 2e-3, 3e3] + rng.normal(size=90)
    model = fitted(X, [y, weights], model_of("gaussian", weighted=True))
    assert_same(model, reference("gaussian", "identity", X, y, var_weights=weights))


def test_all_users_end_with_the_same_model_and_panels_change_no_more_than_rounding():
    X, y = breast_cancer()
    about = model_of("binomial")
    users = federation(X, [y], about).run()
    assert len({user.coefficients.tobytes() + user.intercept.tobytes() for user in users}) == 1
    (small,) = federation(X, [y], about, memory=200_000).run()[0].models
    assert_each_close(small.standard_errors, users[0].models[0].standard_errors, GLM_BAR)


def test_each_class_against_the_rest_is_a_model_of_its_own():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(240, 2))
    y = np.argmax(X @ rng.normal(size=(2, 3)) + rng.gumbel(size=(240, 3)), axis=1).astype(float)
    models = federation(X, [y], model_of("binomial", classes=3)).run()[0].models
    for k, model in enumerate(models):
        assert_same(model, reference("binomial", "logit", X, (y == k).astype(float)))


def test_a_multinomial_model_is_statsmodels():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(200, 2))
    y = np.argmax(X @ rng.normal(size=(2, 3)) + rng.gumbel(size=(200, 3)), axis=1).astype(float)
    model = fitted(X, [y], model_of("multinomial", classes=3))
    expected = sm.MNLogit(y, sm.add_constant(X)).fit(disp=0, method="newton", tol=1e-13, maxiter=100)
    assert_close(model.coefficients, expected.params.T, GLM_BAR)
    assert_close(model.standard_errors, expected.bse.T, GLM_BAR)
    assert_each_close([model.log_likelihood, model.aic], [expected.llf, expected.aic], GLM_BAR)


def test_sums_that_are_not_needed_are_not_sent():
    X, y = breast_cancer()
    session = federation(X, [y], model_of("binomial"))
    (model,) = session.run()[0].models
    names = [message.name for sender, _, message in session.sent if isinstance(message, SumShare) and sender.index == 1]
    grams = [name for name in names if name.startswith("gram")]
    assert len(grams) == model.iterations + 2
    # The start, each step, the final coefficients, the null model.
    assert len(names) - len(grams) == model.iterations + 3 + model.halvings
    assert len(grams) < session.plan.glm.evaluations


def test_a_step_that_is_halved_opens_no_gram_matrix():
    # Counts that the first weights overshoot.
    X = np.linspace(-3.0, 3.0, 60)[:, None]
    y = np.where(X[:, 0] > 2.5, 4000.0, 0.0) + np.arange(60) % 2
    session = federation(X, [y], model_of("poisson"), cuts=[15, 35])
    (model,) = session.run()[0].models
    names = {message.name for _, _, message in session.sent if isinstance(message, SumShare)}
    totals, grams = (sum(name.startswith(word) for name in names) for word in ("totals", "gram"))
    assert_each_close(model.coefficients, reference("poisson", "log", X, y).params, GLM_BAR)
    assert totals - grams == 1 + model.halvings


def test_separation_and_no_convergence_are_errors_whose_text_is_the_same_whatever_the_data():
    texts = set()
    for gap in (1.0, 3.0):
        X, y = separated(gap)
        with pytest.raises(Separated) as error:
            federation(X, [y], model_of("binomial")).run()
        texts.add(str(error.value))
    assert len(texts) == 1
    texts = set()
    for seed in (6, 7):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(300, 3))
        y = (rng.random(300) < 1.0 / (1.0 + np.exp(-X @ [0.6, -0.4, 0.2]))).astype(float)
        with pytest.raises(NotConverged) as slow:
            federation(X, [y], model_of("binomial", max_iterations=3)).run()
        texts.add(str(slow.value))
    assert len(texts) == 1


def test_too_few_events_end_the_session_before_a_gram_matrix_is_opened():
    X, y = breast_cancer()
    y[np.flatnonzero(y == 0.0)[7:]] = 1.0
    session = federation(X, [y], model_of("binomial", least_class=10))
    with pytest.raises(ReleaseRefused, match="fewer than this study asks for"):
        session.run()
    names = {message.name for _, _, message in session.sent if isinstance(message, SumShare)}
    assert names == {"totals 1"}
    assert session.released == {}
    federation(X, [y], model_of("binomial", least_class=7)).assemble()


def test_events_are_counted_for_each_coefficient():
    X, y = breast_cancer()
    events = int(min(y.sum(), len(y) - y.sum()))
    for asked, refused in ((events // 8, False), (events // 8 + 1, True)):
        session = federation(X, [y], model_of("binomial", least_events=asked))
        if refused:
            with pytest.raises(ReleaseRefused):
                session.run()
        else:
            session.run()


def test_coefficients_that_are_not_those_of_the_joint_factor_are_refused(monkeypatch):
    """User 1 asks for an evaluation where it likes: weights would vanish but for a few rows."""
    X, y = breast_cancer()
    agree = glm.FittingSession.agree

    def chosen(session, own):
        if session.work.leads:
            own.numbers[:3] += 0.001
        return (yield from agree(session, own))

    monkeypatch.setattr(glm.FittingSession, "agree", chosen)
    session = federation(X, [y], model_of("binomial"))
    with pytest.raises(VerificationFailed, match="do not solve the joint problem"):
        session.run()
    assert session.released == {}


def test_squares_beyond_float64_stop_all_users_by_what_they_opened_and_none_alone():
    X = np.array([[1e200], [2e200], [-1e200], [3.0], [-4.0], [2e200], [1.0], [0.0]])
    y = np.array([0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0])
    with pytest.raises(ArithmeticError, match=r"factor = 0\.001 \} in the map of the table"):
        federation(X, [y], model_of("binomial"), cuts=[3, 5]).run()


def test_a_target_outside_its_family_is_refused_before_anything_is_sent():
    X, y = breast_cancer()
    session = federation(X, [y + 1.0], model_of("binomial"))
    with pytest.raises(DataError, match="party 1"):
        session.run()
    assert session.sent == []


def test_the_csp_ends_with_nothing():
    X, y = breast_cancer()
    session = federation(X, [y], model_of("binomial"))
    session.run()
    assert session.results[CSP] is None
