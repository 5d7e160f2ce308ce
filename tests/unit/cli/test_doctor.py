"""``fedsvd doctor`` at the command line: exit code 1 when something is wrong, and each problem with its fix."""

from datetime import UTC, datetime

from fedsvd.identity.temporary import temporary_federation


def test_problems_make_exit_code_1_and_come_with_fixes(fedsvd, tmp_path):
    kits = temporary_federation(tmp_path / "kits", ["a"], now=datetime.now(UTC))
    said = fedsvd("doctor", "--kit", kits["party/a"], "--format", "json")
    assert said.code == 1
    wrong = {check["name"]: check["fix"] for check in said.json["checks"] if not check["ok"]}
    # A throw-away kit has seven days, and knows of no CSP.
    assert set(wrong) >= {"expiry", "address"}
    assert all(wrong.values())
    assert said.json["problems"] == len([check for check in said.json["checks"] if not check["ok"]])
    text = fedsvd("doctor", "--kit", kits["party/a"])
    assert text.code == 1
    assert "to put right." in text.out
    assert "Fix: " in text.out


def test_a_job_that_cannot_be_read_is_an_error_not_a_finding(fedsvd, tmp_path):
    kits = temporary_federation(tmp_path / "kits", ["a"], now=datetime.now(UTC))
    said = fedsvd("doctor", "--kit", kits["party/a"], "--job", tmp_path / "none.toml", "--format", "json")
    assert (said.code, said.json["error"]["code"]) == (1, "FSVD-100")
