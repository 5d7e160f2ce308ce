"""The session plan: public, frozen, the same at every party; its digest stands in every message.

A plan holds no data and no secret: task, shapes, masks, release policy, identities. What both ends of a link must
agree on (widths of A_i, panels of the upload) is derived from it here, so that it cannot be derived differently.

The symbols are those of the specification: the protocol runs on ``A = [A_1 ... A_k]``, ``M`` rows by ``N`` columns. For
SVD, PCA and LSA, M is m. Vertical regression puts a ridge's rows below the m samples; horizontal regression has the
labels as further rows below the features. In the sum family A_i is the share of user i, widened to q_i columns.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property

from fedsvd.errors import ConfigError
from fedsvd.linalg.widen import width
from fedsvd.linalg.windows import Form, block_width, panels_of_rows
from fedsvd.protocol.foreign import ForeignPlan
from fedsvd.protocol.model import FEW, Digits, ModelPlan
from fedsvd.protocol.parties import CSP, TA, Party, user
from fedsvd.protocol.reasons import Why, in_words
from fedsvd.protocol.steps import PlannedStep
from fedsvd.protocol.table import TablePlan
from fedsvd.protocol.tasks import (
    Align,
    Answer,
    Check,
    ComponentRule,
    Item,
    Labels,
    Mode,
    Own,
    Scheme,
    Split,
    Task,
    Trust,
)
from fedsvd.types import Digest, Scalar, SessionId

PROTOCOL = 3
MOST_REFINED = 1024
"""Features up to which a regression's table is refined: beyond, the transform to send would be as long as the data."""


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
    answer: Answer  # what the session ends with
    labels: Labels  # where they are
    own: Own  # what a user's own part is
    components: int | None = None
    components_by: str = ""  # the rule by which users take some at home, once all of U and S are known
    centre: bool = False  # for regression: fit an intercept
    unit_variance: bool = False
    targets: int = 0  # columns of y (regression, prediction)
    label_user: int = 0  # who holds y (vertical regression, prediction)
    alpha: float = 0.0  # ridge
    alphas: tuple[float, ...] = ()  # penalties to choose among, where a ridge is found by cross-validation
    chosen_by: str = ""  # how: "loo" (each row left out) or "gcv" (generalised cross-validation)
    weighted: bool = False  # rows have weights, which stay with their owners
    robust: str = ""  # standard errors that do not assume equal variances: "HC0" .. "HC3" or "cluster"
    digits: Digits = Digits.ALL  # of the sums of a regression table on split rows
    left: Form = Form.HAAR
    right: Form = Form.HAAR
    block: int = 0  # block width; 0 for each form's own
    mode: Mode | None = None  # who opens the sum of Gram matrices; None outside the sum family
    why: tuple[Why, ...] = ()  # why this scheme and this mode, in codes
    check_ids: bool = False
    trust_rows: bool = False  # the study says that rows of split columns are in the same order: ids = "trust"
    align: Align | None = None  # how records are matched: by this session, or by one before it
    id_rule: str = ""  # how ids are normalised before they are matched: columns and codes, as JSON
    least_overlap: int = 0  # fewer common records than this end a matching before any user has them
    check: Check = Check.NONE  # of the users' own parts
    certain_bound: bool = False  # B = c F, after an overflow of the usual bound
    glm: ModelPlan | None = None  # what a generalised linear model is, for its task
    table: TablePlan | None = None  # what a description is of, for its task
    memory: int = 1 << 30  # bytes a role may use for panels and batches
    identities: tuple[str, ...] = ()  # Ed25519 public keys in hex: users 1..k, then the TA where there is one
    csp_identity: str = ""  # Ed25519 public key of the CSP in hex, where it countersigns certificates
    column_names: str = ""  # digest of the names of the columns, where rows are split and parties enlisted with it
    job: str = ""  # digest of the job file, its submitter, members and number (``asked.py``)
    earlier: tuple[str, ...] = ()  # digests of the jobs to which parties brought these tables before
    ticket: str = ""  # job and attempt, which prekeys are signed for
    prekeys: tuple[str, ...] = ()  # of users 1..k, in hex, where a TA deals (``keys.py``)
    steps: tuple[PlannedStep, ...] = ()  # what is played, in order (``steps.py``)
    options: tuple[tuple[str, Scalar], ...] = ()  # of the task, for its script alone (ADR 0063)
    foreign: ForeignPlan | None = None  # what a foreign task declares, for its task
    least_count: int = 0  # of a preparation: rarer levels are pooled, and no mean of fewer entries is taken
    protocol: int = PROTOCOL

    def __post_init__(self) -> None:
        if len(self.counts) < 2:
            raise ConfigError("a federation needs at least two users", "invite another party")
        if self.m < 1 or min(self.counts) < 1:
            common, theirs = self.table_words
            fault = f"every party needs rows and columns, got {self.m} {common} and {list(self.counts)} {theirs}"
            raise ConfigError(fault, "give every party a table with both")
        if (self.glm is not None) != (self.labels is Labels.APART):
            raise ConfigError("a plan of another task than its model", "plan it again")
        if self.matches and self.align is None:
            raise ConfigError("a matching without a way to match", f"align is one of {', '.join(Align)}")
        if len(set(self.identities)) < len(self.identities):
            raise ConfigError("one identity stands for two parties", "give every party an identity of its own")
        most = min(self.m, self.n)
        if self.components is not None and not 1 <= self.components <= most:
            raise ConfigError(f"components = {self.components}", f"between 1 and {most} for {self.joint_table}")

    @cached_property
    def k(self) -> int:
        return len(self.counts)

    @cached_property
    def n(self) -> int:
        return sum(self.counts)

    @cached_property
    def table_words(self) -> tuple[str, str]:
        """What m and the counts are in the tables as their owners have them."""
        return ("rows", "columns") if self.split is Split.VERTICAL else ("columns", "rows")

    @cached_property
    def joint_table(self) -> str:
        """The shape of the joint table as its owners have it: all records in rows."""
        rows, columns = (self.m, self.n) if self.split is Split.VERTICAL else (self.n, self.m)
        return f"a joint table of {rows} rows and {columns} columns"

    @cached_property
    def users(self) -> tuple[Party, ...]:
        return tuple(user(i) for i in range(1, self.k + 1))

    @cached_property
    def parties(self) -> tuple[Party, ...]:
        """All parties, the CSP first."""
        return (CSP, *((TA,) if self.trust is Trust.AUTHORITY else ()), *self.users)

    @cached_property
    def digest(self) -> Digest:
        """SHA-256 of the plan in canonical JSON."""
        text = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return Digest(hashlib.sha256(b"fedsvd/plan/3\x00" + text.encode()).hexdigest())

    @cached_property
    def reason(self) -> str:
        """Why this scheme and this mode, in words that no digest contains."""
        return in_words(self.why, self.task, self.m + self.targets, self.counts, self.memory)

    def identity(self, party: Party) -> bytes:
        """The public signing key this plan pins for a user or the TA."""
        return bytes.fromhex(self.identities[self.k if party == TA else party.index - 1])

    @cached_property
    def few_digits(self) -> bool:
        """Whether a model's sums open a few digits at a time, and no Gram matrix in all of its own."""
        return self.sum_digits in FEW

    @cached_property
    def sum_digits(self) -> Digits | None:
        """The digits of a model's sums, or of those of a regression table on split rows; None for all other studies."""
        if self.glm is not None:
            return self.glm.digits
        table = self.joins_labels and self.answer is Answer.SOLUTION and self.releases(Item.INFERENCE)
        return self.digits if table else None

    def releases(self, item: Item) -> bool:
        return item in self.release

    def option(self, key: str) -> Scalar:
        """The value of an option that is the script's alone."""
        return dict(self.options)[key]

    @cached_property
    def compress(self) -> bool:
        """Whether every user compresses its data to a factor first: in the sum family."""
        return self.scheme is Scheme.SUM

    @cached_property
    def planned_rank(self) -> int:
        """r: columns of U that the plan has space for; columns beyond the rank found are zero."""
        return self.components or min(self.m, self.n)

    @cached_property
    def rows_unchecked(self) -> bool:
        """Whether rows of split columns belong together by position alone, without the study's word that they do."""
        return self.split is Split.VERTICAL and not (self.check_ids or self.trust_rows)

    @cached_property
    def by_rows(self) -> bool:
        """Whether there is an upload by rows of X': in the mask family."""
        return self.scheme is Scheme.MASK

    @cached_property
    def reads_rows(self) -> bool:
        """Whether users read their data in panels of rows: where columns, or what they are compared with, are long."""
        return self.stacks_labels or self.tall

    @cached_property
    def stacks_labels(self) -> bool:
        """Whether this is a regression on split columns, where labels are appended to the rows."""
        return self.labels is Labels.STACKED

    @cached_property
    def labels_apart(self) -> bool:
        """Whether labels are no rows of X_i: users hold them in memory, next to what is read in panels."""
        return self.labels in (Labels.STACKED, Labels.APART, Labels.PROJECTED)

    @cached_property
    def adds_labels(self) -> bool:
        """Whether sums of the users' labels with their features are opened, of a linear model on split rows."""
        return self.labels in (Labels.JOINED, Labels.PROJECTED)

    @cached_property
    def matches(self) -> bool:
        """Whether this session matches records: its counts are the sizes of the users' sets, and m is 1."""
        return self.answer is Answer.RECORDS

    @cached_property
    def opens_nothing(self) -> bool:
        """Whether no matrix is added up or uploaded: predictions and matchings."""
        return self.answer in (Answer.SCORES, Answer.RECORDS)

    @cached_property
    def factors(self) -> bool:
        """Whether the CSP is asked for U and S."""
        return self.answer is Answer.FACTORS

    @cached_property
    def joins_labels(self) -> bool:
        """Whether labels are further rows below the features: a regression on split rows."""
        return self.labels is Labels.JOINED

    @cached_property
    def own_vectors(self) -> bool:
        """Whether users make right singular vectors of their own."""
        return self.own in (Own.VECTORS, Own.VARIATES) and self.releases(Item.OWN_PART)

    @cached_property
    def permutes(self) -> bool:
        """Whether users add up tables whose columns they permuted (parallel analysis)."""
        return self.components_by == ComponentRule.PARALLEL

    @cached_property
    def challenges(self) -> bool:
        """Whether the CSP's solution is checked by a product under P (specification, step 7)."""
        return self.stacks_labels and self.scheme is Scheme.MASK

    @cached_property
    def tall(self) -> bool:
        """Whether X' does not fit the memory budget, so that rows stream, and U' is fetched in panels of rows."""
        return self.factors and self.by_rows and self.memory < 8 * 4 * self.M * self.N

    @cached_property
    def refines(self) -> bool:
        """Whether users may correct what float64 loses of an ill-conditioned table (specification, step 8)."""
        exact = self.releases(Item.INFERENCE) and self.answer is Answer.SOLUTION and self.mode is Mode.A
        return exact and self.alpha == 0.0 and not self.alphas and self.m <= MOST_REFINED

    @cached_property
    def answer_numbers(self) -> int:
        """Numbers in user 1's answer to a regression in mode A: w and its rank, and what more the plan has."""
        w = self.m * self.targets + 1
        transform = 1 + self.targets + self.m * (self.m + 1) // 2  # whether, exponents, T
        return w + int(bool(self.alphas)) + (transform if self.refines else 0)

    @cached_property
    def ridge_rows(self) -> int:
        return self.n if self.stacks_labels and self.alpha > 0 else 0

    @cached_property
    def ridge_columns(self) -> int:
        return self.m if self.joins_labels and self.alpha > 0 else 0

    @cached_property
    def M(self) -> int:
        """Rows of A; of a model by iterations, its coefficients and the working target."""
        if self.glm is not None:
            return self.glm.coefficients(self.m, self.centre) + 1
        if self.labels is Labels.PROJECTED:
            return self.m
        return self.m + (self.ridge_rows if self.stacks_labels else self.targets)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Columns of every A_i, as shared: q_i in the sum family, else as masked."""
        if self.compress:
            # Exact whole numbers of total width M + 1 or less determine the shares; any two users have M + 63.
            return tuple(width(self.M, p_i) for p_i in self.factor_widths)
        return self.counts

    @cached_property
    def factor_widths(self) -> tuple[int, ...]:
        """Columns p_i of every local factor L_i (sum family)."""
        if self.glm is not None:
            return tuple(min(self.glm.equations * n_i, self.M) for n_i in self.counts)
        widths = [min(n_i, self.M) + int(self.centre) for n_i in self.counts]
        if self.ridge_columns:
            widths[0] = self.M  # user 1 folds the ridge's columns into its factor
        return tuple(widths)

    @cached_property
    def N(self) -> int:
        """Columns of A."""
        return sum(self.widths)

    @cached_property
    def masked_rows(self) -> int:
        """Rows that P acts on: all, but for the label rows of a horizontal regression, which are blinded instead."""
        return self.M if self.stacks_labels else self.m

    @cached_property
    def row_panels(self) -> tuple[slice, ...]:
        """The rows of X' that go up together: whole blocks of P's last round, as memory allows.

        How many go together changes nothing of what P mixes.
        """
        together = block_width(self.block) if self.left is Form.MIXING else 1
        return panels_of_rows(self.M, together, self.N + self.targets, self.memory)

    @cached_property
    def batch_memory(self) -> int:
        """Bytes for all users' batches as they come: a quarter of the budget, as panels and their factor need space."""
        return max(self.memory // 4, 1)

    @cached_property
    def panels(self) -> tuple[tuple[int, int], ...]:
        """The shapes of the uploaded panels of rows."""
        return tuple((rows.stop - rows.start, self.N + self.targets) for rows in self.row_panels)
