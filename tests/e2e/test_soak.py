"""Many jobs one after the other leave a CSP and its parties as they were: ``benchmarks.soak``, a short one."""

import pytest
from benchmarks.soak import Sample, Soak, soak

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")


@pytest.mark.slow
def test_memory_descriptors_threads_and_scratch_are_flat_over_many_jobs(tmp_path):
    found = soak(tmp_path, jobs=24, parties=4, wave=6)
    assert found.wrong == ()
    verdicts = found.verdicts()
    assert {name: verdict for name, verdict in verdicts.items() if not verdict["flat"]} == {}


def samples(memory, threads=20):
    return tuple(Sample(10 * place, "csp/csp", each, 30, threads, 1000 * place, 0) for place, each in enumerate(memory))


@pytest.mark.parametrize(
    ("memory", "flat"), [([100] * 9, True), ([100, 110, 105] * 3, True), ([100, 120, 140, 160, 180, 200], False)]
)
def test_what_grows_with_the_jobs_is_not_called_flat(memory, flat):
    found = Soak(90, 1, 1.0, samples([each << 20 for each in memory]), ())
    assert found.flat is flat
    assert found.verdicts()["memory"]["flat"] is flat
    assert found.ledger_bytes_a_job == 100


def test_a_job_that_ended_badly_is_not_called_flat():
    assert not Soak(90, 1, 1.0, samples([100 << 20] * 6), ("11: broken",)).flat
