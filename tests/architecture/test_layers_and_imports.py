"""The import graph is the threat model (ADR 0012): the codebase obeys it, and the checker would notice if not."""

from pathlib import Path

import pytest

from .imports import Codebase, build, ours
from .rules import LAYERS, MENTION_RULES, REACH_RULES, violations, violations_of_lab

ROOT = Path(__file__).parents[2]
CSP = "roles/service_provider/core.py"
SHUT = "forbidden"
NOT_LOWER = "not in a lower layer"

OBEDIENT = {
    "errors.py": "",
    "types.py": "from fedsvd.errors import ShapeError",
    "randomness/entropy.py": "import os\nbytes_ = os.urandom(32)",
    "randomness/seed.py": "from fedsvd.randomness.entropy import bytes_\nfrom fedsvd.types import Float",
    "data/source.py": "from fedsvd.types import Float",
    "storage/scratch.py": "import os",
    "linalg/backend.py": "import numpy as np\nnp.linalg.qr\nnp.load('x', allow_pickle=False)",
    "linalg/dense_svd.py": "from . import backend",
    "masks/left.py": "from fedsvd.linalg import backend\nfrom fedsvd.randomness.seed import Seed",
    "secagg/pads.py": "from fedsvd.randomness import seed",
    "secagg/aggregate.py": "from fedsvd.types import Ring",
    "protocol/machine.py": "from fedsvd.errors import ProtocolError",
    "tasks/declared.py": "from fedsvd.protocol import machine",
    "roles/service_provider/core.py": "from fedsvd.secagg import aggregate\nfrom fedsvd.linalg import dense_svd",
    "roles/trusted_authority.py": "from fedsvd.masks.left import LeftMask",
    "roles/user/core.py": "from ...masks import left\nfrom ...secagg import pads",
    "engine/simulate.py": "import asyncio, logging, os, time\nfrom fedsvd.roles.user import core",
    "audit/subject.py": "import numpy as np\nimport random\nrng = np.random.default_rng(1)",
    "cli/main.py": "from fedsvd import __version__\nfrom fedsvd.audit import subject",
}


def test_the_codebase_obeys():
    assert violations(ours()) == []


def test_the_lab_reads_no_pickle_and_has_no_entropy_of_its_own(tmp_path):
    assert violations_of_lab(Codebase(ROOT / "lab" / "src" / "fedsvd_lab")) == []
    planted = build(tmp_path, {"datasets.py": "import pickle\nimport secrets\nimport random"})
    assert len(violations_of_lab(planted)) == 2


def test_the_checker_sees_every_file_of_the_codebase_and_their_imports():
    package = ROOT / "src" / "fedsvd"
    codebase = ours()
    assert {file.path for file in codebase.files.values()} == set(package.rglob("*.py"))
    assert "fedsvd.randomness.entropy" in codebase.reach("fedsvd.randomness.keystream")
    assert "fedsvd.errors" in codebase.reach("fedsvd.storage.block_store")


