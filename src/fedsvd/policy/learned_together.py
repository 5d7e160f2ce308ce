"""Who can compute what from the sessions before a study: the ledger's lines for preparations and matchings."""

from collections.abc import Iterator

from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Align, Trust

_ROUND = "low rank, round "
_STEPS = {
    "joint counts": (
        "Every party learns of each level of the dictionary, of gaps, and of values off the commonest one, how many "
        "records have it at all parties together, each party adding five at most."
    ),
    "rare": (
        "Every party learns which of these one to four records have outside of some party: they are joined with "
        "others, left out, or end the study. Not outside of which party."
    ),
    "levels of ": (
        "Every party learns how many levels column {name} has, how often each occurs at all parties together and at "
        "how many of them; of a level whose text it guesses, which numbers are those. Not which party has it."
    ),
    "names of ": (
        "Every party learns the texts of those levels of column {name} that two parties and {least} records or more "
        "have; the rest is 'other'."
    ),
    "totals and counts": (
        "Every party learns the joint mean of each column of numbers, how many of its entries are missing at all "
        "parties together, and the number of records."
    ),
    "squares of entries": "Every party learns the joint deviation of each column of numbers.",
    _ROUND: (
        "Every party sees, round by round, {gram}, of the tables with their gaps filled so far, in standard "
        "deviations, sixteen bits of what it moved by; what is stored is that of the last round. Rows whose gaps fewer "
        "than {least} rows of their party share are filled with means, and move nothing."
    ),
    "means for ": "Every party learns the joint mean of each prepared column.",
    "products for ComBat": (
        "Every party learns how the preserved covariates go together with each column within the sites, all sites "
        "together; no site's own effect."
    ),
    "squares for ComBat": "Every party learns the variance of each column within the sites, all sites together.",
    "products of covariates": "Every party learns the joint products of the covariates with each column.",
    "squares for scaling": "Every party learns the joint deviation of each prepared column.",
}

_COUNTED = ("joint counts", "rare")


def gram_of_rounds(plan: SessionPlan) -> str:
    """What rounds of low-rank imputation open of the joint Gram matrix: all of it, or products with directions."""
    m = next((step.size for step in plan.steps if step.name == "squares of entries"), 0)
    rounds = [step.size for step in plan.steps if step.name.startswith(_ROUND)]
    gram = f"the joint Gram matrix ({m} x {m})"
    if not rounds or rounds[0] >= m * (m + 1) // 2:
        return gram
    directions = rounds[0] // m
    return f"{gram} in {directions} directions a round, at most {min(m, directions * len(rounds))} in all"


def prepared_together(plan: SessionPlan) -> Iterator[str]:
    """What each role learns from a preparation, each sentence once."""
    shapes = f"{plan.k} parties, {plan.joint_table}"
    yield (
        f"The CSP learns the shapes ({shapes}), how the tables are prepared, and whether the session was stopped; "
        "nothing of the data: no level, no count, no mean."
    )
    told = []
    for step in plan.steps:
        for begins, text in _STEPS.items():
            if step.name == begins or (begins not in _COUNTED and step.name.startswith(begins)):
                name = repr(step.name.removeprefix(begins))
                told.append(text.format(name=name, least=plan.least_count, gram=gram_of_rounds(plan)))
    yield from dict.fromkeys(told)
    if plan.k == 2 and all(step.name in _COUNTED for step in plan.steps):
        yield (
            "With two parties, each learns of which levels the other has 1 to 4 records; where rare levels are joined, "
            "also of which the other has fewer than five."
        )
    elif plan.k == 2:
        yield "With two parties, each can compute the other's own of these numbers: its means, counts and levels."
    else:
        yield f"{plan.k - 1} parties that pool what they hold can compute the last one's own of these numbers."
    yield "Two runs whose inputs differ by one record can give that record to every party."
    if plan.trust is Trust.AUTHORITY:
        yield "The trusted authority sees shapes and keys; it adds nothing to this session."
    yield (
        "The CSP and a party that pool what they see learn what that party learns; lying together, they can alter "
        "totals."
    )


def matched(plan: SessionPlan) -> Iterator[str]:
    """What a matching of records shows to whom (specification, section 9)."""
    sizes = ", ".join(f"party {i} has {count}" for i, count in enumerate(plan.counts, start=1))
    yield f"The CSP and every party learn how many records each party brings: {sizes}."
    if plan.align is Align.SERVER:
        yield (
            "The CSP sees a keyed hash of every id, sorted, whose key the parties alone have: how many records any of "
            "the sets share; no id, and not the order of any table."
        )
        yield "The CSP together with any one party (outside the model) could look up guessed ids in every set."
    else:
        yield (
            "The CSP compares points that all parties have blinded, in an order that says nothing of any table: it "
            "learns how many records any of the sets share; no id, for it has no party's factor."
        )
        yield (
            "The CSP together with a party that deviates (outside the model) could find, of each id that this party "
            "brings, which of the others have it."
        )
    yield "Every party learns which of its own records all parties have, and so how many; of other records nothing."
    yield (
        "A party that brings guessed ids learns of each whether all others have it. How many ids each brings is in "
        "this plan, and every party commits to its set before any answer."
    )
    if plan.least_overlap > 1:
        yield f"Where fewer than {plan.least_overlap} records are common the session ends, and no party learns which."
