"""The parameters of standard errors that do not assume equal variances: of linear regression and of models alike."""

from dataclasses import dataclass

from fedsvd.errors import ConfigError
from fedsvd.estimators.base import one_of
from fedsvd.protocol.tasks import Clusters, Robust
from fedsvd.statistics.robust import NONROBUST
from fedsvd.studies.study import expect_own_clusters


@dataclass(eq=False, repr=False, kw_only=True)
class RobustErrors:
    """Which standard errors an estimator asks for."""

    cov_type: str = "nonrobust"
    cluster: str | None = None
    clusters: str = "own"

    def _errors(self, clusters: bool) -> Robust | None:
        """Those beyond the usual ones; ``clusters`` where rows have some."""
        expect_own_clusters(Clusters(one_of("clusters", self.clusters, tuple(Clusters))))
        kind = one_of("cov_type", self.cov_type, (NONROBUST, *(str(kind) for kind in Robust)))
        if clusters and kind not in (NONROBUST, Robust.CLUSTER):
            raise ConfigError("cov_type and clusters are two kinds of standard errors", "leave one of them out")
        return Robust.CLUSTER if clusters else None if kind == NONROBUST else Robust(kind)
