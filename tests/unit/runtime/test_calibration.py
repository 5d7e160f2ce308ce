"""A calibrated machine has a rate for every kind of work the cost model counts."""

import math
from dataclasses import asdict, fields

from fedsvd.protocol.cost import predict
from fedsvd.protocol.rates import Machine, Work
from fedsvd.protocol.tasks import Task
from fedsvd.runtime.calibration import calibrate
from fedsvd.runtime.planning import Study, plan_study
from fedsvd.types import SessionId


def test_every_rate_is_measured_and_makes_a_finite_prediction():
    machine = calibrate()
    assert all(math.isfinite(rate) and rate > 0 for rate in asdict(machine).values())
    assert {f.name for f in fields(Machine)} == {f.name for f in fields(Work)}
    plan = plan_study(Study(Task.SVD), 100, (500, 500), SessionId("a session")).plan
    assert 0 < predict(plan, machine).seconds_in_turns < math.inf
