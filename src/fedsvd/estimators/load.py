"""``fedsvd.load``: a fitted estimator from a results folder.

A party's folder gives what that party gets; the folder of a job, as the simulation leaves it, gives all of it when the
parties' folders are inside, and what all share when they are not. Where columns are split, one party's part is no model
of the joint table: its estimator shows the coefficients or components, and refuses to apply them alone.
"""

import os
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fedsvd.cost.estimate import least_memory
from fedsvd.errors import ConfigError
from fedsvd.estimators.base import Federated, padded
from fedsvd.estimators.cca import FederatedCCA, PartyCanonical
from fedsvd.estimators.glm import FederatedGLM
from fedsvd.estimators.linear_model import PartyCoefficients
from fedsvd.estimators.linear_regression import FederatedLinearRegression
from fedsvd.estimators.logistic_regression import FederatedLogisticRegression
from fedsvd.estimators.lsa import FederatedLSA
from fedsvd.estimators.matched import words_in
from fedsvd.estimators.pca import FederatedPCA, PartyScores
from fedsvd.estimators.pcr import FederatedPCR
from fedsvd.estimators.ridge_cv import FederatedRidgeCV
from fedsvd.estimators.svd import FederatedSVD
from fedsvd.prepare.record_ids import of_text
from fedsvd.protocol.tasks import Family, Ids, Item, Split, Task, share_in
from fedsvd.results.canonical_tables import OWN_ARRAYS, tests_from
from fedsvd.results.component_tables import component_models
from fedsvd.results.model_table import classes_of
from fedsvd.results.model_table import models_of as glm_models
from fedsvd.results.regression_table import models_of
from fedsvd.results.result import PartyResult
from fedsvd.results.write import party_folders, read_result
from fedsvd.statistics.components import Choice
from fedsvd.studies.planning import DEFAULT_MEMORY
from fedsvd.studies.predict import new_data, with_recipe
from fedsvd.types import Float


def load(folder: str | os.PathLike[str]) -> Federated:
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
    FederatedLogisticRegression, FederatedCCA or FederatedPCR
        As after ``fit``: attributes that need what the folder does not hold are missing.

    Examples
    --------
    After ``fedsvd run job.toml`` in this folder:

    >>> import fedsvd
    >>> pca = fedsvd.load("results/three-hospitals/parties/hospital-a")
    >>> pca.components_.shape, len(pca.parties_)
    ((2, 5), 1)
    """
    here = read_result(Path(folder))
    if here.not_finished:
        warnings.warn(here.not_finished, stacklevel=2)
    if here.of_a_role:
        raise ConfigError(f"{folder} holds the accounts of the {here.reader}, and no result", "load a party's folder")
    if here.party is not None:
        return _prepares(_BUILD[here.task](here, [here]), here, [here])
    parts = [read_result(path) for path in party_folders(Path(folder))]
    return _prepares(_BUILD[here.task](here, parts if len(parts) == here.plan.k else []), here, parts)


def _prepares(found: Federated, here: PartyResult, parts: Sequence[PartyResult]) -> Federated:
    """The estimator with what prepares new tables as those of its study were, where they were prepared."""
    if "preparation" in here.facts and here.split is Split.VERTICAL:
        found.preparation_ = tuple(partial(new_data, part) for part in parts)
    elif "preparation" in here.facts:
        found.preparation_ = (partial(new_data, with_recipe(here, parts)),)
    return found


class PartOfSVD(FederatedSVD):
    """One party's part of an SVD of split columns: not to be applied alone."""

    def transform(self, X: Any) -> Float:
        """Refused: coordinates need the columns of all parties."""
        raise _only_a_part("components")


class PartOfLSA(FederatedLSA):
    """One party's part of an LSA of split columns: not to be applied alone."""

    def transform(self, X: Any) -> Float:
        """Refused: coordinates need the columns of all parties."""
        raise _only_a_part("components")


