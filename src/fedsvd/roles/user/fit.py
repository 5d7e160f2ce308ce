"""What a user holds after a regression, whichever way the data was split."""

from dataclasses import dataclass

from fedsvd.types import Float


@dataclass(frozen=True, repr=False)
class RegressionResult:
    """What a user holds: coefficients (targets, features), its own when columns are split; intercept (targets,)."""

    coefficients: Float
    intercept: Float
    rank: int
    residual: float
    constant: tuple[int, ...]  # own columns without variance, whose coefficients are zero
    fitted: Float | None = None  # the label holder's: fitted values on the training rows

    def __repr__(self) -> str:
        return f"RegressionResult(coefficients={self.coefficients.shape}, rank={self.rank})"
