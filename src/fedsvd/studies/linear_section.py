"""The keys of ``[job]`` that a linear regression has beyond those of all models: standard errors, penalties to try."""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from fedsvd.errors import ConfigError
from fedsvd.protocol.tasks import ChosenBy, Item, Robust
from fedsvd.studies.job_faults import one_of
from fedsvd.studies.job_values import Column

_MOST_ALPHAS = 1000
_COVARIANCES = ("nonrobust", *(kind for kind in Robust if kind is not Robust.CLUSTER))
_Alpha = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class LinearKeys(BaseModel):
    """What ``[job]`` says of a linear regression on split rows."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, hide_input_in_errors=True)

    cov_type: Annotated[str, BeforeValidator(lambda value: one_of(value, _COVARIANCES))] = "nonrobust"
    cluster: Column | None = None
    alphas: Annotated[tuple[_Alpha, ...], Field(max_length=_MOST_ALPHAS)] = ()
    choose_by: Annotated[ChosenBy, BeforeValidator(lambda value: one_of(value, ChosenBy))] | None = None

    @property
    def robust(self) -> Robust | None:
        """Which standard errors are asked for, beyond the usual ones."""
        if self.cluster is not None:
            return Robust.CLUSTER
        return None if self.cov_type == "nonrobust" else Robust(self.cov_type)

    @property
    def more_released(self) -> tuple[Item, ...]:
        """What these keys release: they are short for a place in ``release``."""
        asked = {Item.ROBUST: self.robust is not None, Item.RIDGE_PATH: bool(self.alphas)}
        return tuple(item for item, wanted in asked.items() if wanted)

    def expect_fits(self) -> None:
        """Refuse two kinds of robust errors at once."""
        if self.cluster is not None and self.cov_type != "nonrobust":
            raise ConfigError("cov_type and cluster are two kinds of standard errors", "leave one of them out")
