"""Shared results on their way to a researcher, past a CSP that deviates and parties that do not agree (ADR 0069).

Three sites with results of one study, and the CSP's store of sealed messages between them and the researcher. The
parties' results come from sessions that ran over mutual TLS, once for all tests here.
"""

import json
import os
from dataclasses import replace
from time import time

import numpy as np
import pytest
from tests.e2e.commands import GENEROUS
from tests.e2e.federations import federation_of, split_table

from fedsvd.errors import FedSVDError, NotAuthenticated, NotSealed, SplitView
from fedsvd.identity.kit import Kit
from fedsvd.policy.policy_file import spelt_policy
from fedsvd.policy.rules import Policy
from fedsvd.protocol.certificate import Certificate
from fedsvd.results.folder import MANIFEST
from fedsvd.results.handed_over import files_to_hand_over, packed, unpacked
from fedsvd.results.signed_files import verify_files
from fedsvd.results.write import read_result, write_result
from fedsvd.service import api
from fedsvd.service.handover import sealed_for, take
from fedsvd.service.mailbox import LARGEST_PART, MOST_PARTS, Mailbox
from fedsvd.service.site import Site

PARTIES = ("a", "b", "c")


def shown(name, split="horizontal"):
    job = {"name": name, "task": "svd", "components": 2, "split": split, "ids": "trust"}
    if split == "horizontal":
        job.pop("ids")
    return {"job": job, "party": [{"name": party} for party in PARTIES]}


class Ran:
    """Two studies of split rows and one of split columns, done; what parties seal of them is made anew by each test."""

    def __init__(self, federation, csp, records):
        self.federation, self.csp, self.records = federation, csp, records
        self.sites = {name: Site.at(federation.kits[f"party/{name}"]) for name in PARTIES}
        self.researcher = Kit.read(federation.kits["researcher/res"])

    def sealed(self, job="first", agreed=PARTIES, folders=None):
        """What every party sends, by member and number."""
        record, messages = self.records[job], {}
        for name, site in self.sites.items():
            folder = (folders or {}).get(name) or site.results_of(record)
            sent = sealed_for(site.kit, record, folder, name in agreed)
            messages |= {(f"party/{name}", number): body for number, body in enumerate(sent.messages)}
        return messages

    def taken(self, messages, target, job="first"):
        return take(self.researcher, self.records[job], lambda *which: messages.get(which), target)


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    _, tables = split_table(330, 4, PARTIES)
    policy = replace(Policy.permissive(), researcher="shared")
    root = tmp_path_factory.mktemp("handed")
    with (
        federation_of(root, PARTIES, tables, policy=policy, patience=GENEROUS) as federation,
        federation.csp_node() as csp,
        federation.member_nodes(*(f"party/{name}" for name in PARTIES)),
        federation.connect() as connection,
    ):
        ids = {name: connection.submit(shown(name)) for name in ("first", "second")}
        for id in ids.values():
            connection.watch(id, timeout=GENEROUS)
        for name in PARTIES:  # the same rows of all, and columns of their own
            np.save(root / f"{name}.npy", np.random.default_rng(ord(name)).normal(size=(120, 3)))
        ids["columns"] = connection.submit(shown("columns", "vertical"))
        connection.watch(ids["columns"], timeout=GENEROUS)
        yield Ran(federation, csp, {name: connection.job(id) for name, id in ids.items()})


def test_a_researcher_opens_what_all_parties_agree_to(ran, tmp_path):
    found = ran.taken(ran.sealed(), tmp_path / "out")
    assert found.folder == tmp_path / "out"
    assert isinstance(found.certificate, Certificate)
    ours, party = read_result(found.folder), read_result(ran.sites["b"].results_of(ran.records["first"]))
    assert ours.reader is None
    np.testing.assert_array_equal(ours.arrays["components"], party.arrays["components"])
    assert verify_files(found.folder / "certificate.json").same_at == ("user-2", "user-3")
    assert not ours.certificate.seconds_by_stage  # how long a party took is its own account
    assert not ours.certificate.peak_memory


