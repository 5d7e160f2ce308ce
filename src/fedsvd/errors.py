"""Every error of the house, in one tree.

    FedSVDError
    ├─ ConfigError (ValueError)            FSVD-100  before anything is sent; names the field and the allowed range
    │  ├─ ReleaseRefused                   FSVD-110  the plan releases more than a party's policy allows; each rule
    │  ├─ NoDevice                         FSVD-111  the GPU that was asked for is not on this machine
    │  └─ ApprovalSpent                    FSVD-113  the job was approved, and has already run
    ├─ ShapeError (ValueError)             FSVD-101  expected, got
    ├─ MissingExtra (ImportError)          FSVD-102  an optional dependency; names the extra to install
    ├─ DataError (ValueError)              FSVD-200  the data at rest is not a matrix we can use
    │  ├─ NotFinite                        FSVD-201  NaN or infinity
    │  ├─ NotNumeric                       FSVD-202  text, dates, objects, complex numbers
    │  ├─ RaggedRows                       FSVD-203  rows of different lengths
    │  ├─ EmptyData                        FSVD-204  no rows or no columns
    │  ├─ DuplicateNames                   FSVD-205  two columns of one name
    │  ├─ UnknownFormat                    FSVD-206  a file or object we cannot read
    │  ├─ DataChanged                      FSVD-207  the source differs from the one a checkpoint was made of
    │  ├─ RowsDiffer                       FSVD-208  parties hold different rows, or in another order
    │  ├─ RepeatedIds                      FSVD-209  row ids that occur more than once; how many
    │  ├─ ConstantData                     FSVD-210  no column of the joint table varies: there is nothing to find
    │  └─ SourceChanged                    FSVD-211  the data differs from what was approved
    ├─ NumericalError (ArithmeticError)    FSVD-300
    │  ├─ FixedPointOverflow               FSVD-301  which bound, not which value
    │  ├─ PrecisionLost                    FSVD-303  a route past its limit of accuracy
    │  ├─ NotConverged                     FSVD-304  an iteration ended before its residual was reached
    │  └─ VerificationFailed               FSVD-305  residual or orthogonality beyond its bound: nothing is released
    ├─ StorageError (OSError)              FSVD-350  disk or memory budget, damaged checkpoint
    ├─ ProtocolError                       FSVD-400
    │  ├─ LocalProtocolError               FSVD-401  we asked the machine for something illegal
    │  └─ RemoteProtocolError              FSVD-410  a peer did; carries the Abort to send
    │     ├─ UnexpectedMessage             FSVD-411  state, type, speaker
    │     ├─ RepeatedShare                 FSVD-412
    │     ├─ PlanMismatch                  FSVD-413  digests differ
    │     ├─ MalformedFrame                FSVD-414  one error for every malformed byte: no oracle
    │     ├─ PeerAborted                   FSVD-415
    │     ├─ NotSealed                     FSVD-416  a sealed message or a signature that does not verify
    │     ├─ SumAltered                    FSVD-417  the tag of a secure sum does not fit: the CSP changed the sum
    │     ├─ AnswerRefused                 FSVD-418  an answer of the CSP that no honest CSP gives; nothing was computed
    │     └─ SplitView                     FSVD-419  the users did not all receive the same results
    ├─ TransportError                      FSVD-500
    │  ├─ PeerLost                         FSVD-501
    │  ├─ TimedOut                         FSVD-502
    │  └─ NotAuthenticated                 FSVD-503
    └─ NotFittedError (ValueError, AttributeError)  FSVD-600
    PrivacyWarning (UserWarning)                     always shown
    DataWarning (UserWarning)                        the numbers will be exact, and perhaps of the wrong table
    └─ RowsNotCompared                               split columns, and nothing says that rows belong together

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
    code = "FSVD-100"


class ReleaseRefused(ConfigError):
    code = "FSVD-110"


class NoDevice(ConfigError):
    code = "FSVD-111"


class ApprovalSpent(ConfigError):
    code = "FSVD-113"


class ShapeError(FedSVDError, ValueError):
    code = "FSVD-101"


class MissingExtra(FedSVDError, ImportError):
    code = "FSVD-102"


class DataError(FedSVDError, ValueError):
    code = "FSVD-200"


class NotFinite(DataError):
    code = "FSVD-201"


class NotNumeric(DataError):
    code = "FSVD-202"


class RaggedRows(DataError):
    code = "FSVD-203"


class EmptyData(DataError):
    code = "FSVD-204"


class DuplicateNames(DataError):
    code = "FSVD-205"


class UnknownFormat(DataError):
    code = "FSVD-206"


class DataChanged(DataError):
    code = "FSVD-207"


class RowsDiffer(DataError):
    code = "FSVD-208"


class RepeatedIds(DataError):
    code = "FSVD-209"


class ConstantData(DataError):
    code = "FSVD-210"


class SourceChanged(DataError):
    code = "FSVD-211"


class NumericalError(FedSVDError, ArithmeticError):
    code = "FSVD-300"


class FixedPointOverflow(NumericalError):
    code = "FSVD-301"


class PrecisionLost(NumericalError):
    code = "FSVD-303"


class NotConverged(NumericalError):
    code = "FSVD-304"


class VerificationFailed(NumericalError):
    code = "FSVD-305"


class StorageError(FedSVDError, OSError):
    code = "FSVD-350"


class ProtocolError(FedSVDError):
    code = "FSVD-400"


class LocalProtocolError(ProtocolError):
    code = "FSVD-401"


class RemoteProtocolError(ProtocolError):
    code = "FSVD-410"


class UnexpectedMessage(RemoteProtocolError):
    code = "FSVD-411"


class RepeatedShare(RemoteProtocolError):
    code = "FSVD-412"


class PlanMismatch(RemoteProtocolError):
    code = "FSVD-413"


class MalformedFrame(RemoteProtocolError):
    code = "FSVD-414"


class PeerAborted(RemoteProtocolError):
    code = "FSVD-415"


class NotSealed(RemoteProtocolError):
    code = "FSVD-416"


class SumAltered(RemoteProtocolError):
    code = "FSVD-417"


class AnswerRefused(RemoteProtocolError):
    code = "FSVD-418"


class SplitView(RemoteProtocolError):
    code = "FSVD-419"


class TransportError(FedSVDError):
    code = "FSVD-500"


class PeerLost(TransportError):
    code = "FSVD-501"


class TimedOut(TransportError):
    code = "FSVD-502"


class NotAuthenticated(TransportError):
    code = "FSVD-503"


class NotFittedError(FedSVDError, ValueError, AttributeError):
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
