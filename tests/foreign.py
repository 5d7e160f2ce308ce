"""Foreign tasks for tests: a distribution as an installer leaves it, in a temporary folder on the path.

Nothing is installed: ``importlib.metadata`` finds a ``.dist-info`` in any folder of ``sys.path``.
"""

import base64
import copy
import hashlib
import json
from pathlib import Path

EXAMPLE = Path(__file__).parents[1] / "examples" / "group_variance"
NAME = "group-variance"

ONE_SUM = {
    "fedsvd": 1,
    "name": "one-sum",
    "about": "The total of every feature.",
    "options": {},
    "steps": [{"name": "sums", "kind": "wide", "size": "features", "says": "the total of every feature"}],
    "outputs": [{"name": "total", "axes": ["feature"], "size": ["features"], "says": "totals"}],
}
"""A declaration of one step, to be changed by a test."""


def declared(**changes):
    """The declaration of one sum, with these keys replaced."""
    return {**copy.deepcopy(ONE_SUM), **changes}


def install(folder, files, entry, distribution="fedsvd-trial", version="1.0", requires=("numpy",)):
    """Write files and their RECORD into a folder; ``entry`` is NAME = "module:function"."""
    folder = Path(folder)
    info = f"{distribution.replace('-', '_')}-{version}.dist-info"
    about = [f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"]
    about += [f"Requires-Dist: {each}\n" for each in requires]
    described = {
        f"{info}/METADATA": "".join(about),
        f"{info}/entry_points.txt": f"[fedsvd.tasks]\n{entry}\n",
        f"{info}/INSTALLER": "a test\n",
    }
    lines = []
    for path, text in {**files, **described}.items():
        content = text if isinstance(text, bytes) else text.encode()
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        lines.append(f"{path},sha256={digest},{len(content)}\n")
    (folder / info / "RECORD").write_text("".join([*lines, f"{info}/RECORD,,\n"]))
    return folder


def install_example(folder):
    """The worked example, as ``pip install ./examples/group_variance`` leaves it."""
    package = EXAMPLE / "group_variance"
    files = {f"group_variance/{path.name}": path.read_text() for path in sorted(package.iterdir()) if path.is_file()}
    return install(folder, files, f"{NAME} = group_variance:script", "fedsvd-group-variance")


def install_task(folder, script, declaration=ONE_SUM):
    """A task of one module with this source, ``def script(options, columns)`` and what it needs."""
    name = declaration["name"]
    files = {"trial_task/__init__.py": script, f"trial_task/{name}.json": json.dumps(declaration)}
    return install(folder, files, f"{name} = trial_task:script")
