"""What a curious user, or colluders, could learn from this plan on this data: party 1 attacks, party 2 is you."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import scipy.stats

from fedsvd.audit.attacks.alternating import WholeNumbers
from fedsvd.audit.attacks.binary import binary_columns
from fedsvd.audit.attacks.collusion import csp_and_user
from fedsvd.audit.attacks.opened import joint_gram
from fedsvd.audit.attacks.outputs import (
    Candidates,
    difference,
    gram_from_components,
    membership,
    others_gram,
    others_mean,
    others_scores,
    own_part,
    records_from_gram,
)
from fedsvd.audit.attacks.score import correlations, exact_entries, gap, score
from fedsvd.audit.attacks.view import Recorded, UserView
from fedsvd.audit.finding import Finding, Verdict, agreement_picture, null_picture
from fedsvd.audit.subject import Audited
from fedsvd.policy.learned import unit
from fedsvd.protocol.tasks import Answer, Item, Mode, Own, Scheme
from fedsvd.types import Float

USER, POOL = "a curious party", "CSP and a party (outside the model)"
_EXACT = 1e-6
_LIKE = 0.9


def from_results(subject: Audited, run: Recorded, include_data: bool) -> Iterator[Finding]:
    """Everything a party can try with what it holds at the end."""
    if run.plan.own is Own.VARIATES:
        yield _scores(run, subject)
        return
    if run.plan.joins_labels and run.plan.mode is Mode.A:
        whose = "yours" if run.plan.k == 2 else f"the sum of {run.plan.k - 1} others'"
        text = f"it opens the sum: the joint Gram matrix of features and labels, hence {whose}"
        verdict = Verdict.STATED if run.plan.k > 2 else Verdict.LEAKS
        yield Finding(USER, "the sum it opens", verdict, text, "its own table")
        return
    if not run.plan.factors:
        text = "its own coefficients and the intercept; of the others' columns nothing beyond that"
        yield Finding(USER, "its own results", Verdict.STATED, text)
        return
    view = run.user(1, subject.X_i(1))
    gram, finding = _gram(subject, view)
    yield finding
    if gram is not None:
        yield _records(subject, gram, _others(subject, view), include_data)
    if run.plan.centre:
        yield _mean(subject, view)
    if subject.vertical:
        yield _binary(subject, view)
    elif len(subject.strangers) >= 10:
        yield _membership(subject, view)


def _others(subject: Audited, view: UserView) -> Float:
    """The joint matrix of all parties but the first, as the study took it."""
    others = range(2, len(subject.tables) + 1)
    return np.concatenate([own_part(UserView(view.plan, i, subject.X_i(i), view.held)) for i in others], axis=1)


def _scores(run: Recorded, subject: Audited) -> Finding:
    """CCA: the others' scores of every record, from the common variables less one's own."""
    found = others_scores(run.user(1, subject.X_i(1)))
    true = np.sum([held.scores for held in run.parties[1:]], axis=0)
    error, r = gap(found, true), found.shape[1]
    whose = "your scores" if run.plan.k == 2 else f"the sum of {run.plan.k - 1} others' scores"
    text = f"{whose} of every record on {r} canonical variables: relative error {error:.1e}"
    if run.plan.k == 2 and r >= run.plan.counts[1]:
        text += "; they span the space of your columns"
    verdict = Verdict.LEAKS if run.plan.k == 2 else Verdict.STATED
    return Finding(USER, "scores from common variables", verdict, text, "its own table", figures={"error": error})


def _gram(subject: Audited, view: UserView) -> tuple[Float | None, Finding]:
    """The others' Gram matrix from U and S, or from U_r alone."""
    others = _others(subject, view)
    true, whose = others @ others.T, "yours" if view.plan.k == 2 else f"the sum of {view.plan.k - 1} others'"
    if view.plan.releases(Item.SPECTRUM):
        name, found = "Gram matrix from U and S", others_gram(view)
    else:
        name, found = "Gram matrix from components", gram_from_components(view.held.U, own_part(view))
    error = gap(found, true)
    exact = error < _EXACT
    text = f"the Gram matrix, {whose}: relative error {error:.1e}"
    verdict = Verdict.NOTHING if error > 0.5 else Verdict.STATED if exact and view.plan.k > 2 else Verdict.LEAKS
    finding = Finding(USER, name, verdict, text, "its own table", figures={"error": error})
    return (found if exact else None), finding


