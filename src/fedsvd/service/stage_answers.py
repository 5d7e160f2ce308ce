"""What a party learnt together with the others at the earlier stages of a job, until the job is done.

    STATE/answers/JOB-ATTEMPT-STAGE     joint means, names of levels, positions of common records

A party may be stopped between two stages, and started again: what the stages before gave is read from here, and the
next one goes on. It is for this party alone, as its results are: private files, bound to the job, the attempt and the
stage they were written for, and erased when the job is done or the attempt is over.
"""

import hashlib
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from fedsvd.errors import LocalProtocolError, PlanMismatch, StorageError
from fedsvd.prepare.recipe import Recipe, of_record
from fedsvd.roles.user.agreement import Agreement
from fedsvd.roles.user.matching import MatchResult
from fedsvd.service.enlist import plain_id
from fedsvd.service.records import JobRecord, JsonObject
from fedsvd.storage import private
from fedsvd.studies.job_stages import Stage
from fedsvd.studies.stages import preparation_facts

_SUFFIX = ".answers"
_SIGNED = "agreement"


class StageAnswers:
    """The answers of one party's jobs under way, in a private folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, record: JobRecord, answers: JsonObject, signed: Agreement | None = None) -> None:
        """What this stage gave, and what all signed of it, on disk when this returns."""
        private.private_folder(self._folder)
        if signed is not None:
            spelt: JsonObject = {party: signature.hex() for party, signature in signed.signatures.items()}
            answers = {**answers, _SIGNED: {"body": signed.body.decode(), "signatures": spelt}}
        content = _heading(record, record.stage) + b"\n" + json.dumps(answers).encode()
        private.replace(self._path(*record.session_key), content)

    def read(self, record: JobRecord, stage: Stage) -> JsonObject:
        """What an earlier stage of this attempt gave."""
        path = self._path(record.id, record.attempt, stage)
        if not path.exists():
            raise LocalProtocolError(f"what the stage {stage!s} gave is not here any more", "resume the job")
        heading, _, answers = private.read_secret(path).partition(b"\n")
        if heading != _heading(record, stage):
            raise StorageError(f"{path} is of another job", "resume the job")
        found: JsonObject = json.loads(answers)
        return found

    def recipe(self, record: JobRecord) -> Recipe | None:
        """What the tables of this job are prepared with, as of now; None before that, or where nothing is."""
        if Stage.PREPARE not in record.stage.earlier or Stage.PREPARE not in record.stages:
            return None
        found = self.read(record, Stage.PREPARE)["recipe"]
        return of_record(found) if isinstance(found, dict) else None

    def common(self, record: JobRecord) -> MatchResult | None:
        """Which of our records all parties have; None before that is known, or where none are matched."""
        if Stage.MATCH not in record.stage.earlier or Stage.MATCH not in record.stages:
            return None
        found = self.read(record, Stage.MATCH)
        return MatchResult(np.array(found["positions"], np.int64), int(str(found["records"])))

    def signed(self, record: JobRecord) -> dict[str, Agreement]:
        """What all signed of the stages before this one, by their names."""
        found = {}
        for stage in (stage for stage in record.stages if stage in record.stage.earlier):
            said: Any = self.read(record, stage).get(_SIGNED)
            if said is not None:
                signatures = {party: bytes.fromhex(each) for party, each in said["signatures"].items()}
                found[str(stage)] = Agreement(said["body"].encode(), signatures)
        return found

    def expect_passed(self, record: JobRecord) -> None:
        """The sessions before this one are, in the CSP's record, those that our answers are of."""
        shown = {str(each.stage): (each.session, each.plan_digest) for each in record.passed}
        bodies = {stage: json.loads(agreement.body) for stage, agreement in self.signed(record).items()}
        if shown != {stage: (body["session"], body["plan"]) for stage, body in bodies.items()}:
            raise PlanMismatch(
                "the CSP names other earlier sessions of this job than we took part in", "resume the job"
            )

    def facts(self, record: JobRecord) -> JsonObject:
        """What our results say of the preparation of this job."""
        if Stage.PREPARE not in record.stages:
            return preparation_facts(record.job.prepare, None)
        found = self.read(record, Stage.PREPARE)["facts"]
        return found if isinstance(found, dict) else {}

    def erase(self, id: str) -> None:
        """The job is done here: nothing of its earlier stages is needed any more."""
        for path in self._folder.glob(f"{plain_id(id)}-*{_SUFFIX}"):
            private.erase(path)

    def erase_but(self, wanted: Collection[tuple[str, int]]) -> None:
        """Erase what belongs to attempts that are over."""
        names = tuple(f"{plain_id(id)}-{int(attempt)}-" for id, attempt in wanted)
        for path in self._folder.glob(f"*{_SUFFIX}"):
            if not path.name.startswith(names):
                private.erase(path)

    def _path(self, id: str, attempt: int, stage: Stage) -> Path:
        return self._folder / f"{plain_id(id)}-{int(attempt)}-{Stage(stage)}{_SUFFIX}"


def _heading(record: JobRecord, stage: Stage) -> bytes:
    """What the answers are for: the job as it was submitted, one attempt at it, one stage."""
    text = json.dumps([record.id, record.attempt, str(stage), record.file], sort_keys=True)
    return hashlib.sha256(b"fedsvd/answers/1\x00" + text.encode()).hexdigest().encode()
