"""The code on a documentation page as one shell script, block after block, as a reader would type it.

Python is run as a script of its own, unless the words before it say under which name to save it; TOML is always saved.
Blocks marked ``text`` are not for typing.
"""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SAVED = re.compile(r"[Ss]ave (?:it|this) as\s+`([\w.]+)`:?\s*\Z")


# A person waits for the line that says that all roles are running before typing on.
STARTED = re.compile(r"^(fedsvd federation start \S+) &$", re.MULTILINE)
WAITED = r"\1 > started.txt &\nuntil grep -q running started.txt; do kill -0 $!; sleep 0.2; done"


def script_of(page: str) -> str:
    """All that is typed on a page."""
    lines, end = ["set -e"], 0
    for found in BLOCK.finditer(page):
        language, code = found[1], found[2]
        before, end = page[end : found.start()], found.end()
        name = SAVED.search(before.rstrip())
        if name is not None:
            lines.append(f"cat > {name[1]} <<'END_OF_BLOCK'\n{code}END_OF_BLOCK")
        elif language == "python":
            lines.append(f"python - <<'END_OF_BLOCK'\n{code}END_OF_BLOCK")
        elif language == "sh":
            lines.append(STARTED.sub(WAITED, code))
        else:
            assert language in ("text", "toml", "mermaid", "ini"), f"a block of {language} is neither run nor shown"
            assert language != "toml", "say under which name to save it"
    return "\n".join(lines)


def typed(page: str, folder: Path, seconds: float = 300.0) -> str:
    """Type everything on a page in a folder; what was said. Questions are answered with yes."""
    # What was started goes with the shell, also where a line fails: it holds the pipes that are read here.
    script = "trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n" + script_of(page)
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "OPENBLAS_NUM_THREADS": "1",
        "COLUMNS": "160",
    }
    # A terminal hands out one line to each question; from a pipe the first command that asks would take them all.
    keyboard, terminal = os.openpty()
    os.write(keyboard, b"y\n" * 20)
    shell = subprocess.Popen(
        ["bash", "-c", script],
        cwd=folder,
        env=environment,
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    try:
        said, trouble = shell.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(shell.pid, signal.SIGKILL)  # services that the page started would outlive their shell
        said, trouble = shell.communicate()
        raise AssertionError(f"not done after {seconds:g} s\n{said}\n{trouble}") from None
    finally:
        os.close(keyboard)
        os.close(terminal)
    assert shell.returncode == 0, f"{said}\n{trouble}"
    return said
