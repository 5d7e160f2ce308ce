"""Three shops' ratings as sparse matrices: 900 customers, 200 films of five kinds, 8 of 100 cells rated."""

from pathlib import Path

import numpy as np
import scipy.sparse as sp

FILMS, KINDS = 200, 5
SHOPS = {"north": 300, "south": 250, "web": 350}


def main() -> None:
    rng = np.random.default_rng(2)
    kind = np.repeat(np.arange(KINDS), FILMS // KINDS)
    Path("data").mkdir(exist_ok=True)
    np.save("data/kind.npy", kind)  # the truth, for the notebook's last table alone
    for name, customers in SHOPS.items():
        favourite = rng.integers(0, KINDS, customers)
        liked = favourite[:, None] == kind
        rated = rng.random((customers, FILMS)) < np.where(liked, 0.25, 0.04)
        stars = np.clip(np.round(rng.normal(np.where(liked, 4.2, 2.6), 0.8)), 1, 5)
        sp.save_npz(f"data/{name}.npz", sp.csr_matrix(np.where(rated, stars, 0.0)))


if __name__ == "__main__":
    main()
