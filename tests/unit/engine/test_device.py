"""What a role computes with is settled where it runs: a job file's wish stays on this machine, a site's is its own."""

import threading
import time

import numpy as np
import pytest

from fedsvd import FederatedSVD, Simulation
from fedsvd.engine import device as engine_device
from fedsvd.engine.device import ON_CPU, Engine
from fedsvd.errors import ConfigError, MissingExtra, NoDevice
from fedsvd.linalg.device import Device
from fedsvd.linalg.pools import available, threads
from fedsvd.service.site_file import SITE, SiteFile, read_site
from fedsvd.studies.job_file import job_from
from fedsvd.studies.submitted import submitted_file

JOB = {"job": {"name": "j", "task": "svd"}, "party": [{"name": "a"}, {"name": "b"}]}


def job(tmp_path, **more):
    return job_from({**JOB, "job": {**JOB["job"], **more}}, tmp_path)


def test_without_a_wish_a_role_computes_with_numpy():
    assert Engine.of() is ON_CPU
    assert Engine.of("cpu", "numpy") is ON_CPU


def test_a_job_file_s_device_and_engine_are_not_submitted_to_others(tmp_path):
    asked = job(tmp_path, device="cuda", engine="dask")
    assert (asked.study.device, asked.study.engine) == ("cuda", "dask")
    assert submitted_file(asked) == submitted_file(job(tmp_path))


def test_the_command_line_has_the_last_word(tmp_path):
    asked = job(tmp_path, device="cuda")
    assert asked.computed_with(None, None) is asked
    chosen = asked.computed_with("cupy", "dask").study
    assert (chosen.device, chosen.engine) == ("cupy", "dask")


def test_a_site_names_its_own_device_and_engine(tmp_path):
    (tmp_path / SITE).write_text('device = "cuda"\nengine = "tls://scheduler:8786"\n')
    assert read_site(tmp_path) == SiteFile(device="cuda", engine="tls://scheduler:8786")


def test_a_device_that_is_not_there_is_refused_before_anything_is_computed():
    with pytest.raises((NoDevice, MissingExtra)):
        FederatedSVD(federation=Simulation(device="cuda:99")).fit(np.eye(6))


def test_an_engine_that_nobody_knows_is_refused_with_those_that_are():
    with pytest.raises(ConfigError, match="numpy, dask"):
        FederatedSVD(federation=Simulation(engine="spark")).fit(np.eye(6))
    with pytest.raises(ConfigError, match="TLS"):
        FederatedSVD(federation=Simulation(engine="tcp://127.0.0.1:8786")).fit(np.eye(6))


def test_a_device_whose_products_are_not_exact_is_refused(monkeypatch):
    monkeypatch.setattr(engine_device, "exact_products_hold", lambda on: False)
    emulated = Device("emulated", np.zeros(0))
    with pytest.raises(NoDevice, match="emulated are not exact"):
        Engine.of(emulated)


def test_pieces_are_shared_out_each_once_and_their_results_are_in_order():
    done, each = [], engine_device.each_over(3)
    found = list(each(lambda a, b: done.append(a) or 10 * a + b, range(200), range(1, 201)))
    assert found == [11 * a + 1 for a in range(200)]
    assert sorted(done) == list(range(200))
    assert engine_device.each_over(1) is None


def test_a_piece_that_fails_ends_the_call_after_those_that_had_begun():
    under_way, ended = threading.Barrier(3), []

    def piece(number):
        under_way.wait(10)
        if number == 1:
            raise ValueError("here")
        time.sleep(0.05)
        ended.append(number)

    with pytest.raises(ValueError, match="here"):
        engine_device.each_over(3)(piece, range(3))
    assert sorted(ended) == [0, 2]
    assert threads() == available()  # the limit on the BLAS ended with it


def test_threads_that_are_all_busy_are_not_waited_for():
    """Pieces that share out work of their own would wait for each other's threads for ever."""
    each = engine_device.each_over(2)
    found = list(each(lambda a: sum(each(lambda b: a * b, range(5))), range(4)))
    assert found == [10 * a for a in range(4)]
