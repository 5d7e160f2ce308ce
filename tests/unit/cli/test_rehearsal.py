"""``fedsvd federation rehearse`` founds everything at once, says what to type next, and is never taken for more."""

import shlex

import pytest

from fedsvd.identity.kit import Kit
from fedsvd.studies.job_file import read_job

HOSPITALS = ("hospital-a", "hospital-b", "hospital-c")


def test_one_command_founds_every_kit_with_all_pins_data_and_a_job(fedsvd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = fedsvd("federation", "rehearse", "first", "--format", "json").json
    assert sorted(said["kits"]) == ["csp/csp", *(f"party/{name}" for name in HOSPITALS), "researcher/researcher"]
    kits = {caller: Kit.read(tmp_path / folder) for caller, folder in said["kits"].items()}
    for caller, kit in kits.items():
        assert str(kit.identity) == caller
        assert set(kit.pins()) == {str(each.identity) for each in kits.values()}
    job = read_job(tmp_path / "first" / "job.toml")
    assert [job.data_of(party).is_file() for party in job.parties] == [True] * 3
    assert said["you"] == "hospital-a"


def test_the_commands_to_type_next_are_four_and_name_what_is_there(fedsvd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = fedsvd("federation", "rehearse", "a folder").out
    assert "REHEARSAL" in text
    typed = [shlex.split(line) for line in text.splitlines() if line.startswith("  fedsvd ")]
    assert [words[1:3] for words in typed] == [
        ["federation", "start"],
        ["job", "submit"],
        ["job", "approve"],
        ["job", "watch"],
    ]
    for words in typed:
        for place in (word for word in words if word.startswith("a folder")):
            assert (tmp_path / place).exists()


def test_a_job_of_ones_own_is_rehearsed_with_its_own_parties_and_data(fedsvd, by_columns, tmp_path):
    job = by_columns.job(task="svd", split="vertical", id="patient", authority=True)
    said = fedsvd("federation", "rehearse", "mine", "--job", job, "--format", "json").json
    names = [name for name, _ in by_columns.parties]
    assert {f"party/{name}" for name in names} | {"authority/ta"} <= set(said["kits"])
    assert said["you"] == names[0]
    checks = fedsvd("doctor", "--kit", f"mine/{names[1]}", "--job", job, "--format", "json").json["checks"]
    found = {check["name"]: check for check in checks}
    assert found["data"]["ok"], found["data"]
    assert found["members"]["ok"], found["members"]
    assert "REHEARSAL" in found["rehearsal"]["text"]


@pytest.mark.parametrize("broken", ["data", "job"])
def test_what_cannot_be_founded_leaves_nothing(fedsvd, by_rows, tmp_path, broken):
    job = by_rows.job(task="pca")
    text = job.read_text()
    without_data, misnamed = text.partition("data =")[0], text.replace("[[party]]", "[[party]]\nname = 3\n", 1)
    job.write_text(without_data if broken == "data" else misnamed)
    assert fedsvd("federation", "rehearse", "mine", "--job", job).code == 1
    assert not (tmp_path / "mine").exists()


def test_a_folder_that_is_taken_is_left_as_it_is(fedsvd, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    said = fedsvd("federation", "rehearse", tmp_path)
    assert (said.code, said.err[:8]) == (1, "FSVD-350")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_only_a_rehearsal_is_started_all_at_once(fedsvd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "there is no rehearsal" in fedsvd("federation", "start", "nowhere").err
    operator = fedsvd("federation", "init", "--dir", "operator", "--name", "three hospitals", "--format", "json").json
    words = ("--federation", operator["federation"], "--role", "party", "--name", "real")
    made = fedsvd("join", "request", "--kit", "mine/real", *words, "--format", "json").json
    sign = ("--dir", "operator", "--role", "party", "--name", "real", "--fingerprint", made["fingerprint"])
    fedsvd("federation", "approve", "mine/real/request.pem", *sign, "--out", "real.pem")
    taken = ("--certificate", "real.pem", "--ca", "operator/ca.pem", "--fingerprint", operator["fingerprint"])
    assert fedsvd("join", "accept", "--kit", "mine/real", *taken).code == 0
    (tmp_path / "mine" / "rehearsal.toml").write_text('you = "real"\njob = "job.toml"\n')
    assert "is the kit of a federation" in fedsvd("federation", "start", "mine").err


def test_a_kit_of_a_rehearsal_says_so_when_it_is_shown(fedsvd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fedsvd("federation", "rehearse", "first")
    assert "REHEARSAL" in fedsvd("join", "show", "--kit", "first/hospital-b").out
    assert fedsvd("join", "show", "--kit", "first/hospital-b", "--format", "json").json["rehearsal"] is True
    for command in (("doctor",), ("party", "start"), ("job", "list")):
        said = fedsvd(*command, "--kit", "first/hospital-b", "--csp", "csp.example.org:7443")
        assert said.code == 1
        assert "not on this machine" in said.out + said.err
