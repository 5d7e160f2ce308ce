"""Where an estimator's study runs (``federation=``), and how its data is hidden (``masks=``).

These are values: frozen, compared by content, safe to copy and to pickle, so that scikit-learn can clone an estimator
that has them. They open no file, socket or key; ``fit`` does. As with every parameter, what they hold is checked when
it is used. ``Masks`` is part of the study: it is approved and hashed with it. A federation only says where.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from fedsvd.policy.rules import Policy


@dataclass(frozen=True)
class Masks:
    """How data is hidden before it is added up: a part of the study, which every party approves.

    Parameters
    ----------
    scheme : {"auto", "sum", "mask", "steps"}, default="auto"
        "auto" picks "sum" where the side that all parties share is short, else "mask"; and "steps" of few components
        of many features and records, where singular values are released. "steps" finds the first components of a long
        side by sums of a few products at a time, a number or a share of the variance, with their singular values.
    mode : {"A", "B"}, default=None
        Who opens the sum of Gram matrices in the scheme "sum": the parties, who then hold all of it (A), or the CSP
        under a mask (B). None for A where the release determines that matrix, else B.
    trust : {"peers", "authority"}, default="peers"
        Who deals the masks: the parties among themselves, or a Trusted Authority.
    block_size : int, default=None
        Width of the blocks of mixing masks, at least 128; None for 128.

    Examples
    --------
    >>> from fedsvd import FederatedSVD, Masks
    >>> FederatedSVD(5, masks=Masks("mask"))
    FederatedSVD(masks=Masks(scheme='mask', mode=None, trust='peers', block_size=None),
                 n_components=5)
    """

    scheme: str = "auto"
    mode: str | None = None
    trust: str = "peers"
    block_size: int | None = None


@dataclass(frozen=True)
class Simulation:
    """All roles run in this process: to try a study out, and to check a federation's results against.

    Parameters
    ----------
    parties : int, default=2
        Among how many parties a single table is divided, to rehearse. A list of tables has one party per table.
    memory : int, default=None
        Bytes that each role may use; None for 2 GiB, or as much as a joint Gram matrix needs, up to half of this
        machine's memory.
    device : str, default=None
        Where every role computes: "cuda", "cuda:1", "cupy"; None for NumPy on the CPU.
    engine : str, default=None
        "dask" compresses and factorises on a cluster of this machine's cores, "tls://host:port" on the cluster of
        that scheduler; None for this process alone.
    policy : Policy, default=None
        What the owners allow to be released. None for the default policy, which warns of a study below it
        (``PrivacyWarning``) and does not refuse it; one table, which has one owner, is not held to it.
    random_state : int, default=None
        None takes every secret from the operating system. A number is for tests, and warns.
    verbose : bool, default=False
        Show progress on standard error: bars on a terminal or in a notebook, otherwise a line to every ten per cent.

    Examples
    --------
    >>> import numpy as np
    >>> from fedsvd import FederatedPCA, Simulation
    >>> X = np.random.default_rng(0).normal(size=(600, 5))
    >>> pca = FederatedPCA(2, federation=Simulation(parties=3)).fit(X)
    >>> [party.scores_.shape for party in pca.parties_]
    [(200, 2), (200, 2), (200, 2)]
    """

    parties: int = 2
    memory: int | None = None
    device: str | None = None
    engine: str | None = None
    policy: Policy | None = None
    random_state: int | None = None
    verbose: bool = False


@dataclass(frozen=True)
class Local:
    """Every role is a process on this machine, with mutual TLS between them: as ``fedsvd run --env local`` does.

    Processes, messages and checks are those of a federation of institutions; keys and certificates are thrown away at
    the end, with the parties' tables and results, which are written to a private temporary folder. ``fit`` takes what
    it takes in a simulation, and leaves the same attributes. Records are not matched (``align``).

    Parameters
    ----------
    parties : int, default=2
        Among how many parties a single table is divided. A list of tables has one party per table.
    memory : int, default=None
        Bytes that each role may use; None for 2 GiB, or as much as a joint Gram matrix needs.
    device : str, default=None
        Where every role computes, as in ``Simulation``.
    engine : str, default=None
        With what, as in ``Simulation``.
    policy : Policy, default=None
        What every party enforces. None for the default policy; one table, which has one owner, is not held to it.

    Examples
    --------
    >>> import numpy as np
    >>> from fedsvd import FederatedPCA, Local
    >>> pca = FederatedPCA(2, federation=Local(parties=3))
    >>> pca.fit(np.random.default_rng(0).normal(size=(600, 5))).components_.shape  # doctest: +SKIP
    (2, 5)
    """

    parties: int = 2
    memory: int | None = None
    device: str | None = None
    engine: str | None = None
    policy: Policy | None = None


@dataclass(frozen=True)
class Federation:
    """A job between institutions: ``fit`` submits it or finds it by its name, waits for it, and reads the results.

    Tables stay where each site's ``site.toml`` says: ``fit(None, y="outcome")`` is given no X, and names of columns in
    place of arrays. With a researcher's kit ``fit`` submits the job, and has what all parties share, without rows of
    records, if every party agrees (``researcher`` in ``policy.toml``, or at its approval); else ``job_`` and
    ``certificate_`` alone. With a party's kit the same ``fit`` finds that job and has what the party has: what all
    share, and its own part (``parties_`` has one entry; on split columns ``predict`` and ``transform`` need all
    parties). An attribute that this kit does not have is an ``AttributeError`` that says who has it.

    Parameters
    ----------
    kit : path
        The folder of a researcher's or a party's kit.
    parties : sequence of str
        The names of the parties.
    name : str
        Of the job. ``fit`` again with the same name goes on with the same job; a job of this name that asks for
        something else is an error.
    wait : float, default=3600
        Seconds after which ``fit`` raises ``StillRunning``; the job goes on.
    columns : sequence of str, default=()
        The features; all columns of the tables where left out.
    address : str, default=None
        ``host:port`` of the CSP; None for that in the kit's ``site.toml``.
    authority : str, default="authority"
        The name of the Trusted Authority, with ``masks=Masks(trust="authority")``.
    memory : int, default=None
        Bytes that each role may use, as in ``Simulation``.
    dictionary : path, default=None
        The consortium's ``dictionary.toml``, which every party has registered: the job names its columns.
    each_fit_is_a_job : bool, default=False
        Whether different fits are different jobs, each with a number after ``name``: every one of them is approved by
        every owner, and counts against what owners allow.

    Examples
    --------
    >>> from fedsvd import FederatedPCA, Federation
    >>> where = Federation("hospital-a", parties=["hospital-a", "hospital-b"], name="ages")
    >>> FederatedPCA(2, federation=where).fit(None).components_.shape  # doctest: +SKIP
    (2, 5)
    """

    kit: str | os.PathLike[str]
    parties: Sequence[str]
    name: str
    wait: float = 3600.0
    columns: Sequence[str] = ()
    address: str | None = None
    authority: str = "authority"
    memory: int | None = None
    dictionary: str | os.PathLike[str] | None = None
    each_fit_is_a_job: bool = False

    def __post_init__(self) -> None:
        # A list cannot be hashed, and one that is changed later would change a frozen value.
        object.__setattr__(self, "parties", tuple(self.parties))
        object.__setattr__(self, "columns", tuple(self.columns))
