"""An owner says how many digits sums of a model may have, and a plan that takes more is below its policy."""

import pytest

from fedsvd.errors import ConfigError
from fedsvd.policy.policy_file import read_policy
from fedsvd.policy.rules import Policy, findings
from fedsvd.protocol.model import Digits, ModelPlan
from fedsvd.protocol.tasks import Family, Item, Task
from fedsvd.studies.planning import plan_study
from fedsvd.studies.study import Study
from fedsvd.types import SessionId


def rules(digits, policy, columns=4, records=400):
    model = ModelPlan(Family.BINOMIAL, "logit", classes=2, digits=digits)
    plan = plan_study(Study(Task.GLM, targets=1, glm=model), columns, (records,) * 3, SessionId("00" * 16)).plan
    return [each for each in findings(plan, policy) if each.rule == "digits"]


@pytest.mark.parametrize("most", ["table", "more", "all"])
@pytest.mark.parametrize("digits", ["table", "more", "all"])
def test_a_model_of_more_digits_is_refused(most, digits):
    found = rules(Digits(digits), Policy(digits=most))
    order = ("table", "more", "all")
    assert [each.below for each in found] == [True] * (order.index(digits) > order.index(most))


@pytest.mark.parametrize("digits", ["table", "more", "all"])
def test_so_is_a_regression_table_and_coefficients_alone_have_none(digits):
    table = (Item.COEFFICIENTS, Item.INTERCEPT, Item.INFERENCE)
    plans = [
        plan_study(Study(Task.LR, targets=1, **asked), 4, (400,) * 3, SessionId("00" * 16)).plan
        for asked in ({"release": table, "digits": digits}, {})
    ]
    found = [[each.rule for each in findings(plan, Policy(digits="table")) if each.rule == "digits"] for plan in plans]
    assert found == [["digits"] * (digits != "table"), []]


def test_what_auto_decides_is_judged_and_the_sentence_says_what_to_set():
    assert rules(Digits.AUTO, Policy(digits="table")) == []
    (found,) = rules(Digits.AUTO, Policy(digits="more"), 40, 10**6)  # so many hold four times all digits
    assert 'digits = "all"' in found.text
    assert 'Researchers can set digits = "more"' in found.text


def test_the_file_takes_three_words(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text('digits = "table"\n')
    assert read_policy(path).digits == "table"
    path.write_text('digits = "auto"\n')
    with pytest.raises(ConfigError, match=r"digits in .* is not one of table, more, all"):
        read_policy(path)
