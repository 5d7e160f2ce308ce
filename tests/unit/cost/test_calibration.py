"""A calibrated machine has a rate for every kind of work, and is measured once for each user, version and BLAS."""

import json
import math
import os
import stat
from dataclasses import asdict, fields, replace

import numpy as np
import pytest
import scipy

from fedsvd.cost import calibration
from fedsvd.cost.calibration import calibrate, rated
from fedsvd.cost.estimate import predict
from fedsvd.cost.rates import DEFAULT, Rates, Work
from fedsvd.linalg import backend
from fedsvd.protocol.tasks import Task
from fedsvd.studies.planning import plan_study
from fedsvd.studies.study import Study
from fedsvd.types import SessionId


def test_every_rate_is_measured_and_makes_a_finite_prediction():
    before = backend.threads()
    machine = calibrate()
    assert backend.threads() == before
    assert all(math.isfinite(rate) and rate > 0 for name, rate in asdict(machine).items() if name != "gains")
    assert {f.name for f in fields(Rates)} == {f.name for f in fields(Work)} | {"cores", "threads", "gains"}
    assert all(1.0 <= gain <= machine.threads for gain in asdict(machine.gains).values())
    assert 1 <= machine.threads <= machine.cores == len(os.sched_getaffinity(0))
    plan = plan_study(Study(Task.SVD), 100, (500, 500), SessionId("a session")).plan
    assert 0 < predict(plan, machine).seconds_on_one_machine < math.inf


def test_a_rate_is_what_the_kernel_does_on_one_core_whatever_else_runs():
    """NumPy's own product, by this thread's processor time, in the same process."""
    A = np.random.default_rng(0).standard_normal((512, 512))
    with backend.one_thread():
        seconds = calibration.best_seconds(lambda: A @ A, 5)
    assert 0.3 < calibrate().gemm / (2 * 512**3 / seconds) < 3


def test_the_rate_of_a_transform_that_brings_its_own_threads_is_that_of_one_core():
    Y = np.random.default_rng(0).standard_normal((1 << 14, 32))
    seconds = calibration.best_seconds(lambda: scipy.fft.dct(Y, type=2, axis=0, norm="ortho", workers=1), 5)
    assert 0.2 < calibrate().dct / (Y.size * 14 / seconds) < 3


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache folder of its own, and a machine whose rates say how often it was measured."""
    measured = []

    def once_more() -> Rates:
        measured.append(1)
        return replace(DEFAULT, gemm=float(len(measured)))

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(calibration, "calibrate", once_more)
    return tmp_path / "cache" / "fedsvd" / "rates.json"


def test_rates_are_measured_once_and_stored_for_their_owner_alone(cache):
    first, second = rated(), rated()
    assert first.machine == second.machine
    assert "measured now" in first.source
    assert "measured before" in second.source
    assert stat.S_IMODE(cache.stat().st_mode) == 0o600
    assert stat.S_IMODE(cache.parent.stat().st_mode) == 0o700
    assert [path.name for path in cache.parent.iterdir()] == ["rates.json"]


def test_rates_are_measured_again_when_asked_for(cache):
    assert rated().machine.gemm == 1.0
    assert rated(afresh=True).machine.gemm == 2.0
    assert rated().machine.gemm == 2.0


def test_another_version_another_processor_and_other_threads_have_rates_of_their_own(cache, monkeypatch):
    assert rated().machine.gemm == 1.0
    with monkeypatch.context() as other:
        other.setattr(calibration, "__version__", "99.0")
        assert rated().machine.gemm == 2.0
    with monkeypatch.context() as other:
        other.setattr(calibration, "processor", lambda: "an abacus")
        assert rated().machine.gemm == 3.0
    with backend.one_thread(), monkeypatch.context() as other:
        other.setattr(calibration, "own_cores", lambda: 77)
        assert rated().machine.gemm == 4.0
    assert rated().machine.gemm == 1.0


@pytest.mark.parametrize("spoilt", ["", "{", "[]", "null", '{"key": 3}'])
def test_a_spoilt_cache_is_measured_anew_and_mended(cache, spoilt):
    rated()
    cache.write_text(spoilt)
    assert rated().machine.gemm == 2.0
    assert "measured before" in rated().source


@pytest.mark.parametrize("wrong", [{"gemm": 0.0}, {"gemm": -1.0}, {"gemm": math.nan}, {"gemm": "fast"}, {"speed": 1.0}])
def test_stored_rates_that_make_no_sense_are_not_used(cache, wrong):
    rated()
    (key,) = json.loads(cache.read_text())
    cache.write_text(json.dumps({key: {**asdict(DEFAULT), **wrong}}))
    assert rated().machine.gemm == 2.0


def test_a_cache_that_cannot_be_written_costs_a_measurement_and_nothing_else(cache, tmp_path):
    (tmp_path / "cache").write_text("a file where a folder should be")
    assert rated().machine.gemm == 1.0
    assert rated().machine.gemm == 2.0
