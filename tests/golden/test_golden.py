"""What people read is as recorded, byte for byte; ``python -m tests.golden.record`` records it anew."""

from pathlib import Path

import pytest
from tests.golden.surfaces import masked, texts

RECORDED = Path(__file__).parent / "recorded"

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return texts(tmp_path_factory.mktemp("golden"))


@pytest.mark.parametrize("name", list(texts(Path())))
def test_what_people_read_is_as_recorded(name, made):
    assert made[name]() == (RECORDED / name).read_text(encoding="utf-8")


def test_every_recorded_text_is_still_made():
    stored = {str(path.relative_to(RECORDED)) for path in RECORDED.rglob("*") if path.is_file()}
    assert stored == set(texts(Path()))


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("took 0.31 s on 12 rows", "took TIME on 12 rows"),
        ("digest " + "0a" * 32, "digest DIGEST"),
        ("signed 2026-01-02T03:04:05Z", "signed TIME"),
        ("beta \u22120.125, p < 0.001, 1.2e-16", "beta X, p X, X"),
        ("120 rows of 5 columns", "120 rows of 5 columns"),
    ],
)
def test_what_a_run_or_a_machine_decides_is_masked_and_nothing_else(line, left):
    assert masked(line) == left
