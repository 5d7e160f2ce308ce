"""What the CSP could learn from this plan on this data: the attacks on its view, each scored against chance."""

from collections.abc import Iterator

import numpy as np
import scipy.stats

from fedsvd.audit.attacks.alternating import WholeNumbers, alternating_ica
from fedsvd.audit.attacks.opened import columns_by_lattice, ones_from_ratios
from fedsvd.audit.attacks.score import exact_entries, score, uniformity
from fedsvd.audit.attacks.unmix import Cuts, unmixed_rows
from fedsvd.audit.attacks.view import Recorded
from fedsvd.audit.finding import Finding, Picture, Verdict, agreement_picture, null_picture, spread_picture
from fedsvd.audit.subject import Audited
from fedsvd.policy.learned import masks_are_haar
from fedsvd.protocol.messages import SumShare
from fedsvd.protocol.parties import CSP as CSP_PARTY
from fedsvd.protocol.tasks import Answer, Mode, Own
from fedsvd.types import Float

CSP = "CSP"
LEVEL = 1e-3
_CORRELATIONS = "; the scale of orthonormal bases is known, so that these are the canonical correlations"
_WIDTH = 100  # of the blocks that an attacker takes the masks for
_ITERATIONS = 50
_ROWS_SCORED = 50


def spectrum(run: Recorded) -> Finding:
    """What a plan shows the CSP by design, and by proof where there is one."""
    if run.plan.mode is Mode.A:
        return _relayed(run)
    if run.plan.mode is Mode.B:
        count, whose = run.plan.m, "the features' " if run.plan.answer is Answer.SOLUTION else ""
        text = f"ratios of {whose}{count} singular values, up to one secret factor, and shapes: proven to be all"
        if run.plan.own is Own.VARIATES:
            text += _CORRELATIONS
        if run.plan.answer is Answer.SOLUTION:
            text = text.replace("proven to be all", "of the labels, numbers that a secret vector blinds")
        return Finding(CSP, "the Gram matrix it opens", Verdict.STATED, text)
    proven = masks_are_haar(run.plan)
    rest = "proven to be all" if proven else "that this is all is tested, not proven"
    text = f"the {min(run.plan.M, run.plan.N)} singular values up to one factor in [1, 2), and shapes: {rest}"
    if run.plan.own is Own.VARIATES:
        text += _CORRELATIONS
    return Finding(CSP, "the spectrum of the masked matrix", Verdict.STATED, text)


def _relayed(run: Recorded) -> Finding:
    """Mode A: everything the CSP adds up is under pads; are its bytes uniform?"""
    words = [np.ravel(message.payload) for _, message in run.csp.received.of(CSP_PARTY, SumShare)]
    counts = np.bincount(np.frombuffer(np.concatenate(words).tobytes(), np.uint8), minlength=256)
    p = float(scipy.stats.chisquare(counts).pvalue)
    verdict = Verdict.LEAKS if p < LEVEL else Verdict.STATED
    text = f"shapes, and whether the session stopped; its {counts.sum()} bytes of sums are uniform (p {p:.2g})"
    return Finding(CSP, "the sums it adds up", verdict, text, p=p)


def of_opened_sum(run: Recorded) -> Iterator[Finding]:
    """Mode B: what an exact Gram matrix under P and c shows beyond ratios."""
    if run.plan.mode is not Mode.B:
        return
    if run.plan.answer is not Answer.SOLUTION:
        a = ones_from_ratios(run.csp)
        if a is None:
            text, verdict = "nothing: no small whole numbers have these ratios", Verdict.NOTHING
        else:
            text = f"that entries are whole numbers; if they are zeros and ones, there are {a} ones or a multiple"
            verdict = Verdict.LEAKS
        yield Finding(CSP, "whole numbers from ratios", verdict, text, "entries may be whole", figures={"a": a or 0})
    found = columns_by_lattice(run.csp)
    text = f"{found} columns of shares" if found else "no column of a share: sums are wider than they are high"
    verdict = Verdict.RECOVERED if found else Verdict.NOTHING
    yield Finding(CSP, "lattice reduction of the exact sum", verdict, text, figures={"columns": found})


