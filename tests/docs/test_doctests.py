"""Every public name has a docstring with an example that runs, in the folder it speaks of."""

import doctest
import warnings

import numpy as np
import pytest
from tests.e2e.federations import federation_of
from tests.foreign import install_example
from typer.testing import CliRunner

import fedsvd
from fedsvd.cli.main import cli

HOSPITALS = ("hospital-a", "hospital-b", "hospital-c")
NAMES = [name for name in fedsvd.__all__ if name != "__version__"]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three hospitals' job with its results, a researcher's kit, and a CSP that is running."""
    root = tmp_path_factory.mktemp("office")
    rng = np.random.default_rng(4)
    lines = ['[job]\nname = "three-hospitals"\ntask = "pca"\ncomponents = 2\nrelease = ["components", "mean"]']
    for name in HOSPITALS:
        np.save(root / f"{name}.npy", rng.normal(size=(120, 5)))
        lines.append(f'[[party]]\nname = "{name}"\ndata = "{name}.npy"')
    (root / "job.toml").write_text("\n".join(lines))
    out = str(root / "results" / "three-hospitals")
    assert CliRunner().invoke(cli, ["run", str(root / "job.toml"), "--out", out, "-q"]).exit_code == 0
    with federation_of(root, HOSPITALS, how="threads") as federation:
        federation.start("csp/csp")
        researcher = federation.kits["researcher/res"]
        (researcher / "site.toml").write_text(f'[csp]\naddress = "{federation.csp}"\n')
        researcher.rename(root / "researcher")
        yield root


@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_a_public_name_runs(name, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(install_example(tmp_path))
    thing = getattr(fedsvd, name)
    found = doctest.DocTestFinder(recurse=False).find(thing, name, globs={})
    examples = [test for test in found if test.examples]
    assert examples, f"{name} has no example"
    for test in examples:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fedsvd.errors.PrivacyWarning)
            ran = doctest.DocTestRunner(optionflags=FLAGS).run(test)
        assert (ran.failed, ran.attempted > 0) == (0, True)


def test_the_package_says_what_it_is():
    assert fedsvd.__doc__.startswith("FedSVD: exact federated matrix factorisation.")
    assert fedsvd.__version__.count(".") == 2
