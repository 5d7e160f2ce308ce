"""Progress of a run in this process on standard error (``engine.progress``), unless the person asked for quiet."""

from collections.abc import Iterator
from contextlib import contextmanager

from fedsvd.cli.output import Output
from fedsvd.engine import progress
from fedsvd.engine.progress import Progress


@contextmanager
def shown(output: Output, names: tuple[str, ...]) -> Iterator[Progress | None]:
    """What a run calls with (party, stage, done, total); None when the person asked for quiet."""
    if output.quiet:
        yield None
        return
    with progress.shown(names, output.line) as report:
        yield report
