"""``site.toml``: where the CSP is, where a party's data lies, where results go. Read anew whenever it is asked for.

results = "results"                   # top of the file; seen from the kit's folder, as all paths are
device = "cuda"                       # where this role computes; left out, NumPy on the CPU
engine = "dask"                       # or "tls://scheduler:8786": a Dask cluster of this institution's own
memory = "8 GiB"                      # the most that a plan may ask for in this role; left out, no bound
checkpoint = "state/pass.factor"      # where a compression pass is kept while it lasts; by the job's id otherwise
[csp]
address = "csp.example.org:7443"      # where to dial; the CSP itself has listen = "0.0.0.0:7443"
[data]
default = "data/table.parquet"        # what a job reads
three-hospitals = "data/other.csv"    # for the job of this name
[rename]
"Gewicht (kg)" = "weight"             # what a column of our tables is called in studies; nobody else is sent it
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedsvd.errors import ConfigError
from fedsvd.identity.kit import Kit
from fedsvd.identity.names import KitRole
from fedsvd.storage import private
from fedsvd.storage.toml import read_toml
from fedsvd.studies.job_file import bytes_of
from fedsvd.types import byte_size

SITE = "site.toml"
# A text, a table with these keys, or a table with any: jobs have names of their own.
_KNOWN: dict[str, tuple[str, ...] | None] = {
    "results": (),
    "device": (),
    "engine": (),
    "memory": (),
    "checkpoint": (),
    "csp": ("address", "listen"),
    "data": None,
    "rename": None,
}
_SETTINGS = "results, device, engine, memory, checkpoint, [csp] address or listen, [data], [rename]"
_DATA = """\
# results = "results"            # where results go, seen from this folder

[data]
# default = "data/table.parquet"  # what a job reads, seen from this folder
# three-hospitals = "data/other.csv"  # for the job of this name

# [rename]
# "Gewicht (kg)" = "weight"       # what a column here is called in studies
"""


def read_site(directory: Path) -> dict[str, Any]:
    """The settings in a kit's folder; none where there is no file."""
    path = directory / SITE
    if not path.exists():
        return {}
    settings = read_toml(path, "docs/deployment.md")
    _expect_settings(path, settings)
    return settings


def expect_room(settings: Mapping[str, Any], memory: int) -> None:
    """A plan's memory budget is within what this site has for it."""
    if "memory" not in settings:
        return
    try:
        most = bytes_of(settings["memory"])
    except ValueError as error:
        raise ConfigError(f"memory in {SITE} is not an amount", str(error)) from None
    assert isinstance(most, int)  # of a text, which is all that site.toml may hold
    if memory > most:
        raise ConfigError(
            f"the plan asks for {byte_size(memory)} in every role, and {SITE} allows {byte_size(most)} here",
            f"a smaller memory in the job file, or a larger one in {SITE}",
        )


def write_site(kit: Kit, csp: str | None) -> None:
    """A first ``site.toml``, with what is not known yet commented out."""
    address = f"address = {json.dumps(csp)}" if csp else '# address = "csp.example.org:7443"'
    sections = {
        KitRole.CSP: '[csp]\n# listen = "0.0.0.0:7443"\n',
        KitRole.PARTY: f"{_DATA}\n[csp]\n{address}\n",
    }
    text = sections.get(kit.identity.role, f"[csp]\n{address}\n")
    private.create(kit.directory / SITE, f"# This site, for fedsvd; see docs/deployment.md.\n{text}".encode())


def _expect_settings(path: Path, settings: Mapping[str, Any]) -> None:
    """A misspelt key is an error: what is silently ignored may be what somebody relies on."""
    for key, value in settings.items():
        if key not in _KNOWN:
            raise ConfigError(f"{key[:80]!r} in {path} is not a setting", _SETTINGS)
        inner = _KNOWN[key]
        if inner == ():
            texts = [value]
        elif not isinstance(value, Mapping):
            raise ConfigError(f"{key} in {path} is not a table", f"write [{key}] above its lines")
        else:
            texts = list(value.values())
            unknown = [] if inner is None else [each for each in value if each not in inner]
            if unknown:
                fix = f"[{key}] has {' or '.join(inner or ())}"
                raise ConfigError(f"'{key}.{unknown[0][:80]}' in {path} is not a setting", fix)
        if not all(isinstance(text, str) for text in texts):
            raise ConfigError(f"a value of {key} in {path} is not a text", "see docs/deployment.md for an example")
