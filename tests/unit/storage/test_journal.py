"""What a role must not forget is on disk before anything follows from it, and a log that was changed is found out."""

import errno
import json
import os
import shutil
import stat
import subprocess
import sys
import threading
from hashlib import sha256
from itertools import pairwise

import pytest
from tests.network import GENEROUS

from fedsvd.errors import LocalProtocolError, StorageError
from fedsvd.storage import journal as module
from fedsvd.storage.journal import AuditLog, Journal, Sessions, verify_audit
from fedsvd.storage.journal import ledger as ledger_of
from fedsvd.types import SessionId


def records(path):
    return list(Journal(path).records())


def written(log: AuditLog, count: int) -> None:
    for number in range(count):
        log.write("2031-05-06T07:08:09+00:00", "enlisted", job=f"job-{number}", attempt=1)


# --- the ledger -------------------------------------------------------------------------------------------------------


def test_records_come_back_in_order_also_after_a_restart(tmp_path):
    path = tmp_path / "state" / "ledger.jsonl"
    ledger = Journal(path)
    assert list(ledger.records()) == []
    for number in range(3):
        ledger.append({"event": "x", "number": number, "text": "Müller\nand\u2028sons"})
    again = Journal(path)
    again.append({"event": "y"})
    assert [record.get("number") for record in again.records()] == [0, 1, 2, None]
    assert next(again.records())["text"] == "Müller\nand\u2028sons"


def test_a_ledger_is_its_owners_alone(tmp_path):
    path = tmp_path / "state" / "ledger.jsonl"
    Journal(path).append({"a": 1})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_record_is_synced_before_append_returns(tmp_path, monkeypatch):
    synced = []
    sync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (synced.append(os.fstat(descriptor)), sync(descriptor)))
    path = tmp_path / "ledger.jsonl"
    ledger = Journal(path)
    ledger.append({"a": 1})
    assert [found.st_ino for found in synced] == [path.stat().st_ino, tmp_path.stat().st_ino]
    assert synced[0].st_size == path.stat().st_size
    ledger.append({"a": 2})
    assert len(synced) == 3


@pytest.mark.parametrize("kept", range(1, 12))
def test_a_line_cut_off_by_a_kill_is_as_if_it_had_never_been(tmp_path, kept):
    path = tmp_path / "ledger.jsonl"
    Journal(path).append({"a": 1})
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"b":12345}\n'[:kept])
    assert list(module.read_lines(path)) == [{"a": 1}]
    ledger = Journal(path)
    assert path.read_bytes() == whole
    ledger.append({"c": 3})
    assert list(ledger.records()) == [{"a": 1}, {"c": 3}]


def test_a_role_killed_while_it_writes_loses_nothing_it_had_written(tmp_path):
    path = tmp_path / "ledger.jsonl"
    program = (
        "import sys; from pathlib import Path; from fedsvd.storage.journal import Journal\n"
        "ledger = Journal(Path(sys.argv[1]))\n"
        "for number in range(10**9):\n"
        "    ledger.append({'number': number}); print(number, flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True) as process:
        said = [int(process.stdout.readline()) for _ in range(40)]
        process.kill()
        said += [int(line) for line in process.stdout]
    numbers = [record["number"] for record in records(path)]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) >= len(said)


@pytest.mark.parametrize("line", [b"{not json}\n", b"[1, 2]\n", b"\xff\xfe\n", b"\n", b"7\n", b"[" * 10**5 + b"\n"])
def test_a_damaged_line_is_an_error_that_names_it(tmp_path, line):
    path = tmp_path / "ledger.jsonl"
    Journal(path).append({"a": 1})
    path.write_bytes(path.read_bytes() + line + b'{"b":2}\n')
    with pytest.raises(StorageError, match=r"line 2 of ledger\.jsonl is damaged"):
        records(path)


