"""``fedsvd csp start --dashboard``: a local web page of what a CSP is doing, for the person who runs it.

It listens on 127.0.0.1 alone and asks for a token that is made at the start and printed once; the first visit puts it
into a cookie and takes it out of the address. Browsers send a cookie to every port of a host, so this one is bound to
a path that is made of the token, which no other server on this machine is asked for. The page loads nothing from
elsewhere, and what it shows is what the CSP knows anyway: parties, stages, bytes, errors by their codes. No value of
any matrix is there to be shown.
"""

import asyncio
import hashlib
import hmac
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from fedsvd import __version__
from fedsvd.cli.watch import Pace
from fedsvd.errors import MissingExtra, StorageError, printable
from fedsvd.randomness.entropy import fresh_bytes
from fedsvd.service.csp import CspNode
from fedsvd.service.jobs import Jobs
from fedsvd.service.records import JobRecord, WatchedJob
from fedsvd.storage.journal import last_records

HOST = "127.0.0.1"
COOKIE = "fedsvd-dashboard"
_LOOK = 1.0  # seconds between looks at the jobs
_JOBS, _EVENTS = 50, 100
_STARTED_WITHIN = 10.0
_OURS = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:"
_HEADERS = {
    "Content-Security-Policy": _OURS,
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Board:
    """What there is to be seen, as plain values."""

    def __init__(self, jobs: Jobs, audit: Path, address: str) -> None:
        self._jobs = jobs
        self._audit = audit
        self._address = address
        self._paces: dict[tuple[str, int, str], Pace] = {}
        self._lock = threading.Lock()  # two visitors may look in the same instant

    def state(self) -> dict[str, Any]:
        """Everything on the page, newest job first."""
        jobs = self._jobs.all()[-_JOBS:]
        with self._lock:
            shown = [self._job(job) for job in reversed(jobs)]
        return {
            "csp": {"address": self._address, "version": __version__, "now": datetime.now(UTC).isoformat()},
            "jobs": shown,
            "history": [_event(record) for record in reversed(last_records(self._audit, _EVENTS))],
        }

    def _job(self, job: JobRecord) -> dict[str, Any]:
        watched = WatchedJob.of(job, self._jobs.progress(job.id), "")
        pace = self._paces.setdefault(job.session_key, Pace())
        return {
            "id": job.short,
            "name": job.name,
            "task": job.task,
            "state": str(job.state),
            "attempt": job.attempt,
            "session": "" if job.over else job.in_stage,
            "submitter": job.submitter,
            "enlisted": len(job.enlisted),
            "members": len(job.members),
            "roles": [asdict(row) for row in pace.rows(watched, monotonic())],
            "failures": [failure.model_dump() for failure in job.failures],
        }


def _event(record: dict[str, Any]) -> dict[str, str]:
    facts = ", ".join(f"{key} {str(value)[:16]}" for key, value in record.get("facts", {}).items())
    return {
        "when": printable(record.get("when", "")),
        "event": printable(record.get("event", "")),
        "facts": printable(facts),
    }


def application(state: Callable[[], dict[str, Any]], token: str, stopping: threading.Event) -> Any:
    """The web page as an ASGI application; ``token`` is asked of every visitor."""
    try:
        from starlette.applications import Starlette
        from starlette.middleware import Middleware
        from starlette.middleware.trustedhost import TrustedHostMiddleware
        from starlette.requests import Request
        from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
        from starlette.routing import Route
    except ImportError:
        raise MissingExtra("the dashboard needs starlette and uvicorn", "pip install 'fedsvd[dashboard]'") from None

    place = f"/{hashlib.sha256(b'fedsvd/dashboard/1' + token.encode()).hexdigest()[:32]}/"

    def known(word: str | None) -> bool:
        return word is not None and hmac.compare_digest(word.encode(), token.encode())

    def refused(request: Request) -> Response | None:
        if known(request.cookies.get(COOKIE)):
            return None
        words = "This page needs the address that 'fedsvd csp start --dashboard' printed, with its token."
        return PlainTextResponse(words, 403, _HEADERS)

    async def enter(request: Request) -> Response:
        if not known(request.query_params.get("token")):
            return refused(request) or RedirectResponse(place, 303, _HEADERS)
        answer = RedirectResponse(place, 303, _HEADERS)
        answer.set_cookie(COOKIE, token, path=place, httponly=True, samesite="strict")
        return answer

    async def page(request: Request) -> Response:
        refusal = refused(request)
        return refusal or Response(_opened(await asyncio.to_thread(state)), media_type="text/html", headers=_HEADERS)

    async def style(request: Request) -> Response:
        return Response(_part("css"), media_type="text/css", headers=_HEADERS)

    async def script(request: Request) -> Response:
        return Response(_part("js"), media_type="text/javascript", headers=_HEADERS)

    async def events(request: Request) -> Response:
        refusal = refused(request)
        return refusal or StreamingResponse(_events(state, stopping), media_type="text/event-stream", headers=_HEADERS)

    parts = {"": page, "board.css": style, "board.js": script, "events": events}
    routes = [Route("/", enter), *(Route(place + name, part) for name, part in parts.items())]
    # Other names that lead to this address (DNS rebinding) are not answered.
    return Starlette(routes=routes, middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"])])


async def _events(state: Callable[[], dict[str, Any]], stopping: threading.Event) -> AsyncIterator[str]:
    """Server-sent events: the full state whenever it has changed."""
    last = ""
    while not stopping.is_set():
        now = await asyncio.to_thread(state)
        text = json.dumps({**now, "csp": {**now["csp"], "now": ""}})
        if text != last:
            last = text
            yield f"data: {json.dumps(now)}\n\n"
        else:
            yield ": still here\n\n"
        await asyncio.sleep(_LOOK)


def _opened(state: dict[str, Any]) -> str:
    """The page with the state it opens on, so that it is never empty until the first event."""
    return _part("html").replace("{{ state }}", escape(json.dumps(state)))


def _part(ending: str) -> str:
    return files("fedsvd.cli").joinpath(f"dashboard.{ending}").read_text(encoding="utf-8")


@contextmanager
def dashboard(node: CspNode, audit: Path, port: int) -> Iterator[str]:
    """The page, served while the block lasts; its address, with its token."""
    try:
        import uvicorn
    except ImportError:
        raise MissingExtra("the dashboard needs starlette and uvicorn", "pip install 'fedsvd[dashboard]'") from None
    token, stopping = fresh_bytes(24).hex(), threading.Event()
    board = Board(node.jobs, audit, f"port {node.port}")
    app = application(board.state, token, stopping)
    config = uvicorn.Config(app, host=HOST, port=port, log_level="error", access_log=False, lifespan="off")
    config.timeout_graceful_shutdown = 2
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True, name="dashboard")
    thread.start()
    try:
        yield f"http://{HOST}:{_port(server, thread, port)}/?token={token}"
    finally:
        stopping.set()
        server.should_exit = True
        thread.join(5.0)


def _port(server: Any, thread: threading.Thread, asked: int) -> int:
    """The port it listens on, once it does."""
    until = monotonic() + _STARTED_WITHIN
    while monotonic() < until and thread.is_alive():
        if server.started and server.servers:
            return int(server.servers[0].sockets[0].getsockname()[1])
        sleep(0.02)
    raise StorageError(f"the dashboard cannot listen on {HOST}:{asked}", "name another port: --dashboard-port")
