"""Job files after seeded damage: a job, or an error of ours with a code and a fix, at a party and at the CSP."""

import random
import tomllib
from pathlib import Path

import pytest
from tests.mutations import damaged

from fedsvd.errors import FedSVDError
from fedsvd.studies.job_file import read_job
from fedsvd.studies.submitted import submitted_job

EXAMPLES = [path.read_bytes() for path in sorted((Path(__file__).parents[3] / "examples").glob("*/job.toml"))]
WORDS = (
    b"true",
    b"-1",
    b"1e999",
    b'""',
    b"[]",
    b"{}",
    b"nan",
    b"99999999999999999999",
    b"[[",
    b"=",
    b'"\\u0000"',
    b"[a.b]",
)


def _text(draw):
    text = damaged(draw.choice(EXAMPLES), draw)
    if draw.random() < 0.5:  # a value in the place of another
        lines = draw.choice(EXAMPLES).split(b"\n")
        at = draw.randrange(len(lines))
        lines[at] = lines[at].partition(b"=")[0] + b"= " + draw.choice(WORDS)
        text = b"\n".join(lines)
    return text


def _tried(path, count, seed):
    draw, refusals, read = random.Random(seed), [], 0
    for _ in range(count):
        path.write_bytes(_text(draw))
        try:
            read_job(path)
            read += 1
        except FedSVDError as error:
            refusals.append(error)
        try:
            submitted_job(tomllib.loads(path.read_text(encoding="utf-8")))
        except FedSVDError as error:
            refusals.append(error)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError):
            continue  # it never gets to a CSP
    assert all(error.code != "FSVD-000" and error.fault for error in refusals)
    return read, len(refusals)


def test_a_damaged_job_file_is_read_or_refused_by_an_error_of_ours(tmp_path):
    read, refused = _tried(tmp_path / "job.toml", 150, "quick")
    assert read > 0
    assert refused > 0


@pytest.mark.slow
def test_two_thousand_damaged_job_files_are_read_or_refused_by_an_error_of_ours(tmp_path):
    read, refused = _tried(tmp_path / "job.toml", 2000, "all")
    assert read > 0
    assert refused > 0