def _records(subject: Audited, gram: Float, true: Float, include_data: bool) -> Finding:
    """The records behind the others' Gram matrix, by ICA."""
    few = subject.whole and subject.most <= 20 and subject.study.about.own is not Own.SCORES
    known = WholeNumbers(most=subject.most) if few else None
    count = true.shape[1]
    if count >= len(gram):
        text = f"{count} of them behind a matrix of {len(gram)} x {len(gram)}: no single one stands out"
        return Finding(USER, "records from results, by ICA", Verdict.NOTHING, text, "its own table")
    found = records_from_gram(gram, count, known)
    table = correlations(found.T, true.T)
    alike = float(np.mean(table.max(axis=0) > _LIKE))
    scored = score(found.T, true.T, draws=99, rows=50)
    best = table.argmax(axis=0)
    ordered = found[:, best]
    exact = exact_entries(ordered, true)[0] if few else 0.0
    records = "columns" if subject.vertical else "records"
    text = f"{100 * alike:.0f} % of the others' {count} {records} with a correlation above {_LIKE}"
    text += f"; {100 * exact:.1f} % of their entries that are not zero exactly" if few else ""
    verdict = Verdict.RECOVERED if alike > 0.1 else Verdict.LEAKS if scored.p <= 0.01 else Verdict.NOTHING
    figures = {"alike": alike, "matched": scored.matched, "chance": float(scored.null.mean()), "exact": exact}
    pictures = (
        agreement_picture("a curious party: records recovered from U and S", ordered, true, include_data),
        null_picture(f"a curious party: matched |correlation| of {records}", scored.matched, scored.null),
    )
    return Finding(USER, "records from results, by ICA", verdict, text, "its own table", scored.p, figures, pictures)


def _mean(subject: Audited, view: UserView) -> Finding:
    parts = [subject.X_i(i) for i in range(2, len(subject.tables) + 1)]
    error = gap(others_mean(view), np.concatenate(parts, axis=1).mean(axis=1))
    whose = "yours" if view.plan.k == 2 else "that of all others together"
    text = f"the mean of every feature, {whose}: relative error {error:.1e}"
    return Finding(USER, "the joint mean less its own", Verdict.STATED, text, "its own table", figures={"error": error})


def _binary(subject: Audited, view: UserView) -> Finding:
    """Columns of zeros and ones, found in the span of U whichever party holds them."""
    found = binary_columns(view.held.U)
    theirs = np.concatenate([subject.X_i(i) for i in range(2, len(subject.tables) + 1)], axis=1).T
    there = int(np.sum([np.isin(column, (0.0, 1.0)).all() for column in theirs]))
    right = sum(any(np.array_equal(column, each) for each in theirs) for column in found)
    text = f"{right} of the others' {there} {unit(view.plan)} of zeros and ones, exactly"
    verdict = Verdict.RECOVERED if right else Verdict.NOTHING
    return Finding(USER, "binary columns in the span of U", verdict, text, "nothing", figures={"found": right})


