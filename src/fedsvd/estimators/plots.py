"""``plot`` of a fitted estimator: its drawings with Matplotlib, those of ``report.html`` and of ``--figures``.

What is drawn is data of the result (``results/drawings``). Drawings of records are of those that are here: of a party's
folder its own, of a study in this process those of all parties. An estimator keeps no table: fitted values and
residuals are those that a party's folder has, or are made of rows that the caller gives.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedsvd.errors import ConfigError
from fedsvd.estimators.rows import joint_labels
from fedsvd.estimators.stored import Found
from fedsvd.estimators.tables import are_parties, parts_like_fitted
from fedsvd.estimators.target import target_in
from fedsvd.protocol.families import Outcome
from fedsvd.protocol.outputs import Kind
from fedsvd.protocol.tasks import Split
from fedsvd.results.drawings.axes import on_axes
from fedsvd.results.drawings.declared import expected, offered
from fedsvd.results.drawings.picture import USUAL, Wish
from fedsvd.results.result import PartyResult

_NOT_OF_GIVEN_ROWS = ("leverage", "standardised_residuals", "roc")


class Plots:
    """The drawings of one fitted estimator; each returns Matplotlib axes.

    ``ax`` are axes to draw on; without, every drawing has a figure of its own.
    """

    def __init__(self, estimator: Any) -> None:
        self._estimator = estimator

    def __repr__(self) -> str:
        return f"Plots({', '.join(offered(self._found.here))})"

    # --- descriptions -------------------------------------------------------------------------------------------------

    def love(self, *, ax: Any = None) -> Any:
        """Absolute standardised differences of every variable."""
        return self._drawn("love", ax)

    def histogram(self, name: str, *, ax: Any = None) -> Any:
        """The histogram of one number, a staircase to each group."""
        drawn = [picture.of for picture in expected(self.result, "histogram")]
        if name not in drawn:
            raise ConfigError(f"there is no histogram of {name!r}", f"one of {', '.join(drawn)}")
        return self._drawn("histogram", ax, place=drawn.index(name))

    # --- components ---------------------------------------------------------------------------------------------------

    def scree(self, *, ax: Any = None) -> Any:
        """The variance, or singular value, of each component."""
        return self._drawn("scree", ax)

    def cumulative(self, *, ax: Any = None) -> Any:
        """The share of the variance that the first components hold together."""
        return self._drawn("cumulative", ax)

    def loadings(self, component: int = 1, *, ax: Any = None) -> Any:
        """The features that weigh most in one of the first three components."""
        return self._drawn("loadings", ax, place=component - 1)

    def features(self, *, ax: Any = None) -> Any:
        """The features by their loadings on the first two components."""
        return self._drawn("features", ax)

    def scores(self, *, colour: Any = None, components: tuple[int, int] = (1, 2), ax: Any = None) -> Any:
        """Records in two components.

        Parameters
        ----------
        colour : "party", or array-like with one value per record, default=None
            What colours the records: ten words at most, or numbers.
        components : tuple of two int, default=(1, 2)
        ax : matplotlib.axes.Axes, default=None

        Returns
        -------
        matplotlib.axes.Axes
        """
        return self._drawn("scores", ax, Wish(components=components, colour=self._colours(colour)))

    def biplot(self, *, colour: Any = None, components: tuple[int, int] = (1, 2), ax: Any = None) -> Any:
        """Records, and the features as arrows, in two components; parameters are those of ``scores``."""
        return self._drawn("biplot", ax, Wish(components=components, colour=self._colours(colour)))

    def outliers(self, *, ax: Any = None) -> Any:
        """T2 and Q of own records, with their limits."""
        return self._drawn("outliers", ax)

    def correlations(self, *, ax: Any = None) -> Any:
        """Canonical correlations; of a PCA with all components the correlations of the features."""
        return self._drawn("correlations", ax)

    def canonical_loadings(self, component: int = 1, *, ax: Any = None) -> Any:
        """Correlations of a party's own columns with its own scores, of one of the first two canonical variables."""
        return self._drawn("canonical_loadings", ax, place=component - 1)

    # --- curves -------------------------------------------------------------------------------------------------------

    def survival(self, *, ax: Any = None) -> Any:
        """Survival curves of all groups with their intervals, and numbers at risk; censoring is not marked."""
        return self._drawn("survival", ax)

    # --- models -------------------------------------------------------------------------------------------------------

    def forest(
        self,
        target: int = 0,
        *,
        exponentiate: bool = False,
        standardised: bool = False,
        level: float = 0.95,
        ax: Any = None,
    ) -> Any:
        """Coefficients with their confidence intervals.

        Parameters
        ----------
        target : int, default=0
            Of which target, or class, where there are several.
        exponentiate : bool, default=False
            Odds ratios, rate ratios or ratios of means, on an axis of equal factors.
        standardised : bool, default=False
            For one standard deviation of each feature, largest first, instead of one of its own units.
        level : float, default=0.95
        ax : matplotlib.axes.Axes, default=None

        Returns
        -------
        matplotlib.axes.Axes
        """
        return self._drawn("forest", ax, Wish(exponentiate, standardised, level), target)

    def coefficients(self, target: int = 0, *, ax: Any = None) -> Any:
        """Bars of the largest coefficients of a linear regression."""
        return self._drawn("coefficients", ax, place=target)

    def ridge(self, *, ax: Any = None) -> Any:
        """The error of every penalty that was tried."""
        return self._drawn("ridge", ax)

    def roc(self, X: Any = None, y: Any = None, *, target: int = 0, ax: Any = None) -> Any:
        """The ROC curve: of all parties' records (``roc=5``), of own ones, or of rows that are given.

        The title says of which. In a party's folder own records are a second line next to those of all parties.

        Parameters
        ----------
        X, y : as in ``score``, default=None
            Without them the result must have counts of all parties, or fitted values: ``fedsvd.load`` of a party's
            folder.
        target : int, default=0
            Of which class, where there are several.
        ax : matplotlib.axes.Axes, default=None

        Returns
        -------
        matplotlib.axes.Axes
        """
        return self._drawn("roc", ax, place=target, rows=(X, y))

    def calibration(self, X: Any = None, y: Any = None, *, target: int = 0, ax: Any = None) -> Any:
        """How often records have the outcome against how probable it was; parameters are those of ``roc``."""
        return self._drawn("calibration", ax, place=target, rows=(X, y))

    def residuals(self, X: Any = None, y: Any = None, *, target: int = 0, ax: Any = None) -> Any:
        """Residuals against fitted values; parameters are those of ``roc``."""
        return self._drawn("residuals", ax, place=target, rows=(X, y))

    def qq(self, X: Any = None, y: Any = None, *, target: int = 0, ax: Any = None) -> Any:
        """Residuals against quantiles of a normal law; parameters are those of ``roc``."""
        return self._drawn("qq", ax, place=target, rows=(X, y))

    def caterpillar(self, effect: int = 0, *, ax: Any = None) -> Any:
        """Predicted random effects of own groups, from the lowest on: of intercepts, or of a slope."""
        return self._drawn("caterpillar", ax, place=effect)

    def leverage(self, target: int = 0, *, ax: Any = None) -> Any:
        """How much each own record pulls the joint fit towards itself."""
        return self._drawn("leverage", ax, place=target)

    # --- what is drawn ------------------------------------------------------------------------------------------------

    @property
    def _found(self) -> Found:
        found: Found = self._estimator._found
        return found

    def _drawn(
        self, name: str, ax: Any, wish: Wish = USUAL, place: int = 0, rows: tuple[Any, Any] = (None, None)
    ) -> Any:
        result = self.result
        if rows[0] is not None:
            result = self.of_rows(*rows)
        pictures = expected(result, name, wish)
        if place not in range(len(pictures)):
            raise ConfigError(f"there is no {name} number {place}", f"between 0 and {len(pictures) - 1}")
        return on_axes(pictures[place], ax)

    @property
    def result(self) -> PartyResult:
        """What is drawn: the result of the reader, or what all parties have where all are in this process."""
        found, estimator = self._found, self._estimator
        here, facts = found.here, dict(found.here.facts)
        arrays, reader = dict(here.arrays), here.reader
        if len(found.parts) > 1:
            stored = [output.name for output in here.outputs if output.kind is Kind.ARRAY and found.has(output.name)]
            arrays, reader = {name: found.array(name) for name in stored}, None
        objects = dict(here.objects)
        if getattr(estimator, "inference_", ()):
            objects |= dict.fromkeys(("inference", "models"), estimator.inference_)
        if hasattr(estimator, "classes_"):
            facts["classes"] = [str(name) for name in estimator.classes_]
        if found.known.get("columns"):
            facts["columns"] = found.known["columns"]
        names = getattr(estimator, "feature_names_in_", None)
        features = here.features if names is None else tuple(map(str, names))
        targets = found.targets or here.targets
        return replace(
            here, arrays=arrays, facts=facts, objects=objects, features=features, targets=targets, reader=reader
        )

    def of_rows(self, X: Any, y: Any) -> PartyResult:
        """What is drawn where rows are given: the result with their fitted values and residuals in place of its own."""
        result = self.result
        about = result.plan.glm
        if about is not None and about.facts.outcome is Outcome.TIMES:
            raise ConfigError("residuals of times need the risk sets of the fit", "load a party's folder: fedsvd.load")
        estimator, classes = self._estimator, getattr(self._estimator, "classes_", None)
        X, target = target_in(X, y, Split(estimator.split), classes=classes is not None)
        values, counts = target.values, [part.source.shape[0] for part in parts_like_fitted(estimator, X)]
        counts = counts[:1] if result.split is Split.VERTICAL else counts
        if classes is not None:
            codes = np.concatenate([np.ravel(part) for part in values]) if are_parties(X) else np.ravel(values)
            observed = (codes[:, None] == np.asarray(classes)[None, :]).astype(np.float64)
            fitted = estimator.predict_proba(X)
            if len(classes) == 2:
                observed, fitted = observed[:, 1:], fitted[:, 1:]
        else:
            observed = joint_labels(values, counts)
            observed = observed.reshape(len(observed), -1)
            fitted = np.asarray(estimator.predict(X)).reshape(len(observed), -1)
        arrays = {name: values for name, values in result.arrays.items() if name not in _NOT_OF_GIVEN_ROWS}
        arrays |= {"fitted": fitted, "residuals": observed - fitted}
        return replace(result, arrays=arrays, objects={**result.objects, "records": "records given"})

    def _colours(self, colour: Any) -> tuple[object, ...]:
        if colour is None:
            return ()
        if isinstance(colour, str):
            if colour != "party":
                raise ConfigError(f"colour is {colour!r}", '"party", or one value for each record')
            return tuple(self._parties())
        return tuple(np.asarray(colour).tolist())

    def _parties(self) -> Sequence[str]:
        """The party of each record that is drawn."""
        plan, names = self._found.plan, self._found.here.names
        if plan.split is Split.VERTICAL:
            raise ConfigError("every party has every record", "colour them by a value of each")
        shown = [part.index for part in self._found.parts] if len(self._found.parts) > 1 else [self._found.here.index]
        places = [place for place in shown if place is not None]
        return [name for place in places for name in [names[place - 1]] * plan.counts[place - 1]]