@pytest.mark.parametrize("fault", ["short", "full", "sync"])
def test_a_full_disk_is_an_error_and_leaves_whole_lines_behind(tmp_path, monkeypatch, fault):
    path = tmp_path / "ledger.jsonl"
    ledger = Journal(path)
    ledger.append({"a": 1})
    whole, write = path.read_bytes(), os.write

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        if fault == "short":
            patched.setattr(os, "write", lambda descriptor, line: write(descriptor, line[:5]))
        else:
            patched.setattr(os, "write" if fault == "full" else "fsync", full)
        with pytest.raises(StorageError, match="cannot write"):
            ledger.append({"b": 2})
    assert path.read_bytes() == whole
    ledger.append({"c": 3})
    assert list(ledger.records()) == [{"a": 1}, {"c": 3}]


def test_threads_write_whole_lines(tmp_path):
    ledger = Journal(tmp_path / "ledger.jsonl")
    threads = [
        threading.Thread(target=lambda who=who: [ledger.append({"who": who, "number": n}) for n in range(25)])
        for who in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GENEROUS)
    found = list(ledger.records())
    for who in range(4):
        assert [record["number"] for record in found if record["who"] == who] == list(range(25))


# --- sessions ---------------------------------------------------------------------------------------------------------


def test_a_session_is_spent_once_and_for_ever(tmp_path):
    path = tmp_path / "ledger.jsonl"
    sessions = Sessions(Journal(path))
    one, two = SessionId("01" * 16), SessionId("02" * 16)
    sessions.claim(one)
    with pytest.raises(LocalProtocolError, match="opened before"):
        sessions.claim(one)
    again = Sessions(Journal(path))
    with pytest.raises(LocalProtocolError, match="opened before"):
        again.claim(one)
    again.claim(two)
    assert [record["session"] for record in records(path)] == [one, two]


def test_a_session_is_on_disk_before_it_is_used(tmp_path, monkeypatch):
    ledger = Journal(tmp_path / "ledger.jsonl")
    sessions = Sessions(ledger)

    def full(line):
        raise StorageError("cannot write ledger.jsonl: no space", "free disk space")

    monkeypatch.setattr(ledger, "append", full)
    with pytest.raises(StorageError):
        sessions.claim(SessionId("01" * 16))
    monkeypatch.undo()
    # Whether it was written is not certain, so it is not used again.
    with pytest.raises(LocalProtocolError):
        sessions.claim(SessionId("01" * 16))


def test_a_ledger_that_lists_a_session_twice_stops_the_role(tmp_path):
    ledger = Journal(tmp_path / "ledger.jsonl")
    for _ in range(2):
        ledger.append({"event": "session", "session": "01" * 16})
    with pytest.raises(StorageError, match="twice"):
        Sessions(ledger)


def test_of_many_threads_one_gets_a_session(tmp_path):
    sessions = Sessions(Journal(tmp_path / "ledger.jsonl"))
    barrier, outcomes = threading.Barrier(8), []

    def claim() -> None:
        barrier.wait()
        try:
            sessions.claim(SessionId("01" * 16))
            outcomes.append("got it")
        except LocalProtocolError:
            outcomes.append("refused")

    threads = [threading.Thread(target=claim) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GENEROUS)
    assert sorted(outcomes) == ["got it"] + ["refused"] * 7


# --- the audit log ----------------------------------------------------------------------------------------------------


def test_an_audit_log_is_chained_from_the_first_line_on_and_across_restarts(tmp_path):
    path = tmp_path / "audit.jsonl"
    written(AuditLog(path), 3)
    written(AuditLog(path), 2)
    assert verify_audit(path) == 5
    lines = records(path)
    assert [line["number"] for line in lines] == [1, 2, 3, 4, 5]
    assert lines[0]["before"] == ""
    assert all(line["before"] == before["hash"] for before, line in pairwise(lines))
    assert lines[4]["facts"] == {"job": "job-1", "attempt": 1}


