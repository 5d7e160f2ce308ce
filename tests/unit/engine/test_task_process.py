"""A foreign script runs in a child process that has nothing of the party's; how it ends badly is one error."""

import json
import os
import socket
import time
from pathlib import Path

import numpy as np
import pytest
from tests.foreign import declared, install, install_task

from fedsvd.engine.installed_tasks import installed_task
from fedsvd.engine.task_process import played
from fedsvd.errors import ScriptFailed

COLUMNS = {"a": np.arange(3.0), "b": np.ones(3)}


@pytest.fixture
def start(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))

    def started(script, limit=60.0, most=100, columns=COLUMNS, options=None):
        install_task(tmp_path, script)
        return played(installed_task("one-sum"), options or {}, most, limit, columns)

    return started


def ended(playing, answer=None):
    """What a script returns, where every sum is answered by its own vector."""
    while True:
        try:
            _, answer = playing.send(answer)
        except StopIteration as end:
            return end.value


def test_options_columns_and_totals_go_in_and_sums_and_outputs_come_out(start):
    script = """
def script(options, columns):
    total = yield "sums", [columns[name].sum() * options["times"] for name in columns]
    return {"total": total + 0.5}
"""
    playing = start(script, options={"times": 2})
    assert next(playing)[0] == "sums"
    with pytest.raises(StopIteration) as end:
        playing.send(np.array([10.0, 20.0]))
    assert end.value.value["total"].tolist() == [10.5, 20.5]


