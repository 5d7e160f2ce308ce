"""The thin singular value decomposition of a table that several parties hold (section 3 of the paper)."""

from typing import Any, Self

from fedsvd.estimators.factors import FederatedFactors
from fedsvd.policy.rules import Policy
from fedsvd.protocol.tasks import Task
from fedsvd.types import Float


class FederatedSVD(FederatedFactors):
    """Singular value decomposition of a joint table whose parts stay with their parties.

    For the joint table D, samples in rows, ``D = U_ @ diag(singular_values_) @ components_``, to the precision of
    float64, as ``numpy.linalg.svd(D, full_matrices=False)`` gives it. Split by samples, ``components_`` is shared by
    all parties and each holds its rows of ``U_``; split by features, ``U_`` is shared and each holds its columns of
    ``components_``. In the shared factor the largest entry of every vector is positive, which split by samples are
    the signs of ``sklearn.decomposition.TruncatedSVD``. All roles run in this process.

    Parameters
    ----------
    n_components : int, default=None
        How many singular values and vectors; None for min(n_samples, n_features), the thin decomposition.
    split : {"horizontal", "vertical"}, default="horizontal"
        Parties hold different samples of the same features, or different features of the same samples.
    full_matrices : bool, default=False
        Square ``U_`` and ``components_``, as NumPy has them; with ``scheme="paper"`` only, and for small tables.
    scheme : {"auto", "sum", "mask", "paper"}, default="auto"
        How data is hidden before it is added up; "auto" picks "sum" where the side that all parties share is short,
        else "mask".
    mode : {"A", "B"}, default=None
        Who opens the sum of Gram matrices in the scheme "sum": the parties, who then hold all of it (A), or the CSP
        under a mask (B). None for A where the release determines that matrix, else B.
    trust : {"peers", "authority"}, default="peers"
        Who deals the masks: the parties among themselves, or a Trusted Authority.
    block_size : int, default=None
        Width of mask blocks in the paper's scheme; None for 1000.
    memory : int, default=None
        Bytes that each role may use; None for 2 GiB, or as much as a joint Gram matrix needs, up to
        half of this machine's memory.
    n_parties : int, default=2
        Among how many parties a single table is divided, to rehearse.
    policy : Policy, default=None
        What the owners allow to be released. None for the default policy, which warns of a study below it
        (``PrivacyWarning``) and does not refuse it; one table, which has one owner, is not held to it.
    device : str, default=None
        Where every role computes: "cuda", "cuda:1", "cupy"; None for NumPy on the CPU.
    engine : str, default=None
        "dask" compresses and factorises on a cluster of this machine's cores, "tls://host:port" on the cluster of
        that scheduler; None for this process alone.
    random_state : int, default=None
        None takes every secret from the operating system. A number is for tests, and warns.
    id : str, default=None
        The column of row ids in every party's table: it is left out of the data, and compared where features are
        split. A pandas index serves as well, without being named.
    ids : {"compare", "trust"}, default="compare"
        Split by features, rows belong together by position. Ids (``id``, or the indexes of pandas frames) are compared
        and a difference is an error (``RowsDiffer``); where there are none, a ``RowsNotCompared`` warns. "trust" takes
        the order on your word.
    verbose : bool, default=False
        Show progress on standard error: bars on a terminal or in a notebook, otherwise a line to every ten per cent.

    Attributes
    ----------
    U_ : ndarray of shape (n_samples, n_components)
        Left singular vectors; zero columns beyond ``rank_``.
    singular_values_ : ndarray of shape (n_components,)
        Falling; zeros beyond ``rank_``.
    components_ : ndarray of shape (n_components, n_features)
        Right singular vectors; zero rows beyond ``rank_``.
    explained_variance_ : ndarray of shape (n_components,)
        Variance of the samples along each component, as in ``TruncatedSVD``.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        The same as fractions of the total. Only where the factors are complete: a table's total variance is not
        among what a top-r run releases.
    rank_ : int
        How many singular values are above rounding, at most n_components.
    n_features_in_ : int
        Features of the joint table.
    feature_names_in_ : ndarray of shape (n_features,)
        Where the tables have column names that are text, all different.
    parties_ : tuple of PartyFactors
        What each party would hold, without the zeros.
    certificate_ : Certificate
        Residual, orthogonality, bytes by link, seconds by stage.
    plan_ : SessionPlan
        What the parties agreed on before anything was sent.

    Examples
    --------
    >>> import numpy as np
    >>> from fedsvd import FederatedSVD
    >>> a, b, c = np.array_split(np.random.default_rng(0).normal(size=(600, 5)), [150, 400])
    >>> svd = FederatedSVD().fit([a, b, c])
    >>> svd.U_.shape, svd.components_.shape, [party.U_.shape for party in svd.parties_]
    ((600, 5), (5, 5), [(150, 5), (250, 5), (200, 5)])
    >>> D = svd.U_ * svd.singular_values_ @ svd.components_
    >>> bool(np.allclose(D, np.vstack([a, b, c]), rtol=0, atol=1e-12))
    True
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        split: str = "horizontal",
        full_matrices: bool = False,
        scheme: str = "auto",
        mode: str | None = None,
        trust: str = "peers",
        block_size: int | None = None,
        memory: int | None = None,
        n_parties: int = 2,
        policy: Policy | None = None,
        device: str | None = None,
        engine: str | None = None,
        random_state: int | None = None,
        id: str | None = None,
        ids: str = "compare",
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.split = split
        self.full_matrices = full_matrices
        self.scheme = scheme
        self.mode = mode
        self.trust = trust
        self.block_size = block_size
        self.memory = memory
        self.n_parties = n_parties
        self.policy = policy
        self.device = device
        self.engine = engine
        self.random_state = random_state
        self.id = id
        self.ids = ids
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:
        """Run the study.

        Parameters
        ----------
        X : list of one table per party, or one table of shape (n_samples, n_features)
            NumPy arrays, memory maps, pandas or polars frames, SciPy sparse matrices, paths, MatrixSource. Parties'
            tables have the shape (n_i, n_features) split by samples, (n_samples, n_i) split by features. One table
            is divided evenly among ``n_parties``.
        y : ignored

        Returns
        -------
        self
        """
        self._fit(X, Task.SVD, full_matrices=bool(self.full_matrices))
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Float:
        """Fit, then the coordinates ``U_ * singular_values_`` of the joint samples.

        Parameters
        ----------
        X : as in ``fit``
        y : ignored

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        return self.fit(X)._embedded()
