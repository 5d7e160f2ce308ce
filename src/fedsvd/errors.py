"""Every error of fedsvd, in one tree.

    FedSVDError
    ├─ ConfigError (ValueError)              FSVD-100  A setting, an option or a job file that cannot be carried out
    │  ├─ ReleaseRefused                     FSVD-110  The plan releases more than a party allows
    │  ├─ NoDevice                           FSVD-111  The GPU that was asked for is not on this machine
    │  └─ ApprovalSpent                      FSVD-113  The job was approved, and has already run
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
    │  └─ SourceChanged                      FSVD-211  The data changed since the job was approved
    ├─ NumericalError (ArithmeticError)      FSVD-300  A computation ended in numbers that cannot be released
    │  ├─ FixedPointOverflow                 FSVD-301  An entry is larger than the bound of the fixed point
    │  ├─ PrecisionLost                      FSVD-303  A route would lose more digits than it promises
    │  ├─ NotConverged                       FSVD-304  An iteration ended before its residual was small enough
    │  └─ VerificationFailed                 FSVD-305  The result did not pass its check, and nothing was released
    ├─ StorageError (OSError)                FSVD-350  A disk, a file or a budget stands in the way
    ├─ ProtocolError                         FSVD-400  The session is not what it should be
    │  ├─ LocalProtocolError                 FSVD-401  Our own side asked for something illegal
    │  └─ RemoteProtocolError                FSVD-410  A peer broke the protocol
    │     ├─ UnexpectedMessage               FSVD-411  A message that this state does not take
    │     ├─ RepeatedShare                   FSVD-412  A share came twice
    │     ├─ PlanMismatch                    FSVD-413  Parties hold different plans
    │     ├─ MalformedFrame                  FSVD-414  Bytes that are no message
    │     ├─ PeerAborted                     FSVD-415  Another role ended the session
    │     ├─ NotSealed                       FSVD-416  A sealed message or a signature does not verify
    │     ├─ SumAltered                      FSVD-417  A secure sum was changed on its way
    │     ├─ AnswerRefused                   FSVD-418  An answer of the CSP that no honest CSP gives
    │     └─ SplitView                       FSVD-419  The users did not all receive the same results
    ├─ TransportError                        FSVD-500  A connection does not work
    │  ├─ PeerLost                           FSVD-501  A role is gone
    │  ├─ TimedOut                           FSVD-502  No progress for too long
    │  └─ NotAuthenticated                   FSVD-503  A certificate, a role or a pin does not fit
    └─ NotFittedError (ValueError, AttributeError)  FSVD-600  An estimator is used before it was fitted
    PrivacyWarning (UserWarning)                           A setting reveals more than the default does
    DataWarning (UserWarning)                              The data may not be what the study takes it for
    └─ RowsNotCompared                                     Columns are split

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
# Control characters (among them what begins an escape sequence), marks that turn the direction of text, surrogates,
# private and unassigned code points, ends of lines and paragraphs.
_NOT_SHOWN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
_JOINERS = "\u200c\u200d"  # part of words in several scripts, and harmless


def printable(text: object, longest: int = LONGEST_TEXT) -> str:
    """The text as a terminal, a log line or a page may show it: one line, no control characters, not too long."""
    text = text if isinstance(text, str) else str(text)
    if len(text) > longest:
        text = f"{text[: longest - 3]}..."
    return text if text.isascii() and text.isprintable() else "".join(map(_shown, text))


def _shown(character: str) -> str:
    if character in "\t\n\r\v\f\u2028\u2029":
        return " "
    hidden = unicodedata.category(character) in _NOT_SHOWN and character not in _JOINERS
    return "?" if hidden else character


class FedSVDError(Exception):
    """Base of all errors raised on purpose; ``code`` is stable and has a page in the documentation."""

    code = "FSVD-000"

    def __init__(self, fault: str = "", fix: str = "") -> None:
        self.fault = printable(fault)
        self.fix = printable(fix)
        super().__init__(self.fault, self.fix)
        self.problems: tuple[FedSVDError, ...] = ()  # each of them, where one error stands for several

    def __str__(self) -> str:
        text = f"{self.code}: {self.fault}" if self.fault else self.code
        return f"{text}. Fix: {self.fix}" if self.fix else text


class ConfigError(FedSVDError, ValueError):
    """A setting, an option or a job file that cannot be carried out."""

    code = "FSVD-100"


class ReleaseRefused(ConfigError):
    """The plan releases more than a party allows."""

    code = "FSVD-110"


class NoDevice(ConfigError):
    """The GPU that was asked for is not on this machine."""

    code = "FSVD-111"


class ApprovalSpent(ConfigError):
    """The job was approved, and has already run."""

    code = "FSVD-113"


class ShapeError(FedSVDError, ValueError):
    """Tables or arrays that do not fit together."""

    code = "FSVD-101"


class MissingExtra(FedSVDError, ImportError):
    """An optional dependency is not installed."""

    code = "FSVD-102"


class DataError(FedSVDError, ValueError):
    """The data cannot be used for this study."""

    code = "FSVD-200"


class NotFinite(DataError):
    """NaN, infinity or an empty cell."""

    code = "FSVD-201"


class NotNumeric(DataError):
    """Text, dates or objects where numbers are needed."""

    code = "FSVD-202"


class RaggedRows(DataError):
    """Rows of different lengths."""

    code = "FSVD-203"


class EmptyData(DataError):
    """No rows or no columns."""

    code = "FSVD-204"


class DuplicateNames(DataError):
    """Two columns of one name."""

    code = "FSVD-205"


class UnknownFormat(DataError):
    """A file or object that cannot be read as a matrix."""

    code = "FSVD-206"


class DataChanged(DataError):
    """The data is not what it was when a checkpoint was made."""

    code = "FSVD-207"


class RowsDiffer(DataError):
    """Parties hold different rows, or in another order."""

    code = "FSVD-208"


class RepeatedIds(DataError):
    """Row ids that occur more than once."""

    code = "FSVD-209"


class ConstantData(DataError):
    """No column of the joint table varies."""

    code = "FSVD-210"


class SourceChanged(DataError):
    """The data changed since the job was approved."""

    code = "FSVD-211"


class NumericalError(FedSVDError, ArithmeticError):
    """A computation ended in numbers that cannot be released."""

    code = "FSVD-300"


class FixedPointOverflow(NumericalError):
    """An entry is larger than the bound of the fixed point."""

    code = "FSVD-301"


class PrecisionLost(NumericalError):
    """A route would lose more digits than it promises."""

    code = "FSVD-303"


class NotConverged(NumericalError):
    """An iteration ended before its residual was small enough."""

    code = "FSVD-304"


class VerificationFailed(NumericalError):
    """The result did not pass its check, and nothing was released."""

    code = "FSVD-305"


class StorageError(FedSVDError, OSError):
    """A disk, a file or a budget stands in the way."""

    code = "FSVD-350"


class ProtocolError(FedSVDError):
    """The session is not what it should be."""

    code = "FSVD-400"


class LocalProtocolError(ProtocolError):
    """Our own side asked for something illegal."""

    code = "FSVD-401"


class RemoteProtocolError(ProtocolError):
    """A peer broke the protocol."""

    code = "FSVD-410"


class UnexpectedMessage(RemoteProtocolError):
    """A message that this state does not take."""

    code = "FSVD-411"


class RepeatedShare(RemoteProtocolError):
    """A share came twice."""

    code = "FSVD-412"


class PlanMismatch(RemoteProtocolError):
    """Parties hold different plans."""

    code = "FSVD-413"


class MalformedFrame(RemoteProtocolError):
    """Bytes that are no message."""

    code = "FSVD-414"


class PeerAborted(RemoteProtocolError):
    """Another role ended the session."""

    code = "FSVD-415"


class NotSealed(RemoteProtocolError):
    """A sealed message or a signature does not verify."""

    code = "FSVD-416"


class SumAltered(RemoteProtocolError):
    """A secure sum was changed on its way."""

    code = "FSVD-417"


class AnswerRefused(RemoteProtocolError):
    """An answer of the CSP that no honest CSP gives."""

    code = "FSVD-418"


class SplitView(RemoteProtocolError):
    """The users did not all receive the same results."""

    code = "FSVD-419"


class TransportError(FedSVDError):
    """A connection does not work."""

    code = "FSVD-500"


class PeerLost(TransportError):
    """A role is gone."""

    code = "FSVD-501"


class TimedOut(TransportError):
    """No progress for too long."""

    code = "FSVD-502"


class NotAuthenticated(TransportError):
    """A certificate, a role or a pin does not fit."""

    code = "FSVD-503"


class NotFittedError(FedSVDError, ValueError, AttributeError):
    """An estimator is used before it was fitted."""

    code = "FSVD-600"


class PrivacyWarning(UserWarning):
    """A setting reveals more than the default does; never silent."""


class DataWarning(UserWarning):
    """The data may not be what the study takes it for: its numbers would be exact, and mean something else."""


class RowsNotCompared(DataWarning):
    """Columns are split, and rows belong together by position alone; ``ids = "trust"`` says that this is known."""


def together(problems: Sequence[FedSVDError]) -> FedSVDError:
    """One error for all of them, of the kind of the first; a single one is itself."""
    first = problems[0]
    if len(problems) == 1:
        return first
    listed = "".join(f"\n  {number}. {problem}" for number, problem in enumerate(problems, start=1))
    error = type(first)()
    # A line to each problem; the texts themselves are printable already.
    error.fault = f"{len(problems)} problems were found, and nothing was sent:{listed}"
    error.args = (error.fault, "")
    error.problems = tuple(problems)
    return error


def warn_caller(text: str, category: type[Warning] = PrivacyWarning) -> None:
    """A warning at the caller's line: the innermost that is neither ours nor scikit-learn's nor joblib's.

    A fixed ``stacklevel`` would be right for one way in only: an estimator is fitted directly, in a pipeline, in a
    search, or through ``fit_transform``, which scikit-learn wraps.
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _is_library(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)


def _is_library(filename: str) -> bool:
    path = filename.replace("\\", "/")
    return path.startswith(_OURS) or "/sklearn/" in path or "/joblib/" in path