class PartOfCCA(FederatedCCA):
    """One party's part of a CCA: its own variables, not the common ones of new samples."""

    def transform(self, X: Any) -> Float:
        """Refused: the common variables of new samples need the columns of all parties."""
        raise _only_a_part("weights")


class PartOfLinearRegression(FederatedLinearRegression):
    """One party's coefficients of a regression on split columns: not to be applied alone."""

    def predict(self, X: Any) -> Float:
        """Refused: a prediction is the sum over all parties."""
        raise _only_a_part("coefficients")


def _only_a_part(what: str) -> ConfigError:
    return ConfigError(
        f"these are the {what} of one party's columns, and mean little without the others'",
        "run fedsvd predict with all parties, or load the folder of the job",
    )


def _factors(here: PartyResult, parts: Sequence[PartyResult]) -> Federated:
    """SVD or LSA: the shared factor, and the pieces of the other one that are here."""
    plan, complete = here.plan, len(parts) == here.plan.k
    kinds: tuple[Any, Any] = (FederatedSVD, PartOfSVD) if here.task is Task.SVD else (FederatedLSA, PartOfLSA)
    by_rows = here.split is Split.HORIZONTAL
    square = {"full_matrices": plan.full_matrices} if here.task is Task.SVD else {}
    found = kinds[int(not by_rows and not complete)](plan.components, **square, **_common(here))
    sigma = here.arrays["singular_values"]
    wanted = plan.components or min(plan.m, plan.n)
    shared, other = ("components", "left_vectors") if by_rows else ("left_vectors", "components")
    axis = 0 if by_rows else 1
    pieces = [part.arrays[other] for part in parts if other in part.arrays]
    empty = np.zeros((0, len(sigma))) if by_rows else np.zeros((len(sigma), 0))
    arrays = {shared: here.arrays[shared], other: np.concatenate(pieces, axis=axis) if pieces else empty}
    found.components_ = padded(arrays["components"], wanted, axis=0)
    found.U_ = padded(arrays["left_vectors"], wanted, axis=1)
    found.singular_values_ = padded(sigma, wanted, axis=0)
    found.rank_ = here.rank
    if complete and pieces:
        found._explain(wanted == min(plan.m, plan.n))
    return _described(found, here, parts)


def _pca(here: PartyResult, parts: Sequence[PartyResult]) -> Federated:
    plan, arrays = here.plan, here.arrays
    spectrum = plan.releases(Item.SPECTRUM)
    asked = float(plan.components_by) if share_in(plan.components_by) else plan.components_by or plan.components
    found = FederatedPCA(asked, unit_variance=plan.unit_variance, release_spectrum=spectrum, **_common(here))
    wanted = plan.components or min(plan.m, plan.n)
    if plan.components_by:
        wanted = here.facts["choice"]["count"]
    found.rank_, found.n_components_, found.n_samples_ = here.rank, wanted, plan.n
    found.mean_ = arrays["mean"]
    found.components_ = padded(arrays["components"], wanted, axis=0)
    if "scale" in arrays:
        found.scale_ = np.where(arrays["scale"] > 0, arrays["scale"], 1.0)
    _described(found, here, parts)
    if spectrum:
        sigma = arrays["singular_values"]
        found._explain(padded(sigma[:wanted], wanted, axis=0), here.facts["total_energy"])
        if plan.components is None:
            found.left_out_singular_values_ = sigma[wanted:]
    if plan.components_by:
        found.choice_ = Choice(plan.components_by, wanted, arrays.get("spectrum_threshold"))
    own = (part.arrays["scores"] for part in parts if "scores" in part.arrays)
    found.parties_ = tuple(PartyScores(found.mean_, arrays["components"], scores) for scores in own)
    return found


