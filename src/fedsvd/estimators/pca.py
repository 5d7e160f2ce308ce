"""Principal component analysis of samples that several parties hold: section 4 of the paper, with C9 and C12."""

from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, Self

import numpy as np

from fedsvd.data.source import MatrixSource
from fedsvd.errors import ConfigError
from fedsvd.estimators.after_fit import data_frames, entries_of, not_here
from fedsvd.estimators.base import Federated, FederatedTransformer, one_of, projected
from fedsvd.estimators.parameters import documented
from fedsvd.estimators.stored import Found, padded
from fedsvd.estimators.tables import parts_like_fitted
from fedsvd.protocol.directions import by_share
from fedsvd.protocol.model import Digits
from fedsvd.protocol.plan import SessionPlan
from fedsvd.protocol.tasks import ComponentRule, Item, Task, is_rule
from fedsvd.statistics.components import Choice
from fedsvd.statistics.projection import Components, Outliers, outliers, standardised
from fedsvd.statistics.summary import Summary
from fedsvd.tasks.declared import declared
from fedsvd.types import Float

# Attributes that not every fit has: those of an earlier one must not stay.
_WHERE_RELEASED = (
    "scale_",
    "singular_values_",
    "explained_variance_",
    "explained_variance_ratio_",
    "noise_variance_",
    "left_out_singular_values_",
    "choice_",
)
_MISSING = ("error", "project")


