"""No secret shows in any ``repr``: canaries are planted in every class that holds one."""

import ast
import base64
import re
from pathlib import Path

import numpy as np
import pytest

from fedsvd.randomness.seed import Seed
from fedsvd.secagg.aggregate import RunningSum, TaggedSum, WordSum
from fedsvd.secagg.sums import SumKind

from .imports import nodes
from .secret_bearers import BEARERS, CANARY, HARMLESS, PACKAGES

PACKAGE = Path(__file__).parents[2] / "src" / "fedsvd"
# What secrets look like when an array, bytes or a key prints itself, whatever was derived from the canary.
TRACES = re.compile(r"array\(|\d\.\d{3}|\b[0-9a-f]{16}|\bb['\"]|\\x[0-9a-f]{2}|\d{10}")


def shown(text: str) -> str | None:
    """What of a secret ``text`` shows, or None."""
    encodings = [
        CANARY.decode(),
        CANARY.hex(),
        base64.b64encode(CANARY).decode(),
        base64.urlsafe_b64encode(CANARY).decode(),
        ", ".join(map(str, CANARY)),
        str(int.from_bytes(CANARY, "big")),
        str(int.from_bytes(CANARY, "little")),
    ]
    for form in encodings:
        if form.lower()[:12] in text.lower():
            return form[:12]
    found = TRACES.search(text)
    return found.group() if found else None


def classes() -> set[str]:
    """Names of the classes in the packages that handle secrets."""
    return {
        node.name
        for package in PACKAGES
        for path in (PACKAGE / package).rglob("*.py")
        for node in nodes(path.read_text(encoding="utf-8"))
        if isinstance(node, ast.ClassDef)
    }


@pytest.mark.parametrize("name", BEARERS)
def test_a_secret_bearer_shows_nothing(name):
    bearer = BEARERS[name](Seed(CANARY))
    assert type(bearer).__name__ == name
    for text in (repr(bearer), str(bearer), f"{bearer}", repr([bearer]), repr({name: bearer})):
        assert shown(text) is None


def test_every_class_of_the_secret_packages_has_been_thought_about():
    missing = classes() - set(BEARERS) - set(HARMLESS)
    assert missing == set(), "add them to BEARERS or HARMLESS in secret_bearers.py"
    assert set(BEARERS) & set(HARMLESS) == set()


def test_nothing_is_listed_that_is_gone():
    gone = (set(BEARERS) | set(HARMLESS)) - classes() - {"Reflectors"}
    assert gone == set()


def test_a_running_sum_shows_no_share():
    running = RunningSum((2, 2), 2)
    running.add(1, np.full((2, 2), 12345678901234567890, np.uint64))
    assert shown(repr(running)) is None


def test_a_running_sum_of_words_shows_neither_share_nor_tag():
    words = np.full((2, 2), 12345678901234567890, np.uint64)
    running, tagged = WordSum(2, 2), TaggedSum(SumKind.TOTAL, 2, 2)
    running.add(1, words)
    tagged.add(1, words, np.full(3, 12345678901234567890, np.uint64))
    assert shown(repr(running)) is None
    assert shown(repr(tagged)) is None


@pytest.mark.parametrize(
    "text",
    [
        repr(CANARY),
        CANARY.hex().upper(),
        base64.b64encode(CANARY).decode(),
        repr(list(CANARY)),
        repr(np.frombuffer(CANARY, np.uint8)),
        repr(np.frombuffer(CANARY, np.uint64)),
        str(np.frombuffer(CANARY, np.uint64)),
        str(np.array([[0.123456, 1.0], [2.0, 3.0]])),
        repr(bytes([200, 201, 202])),
        "Key(" + bytes(range(200, 232)).hex() + ")",
    ],
)
def test_a_planted_leak_is_noticed(text):
    assert shown(f"Leaky({text})") is not None


@pytest.mark.parametrize(
    "text", ["Seed(<redacted>)", "LeftMask(haar, m=3, windows=1)", "<Key object at 0x7f3a01b2c3d4>"]
)
def test_an_honest_repr_passes(text):
    assert shown(text) is None
