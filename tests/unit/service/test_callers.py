"""The names that a job may have: those of parties that have called a CSP, in whatever process of it."""

import pytest

from fedsvd.errors import ConfigError, StorageError
from fedsvd.service.callers import Callers
from fedsvd.storage.journal import Journal


@pytest.fixture
def callers(tmp_path):
    callers = Callers(tmp_path / "callers.jsonl")
    for caller in ("party/north", "party/south", "researcher/office", "authority/ta"):
        callers.add(caller)
    return callers


def test_parties_that_have_called_may_be_named_after_a_restart_too(callers, tmp_path):
    members = ["party/north", "party/south", "authority/ta"]
    callers.expect(members)
    Callers(tmp_path / "callers.jsonl").expect(members)


@pytest.mark.parametrize(
    ("members", "fault", "fix"),
    [
        (
            ["party/north", "party/sotuh"],
            "party 'sotuh' (did you mean 'south'?)",
            "'north', 'south'; a new party starts",
        ),
        (["party/North", "party/west"], "party 'North' (did you mean 'north'?) nor 'west'", "'north', 'south'; a new"),
        (["party/office", "party/ta"], "party 'office' nor 'ta'", "'north', 'south'; a new party"),  # of other roles
        (
            ["party/north", "authority/at"],
            "authority 'at'",
            "'ta'; a new authority starts first, fedsvd authority start",
        ),
        (["party/west", "authority/at"], "party 'west'", "'north', 'south'; a new party starts first"),
    ],
)
def test_another_member_is_refused_with_those_of_its_role(callers, members, fault, fix):
    with pytest.raises(ConfigError) as refused:
        callers.expect(members)
    assert refused.value.fault.startswith(f"this CSP knows no {fault}")
    assert refused.value.fix.startswith(f"it knows {fix}")


def test_a_csp_that_no_party_has_called_says_so(tmp_path):
    with pytest.raises(ConfigError, match="knows no party 'a'") as refused:
        Callers(tmp_path / "callers.jsonl").expect(["party/a"])
    assert refused.value.fix.startswith("it knows none yet; ")


def test_a_csp_that_has_just_started_takes_any_name(tmp_path):
    """A script starts all processes and submits a job: the parties may call after it."""
    Callers(tmp_path / "callers.jsonl", settled=3600.0).expect(["party/a"])


def test_of_many_parties_some_are_named(tmp_path):
    callers = Callers(tmp_path / "callers.jsonl")
    for number in range(50):
        callers.add(f"party/site{number:02}")
    with pytest.raises(ConfigError) as refused:
        callers.expect(["party/site50"])
    assert "'site19' and 30 more;" in refused.value.fix
    assert "'site20'" not in refused.value.fix


def test_a_caller_is_written_once_and_a_full_disk_turns_no_one_away(callers, tmp_path, monkeypatch):
    for _ in range(3):
        callers.add("party/north")
    assert len((tmp_path / "callers.jsonl").read_text().splitlines()) == 4

    def full(self, record):
        raise StorageError("no space is left", "free some")

    monkeypatch.setattr(Journal, "append", full)
    callers.add("party/west")
    callers.expect(["party/north", "party/west"])