def _regression(here: PartyResult, parts: Sequence[PartyResult]) -> Federated:
    plan, vertical = here.plan, here.split is Split.VERTICAL
    if vertical and not parts:
        raise ConfigError("this folder holds the intercept alone", "load the folder of a party, or of the job")
    found = _ridge_cv(here) if plan.alphas else _least_squares(here, parts)
    found.target_names_ = here.targets
    flat = plan.targets == 1
    pieces = [part.arrays["coefficients"] for part in parts] if vertical else [here.arrays["coefficients"]]
    coefficients = np.concatenate(pieces, axis=1)
    intercept = here.arrays["intercept"]
    found.coef_ = coefficients[0] if flat else coefficients
    found.intercept_ = (float(intercept[0]) if flat else intercept) if plan.centre else 0.0
    found.rank_ = here.rank
    held = [_party_coefficients(part, flat, found.intercept_) for part in parts]
    found.parties_ = tuple(held)
    return _described(found, here, parts)


def _model(here: PartyResult, parts: Sequence[PartyResult]) -> Federated:
    """A generalised linear model, which all parties share: a classifier where its target has classes."""
    plan, about, W = here.plan, here.plan.glm, here.arrays["coefficients"]
    if about is None:
        raise ConfigError("this folder's plan has no model", "take the results from a backup")
    common = {key: value for key, value in _common(here).items() if key in ("trust", "memory", "n_parties")}
    common |= {"link": about.link, "fit_intercept": plan.centre, "tolerance": about.tolerance}
    found: Any
    if about.classes:
        several = "multinomial" if about.family is Family.MULTINOMIAL or about.classes == 2 else "ovr"
        found = FederatedLogisticRegression(
            plan.alpha, multi_class=several, max_iterations=about.max_iterations, **common
        )
        found.classes_ = np.array(classes_of(here))
        found.coef_, found.intercept_ = W, here.arrays["intercept"]
    else:
        found = FederatedGLM(str(about.family), alpha=plan.alpha, max_iterations=about.max_iterations, **common)
        found.coef_, found.intercept_ = W[0], float(here.arrays["intercept"][0]) if plan.centre else 0.0
    found.inference_, found.rank_ = glm_models(here), here.rank
    found.n_iter_ = max(model.iterations for model in found.inference_)
    found.target_name_, found.offset_ = here.targets[0], (here.facts.get("columns") or {}).get("offset")
    return _described(found, here, parts)


def _least_squares(here: PartyResult, parts: Sequence[PartyResult]) -> FederatedLinearRegression:
    plan, vertical = here.plan, here.split is Split.VERTICAL
    kind = PartOfLinearRegression if vertical and len(parts) < plan.k else FederatedLinearRegression
    errors: dict[str, Any] = {"inference": plan.releases(Item.INFERENCE), "cov_type": plan.robust or "nonrobust"}
    holder = plan.label_user - 1 if vertical else None
    found = kind(plan.alpha, fit_intercept=plan.centre, **errors, label_party=holder, **_common(here))
    found.inference_ = models_of(here)
    return found


def _ridge_cv(here: PartyResult) -> FederatedRidgeCV:
    plan, said = here.plan, here.facts["ridge"]
    found = FederatedRidgeCV(plan.alphas, fit_intercept=plan.centre, choose_by=plan.chosen_by, **_common(here))
    path = np.moveaxis(here.arrays["ridge_path"], 1, 2)
    found._choose(np.asarray(plan.alphas), here.arrays["ridge_errors"], said["alpha"], path, plan.targets == 1)
    return found


def _party_coefficients(part: PartyResult, flat: bool, intercept: Float | float) -> PartyCoefficients:
    own, features = part.arrays["coefficients"], part.features
    constant = part.facts.get("constant_columns", [])
    places = tuple(features.index(name) if features else int(name.removeprefix("x")) for name in constant)
    return PartyCoefficients(own[0] if flat else own, intercept, places)