def test_an_obedient_codebase_has_no_violations(tmp_path):
    assert violations(build(tmp_path, OBEDIENT)) == []


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        # Layers.
        ("attic/boxes.py", "", "is in no layer"),
        ("attic.py", "", "is in no layer"),
        ("linalg/backend.py", "from fedsvd.masks import left", NOT_LOWER),
        ("linalg/backend.py", "import fedsvd.masks.left", NOT_LOWER),
        ("linalg/backend.py", "import fedsvd.masks.left as l", NOT_LOWER),
        ("linalg/backend.py", "from ..masks import left", NOT_LOWER),
        ("linalg/backend.py", "from ..masks.left import LeftMask", NOT_LOWER),
        ("linalg/backend.py", "def f():\n    from fedsvd.masks import left", NOT_LOWER),
        ("linalg/backend.py", "if TYPE_CHECKING:\n    from fedsvd.masks import left", NOT_LOWER),
        ("linalg/backend.py", "from importlib import import_module as i\ni('fedsvd.masks.left')", NOT_LOWER),
        ("linalg/backend.py", "__import__('fedsvd.masks.left')", NOT_LOWER),
        ("linalg/backend.py", "from importlib import import_module\nimport_module(f'fedsvd.masks.{word}')", NOT_LOWER),
        ("roles/service_provider/role.py", "import importlib\nimportlib.import_module(f'fedsvd.masks.{word}').P", SHUT),
        ("linalg/backend.py", "import fedsvd", NOT_LOWER),
        ("linalg/backend.py", "from fedsvd import FederatedSVD", NOT_LOWER),
        ("linalg/backend.py", "from fedsvd.attic import boxes", NOT_LOWER),
        ("masks/left.py", "from fedsvd.secagg import pads", NOT_LOWER),  # the same layer, another package
        ("types.py", "from fedsvd.randomness import seed", NOT_LOWER),
        ("errors.py", "from fedsvd import types", NOT_LOWER),
        ("estimators/svd.py", "from fedsvd.audit import subject", NOT_LOWER),
        # Forbiddens between packages, some through other packages.
        (CSP, "from fedsvd.masks import left", SHUT),
        (CSP, "from fedsvd.secagg import pads", SHUT),
        (CSP, "from fedsvd import secagg\nsecagg.pads.pad", SHUT),
        (CSP, "from ..user.core import User", SHUT),
        ("roles/service_provider/__init__.py", "from fedsvd.data import source", SHUT),
        ("secagg/aggregate.py", "from fedsvd.secagg.pads import pad", "core -> fedsvd.secagg.aggregate -> "),
        ("secagg/aggregate.py", "def f():\n    from . import pads", SHUT),
        ("linalg/dense_svd.py", "from fedsvd.randomness.seed import Seed", SHUT),
        ("secagg/__init__.py", "from fedsvd.secagg.pads import pad", SHUT),
        ("roles/trusted_authority.py", "from fedsvd.secagg import aggregate", SHUT),
        ("roles/trusted_authority.py", "from fedsvd.roles.user import core", SHUT),
        ("masks/left.py", "from fedsvd.linalg.dense_svd import svd", SHUT),
        ("masks/left.py", "from fedsvd.storage.scratch import x", SHUT),
        ("roles/user/core.py", "from fedsvd.roles.service_provider import core", SHUT),
        # What is outside of the package.
        *[
            (f"{package}/core.py", f"import {name}", SHUT)
            for package in ("protocol", "roles", "masks", "secagg", "linalg")
            for name in ("asyncio", "socket", "ssl", "threading", "time", "logging", "os")
        ],
        ("linalg/backend.py", "import os.path", SHUT),
        ("linalg/backend.py", "from os import environ", SHUT),
        ("protocol/machine.py", "def now():\n    from time import time", SHUT),
        ("sealing/agree.py", "import os\nos.urandom(32)", SHUT),
        ("sealing/agree.py", "import os as x\nx.urandom(32)", SHUT),
        ("sealing/agree.py", "from os import urandom", SHUT),
        ("sealing/agree.py", "from os import urandom as u", SHUT),
        ("sealing/agree.py", "from os import *", SHUT),
        ("sealing/agree.py", "import os\ngetattr(os, 'urandom')(32)", SHUT),
        ("sealing/agree.py", "import os\nos.getrandom(32)", SHUT),
        ("sealing/agree.py", "import secrets", SHUT),
        ("audit/attack.py", "from secrets import token_bytes", SHUT),
        ("randomness/seed.py", "import os\nos.urandom(32)", SHUT),
        ("data/source.py", "import random", SHUT),
        ("data/source.py", "from random import shuffle", SHUT),
        ("data/source.py", "import numpy.random", SHUT),
        ("data/source.py", "import numpy as np\nnp.random.default_rng(1)", SHUT),
        ("data/source.py", "import numpy\nf = numpy.random", SHUT),
        ("data/source.py", "from numpy import random as r", SHUT),
        ("data/source.py", "from numpy.random import default_rng", SHUT),
        ("data/source.py", "import numpy as np\ngetattr(np, 'random').rand()", SHUT),
        ("__init__.py", "import random", SHUT),
        ("cli/main.py", "import pickle", SHUT),
        ("audit/subject.py", "import marshal", SHUT),
        ("cli/main.py", "from fedsvd_lab.cli import bench", SHUT),
        (CSP, "from fedsvd.tasks import declared", SHUT),
        ("roles/user/core.py", "from fedsvd.tasks import declared", SHUT),
        ("protocol/machine.py", "from fedsvd.tasks import declared", NOT_LOWER),
        ("tasks/declared.py", "from fedsvd.roles.user import core", NOT_LOWER),
        ("tasks/options.py", "from fedsvd.prepare import missing", NOT_LOWER),
        ("tasks/rules.py", "from fedsvd.policy.rules import Policy", NOT_LOWER),
        ("tasks/rules.py", "from fedsvd.studies.study import Study", NOT_LOWER),
        ("cost/work.py", "from fedsvd.tasks import declared", SHUT),
        ("policy/rules.py", "from fedsvd.tasks import declared", NOT_LOWER),
        ("results/result.py", "from fedsvd.tasks.options import OPTIONS", SHUT),
        ("service/site.py", "from fedsvd.tasks.options import OPTIONS", SHUT),
        ("testing/federation.py", "from shelve import open as o", SHUT),
        ("data/npy.py", "import joblib\njoblib.load('x')", SHUT),
        ("data/npy.py", "import numpy as np\nnp.load('x', allow_pickle=True)", "allows pickle"),
        ("data/npy.py", "import numpy as np\nyes = True\nnp.load('x', allow_pickle=yes)", "allows pickle"),
        ("data/npy.py", "import pandas\npandas.read_pickle('x')", "allows pickle"),
        ("data/npy.py", "frame.to_pickle('x')", "allows pickle"),
        ("data/npy.py", "import importlib\nimportlib.import_module(name)", SHUT),
        ("data/npy.py", "import importlib\nimportlib.import_module(f'fedsvd.{name}')", SHUT),
        ("data/npy.py", "import importlib\nimportlib.import_module(f'fedsvd.data.{name}.{other}')", SHUT),
    ],
)
def test_a_planted_violation_is_caught(file, text, expected, tmp_path):
    planted = {**OBEDIENT, file: f"{OBEDIENT.get(file, '')}\n{text}\n"}
    found = violations(build(tmp_path, planted))
    assert found, "nothing was caught"
    assert any(expected in sentence for sentence in found), found


