"""From a study to a plan: schemes, masks and windows follow from shapes and the budget."""

import pytest

from fedsvd.errors import ConfigError
from fedsvd.linalg.windows import Form
from fedsvd.protocol.ledger import what_each_role_learns
from fedsvd.protocol.tasks import RELEASED_BY_DEFAULT, Scheme, Split, Task, Trust
from fedsvd.runtime.planning import Study, plan_study
from fedsvd.types import SessionId

H, V = Split.HORIZONTAL, Split.VERTICAL


def planned(m, counts, task=Task.SVD, split=H, **asked):
    return plan_study(Study(task, split, **asked), m, counts, SessionId("s"))


def plan(m, counts, task=Task.SVD, split=H, **asked):
    return planned(m, counts, task, split, **asked).plan


def test_long_parties_are_compressed_and_short_ones_are_not():
    long, short = planned(100, (5000, 50)), planned(100, (90, 50))
    assert (long.plan.scheme, long.plan.compress) == (Scheme.SUM, True)
    assert (short.plan.scheme, short.plan.compress) == (Scheme.MASK, False)
    assert long.why != short.why
    assert long.plan.widths == (100, 50)


def test_a_vertical_regression_is_never_compressed():
    for scheme in ("auto", "sum"):
        found = plan(100, (5, 5), Task.LR, V, targets=1, label_user=1, scheme=scheme)
        assert (found.scheme, found.compress) == (Scheme.MASK, False)


def test_a_factor_that_costs_more_than_it_saves_is_not_made():
    assert plan(21_000, (50_000, 50_000), components=3).scheme is Scheme.MASK
    assert plan(3000, (9000, 9000), memory=1 << 28).scheme is Scheme.MASK


@pytest.mark.parametrize("scheme", Scheme)
def test_a_scheme_that_is_named_is_taken(scheme):
    found = planned(100, (5000, 50), scheme=str(scheme))
    assert found.plan.scheme is scheme
    assert found.why == "as asked for"


def test_the_papers_scheme_has_a_ta_and_blocks():
    found = plan(100, (5000, 50), scheme="paper", block_size=10)
    assert (found.trust, found.left, found.right, found.block) == (Trust.AUTHORITY, Form.BLOCKS, Form.BLOCKS, 10)
    assert not found.compress


@pytest.mark.parametrize(
    ("m", "counts", "left", "right"),
    [
        (4096, (10, 10), Form.HAAR, Form.HAAR),
        (4097, (10, 10), Form.MIXING, Form.HAAR),
        (10, (8192, 8192), Form.HAAR, Form.HAAR),
        (10, (8192, 8193), Form.HAAR, Form.MIXING),
    ],
)
def test_short_sides_have_haar_masks_and_long_ones_mix(m, counts, left, right):
    found = plan(m, counts, scheme="mask")
    assert (found.left, found.right) == (left, right)


def test_windows_fit_the_budget_and_a_budget_without_a_window_is_refused():
    found = plan(10, (8192, 8193), scheme="mask", memory=48 * 10 * 1000)
    assert found.window == 1000
    assert max(window.width for window in found.right_windows) <= 1000
    with pytest.raises(ConfigError, match=r"budget of 239\.5 KiB.*allow at least 1 MiB .245760 bytes"):
        plan(10, (8192, 8193), scheme="mask", memory=48 * 10 * 511)


def test_more_users_make_a_wider_joint_factor():
    """02-protocol: k = 50, m = 1000 gives N = 50,000, which mixes."""
    assert plan(1000, (10_000,) * 2).right is Form.HAAR
    wide = plan(1000, (10_000,) * 50)
    assert (wide.N, wide.right) == (50_000, Form.MIXING)


@pytest.mark.parametrize("task", [Task.SVD, Task.PCA, Task.LSA, Task.LR])
def test_the_release_is_explicit_in_every_plan(task):
    asked = {"targets": 1} if task is Task.LR else {}
    assert plan(10, (20, 20), task, **asked).release == RELEASED_BY_DEFAULT[task]


def test_centring_is_what_the_task_usually_means():
    assert plan(10, (20, 20), Task.PCA).centre
    assert plan(10, (20, 20), Task.LR, targets=1).centre
    assert not plan(10, (20, 20), Task.LR, targets=1, centre=False).centre
    assert not plan(10, (20, 20)).centre


@pytest.mark.parametrize(
    ("split", "said"),
    [
        ("horizontal", "no party has more rows than its table has columns"),
        ("vertical", "no party has more columns than its table has rows"),
    ],
)
def test_the_reason_for_a_scheme_speaks_of_tables_as_their_owners_have_them(split, said):
    study = Study(Task.SVD, Split(split))
    assert said in plan_study(study, 50, (20, 30), SessionId("s")).why
    common = "rows" if split == "vertical" else "columns"
    assert plan_study(study, 20_001, (30_000, 30_000), SessionId("s")).why.startswith(f"20001 {common}: ")


@pytest.mark.parametrize(("split", "rows", "columns"), [("horizontal", 50, 6), ("vertical", 6, 50)])
def test_shapes_in_errors_and_in_the_ledger_are_those_of_the_joint_table(split, rows, columns):
    shape = f"a joint table of {rows} rows and {columns} columns"
    with pytest.raises(ConfigError, match=f"between 1 and 6 for {shape}"):
        plan_study(Study(Task.SVD, Split(split), components=7), 6, (20, 30), SessionId("s"))
    with pytest.raises(ConfigError, match="every party needs rows and columns"):
        plan_study(Study(Task.SVD, Split(split)), 6, (20, 0), SessionId("s"))
    plan = plan_study(Study(Task.SVD, Split(split)), 6, (20, 30), SessionId("s")).plan
    assert shape in what_each_role_learns(plan)[0]
