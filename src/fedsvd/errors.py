"""Every error of fedsvd, in one tree.

    FedSVDError
    ├─ ConfigError (ValueError)              FSVD-100  A setting, an option or a job file that cannot be carried out
    │  ├─ ReleaseRefused                     FSVD-110  The plan releases more than a party allows
    │  ├─ NoDevice                           FSVD-111  The GPU that was asked for is not on this machine
    │  ├─ ApprovalSpent                      FSVD-113  The job was approved, and has already run
    │  └─ TooManyJobs                        FSVD-114  A researcher has as many open jobs as the CSP takes
    ├─ ShapeError (ValueError)               FSVD-101  Tables or arrays that do not fit together
    ├─ MissingExtra (ImportError)            FSVD-102  An optional dependency is not installed
    ├─ DataError (ValueError)                FSVD-200  The data cannot be used for this study
    │  ├─ NotFinite                          FSVD-201  NaN, infinity or an empty cell
    │  ├─ NotNumeric                         FSVD-202  Text, dates or objects where numbers are needed
    │  ├─ RaggedRows                         FSVD-203  Rows of different lengths
    │  ├─ EmptyData                          FSVD-204  No rows or no columns
    │  ├─ DuplicateNames                     FSVD-205  Two columns of one name
    │  ├─ UnknownFormat                      FSVD-206  A file or object that cannot be read as a matrix
    │  ├─ DataChanged                        FSVD-207  The data is not what it was when a checkpoint was made
    │  ├─ RowsDiffer                         FSVD-208  Parties hold different rows, or in another order
    │  ├─ RepeatedIds                        FSVD-209  Row ids that occur more than once
    │  ├─ ConstantData                       FSVD-210  No column of the joint table varies
    │  ├─ SourceChanged                      FSVD-211  The data changed since it was approved or opened
    │  └─ TooFewCommon                       FSVD-212  Fewer records are common to all parties than were asked for
    ├─ NumericalError (ArithmeticError)      FSVD-300  A computation ended in numbers that cannot be released
    │  ├─ FixedPointOverflow                 FSVD-301  An entry is larger than the bound of the fixed point
    │  ├─ PrecisionLost                      FSVD-303  A route would lose more digits than it promises
    │  ├─ NotConverged                       FSVD-304  An iteration ended before its residual was small enough
    │  ├─ VerificationFailed                 FSVD-305  The result did not pass its check, and nothing was released
    │  └─ Separated                          FSVD-306  A generalised linear model has no finite coefficients here
    ├─ StorageError (OSError)                FSVD-350  A disk, a file or a budget stands in the way
    ├─ OutOfResources                        FSVD-351  This machine has no memory, threads or open files left
    ├─ ProtocolError                         FSVD-400  The session is not what it should be
    │  ├─ LocalProtocolError                 FSVD-401  Our own side asked for something illegal
    │  │  └─ ScriptFailed                    FSVD-402  The script of a foreign task died, hung or sent no answer
    │  └─ RemoteProtocolError                FSVD-410  A peer broke the protocol
    │     ├─ UnexpectedMessage               FSVD-411  A message that this state does not take
    │     ├─ RepeatedShare                   FSVD-412  A share came twice
    │     ├─ PlanMismatch                    FSVD-413  Parties hold different plans
    │     ├─ MalformedFrame                  FSVD-414  Bytes that are no message
    │     ├─ PeerAborted                     FSVD-415  Another role ended the session
    │     ├─ NotSealed                       FSVD-416  A sealed message or a signature does not verify
    │     ├─ SumAltered                      FSVD-417  A secure sum was changed on its way
    │     ├─ AnswerRefused                   FSVD-418  An answer of the CSP that no honest CSP gives
    │     ├─ SplitView                       FSVD-419  The users did not all receive the same results
    │     └─ JobReplayed                     FSVD-420  A signed job is shown a second time, as another one
    ├─ TransportError                        FSVD-500  A connection does not work
    │  ├─ PeerLost                           FSVD-501  A role is gone
    │  ├─ TimedOut                           FSVD-502  No progress for too long
    │  ├─ NotAuthenticated                   FSVD-503  A certificate, a role or a pin does not fit
    │  ├─ KitRunsTwice                       FSVD-504  Two processes run with one kit
    │  ├─ OtherVersion                       FSVD-505  A peer is of another version of fedsvd
    │  └─ StillRunning                       FSVD-506  A job has not ended in the time that ``fit`` was to wait for it
    └─ NotFittedError (ValueError, AttributeError)  FSVD-600  An estimator is used before it was fitted
    PrivacyWarning (UserWarning)                           A setting reveals more than the default does
    BegunAgain (UserWarning)                               A study runs a second time in another way
    DigitsLost (UserWarning)                               Numbers of a result have fewer digits than usual
    DataWarning (UserWarning)                              The data may not be what the study takes it for
    └─ RowsNotCompared                                     Rows of split columns belong together by position alone

A message names the fault, the place and the fix. It may contain names, shapes, counts, indices and digests;
never an entry of a matrix, a seed or a key. Much of it comes from peers and files, so it is made printable here.
"""

