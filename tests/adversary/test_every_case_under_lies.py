"""Every task, family and mode under a CSP that alters one message: right, or stopped with a code at every user.

``test_a_lying_csp`` draws tables of its own for a dozen studies; here are all small federations of the protocol tests,
with their tables of standard errors, chosen ridges, robust errors, preparations and matchings, and every number that a
user ends with is compared, those of nested tables too.

Next to alterations drawn at random, two aimed ones in every case that has such a message: an answer, or a matrix that
is split, of which one user gets another copy than the others.
"""

import warnings
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from tests.adversary.test_a_lying_csp import Victim
from tests.protocol.cases import CASES, LEAST

from fedsvd.errors import FedSVDError, PrivacyWarning
from fedsvd.protocol.messages import Aborted, FactorRows, Factors, Solution, SumReply
from fedsvd.protocol.shared import INVERSE, VECTORS
from fedsvd.testing.federation import altering


def attacked(tries, first=0):
    """How many alterations ended with which code, over all cases in turn, two and three users."""
    warnings.simplefilter("ignore", PrivacyWarning)
    names = list(CASES)
    found: Counter[str | None] = Counter()
    for place in range(first, first + min(tries, 2 * len(names))):
        name, k = names[place % len(names)], 2 + place // len(names) % 2
        victim = Victim(name, CASES[name](k))
        for seed in range(place, first + tries, 2 * len(names)):
            _, code, _ = victim.lied_to(seed)
            found[code] += 1
    return found


def test_one_altered_message_of_every_case_ends_right_or_with_a_code():
    found = attacked(len(CASES))
    assert found.total() == len(CASES)
    assert found[None] < len(CASES) // 3


@pytest.mark.slow
def test_twenty_eight_hundred_altered_messages_of_all_cases_end_right_or_with_a_code():
    found = attacked(2800)
    assert found.total() == 2800
    assert {"FSVD-305", "FSVD-411", "FSVD-413", "FSVD-416", "FSVD-417", "FSVD-418"} <= set(found)


def another_answer(said):
    """The first number that is not zero, a little larger: too little for any check of its structure."""
    name = "w_masked" if isinstance(said, Solution) else "U_masked"
    changed = getattr(said, name).copy()
    if not changed.any():
        return [said]
    changed.flat[int(np.argmax(changed != 0))] *= 1.0 + 2.0**-49
    return [replace(said, **{name: changed})]


def another_share(said: SumReply):
    if said.name not in (INVERSE, VECTORS):
        return [said]
    payload = said.payload.copy()
    payload[-1, 0] += np.uint64(1)
    return [replace(said, payload=payload)]


AIMED = {**dict.fromkeys((Factors, FactorRows, Solution), another_answer), SumReply: another_share}


def aimed_at(session, kind, victim):
    """How a session ends of which one user gets another copy; None where the lie was never told."""
    told = []

    def lie(said):
        altered = AIMED[kind](said)
        told.extend(altered if altered[0] is not said else ())
        return altered

    code = None
    try:
        session.run(meddle=altering(kind, lie, to=victim))
    except FedSVDError as error:
        code = error.code
    stops = {(m.code, m.stage) for _, _, m in session.sent if isinstance(m, Aborted)}
    return (code, stops, bool(session.released)) if told else None


@pytest.mark.parametrize(
    ("names", "k", "each"),
    [
        pytest.param(list(LEAST), 2, 1, id="least"),
        pytest.param(list(CASES), 2, 2, id="all", marks=pytest.mark.full),
        pytest.param(list(CASES), 3, 2, id="all of three users", marks=pytest.mark.slow),
    ],
)
def test_a_copy_for_one_user_alone_ends_every_case_alike_for_each_of_them(names, k, each):
    """In 0.2.0 the code of the stop depended on the data of the user whose copy it was."""
    warnings.simplefilter("ignore", PrivacyWarning)
    aimed: Counter[type] = Counter()
    for name in names:
        session = CASES[name](k)
        session.run()
        for kind in AIMED:
            found = [aimed_at(session, kind, victim) for victim in session.plan.users]
            if not any(found):
                continue
            aimed[kind] += 1
            for ended in found:
                assert ended is not None, (name, kind)
                code, stops, released = ended
                assert (code, released) == ("FSVD-419", False), (name, kind, code)
                assert {stage for stopped, stage in stops if stopped == "FSVD-419"} == {"comparing"}, (name, kind)
            assert all(ended[1] == found[0][1] for ended in found), (name, kind)
    assert min(aimed.values()) >= each
    assert set(aimed) == set(AIMED)
