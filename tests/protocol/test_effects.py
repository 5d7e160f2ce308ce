"""Handlers decide and never compute: whatever takes long is a ``Compute`` effect (ADR 0002).

Every Python function that runs while a state machine decides on a message is recorded, in sessions of every task. None
of them may belong to the packages that compute, nor to a script. Adding up shares is the one thing a handler does with
numbers; besides it derives keys and seeds, opens and closes stores, and looks at the plan's cuts: none of that takes
longer for more data.
"""

import sys
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pytest

import fedsvd
from fedsvd.linalg import backend
from fedsvd.roles.user.agreement import Group

from .cases import CASES

SOURCE = Path(fedsvd.__file__).parent
COMPUTES = ("linalg/", "masks/", "secagg/", "compress/", "data/", "storage/", "roles/user/")
CHEAP = (
    "roles/user/role.py::*",
    "roles/user/script.py::RunningScript.__init__",
    "roles/user/script.py::RunningScript.expect_next",
    "roles/user/script.py::RunningScript.asked",
    "roles/user/script.py::RunningScript.compared",
    "roles/user/script.py::RunningScript.begin_sum",
    "roles/user/sums.py::SumInHand.__init__",
    "roles/user/sums.py::SumInHand.is_last",
    "roles/user/sums.py::SumInHand.next",
    "roles/user/pairs.py::Pairs.hashes",
    "roles/user/pairs.py::Pairs.read_places",
    "roles/user/pairs.py::Pairs.parts",
    "roles/user/seeding.py::*",
    "roles/user/agreement.py::*",
    "roles/user/shared.py::verify_once",
    "roles/user/shared.py::once_for",  # what is computed in it is recorded too
    "roles/user/work.py::reported",
    "roles/user/work.py::commitment_salt",
    "roles/user/checks.py::Order.text",  # a sentence
    "secagg/aggregate.py::*",  # adds up
    "secagg/words128.py::add_into",
    "secagg/words128.py::_into",
    "secagg/words128.py::_combine",
    "secagg/keys.py::*",
    "secagg/tagged.py::tag_seed",
    "secagg/tagged.py::SumSeeds.of_*",
    "secagg/sums.py::*",  # what a sum is
    "roles/user/sums.py::SumsOfUser.__init__",
    "roles/user/*.py::script",  # is made; it runs from its first answer on
    "linalg/exact_gram.py::row_panels",  # cuts
    "linalg/streaming_factor.py::StreamingFactor.__init__",
    "storage/block_store.py::Layout.*",
    "storage/block_store.py::*",
    "storage/*.py::*.__init__",
    "storage/*.py::*.close",
    "storage/*.py::*._release",
)


def functions_run_in(deciding, case, k=3):
    """``file::function`` of all that ran inside ``deciding``, a method of state machines, in one session."""
    federation, found = CASES[case](k), set()
    assemble = federation.assemble

    def profile(frame, event, argument):
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(SOURCE):
            found.add(f"{path.relative_to(SOURCE).as_posix()}::{frame.f_code.co_qualname}")

    def assembled():
        session = assemble()
        for machine in session.machines:
            decide = getattr(machine, deciding)

            def profiled(*given, decide=decide):
                sys.setprofile(profile)
                try:
                    return decide(*given)
                finally:
                    sys.setprofile(None)

            setattr(machine, deciding, profiled)
        return session

    federation.assemble = assembled
    federation.run()
    return found


def computing(found):
    """Those of them that compute: run a script, or hash what was received, or belong to a package that computes."""
    long = {"roles/user/script.py::RunningScript.advance", "roles/user/agreement.py::Group.witness"} & found
    others = {name for name in found if name.startswith(COMPUTES)}
    return long | {name for name in others if not any(fnmatch(name, pattern) for pattern in CHEAP)}


@pytest.mark.parametrize("case", CASES)
def test_no_handler_computes(case):
    found = functions_run_in("receive", case)
    assert any(name.startswith("roles/user/role.py") for name in found), "handlers are recorded"
    assert computing(found) == set()


def test_a_handler_that_computes_is_noticed(monkeypatch):
    """One that multiplies when it is sent something, where it should put it aside."""
    put_aside = Group.receive

    def multiplying(group, origin, sealed):
        backend.gram(np.eye(2))
        put_aside(group, origin, sealed)

    monkeypatch.setattr(Group, "receive", multiplying)
    assert any(name.startswith("linalg/") for name in computing(functions_run_in("receive", "svd")))