import sys
import unicodedata
import warnings
from collections.abc import Sequence
from pathlib import Path

_OURS = Path(__file__).parent.as_posix() + "/"

LONGEST_TEXT = 4000
# Control characters and escapes, marks that turn text, surrogates, private and unassigned code points, ends of lines.
_NOT_SHOWN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
_ASK_THE_CSP = "nothing is released: stop and ask the operator of the CSP"
_JOINERS = "\u200c\u200d"  # part of words in several scripts, and harmless


def printable(text: object, longest: int = LONGEST_TEXT) -> str:
    """The text as a terminal, a log line or a page may show it: one line, no control characters, not too long."""
    text = text if isinstance(text, str) else str(text)
    if len(text) > longest:
        text = f"{text[: longest - 3]}..."
    return text if text.isascii() and text.isprintable() else "".join(map(_shown, text))


class AtHome(str):
    """A text with entries of a table, for the person who has the table; ``logged`` is the same text without them."""

    logged: str

    def __new__(cls, text: str, logged: str) -> "AtHome":
        made = super().__new__(cls, text)
        made.logged = logged
        return made


def for_log(text: str) -> str:
    """The text as a log may have it."""
    return text.logged if isinstance(text, AtHome) else text


def _shown(character: str) -> str:
    if character in "\t\n\r\v\f\u2028\u2029":
        return " "
    hidden = unicodedata.category(character) in _NOT_SHOWN and character not in _JOINERS
    return "?" if hidden else character


class FedSVDError(Exception):
    """Base of all errors raised on purpose; ``code`` is stable and has a page in the documentation."""

    code = "FSVD-000"
    usual_fix = ""  # of a kind of error whose fix is mostly the same

    def __init_subclass__(cls, code: str | None = None) -> None:
        super().__init_subclass__()
        cls.code = code or cls.code

    def __init__(self, fault: str = "", fix: str = "", at_home: str = "") -> None:
        self.fault = printable(fault)
        self.fix = printable(fix or (self.usual_fix if fault else ""))
        # The fix with entries of the table itself, for the person who has the table; a log has ``fix``.
        self.at_home = printable(at_home)
        super().__init__(self.fault, self.fix)
        self.problems: tuple[FedSVDError, ...] = ()  # each of them, where one error stands for several
        self.of = 0  # which party's data it is about, counted from 1, where one process plays all; 0: none

    def __str__(self) -> str:
        text = f"{self.code}: {self.fault}" if self.fault else self.code
        return f"{text}. Fix: {self.fix}" if self.fix else text


class ConfigError(FedSVDError, ValueError, code="FSVD-100"):
    """A setting, an option or a job file that cannot be carried out."""


class ReleaseRefused(ConfigError, code="FSVD-110"):
    """The plan releases more than a party allows."""


