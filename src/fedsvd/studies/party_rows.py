"""Some of a party's rows, in some order, with all that goes with them: labels, ids, weights, clusters."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedsvd.errors import ConfigError
from fedsvd.studies.parties import PartyData
from fedsvd.types import Float


def without_zero_weights(party: PartyData) -> PartyData:
    """A party without its rows of weight 0, which say nothing."""
    weights = party.row_weights
    return party if weights is None or weights.ndim != 1 else _present(party, weights)


def without_zero_label_weights(party: PartyData) -> PartyData:
    """The same where weights are the last column of the labels, as a generalised linear model has them."""
    return party if party.labels is None else _present(party, party.labels[:, -1])


def _present(party: PartyData, weights: Float) -> PartyData:
    if not np.any(weights == 0.0):
        return party
    present = np.flatnonzero(weights)
    if not len(present):
        fault = "Sample weights must contain at least one non-zero number, and all rows of a party have weight 0"
        raise ConfigError(fault, "leave the party out")
    return some_rows(party, present)


def some_rows(party: PartyData, rows: NDArray[np.int64]) -> PartyData:
    """These rows of a party, with all that goes with them."""
    return replace(
        party,
        table=party.table.reordered(rows),
        labels=None if party.labels is None else party.labels[rows],
        ids=None if party.ids is None else party.ids[rows],
        row_weights=None if party.row_weights is None else party.row_weights[rows],
        clusters=None if party.clusters is None else party.clusters[rows],
    )