def test_nothing_with_a_row_for_each_record_goes_to_a_researcher(ran, tmp_path):
    """Of split columns all parties have U; the researcher has neither it nor a hash of it."""
    party = ran.sites["a"].results_of(ran.records["columns"])
    assert (party / "left_vectors.npy").exists()
    folder = ran.taken(ran.sealed("columns"), tmp_path / "out", "columns").folder
    assert not list(folder.glob("left_vectors*"))
    assert not list(folder.glob("row_ids*"))
    listed = json.loads((party / MANIFEST).read_text())["files"]["left_vectors.npy"]["sha256"]
    assert not [path for path in folder.iterdir() if listed.encode() in path.read_bytes()]


@pytest.mark.parametrize("unwilling", PARTIES)
def test_files_do_not_open_without_the_share_of_every_party(ran, tmp_path, unwilling):
    """Whichever party does not agree: it is named, and what the others sent does not give the key of the files."""
    agreed = [name for name in PARTIES if name != unwilling]
    messages = ran.sealed(agreed=agreed)
    found = ran.taken(messages, tmp_path / "out")
    assert found.folder is None
    assert found.why == f"{unwilling} has not agreed to hand over what all share"
    assert found.certificate is not None
    whole = ran.sealed()
    # Its notice of another sending, in which it agreed, does not fit either: the key has a salt of its own.
    replayed = {**messages, (f"party/{unwilling}", 0): whole[f"party/{unwilling}", 0]}
    if unwilling == "a":
        assert ("party/a", 1) not in messages
        with pytest.raises(NotSealed, match="is missing"):
            ran.taken(replayed, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_csp_cannot_tell_from_lengths_who_agrees(ran):
    yes, no = ran.sealed(), ran.sealed(agreed=())
    for name in ("b", "c"):
        assert len(yes[f"party/{name}", 0]) == len(no[f"party/{name}", 0])
    assert len(yes["party/a", 0]) == len(no["party/a", 0])


@pytest.mark.parametrize("which", [("party/a", 0), ("party/b", 0), ("party/a", 1)])
def test_an_altered_message_is_refused(ran, tmp_path, which):
    messages = ran.sealed()
    body = messages[which]
    messages[which] = body[:-20] + bytes([body[-20] ^ 1]) + body[-19:]
    with pytest.raises(NotSealed):
        ran.taken(messages, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("which", [("party/a", 0), ("party/c", 0), ("party/a", 1)])
def test_a_message_of_another_job_or_of_another_sending_is_refused(ran, tmp_path, which):
    with pytest.raises(NotSealed):
        ran.taken({**ran.sealed(), which: ran.sealed("second")[which]}, tmp_path / "out")
    if which != ("party/c", 0):  # a notice of c says the same in every sending
        with pytest.raises(NotSealed):
            ran.taken({**ran.sealed(), which: ran.sealed()[which]}, tmp_path / "out")
    messages = ran.sealed("second")
    with pytest.raises(NotSealed, match="is not what it sealed for this job"):
        ran.taken(messages, tmp_path / "out")


def test_messages_of_two_parties_do_not_change_places(ran, tmp_path):
    messages = ran.sealed()
    messages["party/b", 0], messages["party/c", 0] = messages["party/c", 0], messages["party/b", 0]
    with pytest.raises(NotSealed, match="party/b is not what it sealed"):
        ran.taken(messages, tmp_path / "out")


def test_a_message_that_is_held_back_is_named(ran, tmp_path):
    messages = ran.sealed()
    held = {which: body for which, body in messages.items() if which[0] != "party/b"}
    assert ran.taken(held, tmp_path / "out").why == "b has sent nothing for the researcher"
    del messages["party/a", 1]
    with pytest.raises(NotSealed, match="part 1 of 1 that party/a sent is missing"):
        ran.taken(messages, tmp_path / "out")


@pytest.mark.parametrize("liar", ["a", "b"])
def test_a_party_that_signs_other_outputs_is_found_and_named(ran, tmp_path, liar):
    """Its folder is whole, and its certificate the true one: only what it hands over differs from the others'."""
    honest = ran.sites[liar].results_of(ran.records["first"])
    result = read_result(honest)
    arrays = {**result.arrays, "components": result.arrays["components"] * 1.001}
    write_result(tmp_path / "forged", replace(result, arrays=arrays))
    (tmp_path / "forged" / "certificate.json").write_bytes((honest / "certificate.json").read_bytes())
    messages = ran.sealed(folders={liar: tmp_path / "forged"})
    rest = ", ".join(name for name in PARTIES if name != liar)
    with pytest.raises(SplitView, match=f"signed different results for the researcher: {rest} against {liar}"):
        ran.taken(messages, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_party_of_another_session_is_named(ran, tmp_path):
    """Certificates of two sessions: each is signed by all, and they are not of one study."""
    other = ran.sites["c"].results_of(ran.records["second"])
    with pytest.raises((NotSealed, SplitView)):
        ran.taken(ran.sealed(folders={"c": other}), tmp_path / "out")


def test_files_in_a_researchers_folder_are_those_that_all_parties_signed(ran, tmp_path):
    folder = ran.taken(ran.sealed(), tmp_path / "out").folder
    path = folder / "certificate.json"
    verify_files(path)
    components = np.load(folder / "components.npy")
    np.save(folder / "components.npy", -components)
    with pytest.raises(NotSealed, match=r"components\.npy was altered"):
        verify_files(path)
    np.save(folder / "components.npy", components)
    verify_files(path)
    record = json.loads(path.read_text())
    first = record["local"]["handed_over"]["user-1"]
    for change in ({"user-2": first}, {"user-2": "00"}):
        altered = {**record, "local": {**record["local"], "handed_over": {**record["local"]["handed_over"], **change}}}
        path.write_text(json.dumps(altered))
        with pytest.raises(NotSealed, match="not those that its users signed"):
            verify_files(path)
    record["local"]["files"].pop("components.npy")
    path.write_text(json.dumps(record))
    with pytest.raises(NotSealed, match="not those that its users signed"):
        verify_files(path)


def test_a_party_seals_to_the_pinned_key_alone(ran):
    """A CSP that shows the certificate of another as the researcher's gets nothing sealed to it."""
    site, record = ran.sites["a"], ran.records["first"]
    assert site.handover(record).state == "agreed"
    foreign = Kit.read(ran.federation.kits["party/b"]).certificate_pem.decode()
    for change in ({"certificate": foreign}, {"submitter": "researcher/other"}, {"certificate": ""}):
        with pytest.raises(NotAuthenticated):
            site.handover(record.changed(**change))
    pins = site.kit.directory / "pins.toml"
    before = pins.read_text()
    try:
        pins.write_text("".join(line for line in before.splitlines(True) if "researcher" not in line))
        with pytest.raises(NotAuthenticated, match="researcher/res is not pinned"):
            site.handover(record)
    finally:
        pins.write_text(before)


def test_a_policy_that_was_changed_since_the_approval_is_heeded(ran):
    site, record = ran.sites["c"], ran.records["first"]
    path = site.kit.directory / "policy.toml"
    before = path.read_text()
    try:
        path.write_text(spelt_policy(replace(Policy.permissive(), researcher="none")))
        assert Site.at(site.kit.directory).handover(record).state == "not agreed"
    finally:
        path.write_text(before)


def test_a_researcher_takes_no_result_of_a_job_that_it_did_not_sign(ran, tmp_path):
    record = ran.records["first"]
    file = {**record.file, "job": {**record.file["job"], "components": 1}}
    with pytest.raises(NotSealed):
        take(ran.researcher, record.changed(file=file), ran.sealed().get, tmp_path / "out")


@pytest.mark.parametrize(
    "name", ["../out", "a/b.npy", ".hidden.npy", "certificate.pem", "report.html", "x.npy\x00", "manifest.json.npy"]
)
def test_no_file_of_a_strange_name_is_written(name):
    content = packed({name: b"", "manifest.json": b"{}"})
    with pytest.raises(NotSealed):
        unpacked(content)


def test_what_is_cut_off_is_not_unpacked(ran):
    content = packed(files_to_hand_over(ran.sites["a"].results_of(ran.records["first"])))
    assert packed(unpacked(content)) == content
    for cut in (1, 7, 9, len(content) // 2, len(content) - 1):
        with pytest.raises(NotSealed):
            unpacked(content[:cut])


# --- the CSP's store --------------------------------------------------------------------------------------------------


def test_the_csp_takes_messages_of_bounded_length_and_number(tmp_path):
    box = Mailbox(tmp_path)
    box.put("ab12", 0, MOST_PARTS, bytes(LARGEST_PART))
    box.put("ab12", 1, 0, b"first")
    box.put("ab12", 1, 0, b"again")
    assert box.get("ab12", 1, 0) == b"again"
    assert box.get("ab12", 2, 0) is None
    assert Mailbox(tmp_path).get("ab12", 1, 0) == b"again"  # after a restart
    for place, number, sealed in ((0, 0, bytes(LARGEST_PART + 1)), (0, MOST_PARTS + 1, b""), (1, 1, b"")):
        with pytest.raises(FedSVDError, match="too large to be handed over"):
            box.put("ab12", place, number, sealed)
    with pytest.raises(FedSVDError):
        box.put("../ab", 0, 0, b"")


def test_only_parties_leave_messages_and_only_their_researcher_reads_them(ran):
    id = ran.records["first"].id
    about = {"id": id, "attempt": 1, "number": 0, "sealed": b"x"}
    for caller, changed in (("researcher/res", {}), ("authority/ta", {}), ("party/d", {}), ("party/a", {"attempt": 2})):
        with pytest.raises(NotAuthenticated):
            ran.csp.handle(api.HANDOVER, caller, api.HandOver(**{**about, **changed}))
    for caller in ("party/a", "party/b", "researcher/other"):
        with pytest.raises(NotAuthenticated):
            ran.csp.handle(api.HANDED, caller, api.Handed(id=id, member="party/a", number=0))
    found = ran.csp.handle(api.HANDED, "researcher/res", api.Handed(id=id, member="party/b", number=0))
    assert found.sealed


def test_messages_of_a_job_are_removed_thirty_days_after_the_last_of_them(tmp_path):
    box = Mailbox(tmp_path)
    for job, days in (("ab12", 31), ("cd34", 29)):
        box.put(job, 0, 0, b"sealed")
        then = time() - days * 86_400
        os.utime(tmp_path / job, (then, then))
    box.put("ef56", 0, 0, b"sealed")
    assert [box.get(job, 0, 0) for job in ("ab12", "cd34", "ef56")] == [None, b"sealed", b"sealed"]


def test_a_researcher_that_has_its_results_takes_them_off_the_disk_of_the_csp(ran, tmp_path):
    """Fetched once, copied at home from then on; what a party sends again is let go, and another folder is named."""
    record = ran.records["second"]
    stored = ran.federation.kits["csp/csp"] / "state" / "handed-over" / record.id
    assert sum(path.stat().st_size for path in stored.iterdir()) > 10_000
    with pytest.raises(NotAuthenticated):
        ran.csp.handle(api.TAKEN, "party/a", api.About(id=record.id))
    with ran.federation.connect() as connection:
        folder = connection.results(record.id).folder
        assert [path.name for path in stored.iterdir()] == ["taken"]
        assert connection.results(record.id).folder == folder
        copied = connection.results(record.id, tmp_path / "again").folder
        assert {path.name: path.read_bytes() for path in copied.iterdir()} == {
            path.name: path.read_bytes() for path in folder.iterdir()
        }
        sent = api.HandOver(id=record.id, attempt=record.attempt, number=0, sealed=b"again")
        ran.csp.handle(api.HANDOVER, "party/b", sent)
        assert [path.name for path in stored.iterdir()] == ["taken"]
        folder.rename(tmp_path / "moved")
        with pytest.raises(FedSVDError, match="were fetched before"):
            connection.results(record.id)


def test_notices_do_not_grow_with_the_number_of_parties(ran):
    """The certificate of the study, whose length grows with the parties, goes with the first notice alone."""
    lengths = {name: len(ran.sealed()[f"party/{name}", 0]) for name in PARTIES}
    assert lengths["b"] == lengths["c"] < 2500 < lengths["a"]