class NoDevice(ConfigError, code="FSVD-111"):
    """The GPU that was asked for is not on this machine."""


class ApprovalSpent(ConfigError, code="FSVD-113"):
    """The job was approved, and has already run."""


class TooManyJobs(ConfigError, code="FSVD-114"):
    """A researcher has as many open jobs as the CSP takes."""


class ShapeError(FedSVDError, ValueError, code="FSVD-101"):
    """Tables or arrays that do not fit together."""


class MissingExtra(FedSVDError, ImportError, code="FSVD-102"):
    """An optional dependency is not installed."""


class DataError(FedSVDError, ValueError, code="FSVD-200"):
    """The data cannot be used for this study."""


class NotFinite(DataError, code="FSVD-201"):
    """NaN, infinity or an empty cell."""


class NotNumeric(DataError, code="FSVD-202"):
    """Text, dates or objects where numbers are needed."""


class RaggedRows(DataError, code="FSVD-203"):
    """Rows of different lengths."""


class EmptyData(DataError, code="FSVD-204"):
    """No rows or no columns."""


class DuplicateNames(DataError, code="FSVD-205"):
    """Two columns of one name."""


class UnknownFormat(DataError, code="FSVD-206"):
    """A file or object that cannot be read as a matrix."""


class DataChanged(DataError, code="FSVD-207"):
    """The data is not what it was when a checkpoint was made."""


class RowsDiffer(DataError, code="FSVD-208"):
    """Parties hold different rows, or in another order."""


class RepeatedIds(DataError, code="FSVD-209"):
    """Row ids that occur more than once."""


class ConstantData(DataError, code="FSVD-210"):
    """No column of the joint table varies."""


class SourceChanged(DataError, code="FSVD-211"):
    """The data changed since it was approved or opened."""


class TooFewCommon(DataError, code="FSVD-212"):
    """Fewer records are common to all parties than were asked for."""


class NumericalError(FedSVDError, ArithmeticError, code="FSVD-300"):
    """A computation ended in numbers that cannot be released."""


class FixedPointOverflow(NumericalError, code="FSVD-301"):
    """An entry is larger than the bound of the fixed point."""


class PrecisionLost(NumericalError, code="FSVD-303"):
    """A route would lose more digits than it promises."""


class NotConverged(NumericalError, code="FSVD-304"):
    """An iteration ended before its residual was small enough."""

    usual_fix = 'ask for it in another way: scheme = "sum" instead of steps, a model with more iterations or a ridge'


class VerificationFailed(NumericalError, code="FSVD-305"):
    """The result did not pass its check, and nothing was released."""

    usual_fix = "nothing is released; run again, and ask the operator of the CSP if it repeats"


class Separated(NumericalError, code="FSVD-306"):
    """A generalised linear model has no finite coefficients here."""


class StorageError(FedSVDError, OSError, code="FSVD-350"):
    """A disk, a file or a budget stands in the way."""


class OutOfResources(FedSVDError, code="FSVD-351"):
    """This machine has no memory, threads or open files left."""


class ProtocolError(FedSVDError, code="FSVD-400"):
    """The session is not what it should be."""


class LocalProtocolError(ProtocolError, code="FSVD-401"):
    """Our own side asked for something illegal."""

    usual_fix = "this is a defect of fedsvd: report it, with the lines of the log around it"


class ScriptFailed(LocalProtocolError, code="FSVD-402"):
    """The script of a foreign task died, hung or sent no answer."""

    usual_fix = "ask the author of the task"


class RemoteProtocolError(ProtocolError, code="FSVD-410"):
    """A peer broke the protocol."""

    usual_fix = (
        "nothing is released; compare versions at all roles (fedsvd --version), then resume the job, and ask the owner "
        "of that role if it repeats"
    )


class UnexpectedMessage(RemoteProtocolError, code="FSVD-411"):
    """A message that this state does not take."""


class RepeatedShare(RemoteProtocolError, code="FSVD-412"):
    """A share came twice."""


