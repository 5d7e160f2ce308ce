"""F6 and part of F14 on version 0.1.0: a CSP that opens a finished job again, and what parties tell of their work.

As ``in_0_1_0.py``, with roles between institutions: the old checkout's own test helpers start them on this machine.
"""

import json
import tempfile
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from pathlib import Path

from fedsvd.protocol.release import Policy
from fedsvd.runtime.csp_node import CspNode
from fedsvd.runtime.jobbook import JobState
from fedsvd.runtime.member_node import MemberNode
from fedsvd.runtime.site import Site
from tests.e2e.institutions import GENEROUS, file_of, institutions, split_table, until

PARTIES = ("a", "b", "c")
AGAIN = 3


@contextmanager
def federation(root):
    """A CSP and three parties in this process; every owner approves the one job that it is asked for."""
    _, tables = split_table(200, 4, PARTIES)
    policy = Policy(records_for_full=1, records=1, consent_to_two=True)
    with institutions(root, PARTIES, tables, policy=policy) as made, ExitStack() as stack:
        site = Site.at(made.kits["csp/csp"])
        node = CspNode(site.listening("127.0.0.1:0"), site.authenticate, site.state, patience=made.patience)
        node.start()
        stack.callback(node.stop)
        made.csp = f"127.0.0.1:{node.port}"
        for name in PARTIES:
            site = Site.at(made.kits[f"party/{name}"], True)
            dialling = site.dialling(made.csp, made.patience)
            member = MemberNode(f"party/{name}", dialling, site.kit.signing_key, site.facts(), site, site.state)
            thread = threading.Thread(target=member.run, daemon=True)
            thread.start()
            stack.callback(thread.join, GENEROUS)
            stack.callback(member.stop)
        yield made, node


def main():
    """A finished job, shown again as if it were new."""
    with tempfile.TemporaryDirectory() as folder, federation(Path(folder)) as (made, csp):
        with made.connect() as line:
            id = line.submit(file_of("svd", PARTIES, name="study"))
        ends = JobState.DONE, JobState.BROKEN
        until(lambda: csp.book.get(id).state in ends)
        done = int(csp.book.get(id).state is JobState.DONE)
        told = csp.book.progress(id)["party/a"]
        known = {field.name for field in fields(csp.book.get(id))}
        fresh = {"enlisted": {}, "plan": None, "finished": (), "failures": (), "plan_digest": ""}
        for attempt in range(2, 2 + AGAIN):
            again = {name: value for name, value in fresh.items() if name in known}
            csp.book.change(id, state=JobState.RECRUITING, attempt=attempt, **again)
            until(lambda: csp.book.get(id).state in ends)
            done += int(csp.book.get(id).state is JobState.DONE)
    seconds = sorted(told.get("seconds_by_stage", {}))
    found = {
        "F6": {"sessions with one approval": done, "broken": done == 1 + AGAIN},
        "F14, stages": {"stages whose seconds the CSP and all peers are sent": seconds, "broken": bool(seconds)},
    }
    print(json.dumps({"findings": found}))


if __name__ == "__main__":
    main()
