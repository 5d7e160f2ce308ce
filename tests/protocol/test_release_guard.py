"""The release guard: a test for each rule and what it says; a refusal comes before anything is sent."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.foreign import ONE_SUM

from fedsvd.data.open import open_source
from fedsvd.errors import ReleaseRefused
from fedsvd.linalg.windows import Form
from fedsvd.policy.learned import full_outputs
from fedsvd.policy.rules import Policy, findings, what_each_role_learns
from fedsvd.protocol.model import Digits, ModelPlan
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.table import TablePlan, Variable
from fedsvd.protocol.tasks import Align, Family, Item, Mode, Scheme, Split, Task, Ties, Trust
from fedsvd.randomness.seed import Seed
from fedsvd.studies.parties import PartyData
from fedsvd.studies.run import run_study
from fedsvd.studies.study import Study
from fedsvd.tasks.declaration import declaration_of
from fedsvd.tasks.declared import declared, with_steps
from fedsvd.tasks.options import completed
from fedsvd.transport.loopback import Hub
from fedsvd.types import SessionId

KEY = Seed(bytes(range(32)))


def plan(task=Task.SVD, counts=(200, 300, 400), m=20, **fields):
    """A plan that the default policy has nothing against, unless ``fields`` say otherwise."""
    fields.setdefault("release", declared(task).released)
    fields.setdefault("split", Split.HORIZONTAL)
    fields.setdefault("scheme", Scheme.SUM)
    mode = Mode.A if task is Task.PCR else Mode.B
    fields.setdefault("mode", mode if fields["scheme"] is Scheme.SUM else None)
    fields.setdefault("centre", task is Task.PCA)
    if task in (Task.LR, Task.PCR, Task.PREDICT):
        fields.setdefault("targets", 1)
        fields.setdefault("label_user", 1)
    if task is Task.PREPARE:
        fields.setdefault("least_count", 5)
    if task is Task.FOREIGN:
        fields |= {"scheme": Scheme.SUM, "mode": Mode.A, "split": Split.HORIZONTAL}
        fields["steps"], fields["foreign"] = declaration_of(ONE_SUM).planned({}, m, len(counts))
    if task is Task.CCA:
        m = max(m, sum(counts) + 11)
    if task is Task.GLM:
        fields |= {"scheme": Scheme.SUM, "mode": Mode.A, "split": Split.HORIZONTAL, "centre": True}
        fields["glm"] = ModelPlan(Family.BINOMIAL, "logit", least_class=10, least_events=5)
    if task is Task.COX:
        fields |= {"scheme": Scheme.SUM, "mode": Mode.A, "split": Split.HORIZONTAL}
        about = {"ties": Ties.EFRON, "digits": Digits.TABLE, "least_class": 10, "least_events": 5}
        fields["glm"] = ModelPlan(Family.COX, "log", **about)
    if task is Task.SURVIVAL:
        fields |= {"scheme": Scheme.SUM, "mode": Mode.A, "split": Split.HORIZONTAL}
        fields["options"] = completed(task, (("groups", "[]"), ("times", "[1.0, 2.0]")))
    if task is Task.ORDINAL:
        fields |= {"scheme": Scheme.SUM, "mode": Mode.A, "split": Split.HORIZONTAL}
        about = {"classes": 3, "digits": Digits.TABLE, "least_class": 10, "least_events": 5}
        fields["glm"] = ModelPlan(Family.ORDINAL, "logit", **about)
    if task is Task.MIXED:
        fields |= {"scheme": Scheme.SUM, "mode": Mode.A, "split": Split.HORIZONTAL, "centre": True}
        fields["glm"] = ModelPlan(Family.MIXED, "identity", digits=Digits.TABLE, beside=("subject",))
    if task is Task.PROPENSITY:
        fields |= {"scheme": Scheme.SUM, "mode": Mode.A, "split": Split.HORIZONTAL, "centre": True, "robust": "HC0"}
        about = {"digits": Digits.TABLE, "least_class": 10, "least_events": 5, "beside": ("treatment",)}
        fields["glm"] = ModelPlan(Family.PROPENSITY, "logit", effect="gaussian", **about)
        fields["options"] = completed(task, ())
    if task is Task.DESCRIBE:
        fields |= {"scheme": Scheme.SUM, "mode": Mode.A, "split": Split.HORIZONTAL}
        fields["table"] = TablePlan((Variable("sex", ("f", "m")), Variable("age", (), 18.0, 99.0)), digits=Digits.TABLE)
    if task is Task.MATCH:
        m, fields = 1, {**fields, "scheme": Scheme.MASK, "mode": None, "align": Align.ECDH, "least_overlap": 10}
    bare = SessionPlan(
        SessionId("s"), task, trust=Trust.PEERS, m=m, counts=counts, **declared(task).facts(fields["split"]), **fields
    )
    return bare if task is Task.PREPARE else with_steps(bare)


def found(asked, policy=None):
    return {finding.rule: finding for finding in findings(asked, policy or Policy())}


@pytest.mark.parametrize("task", list(Task))
def test_a_plan_of_three_with_enough_records_is_not_found_wanting(task):
    # A regression on components has no other way than to open the joint Gram matrix: its owner is asked.
    policy = Policy(foreign={"one-sum": "sha256:..."})
    assert set(found(plan(task), policy)) == ({"mode"} if task is Task.PCR else set())


def test_nothing_foreign_is_allowed_unless_it_is_named():
    asked = plan(Task.FOREIGN)
    for policy in (Policy(), Policy.permissive(), Policy(tasks=tuple(Task)), Policy(foreign={"other": "sha256:..."})):
        assert found(asked, policy)["foreign"].below
        assert "fedsvd tasks show one-sum" in found(asked, policy)["foreign"].text
    assert found(asked, Policy(tasks=(), foreign={"one-sum": "sha256:..."})) == {}
    assert found(plan(Task.FOREIGN, (200, 300)), Policy(foreign={"one-sum": "sha256:..."})).keys() == {"parties"}


def test_the_ledger_of_a_foreign_task_has_its_own_sentences_and_the_words_of_what_is_enforced():
    lines = what_each_role_learns(plan(Task.FOREIGN, m=7))
    assert "Every party learns the total of every feature: 7 numbers of 53 bits." in lines
    assert "In all, every party learns at most 7 joint numbers of one-sum, 371 bits." in lines
    enforced = (
        "An honest party's software sends nothing its plan does not declare, and an honest CSP passes on nothing "
        "undeclared; what the code of an installed task computes from its owner's table, within the declared numbers, "
        "is for the owner to read."
    )
    assert enforced in lines


# Parties.


def test_full_outputs_want_three_parties():
    finding = found(plan(counts=(200, 300)))["parties"]
    assert finding.below
    assert finding.text == (
        "U and S go to 2 parties, 3 are asked for: either can compute the other's Gram matrix (20 x 20) exactly, and "
        "often its records"
    )


def test_two_parties_are_enough_with_explicit_consent():
    assert found(plan(counts=(200, 300)), Policy(consent_to_two=True)) == {}


def test_a_policy_may_want_more_parties():
    finding = found(plan(), Policy(parties_for_full=5))["parties"]
    assert "3 parties, 5 are asked for: each can compute the sum of the other 2 Gram matrices exactly" in finding.text


def test_top_directions_are_said_to_be_just_that():
    finding = found(plan(Task.LSA, (200, 300), components=4))["parties"]
    assert "in the top 4 of 20 directions" in finding.text


def test_a_few_components_without_the_spectrum_may_go_to_two():
    assert found(plan(Task.PCA, (200, 300), components=4)) == {}


def test_with_the_spectrum_they_may_not():
    release = (*declared(Task.PCA).released, Item.SPECTRUM)
    assert set(found(plan(Task.PCA, (200, 300), components=4, release=release))) == {"parties"}


@pytest.mark.parametrize("components", [None, 11, 20])
def test_more_than_half_of_all_components_are_as_good_as_the_spectrum(components):
    asked = plan(Task.PCA, (200, 300), components=components)
    assert full_outputs(asked)
    assert "as good as U and S here" in found(asked)["parties"].text


def test_so_are_more_components_than_the_others_have_records():
    """The rank of what is unknown is then below that of what is known (tests/adversary/test_outputs.py)."""
    assert set(found(plan(Task.PCA, (200, 12), m=40, components=16))) == {"parties", "records"}
    assert found(plan(Task.PCA, (200, 17), m=40, components=16)) == {}


# Records.


def test_directions_that_are_opened_to_show_the_order_count_like_components():
    """3 of 200 components and 16 directions outside: partners with 18 records are determined by them."""
    asked = plan(Task.PCA, (182, 9, 9), m=200, components=3, release=(Item.COMPONENTS,))
    assert full_outputs(asked)
    assert not full_outputs(replace(asked, counts=(180, 10, 10)))


def test_the_ledger_says_what_is_opened_to_show_the_order():
    def lines(m, *release, mode=Mode.B):
        asked = plan(Task.PCA, (300, 300, 300), m=m, components=4, release=(Item.COMPONENTS, *release), mode=mode)
        return [line for line in what_each_role_learns(asked) if "outside of U" in line]

    assert lines(200) == [
        "To show that the vectors of the CSP lead, every party sees the joint Gram matrix outside of U in 16 of 196 "
        "directions, the largest ones there among them, to 16 bits."
    ]
    assert lines(200, Item.SPECTRUM) == [
        "Where the total variance does not show that the vectors of the CSP lead, every party sees the joint Gram "
        "matrix outside of U in 16 of 196 directions, the largest ones there among them, to 16 bits."
    ]
    assert lines(20) == [
        "To show that the vectors of the CSP lead, every party sees how much of the variance is outside of U."
    ]
    assert lines(20, Item.SPECTRUM) == []
    assert lines(200, mode=Mode.A) == []


def test_full_outputs_want_a_hundred_records_of_each_party():
    finding = found(plan(counts=(99, 200, 300)))["records"]
    assert finding.below
    assert finding.text.startswith("party 1 brings 99 records, 100 are asked for")
    assert found(plan(counts=(100, 200, 300))) == {}


def test_one_record_can_be_computed_and_the_owner_is_told_so():
    (finding,) = findings(plan(counts=(200, 1, 300)), Policy())
    assert finding.text == (
        "party 2 brings 1 record, 100 are asked for: the others, who may pool what they hold, can compute it up to its "
        "sign"
    )
    text = found(plan(counts=(200, 1)))["records"].text
    assert "the other party can compute it up to its sign" in text


@pytest.mark.parametrize("task", [Task.PCA, Task.LR])
def test_components_and_coefficients_want_ten(task):
    components = 3 if task is Task.PCA else None
    assert found(plan(task, (10, 200, 300), components=components)) == {}
    assert (
        "party 1 brings 9 records, 10 are asked for"
        in found(plan(task, (9, 200, 300), components=components))["records"].text
    )


def test_where_columns_are_split_columns_are_counted():
    asked = plan(Task.LR, (4, 12), m=500, split=Split.VERTICAL, scheme=Scheme.MASK)
    assert found(asked)["records"].text.startswith("party 1 brings 4 columns, 10 are asked for")


def test_every_party_that_is_short_gets_a_finding_of_its_own():
    short = [finding.text[:7] for finding in findings(plan(counts=(1, 500, 20)), Policy())]
    assert short == ["party 1", "party 3"]


# Components, tasks, schemes.


def test_a_policy_may_limit_components():
    assert found(plan(components=8), Policy(most_components=8)) == {}
    finding = found(plan(components=9), Policy(most_components=8))["components"]
    assert finding.text == "9 components are released, 8 are allowed at most"
    assert "components" in found(plan(), Policy(most_components=19))  # a full SVD of 20 rows


def test_a_policy_may_forbid_tasks():
    finding = found(plan(Task.LR), Policy(tasks=(Task.PCA, Task.SVD)))["task"]
    assert finding.text == "the task lr is not among those allowed (pca, svd)"


def test_a_policy_may_forbid_schemes_and_the_finding_says_how_to_allow_one():
    finding = found(plan(), Policy(schemes=(Scheme.MASK,)))["scheme"]
    assert finding.below
    assert 'schemes = ["mask", "sum"] into policy.toml' in finding.text


def parties(*counts):
    rng = np.random.default_rng(4)
    return [PartyData(open_source(rng.standard_normal((n_i, 8)))) for n_i in counts]


@pytest.fixture
def sent(monkeypatch):
    """Everything that any party sends."""
    said, push = [], Hub.push

    def noted(self, origin, to, message):
        said.append(message)
        push(self, origin, to, message)

    monkeypatch.setattr(Hub, "push", noted)
    return said


@pytest.mark.parametrize("scheme", Scheme)
def test_a_scheme_that_an_enforced_policy_leaves_out_is_refused_before_anything_is_sent(scheme, sent):
    asked = Study(Task.SVD, Split.HORIZONTAL, scheme=scheme, components=2)
    others = tuple(other for other in Scheme if other is not scheme)
    with pytest.raises(ReleaseRefused, match=f"the scheme {scheme} is not among those allowed"):
        run_study(asked, parties(100, 100, 100), policy=Policy(enforce=True, schemes=others))
    assert sent == []
    run_study(asked, parties(100, 100, 100), policy=Policy(enforce=True))
    assert sent


@settings(max_examples=50)
@given(
    st.sampled_from(list(Task)),
    st.lists(st.integers(1, 500), min_size=2, max_size=5),
    st.sampled_from([Scheme.SUM, Scheme.MASK]),
    st.sampled_from(list(Split)),
    st.integers(1, 60),
)
def test_a_permissive_policy_finds_nothing_below_it_and_every_plan_has_its_ledger(task, counts, scheme, split, m):
    asked = plan(task, tuple(counts), m=m, scheme=scheme, split=split)
    below = {finding.rule for finding in findings(asked, Policy.permissive()) if finding.below}
    assert below == ({"foreign"} if task is Task.FOREIGN else set())
    lines = what_each_role_learns(asked)
    assert any(line.startswith("The CSP ") for line in lines)
    assert all(line.endswith(".") for line in lines)


# The ledger.


def test_the_ledger_speaks_of_this_plan():
    def lines(*args, **fields):
        return "\n".join(what_each_role_learns(plan(*args, **fields)))

    shapes = "the shapes (3 parties, a joint table of 900 rows and 20 columns)"
    ratios = "ratios of the singular values; nothing else of the data."
    assert f"The CSP learns {shapes} and {ratios}" in lines()
    assert f"The CSP learns {shapes}, and whether the session was stopped; nothing of the data." in lines(mode=Mode.A)
    regression = "ratios of the features' singular values, how large the residual is against the features, and the"
    assert f"The CSP learns {shapes}, {regression} coefficients plus a secret shift" in lines(Task.LR)
    masked = f"The CSP learns the singular values up to one unknown factor, {shapes[4:]}"
    assert f"{masked}, nothing else.\n" in lines(scheme=Scheme.MASK)
    mixed = lines(scheme=Scheme.MASK, right=Form.MIXING)
    assert f"{masked}, and, mixed over both sides, what the masks do not hide of the vectors; " in mixed
    assert "that this is nothing more is tested, and assumed, not proven." in mixed
    split = lines(Task.LR, split=Split.VERTICAL, scheme=Scheme.MASK)
    assert "shapes (3 parties, a joint table of 20 rows and 900 columns), nothing else of the features." in split
    assert "Every party can compute the sum of the others' Gram matrices (20 x 20)." in lines()
    assert "With two parties, each can compute the other's Gram matrix exactly" in lines(counts=(200, 300))
    assert "Gram matrix times U, but for 4 numbers" in lines(Task.PCA, (200, 300), components=4)
    assert "With two parties" not in lines()
    assert "Every party learns the joint mean of each of the 20 features." in lines(Task.PCA, components=4)
    assert "The CSP learns the residual norm, and the null space when rank is lost" in split
    opened = lines(Task.LR, mode=Mode.A)
    assert "All parties will hold the joint Gram matrix of features and labels (21 x 21), with it all" in opened
    assert [text.count("joint Gram matrix") for text in (opened, lines(mode=Mode.A))] == [1, 1]
    assert "trusted authority" not in lines()
    assert "The trusted authority sees shapes and keys" in "\n".join(
        what_each_role_learns(replace(plan(), trust=Trust.AUTHORITY))
    )
    two = lines(Task.PREDICT, (5, 6), split=Split.VERTICAL, label_user=2)
    assert "party 2 learns the other's partial score of every record" in two
    assert "nothing of scores" in two
