"""Why a plan has its family and its mode: codes, which are hashed with the plan, and their texts, which are not.

A sentence may be reworded without any plan becoming another one. What a sentence says in numbers follows from the plan.
"""

from collections.abc import Sequence
from enum import StrEnum

from fedsvd.protocol.tasks import Task
from fedsvd.types import byte_size


class Why(StrEnum):
    """What decided the family or the mode of a plan (specification, section 1)."""

    ASKED = "asked"
    NO_MATRIX = "no-matrix"
    LONG_RECORDS = "long-records"
    LONG_SIDE = "long-side"
    SHORT_SIDE = "short-side"
    TOO_LARGE = "too-large"
    SPLIT_ROWS = "split-rows"
    PREPARATION = "preparation"
    FOREIGN = "foreign"
    COUNTED = "counted"
    ITERATIONS = "iterations"
    FEW_DIGITS = "few-digits"
    FROM_GRAM = "from-gram"
    STANDARD_ERRORS = "standard-errors"
    RIDGE_PATH = "ridge-path"
    ALL_RELEASED = "all-released"
    NOT_DETERMINED = "not-determined"
    ASKED_OPEN = "asked-open"
    BY_STEPS = "by-steps"
    MANY_FEATURES = "many-features"
    NO_SPECTRUM = "no-spectrum"
    STEPS_ENDED = "steps-ended"


TEXTS = {
    Why.ASKED: "as asked for",
    Why.NO_MATRIX: "a {task} opens no matrix",
    Why.LONG_RECORDS: "records are many",
    Why.LONG_SIDE: "the common side is long ({rows}, parties hold {width} along the other)",
    Why.SHORT_SIDE: "the common side is short ({rows}): an upload of {upload} whatever the data",
    Why.TOO_LARGE: "Gram matrices of {rows} x {rows} need more than the memory budget of {budget}",
    Why.SPLIT_ROWS: "a regression on split rows adds Gram matrices",
    Why.PREPARATION: "the parties open every sum themselves",
    Why.FOREIGN: "a foreign task adds up what it declares, and the parties open every sum themselves",
    Why.COUNTED: "the parties open their counts themselves, and no matrix",
    Why.ITERATIONS: "the parties open one Gram matrix to each iteration, and weight their rows for the next by it",
    Why.FEW_DIGITS: "the parties open the model's gradients and its information, a few digits at a time",
    Why.FROM_GRAM: "the result follows from the joint Gram matrix, so the parties open the sum themselves",
    Why.STANDARD_ERRORS: "standard errors determine the joint Gram matrix, so the parties open the sum themselves",
    Why.RIDGE_PATH: "a ridge is chosen from the joint Gram matrix, so the parties open the sum themselves",
    Why.ALL_RELEASED: "U and S are released whole, so the parties open the sum themselves",
    Why.NOT_DETERMINED: "the CSP factorises the sum under a mask, so that parties open no more than the release",
    Why.ASKED_OPEN: "as asked for: all parties will hold the joint Gram matrix",
    Why.MANY_FEATURES: "there are many features ({rows}) for the few components, and many records",
    Why.NO_SPECTRUM: "steps would be quicker, but show every party the singular values, which the release leaves out: "
    "FederatedPCA releases them unless told not to, job files and commands where told to",
    Why.STEPS_ENDED: "a search by steps, which was chosen by shape, ended without the components, and the study began "
    "again by sums",
    Why.BY_STEPS: "the parties open products with a few directions at a time, until the top is found",
}
"""Sentences for people; ``{...}`` are numbers that follow from the plan."""


def in_words(why: Sequence[Why], task: Task, rows: int, counts: Sequence[int], memory: int) -> str:
    """The reasons as one sentence; ``rows`` are those of the common side, with labels."""
    numbers = {
        "task": "prediction" if task is Task.PREDICT else "matching",
        "rows": rows,
        "width": sum(min(n_i, rows) for n_i in counts),
        "upload": byte_size(8 * rows * (rows + 1)),
        "budget": byte_size(memory),
    }
    return "; ".join(TEXTS[code].format(**numbers) for code in why)
