"""``python -m benchmarks.attacks.findings CHECKOUT``: findings F1 to F14 against an old checkout, into results.

CHECKOUT is a working tree of version 0.1.0 (commit 78edfa8 of this repository: ``git worktree add PATH 78edfa8``). The
attacks run there as they did when they were found, each against the real roles; ``broken`` says that the attacker got
what the row of SECURITY.md names. That the same attacks fail here is what the tests named in that table hold.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.measure import fingerprint

HERE = Path(__file__).parent
RESULTS = HERE.parent / "results"
SCRIPTS = ("in_0_1_0.py", "jobs_in_0_1_0.py")


def run_in(checkout: Path, script: str) -> dict[str, object]:
    """What a script found, run with the package of that checkout and none of ours."""
    path = os.pathsep.join((str(checkout / "src"), str(checkout)))
    environment = {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}
    words = [sys.executable, str(HERE / script)]
    done = subprocess.run(words, env=environment, cwd=checkout, capture_output=True, text=True, check=True)
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    checkout = parser.parse_args().checkout.resolve()
    version, findings = None, {}
    for script in SCRIPTS:
        found = run_in(checkout, script)
        version = found.get("version", version)
        findings |= found["findings"]
    record = {"fingerprint": fingerprint(), "version": version, "findings": dict(sorted(findings.items(), key=_order))}
    (RESULTS / f"findings-{version}.json").write_text(json.dumps(record, indent=1) + "\n")
    for name, what in record["findings"].items():
        print(f"{name:12} {'broken' if what['broken'] else 'NOT SHOWN'}  {what}")


def _order(item: tuple[str, object]) -> tuple[int, str]:
    """F2 before F10."""
    return int(item[0].partition(",")[0].removeprefix("F")), item[0]


if __name__ == "__main__":
    main()
