"""The vocabulary of a plan: tasks, splits, schemes, trust, and what may be released (specification, section 1)."""

from enum import StrEnum


class Task(StrEnum):
    """What is computed."""

    # The word is the name of a file in ``tasks``, where all else that is known of a task is declared.
    heading: str  # of a report
    line: str  # of its command; empty where no person asks for it by one

    def __new__(cls, word: str, heading: str = "", line: str = "") -> "Task":
        member = str.__new__(cls, word)
        member._value_, member.heading, member.line = word, heading, line
        return member

    @property
    def in_a_sentence(self) -> str:
        """The heading without a capital, but for a person's name."""
        return self.heading if self.heading.startswith("Cox") else self.heading.lower()

    SVD = "svd", "Singular value decomposition", "Singular values and vectors of the joint table"
    PCA = "pca", "Principal component analysis", "Principal components of the joint table"
    LSA = "lsa", "Latent semantic analysis", "Latent semantic analysis of the joint table"
    LR = "lr", "Linear regression", "Linear regression on the joint table"
    GLM = (
        "glm",
        "Generalised linear model",
        "Generalised linear model (logistic, Poisson, ...) on the joint table",
    )
    COX = (
        "cox",
        "Cox regression",
        "Cox's proportional hazards, stratified by site, on the joint table",
    )
    SURVIVAL = (
        "survival",
        "Survival analysis",
        "Kaplan-Meier curves by group, and the log-rank test within sites, of the joint table",
    )
    ORDINAL = (
        "ordinal",
        "Ordinal regression",
        "Ordinal regression (proportional odds) on the joint table",
    )
    DESCRIBE = "describe", "Description", "Table 1: counts, means, quartiles and tests by group, of the joint table"
    MIXED = (
        "mixed",
        "Linear mixed model",
        "Linear model with random effects of persons or clinics, on the joint table",
    )
    PROPENSITY = (
        "propensity",
        "Effect of a treatment",
        "Effect of a treatment by propensity weights: scores, balance, a weighted model, on the joint table",
    )
    PREDICT = "predict", "Prediction"
    MATCH = "match", "Record matching"  # which records all parties have, before a study on split columns
    PREPARE = "prepare", "Joint preparation of tables"  # joint numbers that tables are prepared with, before a study
    CCA = "cca", "Canonical correlation analysis", "Canonical correlations of the parties' columns"
    PCR = "pcr", "Principal component regression", "Regression on the principal components of the joint table"
    FOREIGN = "foreign", "Foreign task"  # a statistic that a person outside declared and wrote (``foreign.py``)


class Answer(StrEnum):
    """What a session ends with."""

    FACTORS = "factors"  # U and S of the joint matrix
    SOLUTION = "solution"  # coefficients
    GRAM = "gram"  # what users make of joint Gram matrices, which they open
    SUMS = "sums"  # sums that the users open, and no matrix
    SCORES = "scores"  # of new records, for the label holder
    RECORDS = "records"  # which records all users have


class Labels(StrEnum):
    """Where the labels of a study are."""

    NONE = ""
    JOINED = "joined"  # further rows below the features, where rows are split
    STACKED = "stacked"  # appended to the rows by the one user who holds them, where columns are split
    APART = "apart"  # no rows of the matrix: users weight their rows by them
    PROJECTED = "projected"  # no rows of the matrix: users add up their products with components, by steps


class Own(StrEnum):
    """What a user's own part of a result is."""

    NONE = ""
    VECTORS = "vectors"  # Vt_i
    SCORES = "scores"  # of its own records, on common components
    VARIATES = "variates"  # of its own columns, from Vt_i of an orthonormal table


class Split(StrEnum):
    """How the joint table is divided: by samples (horizontal) or by features (vertical)."""

    HORIZONTAL = "horizontal"
    VERTICAL = "vertical"


class Scheme(StrEnum):
    """The family of protocols a session follows (specification, section 1)."""

    SUM = "sum"  # exact sums of Gram matrices: the common side is short
    MASK = "mask"  # masks over the whole of both sides: the common side is long
    STEPS = "steps"  # sums of products with a few directions at a time: the common side is long, the top is asked for