def test_the_chain_is_the_one_that_is_documented(tmp_path):
    """SHA-256 of ``fedsvd/audit/1``, a zero byte and the line without its hash, in canonical JSON."""
    path = tmp_path / "audit.jsonl"
    written(AuditLog(path), 1)
    line = json.loads(path.read_text())
    found = line.pop("hash")
    canonical = json.dumps(line, sort_keys=True, separators=(",", ":")).encode()
    assert found == sha256(b"fedsvd/audit/1\x00" + canonical).hexdigest()


def changed(lines):
    record = json.loads(lines[1])
    record["facts"]["job"] = "another"
    lines[1] = json.dumps(record, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def changed_and_hashed_anew(lines):
    record = json.loads(lines[1])
    record["facts"]["job"] = "another"
    record.pop("hash")
    record["hash"] = module.chain_hash(record)
    lines[1] = json.dumps(record, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def removed(lines):
    del lines[1]


def swapped(lines):
    lines[1], lines[2] = lines[2], lines[1]


def doubled(lines):
    lines.insert(1, lines[1])


def without_the_first(lines):
    del lines[0]


def foreign(lines):
    lines[1] = b'{"event":"session"}\n'


@pytest.mark.parametrize(
    "tamper", [changed, changed_and_hashed_anew, removed, swapped, doubled, without_the_first, foreign]
)
def test_a_log_that_was_changed_is_found_out(tmp_path, tamper):
    path = tmp_path / "audit.jsonl"
    written(AuditLog(path), 4)
    lines = path.read_bytes().splitlines(keepends=True)
    tamper(lines)
    path.write_bytes(b"".join(lines))
    with pytest.raises(StorageError, match=r"changed at line [123]"):
        verify_audit(path)


def test_a_line_cut_off_by_a_kill_does_not_break_the_chain(tmp_path):
    path = tmp_path / "audit.jsonl"
    written(AuditLog(path), 2)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"number":3,"wh')
    assert verify_audit(path) == 2
    written(AuditLog(path), 1)
    assert verify_audit(path) == 3


def test_threads_write_one_chain(tmp_path):
    path = tmp_path / "audit.jsonl"
    log = AuditLog(path)
    threads = [threading.Thread(target=written, args=(log, 25)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GENEROUS)
    assert verify_audit(path) == 150


def test_an_event_that_could_not_be_written_leaves_the_chain_whole(tmp_path, monkeypatch):
    path = tmp_path / "audit.jsonl"
    log = AuditLog(path)
    written(log, 1)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", lambda descriptor: (_ for _ in ()).throw(OSError(errno.EIO, "I/O error")))
        with pytest.raises(StorageError):
            written(log, 1)
    written(log, 1)
    assert verify_audit(path) == 2


def test_an_empty_log_has_no_lines_and_a_missing_one_is_an_error(tmp_path):
    path = tmp_path / "audit.jsonl"
    with pytest.raises(StorageError, match="no audit log"):
        verify_audit(path)
    path.touch()
    assert verify_audit(path) == 0


@pytest.mark.parametrize("left", [0, 1, 3])
def test_lines_cut_off_at_the_end_are_missed(tmp_path, left):
    path = tmp_path / "audit.jsonl"
    written(AuditLog(path), 4)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:left]))
    for look in (verify_audit, AuditLog):
        with pytest.raises(StorageError, match=f"has {left} lines, and had 4"):
            look(path)


def test_a_log_cut_off_and_written_anew_is_missed(tmp_path):
    """As long as it was, and every link of the chain holds; but it is another chain."""
    path, other = tmp_path / "audit.jsonl", tmp_path / "other.jsonl"
    written(AuditLog(path), 3)
    log = AuditLog(other)
    for _ in range(3):
        log.write("2026-01-01T00:00:00+00:00", "nothing happened")
    path.write_bytes(other.read_bytes())
    with pytest.raises(StorageError, match="cut off or replaced"):
        verify_audit(path)


