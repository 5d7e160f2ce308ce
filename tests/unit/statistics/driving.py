"""Plays the parties of a fit: each answers from its own rows, and the driver receives only the joint sum."""

import numpy as np

from fedsvd.statistics.irls import Answer, Proposal

PARTIES = 3


def shares(n: int) -> list[np.ndarray]:
    """The rows of three parties of different sizes."""
    return np.split(np.arange(n), [n // 6, n // 2])


def drive(generator, contribute, n: int):
    """The result of a fit, and the requests it made; ``contribute(request, rows)`` is a party's own part."""
    requests = []
    request = next(generator)
    while True:
        if isinstance(request, Proposal):
            assert request.accepts(request.numbers)
            answer = request.numbers
        else:
            requests.append(request)
            answer = joint_answer(request, [contribute(request, rows) for rows in shares(n)])
        try:
            request = generator.send(answer)
        except StopIteration as end:
            return end.value, requests


def joint_answer(request, parts) -> Answer:
    """The joint sum: a square factor in place of the stacked rows, which no one has in a study."""
    factor = np.linalg.qr(np.concatenate([part.rows for part in parts]), mode="r") if request.gram else None
    sums = np.sum([part.totals for part in parts], axis=0)
    return Answer(factor, dict(zip(request.totals, map(float, sums), strict=True)))