def test_a_way_is_told_step_by_step(tmp_path):
    planted = {
        **OBEDIENT,
        "secagg/aggregate.py": "from fedsvd.secagg.batches import x",
        "secagg/batches.py": "from . import keys",
        "secagg/keys.py": "",
    }
    (sentence,) = violations(build(tmp_path, planted))
    assert sentence.startswith(
        "fedsvd.roles.service_provider.core -> fedsvd.secagg.aggregate -> fedsvd.secagg.batches -> fedsvd.secagg.keys:"
    )


def test_every_package_of_the_tables_is_in_exactly_one_layer():
    packages = [package for layer in LAYERS.values() for package in layer]
    assert len(packages) == len(set(packages))
    named = {package.split(".")[0] for rule in REACH_RULES for package in (*rule.packages, *rule.shut)}
    assert named <= set(packages)
    core = {package for rule in MENTION_RULES for package in rule.packages} - {"*", ""}
    assert core <= set(packages)


def test_the_page_on_architecture_draws_the_layers_that_are_enforced():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    drawn = {}
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 3 and cells[0].isdigit():
            drawn[int(cells[0])] = tuple(cells[1].replace("`", "").replace(",", " ").split())
    assert drawn == {layer: packages for layer, packages in LAYERS.items() if "" not in packages}
