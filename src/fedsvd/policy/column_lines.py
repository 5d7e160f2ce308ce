"""What a regression on split columns shows: sentences of the ledger, and the rule that asks an owner's consent.

``learned.py`` puts them together with the lines of all other tasks, ``rules.py`` with its rules.
"""

from collections.abc import Iterator

from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.shared import shares_inverse, shares_vectors


def regression_on_columns(plan: SessionPlan, freedom: str) -> Iterator[str]:
    """Who gets what of a regression on split columns; ``freedom`` is n - p in words."""
    yield "Each party alone gets the coefficients of its own columns; all get the intercept."
    if plan.weighted:
        yield "Every party has the weights of all rows: the parties compare that theirs are equal."
    yield "Every party learns the magnitude of the labels' spread, and of the others' coefficients plus a secret."
    yield "Where rank is lost, every party learns which part of what cannot be separated lies with the others."
    if shares_inverse(plan):
        yield (
            "Each party alone gets the standard errors, tests and covariances of its own coefficients. Every party "
            "gets the error of the intercept, the residual and the total sum of squares of the labels (sigma, R2, F, "
            f"the likelihood), and the condition of the joint columns. {freedom}."
        )
        yield of_others(plan)
    if shares_vectors(plan):
        yield (
            f"Party {plan.label_user}, who holds the labels, alone gets the {plan.N} singular values of the joint "
            "columns and how much of the labels lies along each singular vector; no party gets the vectors."
        )
        yield (
            f"Every party gets the error of all {len(plan.alphas)} penalties, and how much of the chosen coefficients "
            "lies along each singular vector. Each alone gets its own coefficients, of the chosen penalty and of none."
        )


def of_others(plan: SessionPlan) -> str:
    """What a party can compute of the others' columns from its own standard errors."""
    seen = "From its standard errors each party can compute how its columns correlate with the others'"
    alone = [i for i, n_i in enumerate(plan.counts, start=1) if plan.n - n_i == 1]
    if alone:
        who = ", ".join(f"party {i}" for i in alone)
        return f"{seen}: {who}, with its one partner's one column, up to a sign, column by column."
    return f"{seen}, all taken together: the canonical correlations, and with which of its own columns."


def asked_of_columns(plan: SessionPlan) -> str:
    """What an owner consents to where the parties of split columns share a matrix of the CSP; empty where not."""
    agrees = "an owner who agrees writes consent_to_columns = true into policy.toml"
    if shares_inverse(plan):
        return (
            "standard errors on split columns are asked for: from its own each party can compute how its columns "
            f"correlate with all others' together; {agrees}, and without inference a study gives the same coefficients"
        )
    if shares_vectors(plan):
        return (
            f"a ridge is chosen among {len(plan.alphas)} on split columns: party {plan.label_user} will hold the "
            f"singular values of the joint columns and how the labels lie along them; {agrees}, and one study for each "
            "alpha shows them to no party"
        )
    return ""
