"""NIST's Statistical Reference Datasets for linear regression that the tests use, and the certified values."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from statsmodels.datasets import longley


@dataclass(frozen=True)
class Certified:
    """Features without the constant, the target, and what NIST computed with 500 digits and printed 15 of."""

    X: np.ndarray
    y: np.ndarray
    coefficients: tuple[float, ...]
    errors: tuple[float, ...]
    sigma: float
    r2: float
    f: float | None


FILIP_Y = (
    "0.8116 0.9072 0.9052 0.9039 0.8053 0.8377 0.8667 0.8809 0.7975 0.8162 0.8515 0.8766 0.8885 0.8859 0.8959 0.8913 "
    "0.8959 0.8971 0.9021 0.909 0.9139 0.9199 0.8692 0.8872 0.89 0.891 0.8977 0.9035 0.9078 0.7675 0.7705 0.7713 "
    "0.7736 0.7775 0.7841 0.7971 0.8329 0.8641 0.8804 0.7668 0.7633 0.7678 0.7697 0.77 0.7749 0.7796 0.7897 0.8131 "
    "0.8498 0.8741 0.8061 0.846 0.8751 0.8856 0.8919 0.8934 0.894 0.8957 0.9047 0.9129 0.9209 0.9219 0.7739 0.7681 "
    "0.7665 0.7703 0.7702 0.7761 0.7809 0.7961 0.8253 0.8602 0.8809 0.8301 0.8664 0.8834 0.8898 0.8964 0.8963 0.9074 "
    "0.9119 0.9228"
)
FILIP_X = (
    "-6.860120914 -4.324130045 -4.358625055 -4.358426747 -6.955852379 -6.661145254 -6.355462942 -6.118102026 "
    "-7.115148017 -6.815308569 -6.519993057 -6.204119983 -5.853871964 -6.109523091 -5.79832982 -5.482672118 "
    "-5.171791386 -4.851705903 -4.517126416 -4.143573228 -3.709075441 -3.499489089 -6.300769497 -5.953504836 "
    "-5.642065153 -5.031376979 -4.680685696 -4.329846955 -3.928486195 -8.56735134 -8.363211311 -8.107682739 "
    "-7.823908741 -7.522878745 -7.218819279 -6.920818754 -6.628932138 -6.323946875 -5.991399828 -8.781464495 "
    "-8.663140179 -8.473531488 -8.247337057 -7.971428747 -7.676129393 -7.352812702 -7.072065318 -6.774174009 "
    "-6.478861916 -6.159517513 -6.835647144 -6.53165267 -6.224098421 -5.910094889 -5.598599459 -5.290645224 "
    "-4.974284616 -4.64454848 -4.290560426 -3.885055584 -3.408378962 -3.13200249 -8.726767166 -8.66695597 "
    "-8.511026475 -8.165388579 -7.886056648 -7.588043762 -7.283412422 -6.995678626 -6.691862621 -6.392544977 "
    "-6.067374056 -6.684029655 -6.378719832 -6.065855188 -5.752272167 -5.132414673 -4.811352704 -4.098269308 "
    "-3.66174277 -3.2644011"
)
_HALF = (759.0, -2048.0, 2048.0, -2048.0, 2523.0, -2048.0, 2048.0, -2048.0, 1838.0, -2048.0)
WAMPLER_NOISE = np.array([*_HALF, 2048.0, *_HALF[::-1]])
WAMPLER_ERRORS = (
    2152.32624678170,
    2363.55173469681,
    779.343524331583,
    101.475507550350,
    5.64566512170752,
    0.112324854679312,
)


def longley_set() -> Certified:
    data = longley.load_pandas()
    return Certified(
        data.exog.to_numpy(),
        data.endog.to_numpy(),
        (
            -3482258.63459582,
            15.0618722713733,
            -0.358191792925910e-01,
            -2.02022980381683,
            -1.03322686717359,
            -0.511041056535807e-01,
            1829.15146461355,
        ),
        (
            890420.383607373,
            84.9149257747669,
            0.334910077722432e-01,
            0.488399681651699,
            0.214274163161675,
            0.226073200069370,
            455.478499142212,
        ),
        304.854073561965,
        0.995479004577296,
        330.285339234588,
    )


def filip_set() -> Certified:
    x = np.array(FILIP_X.split(), dtype=np.float64)
    return Certified(
        x[:, None] ** np.arange(1, 11),
        np.array(FILIP_Y.split(), dtype=np.float64),
        (
            -1467.48961422980,
            -2772.17959193342,
            -2316.37108160893,
            -1127.97394098372,
            -354.478233703349,
            -75.1242017393757,
            -10.8753180355343,
            -1.06221498588947,
            -0.670191154593408e-01,
            -0.246781078275479e-02,
            -0.402962525080404e-04,
        ),
        (
            298.084530995537,
            559.779865474950,
            466.477572127796,
            227.204274477751,
            71.6478660875927,
            15.2897178747400,
            2.23691159816033,
            0.221624321934227,
            0.142363763154724e-01,
            0.535617408889821e-03,
            0.896632837373868e-05,
        ),
        0.334801051324544e-02,
        0.996727416185620,
        2162.43954511489,
    )


def wampler_set(number: int) -> Certified:
    x = np.arange(21.0)
    X = x[:, None] ** np.arange(1, 6)
    if number == 2:
        # As NIST prints them: multiples of 0.00001, each the nearest float64.
        y = np.array([sum(10 ** (5 - k) * int(v) ** k for k in range(6)) / 10**5 for v in x])
        return Certified(X, y, tuple(10.0**-k for k in range(6)), (0.0,) * 6, 0.0, 1.0, None)
    y = 1.0 + X.sum(axis=1)
    if number == 1:
        return Certified(X, y, (1.0,) * 6, (0.0,) * 6, 0.0, 1.0, None)
    size = {3: 1.0, 4: 100.0, 5: 10000.0}[number]
    r2, f = {
        3: (0.999995559025820, 675524.458240122),
        4: (0.957478440825662, 67.5524458240122),
        5: (0.224668921574940e-02, 6.75524458240122e-03),
    }[number]
    return Certified(
        X,
        y + size * WAMPLER_NOISE,
        (1.0,) * 6,
        tuple(size * error for error in WAMPLER_ERRORS),
        size * 2360.14502379268,
        r2,
        f,
    )


def exactly_fitted(X: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients, an intercept first, and standard errors: rational arithmetic on the float64 numbers as they are."""
    n, q = len(y), X.shape[1] + 1
    w = [Fraction(1)] * n if weights is None else [Fraction(float(v)) for v in weights]
    A = [[Fraction(1), *(Fraction(float(v)) for v in row)] for row in X]
    b = [Fraction(float(v)) for v in y]
    G = [
        [sum(w[r] * A[r][i] * A[r][j] for r in range(n)) for j in range(q)]
        + [sum(w[r] * A[r][i] * b[r] for r in range(n))]
        + [Fraction(int(i == j)) for j in range(q)]
        for i in range(q)
    ]
    for i in range(q):
        pivot = G[i][i]
        G[i] = [value / pivot for value in G[i]]
        for k in range(q):
            if k != i:
                G[k] = [a - G[k][i] * c for a, c in zip(G[k], G[i], strict=True)]
    found = [G[i][q] for i in range(q)]
    squares = sum(w[r] * (b[r] - sum(a * v for a, v in zip(A[r], found, strict=True))) ** 2 for r in range(n))
    errors = [float(squares / (n - q) * G[i][q + 1 + i]) ** 0.5 for i in range(q)]
    return np.array([float(v) for v in found]), np.array(errors)
