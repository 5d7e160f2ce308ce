"""A cluster of one institution's own (Dask), put to work inside one role: never between institutions.

A party's data is compressed where it lies: every worker factors some columns, and the factors merge in a tree. By steps
workers multiply their records with a few columns, and what comes back is as long as the records, or their sum. The CSP
stores a matrix that is long on both sides as blocks on the workers (``cluster_store.py``). A worker that dies takes
nothing with it: what it had is computed again from the data, or loaded again from the scratch folder.

Dask's own messages are pickled Python, and any process that reaches the scheduler can have them executed. So the
scheduler is reached over mutual TLS or not at all: a cluster started here makes throw-away certificates, and the
address of a running one must begin with ``tls://`` (its certificates are those of Dask's own configuration).
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Self

import numpy as np

from fedsvd.compress.products import Direction, product_of_array, product_of_source
from fedsvd.compress.reduce import Turned, merged, part_of_array, part_of_source
from fedsvd.data.source import MatrixSource
from fedsvd.errors import ConfigError, MissingExtra
from fedsvd.linalg.streaming_factor import StreamingFactor
from fedsvd.types import Float

Progress = Callable[[int, int], None]  # columns read, columns in all
_PARTS_A_WORKER = 4  # so that the last worker to finish keeps the others waiting for a quarter of its share
_RETRIES = 3


def _reached(scheduler: str, dial: Callable[[], Any]) -> Any:
    try:
        return dial()
    except (OSError, ValueError, TypeError) as fault:  # not a path, a key that does not fit, no answer
        kind = type(fault).__name__
        raise ConfigError(
            f"the scheduler at {scheduler} cannot be reached ({kind})",
            "check the address, and the certificates in Dask's configuration",
        ) from None


class Cluster:
    """A Dask cluster and our client of it."""

    def __init__(self, client: Any, own: Any = None) -> None:
        self._client = client
        self._own = own  # the cluster, where it was started here

    @classmethod
    def open(cls, scheduler: str | None = None, workers: int | None = None) -> Self:
        """The running cluster at ``scheduler``, or one of this machine's own, with a worker for each core."""
        try:
            from distributed import Client, LocalCluster
            from distributed.security import Security
        except ImportError:
            raise MissingExtra("engine = 'dask' needs Dask", "pip install 'fedsvd[cluster]'") from None
        if scheduler is not None:
            if not scheduler.startswith("tls://"):
                raise ConfigError(
                    f"the scheduler at {scheduler!r} is not reached over TLS",
                    "start it with TLS and give tls://host:port",
                )
            security = Security(require_encryption=True)
            held = security.get_tls_config_for_role("client")
            if not (held.get("ca_file") and held.get("cert")):
                raise ConfigError(
                    f"Dask has no certificates for {scheduler}",
                    "name them in Dask's configuration: distributed.comm.tls.ca-file, and client.cert and client.key "
                    "below it (DASK_DISTRIBUTED__COMM__TLS__CA_FILE, ...)",
                )
            return cls(_reached(scheduler, lambda: Client(scheduler, security=security, set_as_default=False)))
        own = LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            protocol="tls://",
            security=Security.temporary(),
            dashboard_address="127.0.0.1:0",  # a free port: the default one may be taken
        )
        return cls(Client(own, set_as_default=False), own)

    @property
    def client(self) -> Any:
        """Dask's own client, for a store of blocks on the workers."""
        return self._client

    @property
    def workers(self) -> int:
        """How many there are now."""
        return max(1, len(self._client.scheduler_info(n_workers=-1)["workers"]))

    def factor(
        self, source: MatrixSource, shift: Float | None, panel: int, progress: Progress | None = None
    ) -> StreamingFactor:
        """The running factor of all columns of a source, computed by the workers."""
        futures = self._parts(source, shift, panel)
        if progress is not None:
            self._report(futures, source.shape[1], progress)
        while len(futures) > 1:
            pairs = [futures[i : i + 2] for i in range(0, len(futures), 2)]
            futures = [self._submit(merged, pair) if len(pair) == 2 else pair[0] for pair in pairs]
        return StreamingFactor.from_bytes(futures[0].result())

    def products(self, source: MatrixSource, by_rows: bool, panel: int) -> Turned | None:
        """Products with all records; None for what is in this process's memory, which would travel every time."""
        lazy, reopen = source.lazy(), source.elsewhere()
        records = source.shape[0 if by_rows else 1]
        if lazy is not None:
            edges = _edges(lazy.chunks[0 if by_rows else 1], panel)
        elif reopen is not None:
            share = max(1, -(-records // (_PARTS_A_WORKER * self.workers)))
            edges = [*range(0, records, share), records]
        else:
            return None

        def begun(place: tuple[int, int], how: Direction, A: Any) -> Any:
            if lazy is None:
                return self._submit(product_of_source, reopen, place, panel, how, A)
            import dask

            own = lazy[slice(*place), :] if by_rows else lazy[:, slice(*place)]
            return self._client.compute(dask.delayed(product_of_array)(own, how, A), retries=_RETRIES)

        def along(A: Float) -> Float:
            # Without a hash: equal numbers of two products would be one object, which the first takes with it.
            there = self._client.scatter(A, hash=False)
            futures = [begun(place, Direction(by_rows, True), there) for place in pairwise(edges)]
            return np.concatenate(self._client.gather(futures))

        def over(A: Float) -> Float:
            how = Direction(by_rows, False)
            futures = [begun((start, stop), how, A[start:stop]) for start, stop in pairwise(edges)]
            found: Float = sum(self._client.gather(futures))
            return found

        return along, over

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        self._client.close()
        if self._own is not None:
            self._own.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *trouble: object) -> None:
        self.close()

    def _parts(self, source: MatrixSource, shift: Float | None, panel: int) -> list[Any]:
        """The factor of every part, under way; parts are whole panels, and blocks stay where they are."""
        n = source.shape[1]
        share = -(-n // (_PARTS_A_WORKER * self.workers))
        lazy, reopen = source.lazy(), source.elsewhere()
        if lazy is not None:
            return self._lazy_parts(lazy, shift, panel)
        if reopen is not None:
            width = max(panel, -(-share // panel) * panel)
            return [
                self._submit(part_of_source, reopen, start, min(start + width, n), panel, shift)
                for start in range(0, n, width)
            ]
        # What lives in this process's memory travels, panel by panel.
        starts = range(0, n, panel)
        return [
            self._submit(part_of_array, self._client.scatter(source.columns(start, min(start + panel, n))), shift)
            for start in starts
        ]

    def _lazy_parts(self, lazy: Any, shift: Float | None, panel: int) -> list[Any]:
        import dask

        lazy = lazy.rechunk({0: -1})  # whole columns
        edges = _edges(lazy.chunks[1], panel)
        parts = [dask.delayed(part_of_array)(lazy[:, start:stop], shift) for start, stop in pairwise(edges)]
        futures: list[Any] = self._client.compute(parts, retries=_RETRIES)
        return futures

    def _submit(self, work: Callable[..., Any], *args: Any) -> Any:
        return self._client.submit(work, *args, pure=False, retries=_RETRIES)

    def _report(self, futures: Sequence[Any], n: int, progress: Progress) -> None:
        done = 0

        def count(future: Any, total: int) -> None:
            nonlocal done
            done += 1
            progress(done * n // total, n)

        for future in futures:
            future.add_done_callback(partial(count, total=len(futures)))


def _edges(chunks: Sequence[int], panel: int) -> list[int]:
    """Where parts begin and end: at the ends of chunks, and within long ones."""
    edges = [0]
    for width in chunks:
        for start in range(0, width, panel):
            edges.append(edges[-1] + min(panel, width - start))
    return edges