def repeated_ica(subject: Audited, first: Recorded, runs: Iterator[Recorded]) -> Finding:
    """Whitened ICA on each side, over several runs with fresh masks: are its p-values uniform?"""
    b, count = _WIDTH, 0
    p: dict[str, list[float]] = {}
    for run in runs:
        for side, value in side_p_values(run.csp.Y, subject.X, b, count).items():
            p.setdefault(_side(subject, side), []).append(value)
        count += 1
    tests = {side: uniformity(np.array(values)) for side, values in p.items()}
    worst = min(tests, key=lambda side: tests[side])
    leaks = tests[worst] < LEVEL
    said = "where the energy of each lies shows through" if leaks else "no more than chance"
    learned = f"{' and '.join(tests)}, {count} runs: {said} (uniformity of p-values {tests[worst]:.2g})"
    verdict = Verdict.LEAKS if leaks else Verdict.NOTHING
    figures = {f"uniformity, {side}": value for side, value in tests.items()}
    picture = _null_of_one(subject, first, b)
    return Finding(CSP, "whitened ICA, one side", verdict, learned, f"blocks of {b}", tests[worst], figures, picture)


def _null_of_one(subject: Audited, run: Recorded, b: int) -> tuple[Picture, ...]:
    """Pictures of one run, of the side that shows records where there is one."""
    Y, X = run.csp.Y.T, subject.X.T
    if Y.shape[1] != X.shape[1]:
        return ()
    rng = np.random.default_rng(0)
    sources, _ = unmixed_rows(Y, Cuts.of_width((Y.shape[0], Y.shape[1]), b).rows, rng, 50)
    scored = score(np.abs(sources), X, draws=99, rows=50)
    name = "columns" if subject.vertical else "records"
    return (
        null_picture(f"CSP, whitened ICA: matched |correlation| of {name} against chance", scored.matched, scored.null),
        spread_picture(f"CSP, whitened ICA: each of {name}' best match", scored.best, scored.best_null),
    )


def alternating(subject: Audited, run: Recorded, include_data: bool) -> Finding:
    """The attack that breaks block masks."""
    Y, name, b = run.csp.Y, "alternating whitened ICA", _WIDTH
    cuts = Cuts.of_width((Y.shape[0], Y.shape[1]), b)
    few = subject.whole and subject.most <= 20  # rounding needs values that are few
    known = WholeNumbers(most=subject.most, passes=100) if few else None
    estimate = alternating_ica(Y, cuts, known)
    knows = f"blocks of {b}" + (", entries are whole numbers" if few else "")
    if Y.shape != subject.X.shape:
        text = "compression left no column to a record: there is nothing to recover one from"
        return Finding(CSP, name, Verdict.NOTHING, text, knows)
    return _judged(subject, estimate.found, name, knows, few, include_data)


def _judged(subject: Audited, found: Float, name: str, knows: str, few: bool, include_data: bool) -> Finding:
    scored = score(found.T, subject.X.T, draws=99, rows=50)
    figures = {"matched": scored.matched, "chance": float(scored.null.mean()), "typical": scored.typical}
    exact = exact_entries(np.clip(found, 0.0, subject.most), subject.X)[0] if few else 0.0
    shuffled = subject.X[:, np.random.default_rng(1).permutation(subject.X.shape[1])]
    chance = exact_entries(np.clip(found, 0.0, subject.most), shuffled)[0] if few else 0.0
    if few:
        figures |= {"exact": exact, "exact by chance": chance}
    above = scored.matched - figures["chance"]
    recovered = exact - chance > 0.2 or above > 0.4
    leaks = above > 0.1 or exact - chance > 0.02
    verdict = Verdict.RECOVERED if recovered else Verdict.LEAKS if leaks else Verdict.NOTHING
    text = f"records with |correlation| {scored.matched:.2f} on average, chance {figures['chance']:.2f}"
    if few:
        text += f"; {100 * exact:.1f} % of entries that are not zero exactly, chance {100 * chance:.1f} %"
    pictures = (agreement_picture("CSP, alternating ICA: recovered against true", found, subject.X, include_data),)
    return Finding(CSP, name, verdict, text, knows, scored.p, figures, pictures)


def _side(subject: Audited, side: str) -> str:
    return {"features": "rows", "records": "columns"}[side] if subject.vertical else side


def side_p_values(Y: Float, X: Float, b: int, seed: int, draws: int = 99) -> dict[str, float]:
    """One p-value to each side of one masked matrix; records alone where compression left no column to a record.

    X is (features, records), as it was before anything was done to it.
    """
    cuts = Cuts.of_width((Y.shape[0], Y.shape[1]), b)
    found = {}
    for side, Z, true, blocks in (("features", Y, X, cuts.rows), ("records", Y.T, X.T, cuts.columns)):
        if Z.shape[1] == true.shape[1]:
            sources, _ = unmixed_rows(Z, blocks, np.random.default_rng(seed), _ITERATIONS)
            found[side] = score(np.abs(sources), true, draws, seed, _ROWS_SCORED).p
    return found