PUBLISHED = "paper"
IN_THE_LAB = "the paper's scheme as published is in fedsvd-lab, and no scheme of a study"
"""What is said of a scheme that 0.2.0 had, and where it is now (ADR 0074)."""

RENAMED = {"compressed": Scheme.SUM, "mixing": Scheme.MASK, "aligned": Scheme.MASK}
"""Schemes of protocol 1, which are gone, and what took their places."""


class Mode(StrEnum):
    """Who opens the exact sum of Gram matrices (specification, section 1)."""

    A = "A"  # the users; the CSP learns the plan
    B = "B"  # the CSP, under P and c; it learns ratios of singular values


class Trust(StrEnum):
    """Who deals the masks: the users among themselves, or a Trusted Authority."""

    PEERS = "peers"
    AUTHORITY = "authority"


class Check(StrEnum):
    """What users verify of their own parts of V, beyond what the CSP verifies of U and S before it releases them."""

    NONE = "none"
    SAMPLE = "sample"  # residuals on a sample of panels; the others are not made, so the part cannot be kept
    ALL = "all"  # every panel's residual, and by one more users-only sum the orthogonality of all parts together


SAMPLED_PANELS = 16
"""How many panels of its own part a user verifies where a sample is asked for."""


class Item(StrEnum):
    """What a plan may release; the policy of every plan is explicit."""

    COMPONENTS = "components"  # U, or U_r
    SPECTRUM = "spectrum"  # S
    MEAN = "mean"
    OWN_PART = "own part"  # Vt_i, or scores, for user i alone
    COEFFICIENTS = "coefficients"
    INTERCEPT = "intercept"
    SCORE = "score"  # R^2 and MSE, for the label holder alone
    COMMON = "common records"  # which of its own records all parties have, for user i alone
    INFERENCE = "inference"  # standard errors, tests, covariance: with n and the means these are the joint Gram matrix
    ROBUST = "robust errors"  # a second covariance, from the sum of squared scores
    QUALITY = "quality"  # how well a model ranks and predicts the rows of all parties
    ROC = "roc"  # counts of their cases and controls on a grid of the linear predictor
    RIDGE_PATH = "ridge path"  # coefficients and cross-validation error of every penalty


class ComponentRule(StrEnum):
    """How many components, found from the whole spectrum; a share of the variance is a rule too, spelt as a number."""

    MLE = "mle"  # Minka's likelihood
    PARALLEL = "parallel"  # above the spectra of tables whose columns each party permuted
    GAVISH_DONOHO = "gavish-donoho"  # above the optimal hard threshold


PERMUTED_TABLES = 20
"""How many tables with permuted columns parallel analysis adds up."""


def share_in(rule: str) -> float | None:
    """The share of the variance that a rule is, between 0 and 1; None for another rule."""
    try:
        share = float(rule)
    except ValueError:
        return None
    return share if 0.0 < share < 1.0 else None


def is_rule(rule: str) -> bool:
    """Whether this text says how a number of components is found."""
    return rule in tuple(ComponentRule) or share_in(rule) is not None


class Robust(StrEnum):
    """Standard errors that do not assume equal variances."""

    HC0 = "HC0"
    HC1 = "HC1"
    HC2 = "HC2"
    HC3 = "HC3"
    CLUSTER = "cluster"


class Clusters(StrEnum):
    """Whether a name of a cluster at two parties is two clusters, each party's own, or one."""

    OWN = "own"
    JOINT = "joint"


class ChosenBy(StrEnum):
    """How a ridge is chosen: by leaving out each row, or by generalised cross-validation."""

    LOO = "loo"
    GCV = "gcv"


class Ids(StrEnum):
    """Whether rows of split columns are compared by ids, or taken to be in the same order on the study's word."""

    COMPARE = "compare"
    TRUST = "trust"


class Align(StrEnum):
    """How records of split columns are matched before a study (specification, section 9)."""

    SERVER = "server"  # the CSP compares keyed hashes: it learns sizes and overlaps
    ECDH = "ecdh"  # it compares points that all users blinded: the same, and a user has no key to try ids with


