"""From a study to a plan: schemes, masks and windows follow from shapes and the budget."""

from dataclasses import replace

import pytest

from fedsvd.errors import ConfigError, StorageError
from fedsvd.linalg.windows import Form
from fedsvd.policy.learned import what_each_role_learns
from fedsvd.protocol.budget import DEFAULT_MEMORY, memory_of_sums
from fedsvd.protocol.tasks import Item, Mode, Scheme, Split, Task
from fedsvd.studies.planning import expect_machine, plan_study
from fedsvd.studies.study import Study
from fedsvd.tasks.declared import declared
from fedsvd.types import SessionId

H, V = Split.HORIZONTAL, Split.VERTICAL


def planned(m, counts, task=Task.SVD, split=H, **asked):
    return plan_study(Study(task, split, **asked), m, counts, SessionId("s"))


def plan(m, counts, task=Task.SVD, split=H, **asked):
    return planned(m, counts, task, split, **asked).plan


@pytest.mark.parametrize(
    ("split", "m", "counts", "scheme"),
    [
        (H, 100, (5000, 50), Scheme.SUM),
        (H, 100, (9, 5), Scheme.SUM),  # however few the records: rows are split and the side is short
        (H, 4096, (9, 5), Scheme.SUM),
        (H, 4097, (9, 5), Scheme.MASK),
        (H, 5000, (5000, 9), Scheme.SUM),
        (H, 16_384, (9000, 9000), Scheme.SUM),
        (H, 16_385, (9000, 9000), Scheme.MASK),
        (V, 100, (60, 40), Scheme.SUM),
        (V, 100, (60, 39), Scheme.MASK),
        (V, 1000, (25_000_000, 25_000_000), Scheme.SUM),  # the paper's 1K x 50M
        (V, 50_000, (10, 10), Scheme.MASK),
    ],
)
def test_gram_matrices_are_summed_where_the_common_side_is_short(split, m, counts, scheme):
    """Section 1 of the specification: rows of the joint matrix against W = sum of min(n_i, m)."""
    assert plan(m, counts, split=split, components=5, memory=1 << 40).scheme is scheme


@pytest.mark.parametrize(
    ("m", "counts", "asked", "scheme"),
    [
        (8000, (10_000,) * 3, {"components": 10}, Scheme.STEPS),
        (1000, (10_000,) * 2, {"components": 5}, Scheme.STEPS),
        (512, (10_000,) * 2, {"components": 5}, Scheme.SUM),  # few features keep their way
        (1000, (10_000,) * 2, {"components": 50}, Scheme.SUM),  # many components take many directions
        (1000, (19_000, 1000), {"components": 5}, Scheme.SUM),  # the others of the larger party have few records
        (8000, (10_000,) * 3, {"components": 10, "mode": Mode.B}, Scheme.SUM),
        (8000, (10_000,) * 3, {"components": None}, Scheme.SUM),
        (8000, (10_000,) * 3, {"components": 10, "task": Task.PCA}, Scheme.SUM),  # without singular values
        (8000, (10_000,) * 3, {"components": 10, "memory": 1 << 23}, Scheme.MASK),
        (8000, (10_000,) * 3, {"components": 10, "split": V}, Scheme.SUM),
        (8000, (10_000,) * 3, {"components": 10, "task": Task.PCR, "targets": 1}, Scheme.STEPS),
        (8000, (10_000,) * 3, {"components": 10, "task": Task.PCR, "targets": 1, "scheme": "sum"}, Scheme.SUM),
        (8000, (1000,) * 3, {"components": 10, "task": Task.PCR, "targets": 1}, Scheme.SUM),
    ],
)
def test_the_top_of_many_features_is_found_by_steps_where_that_is_quicker_and_records_are_many(
    m, counts, asked, scheme
):
    found = plan(m, counts, **asked)
    assert found.scheme is scheme
    if scheme is Scheme.STEPS:
        assert found.mode is Mode.A
        assert "many features" in found.reason


def test_a_vertical_regression_is_masked_and_a_horizontal_one_summed():
    vertical = {"task": Task.LR, "split": V, "targets": 1, "label_user": 1}
    assert plan(100, (5, 5), **vertical).scheme is Scheme.MASK
    with pytest.raises(ConfigError, match="long common side"):
        plan(100, (5, 5), scheme="sum", **vertical)
    assert plan(10, (50, 50), Task.LR, targets=1).scheme is Scheme.SUM
    with pytest.raises(ConfigError, match="sum family"):
        plan(10, (50, 50), Task.LR, targets=1, scheme="mask")


