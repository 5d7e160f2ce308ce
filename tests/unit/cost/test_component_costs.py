"""Bytes and messages of every task but the plainest are those that the cost model predicts."""

import pytest
from tests.protocol.cases import CASES

from fedsvd.cost.estimate import predict

NEW = [
    "pca by a share of variance",
    "pca by parallel analysis",
    "cca",
    "cca opened by the CSP",
    "pcr",
    "pcr by likelihood",
    "preparation",
    "preparation dealt by the TA",
    "match by hashes",
    "match by blinded points",
    "lr horizontal with robust errors",
    "lr vertical with standard errors",
    "lr vertical, a ridge by generalised cross-validation",
]


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("name", NEW)
def test_what_is_sent_is_what_was_predicted(name, k):
    made = CASES[name](k)
    made.run()
    cost = predict(made.plan)
    assert cost.bytes_by_link == made.certificate.bytes_by_link
    assert cost.messages_by_link == made.certificate.messages_by_link