class Write(StrEnum):
    """How a party's own part (Vt_i, scores) is written where it is too large for a table: or that it is not."""

    NPY = "npy"
    PARQUET = "parquet"
    NONE = "none"


class Family(StrEnum):
    """The distribution of the target of a generalised linear model."""

    GAUSSIAN = "gaussian"
    BINOMIAL = "binomial"  # two classes, or one model per class against the rest
    POISSON = "poisson"
    GAMMA = "gamma"
    QUASIBINOMIAL = "quasibinomial"  # by quasi-likelihood: the spread beyond the family's is estimated
    QUASIPOISSON = "quasipoisson"
    MULTINOMIAL = "multinomial"
    NEGATIVE_BINOMIAL = "negative-binomial"  # counts that vary more than Poisson's
    COX = "cox"  # times to an event, stratified by site: of task cox alone
    ORDINAL = "ordinal"  # classes in an order: of task ordinal alone
    MIXED = "mixed"  # numbers in groups that have random effects: of task mixed alone
    PROPENSITY = "propensity"  # who was treated, and an outcome weighted by that: of task propensity alone


OWN_FAMILY = {task: family for task in Task for family in Family if task.value == family.value}
"""Of tasks that are one model: its family, which has the task's own word."""

FAMILIES = tuple(family for family in Family if family not in OWN_FAMILY.values())
"""Those of task glm."""

MODEL_TASKS = (Task.GLM, *OWN_FAMILY)
"""Tasks whose plan has a model (``ModelPlan``)."""


class Criterion(StrEnum):
    """By which likelihood the variances of a mixed model are found."""

    REML = "reml"
    ML = "ml"


class Estimand(StrEnum):
    """Whose effect a weighted comparison is of."""

    OVERLAP = "overlap"  # those who might have been treated or not: weights are bounded
    ATE = "ATE"  # all
    ATT = "ATT"  # the treated


class Ties(StrEnum):
    """How events at one time share a risk set of a Cox model."""

    EFRON = "efron"
    BRESLOW = "breslow"


class Counts(StrEnum):
    """How own counts are opened: rounded at home to multiples of the least count, or as they are."""

    FIVES = "fives"
    EXACT = "exact"


class Interval(StrEnum):
    """The scale on which intervals of a survival curve are symmetric."""

    LOG_LOG = "log-log"
    LOG = "log"
    PLAIN = "plain"


class Clock(StrEnum):
    """By what function of time effects of a Cox model may change, in the test of proportional hazards."""

    NONE = "none"
    KM = "km"  # 1 less the share of a site's own records that is left
    RANK = "rank"  # the place among a site's own event times
    IDENTITY = "identity"
    LOG = "log"


class Baseline(StrEnum):
    """Whose baseline hazard a Cox model has."""

    SITE = "site"  # each party its own, which stays there
    COMMON = "common"  # also one of all parties, between public times
    BINS = "bins"  # one of all parties in the place of theirs, level between public times: records of all are compared


class RankTest(StrEnum):
    """How a comparison of groups weights the times of events; survival is a site's own curve just before a time."""

    LOG_RANK = "log-rank"
    GEHAN = "gehan"  # by the number at risk
    TARONE_WARE = "tarone-ware"  # by its root
    PETO = "peto"  # by survival, as R's rho = 1
    FLEMING_HARRINGTON = "fleming-harrington"  # by survival times what is gone
    NONE = "none"


LINKS: dict[Family, tuple[str, ...]] = {
    Family.GAUSSIAN: ("identity",),
    Family.BINOMIAL: ("logit", "probit"),
    Family.POISSON: ("log",),
    Family.GAMMA: ("log",),
    Family.QUASIBINOMIAL: ("logit", "probit"),
    Family.QUASIPOISSON: ("log",),
    Family.MULTINOMIAL: ("logit",),
    Family.NEGATIVE_BINOMIAL: ("log",),
    Family.COX: ("log", "cloglog"),
    Family.ORDINAL: ("logit", "probit", "cloglog"),
    Family.MIXED: ("identity",),
    Family.PROPENSITY: ("logit", "probit"),
}
"""The links of each family, the usual one first."""
