"""Commands of this package as processes: run to their end, or left running with what they print; and waiting.

What a test waits for must happen: a wait that gets nowhere fails the test.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from time import monotonic, sleep

GENEROUS = 180.0  # seconds after which a test that hangs fails; no test that passes comes near
# A build may start its processes with SIGINT ignored, and children inherit that. A signal that is handled here is for
# them to handle, too; setting it between fork and exec would run Python in the fork of a process with gRPC's threads.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
ENVIRONMENT = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "120", "PYTHONUNBUFFERED": "1"}


def until(true, what="it never came true"):
    """Wait for something that must happen."""
    deadline = monotonic() + GENEROUS
    while not (value := true()):
        assert monotonic() < deadline, what
        sleep(0.02)
    return value


def command(*words, cwd=None, **environment):
    """``python -m fedsvd`` with these words, to its end."""
    return subprocess.run(
        [sys.executable, "-m", "fedsvd", *map(str, words)],
        cwd=cwd,
        env={**ENVIRONMENT, **environment},
        capture_output=True,
        text=True,
        timeout=GENEROUS,
        check=False,
    )


def answered(*words, **environment):
    """The JSON that a command answers with; it must have ended well."""
    ended = command(*words, "--format", "json", **environment)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return json.loads(ended.stdout)


class Process:
    """A command that goes on; what it says is kept."""

    def __init__(self, *words, cwd=None, before=(), **environment):
        self.popen = subprocess.Popen(
            [*before, sys.executable, "-m", "fedsvd", *map(str, words)],
            cwd=cwd,
            env={**ENVIRONMENT, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.out, self.err = [], []
        self._readers = [
            threading.Thread(target=self._read, args=(pipe, kept), daemon=True)
            for pipe, kept in ((self.popen.stdout, self.out), (self.popen.stderr, self.err))
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, pipe, kept):
        for line in pipe:
            kept.append(line)

    def said(self, word, where="err"):
        """Wait until a line with this word has come."""
        lines = getattr(self, where)
        until(
            lambda: any(word in line for line in lines) or self.popen.poll() is not None,
            f"{word!r} was never said",
        )
        for reader in self._readers if self.popen.poll() is not None else ():
            reader.join(GENEROUS)
        found = next((line for line in lines if word in line), None)
        assert found is not None, f"ended with {self.popen.poll()} and never said {word!r}: {''.join(self.err)[-2000:]}"
        return found

    def ended(self):
        """Wait for the end; the exit code."""
        code = self.popen.wait(GENEROUS)
        for reader in self._readers:
            reader.join(GENEROUS)
        return code

    def signal(self, number):
        self.popen.send_signal(number)

    def kill(self):
        """kill -9, and gone when this returns."""
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait(GENEROUS)
        for reader in self._readers:
            reader.join(GENEROUS)
        self.popen.stdout.close()
        self.popen.stderr.close()


def still_running(word):
    """The processes whose command line has this word in it."""
    listed = subprocess.run(["ps", "-ewwo", "pid,args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if str(word) in line and "ps -ewwo" not in line]
