"""When a regression may be asked for with standard errors: where the parties may hold what these follow from."""

from fedsvd.errors import ConfigError
from fedsvd.protocol.tasks import Item, Mode, Scheme, Split


def expect_inference(release: tuple[Item, ...] | None, split: Split, scheme: Scheme, mode: Mode | None) -> None:
    """Refuse inference in a release where no party may have the joint Gram matrix, with the way out.

    On split columns the label holder of a study that releases a score has what follows from its own labels and the
    fitted values: R2, sigma, F and the log-likelihood. Standard errors need more than any party may hold there.
    """
    if Item.INFERENCE not in (release or ()):
        return
    if split is Split.VERTICAL:
        raise ConfigError(
            "inference on split columns needs the inverse Gram matrix of all columns, which no party may have",
            'leave inference out; release "score" gives the label holder R2, sigma, F and the log-likelihood',
        )
    if scheme is not Scheme.SUM:
        raise ConfigError(
            f"inference follows from the exact sum of Gram matrices, and scheme {str(scheme)!r} has none",
            'set scheme = "sum", or leave inference out',
        )
    if mode is Mode.B:
        raise ConfigError(
            "inference shows every party the joint Gram matrix, and mode 'B' shows it to none",
            'leave mode out (mode "A": the parties open the sum), or leave inference out',
        )