def test_a_gram_matrix_that_does_not_fit_the_memory_is_not_summed():
    least = memory_of_sums(plan(3000, (9000, 9000), memory=1 << 40, components=30, task=Task.LSA), declared(Task.LSA).c)
    assert plan(3000, (9000, 9000), memory=least, components=30, task=Task.LSA).scheme is Scheme.SUM
    assert plan(3000, (9000, 9000), memory=least - 1, components=30, task=Task.LSA).scheme is Scheme.MASK
    for asked in ({"scheme": "sum"}, {"mode": Mode.B}):
        with pytest.raises(StorageError, match=rf'{least} bytes.* or set scheme = "mask"'):
            plan(3000, (9000, 9000), memory=least - 1, components=30, task=Task.LSA, **asked)


WITH_SPECTRUM = (Item.COMPONENTS, Item.MEAN, Item.SPECTRUM)


@pytest.mark.parametrize(
    ("task", "asked", "mode"),
    [
        (Task.SVD, {}, Mode.A),
        (Task.SVD, {"components": 10}, Mode.A),  # all there are
        (Task.SVD, {"components": 9}, Mode.B),
        (Task.LSA, {"components": 2}, Mode.B),
        (Task.PCA, {}, Mode.B),  # the spectrum is not released
        (Task.PCA, {"release": WITH_SPECTRUM}, Mode.A),
        (Task.PCA, {"release": WITH_SPECTRUM, "components": 4}, Mode.B),
        (Task.LR, {"targets": 1}, Mode.B),
        (Task.LR, {"targets": 1, "mode": Mode.A}, Mode.A),
        (Task.SVD, {"mode": Mode.B}, Mode.B),
        (Task.SVD, {"scheme": "mask"}, None),
    ],
)
def test_users_open_the_sum_where_the_release_determines_it_or_where_that_is_asked_for(task, asked, mode):
    assert plan(10, (50, 60), task, **asked).mode is mode


def test_a_mode_outside_the_sum_family_is_refused():
    with pytest.raises(ConfigError, match="leave mode out"):
        plan(10, (50, 60), scheme="mask", mode=Mode.B)


@pytest.mark.parametrize(("old", "new"), [("compressed", "sum"), ("mixing", "mask"), ("aligned", "mask")])
def test_the_words_of_protocol_1_are_refused_with_the_new_one(old, new):
    with pytest.raises(ConfigError, match=f'"{new}"'):
        plan(10, (50, 60), scheme=old)


@pytest.mark.parametrize("scheme", Scheme)
def test_a_scheme_that_is_named_is_taken(scheme):
    found = planned(100, (5000, 50), scheme=str(scheme), components=5)
    assert found.plan.scheme is scheme
    assert found.why.split("; ")[0] == "as asked for"


def test_the_papers_scheme_is_refused_with_where_it_is():
    with pytest.raises(ConfigError, match="fedsvd-lab"):
        plan(100, (5000, 50), scheme="paper", block_size=10)


@pytest.mark.parametrize(
    ("m", "counts", "left", "right"),
    [
        (4096, (10, 10), Form.HAAR, Form.HAAR),
        (4097, (10, 10), Form.MIXING, Form.HAAR),
        (10, (4096, 4096), Form.HAAR, Form.HAAR),
        (10, (4096, 4097), Form.HAAR, Form.MIXING),
    ],
)
def test_short_sides_have_haar_masks_and_long_ones_mix(m, counts, left, right):
    found = plan(m, counts, scheme="mask")
    assert (found.left, found.right) == (left, right)


def test_a_budget_without_a_row_or_a_column_is_refused():
    wide = {"scheme": "mask", "components": 3}
    assert plan(10, (8192, 8193), **wide, memory=160 * 16_385).right is Form.MIXING
    with pytest.raises(StorageError, match="a row of 16385 columns"):
        plan(10, (8192, 8193), **wide, memory=160 * 16_385 - 1)
    assert plan(100_003, (5, 6), **wide, memory=32 * 100_003).left is Form.MIXING
    with pytest.raises(StorageError, match="a column of 100003 rows"):
        plan(100_003, (5, 6), **wide, memory=32 * 100_003 - 1)


