"""The session plan: public, frozen, the same at every party; its digest stands in every message.

A plan holds no data and no secret: task, shapes, masks, release policy, identities. What both ends of a link must
agree on (widths of A_i, windows) is derived from it here, so that it cannot be derived differently.

The letters are those of the specification: the protocol runs on ``A = [A_1 ... A_k]``, ``M`` rows by ``N`` columns. For
SVD, PCA and LSA, M is m. Vertical regression puts a ridge's rows below the m samples; horizontal regression has the
labels as further rows beside the features. In the sum family A_i is the share of user i, widened to q_i columns.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property

from fedsvd.errors import ConfigError
from fedsvd.linalg.windows import WINDOW_LIMIT, Form, Window, cut_columns
from fedsvd.protocol.parties import CSP, TA, Party, user
from fedsvd.protocol.tasks import Check, Item, Mode, Scheme, Split, Task, Trust
from fedsvd.types import Digest, SessionId

PROTOCOL = 2

WIDENING = 32
"""Columns beyond half of the rows that every share has at least (specification, section 3.4)."""


@dataclass(frozen=True)
class SessionPlan:
    """What all parties of one session agree on, before anything else is said."""

    session: SessionId
    task: Task
    split: Split
    scheme: Scheme
    trust: Trust
    m: int  # rows of every X_i
    counts: tuple[int, ...]  # columns n_i of X_i, user by user
    release: tuple[Item, ...]
    components: int | None = None
    centre: bool = False  # for regression: fit an intercept
    unit_variance: bool = False
    full_matrices: bool = False
    targets: int = 0  # columns of y (regression, prediction)
    label_user: int = 0  # who holds y (vertical regression, prediction)
    alpha: float = 0.0  # ridge
    left: Form = Form.HAAR
    right: Form = Form.HAAR
    block: int = 0  # block width; 0 for each form's own
    window: int = WINDOW_LIMIT
    mode: Mode | None = None  # who opens the sum of Gram matrices; None outside the sum family
    reason: str = ""  # why this scheme and this mode, in words
    check_ids: bool = False
    check: Check = Check.NONE  # of the users' own parts
    certain_bound: bool = False  # B = c F, after an overflow of the usual bound
    memory: int = 1 << 30  # bytes a role may use for panels and batches
    identities: tuple[str, ...] = ()  # Ed25519 public keys in hex: users 1..k, then the TA where there is one
    csp_identity: str = ""  # Ed25519 public key of the CSP in hex, where it countersigns certificates
    column_names: str = ""  # digest of the names of the columns, where rows are split and parties enlisted with it
    ticket: str = ""  # job and attempt, which prekeys are signed for
    prekeys: tuple[str, ...] = ()  # of users 1..k, in hex, where a TA deals (``prekeys.py``)
    dense_masks: bool = False  # the paper without its first optimisation: P and Q whole, dealt as matrices
    whole_shares: bool = False  # the paper without its second: all of Y_i is one batch
    protocol: int = PROTOCOL

    def __post_init__(self) -> None:
        if len(self.counts) < 2:
            raise ConfigError("a federation needs at least two users", "invite another party")
        if self.m < 1 or min(self.counts) < 1:
            raise ConfigError(f"every user needs rows and columns, got m={self.m}, counts={self.counts}")
        if len(set(self.identities)) < len(self.identities):
            raise ConfigError("one identity stands for two parties", "give every party an identity of its own")
        most = min(self.m, self.n)
        if self.components is not None and not 1 <= self.components <= most:
            raise ConfigError(f"components = {self.components}", f"between 1 and {most} for {self.m} x {self.n}")

    @property
    def k(self) -> int:
        return len(self.counts)

    @property
    def n(self) -> int:
        return sum(self.counts)

    @cached_property
    def users(self) -> tuple[Party, ...]:
        return tuple(user(i) for i in range(1, self.k + 1))

    @cached_property
    def parties(self) -> tuple[Party, ...]:
        """Everybody, the CSP first."""
        return (CSP, *((TA,) if self.trust is Trust.AUTHORITY else ()), *self.users)

    @cached_property
    def digest(self) -> Digest:
        """SHA-256 of the plan in canonical JSON."""
        text = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return Digest(hashlib.sha256(b"fedsvd/plan/2\x00" + text.encode()).hexdigest())

    def identity(self, party: Party) -> bytes:
        """The public signing key this plan pins for a user or the TA."""
        return bytes.fromhex(self.identities[self.k if party == TA else party.index - 1])

    def releases(self, item: Item) -> bool:
        return item in self.release

    @property
    def compress(self) -> bool:
        """Whether every user compresses its data to a factor first: in the sum family."""
        return self.scheme is Scheme.SUM

    @property
    def planned_rank(self) -> int:
        """r: columns of U that the plan makes room for; columns beyond the rank found are zero."""
        return self.components or min(self.m, self.n)

    @property
    def relay_bytes(self) -> int:
        """The longest content that user 1 may send to all users: U and S in mode A."""
        return 8 * (self.M + 1) * self.planned_rank + 1024

    @property
    def by_rows(self) -> bool:
        """Whether the upload goes by windows of rows, not of columns."""
        return self.stacks_labels or self.tall

    @property
    def stacks_labels(self) -> bool:
        """Whether this is a regression on split columns, where labels stand beside the rows."""
        return self.task is Task.LR and self.split is Split.VERTICAL

    @cached_property
    def tall(self) -> bool:
        """Whether rows are the one long side of a matrix that memory does not hold: they stream, and so does U.

        A factor of the short side, and a window of rows, must fit. What memory holds goes by columns, where P is one
        window over all rows for as long as can be.
        """
        factors = self.task in (Task.SVD, Task.LSA, Task.PCA) and not self.full_matrices and not self.compress
        streams = factors and not self.whole_shares and self.m >= 2 * self.n
        return streams and 8 * 8 * self.n**2 <= self.memory < 8 * 6 * self.m * self.n

    @property
    def published(self) -> bool:
        """Whether this is the paper's own scheme, leaks included."""
        return self.scheme is Scheme.PAPER

    @property
    def biased(self) -> bool:
        """Whether the last user appends the paper's column of ones (C10, as published)."""
        return self.published and self.stacks_labels and self.centre

    @property
    def ridge_rows(self) -> int:
        return self.n if self.stacks_labels and self.alpha > 0 else 0

    @property
    def ridge_columns(self) -> int:
        return self.m if self.task is Task.LR and not self.stacks_labels and self.alpha > 0 else 0

    @cached_property
    def M(self) -> int:
        """Rows of A."""
        return self.m + (self.ridge_rows if self.by_rows else self.targets)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Columns of every A_i, as shared: q_i in the sum family, else as masked."""
        if self.compress:
            # Exact whole numbers of total width M + 1 or less determine the shares; any two users have M + 63.
            return tuple(max(p_i, self.M // 2 + WIDENING) for p_i in self.factor_widths)
        widths = list(self.counts)
        widths[0] += self.ridge_columns
        widths[-1] += int(self.biased)
        return tuple(widths)

    @cached_property
    def factor_widths(self) -> tuple[int, ...]:
        """Columns p_i of every local factor L_i (sum family)."""
        widths = [min(n_i, self.M) + int(self.centre) for n_i in self.counts]
        if self.ridge_columns:
            widths[0] = self.M  # user 1 folds the ridge's columns into its factor
        return tuple(widths)

    @cached_property
    def N(self) -> int:
        """Columns of A."""
        return sum(self.widths)

    @property
    def masked_rows(self) -> int:
        """Rows that P acts on: all, but for the label rows of a horizontal regression, which are blinded instead."""
        return self.M if self.by_rows else self.m

    @cached_property
    def row_windows(self) -> tuple[Window, ...]:
        """P's windows as slices of data rows and, with a ridge, of ridge rows: each takes its fraction of both."""
        groups = (self.m, self.ridge_rows) if self.ridge_rows else (self.masked_rows,)
        return cut_columns(self.left, groups, self.block, self.window)

    @cached_property
    def left_windows(self) -> tuple[slice, ...]:
        """The rows of A that P mixes among themselves."""
        return tuple(window.outputs for window in self.row_windows)

    @cached_property
    def right_windows(self) -> tuple[Window, ...]:
        """The columns of A that Q mixes among themselves."""
        return cut_columns(self.right, self.widths, self.block, self.window)

    @cached_property
    def panels(self) -> tuple[tuple[int, int], ...]:
        """The shapes of the uploaded panels: one to each window of rows, or of columns."""
        if self.by_rows:
            return tuple((rows.stop - rows.start, self.N + self.targets) for rows in self.left_windows)
        if self.whole_shares:
            return ((self.M, self.N),)
        return tuple((self.M, window.width) for window in self.right_windows)

    @property
    def smallest_window(self) -> tuple[int, int]:
        """The sides of the smallest mask window, from which the bound on an entry follows."""
        labelled = self.masked_rows < self.M  # label rows meet Q alone
        rows = 1 if labelled else min(window.stop - window.start for window in self.left_windows)
        return rows, min(window.width for window in self.right_windows)