def _canonical(here: PartyResult, parts: Sequence[PartyResult]) -> Federated:
    """CCA: what all share, and the own columns of the parties that are here."""
    plan, complete = here.plan, len(parts) == here.plan.k
    kind = FederatedCCA if complete else PartOfCCA
    found = kind(plan.components, **_common(here))
    wanted = plan.planned_rank
    found.plan_ = plan
    found.rank_ = here.rank
    found.U_ = padded(here.arrays["left_vectors"], wanted, axis=1)
    found.singular_values_ = padded(here.arrays["singular_values"], wanted, axis=0)
    found.correlations_ = here.arrays["correlations"]
    if "no_tests" in here.facts:
        found.no_tests_ = here.facts["no_tests"]
    else:
        found.tests_ = tests_from(here.facts["wilks"])
    held = [_party_canonical(own) for own in parts if "weights" in own.arrays]
    if held:
        found._hold(held)
    return _described(found, here, parts)


def _party_canonical(part: PartyResult) -> PartyCanonical:
    weights, loadings, mean, scores = (part.arrays[name] for name in OWN_ARRAYS)
    return PartyCanonical(weights, loadings, mean, scores, part.facts["own_rank"])


def _component_regression(here: PartyResult, parts: Sequence[PartyResult]) -> Federated:
    plan, arrays = here.plan, here.arrays
    asked = float(plan.components_by) if share_in(plan.components_by) else plan.components_by or plan.components
    found = FederatedPCR(asked, unit_variance=plan.unit_variance, **_common(here))
    flat = plan.targets == 1
    found.coef_ = arrays["coefficients"][0] if flat else arrays["coefficients"]
    found.intercept_ = float(arrays["intercept"][0]) if flat else arrays["intercept"]
    found.components_, found.n_components_ = arrays["components"], len(arrays["components"])
    found.singular_values_ = arrays["singular_values"][: found.n_components_]
    found.mean_, found.n_samples_, found.target_names_ = arrays["mean"], plan.n, here.targets
    if "scale" in arrays:
        found.scale_ = np.where(arrays["scale"] > 0, arrays["scale"], 1.0)
    if plan.components_by:
        found.choice_ = Choice(plan.components_by, here.facts["choice"]["count"], arrays.get("spectrum_threshold"))
    found.inference_ = component_models(here)
    return _described(found, here, parts)


def _common(here: PartyResult) -> dict[str, Any]:
    """The parameters of the plan that every estimator has."""
    plan = here.plan
    return {
        "split": str(plan.split),
        "scheme": str(plan.scheme),
        "mode": None if plan.mode is None else str(plan.mode),
        "trust": str(plan.trust),
        "block_size": plan.block or None,
        "memory": None if plan.memory in (DEFAULT_MEMORY, least_memory(plan) if plan.compress else 0) else plan.memory,
        "n_parties": plan.k,
        **({} if plan.align is None else {"align": words_in(plan), "id": list(of_text(plan.id_rule).columns)}),
        **({} if plan.task in (Task.PCA, Task.PCR) else {"ids": str(Ids.TRUST if plan.trust_rows else Ids.COMPARE)}),
    }


def _described(found: Any, here: PartyResult, parts: Sequence[PartyResult]) -> Federated:
    """What every fitted estimator has: plan, certificate, number and names of features."""
    found.plan_, found.certificate_ = here.plan, here.certificate
    names: list[str] | None = list(here.features or ()) or None
    found.n_features_in_ = here.plan.m
    if here.split is Split.VERTICAL:
        widths = [here.plan.counts[(part.index or 1) - 1] for part in parts]
        found.n_features_in_ = sum(widths)
        joined = [name for part in parts for name in part.features or ()]
        names = joined if len(set(joined)) == sum(widths) > 0 else None
    if names is not None:
        found.feature_names_in_ = np.array(names, dtype=object)
    estimator: Federated = found
    return estimator


_BUILD: dict[Task, Callable[[PartyResult, Sequence[PartyResult]], Federated]] = {
    Task.SVD: _factors,
    Task.LSA: _factors,
    Task.PCA: _pca,
    Task.LR: _regression,
    Task.CCA: _canonical,
    Task.PCR: _component_regression,
    Task.GLM: _model,
}