def test_a_log_without_its_head_does_not_pass(tmp_path):
    path = tmp_path / "audit.jsonl"
    written(AuditLog(path), 2)
    (tmp_path / "audit.head").write_text("{}")
    with pytest.raises(StorageError, match="is damaged"):
        verify_audit(path)
    (tmp_path / "audit.head").unlink()
    with pytest.raises(StorageError, match=r"there is no audit\.head"):
        verify_audit(path)


def test_a_role_killed_before_it_wrote_the_head_goes_on(tmp_path):
    path = tmp_path / "audit.jsonl"
    written(AuditLog(path), 2)
    behind = (tmp_path / "audit.head").read_bytes()
    written(AuditLog(path), 1)
    (tmp_path / "audit.head").write_bytes(behind)
    assert verify_audit(path) == 3
    written(AuditLog(path), 1)
    assert verify_audit(path) == 4
    assert json.loads((tmp_path / "audit.head").read_text())["number"] == 4


def test_verifying_changes_nothing(tmp_path):
    path = tmp_path / "audit.jsonl"
    written(AuditLog(path), 2)
    path.write_bytes(path.read_bytes() + b'{"half')
    before = path.read_bytes()
    verify_audit(path)
    assert path.read_bytes() == before


# --- the head of a ledger ---------------------------------------------------------------------------------------------


def with_lines(tmp_path, count=4):
    """The ledger of a role, with so many lines."""
    state = tmp_path / "state"
    journal = ledger_of(state)
    for number in range(count):
        journal.append({"number": number})
    return state, state / "ledger.jsonl"


@pytest.mark.parametrize("left", [0, 1, 3])
def test_a_ledger_that_was_emptied_or_cut_off_is_noticed_at_the_start(tmp_path, left):
    state, path = with_lines(tmp_path)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:left]))
    with pytest.raises(StorageError, match=rf"ledger\.jsonl has {left} lines, and had 4") as refused:
        ledger_of(state)
    assert "state.head" in refused.value.fix


def test_a_ledger_that_was_removed_or_whose_folder_was_is_noticed_at_the_start(tmp_path):
    state, path = with_lines(tmp_path)
    path.unlink()
    with pytest.raises(StorageError, match="has 0 lines, and had 4"):
        ledger_of(state)
    shutil.rmtree(state)
    with pytest.raises(StorageError, match="has 0 lines, and had 4"):
        ledger_of(state)


def test_a_line_that_was_replaced_is_noticed_at_the_start(tmp_path):
    state, path = with_lines(tmp_path)
    path.write_bytes(path.read_bytes().replace(b'"number":1', b'"number":7'))
    with pytest.raises(StorageError, match="replaced"):
        ledger_of(state)


def test_a_ledger_goes_on_after_a_restart_a_kill_and_from_an_older_version(tmp_path):
    state, path = with_lines(tmp_path, 2)
    behind = (tmp_path / "state.head").read_bytes()
    ledger_of(state).append({"number": 2})
    (tmp_path / "state.head").write_bytes(behind)  # a kill between the line and its head
    ledger_of(state).append({"number": 3})
    assert [line["number"] for line in records(path)] == [0, 1, 2, 3]
    (tmp_path / "state.head").unlink()  # 0.2.0 had none
    ledger_of(state).append({"number": 4})
    path.write_bytes(b"")
    with pytest.raises(StorageError, match="has 0 lines, and had 5"):
        ledger_of(state)


def test_a_line_whose_head_cannot_be_written_is_taken_back(tmp_path, monkeypatch):
    state, path = with_lines(tmp_path, 1)
    whole, journal = path.read_bytes(), ledger_of(state)

    def full(path, content):
        raise StorageError("no space", "free disk space")

    with monkeypatch.context() as disk:
        disk.setattr(module.private, "replace", full)
        with pytest.raises(StorageError):
            journal.append({"number": 1})
    assert path.read_bytes() == whole
    journal.append({"number": 2})
    assert [line["number"] for line in ledger_of(state).records()] == [0, 2]