def test_a_module_may_have_modules_of_its_own(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    script = "from .inner import script as script\n"
    source = "def script(options, columns):\n    yield 'sums', [1.0]\n    return {'total': [2.0]}\n"
    files = {"trial_task/__init__.py": script, "trial_task/inner.py": source}
    files["trial_task/one-sum.json"] = json.dumps(declared())
    install(tmp_path, files, "one-sum = trial_task:script")
    assert ended(played(installed_task("one-sum"), {}, 9, 60.0, COLUMNS))["total"].tolist() == [2.0]


def test_what_was_hashed_is_what_runs_whatever_lies_on_the_disk_by_then(start, tmp_path):
    playing = start("def script(options, columns):\n    yield 'sums', [1.0]\n    return {'total': [1.0]}\n")
    (tmp_path / "trial_task" / "__init__.py").write_text("raise SystemExit\n")
    assert ended(playing)["total"].tolist() == [1.0]


LOOKS = """
import os, sys

def script(options, columns):
    texts = [*os.environ, *os.environ.values(), *sys.argv, os.getcwd(), *sys.path]
    found = sum("SECRET" in text or "kit" in text.split(os.sep) for text in texts)
    files = [os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if name.isdecimal()
             and os.path.exists(f"/proc/self/fd/{name}")]
    held = sum("policy.toml" in file for file in files)
    ours = sum(name.split(".")[0] == "fedsvd" for name in sys.modules)
    yield "sums", [found, held, ours, len(os.environ)]
    return {}
"""


def test_the_child_has_no_environment_no_inherited_file_no_path_of_a_kit_and_nothing_of_fedsvd(
    start, tmp_path, monkeypatch
):
    """The kit's path stands in the parent's environment, working folder, and as an open, inheritable file."""
    kit = tmp_path / "kit"
    kit.mkdir()
    monkeypatch.setenv("FEDSVD_KIT", f"{kit}/SECRET")
    monkeypatch.chdir(kit)
    with (kit / "policy.toml").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        _, found = next(start(LOOKS))
    assert found[:3].tolist() == [0.0, 0.0, 0.0]
    assert found[3] <= 3  # the number of its threads, and what the C library adds


ESCAPES = """
import os, socket

def script(options, columns):
    with open(options["file"]) as file:
        read = float(file.read())
    with open(f"/proc/{os.getppid()}/environ", "rb") as file:
        environment = float(sum(file.read()))
    with socket.create_connection(("127.0.0.1", options["port"]), 10) as line:
        line.sendall(columns["a"].tobytes())
    yield "sums", [read, environment]
"""


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs the /proc of Linux")
def test_a_script_can_read_files_and_its_parents_environment_and_open_connections_and_this_is_stated(start, tmp_path):
    """The child is no sandbox: nothing of fedsvd keeps a script from what its account may do."""
    (tmp_path / "key").write_text("4217")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        playing = start(ESCAPES, options={"file": str(tmp_path / "key"), "port": server.getsockname()[1]})
        _, found = next(playing)
        line, _ = server.accept()
        with line:
            assert line.recv(100) == COLUMNS["a"].tobytes()
    playing.close()
    assert found.tolist() == [4217.0, float(sum(Path("/proc/self/environ").read_bytes()))]
    assert found[1] > 0


def test_what_a_script_prints_goes_nowhere(start, capfd):
    script = """
import os, sys

def script(options, columns):
    print("a" * 100000); sys.stderr.write("b"); os.write(1, b"rubbish"); os.system("echo c")
    total = yield "sums", [1.0]
    return {"total": total}
"""
    assert ended(start(script))["total"].tolist() == [1.0]
    assert capfd.readouterr() == ("", "")


FAULTS = {
    "raises": ("    raise KeyError('a secret value')\n    yield", r"ended with KeyError, line 2"),
    "raises later": (
        "    yield 'sums', [1.0]\n    raise ValueError(columns['a'][1])",
        r"ended with ValueError, line 3",
    ),
    "dies": ("    import os\n    os._exit(3)\n    yield", "died"),
    "is killed": ("    import os, signal\n    os.kill(os.getpid(), signal.SIGKILL)\n    yield", "died"),
    "exits": ("    raise SystemExit(0)\n    yield", "died"),
    "yields no pair": ("    yield 1.0", "ended with TypeError"),
    "yields text": ("    yield 'sums', ['a', 'b']", "ended with ValueError"),
    "yields too much": ("    import numpy as np\n    yield 'sums', np.zeros(10_000)", "no answer"),
    "returns nothing": ("    yield 'sums', [1.0]", "ended with AttributeError"),
    "is no generator": ("    return {}", "ended with AttributeError"),
}


@pytest.mark.parametrize("fault", list(FAULTS))
def test_a_script_that_ends_badly_is_one_error_with_a_place_and_no_data(start, fault):
    body, match = FAULTS[fault]
    with pytest.raises(ScriptFailed, match=match) as failed:
        ended(start(f"def script(options, columns):\n{body}\n"))
    assert failed.value.code == "FSVD-402"
    assert "secret" not in str(failed.value)


def test_a_module_that_does_not_compile_is_the_same_error(start):
    with pytest.raises(ScriptFailed, match="SyntaxError"):
        ended(start("def script(:\n"))


RUBBISH = """
import gc, io

def script(options, columns):
    pipe = next(each for each in gc.get_objects() if isinstance(each, io.BufferedWriter) and each.fileno() > 2)
    pipe.write({content!r}); pipe.flush()
    yield "sums", [1.0]
"""


@pytest.mark.parametrize(
    "content",
    [
        b"rubbish" * 100,
        bytes(12),
        b"\x02\0\0\0" + bytes(8) + b"{}",
        b"\x0e\0\0\0" + bytes(8) + b'{"lengths":[]}',
        b"\x0f\0\0\0" + bytes(8) + b'{"lengths":[1]}',
        b"\x12\0\0\0" + bytes(8) + b'{"lengths":[1e999]}'[:18],
        b"\xff" * 12,
    ],
)
def test_rubbish_in_the_pipe_is_no_answer(start, content):
    with pytest.raises(ScriptFailed, match="no answer"):
        ended(start(RUBBISH.format(content=content)))


@pytest.mark.parametrize("body", ["    while True: pass\n    yield", "    import time\n    time.sleep(600)\n    yield"])
def test_a_script_that_hangs_is_ended_at_its_time_limit(start, body):
    before = time.monotonic()
    with pytest.raises(ScriptFailed, match="no answer within 2 seconds"):
        ended(start(f"def script(options, columns):\n{body}\n", limit=2.0))
    assert time.monotonic() - before < 60


def test_a_child_ends_with_the_session_that_drops_it(start):
    script = "import os\n\ndef script(options, columns):\n    yield 'sums', [os.getpid()]\n    while True: pass\n"
    playing = start(script)
    _, (pid,) = next(playing)
    os.kill(int(pid), 0)
    playing.close()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)
