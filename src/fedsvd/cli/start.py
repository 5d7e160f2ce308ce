"""``fedsvd csp|authority|party start``: a role as a long-running process.

One line on standard output when it is ready; one log line to an event on standard error, ``key=value``. SIGTERM and
SIGINT end it cleanly with exit code 0: sessions under way are ended and reported, files are complete. It never takes
longer than 45 seconds: what hangs is left, with exit code 1 and a trace of where it hung.
"""

import json
import logging
import os
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from fedsvd.cli.group import Group
from fedsvd.cli.options import CspOption, FormatOption, KitOption
from fedsvd.cli.output import Format
from fedsvd.cli.reports import drawing
from fedsvd.cli.signals import end_in_time, heed_signals
from fedsvd.identity.certificates import REHEARSAL
from fedsvd.identity.names import KitRole

Patience = Annotated[float, typer.Option(min=1, help="Seconds without any progress before a peer is given up.")]
WithParent = Annotated[bool, typer.Option("--with-parent", hidden=True, help="End when standard input ends.")]
_PATIENCE = 120.0
_FROM_PARENT = "-"  # the address of the CSP is the first line of standard input

csp = Group(help="The computing server, the one role that listens.")
authority = Group(help="The Trusted Authority, which deals masks and sees no data.")
party = Group(help="A party, which owns data.")


@csp.callback()
@authority.callback()
@party.callback()
def _role() -> None:
    """Makes ``start`` a command of its own: a group of one command would swallow it."""


@csp.command("start")
def start_csp(
    kit: KitOption,
    address: Annotated[
        str | None, typer.Option("--address", metavar="HOST:PORT", help="Where to listen; port 0 lets the system pick.")
    ] = None,
    board: Annotated[
        bool, typer.Option("--dashboard", help="Also serve a web page of what goes on, on 127.0.0.1, behind a token.")
    ] = False,
    board_port: Annotated[
        int, typer.Option("--dashboard-port", min=0, max=65535, help="Its port; 0 lets the system pick.")
    ] = 7480,
    patience: Patience = _PATIENCE,
    with_parent: WithParent = False,
    format: FormatOption = Format.TEXT,
) -> None:
    """Listen for parties, authority and researchers, and compute under masks."""
    # Imported here and below: --help needs neither the roles nor the transport.
    from fedsvd.cli.dashboard import dashboard
    from fedsvd.service.serve import no_dashboard

    audit = kit / "state" / "audit.jsonl"
    page = partial(dashboard, audit=audit, port=board_port) if board else no_dashboard
    _serve(kit, KitRole.CSP, format, with_parent, listen=address, patience=patience, dashboard=page)


@authority.command("start")
def start_authority(
    kit: KitOption,
    csp: CspOption = None,
    patience: Patience = _PATIENCE,
    with_parent: WithParent = False,
    format: FormatOption = Format.TEXT,
) -> None:
    """Deal the masks of every job whose members are pinned in this kit."""
    _serve(kit, KitRole.AUTHORITY, format, with_parent, csp=csp, patience=patience)


@party.command("start")
def start_party(
    kit: KitOption,
    csp: CspOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Take part in every job that policy.toml allows.")] = False,
    patience: Patience = _PATIENCE,
    with_parent: WithParent = False,
    format: FormatOption = Format.TEXT,
) -> None:
    """Take part in the jobs that this party's owner approved."""
    _serve(kit, KitRole.PARTY, format, with_parent, yes, csp=csp, patience=patience)


def _serve(kit: Path, role: KitRole, format: Format, with_parent: bool, yes: bool = False, **how: Any) -> None:
    from fedsvd.engine.memory import bound_heap

    bound_heap()
    from fedsvd.service.serve import Started, serve
    from fedsvd.service.site import Site

    if how.get("csp") == _FROM_PARENT:
        import fedsvd.service.member_node  # noqa: F401  (meanwhile the CSP starts)

        # Before signals are heeded: until then SIGTERM simply ends the process, which has done nothing yet.
        how["csp"] = _first_line()
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,
        format="time=%(asctime)s level=%(levelname)s %(message)s",
        datefmt="%Y-%m-%dT%H:%M:%S%z",
    )
    stop = threading.Event()
    heed_signals(stop)
    if with_parent:
        threading.Thread(target=_orphaned, args=(stop,), daemon=True).start()

    def ready(started: Started) -> None:
        if format is Format.JSON:
            typer.echo(json.dumps({"ready": started.shown()}))
        else:
            where = f"listens at {started.address}" if started.address else f"has reached the CSP at {started.csp}"
            typer.echo(f"{started.role} {where}")
            if started.dashboard:
                typer.echo(f"dashboard: {started.dashboard}")
        sys.stdout.flush()

    site = Site.at(kit, yes, drawing())
    if site.kit.rehearsal:
        typer.echo(REHEARSAL, err=True)
    serve(site, role, stop, ready, **how)
    logging.shutdown()
    sys.stdout.flush()
    # The transport's threads may sit in a call for a minute; everything that matters is on disk.
    os._exit(0)


def _first_line() -> str:
    """The first line of standard input, and nothing of what follows; the process ends where there is none."""
    line = b""
    while not line.endswith(b"\n"):
        if not (read := os.read(0, 1)):
            raise SystemExit(1)
        line += read
    return line.decode().strip()


def _orphaned(stop: threading.Event) -> None:
    """Set ``stop`` once the process that started us is gone."""
    # Not through sys.stdin: a thread that waits inside its buffer aborts the interpreter when that ends.
    while os.read(0, 4096):
        continue
    end_in_time()
    stop.set()