def _membership(subject: Audited, view: UserView) -> Finding:
    """Whether a person took part: your records against records that took none."""
    members, strangers = subject.tables[1], subject.strangers
    likely = membership(view, Candidates(np.concatenate((members, strangers)).T))
    inside, outside = likely[: len(members)], likely[len(members) :]
    test = scipy.stats.mannwhitneyu(inside, outside, alternative="greater")
    area = float(test.statistic) / (len(inside) * len(outside))
    verdict = Verdict.LEAKS if test.pvalue < 1e-3 and area > 0.6 else Verdict.NOTHING
    text = f"whether a record it knows took part: area under the curve {area:.2f} (a guess: 0.50)"
    knows = "the records it asks about"
    return Finding(USER, "membership from components", verdict, text, knows, float(test.pvalue), {"area": area})


def from_two_runs(subject: Audited, run: Recorded) -> Iterator[Finding]:
    """The study once more with one record of yours left out; the default policy refuses such a run."""
    full = run.plan.own is Own.VECTORS and subject.study.components is None
    if not full or subject.vertical or len(subject.tables[1]) < 3:
        return
    less = [subject.tables[0], subject.tables[1][:-1], *subject.tables[2:]]
    record = subject.tables[1][-1]
    before = subject.run(91, less).user(1, subject.X_i(1))
    found = difference(before, run.user(1, subject.X_i(1)))
    error = min(gap(found, record), gap(-found, record)) if np.any(record) else 0.0
    verdict = Verdict.RECOVERED if error < 1e-3 else Verdict.NOTHING
    text = f"the record in which two runs differ: relative error {error:.1e}; the policy refuses the second run"
    yield Finding(USER, "two runs that differ by one record", verdict, text, "both results", figures={"error": error})


def of_colluders(subject: Audited, run: Recorded, include_data: bool) -> Iterator[Finding]:
    """The CSP with what party 1 knows, against you."""
    if run.plan.answer is Answer.SOLUTION:
        return
    if run.plan.mode is not None:
        yield from _of_opened_sum(subject, run, include_data)
        return
    A_2 = csp_and_user(run.csp, run.masks[0], 1)
    true = subject.X_i(2)
    if run.plan.own is not Own.VECTORS:
        held = run.parties[1]
        true = own_part(UserView(run.plan, 2, true, held))
    error = gap(_in_unit(A_2 @ A_2.T, true @ true.T), true @ true.T)
    what = f"your Gram matrix, and no more of your {unit(run.plan)} than any rotation shows"
    text = f"{what} (relative error {error:.1e})"
    yield Finding(POOL, "all masks taken off", Verdict.STATED, text, "P, Q and c", figures={"error": error})


def _of_opened_sum(subject: Audited, run: Recorded, include_data: bool) -> Iterator[Finding]:
    """The joint Gram matrix less party 1's own: yours where there are two parties, else a sum with yours in it."""
    view = run.user(1, subject.X_i(1))
    whose = "yours" if run.plan.k == 2 else f"the sum of {run.plan.k - 1} others', and no other division of it"
    if run.plan.mode is Mode.A:
        where = " in the directions opened" if run.plan.scheme is Scheme.STEPS else ""
        text = f"nothing more than party 1 alone, which opens the sum and has the Gram matrix{where}, {whose}"
        yield Finding(POOL, "the opened sum less its own", Verdict.STATED, text, "the joint Gram matrix")
        return
    others, own = _others(subject, view), own_part(view)
    true = others @ others.T
    joint = joint_gram(run.csp, run.masks[0])
    found = _in_unit(joint, true + own @ own.T) - own @ own.T
    error = gap(found, true)
    text = f"the Gram matrix, {whose}: relative error {error:.1e}"
    verdict = Verdict.STATED if run.plan.k > 2 else Verdict.LEAKS
    yield Finding(POOL, "the opened sum less its own", verdict, text, "P and c", figures={"error": error})
    if error < _EXACT:
        yield replace(_records(subject, found, others, include_data), role=POOL)


def _in_unit(found: Float, true: Float) -> Float:
    """In the unit, a power of two, that every user has and the record of a session does not."""
    ratio = float(np.trace(true) / np.trace(found))
    return found * 2.0 ** np.rint(np.log2(ratio)) if ratio > 0.0 else found