@dataclass(frozen=True, repr=False)
class PartyScores:
    """After PCA: the mean and the components are shared, ``scores_`` (n_i, rank) are its own."""

    mean_: Float
    components_: Float
    scores_: Float

    def __repr__(self) -> str:
        return f"PartyScores(scores_={self.scores_.shape}, components_={self.components_.shape})"


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class FederatedPCA(FederatedTransformer):
    """Principal component analysis over samples that stay with their parties.

    The result is that of ``sklearn.decomposition.PCA(svd_solver="full")`` on the joint table, signs included: the
    parties agree on the mean by a sum that only they can read, and the Computation Service Provider factorises a
    masked matrix. What each party would hold is in ``parties_`` where all run in this process.

    Parameters
    ----------
    n_components : int, float, "mle", "parallel" or "gavish-donoho", default=None
        How many components; None for min(n_samples, n_features). Between 0 and 1, the least number that explains more
        than this share of the variance; "mle" is Minka's choice, "gavish-donoho" those above the optimal hard
        threshold, "parallel" those above the spectra of tables whose columns each party permuted (Horn), both one at
        least. Each of these four needs the whole spectrum: U and S go to all parties, as with None, and each party
        takes the first components locally. A share by ``masks=Masks("steps")`` is found without it.
    split : {"horizontal"}, default="horizontal"
        Parties hold different samples of the same features.
    unit_variance : bool, default=False
        Scale every feature to unit variance first, as ``StandardScaler`` does; constant features are left at zero.
    release_spectrum : bool, default=True
        Release the singular values to all parties. Without them the parties learn no more than the mean and the
        top subspace, and the attributes about explained variance are missing. ``fedsvd pca`` and job files release
        them only where ``release`` names ``spectrum``, so that ``auto`` may take another scheme there.
    whiten : bool, default=False
        Divide the coordinates that ``transform`` gives by their standard deviations; needs the spectrum.
    missing : {"error", "project"}, default="error"
        Rows with missing features (NaN) in ``transform``: refused, or projected by least squares on the features that
        they have. ``fit`` always refuses them.
    digits : {"auto", "table", "more", "all"}, default="auto"
        By ``masks=Masks("steps")``, how far vectors are found and how many digits are opened: "table" to residuals of
        1e-8 of the largest singular value, "more" 1e-11, "all" and "auto" 5e-14, as every other scheme gives them.
    {parameters}

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Orthonormal rows by falling variance; zero rows beyond ``rank_``.
    explained_variance_ : ndarray of shape (n_components,)
        Variance of the joint scores along each component.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        The same as fractions of the total variance.
    singular_values_ : ndarray of shape (n_components,)
        Of the centred joint table.
    noise_variance_ : float
        Mean variance of the directions left out.
    loadings_ : ndarray of shape (n_features, n_components)
        Covariances of the features with the components at unit variance; with ``unit_variance`` correlations.
    choice_ : Choice
        Where a rule found the number: ``rule``, ``count``, and the ``threshold`` of each singular value, if it has one.
    left_out_singular_values_ : ndarray
        Those of the components that were not taken, where all are known.
    mean_ : ndarray of shape (n_features,)
        Mean of the joint table.
    scale_ : ndarray of shape (n_features,)
        Standard deviations, 1 for constant features; with ``unit_variance`` only.
    n_components_, n_samples_, rank_ : int
        Counts; ``rank_`` is how many components are more than rounding, at most ``n_components_``.
    parties_ : tuple of PartyScores
        What each party would hold: the mean, the components, and its own ``scores_`` of shape ``(n_i, rank_)``.
    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> from fedsvd import FederatedPCA
    >>> a, b, c = np.array_split(np.random.default_rng(0).normal(size=(600, 5)), [150, 400])
    >>> pca = FederatedPCA(n_components=2).fit([a, b, c])
    >>> pca.components_.shape, [party.scores_.shape for party in pca.parties_]
    ((2, 5), [(150, 2), (250, 2), (200, 2)])
    >>> from sklearn.decomposition import PCA
    >>> twin = PCA(n_components=2, svd_solver="full").fit(np.vstack([a, b, c]))
    >>> bool(np.allclose(pca.components_, twin.components_, rtol=0, atol=1e-12))
    True
    """

    n_components: int | float | str | None = field(default=None, kw_only=False)
    split: str = "horizontal"
    unit_variance: bool = False
    release_spectrum: bool = True
    whiten: bool = False
    missing: str = "error"
    digits: str = "auto"

    def fit(self, X: Any, y: Any = None) -> Self:
        """Run the study.

        Parameters
        ----------
        X : list of one table per party, each of shape (n_i, n_features), or one table
            NumPy arrays, memory maps, pandas or polars frames, SciPy sparse matrices, paths, MatrixSource. One
            table is divided evenly among the parties of ``federation``.
        y : ignored

        Returns
        -------
        self
        """
        if self._between(Task.PCA, X):
            return self
        tables, _ = self._tables(X)
        one_of("missing", self.missing, _MISSING)
        rule = self._rule()
        wanted = min(tables.n_samples, tables.n_features) if rule else self._wanted(tables)
        if (rule or self.whiten) and not self.release_spectrum:
            asked = f"n_components = {self.n_components!r}" if rule else "whiten = True"
            fix = "release_spectrum=True, or leave it out and ask for a number of components"
            raise ConfigError(f"{asked} needs the singular values", fix)
        study = self._study(
            Task.PCA,
            tables,
            components=None if rule or self.n_components is None else wanted,
            components_by=rule,
            unit_variance=bool(self.unit_variance),
            digits=Digits(one_of("digits", self.digits, tuple(Digits))),
            release=declared(Task.PCA).released + ((Item.SPECTRUM,) if self.release_spectrum else ()),
        )
        outcome = self._run(study, tables.parties(), tables.rehearsed)
        self._store_run(outcome, tables)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Float:
        """Fit, then the joint scores: those the parties computed, one below the other.

        Parameters
        ----------
        X : as in ``fit``
        y : ignored

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        self.fit(X)
        joint = padded(np.concatenate([party.scores_ for party in self.parties_]), self.n_components_, axis=1)
        return joint / self._deviations() if self.whiten else joint

    def outliers(self, X: Any, *, level: float = 0.95, new: bool = False) -> Outliers:
        """Which of these rows stand out: Hotelling's T2 within the components, Q outside of them.

        Computed here, from rows that the caller holds, without a message.

        Parameters
        ----------
        X : as in ``transform``
        level : float, default=0.95
            The share of rows of a normal population that lies below each limit.
        new : bool, default=False
            Whether these rows are none of those that were fitted: the limit of T2 is then that of new rows.

        Returns
        -------
        Outliers
            ``t2``, ``q`` of each row and ``t2_limit``, ``q_limit``, each a number or the reason why there is none: the
            limit of Q needs the singular values that were left out, which a given number of components does not show.
        """
        self._expect_fitted()
        if not hasattr(self, "explained_variance_"):
            raise ConfigError("T2 needs the variances of the components", "fit with release_spectrum=True")
        own, values = self.components_[: self.rank_], self.singular_values_[: self.rank_]
        components = Components(own, values, np.zeros(self.n_features_in_), self.n_samples_)
        rows = standardised(self._dense(X), self.mean_, getattr(self, "scale_", None))
        others = getattr(self, "left_out_singular_values_", None)
        return outliers(components, rows, others, level=level, training=not new)

    def tidy(self, matrix: str = "eigenvalues") -> Any:
        """The components as a data frame with the names of R's broom.

        Parameters
        ----------
        matrix : {"eigenvalues", "rotation", "scores"}, default="eigenvalues"

        Returns
        -------
        pandas.DataFrame
            ``PC, std.dev, percent, cumulative`` (shares, not hundredths); ``column, PC, value`` of the rotation;
            ``row, PC, value`` of the scores that are here, the parties' one below the other.
        """
        self._expect_fitted()
        pandas = data_frames()
        one_of("matrix", matrix, ("eigenvalues", "rotation", "scores"))
        if matrix == "eigenvalues":
            if not hasattr(self, "explained_variance_"):
                raise ConfigError("the variances of the components were not released", "fit with release_spectrum=True")
            found, share = np.sqrt(self.explained_variance_), self.explained_variance_ratio_
            columns = {"std.dev": found, "percent": share, "cumulative": np.cumsum(share)}
            return pandas.DataFrame({"PC": np.arange(1, len(found) + 1), **columns})
        if matrix == "rotation":
            rows = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))
            return entries_of("column", rows, self.components_.T)
        if not self.parties_:
            raise not_here("scores")
        values = np.concatenate([party.scores_ for party in self.parties_])
        return entries_of("row", np.arange(1, len(values) + 1), values)

    def summary(self) -> Summary:
        """The importance of the components, as R's ``summary`` of ``prcomp`` has it.

        Returns
        -------
        Summary
            ``print`` shows it as text, a notebook as a table; ``to_latex()``, ``to_html()``, ``to_docx(path)``.
        """
        found = self.tidy()
        facts = {"rows": self.n_samples_, "features": self.n_features_in_, "components": len(found)}
        heads = {"standard deviation": "std.dev", "share of variance": "percent", "cumulative": "cumulative"}
        return Summary(
            "Principal components",
            tuple((name, str(value)) for name, value in facts.items()),
            tuple(f"PC{k}" for k in found["PC"]),
            {head: tuple(found[name].tolist()) for head, name in heads.items()},
            (),
        )

    @property
    def loadings_(self) -> Float:
        """Covariances of the features with the components at unit variance."""
        self._expect_fitted()
        found: Float = self.components_.T * np.sqrt(self.explained_variance_)
        return found

    def transform(self, X: Any) -> Float:
        """Coordinates of samples along the components.

        Parameters
        ----------
        X : array-like, frame, sparse matrix, path or MatrixSource of shape (n_samples, n_features), or a list
            A list has one table per party. With ``missing="project"`` entries may be NaN: such a row gets the scores
            that fit its other features best.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        self._expect_fitted()
        scores = self._projected(X) if self.missing == "project" else super().transform(X)
        return scores / self._deviations() if self.whiten else scores

    def _projected(self, X: Any) -> Float:
        rows = standardised(self._dense(X), self.mean_, getattr(self, "scale_", None))
        own = self.components_[: self.rank_]
        found = Components(own, np.ones(len(own)), np.zeros(self.n_features_in_), self.n_samples_)
        return padded(found.scores_of_incomplete(rows), self.n_components_, axis=1)

    def _dense(self, X: Any) -> Float:
        """Rows with all features, as numbers; NaN where one is missing, if that is allowed."""
        sources = [part.source for part in parts_like_fitted(self, X)]
        if self.missing == "project":
            return np.concatenate([source.raw(slice(None), slice(None)) for source in sources])
        return np.concatenate([source.rows(0, source.shape[0]) for source in sources])

    def _deviations(self) -> Float:
        """What whitening divides by; 1 where a component is zero."""
        found: Float = np.sqrt(np.where(self.explained_variance_ > 0, self.explained_variance_, 1.0))
        return found

    def _rule(self) -> str:
        """How the number of components is found from all singular values; "" where it is given."""
        asked: Any = self.n_components
        share = isinstance(asked, Real) and not isinstance(asked, Integral)
        if not share and not isinstance(asked, str):
            return ""
        if not is_rule(str(asked)) or (isinstance(asked, str) and asked not in tuple(ComponentRule)):
            allowed = f"a whole number, a share between 0 and 1, or one of {', '.join(ComponentRule)}"
            raise ConfigError(f"n_components is {asked!r}", allowed)
        return str(asked) if isinstance(asked, str) else repr(float(asked))

    def _store(self, found: Found) -> None:
        plan, arrays, wanted = found.plan, found.here.arrays, found.wanted
        self.rank_, self.n_components_, self.n_samples_ = found.here.rank, wanted, plan.n
        for earlier in _WHERE_RELEASED:
            self.__dict__.pop(earlier, None)
        if "scale" in arrays:
            self.scale_ = np.where(arrays["scale"] > 0, arrays["scale"], 1.0)
        if "singular_values" in arrays:
            sigma = arrays["singular_values"]
            self._explain(padded(sigma[:wanted], wanted, axis=0), found.fact("total_energy"))
            if (plan.components_by and not by_share(plan)) or wanted == found.most:
                self.left_out_singular_values_ = sigma[wanted:]
        if plan.components_by:
            self.choice_ = Choice(plan.components_by, wanted, arrays.get("spectrum_threshold"))
        own = (part.arrays["scores"] for part in found.parts if "scores" in part.arrays)
        self.parties_ = tuple(PartyScores(self.mean_, self.components_[: self.rank_], scores) for scores in own)

    def _explain(self, sigma: Float, total_energy: float) -> None:
        free = self.n_samples_ - 1
        total = total_energy / free
        left_out = min(self.n_samples_, self.n_features_in_) - len(sigma)
        self.singular_values_ = sigma
        self.explained_variance_ = sigma**2 / free
        self.explained_variance_ratio_ = self.explained_variance_ / (total or 1.0)
        rest = max(total - float(self.explained_variance_.sum()), 0.0)
        self.noise_variance_ = rest / left_out if left_out else 0.0

    def _coordinates(self, source: MatrixSource, columns: slice) -> Float:
        scale = getattr(self, "scale_", 1.0)
        return projected(source, (self.components_ / scale).T, self.mean_)

    def _samples(self, coordinates: Float) -> Float:
        if self.whiten:
            coordinates = coordinates * self._deviations()
        samples: Float = coordinates @ self.components_ * getattr(self, "scale_", 1.0) + self.mean_
        return samples


def estimators_of(plan: SessionPlan) -> tuple[type[Federated], type[Federated]]:
    """The estimator of a result, and that of one party's columns alone."""
    return FederatedPCA, FederatedPCA
