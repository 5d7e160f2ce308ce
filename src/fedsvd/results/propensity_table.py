"""The effect of a treatment among results: the weighted model, the model of who was treated, and the balance."""

from dataclasses import replace

import numpy as np

from fedsvd.protocol.outputs import CLASS
from fedsvd.results.folder import Table
from fedsvd.results.model_table import effect_tables
from fedsvd.results.outputs import Values
from fedsvd.results.result import PartyResult
from fedsvd.roles.user.propensity import PropensityResult
from fedsvd.statistics.model_table import values
from fedsvd.statistics.propensity import Balance, balance_of
from fedsvd.statistics.undefined import is_array


def effect(to: PartyResult, computed: PropensityResult, tables: bool) -> Values:
    """What all parties get."""
    (model,), treated, found = computed.models, computed.treated, computed.balance
    assert treated is not None
    assert found is not None
    found = replace(found, names=tuple(to.feature_names(to.plan.m)))
    arrays = {"coefficients": computed.coefficients, "intercept": computed.intercept}
    arrays["estimates"] = model.coefficients[None, :]
    for name, matrix in (("covariance", model.covariance), ("naive_covariance", model.naive)):
        if matrix is not None and is_array(matrix):
            arrays[name] = matrix[None]
    covariance = treated.covariance
    scores = {
        **values(treated),
        "terms": treated.terms(found.names),
        "coefficients": treated.coefficients.tolist(),
        "covariance": covariance.tolist() if is_array(covariance) else None,
    }
    facts = {"models": [{**values(model), "intercept": model.intercept}], "classes": [], "balance": found.record()}
    facts["propensity_model"] = scores
    shown: tuple[Table, ...] = ()
    if tables:
        shown = (*effect_tables(to, model), Table("balance", found.columns()))
    return Values(arrays, facts, shown, {"models": (model,), "balance": found})


def own_weights(to: PartyResult, computed: PropensityResult) -> Values:
    """A party's own scores and weights, which no other has."""
    labels = {"score, weight": ("score", "weight"), CLASS: to.targets}
    return Values(
        {"propensity": np.asarray(computed.own["propensity"])}, {"own_weights": computed.own_weights}, labels=labels
    )


def balance(result: PartyResult) -> Balance:
    """The balance of a result, as it was computed or as its folder has it."""
    kept = result.objects.get("balance")
    found = kept if isinstance(kept, Balance) else balance_of(result.facts["balance"])
    return replace(found, names=tuple(result.feature_names(result.plan.m)))
