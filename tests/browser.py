"""A headless Chromium, driven over its DevTools protocol through a pipe; tests that want one are skipped without it.

No new dependency: messages are JSON between zero bytes on two file descriptors. Everything the browser asks the network
for is recorded, so that a test can say that nothing was.
"""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

# Pictures for a person to look at; never in the clone, which a run of the tests leaves as it was.
_TALLEST = 30_000  # pixels; a picture of the commands on a phone would be taller
SCREENSHOTS = Path(os.environ.get("FEDSVD_SCREENSHOTS", Path(tempfile.gettempdir()) / "fedsvd-screenshots"))
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


def executable() -> str:
    """Where Chromium is, or a skip."""
    names = (os.environ.get("FEDSVD_CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome")
    found = next((path for name in names if name and (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium here: install Debian's chromium, or set FEDSVD_CHROMIUM")
    return found


class Browser:
    """One browser with one page."""

    def __init__(self) -> None:
        program = executable()
        self._profile = tempfile.TemporaryDirectory(prefix="fedsvd-browser-", ignore_cleanup_errors=True)
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        line = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
        words = ["bash", "-c", line, program, *FLAGS, f"--user-data-dir={self._profile.name}", "about:blank"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(words, pass_fds=(theirs_in, theirs_out), **quiet)
        os.close(theirs_in)
        os.close(theirs_out)
        self._rest, self._number, self._session = b"", 0, None
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self._events: list[str] = []
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log", "Accessibility"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One question, and its answer."""
        self._number += 1
        asked = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            asked["sessionId"] = self._session
        os.write(self._out, json.dumps(asked).encode() + b"\0")
        while True:
            said = self._next()
            if said.get("id") == self._number:
                assert "error" not in said, said
                return said["result"]
            self._noted(said)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            piece = os.read(self._in, 1 << 20)
            assert piece, "the browser is gone"
            self._rest += piece
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def _noted(self, said: dict[str, Any]) -> None:
        method, params = said.get("method", ""), said.get("params", {})
        self._events.append(method)
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(str(params["exceptionDetails"].get("exception", {}).get("description")))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"]["text"])

    def visit(self, url: str) -> None:
        """Open a page, and wait until it has loaded."""
        self._events.clear()
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def evaluate(self, expression: str) -> Any:
        """What a JavaScript expression comes to."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, expression: str, seconds: float = 30.0) -> None:
        """Wait for an expression to be true."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.evaluate(f"!!({expression})"):
                return
            time.sleep(0.05)
        raise AssertionError(f"never true: {expression}")

    def media(self, scheme: str = "light", kind: str = "screen") -> None:
        """Light or dark, screen or print."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=kind, features=features)

    def size(self, width: int, height: int) -> None:
        """A window, or a phone, of this size."""
        phone = width < 500
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)

    def screenshot(self, name: str, whole: bool = True) -> Path:
        """A picture of the page, kept as an artefact of the tests; of one beyond what Chromium draws, its beginning."""
        whole = whole and self.evaluate("document.documentElement.scrollHeight") < _TALLEST
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        path = SCREENSHOTS / f"{name}.png"
        path.write_bytes(base64.b64decode(data))
        return path

    def pdf(self) -> bytes:
        return base64.b64decode(self.call("Page.printToPDF", printBackground=False)["data"])

    def press(self, key: str) -> None:
        code = {"Tab": 9, "Enter": 13}[key]
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def heard(self) -> list[tuple[str, str]]:
        """What a screen reader is told: role and name of every node that has one."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        told = [node for node in nodes if not node.get("ignored")]
        return [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in told if "role" in node]

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        os.close(self._out)
        os.close(self._in)
        self._profile.cleanup()


CONTRAST = """(() => {
  const light = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(Number).map(v => v / 255)
      .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = node => { for (; node; node = node.parentElement) {
      const c = getComputedStyle(node).backgroundColor; if (c !== 'rgba(0, 0, 0, 0)') return c; }
    return 'rgb(255, 255, 255)'; };
  let worst = 99, where = '';
  const kinds = 'p, li, a, th, td, h1, h2, h3, figcaption, summary, caption, span, text';
  for (const node of document.querySelectorAll(kinds)) {
    if (!node.textContent.trim() || !node.getClientRects().length || node.className === 'skip') continue;
    const style = getComputedStyle(node);
    const a = light(node.tagName === 'text' ? style.fill : style.color), b = light(ground(node));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < worst) { worst = ratio; where = node.tagName + ': ' + node.textContent.slice(0, 40); }
  }
  return [worst, where];
})()"""
"""The worst contrast of text on its ground on the whole page, and where; WCAG AA asks for 4.5."""

COLLISIONS = """(() => {
  const found = [];
  for (const svg of document.querySelectorAll('svg')) {
    const frame = svg.getBoundingClientRect(), seen = [];
    if (!frame.width) continue;
    for (const node of svg.querySelectorAll('text')) {
      const box = node.getBoundingClientRect(), words = node.firstChild ? node.firstChild.textContent.trim() : '';
      if (!words) continue;
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 2)
        found.push(words + ': outside of ' + svg.getAttribute('aria-label'));
      for (const [other, name] of seen)
        if (box.left < other.right - 1 && other.left < box.right - 1 && box.top < other.bottom - 3
            && other.top < box.bottom - 3) found.push(words + ' and ' + name);
      seen.push([box, words]);
    }
  }
  return found;
})()"""
"""Text of drawings that leaves its drawing, or lies over other text."""
