"""Three biobanks: people from two ancestral populations in different shares, 0, 1 or 2 copies at 300 markers."""

from pathlib import Path

import numpy as np

MARKERS = 300
BIOBANKS = {"helsinki": (220, 0.9), "torino": (260, 0.2), "lyon": (240, 0.5)}  # people, share of the first population


def main() -> None:
    rng = np.random.default_rng(5)
    ancestral = rng.uniform(0.05, 0.5, MARKERS)
    frequencies = np.clip(ancestral + rng.normal(0, 0.2, (2, MARKERS)), 0.02, 0.98)
    Path("data").mkdir(exist_ok=True)
    for name, (people, share) in BIOBANKS.items():
        mix = np.clip(rng.normal(share, 0.2, people), 0, 1)[:, None]
        calls = rng.binomial(2, mix * frequencies[0] + (1 - mix) * frequencies[1])
        header = ",".join(f"rs{1000 + j}" for j in range(MARKERS))
        np.savetxt(f"data/{name}.csv", calls, fmt="%d", delimiter=",", header=header, comments="")
        np.save(f"data/{name}-ancestry.npy", mix[:, 0])  # the truth, for the notebook's last picture alone


if __name__ == "__main__":
    main()
