"""FedSVD: exact federated matrix factorisation.

Only public names live here. What is not reachable through ``__all__`` is private. They are imported when they are
first asked for: estimators bring scikit-learn along, and ``import fedsvd`` stays light.
"""

import os
from typing import TYPE_CHECKING, Any

# 2^22 ticks, a millisecond or two, until a thread of OpenBLAS that has nothing to do sleeps; left alone it spins for
# 30 milliseconds, on a core that another thread could use. Read when SciPy's linear algebra is loaded.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "22")
# gRPC writes a line for every caller without a certificate, our own look at the port among them; any stranger could
# fill a log. Read when gRPC is loaded.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

if TYPE_CHECKING:
    from fedsvd.data.open import open_source
    from fedsvd.estimators.cca import FederatedCCA
    from fedsvd.estimators.cox import FederatedCox
    from fedsvd.estimators.describe import FederatedTable
    from fedsvd.estimators.federation import Federation, Local, Masks, Simulation
    from fedsvd.estimators.glm import FederatedGLM
    from fedsvd.estimators.linear_regression import FederatedLinearRegression
    from fedsvd.estimators.load import load
    from fedsvd.estimators.logistic_regression import FederatedLogisticRegression
    from fedsvd.estimators.lsa import FederatedLSA
    from fedsvd.estimators.mixed import FederatedMixedLM
    from fedsvd.estimators.ordinal import FederatedOrdinalRegression
    from fedsvd.estimators.pca import FederatedPCA
    from fedsvd.estimators.pcr import FederatedPCR
    from fedsvd.estimators.prepared import prepared
    from fedsvd.estimators.propensity import FederatedPropensity
    from fedsvd.estimators.ridge_cv import FederatedRidgeCV
    from fedsvd.estimators.statistic import FederatedStatistic
    from fedsvd.estimators.survival import FederatedKaplanMeier
    from fedsvd.estimators.svd import FederatedSVD
    from fedsvd.policy.rules import Policy
    from fedsvd.service.client import connect

__version__ = "0.3.0"

__all__ = [
    "FederatedCCA",
    "FederatedCox",
    "FederatedGLM",
    "FederatedKaplanMeier",
    "FederatedLSA",
    "FederatedLinearRegression",
    "FederatedLogisticRegression",
    "FederatedMixedLM",
    "FederatedOrdinalRegression",
    "FederatedPCA",
    "FederatedPCR",
    "FederatedPropensity",
    "FederatedRidgeCV",
    "FederatedSVD",
    "FederatedStatistic",
    "FederatedTable",
    "Federation",
    "Local",
    "Masks",
    "Policy",
    "Simulation",
    "__version__",
    "connect",
    "load",
    "open_source",
    "prepared",
]


def __getattr__(name: str) -> Any:
    # Written out, not importlib with a computed name: the import rules read this file.
    match name:
        case "FederatedCCA":
            from fedsvd.estimators import cca

            return cca.FederatedCCA
        case "FederatedCox":
            from fedsvd.estimators import cox

            return cox.FederatedCox
        case "FederatedKaplanMeier":
            from fedsvd.estimators import survival

            return survival.FederatedKaplanMeier
        case "FederatedOrdinalRegression":
            from fedsvd.estimators import ordinal

            return ordinal.FederatedOrdinalRegression
        case "FederatedTable":
            from fedsvd.estimators import describe

            return describe.FederatedTable
        case "FederatedPCR":
            from fedsvd.estimators import pcr

            return pcr.FederatedPCR
        case "FederatedLinearRegression":
            from fedsvd.estimators import linear_regression

            return linear_regression.FederatedLinearRegression
        case "FederatedGLM":
            from fedsvd.estimators import glm

            return glm.FederatedGLM
        case "FederatedLogisticRegression":
            from fedsvd.estimators import logistic_regression

            return logistic_regression.FederatedLogisticRegression
        case "FederatedMixedLM":
            from fedsvd.estimators import mixed

            return mixed.FederatedMixedLM
        case "FederatedLSA":
            from fedsvd.estimators import lsa

            return lsa.FederatedLSA
        case "FederatedPCA":
            from fedsvd.estimators import pca

            return pca.FederatedPCA
        case "FederatedPropensity":
            from fedsvd.estimators import propensity

            return propensity.FederatedPropensity
        case "FederatedRidgeCV":
            from fedsvd.estimators import ridge_cv

            return ridge_cv.FederatedRidgeCV
        case "FederatedSVD":
            from fedsvd.estimators import svd

            return svd.FederatedSVD
        case "Federation" | "Local" | "Masks" | "Simulation":
            from fedsvd.estimators import federation

            return getattr(federation, name)
        case "FederatedStatistic":
            from fedsvd.estimators import statistic

            return statistic.FederatedStatistic
        case "Policy":
            from fedsvd.policy import rules as release

            return release.Policy
        case "connect":
            from fedsvd.service import client as connecting

            return connecting.connect
        case "load":
            from fedsvd.estimators import load as loading

            return loading.load
        case "open_source":
            from fedsvd.data import open as opening

            return opening.open_source
        case "prepared":
            from fedsvd.estimators import prepared as preparing

            return preparing.prepared
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
