"""``python -m tests.golden.record``: record what people read anew, after a change that is meant to change it.

Look at the difference (``git diff tests/golden``) before it is committed: each line of it is a sentence that a data
owner will read.
"""

import os
import tempfile
import warnings
from pathlib import Path

from tests.golden.surfaces import texts

RECORDED = Path(__file__).parent / "recorded"


def main() -> None:
    """Write every golden text, and remove those that are no longer made."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        made = texts(Path(folder))
        for path in [path for path in RECORDED.rglob("*") if path.is_file()]:
            if str(path.relative_to(RECORDED)) not in made:
                path.unlink()
        for name, text in made.items():
            path = RECORDED / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
