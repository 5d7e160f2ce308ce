"""A statistic that a person outside fedsvd wrote, as an estimator: ``FederatedStatistic`` (ADR 0065).

The script itself runs in a process of its own for every party, in a simulation as between institutions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Any, Self

from fedsvd.data.open import open_source
from fedsvd.errors import ConfigError, NotFittedError, warn_caller
from fedsvd.estimators.as_job import found_locally
from fedsvd.estimators.federation import Federation, Local, Masks, Simulation
from fedsvd.policy.rules import Policy
from fedsvd.protocol.certificate import Certificate
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import Task
from fedsvd.results.result import PartyResult
from fedsvd.studies.foreign import installed_study
from fedsvd.studies.job_data import in_order
from fedsvd.studies.parties import PartyData, one_order
from fedsvd.studies.run import run_study
from fedsvd.studies.study import Study
from fedsvd.studies.table_columns import feature_names
from fedsvd.types import Float


@dataclass
class FederatedStatistic:
    """A foreign task on tables whose rows several parties hold.

    The task is found by its name among the installed distributions (``fedsvd tasks``) and loaded in a child process
    alone, at every party (``docs/howto/write-a-statistic.md``).

    Parameters
    ----------
    name : str
        The task's name, as in ``fedsvd tasks``.
    options : mapping, default={}
        The task's options; what is left out has its default.
    federation : Simulation, Local or Federation, default=None
        Where it runs; None for ``Simulation()``. A policy names the task by its hash: the default policy names no
        foreign task, of which a simulation warns (``PrivacyWarning``) and which every party of the others refuses; one
        that names another hash than is installed refuses. A ``Federation`` has each party's own policy.

    Attributes
    ----------
    outputs_ : dict of ndarray
        The declared outputs by name.
    feature_names_in_ : tuple of str
        The columns that no option names, in the order of an axis ``feature``.
    job_ : str
        The number of the job, on a ``Federation``.
    plan_ : SessionPlan
        What the parties agreed on before anything was sent.
    certificate_ : Certificate
        Bytes by link, seconds by stage.

    Examples
    --------
    With ``examples/group_variance`` installed:

    >>> import numpy as np
    >>> import pandas as pd
    >>> from fedsvd import FederatedStatistic
    >>> rng = np.random.default_rng(0)
    >>> tables = [pd.DataFrame({"ward": [0, 1] * 60, "age": rng.normal(50, 9, 120)}) for _ in range(3)]
    >>> found = FederatedStatistic("group-variance", options={"group": "ward", "groups": 2}).fit(tables)
    >>> joint = pd.concat(tables).groupby("ward")["age"].var()
    >>> bool(np.allclose(found.outputs_["variance"][:, 0], joint, rtol=1e-12, atol=0))
    True
    """

    name: str
    _: KW_ONLY
    options: Mapping[str, Any] = field(default_factory=dict)
    federation: Simulation | Local | Federation | None = None

    def fit(self, X: Sequence[Any] | None) -> Self:
        """Run the statistic on the parties' tables.

        Parameters
        ----------
        X : list of array-like, frame, path or MatrixSource, each of shape (n_i, columns), or None
            One table per party, with the same columns. None on a ``Federation``, whose tables are at the parties.

        Returns
        -------
        self
        """
        where = self.federation or Simulation()
        for name in ("_elsewhere", "job_"):  # of an earlier fit
            vars(self).pop(name, None)
        if isinstance(where, Federation):
            from fedsvd.estimators.between import fit_by_job, statistic_job  # which brings sockets along

            fit_by_job(self, where, statistic_job(where, installed_study(self.name, self.options), X))
            return self
        if not isinstance(X, list | tuple) or len(X) < 2:
            raise ConfigError("a statistic is of the tables of two parties or more", "give a list, one table per party")
        parties = [PartyData(open_source(table)) for table in X]
        order = one_order({str(i): feature_names(party.table) for i, party in enumerate(parties, start=1)})
        if order is not None:
            parties = [in_order(party, order) for party in parties]
        study = Study(Task.FOREIGN, foreign=installed_study(self.name, self.options), memory=where.memory)
        if isinstance(where, Local):
            words = {"task": str(Task.FOREIGN), "device": where.device, "engine": where.engine}
            self._store_result(found_locally(words, Masks(), study, parties, where.policy or Policy()).here)
            return self
        if where.random_state is not None:
            warn_caller(
                "random_state makes every mask and pad a function of one number: insecure seeds, for tests only"
            )
        outcome = run_study(study, parties, random_state=where.random_state, policy=where.policy)
        names = feature_names(parties[0].table)
        self._store(outcome.plan, outcome.certificate, outcome.parties[0].outputs, names)
        return self

    def _store(
        self, plan: SessionPlan, certificate: Certificate, outputs: Mapping[str, Float], names: Sequence[str]
    ) -> None:
        aside = () if plan.foreign is None else plan.foreign.aside
        self.plan_, self.certificate_, self.outputs_ = plan, certificate, dict(outputs)
        self.feature_names_in_ = tuple(name for name in names if name not in aside)

    def _store_result(self, result: PartyResult) -> None:
        about = result.plan.foreign
        outputs = {} if about is None else {output.name: result.arrays[output.name] for output in about.outputs}
        self._store(result.plan, result.certificate, outputs, result.feature_names(result.plan.m))

    def __getattr__(self, name: str) -> Any:
        elsewhere = vars(self).get("_elsewhere", "")
        if elsewhere and name.endswith("_") and not name.startswith("_"):
            raise AttributeError(f"{type(self).__name__} has no {name} here: {elsewhere}")
        if name in ("outputs_", "plan_", "certificate_", "feature_names_in_"):
            raise NotFittedError(f"this {type(self).__name__} has no {name} yet", "call fit first")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters, as scikit-learn's estimators give them.

        Parameters
        ----------
        deep : bool, default=True
            There is nothing below.

        Returns
        -------
        dict
        """
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name != "_"}


def statistic_from(result: PartyResult) -> FederatedStatistic:
    """The statistic of a result that was read from its folder."""
    about = result.plan.foreign
    if about is None:
        raise ConfigError("this result is of no foreign task", "fedsvd.load")
    found = FederatedStatistic(about.name, options=about.chosen)
    found._store_result(result)
    return found
