"""The release guard (docs/threat-model.md): what a plan lets others derive, and whether an owner's policy allows it.

What a task releases leaks more than any mask can hide (C12), so every plan is judged before anything is sent. Judging
needs the plan alone, no data; the sentences that show an owner what each role will learn are in ``learned.py``.
What earlier studies of a party's records forbid is in ``earlier_rules.py``.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from fedsvd.policy.asked import ASKED, in_bins
from fedsvd.policy.foreign import not_named
from fedsvd.policy.learned import full_outputs, gram_by_consent, opens_records_alone, unit
from fedsvd.policy.learned import what_each_role_learns as what_each_role_learns
from fedsvd.policy.learned_together import gram_of_rounds
from fedsvd.policy.sentences import asked_of_columns, components, freedom, freedom_in_words
from fedsvd.protocol.directions import DIRECTIONS_A_RECORD, by_share, fewer_in_words, most_directions
from fedsvd.protocol.model import WITHIN_BITS, Digits
from fedsvd.protocol.openings import opened
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.steps import What, listed
from fedsvd.protocol.tasks import Answer, Item, Scheme, Task, Trust

ALL = "all"
"""Every rule that asks, where an owner names those that it always answers with yes."""
ASK, SHARED, NOTHING = "ask", "shared", "none"
"""What a researcher gets: as the owner answers for each job, what all parties share, or nothing."""
WARN, REFUSE = "warn", "refuse"
"""What is done where joint means show that an own column may be in another unit."""
HELD, ANY = "held", "any"
"""What a study may open: as much as bits held allow (``bits_held.py``), or anything."""
_FEW_TO_PERMUTE = 10  # records whose orders can all be tried
_FEWER_FIRST = (Digits.TABLE, Digits.MORE, Digits.ALL)


@dataclass(frozen=True)
class Policy:
    """What an owner allows; a plan below it is refused where ``enforce`` is set, and warned of elsewhere.

    Examples
    --------
    Two parties with a spectrum can compute each other's Gram matrix; who asks for three refuses that:

    >>> import numpy as np
    >>> from fedsvd import FederatedSVD, Policy, Simulation
    >>> tables = np.split(np.random.default_rng(0).normal(size=(400, 4)), 2)
    >>> FederatedSVD(federation=Simulation(policy=Policy(enforce=True))).fit(tables)
    Traceback (most recent call last):
        ...
    fedsvd.errors.ReleaseRefused: FSVD-110: this plan is below the policy: ...
    >>> agreed = Policy(enforce=True, consent_to_two=True)
    >>> FederatedSVD(federation=Simulation(policy=agreed)).fit(tables).rank_
    4
    """

    parties_for_full: int = 3  # fewest parties where U and S are released
    consent_to_two: bool = False  # the owner knows what a single partner can derive, and agrees
    consent_to_gram: bool = False  # mode A may be asked for: all parties then hold the joint Gram matrix
    consent_to_columns: bool = False  # standard errors, or a ridge that is chosen, on split columns
    records_for_full: int = 100  # fewest n_i where U and S are released
    records: int = 10  # fewest n_i where U_r or coefficients are
    parties_for_clusters: int = 4  # fewest parties where errors are robust to clusters, which may be whole parties
    least_freedom: int = 10  # fewest records beyond the coefficients, n - p, where inference is released; 0: no limit
    least_class: int = 10  # fewest rows of the smallest class of a generalised linear model's target
    least_events: int = 5  # fewest of its events, or rows of the smallest class, for each coefficient
    most_components: int | None = None
    most_directions: int | None = None  # of the joint Gram matrix that may be opened on the way, scheme steps
    tasks: tuple[Task, ...] = tuple(task for task in Task if task is not Task.FOREIGN)
    foreign: Mapping[str, str] = field(default_factory=dict)  # hashes of foreign tasks that may run, by name
    schemes: tuple[Scheme, ...] = tuple(Scheme)
    least_count: int = 5  # fewest records of a level that is named, and entries behind a joint mean
    most_leverage: float = 0.5  # of one own record in opened sums; 1.0: own rows are not judged
    answered: tuple[str, ...] = ()  # rules whose questions the owner always answers with yes; "all" for every one
    remember: bool = True  # whether tables, rosters and rows of studies are remembered, and later ones compared
    least_overlap: int = 10  # fewest common records of a matching; fewer end it before any party has them
    set_growth: int = 2  # times a party's set of ids may grow over all earlier matchings with it; 0: no limit
    failed_attempts: int = 3  # that one approval covers
    digits: str = Digits.ALL  # most digits that sums of a model may have: table, more or all
    openings: str = HELD  # whether bits that are opened are judged by those that records hold
    units: str = WARN  # what is done where a column may be in another unit than at the other parties
    researcher: str = ASK  # whether the researcher who asked gets what all parties share (ADR 0069)
    enforce: bool = False
    warn: bool = True

    @classmethod
    def permissive(cls) -> "Policy":
        """Everything is allowed, and nothing is said: for tests, and for owners who have read the ledger."""
        return cls(
            parties_for_full=2,
            parties_for_clusters=2,
            consent_to_gram=True,
            consent_to_columns=True,
            records_for_full=1,
            records=1,
            least_freedom=0,
            least_class=0,
            least_events=0,
            least_count=1,
            most_leverage=1.0,
            answered=(ALL,),
            openings=ANY,
            remember=False,
            least_overlap=1,
            set_growth=0,
            warn=False,
        )


@dataclass(frozen=True)
class Finding:
    """One thing an owner should know before this plan runs; ``below`` where the policy does not allow it."""

    rule: str
    text: str
    below: bool = True
    asks: bool = False  # waits for the owner's own answer, which no --yes gives
    key: str = ""  # of the policy, where it is not the rule's usual one

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"


_KEYS = {
    "task": "tasks",
    "parties": "parties_for_full",
    "freedom": "least_freedom",
    "events": "least_events",
    "clusters": "parties_for_clusters",
    "components": "most_components",
    "mode": "consent_to_gram",
    "directions": "most_directions",
    "columns": "consent_to_columns",
    "scheme": "schemes",
    "overlap": "least_overlap",
    "digits": "digits",
    "least_count": "least_count",
    "foreign": "foreign",
}


def keys_of(found: Iterable[Finding]) -> str:
    """The keys of a policy that say otherwise, in brackets; nothing where no key does."""
    keys = dict.fromkeys(key for each in found if (key := each.key or _KEYS.get(each.rule, "")))
    return f" ({', '.join(keys)})" if keys else ""


def settled(found: Iterable[Finding], policy: Policy) -> tuple[Finding, ...]:
    """Findings with those asks answered that the owner answers once for all: they are shown, and wait for nothing."""
    agreed = policy.answered
    return tuple(
        replace(each, asks=False) if each.asks and (ALL in agreed or each.rule in agreed) else each for each in found
    )


def findings(plan: SessionPlan, policy: Policy) -> tuple[Finding, ...]:
    """Everything in this plan that the policy does not allow, and what an owner should know of it."""
    return (
        *_task(plan, policy),
        *_parties(plan, policy),
        *_records(plan, policy),
        *_freedom(plan, policy),
        *_clusters(plan, policy),
        *_events(plan, policy),
        *_digits(plan, policy),
        *_within(plan, policy),
        *_components(plan, policy),
        *_mode(plan, policy),
        *_directions(plan, policy),
        *_columns(plan, policy),
        *_authority(plan),
        *_scheme(plan, policy),
        *_overlap(plan, policy),
        *_counts(plan, policy),
        *_always_asked(plan),
        *_foreign(plan, policy),
    )


def _counts(plan: SessionPlan, policy: Policy) -> Iterator[Finding]:
    """Small counts: a level that few records have is nearly a name, a mean of few entries is them."""
    units = [step.step for step in listed(plan.steps) if step.what in (What.FIVES, What.ROC) and step.step > 1]
    if units and min(units) < policy.least_count:
        rounded = f"counts are rounded to multiples of {min(units)}, {policy.least_count} is asked for"
        yield Finding("least_count", f"{rounded}: a step between two edges could hold fewer records")
    if not opened(plan) & {What.PREPARED, What.DECLARED, What.TABLE}:
        return
    if What.PREPARED in opened(plan) and plan.least_count < policy.least_count:
        least = f"from {plan.least_count} records on, {policy.least_count} are asked for"
        yield Finding("least_count", f"levels are named, and means taken, {least}: set minimum under [prepare]")
    fewest = 2 if policy.consent_to_two else policy.parties_for_full
    if plan.k < fewest and not full_outputs(plan):
        yield Finding("parties", f"joint numbers go to {plan.k} parties, {fewest} are asked for: each has the others'")


def _always_asked(plan: SessionPlan) -> Iterator[Finding]:
    """What no dictionary has agreed to, whatever the data: a person decides."""
    for step in listed(plan.steps):
        if step.what in ASKED:
            rule, text = ASKED[step.what]
            yield Finding(rule, text(step), below=False, asks=True)
    if plan.glm is not None and plan.glm.bins:
        yield Finding(*in_bins(plan.glm.bins), below=False, asks=True)


def _task(plan: SessionPlan, policy: Policy) -> Iterator[Finding]:
    if plan.task not in policy.tasks and plan.foreign is None:
        allowed = ", ".join(policy.tasks) or "none"
        yield Finding("task", f"the task {plan.task} is not among those allowed ({allowed})")


def _foreign(plan: SessionPlan, policy: Policy) -> Iterator[Finding]:
    """A task that is not fedsvd's own runs code of another author on the owner's table: the owner names it first."""
    if plan.foreign is not None and plan.foreign.name not in policy.foreign:
        yield Finding("foreign", not_named(plan.foreign.name))


def _parties(plan: SessionPlan, policy: Policy) -> Iterator[Finding]:
    fewest = 2 if policy.consent_to_two else policy.parties_for_full
    if not full_outputs(plan) or plan.k >= fewest:
        return
    r, most = components(plan), min(plan.m, plan.n)
    how = "exactly" if r == most or What.GRAM in opened(plan) else f"in the top {r} of {most} directions"
    how = f"in at most {most_directions(plan)} directions" if What.PRODUCTS in opened(plan) else how
    if plan.k == 2:
        derived = f"either can compute the other's Gram matrix ({plan.m} x {plan.m}) {how}, and often its records"
    else:
        derived = f"each can compute the sum of the other {plan.k - 1} Gram matrices {how}"
    what = "U and S" if plan.releases(Item.SPECTRUM) else f"{r} of {most} columns of U, as good as U and S here,"
    if What.GRAM in opened(plan) and not plan.releases(Item.SPECTRUM):
        what = "all entries of the joint Gram matrix"
    if What.INFORMATION in opened(plan):
        what = "gradients and information of the model"
        whose = (
            "either can compute the other's" if plan.k == 2 else f"each can compute the sum of the other {plan.k - 1}"
        )
        derived = f"{whose} in the digits that are opened"
    if What.CANONICAL in opened(plan):
        what = f"the first {r} canonical variables"
        whose = "either can compute the other's" if plan.k == 2 else "each can compute the sum of the others'"
        derived = f"{whose} scores of every record on them"
    yield Finding("parties", f"{what} go to {plan.k} parties, {fewest} are asked for: {derived}")


def _records(plan: SessionPlan, policy: Policy) -> Iterator[Finding]:
    if opens_records_alone(plan):
        return
    full, fewest = _for_full(plan), fewest_records(plan, policy)
    for index, n_i in enumerate(plan.counts, start=1):
        if n_i >= fewest:
            continue
        if of_few := _derived_of_few(plan, n_i):
            derived = of_few
        elif n_i == 1 and full:
            who = "the other party" if plan.k == 2 else "the others, who may pool what they hold,"
            derived = f"{who} can compute it up to its sign"
        elif n_i == 1:
            derived = "what is released says nearly as much of it as of the federation"
        else:
            derived = f"single {unit(plan)} can stand out in what is released"
        text = f"party {index} brings {n_i} {unit(plan, n_i)}, {fewest} are asked for: {derived}"
        yield Finding("records", text, key="records_for_full" if full else "records")


def fewest_records(plan: SessionPlan, policy: Policy) -> int:
    """How many records of each party are asked for."""
    return policy.records_for_full if _for_full(plan) else policy.records


def _for_full(plan: SessionPlan) -> bool:
    # As many canonical variables as the narrowest table has columns span all of these.
    spans = components(plan) >= min(plan.counts)
    return spans if What.CANONICAL in opened(plan) else full_outputs(plan)


def _derived_of_few(plan: SessionPlan, n_i: int) -> str:
    """What others compute of a party with so few records, or columns; nothing special in most studies."""
    if n_i == 1 and What.CANONICAL in opened(plan):
        return "its scores are this column, but for mean and scale"
    if What.PERMUTED in opened(plan) and n_i < _FEW_TO_PERMUTE:
        return "the Gram matrices of its permuted columns can give the values of each column away"
    return ""


def _freedom(plan: SessionPlan, policy: Policy) -> Iterator[Finding]:
    canonical = What.CANONICAL in opened(plan)
    judged = plan.releases(Item.INFERENCE) or canonical
    if not judged or not policy.least_freedom or freedom(plan) >= policy.least_freedom:
        return
    derived = "there is no error to estimate, and the fit is the labels themselves"
    if canonical:
        derived = "with none, correlations are 1 whatever the data, and the common variables are one party's columns"
    elif freedom(plan) > 0:
        derived = "who knows the features of all records knows the labels but for so many numbers"
    yield Finding("freedom", f"{freedom_in_words(plan)}, {policy.least_freedom} are asked for: {derived}")


def _events(plan: SessionPlan, policy: Policy) -> Iterator[Finding]:
    """How many events there are is found in the session: the plan says below how many it ends, and that is judged."""
    about = plan.glm
    if about is None or not about.counts_outcomes:
        return
    if about.least_class < policy.least_class or about.least_events < policy.least_events:
        yield Finding(
            "events",
            f"the session goes on with classes of {about.least_class} rows and {about.least_events} events for each "
            f"coefficient, {policy.least_class} and {policy.least_events} are asked for: a model of fewer follows "
            "single records",
        )


def _digits(plan: SessionPlan, policy: Policy) -> Iterator[Finding]:
    """More digits say more of single records; the plan says how many a model, a regression table or a search takes."""
    digits, of = (plan.digits, "the search") if plan.scheme is Scheme.STEPS else (plan.sum_digits, "the model")
    if digits is not None and _FEWER_FIRST.index(digits) > _FEWER_FIRST.index(Digits(policy.digits)):
        yield Finding(
            "digits",
            f'sums of {of} have the digits of digits = "{digits}", "{policy.digits}" is the most that is '
            f'allowed: more of them say more of single records. Researchers can set digits = "{policy.digits}"',
        )


def _within(plan: SessionPlan, policy: Policy) -> Iterator[Finding]:
    """Totals of what parties compare at home have their digits in the step."""
    bits = [step.step for step in listed(plan.steps) if step.what is What.WITHIN]
    if bits and max(bits) > WITHIN_BITS[Digits.TABLE] and Digits(policy.digits) is Digits.TABLE:
        yield Finding(
            "digits",
            f'totals of comparisons within sites have {max(bits)} bits, digits = "table" is the most that is allowed: '
            f"{WITHIN_BITS[Digits.TABLE]} bits",
        )


def _clusters(plan: SessionPlan, policy: Policy) -> Iterator[Finding]:
    if What.COUNT not in opened(plan) or plan.k >= policy.parties_for_clusters:
        return
    yield Finding(
        "clusters",
        f"errors that are robust to clusters go to {plan.k} parties, {policy.parties_for_clusters} are asked for: "
        "where all rows of a party are one cluster, three parties compute each other's sums of scores, X_i^T e_i",
    )


def _components(plan: SessionPlan, policy: Policy) -> Iterator[Finding]:
    counted = {What.VECTORS, What.CANONICAL, What.COMPONENTS} & opened(plan)
    if not counted or policy.most_components is None:
        return
    r = components(plan)
    if r > policy.most_components:
        most = "up to " if by_share(plan) else ""
        yield Finding("components", f"{most}{r} components are released, {policy.most_components} are allowed at most")


def _mode(plan: SessionPlan, policy: Policy) -> Iterator[Finding]:
    if not gram_by_consent(plan) or policy.consent_to_gram:
        return
    agrees = "an owner who agrees writes consent_to_gram = true into policy.toml"
    if What.COMPONENTS in opened(plan):
        yield Finding(
            "mode",
            f"a regression on components is asked for: all parties will hold the joint Gram matrix of features and "
            f"labels ({plan.M} x {plan.M}), which a few components do not determine; {agrees}",
        )
    elif plan.answer is Answer.GRAM:
        yield Finding(
            "mode",
            f"{plan.task.in_a_sentence} is asked for: all parties will hold the joint Gram matrix ({plan.M} x "
            f"{plan.M}), from which it follows; {agrees}",
        )
    elif What.PREPARED in opened(plan):
        text = f"low-rank imputation is asked for: all parties will see {gram_of_rounds(plan)} of the columns; {agrees}"
        yield Finding("mode", f'{text}, and missing = "mean" does without it')
    elif plan.alphas:
        yield Finding(
            "mode",
            f"a ridge is chosen among {len(plan.alphas)}: all parties will hold the joint Gram matrix "
            f"({plan.M} x {plan.M}), which one ridge does not determine; {agrees}, and one study for each alpha in "
            'mode = "B" shows it to no party',
        )
    elif plan.releases(Item.INFERENCE):
        yield Finding(
            "mode",
            f"inference is asked for: all parties will hold the joint Gram matrix ({plan.M} x {plan.M}), and a ridge "
            f"leaves no standard errors to compute from it; {agrees}, and without inference a study gives the same "
            "coefficients without it",
        )
    else:
        gives = "which the release does not determine"
        if What.VECTORS in opened(plan) and plan.releases(Item.SPECTRUM):
            # As the sentences on U and S say it, which stand on the same screen.
            gives = f"of which the release gives the top {components(plan)} of {min(plan.m, plan.n)} directions"
        yield Finding(
            "mode",
            f'mode = "A" is asked for: all parties will hold the joint Gram matrix ({plan.M} x {plan.M}), {gives}; '
            f'{agrees}, and mode = "B" gives the same result without it',
        )


def _directions(plan: SessionPlan, policy: Policy) -> Iterator[Finding]:
    """Half as many directions as others have records are half of their Gram matrix: that is asked for as all of it."""
    if What.PRODUCTS not in opened(plan):
        return
    most, outside, of = most_directions(plan), plan.n - max(plan.counts), unit(plan)
    if policy.most_directions is not None and most > policy.most_directions:
        allowed = f"{policy.most_directions} are allowed at most"
        yield Finding("directions", f"up to {most} directions of the joint Gram matrix are opened, {allowed}")
    if most > DIRECTIONS_A_RECORD * outside and not policy.consent_to_gram:
        yield Finding(
            "directions",
            f"all parties may see the joint Gram matrix in {most} directions, and there are {outside} {of} outside "
            f"of the largest party: up to half as many directions as {of} are fine; an owner who agrees writes "
            f"consent_to_gram = true into policy.toml, and {fewer_in_words(DIRECTIONS_A_RECORD * outside, plan.m)}",
        )


def _columns(plan: SessionPlan, policy: Policy) -> Iterator[Finding]:
    asked = asked_of_columns(plan)
    if asked and not policy.consent_to_columns:
        yield Finding("columns", asked)


def _authority(plan: SessionPlan) -> Iterator[Finding]:
    if plan.trust is Trust.AUTHORITY and plan.scheme in (Scheme.SUM, Scheme.STEPS):
        yield Finding(
            "authority",
            f"a trusted authority adds nothing in the {plan.scheme} family: what opens the parties' sums is dealt "
            "among the parties, and it never has it",
            below=False,
        )


def _scheme(plan: SessionPlan, policy: Policy) -> Iterator[Finding]:
    if plan.scheme not in policy.schemes and not opens_records_alone(plan):
        allowed = ", ".join(policy.schemes) or "none"
        agreed = ", ".join(f'"{scheme}"' for scheme in (*policy.schemes, plan.scheme))
        yield Finding(
            "scheme",
            f"the scheme {plan.scheme} is not among those allowed ({allowed}); if you agree to what it shows, write "
            f"schemes = [{agreed}] into policy.toml",
        )


def _overlap(plan: SessionPlan, policy: Policy) -> Iterator[Finding]:
    if What.RECORDS not in opened(plan) or plan.least_overlap >= policy.least_overlap:
        return
    yield Finding(
        "overlap",
        f"a matching goes on from {plan.least_overlap} common records, {policy.least_overlap} are asked for: from few "
        "common records a party can tell who of a short list of guesses another party knows",
    )
