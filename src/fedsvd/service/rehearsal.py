"""A rehearsal: a federation on one machine, founded by one call and started by another, to try things out.

    DIR/rehearsal.toml         what this folder is, which party the user plays, where the job file is
    DIR/operator, DIR/csp      kits as between institutions; one to each party by its name, and DIR/researcher
    DIR/logs                   what each role logged

Roles, messages, approvals and pins are those between institutions. What is given up is the point of it all: one person
holds every key. So the operator's certificate says that it is a rehearsal, every kit of it refuses an address that is
not on this machine (``identity.certificates.expect_here``), and the keys are good for a week.
"""

import json
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from fedsvd.errors import ConfigError, StorageError
from fedsvd.identity.certificates import REHEARSAL
from fedsvd.identity.kit import Kit
from fedsvd.identity.temporary import DAYS, temporary_federation
from fedsvd.policy.policy_file import POLICY, spelt_policy
from fedsvd.policy.rules import ALL, Policy
from fedsvd.prepare.dictionary import FILE as DICTIONARY
from fedsvd.prepare.dictionary import spelt_dictionary
from fedsvd.service.enlist import authority_caller, member_callers, party_caller
from fedsvd.service.processes import RoleProcess, environment_for, stop_all
from fedsvd.service.site_file import SITE
from fedsvd.storage import private
from fedsvd.storage.toml import read_toml, spelt_toml
from fedsvd.studies.job_file import Job

FILE = "rehearsal.toml"
_LOOPBACK = "127.0.0.1"
_CSP, _RESEARCHER = "csp", "researcher"


@dataclass(frozen=True)
class Rehearsal:
    """A rehearsal's folder, and who is in it."""

    root: Path
    you: str  # the party whose owner the user plays; the others approve whatever their policy allows
    job: Path
    kits: Mapping[str, Path]  # by caller: party/hospital-a

    @classmethod
    def at(cls, root: Path) -> "Rehearsal":
        """The rehearsal in a folder; ``ConfigError`` where there is none, or a federation that is not one."""
        if not (root / FILE).is_file():
            raise ConfigError(f"there is no rehearsal in {root}", f"found one: fedsvd federation rehearse {root}")
        settings = read_toml(root / FILE, "docs/tutorial/rehearsal.md")
        kits = {}
        for folder in sorted(path.parent for path in root.glob("*/certificate.pem")):
            kit = Kit.read(folder)
            if not kit.rehearsal:
                raise ConfigError(f"{folder} is the kit of a federation", "every institution starts its own role")
            kits[str(kit.identity)] = folder
        you, job = str(settings.get("you")), str(settings.get("job"))
        if party_caller(you) not in kits:
            raise StorageError(f"{root / FILE} names no party of this rehearsal", "rehearse again in a new folder")
        return cls(root, you, root / job, kits)

    @property
    def researcher(self) -> Path:
        return self.kits[f"researcher/{_RESEARCHER}"]

    @property
    def yours(self) -> Path:
        """The kit of the party that the user plays."""
        return self.kits[party_caller(self.you)]

    @contextmanager
    def running(self) -> Iterator[list[RoleProcess]]:
        """Every role but the researcher in a process of its own, all ready; gone when the block ends."""
        roles = [name for name in self.kits if not name.startswith("researcher/")]
        logs = private.private_folder(self.root / "logs")
        processes: list[RoleProcess] = []
        try:
            for name in sorted(roles, key=lambda name: not name.startswith("csp/")):
                yes = ["--yes"] if name.startswith("party/") and name != party_caller(self.you) else []
                words = [name.partition("/")[0], "start", "--kit", str(self.kits[name]), *yes]
                log = logs / f"{name.replace('/', '-')}.log"
                processes.append(RoleProcess(name, words, log, environment_for(name, roles)))
                if len(processes) == 1:
                    processes[0].ready()  # the CSP, which the others dial
            for process in processes[1:]:
                process.ready()
            yield processes
        finally:
            stop_all(processes)


@contextmanager
def new_folder(root: Path) -> Iterator[None]:
    """The folder is there, private and empty; what the block put into it goes again unless it ends well."""
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise StorageError(f"{root} is not an empty folder, and is left as it is", "name a new folder")
    private.private_folder(root)
    try:
        yield
    except BaseException:
        shutil.rmtree(root, ignore_errors=True)
        raise


def found(root: Path, job: Job, job_file: Path) -> Rehearsal:
    """A new rehearsal among the members of a job, each party's ``site.toml`` naming the data that the job names."""
    parties = [party.name for party in job.parties]
    deals = len(member_callers(job)) > len(parties)
    authority = authority_caller(job).partition("/")[2] if deals else "ta"
    kits = temporary_federation(
        root,
        parties,
        with_authority=deals,
        authority=authority,
        csp=_CSP,
        researcher=_RESEARCHER,
        now=datetime.now(UTC),
        name=f"REHEARSAL of {job.study.name}"[:64],
        rehearsal=True,
    )
    address = json.dumps(f"{_LOOPBACK}:{_free_port()}")
    for caller, kit in kits.items():
        text = f"# {REHEARSAL}\n[csp]\n{'listen' if caller.startswith('csp/') else 'address'} = {address}\n"
        private.create(kit / SITE, text.encode())
    for party in job.parties:
        kit = kits[party_caller(party.name)]
        private.replace(kit / POLICY, spelt_policy(Policy(enforce=True, answered=(ALL,))).encode())
        path = kit / SITE
        data = job.data_of(party)
        where = json.dumps(str(data.absolute() if isinstance(data, Path) else data), ensure_ascii=False)
        text, words = f"\n[data]\ndefault = {where}\n", job.map_of(party)
        if not words.asks_nothing:
            text += spelt_toml({"table": words.record()})
        private.replace(path, private.read(path) + text.encode())
        if job.dictionary is not None:
            private.create(path.with_name(DICTIONARY), spelt_dictionary(job.dictionary).encode())
    about = f"# {REHEARSAL}\n# The keys are good for {DAYS} days. Remove the folder to be rid of it.\n"
    at = job_file.name if job_file.parent == root else str(job_file.absolute())
    lines = f"you = {json.dumps(parties[0])}\njob = {json.dumps(at, ensure_ascii=False)}\n"
    private.create(root / FILE, (about + lines).encode())
    return Rehearsal.at(root)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind((_LOOPBACK, 0))
        return int(taken.getsockname()[1])
