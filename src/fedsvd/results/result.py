"""The one type of a result: a study as one reader may see it, from the end of a session to the folder and back.

A role ends with what it computed (``PCAResult`` and its like). ``tables.py`` makes a ``PartyResult`` of it, under names
a person knows; ``write.py`` writes that to a folder and reads it back; the report is drawn from it. The reader is a
user, the CSP, the TA, or None for what all users share. What a reader may not see is not in its result, so that no
drawing can show it by mistake.
"""

import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy
from numpy.typing import NDArray

from fedsvd import __version__
from fedsvd.data.views import NumberedNames
from fedsvd.linalg.windows import Form
from fedsvd.protocol.certificate import Accounts, Certificate, certificate_from
from fedsvd.protocol.foreign import foreign_of
from fedsvd.protocol.model import Digits, ModelPlan
from fedsvd.protocol.outputs import Output, output_of
from fedsvd.protocol.parties import CSP, NAME, TA, Party, Role, user
from fedsvd.protocol.plan import PROTOCOL, SessionPlan
from fedsvd.protocol.reasons import Why
from fedsvd.protocol.steps import step_of
from fedsvd.protocol.table import table_of
from fedsvd.protocol.tasks import Align, Answer, Check, Item, Labels, Mode, Own, Scheme, Split, Task, Trust
from fedsvd.results.folder import Table

if TYPE_CHECKING:  # a plan is made, and shown, without any role
    from fedsvd.results.file_tree import Leaf
    from fedsvd.results.vector_files import VectorFile
    from fedsvd.roles.user.agreement import Agreement

FORMAT = "fedsvd-results/1"
ACCOUNT = "fedsvd-account/1"  # of a role that holds no data, and so no result
_READERS = {None: "everybody", CSP: "csp", TA: "authority"}  # in a manifest; a user is "party"


@dataclass(frozen=True, repr=False)
class PartyResult:
    """One study as one reader may see it: arrays by name, the same as tables, and what is worth saying about them.

    Arrays and columns are views of what the role computed: they may be as large as its data. Tables, objects, files on
    their way to the folder and the signed certificate are there before a result is written, and not when it is read.
    """

    job: str
    names: tuple[str, ...]  # of all parties
    plan: SessionPlan
    certificate: Certificate
    reader: Party | None = None
    rank: int = 0
    features: tuple[str, ...] | None = None  # column names, where the data has names and the reader may know them
    targets: tuple[str, ...] = ()
    id: str | None = None  # the column of row ids
    why: str = ""  # why this scheme
    file: Mapping[str, Any] = field(default_factory=dict)  # the job file with every option, without data
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    proved: str = ""  # of the vectors' order, in words; as the certificate has it
    not_finished: str = ""  # why the job of this result is not done, where it is not
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    tables: tuple[Table, ...] = ()
    outputs: tuple[Output, ...] = ()  # what the task of this study gives, as it declares it
    objects: Mapping[str, Any] = field(default_factory=dict)  # what facts describe, as it was computed
    files: Mapping[str, "VectorFile"] = field(default_factory=dict)  # written already, to be moved into the folder
    agreement: "Agreement | None" = None  # what all users and the CSP signed
    before: Mapping[str, "Agreement"] = field(default_factory=dict)  # the same of sessions before the study, by task
    leaves: Mapping[str, "Leaf"] = field(default_factory=dict)  # the files that were signed, before they are written
    shared_only: Mapping[str, "Leaf"] = field(default_factory=dict)  # those of a folder of what all share alone

    def __repr__(self) -> str:
        return f"PartyResult({self.job}, {self.task}, reader={self.reader})"

    @property
    def task(self) -> Task:
        return self.plan.task

    @property
    def split(self) -> Split:
        return self.plan.split

    @property
    def of_a_role(self) -> bool:
        """Whether the reader holds no data: the CSP or the TA, which get accounts and no result."""
        return self.reader is not None and self.reader.role is not Role.USER

    @property
    def index(self) -> int | None:
        """The reader's place among the users, from 1, if it is one of them."""
        return None if self.reader is None or self.of_a_role else self.reader.index

    @property
    def party(self) -> str | None:
        """The reader's name, if it is a user."""
        return None if self.index is None else self.names[self.index - 1]

    @property
    def label_holder(self) -> str | None:
        """The party that alone holds the labels, where columns are split."""
        return self.names[self.plan.label_user - 1] if self.plan.label_user and not self.of_a_role else None

    def feature_names(self, count: int) -> Sequence[str]:
        """Names of this many features: x0, x1, ... where the reader has no names."""
        known = self.features is not None and len(self.features) == count
        return self.features if known and self.features is not None else NumberedNames(count)

    def adding(
        self,
        arrays: Mapping[str, NDArray[Any]] | None = None,
        table: Table | None = None,
        facts: Mapping[str, Any] | None = None,
        files: "Mapping[str, VectorFile] | None" = None,
    ) -> "PartyResult":
        """The same result with more in it."""
        return replace(
            self,
            arrays={**self.arrays, **(arrays or {})},
            tables=self.tables if table is None else (*self.tables, table),
            facts={**self.facts, **(facts or {})},
            files={**self.files, **(files or {})},
        )

    def emptied(self) -> "PartyResult":
        """The same study without arrays, tables, facts: for what is computed from this result."""
        return replace(self, arrays={}, facts={}, tables=(), objects={}, files={}, agreement=None, before={})

    def for_role(self, role: Party) -> "PartyResult":
        """What the CSP or the TA saw of this study: shapes, bytes and times; no array and no column name."""
        certificate = self.certificate if role == CSP else self.certificate.seen_by(role)
        account = replace(self.emptied(), reader=role, certificate=certificate, rank=certificate.rank)
        return replace(account, features=None, targets=(), id=None)

    def record(self) -> dict[str, Any]:
        """What the manifest says, as plain values for JSON."""
        plan, certificate = self.plan, self.certificate
        public = {
            "format": ACCOUNT if self.of_a_role else FORMAT,
            "reader": _READERS.get(self.reader, "party"),
            "job": self.job,
            "parties": list(self.names),
            "created": self.created,
            "task": plan.task,
            "split": plan.split,
            "why_this_scheme": self.why,
            "job_file": dict(self.file),
            "plan_digest": plan.digest,
            "plan": asdict(plan),
            "certificate": certificate.record(),
            "proved": self.proved,
        }
        if self.of_a_role:
            return public
        return {
            **public,
            "party": self.party,
            "index": self.index,
            "label_holder": self.label_holder,
            "features": self.features,
            "targets": self.targets,
            "id": self.id,
            "shape": (plan.m, plan.n) if plan.split is Split.VERTICAL else (plan.n, plan.m),
            "rank": self.rank,
            "residual": certificate.residual,
            "orthogonality": certificate.orthogonality,
            "versions": dict(certificate.versions),
            "outputs": [output.record() for output in self.outputs],
            "facts": dict(self.facts),
        }


