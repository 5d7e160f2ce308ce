"""``fedsvd.load``: a fitted estimator from a results folder.

A party's folder gives what that party gets; the folder of a job, as the simulation leaves it, gives all of it when the
parties' folders are inside, and what all share when they are not. Where columns are split, one party's part is no model
of the joint table: its estimator shows the coefficients or components, and refuses to apply them alone.
"""

import os
import warnings
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from fedsvd.data.source import MatrixSource
from fedsvd.errors import ConfigError
from fedsvd.estimators.base import Federated
from fedsvd.estimators.federation import Masks, Simulation
from fedsvd.estimators.statistic import FederatedStatistic, statistic_from
from fedsvd.estimators.stored import of_results, results_in, store
from fedsvd.prepare.mapped import open_mapped
from fedsvd.prepare.table_map import map_of
from fedsvd.protocol.tasks import Item, Split, share_in
from fedsvd.results.result import PartyResult
from fedsvd.studies.match_section import MatchSection
from fedsvd.studies.predict import new_data, with_recipe
from fedsvd.tasks.option import ESTIMATOR
from fedsvd.tasks.options import section_of


def load(folder: str | os.PathLike[str]) -> Federated | FederatedStatistic:
    """The fitted estimator that a results folder holds.

    Every file is compared with the hash in its manifest first; a folder that is damaged, or is no results folder, is
    refused (``StorageError``). Nothing is unpickled.

    Parameters
    ----------
    folder : path
        ``results/JOB/parties/NAME`` for what that party holds, or ``results/JOB``.

    Returns
    -------
    FederatedSVD, FederatedPCA, FederatedLSA, FederatedLinearRegression, FederatedRidgeCV, FederatedGLM, \
    FederatedLogisticRegression, FederatedCCA, FederatedPCR or FederatedStatistic
        As after ``fit``: attributes that need what the folder does not hold are missing, and say who has them.

    Examples
    --------
    After ``fedsvd run job.toml`` in this folder:

    >>> import fedsvd
    >>> pca = fedsvd.load("results/three-hospitals/parties/hospital-a")
    >>> pca.components_.shape, len(pca.parties_)
    ((2, 5), 1)
    """
    here, parts = results_in(Path(folder))
    if here.not_finished:
        warnings.warn(here.not_finished, stacklevel=2)
    if here.of_a_role:
        raise ConfigError(f"{folder} holds the accounts of the {here.reader}, and no result", "load a party's folder")
    if here.plan.foreign is not None:
        return statistic_from(here)
    found = of_results(here, parts)
    kind = _kind(here, found.complete)
    estimator = kind(**_parameters(here, kind))
    _describe(estimator, here, found.parts)
    store(estimator, found)
    if not found.parts:
        estimator._elsewhere = f"this folder has what all parties share; {_listed(here.names)} have their own"
    return _prepares(estimator, here, parts)


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _prepares(found: Federated, here: PartyResult, parts: Sequence[PartyResult]) -> Federated:
    """The estimator with what prepares new tables as those of its study were, where they were prepared."""
    if "preparation" not in here.facts and not any("table" in each.facts for each in (here, *parts)):
        return found
    if here.split is Split.VERTICAL:
        found.preparation_ = tuple(partial(_new_rows, part, part) for part in parts)
    else:  # new rows are mapped as that party's were whose folder it is; a folder of all does not say whose they are
        found.preparation_ = (partial(_new_rows, with_recipe(here, parts), here),)
    return found


def _new_rows(model: PartyResult, mapped_as: PartyResult, X: Any) -> MatrixSource:
    """New rows as those of a study were mapped and prepared."""
    return new_data(model, open_mapped(X, map_of(mapped_as.facts.get("table", {}), "the result"))).table


def _kind(here: PartyResult, complete: bool) -> type[Federated]:
    """The estimator that the file of this task has for a result, or for one party's columns of it."""
    joint, part = import_module(f"fedsvd.estimators.{here.task}").estimators_of(here.plan)
    kind: type[Federated] = joint if complete or here.split is Split.HORIZONTAL else part
    return kind


def _parameters(here: PartyResult, kind: type[Federated]) -> dict[str, Any]:
    """The parameters of the fit, from the job file that the folder holds with every option."""
    job: dict[str, Any] = dict(here.file.get("job", {}))
    said: dict[str, Any] = {
        option.name(ESTIMATOR): job[option.key] for option in section_of("job") if option.key in job
    }
    trust = "peers" if here.file.get("authority") is None else "authority"
    masks = Masks(**here.file.get("masks", {}), trust=trust)
    said |= {"masks": None if masks == Masks() else masks, "federation": Simulation(here.plan.k, job.get("memory"))}
    said["release_spectrum"] = here.plan.releases(Item.SPECTRUM)
    if share_in(str(said.get("n_components", ""))):
        said["n_components"] = float(said["n_components"])
    if here.plan.label_user:
        said["label_party"] = here.plan.label_user - 1
    match = here.file.get("match") or {}
    if match.get("align") is not None:
        usual = MatchSection.model_validate({"align": match["align"]}).model_dump(mode="json")
        asked = {key: value for key, value in match.items() if key == "align" or value != usual[key]}
        said["align"] = asked if len(asked) > 1 else match["align"]
    about = here.plan.glm
    if about is not None and about.classes > 2:
        said["multi_class"] = "multinomial" if about.facts.each_class else "ovr"
    usual = kind().get_params()
    # A job file has no tuples: what lists nothing there is the parameter's default.
    return {key: usual[key] if value == [] else value for key, value in said.items() if key in usual}


def _describe(found: Federated, here: PartyResult, parts: Sequence[PartyResult]) -> None:
    """Number and names of the features, which ``fit`` takes from the tables."""
    names: list[str] | None = list(here.features or ()) or None
    found.n_features_in_ = here.plan.m
    if here.split is Split.VERTICAL and not parts:
        found.n_features_in_, names = here.plan.n, None
    elif here.split is Split.VERTICAL:
        widths = [here.plan.counts[(part.index or 1) - 1] for part in parts]
        found.n_features_in_ = sum(widths)
        joined = [name for part in parts for name in part.features or ()]
        names = joined if len(set(joined)) == sum(widths) > 0 else None
    if names is not None:
        found.feature_names_in_ = np.array(names, dtype=object)
