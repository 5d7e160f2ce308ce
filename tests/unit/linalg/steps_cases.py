"""Block Golub-Kahan steps played by parties in one process: sums in the clear, each party with arithmetic of its own.

Every party has its own rounding: its products, and the sums as it holds them, are off by ``jitter`` of their own.
The first party leads; ``lie`` may change what it sends. What the parties add up carries noise as in a session.
"""

import numpy as np

from fedsvd.linalg.golub_kahan import TOLERANCE, Space, refused, start_block
from fedsvd.linalg.joint_blocks import PASSES, Block, least_column
from fedsvd.linalg.verdicts import Outlook, Search, Verdict, Wanted, decided, expect_verdict

N, M = 120, 400


def orthonormal(rows, columns, seed):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(rows, columns)))[0]


def of_spectrum(values, n=N, m=M):
    """(n, m), with these singular values."""
    s = np.zeros(min(n, m))
    s[: len(values)] = values
    return (orthonormal(n, len(s), 1) * s) @ orthonormal(m, len(s), 2).T


def noise(n=N, m=M):
    return np.random.default_rng(3).normal(size=(n, m))


def factors(n=N, m=M):
    rng = np.random.default_rng(4)
    return rng.normal(size=(n, 15)) @ rng.normal(size=(15, m)) + rng.normal(size=(n, m))


SPECTRA = {
    "factors": (factors, 6),
    "noise": (noise, 2),
    "log to 1e-16": (lambda: of_spectrum(np.logspace(0, -16, 20)), 20),
    "log to 1e-14": (lambda: of_spectrum(np.logspace(0, -14, 40)), 30),
    **{f"one of 1e{e}": (lambda e=e: of_spectrum([10.0**e, *np.linspace(2, 1, N - 1)]), 6) for e in (8, 10, 12, 13)},
    "rank 5": (lambda: of_spectrum([5, 4, 3, 2, 1]), 10),
    "equal": (lambda: of_spectrum([3, 3, 2, 2, 1, 1, *[0.5] * (N - 6)]), 6),
    "multiplicity 40": (lambda: of_spectrum([2.0] * 40 + [1.0] * (N - 40)), 10),
    "1/j^2": (lambda: of_spectrum(1.0 / np.arange(1.0, N + 1) ** 2), 10),
    "three records": (lambda: noise(3), 2),
    "twenty features": (lambda: noise(N, 20), 10),
}


class Played:
    """What came of it: vectors, values, left vectors at home, and counts."""

    def __init__(self, V, s, u, steps, directions, restarts, starts):
        self.V, self.s, self.u, self.steps, self.directions = V, s, u, steps, directions
        self.restarts, self.starts = restarts, starts


