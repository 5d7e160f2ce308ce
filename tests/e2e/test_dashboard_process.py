"""A CSP started with ``--dashboard`` says where its page is, and shows it to a browser that has the token."""

import json
from datetime import UTC, datetime

import httpx
import pytest
from tests.e2e.commands import Process, until

from fedsvd.identity.temporary import temporary_federation


@pytest.mark.slow
def test_a_csp_with_a_dashboard_shows_it_to_a_browser_with_the_token(tmp_path):
    kits = temporary_federation(tmp_path / "kits", ["a", "b"], now=datetime.now(UTC))
    words = (
        "csp",
        "start",
        "--kit",
        kits["csp/csp"],
        "--address",
        "127.0.0.1:0",
        "--dashboard",
        "--dashboard-port",
        "0",
    )
    process = Process(*words, "--dashboard-port", "0", "--format", "json")
    try:
        until(lambda: process.out or process.popen.poll() is not None, "it never got ready")
        address = json.loads(process.out[0])["ready"]["dashboard"]
        assert address.startswith("http://127.0.0.1:")
        with httpx.Client(follow_redirects=True) as visitor:
            assert visitor.get(address.partition("?")[0]).status_code == 403
            page = visitor.get(address)
            assert "FedSVD, computing server" in page.text
            with visitor.stream("GET", page.url.join("events")) as events:
                told = next(line for line in events.iter_lines() if line.startswith("data: "))
        assert json.loads(told.removeprefix("data: "))["history"][0]["event"] == "started"
        token = address.partition("token=")[2]
        assert token not in "".join(process.err)
    finally:
        process.kill()