def result_from(record: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> PartyResult:
    """The result that a manifest describes, with these arrays; ``ValueError`` and its like where it is damaged."""
    plan, certificate = _plan(record["plan"]), certificate_from(record["certificate"])
    names, features = tuple(record["parties"]), record.get("features")
    if len(names) != plan.k or any(re.fullmatch(NAME, name) is None for name in names):
        raise ValueError("parties whose names are not valid")
    if (Task(record["task"]), Split(record["split"])) != (plan.task, plan.split):
        raise ValueError("another task or split than that of the plan")
    result = PartyResult(
        job=record["job"],
        names=names,
        plan=plan,
        certificate=certificate,
        reader=_reader(record),
        rank=record.get("rank", certificate.rank),
        features=None if features is None else tuple(features),
        targets=tuple(record.get("targets", ())),
        id=record.get("id"),
        why=record["why_this_scheme"],
        file=record["job_file"],
        created=record["created"],
        proved=str(record.get("proved", "")),
        not_finished=record.get("not_finished", ""),
        arrays=arrays,
        facts=record.get("facts", {}),
        outputs=tuple(output_of(output) for output in record.get("outputs", ())),
    )
    if result.party != record.get("party"):
        raise ValueError("another party than that of this place")
    return result


def _reader(record: Mapping[str, Any]) -> Party | None:
    if record["reader"] == "party":
        index = record["index"]
        if not isinstance(index, int) or not 1 <= index <= len(record["parties"]):
            raise ValueError("a place that no party has")
        return user(index)
    return {text: party for party, text in _READERS.items()}[record["reader"]]


def _plan(record: Mapping[str, Any]) -> SessionPlan:
    values: dict[str, Any] = dict(record)
    kinds = {"task": Task, "split": Split, "scheme": Scheme, "trust": Trust, "left": Form, "right": Form}
    for key, kind in {**kinds, "check": Check, "answer": Answer, "labels": Labels, "own": Own}.items():
        values[key] = kind(record[key])
    values["digits"] = Digits(record.get("digits", Digits.ALL))
    values["mode"] = None if record.get("mode") is None else Mode(record["mode"])
    values["glm"] = None if record.get("glm") is None else ModelPlan(**record["glm"])
    values["table"] = None if record.get("table") is None else table_of(record["table"])
    values["foreign"] = None if record.get("foreign") is None else foreign_of(record["foreign"])
    values["align"] = None if record.get("align") is None else Align(record["align"])
    values["release"] = tuple(Item(item) for item in record["release"])
    values["steps"] = tuple(step_of(step) for step in record.get("steps", ()))
    values["why"] = tuple(Why(code) for code in record["why"])
    for name in ("counts", "identities", "prekeys", "alphas", "earlier"):
        values[name] = tuple(record.get(name, ()))
    values["options"] = tuple((key, value) for key, value in record.get("options", ()))
    return SessionPlan(**values)


def certificate_of(plan: SessionPlan, verified: Any, accounts: Accounts) -> Certificate:
    """What can be said of a finished session; ``verified`` is what a role that measured the factors ended with."""
    return Certificate(
        plan_digest=plan.digest,
        residual=getattr(verified, "residual", 0.0),
        orthogonality=getattr(verified, "orthogonality", 0.0),
        rank=getattr(verified, "rank", 0),
        versions=software(),
        why=plan.reason,
    ).with_accounts(accounts)


def software() -> dict[str, str]:
    """The versions that this process computes with."""
    return {
        "fedsvd": __version__,
        "protocol": str(PROTOCOL),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }
