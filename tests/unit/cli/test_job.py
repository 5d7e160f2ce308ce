"""``fedsvd job``: an owner sees what leaves and who the others are, is asked, and a job that changes asks again."""

import hashlib
import json
import re
import shutil
import threading

import numpy as np
import pytest
from tests.e2e.commands import GENEROUS
from tests.e2e.federations import federation_of
from tests.tolerances import assert_close, digits_lost
from typer.testing import CliRunner

from fedsvd.cli.main import cli
from fedsvd.data.open import open_source
from fedsvd.identity.pins import pin, read_pins
from fedsvd.policy.rules import Policy
from fedsvd.policy.table_memory import TableMemory
from fedsvd.service.approvals import Approvals
from fedsvd.service.callers import Callers
from fedsvd.service.client import Connection, CspClient
from fedsvd.service.records import EnlistedFacts
from fedsvd.service.serve import only_one, serve
from fedsvd.service.site import Site
from fedsvd.transport.grpc_client import PinnedConnection

ROWS = 120


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Kits of a federation, tables of 120 x 4, and a CSP that listens for the whole file; party z called it once."""
    root = tmp_path_factory.mktemp("federation")
    tables = {name: np.random.default_rng(ord(name)).normal(size=(ROWS, 4)) for name in "abc"}
    made = federation_of(root, tuple(tables), tables, policy=Policy(), patience=GENEROUS)
    callers = Callers(root / "callers.jsonl")
    callers.add("party/z")
    with made as federation, federation.csp_node(callers=callers):
        yield federation.kits, federation.csp, root


@pytest.fixture
def kits(made, monkeypatch, tmp_path):
    """The kits as they were made, with no one pinned and all known to the CSP."""
    kits, address, root = made
    monkeypatch.chdir(tmp_path)
    for name, kit in kits.items():
        for left in ("approvals", "results", "state/records", "state/prekeys"):  # of an earlier test
            shutil.rmtree(kit / left, ignore_errors=True)
        (kit / "pins.toml").write_text("")
        data = f'[data]\ndefault = "{root / name[-1]}.npy"\n' if name.startswith("party/") else ""
        (kit / "site.toml").write_text(f'{data}[csp]\naddress = "{address}"\n')
        if not name.startswith("csp/"):
            with Connection(kit) as connection:
                connection.jobs()
    return kits


@pytest.fixture
def submit(fedsvd, kits, tmp_path):
    """Submits a job; its id."""

    return lambda **keys: submitted(fedsvd, kits, tmp_path, **keys).json["job"]


def submitted(fedsvd, kits, folder, parties="abc", authority=False, **keys):
    """What ``job submit`` says of a job with these keys."""
    keys = {"name": "study", "task": "pca", "components": 2, **keys}
    lines = ["[job]", *(f"{key} = {json.dumps(value)}" for key, value in keys.items() if value is not None)]
    lines += ["[authority]", 'name = "ta"'] if authority else []
    lines += [line for name in parties for line in ("[[party]]", f'name = "{name}"', 'data = "not/sent.csv"')]
    (folder / "job.toml").write_text("\n".join(lines) + "\n")
    said = fedsvd("job", "submit", "job.toml", "--kit", kits["researcher/res"], "--format", "json")
    assert said.code == 0, said
    return said


def asked(kit, id, answer):
    """Approve with this answer at the keyboard."""
    result = CliRunner().invoke(cli, ["job", "approve", id, "--kit", str(kit)], input=answer)
    return result.exit_code, result.stdout, result.stderr


def fingerprint_of(kit):
    return Site.at(kit).kit.identity.fingerprint


def pin_all(kits, kit):
    """What owners do beforehand: the keys of all who may take part are pinned."""
    for member, other in kits.items():
        if other != kit:
            pin(kit, member, fingerprint_of(other))


def is_approved(kit, id):
    with Connection(kit) as connection:
        return connection.site.approved(connection.job(id))


def test_no_path_of_anybodys_data_is_submitted(kits, submit):
    id = submit()
    with Connection(kits["party/a"]) as connection:
        assert "not/sent" not in connection.job(id).model_dump_json()


def test_an_owner_is_shown_what_leaves_and_what_all_can_derive(kits, submit):
    code, out, _ = asked(kits["party/a"], submit(), "n\n")
    assert code == 1
    for word in (
        "submitted by researcher/res",
        "pca, horizontal split, 3 parties",
        "360 samples x 4 features, 2 of 4 components",
        "a 120 records, b 120 records, c 120 records",
        "What leaves this site",
        "its Gram matrix of 4 x 4, with noise in the last digits, as exact integers (160 B)",
        "Not known yet, taken to be as large as yours: b, c.",
        "and ratios of the singular values",
        "shapes (3 parties, a joint table of 360 rows and 4 columns)",
        "Every party learns the top 2 directions of the joint data",
        "nothing against it",
    ):
        assert word in " ".join(out.split()), word


def test_no_is_no_and_pins_nothing(kits, submit):
    id = submit()
    assert asked(kits["party/a"], id, "n\n")[0] == 1
    assert asked(kits["party/a"], id, "")[0] == 1
    assert not is_approved(kits["party/a"], id)
    assert read_pins(kits["party/a"]) == {}


def test_yes_approves_and_pins_the_keys_that_were_shown(kits, submit):
    id = submit(authority=True)
    code, out, err = asked(kits["party/a"], id, "y\n")
    assert code == 0
    assert "Have you compared the new fingerprints with their owners" in err
    assert is_approved(kits["party/a"], id)
    others = ("party/b", "party/c", "csp/csp", "authority/ta", "researcher/res")
    expected = {member: Site.at(kits[member]).kit.identity.fingerprint for member in others}
    assert read_pins(kits["party/a"]) == expected
    assert all(" ".join(digits[i : i + 4] for i in range(0, 64, 4)) in out for digits in expected.values())
    assert "compared" not in asked(kits["party/a"], submit(), "y\n")[2]  # nobody is new any more


def test_yes_without_being_asked_pins_no_key_that_was_not_compared(fedsvd, kits, submit):
    id, kit = submit(), kits["party/a"]
    said = fedsvd("job", "approve", id, "--kit", kit, "--yes", "--format", "json")
    assert (said.code, said.json["error"]["code"]) == (1, "FSVD-503")
    assert "4 of 4 keys are new here" in said.json["error"]["fault"]  # the CSP's, the researcher's, b's and c's
    assert "--pin" in said.json["error"]["fix"]
    keys = [fingerprint_of(kits[member]) for member in ("csp/csp", "researcher/res", "party/b", "party/c")]
    for digits in keys:
        assert " ".join(digits[i : i + 4] for i in range(0, 64, 4)) in said.json["error"]["fault"]
    some = [word for digits in keys[:3] for word in ("--pin", digits)]
    said = fedsvd("job", "approve", id, "--kit", kit, "--yes", *some, "--format", "json")
    assert (said.code, "1 of 4 keys are new here" in said.json["error"]["fault"]) == (1, True)
    assert not is_approved(kit, id)
    assert read_pins(kit) == {}


def test_keys_that_are_named_are_pinned_and_the_job_is_approved(fedsvd, kits, submit):
    id, kit = submit(), kits["party/a"]
    others = ("csp/csp", "researcher/res", "party/b", "party/c")
    keys = {member: fingerprint_of(kits[member]) for member in others}
    spelt = [":".join(digits[i : i + 2] for i in range(0, 64, 2)) for digits in keys.values()]
    named = [word for key in spelt for word in ("--pin", key)]
    assert fedsvd("job", "approve", id, "--kit", kit, "--yes", *named, "--format", "json").json["approved"] is True
    assert is_approved(kit, id)
    assert read_pins(kit) == keys
    assert fedsvd("job", "approve", submit(), "--kit", kit, "--yes", "--format", "json").code == 0  # nothing is new


def test_a_named_key_that_no_member_has_stops_the_approval(fedsvd, kits, submit):
    id, kit = submit(), kits["party/a"]
    words = ["job", "approve", id, "--kit", str(kit), "--pin", "ab" * 32]
    for more, answer in (([], "y\n"), (["--yes"], "")):
        result = CliRunner().invoke(cli, [*words, *more], input=answer)
        assert (result.exit_code, "no member of this job has the key abab abab" in result.stderr) == (1, True)
    said = fedsvd("job", "approve", id, "--kit", kit, "--pin", "abab", "--format", "json")
    assert (said.code, said.json["error"]["code"]) == (1, "FSVD-100")  # a part of a fingerprint is none
    assert not is_approved(kit, id)
    assert read_pins(kit) == {}


def test_a_key_that_is_not_the_pinned_one_is_refused(kits, submit):
    id = submit()
    pin(kits["party/a"], "csp/csp", Site.at(kits["csp/csp"]).kit.identity.fingerprint)
    pin(kits["party/a"], "party/b", "ab" * 32)
    code, _, err = asked(kits["party/a"], id, "y\n")
    assert (code, "FSVD-503" in err, "not the key that party/b is pinned to" in err) == (1, True, True)
    assert not is_approved(kits["party/a"], id)


def test_a_member_that_was_never_seen_must_be_pinned_first(fedsvd, kits, submit):
    id = submit(parties="abz")
    code, _, err = asked(kits["party/a"], id, "y\n")
    assert (code, "party/z has not called the CSP yet" in err) == (1, True)
    assert fedsvd("join", "pin", "--kit", kits["party/a"], "party/z", "cd" * 32).code == 0
    code, _, err = asked(kits["party/a"], id, "y\n")  # who pins, pins the CSP, too
    assert (code, "csp is not pinned" in err) == (1, True)
    fingerprint = Site.at(kits["csp/csp"]).kit.identity.fingerprint
    assert fedsvd("join", "pin", "--kit", kits["party/a"], "csp/csp", fingerprint).code == 0
    assert asked(kits["party/a"], id, "y\n")[0] == 0


def test_an_owner_can_enlist_without_a_party_that_runs(fedsvd, kits, submit):
    words = ("--kit", kits["party/a"], "--yes", "--enlist", "--format", "json")
    pin_all(kits, kits["party/a"])
    id = submit(authority=True)
    assert fedsvd("job", "approve", id, *words).json["enlisted"] is True
    with Connection(kits["party/a"]) as connection:
        facts = connection.job(id).enlisted["party/a"]
    assert (facts.rows, facts.columns) == (ROWS, 4)
    assert len(bytes.fromhex(facts.prekey)) == 32 + 64
    with only_one(Site.at(kits["party/a"]).state):
        assert fedsvd("job", "approve", submit(), *words).json["enlisted"] is False  # what runs does it by itself


def test_without_an_authority_nobody_leaves_a_prekey(fedsvd, kits, submit):
    id = submit()
    pin_all(kits, kits["party/b"])
    assert fedsvd("job", "approve", id, "--kit", kits["party/b"], "--yes", "--enlist").code == 0
    with Connection(kits["party/b"]) as connection:
        assert "prekey" not in connection.job(id).enlisted["party/b"].model_dump()
    assert not (kits["party/b"] / "state" / "prekeys").exists()


def test_a_job_below_the_policy_cannot_be_approved(kits, submit):
    id = submit(parties="ab", task="svd", components=4)
    code, out, err = asked(kits["party/a"], id, "y\n")
    assert (code, "FSVD-110" in err) == (1, True)
    assert "either can compute the other's Gram matrix" in " ".join(out.split())
    assert not is_approved(kits["party/a"], id)


def test_shapes_that_others_have_said_are_used(fedsvd, kits, submit):
    id = submit()
    pin_all(kits, kits["party/a"])
    with Connection(kits["party/b"]) as connection:
        own = fedsvd("job", "approve", id, "--kit", kits["party/a"], "--yes", "--format", "json").json
        assert own["assumed"] == ["b", "c"]
        features = hashlib.sha256(b"x0\x00x1\x00x2\x00x3").hexdigest()
        facts = connection.site.facts().also(EnlistedFacts(rows=1000, columns=4, features=features))
        client = CspClient(PinnedConnection(connection.site.dialling(patience=GENEROUS)))
        client.enlist(connection.job(id), facts)
        client.close()
    said = fedsvd("job", "approve", id, "--kit", kits["party/a"], "--yes", "--format", "json").json
    assert said["assumed"] == ["c"]
    assert any(f"{ROWS + 1000 + ROWS} rows" in line for line in said["learns"])


def test_rows_that_are_not_compared_are_announced_at_submission_and_approval(fedsvd, kits, submit, tmp_path):
    for more, rows in (
        ({}, "NOT COMPARED: taken together by position alone"),
        ({"ids": "trust"}, 'taken together by position, on the word of the study: ids = "trust"'),
    ):
        said = submitted(fedsvd, kits, tmp_path, task="svd", split="vertical", **more)
        assert bool([notice for notice in said.json["notices"] if "row ids" in notice]) is (not more)
        shown = asked(kits["party/a"], said.json["job"], "n\n")[1]
        assert f"rows {rows}" in " ".join(shown.split())
        results = fedsvd("job", "results", said.json["job"], "--kit", kits["party/a"], "--format", "json").json
        assert results["rows"].startswith(rows)
    assert "rows" not in fedsvd("job", "results", submit(), "--kit", kits["party/a"]).out


def test_an_owner_is_shown_what_looks_wrong_in_its_own_data(kits, submit, tmp_path):
    rng = np.random.default_rng(1)
    lines = [f"{1000 + row},{x},{row % 2}" for row, x in enumerate(rng.normal(size=ROWS))]
    (tmp_path / "own.csv").write_text("\n".join(["patient_id,x,ill", *lines]) + "\n")
    site = kits["party/a"] / "site.toml"
    site.write_text(re.sub(r'default = ".*"', f'default = "{tmp_path / "own.csv"}"', site.read_text()))
    shown = " ".join(asked(kits["party/a"], submit(task="lr", label="ill", components=None), "n\n")[1].split())
    assert "What to look at in your own data first" in shown
    assert "column 'patient_id' holds distinct whole numbers" in shown
    assert "the outcome 'ill' is 0 or 1 in every row" in shown


def test_an_owner_is_shown_which_lines_of_its_map_change_nothing(kits, submit, tmp_path):
    table = np.random.default_rng(1).normal(size=(ROWS, 2))
    np.savetxt(tmp_path / "own.csv", table, delimiter=",", header="bili,chol", comments="")
    site = kits["party/a"] / "site.toml"
    named = re.sub(r'default = ".*"', f'default = "{tmp_path / "own.csv"}"', site.read_text())
    site.write_text(f"{named}[table.map]\nbilli = {{ factor = 0.0585 }}\nchol = {{ factor = 38.67 }}\n")
    shown = " ".join(asked(kits["party/a"], submit(), "n\n")[1].split())
    assert "the map is of column 'billi', and the table has none of that name; did you mean 'bili'?" in shown
    assert "the map is of column 'chol'" not in shown


def test_a_party_that_has_not_called_since_the_csp_started_is_named_at_submission(fedsvd, kits, submit, tmp_path):
    assert submitted(fedsvd, kits, tmp_path).json["not_called"] == []
    assert submitted(fedsvd, kits, tmp_path, parties=("a", "b", "z")).json["not_called"] == ["party/z"]
    text = " ".join(fedsvd("job", "submit", "job.toml", "--kit", kits["researcher/res"]).out.split())
    assert "party/z has not called this CSP since it started: is it running?" in text
    assert "party/a has not called" not in text


def test_a_job_with_a_party_that_does_not_exist_is_refused_with_those_that_do(fedsvd, kits, submit, tmp_path):
    submit()
    with Connection(kits["researcher/res"]) as connection:
        before = [job.id for job in connection.jobs()]
        text = (tmp_path / "job.toml").read_text().replace('name = "c"', 'name = "cc"')
        (tmp_path / "job.toml").write_text(text)
        said = fedsvd("job", "submit", "job.toml", "--kit", kits["researcher/res"], "--format", "json")
        assert (said.code, said.json["error"]["code"]) == (1, "FSVD-100")
        assert said.json["error"]["fault"] == "this CSP knows no party 'cc' (did you mean 'c'?)"
        assert said.json["error"]["fix"].startswith("it knows 'a', 'b', 'c', 'z'; a new party starts first")
        assert [job.id for job in connection.jobs()] == before  # no one is asked to approve it


def test_an_approval_is_for_the_job_as_it_was(kits, submit):
    id = submit()
    assert asked(kits["party/a"], id, "y\n")[0] == 0
    with Connection(kits["party/a"]) as connection:
        record = connection.job(id)
        changed = record.changed(file={**record.file, "job": {**record.file["job"], "components": 4}})
        assert connection.site.approved(record)
        assert not connection.site.approved(changed)
        assert not connection.site.approved(record.changed(members=record.members[:2]))


def test_a_researcher_approves_nothing_and_a_party_submits_nothing(fedsvd, kits, submit):
    id = submit()
    said = fedsvd("job", "approve", id, "--kit", kits["researcher/res"], "--yes", "--format", "json")
    assert (said.code, said.json["error"]["code"]) == (1, "FSVD-503")
    said = fedsvd("job", "submit", "job.toml", "--kit", kits["party/a"], "--format", "json")
    assert (said.code, said.json["error"]["code"]) == (1, "FSVD-503")
    said = fedsvd("job", "list", "--kit", kits["csp/csp"], "--format", "json")
    assert (said.code, said.json["error"]["code"]) == (1, "FSVD-100")


def test_a_list_says_what_awaits_the_owner(fedsvd, kits, submit):
    id = submit(name="mine")
    jobs = fedsvd("job", "list", "--kit", kits["party/a"], "--format", "json").json["jobs"]
    (ours,) = (each for each in jobs if each["job"] == id)
    assert (ours["name"], ours["state"], ours["approved"]) == ("mine", "recruiting", "awaits approval")
    assert "awaits approval" in fedsvd("job", "list", "--kit", kits["party/a"]).out
    assert id not in json.dumps(fedsvd("job", "list", "--kit", kits["authority/ta"], "--format", "json").json)


def test_a_stopped_job_is_told_by_its_exit_code(fedsvd, kits, submit):
    id = submit()
    assert fedsvd("job", "stop", id[:6], "--kit", kits["party/b"], "--format", "json").json["state"] == "stopped"
    said = fedsvd("job", "watch", id, "--kit", kits["researcher/res"], "--format", "json")
    assert (said.code, "stopped" in said.json["error"]["fault"]) == (1, True)
    again = fedsvd("job", "resume", id, "--kit", kits["party/b"], "--format", "json")
    assert (again.code, "not broken" in again.json["error"]["fault"]) == (1, True)
    assert "stopped" in fedsvd("job", "results", id, "--kit", kits["party/a"]).out


def test_an_unknown_job_and_an_absent_csp_are_told(fedsvd, kits):
    said = fedsvd("job", "results", "ffffffff", "--kit", kits["party/a"], "--format", "json")
    assert (said.code, said.json["error"]["code"]) == (1, "FSVD-100")
    (kits["party/a"] / "site.toml").write_text("")
    said = fedsvd("job", "list", "--kit", kits["party/a"], "--format", "json")
    assert (said.code, "address" in said.json["error"]["fault"]) == (1, True)


def test_a_job_is_watched_to_its_results_and_resumed_after_a_failure(fedsvd, kits, submit, tmp_path):
    """Three parties in threads: one cannot read its data at first."""
    id = submit()
    for name in "abc":
        assert asked(kits[f"party/{name}"], id, "y\n")[0] == 0
    good = (kits["party/c"] / "site.toml").read_text()
    (kits["party/c"] / "site.toml").write_text(good.replace("c.npy", "gone.npy"))
    stop, threads = threading.Event(), []
    for name in "abc":
        site = Site.at(kits[f"party/{name}"])
        how = (site, site.kit.identity.role, stop, lambda facts: None)
        threads.append(threading.Thread(target=serve, args=how, kwargs={"patience": GENEROUS}, daemon=True))
        threads[-1].start()
    try:
        said = fedsvd("job", "watch", id, "--kit", kits["researcher/res"], "--format", "json")
        assert (said.code, said.json["error"]["code"]) == (1, "FSVD-206")
        assert "gone.npy" not in said.out + said.err  # where a party keeps its data concerns nobody else
        said = fedsvd("job", "watch", id, "--kit", kits["party/c"], "--format", "json")
        assert "gone.npy" in said.json["error"]["fault"]
        assert "gone.npy" in fedsvd("job", "results", id, "--kit", kits["party/c"]).out
        (kits["party/c"] / "site.toml").write_text(good)
        assert fedsvd("job", "resume", id, "--kit", kits["party/c"], "--format", "json").json["attempt"] == 2
        said = fedsvd("job", "watch", id, "--kit", kits["party/a"], "--format", "json")
        assert said.code == 0, said
        assert said.json["state"] == "done"
        assert "party/a: done" in said.err
        D = np.concatenate([np.load(made_table(kits, name)) for name in "abc"])
        found = np.load(f"{said.json['folder']}/mean.npy")
        assert_close(found, D.mean(axis=0), digits_lost(2))
    finally:
        stop.set()
        for thread in threads:
            thread.join(GENEROUS)


def made_table(kits, name):
    return kits[f"party/{name}"].parents[1] / f"{name}.npy"


def test_the_list_says_that_an_approval_is_spent_and_approving_again_renews_it(fedsvd, kits, submit):
    id = submit()

    def here():
        said = fedsvd("job", "list", "--kit", kits["party/a"], "--format", "json")
        return next(job["approved"] for job in said.json["jobs"] if job["job"] == id)

    assert here() == "awaits approval"
    assert asked(kits["party/a"], id, "y\n")[0] == 0
    assert here() == "approved"
    with Connection(kits["party/a"]) as connection:
        Approvals(kits["party/a"] / "approvals").spend(connection.job(id))
    assert here() == "approval spent"
    code, out, _ = asked(kits["party/a"], id, "y\n")
    assert code == 0
    assert "finished here" in out
    assert here() == "approved"


def test_an_owner_is_asked_where_all_columns_have_other_values_than_an_earlier_table(fedsvd, kits, submit, made):
    *_, root = made
    path = root / "a.npy"
    before = np.load(path)
    site = Site.at(kits["party/a"])
    memory = TableMemory(site.state / "records")
    earlier = memory.recognised(open_source(before * 2.54), (), 5)
    memory.begin({"run": "aa", "roster": ["party/x", "party/y", "party/a"]}, earlier, np.arange(len(before)))
    code, out, _ = asked(kits["party/a"], submit(), "y\n")
    assert code == 0
    assert "Approve only if these are other records" in " ".join(out.split())
