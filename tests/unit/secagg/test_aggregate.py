"""The running sum takes one share of each user, in any order, and gives nothing away before the last."""

import ast
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from fedsvd.errors import ConfigError, LocalProtocolError, RepeatedShare, ShapeError
from fedsvd.secagg.aggregate import RunningSum

SHARE = np.arange(6, dtype=np.uint64).reshape(2, 3)


def test_the_sum_wraps_modulo_2_to_the_64():
    running = RunningSum((1,), 3)
    for user, word in ((2, 2**64 - 1), (1, 2**63), (3, 2**63 + 5)):
        running.add(user, np.array([word], np.uint64))
    assert running.total().tolist() == [4]


def test_a_sum_knows_who_is_missing_and_is_not_read_before_all_are_in():
    running = RunningSum((2, 3), 3)
    for user, missing in ((3, (1, 2)), (1, (2,))):
        running.add(user, SHARE)
        assert running.missing == missing
        assert not running.complete
        with pytest.raises(LocalProtocolError):
            running.total()
    running.add(2, SHARE)
    assert running.complete
    np.testing.assert_array_equal(running.total(), 3 * SHARE)


def test_refused_shares_change_nothing():
    running = RunningSum((2, 3), 2)
    running.add(1, SHARE)
    refused = [
        (1, SHARE, RepeatedShare),
        (1, SHARE + np.uint64(1), RepeatedShare),
        (2, SHARE.T, ShapeError),
        (2, SHARE[:1], ShapeError),
        (2, SHARE[0], ShapeError),
        (2, SHARE[None], ShapeError),
        (2, SHARE.astype(np.int64), ShapeError),
        (2, SHARE.astype(np.float64), ShapeError),
        (0, SHARE, LocalProtocolError),
        (3, SHARE, LocalProtocolError),
        (-1, SHARE, LocalProtocolError),
    ]
    for user, share, error in refused:
        with pytest.raises(error):
            running.add(user, share)
    assert running.missing == (2,)
    running.add(2, SHARE)
    np.testing.assert_array_equal(running.total(), 2 * SHARE)


def test_a_share_after_the_last_is_refused():
    running = RunningSum((2, 3), 2)
    running.add(1, SHARE)
    running.add(2, SHARE)
    with pytest.raises(RepeatedShare):
        running.add(2, SHARE)


def test_the_sum_owns_its_memory_and_hands_out_a_read_only_view():
    share = SHARE.copy()
    share.flags.writeable = False
    running = RunningSum((2, 3), 2)
    running.add(1, share)
    running.add(2, share)
    np.testing.assert_array_equal(share, SHARE)
    with pytest.raises(ValueError, match="read-only"):
        running.total()[0, 0] = 1


@pytest.mark.parametrize("k", [1, 0, -1])
def test_a_sum_of_one_user_is_refused(k):
    with pytest.raises(ConfigError):
        RunningSum((1,), k)


def test_what_the_csp_runs_knows_neither_pads_nor_keys():
    run = ("aggregate", "batches", "fixed_point", "sums", "wide", "words128")
    allowed = {"fedsvd.errors", "fedsvd.types", "fedsvd.kernels", "fedsvd.linalg.device", "fedsvd.linalg.ring128"}
    allowed |= {f"fedsvd.secagg.{name}" for name in run}
    for name in run:
        source = Path(find_spec(f"fedsvd.secagg.{name}").origin).read_text()
        nodes = list(ast.walk(ast.parse(source)))
        modules = {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
        modules |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        assert {module for module in modules if module.startswith("fedsvd")} <= allowed
