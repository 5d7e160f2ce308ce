"""What a generalised linear model shows: the CSP a count of iterations, the parties a Gram matrix to each of them."""

import numpy as np
import pytest
from tests.tolerances import assert_close, digits_lost

from fedsvd import FederatedLogisticRegression, Simulation
from fedsvd.errors import ConfigError, ReleaseRefused
from fedsvd.policy.learned import what_each_role_learns
from fedsvd.policy.rules import Policy, findings
from fedsvd.protocol.messages import Message, Relay, SumShare
from fedsvd.protocol.model import ModelPlan
from fedsvd.protocol.parties import CSP, user
from fedsvd.protocol.tasks import Family, Split, Task
from fedsvd.studies.study import Study, expect_legal
from fedsvd.testing.federation import Federation

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
LOGIT = ModelPlan(Family.BINOMIAL, "logit")


def drawn(rows=(200, 150, 120), seed=1, scale=1.0):
    rng = np.random.default_rng(seed)
    tables = [rng.normal(size=(n, 3)) for n in rows]
    shares = [1.0 / (1.0 + np.exp(-(0.4 + X @ [0.8, -0.5, 0.2]))) for X in tables]
    return [scale * X for X in tables], [(rng.random(len(p)) < p).astype(float) for p in shares]


def session(tables, labels, about=LOGIT):
    return Federation(tables, Task.GLM, Split.HORIZONTAL, labels=labels, glm=about)


def weighted_gram(X, y, beta):
    """``sum w [1 X z]^T [1 X z]`` of these rows at coefficients beta."""
    design = np.column_stack((np.ones(len(X)), X))
    eta = design @ beta
    p = 1.0 / (1.0 + np.exp(-eta))
    w = p * (1.0 - p)
    return (design * w[:, None]).T @ design


def test_the_csps_view_of_a_model_is_a_function_of_the_plan_and_of_the_number_of_iterations():
    views = []
    for scale in (1.0, 1000.0):  # the same iterations, other data
        federation = session(*drawn(scale=scale))
        federation.run()
        seen = federation.views.of(CSP, Message)
        views.append([(origin, type(message).__name__, _shapes(message)) for origin, message in seen])
    assert sorted(map(repr, views[0])) == sorted(map(repr, views[1]))


def _shapes(message):
    return [
        (name, getattr(value, "shape", len(value) if isinstance(value, bytes) else value))
        for name, value in vars(message).items()
        if name != "plan" and not isinstance(value, str | bytes)
    ]


def test_every_word_that_the_csp_gets_of_a_model_is_uniform():
    federation = session(*drawn())
    federation.run()
    shares = [message for _, message in federation.views.of(CSP, SumShare)]
    words = np.concatenate([np.ravel(share.payload) for share in shares])
    bits = np.unpackbits(words.view(np.uint8)).reshape(-1, 64).mean(axis=0)
    assert len(words) > 10_000
    # Each bit is a mean of so many fair coins: six deviations.
    assert np.abs(bits - 0.5).max() < 3.0 / np.sqrt(len(words))
    assert len(np.unique(words)) == len(words)


def test_the_csp_learns_how_many_iterations_a_model_needed_and_this_is_stated():
    federation = session(*drawn())
    (model,) = federation.run()[0].models
    names = {message.name for _, message in federation.views.of(CSP, SumShare)}
    assert sum(name.startswith("gram") for name in names) - 2 == model.iterations  # the start and the end are no steps
    assert any("how many iterations" in line for line in what_each_role_learns(federation.plan))


def test_with_two_parties_each_iteration_gives_the_partners_weighted_gram_matrix_and_this_is_stated():
    tables, labels = drawn((200, 150))
    logistic = FederatedLogisticRegression().fit(tables, labels)
    (model,) = logistic.inference_
    joint = np.linalg.inv(model.covariance)
    found = joint - weighted_gram(tables[0], labels[0], model.coefficients)
    assert_close(found, weighted_gram(tables[1], labels[1], model.coefficients), digits_lost(6))
    assert any("Gram matrix of each iteration" in line for line in what_each_role_learns(logistic.plan_))
    with pytest.raises(ReleaseRefused, match="parties"):
        FederatedLogisticRegression(federation=Simulation(policy=Policy(enforce=True))).fit(tables, labels)


def test_parties_see_the_coefficients_of_every_iteration_and_the_result_has_only_the_last_and_this_is_stated():
    federation = session(*drawn())
    results = federation.run()
    sent = [message for sender, _, message in federation.sent if isinstance(message, Relay) and sender == user(1)]
    (model,) = results[0].models
    assert len(sent) >= model.iterations + 1
    held = [value for value in vars(model).values() if isinstance(value, np.ndarray)]
    assert max(array.size for array in held) <= 16  # one covariance, of four coefficients
    assert any("for each iteration" in line for line in what_each_role_learns(federation.plan))


def test_a_plan_that_goes_on_with_few_events_is_below_the_policy():
    tables, labels = drawn((400, 400, 400))
    federation = session(tables, labels)
    federation.run()
    rules = {finding.rule for finding in findings(federation.plan, Policy())}
    assert rules == {"events"}
    strict = ModelPlan(Family.BINOMIAL, "logit", least_class=10, least_events=5)
    other = session(tables, labels, strict)
    other.run()
    assert findings(other.plan, Policy()) == ()
    assert any("fewer than 10 rows" in line for line in what_each_role_learns(other.plan))


def test_few_events_are_refused_by_an_enforced_policy_though_the_plan_cannot_know_them():
    tables, labels = drawn((400, 400, 400))
    for own in labels:
        own[:] = 0.0
        own[:4] = 1.0
    with pytest.raises(ReleaseRefused, match="events for each coefficient"):
        FederatedLogisticRegression(federation=Simulation(policy=Policy(enforce=True))).fit(tables, labels)


def test_a_model_with_few_records_beyond_its_coefficients_is_below_the_policy():
    tables, _ = drawn((4, 4, 4))
    federation = session(tables, [np.tile([0.0, 1.0], 2)] * 3)
    plan = federation.assemble().plan
    assert "freedom" in {finding.rule for finding in findings(plan, Policy())}


def test_split_columns_are_refused_because_iterations_would_span_the_partners_columns():
    study = Study(Task.GLM, Split.VERTICAL, targets=1, glm=LOGIT)
    with pytest.raises(ConfigError, match="one more combination of its partners' columns"):
        expect_legal(study)


def test_the_linear_predictors_of_as_many_iterations_as_columns_give_the_columns():
    """Why they are refused: the partner's partial predictors at p independent coefficients."""
    rng = np.random.default_rng(2)
    theirs, betas = rng.normal(size=(50, 4)), rng.normal(size=(4, 4))
    seen = theirs @ betas  # one column to each iteration
    assert_close(seen @ np.linalg.inv(betas), theirs, digits_lost(6))
