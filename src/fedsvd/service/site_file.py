"""``site.toml``: where the CSP is, where a party's data lies, where results go.

results = "results"                   # top of the file; seen from the kit's folder, as all paths are
device = "cuda"                       # where this role computes; left out, NumPy on the CPU
engine = "dask"                       # or "tls://scheduler:8786": a Dask cluster of this institution's own
memory = "8 GiB"                      # the most that a plan may ask for in this role; left out, no bound
sessions = 8                          # of a CSP: sessions at the same time; left out, by cores, memory and descriptors
open_jobs = 100                       # of a CSP: jobs of one researcher that are neither done nor stopped
checkpoint = "state/pass.factor"      # where a pass is stored while it lasts, by the job's id otherwise
[csp]
address = "csp.example.org:7443"      # where to dial; the CSP itself has listen = "0.0.0.0:7443"
[data]
default = "data/table.parquet"        # what a job reads
three-hospitals = "data/other.csv"    # for the job of this name
[link]
default = "data/linkage.csv"          # a linkage map: our ids, and the entities they stand for; by job, as [data] is
[table]
encoding = "latin-1"                  # how our tables are written, and what their codes mean: prepare/table_map.py
missing = ["-9"]                      # no one else is sent any of it
[table.map]
"Gewicht (kg)" = "weight"             # what a column of our tables is called in studies
sex = { levels = { m = "male", w = "female" } }
"""

import json
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, StringConstraints, ValidationError
from pydantic_core import PydanticCustomError

from fedsvd.errors import ConfigError
from fedsvd.identity.kit import Kit
from fedsvd.identity.names import KitRole
from fedsvd.prepare.dictionary import FILE as DICTIONARY
from fedsvd.prepare.dictionary import read_dictionary
from fedsvd.prepare.table_map import NOTHING, TableMap
from fedsvd.service.capacity import OPEN_JOBS
from fedsvd.storage import private
from fedsvd.storage.toml import first_fault, read_toml
from fedsvd.studies.own_table import OwnTables
from fedsvd.types import as_fix, byte_size, bytes_of

SITE = "site.toml"
RESULTS = "results"
_SETTINGS = (
    "results, device, engine, memory, checkpoint, sessions, open_jobs, [csp] address or listen, [data], [link], [table]"
)
_EXAMPLE = "see docs/deployment.md for an example"
_DATA = """\
# results = "results"            # where results go, seen from this folder

[data]
# default = "data/table.parquet"  # what a job reads, seen from this folder
# three-hospitals = "data/other.csv"  # for the job of this name

# [table.map]
# "Gewicht (kg)" = "weight"       # what a column here is called in studies; see docs/howto/dictionary.md
"""


Text = Annotated[str, StringConstraints(max_length=4000)]


Number = Annotated[StrictInt, Field(ge=1, le=100_000)]


def _amount(value: object) -> object:
    """Bytes of a text, which is all that site.toml may hold."""
    if not isinstance(value, str):
        raise PydanticCustomError("string_type", "a text")
    return bytes_of(value)


class _Table(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, hide_input_in_errors=True)


class CspPlace(_Table):
    """``[csp]``: where the CSP is, or where this kit, a CSP's, listens."""

    address: Text = ""
    listen: Text = ""


class SiteFile(_Table):
    """A kit's settings."""

    results: Text = RESULTS
    device: Text | None = None
    engine: Text | None = None
    memory: Annotated[int, BeforeValidator(_amount)] | None = None
    checkpoint: Text | None = None
    sessions: Number | None = None
    open_jobs: Number = OPEN_JOBS
    csp: CspPlace = CspPlace()
    data: dict[str, Text] = {}
    link: dict[str, Text] = {}
    table: TableMap = NOTHING

    def tables_in(self, folder: Path) -> OwnTables:
        """What this site says of its tables; the consortium's dictionary is next to this file, where it has one."""
        path = folder / DICTIONARY
        return OwnTables(self.table, read_dictionary(path) if path.exists() else None)

    def link_for(self, job: str) -> str | None:
        """The linkage map for a job of this name; None where the site names none."""
        return self.link.get(job) or self.link.get("default") or None

    def data_for(self, job: str) -> str | None:
        """What a job of this name reads; None where the site names nothing."""
        return self.data.get(job) or self.data.get("default") or None

    def expect_memory(self, memory: int) -> None:
        """Raise unless a plan's memory budget is within what this site has for it."""
        if self.memory is not None and memory > self.memory:
            raise ConfigError(
                f"the plan asks for {byte_size(memory)} in every role, and {SITE} allows {byte_size(self.memory)} here",
                f"a smaller memory in the job file, or a larger one in {SITE}",
            )


def read_site(directory: Path) -> SiteFile:
    """The settings in a kit's folder; the default ones where there is no file.

    A misspelt key is an error: what is silently ignored may be what the owner relies on.
    """
    path = directory / SITE
    if not path.exists():
        return SiteFile()
    try:
        return SiteFile.model_validate(read_toml(path, "docs/deployment.md"))
    except ValidationError as invalid:
        raise _fault(path, invalid) from None


def _fault(path: Path, invalid: ValidationError) -> ConfigError:
    fault = invalid.errors(include_url=False, include_context=False)[0]
    key, *inner = map(str, fault["loc"])
    if key == "rename":
        return ConfigError(f"[rename] in {path} has another name now", "write its lines under [table.map]")
    if key == "table" and inner:
        return first_fault(str(path), invalid, SiteFile, "docs/deployment.md")
    if fault["type"] == "extra_forbidden":
        name = ".".join((key, *inner))
        known = _SETTINGS if not inner else f"[{key}] has {' or '.join(CspPlace.model_fields)}"
        return ConfigError(f"{name[:80]!r} in {path} is not a setting", known)
    if fault["type"] in ("model_type", "dict_type"):
        return ConfigError(f"{key} in {path} is not a table", f"write [{key}] above its lines")
    if fault["type"] == "value_error":
        return ConfigError(f"{key} in {SITE} is not an amount", as_fix(fault["msg"]))
    if key in ("sessions", "open_jobs"):
        return ConfigError(f"{key} in {path} is not a number from 1 to 100,000", _EXAMPLE)
    return ConfigError(f"a value of {key} in {path} is not a text", _EXAMPLE)


def write_site(kit: Kit, csp: str | None) -> None:
    """A first ``site.toml``, with what is not known yet commented out."""
    address = f"address = {json.dumps(csp)}" if csp else '# address = "csp.example.org:7443"'
    sections = {
        KitRole.CSP: '[csp]\n# listen = "0.0.0.0:7443"\n',
        KitRole.PARTY: f"{_DATA}\n[csp]\n{address}\n",
    }
    text = sections.get(kit.identity.role, f"[csp]\n{address}\n")
    private.create(kit.directory / SITE, f"# This site, for fedsvd; see docs/deployment.md.\n{text}".encode())