def play(
    parts, r, *, jitter=0.0, lie=None, seed=0, tolerance=TOLERANCE, most=200, first=0, widest=0, on=None, share=0.0
):
    """The top r of all parts, (n_i, m) each, from ``first`` directions, in a basis of at most ``widest``.

    With a ``share`` of all squares r are the most that are wanted. ``on`` puts a party's space on a machine of its own.
    """
    k, m, n = len(parts), parts[0].shape[1], sum(map(len, parts))
    rngs = [np.random.default_rng((seed, i)) for i in range(k)]

    def off(i, A):
        return A * (1.0 + jitter * rngs[i].uniform(-1.0, 1.0, A.shape)) if jitter else A

    def summed(own, size):
        total = np.sum([np.asarray(a, np.longdouble) for a in own], axis=0)
        noise = size * np.sum([rng.uniform(-1.0, 1.0, np.shape(own[0])) for rng in rngs], axis=0)
        return np.asarray(total + noise, float)

    def sent(what, value):
        return value if lie is None else lie(what, value)

    normal = np.random.default_rng(seed).normal
    width, first = min(r + 8, m), min(first or r + 8, r + 8, m)
    normals, later = normal(size=(m, first)), min(r, first)
    spaces = [Space(start_block(off(i, normals))) for i in range(k)]
    spaces = spaces if on is None else [on(space, i) for i, space in enumerate(spaces)]
    F = np.sqrt(sum(np.sum(x**2) for x in parts))
    U, s1 = [np.zeros((len(x), 0)) for x in parts], F
    lead, steps, search, said, restarts = spaces[0], [], Search(first, width), Verdict.AFRESH, 0
    wanted, outlook = Wanted(r, share * F**2, tolerance), Outlook()
    for step in range(most):
        W = [off(i, x @ spaces[i].block - U[i] @ spaces[i].before()) for i, x in enumerate(parts)]
        energies = np.maximum(summed([(w * w).sum(axis=0) for w in W], 0.0), 0.0)
        blocks = [Block(energies, least_column(s1, lead.block.shape[1])) for _ in parts]
        W = [w * blocks[0].scale for w in W]
        for _ in range(PASSES):
            C = summed([np.concatenate((u.T @ w, w.T @ w)) for u, w in zip(U, W, strict=True)], 2.0**-54)
            done = blocks[0].done(C)
            root = sent("root", blocks[0].propose(C))
            for i in range(1, k):
                blocks[i].expect(off(i, C) if not done else C, root, done)
            d = len(C) - blocks[0].width
            W = [off(i, (w if done else w - u @ C[:d]) @ root) for i, (w, u) in enumerate(zip(W, U, strict=True))]
            for block in blocks:
                block.take(root)
            if done:
                break
        if not done:
            raise refused()
        search = search.seen(lead.block.shape[1], W[0].shape[1]) if said is Verdict.AFRESH else search
        Z = summed([off(i, x.T @ w) for i, (x, w) in enumerate(zip(parts, W, strict=True))], F * 2.0**-57)
        U = [np.concatenate((u, w), axis=1) for u, w in zip(U, W, strict=True)]
        spaces = [space.added(off(i, Z)) for i, space in enumerate(spaces)]
        lead, directions = spaces[0], spaces[0].count
        full = 0 < widest < directions + later
        ritz, exactly = [None] * k, widest // 2 if full else r - wanted.least
        if search.due(directions, wanted.least) or full:
            ritz = [space.ritz(r, n, exactly) for space in spaces]
            s1, search = ritz[0].top, search.at(directions)
        elif step >= search.until and outlook.ends(step, tolerance):  # the leader looks alone
            ritz[0] = lead.ritz(r, n, exactly)
        if ritz[0] is not None:
            outlook = outlook.after(step, ritz[0].residual(wanted.count(ritz[0].s)))
        steps.append(s1)
        N = np.zeros((m, 0))
        if decided(search, step, lead, ritz[0], wanted) is not Verdict.FOUND:
            N = sent("directions", lead.propose_directions(s1))
            for space in spaces[1:]:
                space.expect_directions(N, s1)
        larger = [space.kept(N) for space in spaces]
        said = Verdict(sent("verdict", decided(search, step, larger[0], ritz[0], wanted)))
        if said in (Verdict.FOUND, Verdict.AFRESH):
            ritz = [space.ritz(r, n, exactly) if own is None else own for space, own in zip(spaces, ritz, strict=True)]
        for space, own in zip(larger[1:], ritz[1:], strict=True):
            expect_verdict(said, search, step, space, own, wanted)
        if said in (Verdict.FOUND, Verdict.INVARIANT):
            break
        if said is Verdict.GO_ON:
            leads = ritz[0] if step >= search.until else None
            open_ones = r if leads is None else wanted.count(leads.s)
            c = sent("mixture", larger[0].propose_mixture(leads, open_ones, tolerance, later))
            for space in larger[1:]:
                space.expect_mixture(c, later)
            spaces = [space.onward(c) for space in larger]
        else:
            normals = normal(size=(m, later))
            spaces = [space.afresh(off(i, normals)) for i, space in enumerate(larger)]
            search = search.afresh(step)
        if full:
            p, y, g = sent("restart", spaces[0].propose_restart(ritz[0], widest // 2))
            for space, own in zip(spaces[1:], ritz[1:], strict=True):
                space.expect_restart(p, y, g, own, widest // 2)
            spaces = [space.restarted(p, y, g) for space in spaces]
            U, restarts = [off(i, u @ p) for i, u in enumerate(U)], restarts + 1
            search = search.at(spaces[0].count)
        lead = spaces[0]
    ritz = [space.ritz(r, n, r) if own is None else own for space, own in zip(spaces, ritz, strict=True)]
    V, s, p = lead.answer(ritz[0], min(wanted.count(ritz[0].s), r))
    V, s, p = sent("answer", (V, s, p))
    for space, own in zip(spaces[1:], ritz[1:], strict=True):
        space.expect_answer(V, s, p, own, wanted.range(own.s), tolerance if said is Verdict.FOUND else np.inf)
    return Played(V, s, [u @ p for u in U], len(steps), lead.seen, restarts, search.starts)