def test_memory_changes_no_mask_and_a_plan_that_does_not_fit_is_refused():
    forms = {
        (p.left, p.right, p.block)
        for p in (plan(10, (8192, 8193), scheme="mask", memory=m) for m in (1 << 26, 1 << 34))
    }
    assert len(forms) == 1
    with pytest.raises(StorageError, match="allow at least"):
        plan(10, (8192, 8193), scheme="mask", memory=480_000)


@pytest.mark.parametrize("task", [Task.SVD, Task.PCA, Task.LSA, Task.LR])
def test_the_release_is_explicit_in_every_plan(task):
    asked = {"targets": 1} if task is Task.LR else {}
    assert plan(10, (20, 20), task, **asked).release == declared(task).released


def test_centring_is_what_the_task_usually_means():
    assert plan(10, (20, 20), Task.PCA).centre
    assert plan(10, (20, 20), Task.LR, targets=1).centre
    assert not plan(10, (20, 20), Task.LR, targets=1, centre=False).centre
    assert not plan(10, (20, 20)).centre


def test_the_reason_says_what_decided():
    assert planned(50, (20, 30)).why.startswith("the common side is short (50): an upload of")
    assert planned(20_001, (30_000, 30_000), components=30).why.startswith("the common side is long (20001,")
    assert planned(50, (20, 30)).plan.reason == planned(50, (20, 30)).why


def test_an_unset_budget_is_a_law_of_public_shapes():
    """Section 1 of the specification: max(2 GiB, c M^2), c by task; 2 GiB in the mask family."""
    assert plan(5000, (9000, 9000)).memory == DEFAULT_MEMORY == 2 << 30
    assert plan(6000, (9000, 9000)).memory == 80 * 6000**2
    assert plan(6000, (9000, 9000), Task.LR, targets=1).memory == 104 * 6001**2
    assert plan(6000, (9000, 9000), scheme="mask", components=5).memory == 2 << 30
    assert plan(6000, (9000, 9000), memory=4 << 30).memory == 4 << 30


def test_a_machine_that_lacks_the_memory_refuses_the_plan_and_does_not_change_it():
    study = Study(Task.LR, H, targets=1)
    made = plan_study(study, 12_000, (9000, 9000), SessionId("s")).plan
    expect_machine(study, made, 2 * made.memory)
    expect_machine(study, made, None)
    with pytest.raises(StorageError, match="half of the memory of this machine"):
        expect_machine(study, made, 2 * made.memory - 2)
    expect_machine(replace(study, memory=made.memory), made, made.memory)  # its author knows the machine


@pytest.mark.parametrize(("split", "rows", "columns"), [("horizontal", 50, 6), ("vertical", 6, 50)])
def test_shapes_in_errors_and_in_the_ledger_are_those_of_the_joint_table(split, rows, columns):
    shape = f"a joint table of {rows} rows and {columns} columns"
    with pytest.raises(ConfigError, match=f"between 1 and 6 for {shape}"):
        plan_study(Study(Task.SVD, Split(split), components=7), 6, (20, 30), SessionId("s"))
    with pytest.raises(ConfigError, match="every party needs rows and columns"):
        plan_study(Study(Task.SVD, Split(split)), 6, (20, 0), SessionId("s"))
    plan = plan_study(Study(Task.SVD, Split(split)), 6, (20, 30), SessionId("s")).plan
    assert shape in what_each_role_learns(plan)[0]


def test_by_steps_the_budget_holds_a_basis_whatever_the_machine():
    """A law of public shapes: 2 GiB, and 8 (3 m + max n_i) bytes for each direction of the least basis."""
    small = plan(2000, (5000, 50), scheme="steps", components=5)
    assert small.memory == 2 << 30
    large = plan(10_000_000, (5000, 50), scheme="steps", components=10)
    assert large.memory == 8 * (3 * 10_000_000 + 5000) * (18 + 3 * 10)
    with pytest.raises(StorageError, match="48 directions of 200000 features"):
        plan(200_000, (5000, 50), scheme="steps", components=10, memory=1 << 27)