class PlanMismatch(RemoteProtocolError, code="FSVD-413"):
    """Parties hold different plans."""


class MalformedFrame(RemoteProtocolError, code="FSVD-414"):
    """Bytes that are no message."""


class PeerAborted(RemoteProtocolError, code="FSVD-415"):
    """Another role ended the session."""

    usual_fix = "the log of that role says why: ask its owner, then resume the job"


class NotSealed(RemoteProtocolError, code="FSVD-416"):
    """A sealed message or a signature does not verify."""

    usual_fix = _ASK_THE_CSP


class SumAltered(RemoteProtocolError, code="FSVD-417"):
    """A secure sum was changed on its way."""

    usual_fix = _ASK_THE_CSP


class AnswerRefused(RemoteProtocolError, code="FSVD-418"):
    """An answer of the CSP that no honest CSP gives."""

    usual_fix = _ASK_THE_CSP


class SplitView(RemoteProtocolError, code="FSVD-419"):
    """The users did not all receive the same results."""

    usual_fix = _ASK_THE_CSP


class JobReplayed(RemoteProtocolError, code="FSVD-420"):
    """A signed job is shown a second time, as another one."""


class TransportError(FedSVDError, code="FSVD-500"):
    """A connection does not work."""


class PeerLost(TransportError, code="FSVD-501"):
    """A role is gone."""

    usual_fix = "look whether that role runs and is reached (fedsvd doctor), then resume the job"


class TimedOut(TransportError, code="FSVD-502"):
    """No progress for too long."""

    usual_fix = "look whether that role runs and is reached (fedsvd doctor), then resume the job"


class NotAuthenticated(TransportError, code="FSVD-503"):
    """A certificate, a role or a pin does not fit."""

    usual_fix = "compare role, name and certificate of the kit: fedsvd doctor --kit DIR"


class KitRunsTwice(TransportError, code="FSVD-504"):
    """Two processes run with one kit."""


class OtherVersion(TransportError, code="FSVD-505"):
    """A peer is of another version of fedsvd."""


class StillRunning(TransportError, code="FSVD-506"):
    """A job has not ended in the time that ``fit`` was to wait for it."""


class NotFittedError(FedSVDError, ValueError, AttributeError, code="FSVD-600"):
    """An estimator is used before it was fitted."""


class PrivacyWarning(UserWarning):
    """A setting reveals more than the default does; never silent."""


class DataWarning(UserWarning):
    """The data may not be what the study takes it for: its numbers would be exact, and mean something else."""


class BegunAgain(UserWarning):
    """A study runs a second time in another way; its result says so.

    For instance a search by steps that ``auto`` chose, and that ended without the components.
    """


class DigitsLost(UserWarning):
    """Numbers of a result have fewer digits than usual, and it says how many they have."""


class RowsNotCompared(DataWarning):
    """Rows of split columns belong together by position alone; ``ids = "trust"`` says that this is known."""


def together(problems: Sequence[FedSVDError]) -> FedSVDError:
    """One error for all of them, of the kind of the first; a single one is itself."""
    if len(problems) == 1:
        return problems[0]
    listed = "".join(f"\n  {number}. {problem}" for number, problem in enumerate(problems, start=1))
    error = type(problems[0])()
    # A line to each problem; the texts themselves are printable already.
    error.fault = f"{len(problems)} problems were found, and nothing was sent:{listed}"
    error.args, error.problems = (error.fault, ""), tuple(problems)
    return error


def warn_caller(text: str, category: type[Warning] = PrivacyWarning) -> None:
    """A warning at the caller's line: the innermost that is neither ours nor scikit-learn's nor joblib's."""
    # No fixed stacklevel: an estimator is fitted directly, in a pipeline or search, or in what scikit-learn wraps.
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _is_library(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)


def _is_library(filename: str) -> bool:
    return (path := filename.replace("\\", "/")).startswith(_OURS) or "/sklearn/" in path or "/joblib/" in path
