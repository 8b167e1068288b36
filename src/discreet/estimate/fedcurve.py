r"""The ROC and PR curves of Xu and Cormode (2025), from quantiles of each class.

A b-ary tree of height :math:`h = \lceil \log_b Q \rceil + c` over equal-width
leaves, eps/h a level, is made consistent; Q quantiles a class are read off it; an
ECDF is drawn through each class's quantiles; and

.. math::
    F(s) = 1 - \Phi^-(s), \qquad T(s) = 1 - \Phi^+(s), \qquad
    P(s) = \frac{T(s)\,n^+}{T(s)\,n^+ + F(s)\,n^-}

(equations 1 to 3). It is here to be selected and compared with: at these sizes a
flat histogram with the whole budget on each class has about half its area error.

What the paper's text leaves open is settled as in its released code: the tree
search (``tree_quantiles``), no root count, class totals from the consistent tree.
One thing is not: that code hands one seed to every client and every level, so
that all of them draw the *same* noise. Shares of one variance V that should add
up to n V then have the variance n^2 V of n times a single one; measured 9.25
times at 10 clients.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np

from discreet.arrays import FloatVector
from discreet.errors import PlanError, ReleaseError
from discreet.estimate.areas import trapezoid_area
from discreet.estimate.curves import Interpolation, Polyline, precision_of
from discreet.estimate.quantiles import (
    Ecdf,
    exact_quantiles,
    quantile_fractions,
    tree_quantiles,
)
from discreet.statistic.hierarchy import Hierarchy
from discreet.statistic.tree import NoisyTree

Strategy: TypeAlias = Literal["separate", "combine"]
_PIECES: Final = 16


def tree_height(quantiles: int, branching: int = 2, *, extra: int = 2) -> int:
    r"""Return :math:`h = \lceil \log_b Q \rceil + c` (Xu 2025, section 3.2).

    The paper uses b = 2 and c = 2, and says that c is "typically 2 or 3".

    >>> [tree_height(q) for q in (32, 128, 1000, 1024)]
    [7, 9, 12, 12]
    """
    if quantiles < 2 or branching < 2 or extra < 0:
        raise PlanError("need 2 quantiles, a branching of 2 and an extra height of 0")
    levels, leaves = 1, branching
    while leaves < quantiles:  # in integers: a logarithm may round across a power
        levels, leaves = levels + 1, leaves * branching
    return levels + extra


class Trace(NamedTuple):
    """Points of the curves from (0, 0) to (1, 1); precision 1 where none is found."""

    fpr: FloatVector
    tpr: FloatVector
    precision: FloatVector


@dataclass(frozen=True, eq=False)
class ScorePath:
    """A curve (x, y) traced by the threshold, from the highest one down.

    ``kind`` names the axes. Between the knots of the ECDFs it is drawn as
    finely as asked; a jump of an ECDF is a straight line, as ties are.
    """

    curves: ScoreCurves
    kind: Literal["roc", "pr"]

    @property
    def piecewise_linear(self) -> bool:
        """Whether straight lines between the knots are the curve."""
        ecdfs = (self.curves.negatives, self.curves.positives)
        linear = all(ecdf.interpolation == "linear" for ecdf in ecdfs)
        return self.kind == "roc" and linear

    def polyline(self, pieces: int) -> Polyline:
        """Cut each gap between knots into ``pieces``."""
        traced = self.curves.trace(pieces)
        if self.kind == "roc":
            return Polyline(traced.fpr, traced.tpr)
        return Polyline(traced.tpr, traced.precision)


@dataclass(frozen=True, eq=False)
class ScoreCurves:
    """ROC and PR curves from the score distributions of the two classes.

    ``everyone`` is the ECDF of all examples where the ``combine`` strategy
    reads the number of predicted positives from it, else None.
    """

    negatives: Ecdf
    positives: Ecdf
    total_negatives: float
    total_positives: float
    everyone: Ecdf | None = None

    def __post_init__(self) -> None:
        if self.total_negatives <= 0 or self.total_positives <= 0:
            raise ReleaseError(
                "a class total is not positive: too few examples for this epsilon"
            )

    @property
    def roc(self) -> ScorePath:
        """The ROC curve."""
        return ScorePath(self, "roc")

    @property
    def pr(self) -> ScorePath:
        """The PR curve."""
        return ScorePath(self, "pr")

    @cached_property
    def _knots(self) -> FloatVector:
        ecdfs = [self.negatives, self.positives]
        if self.everyone is not None:
            ecdfs.append(self.everyone)
        knots: FloatVector = np.unique(np.concatenate([e.places for e in ecdfs]))
        return knots

    def trace(self, pieces: int) -> Trace:
        """Return the curve's points, every gap between knots cut into ``pieces``.

        ``separate`` divides the true positives by the sum of both classes;
        ``combine`` by the number of all examples above the threshold, read from
        quantiles of the merged release, and clips at 1. Both cost the same
        budget. The paper finds ``separate`` better, since its ratio cannot
        exceed 1.
        """
        f = self._survival(self.negatives, pieces)
        t = self._survival(self.positives, pieces)
        true_positives = self.total_positives * t
        if self.everyone is None:
            false_positives = self.total_negatives * f
        else:
            total = self.total_negatives + self.total_positives
            predicted = total * self._survival(self.everyone, pieces)
            false_positives = predicted - true_positives
        found = precision_of(true_positives, false_positives)
        precision = np.clip(np.where(np.isnan(found), 1.0, found), 0.0, 1.0)
        return Trace(f, t, precision)

    @cached_property
    def auc(self) -> float:
        """Area under the ROC curve."""
        traced = self.trace(1 if self.roc.piecewise_linear else _PIECES)
        return trapezoid_area(traced.fpr, traced.tpr)

    @cached_property
    def average_precision(self) -> float:
        """Average precision: the area under the PR curve, a step at each jump.

        The papers sum steps over 10,000 thresholds, which comes to the same.
        """
        traced = self.trace(_PIECES)
        rises = np.diff(traced.tpr)
        before, after = traced.precision[:-1], traced.precision[1:]
        jumps = np.arange(rises.size) % (_PIECES + 1) == 0
        return float(rises @ np.where(jumps, after, (before + after) / 2))

    def _survival(self, ecdf: Ecdf, pieces: int) -> FloatVector:
        """Return 1 - ECDF downwards: 0, ``pieces`` + 1 points a gap, 1.

        Both limits at each knot: points 0 and 1, and so on every ``pieces`` + 1,
        are the two ends of a jump.
        """
        knots = self._knots
        steps = np.arange(1, pieces) / pieces
        inner = (knots[:-1, None] + np.diff(knots)[:, None] * steps).ravel()
        inside = ecdf.at(inner).reshape(knots.size - 1, pieces - 1)
        start, stop = ecdf.at(knots[:-1]), ecdf.before(knots[1:])
        rising = np.column_stack([start, inside, stop]).ravel()
        whole = np.concatenate([[0.0], np.maximum.accumulate(rising), [1.0]])
        return 1.0 - whole[::-1]


@dataclass(frozen=True, slots=True)
class FedCurve:
    """The estimator of Xu and Cormode (2025): quantiles of a consistent tree.

    ``hierarchy`` is the statistic that a plan must release for it.

    >>> FedCurve(quantiles=128).hierarchy().height
    9
    """

    quantiles: int = 128
    branching: int = 2
    extra_height: int = 2
    interpolation: Interpolation = "pchip"
    strategy: Strategy = "separate"

    def __post_init__(self) -> None:
        tree_height(self.quantiles, self.branching, extra=self.extra_height)

    @property
    def name(self) -> str:
        """How a result names it."""
        return (
            f"Xu and Cormode 2025, {self.quantiles} quantiles, "
            f"{self.interpolation}, {self.strategy}"
        )

    @property
    def height(self) -> int:
        """The height of the tree; each level has eps/height."""
        return tree_height(self.quantiles, self.branching, extra=self.extra_height)

    def hierarchy(self) -> Hierarchy:
        """Return the tree over equal-width leaves of [0, 1]."""
        return Hierarchy.over_unit_interval(self.branching, self.height)

    def curves(self, observed: NoisyTree) -> ScoreCurves:
        """Return the curves from a released tree."""
        tree = observed.consistent
        total_negatives, total_positives = tree.totals
        everyone = self._ecdf(tree, tree.merged) if self.strategy == "combine" else None
        return ScoreCurves(
            self._ecdf(tree, tree.negatives),
            self._ecdf(tree, tree.positives),
            total_negatives,
            total_positives,
            everyone,
        )

    def exact_curves(
        self, negatives: FloatVector, positives: FloatVector
    ) -> ScoreCurves:
        """Return the curves from exact quantiles (EQ): a reference, not private."""
        fractions = quantile_fractions(self.quantiles)

        def ecdf(scores: FloatVector) -> Ecdf:
            return Ecdf.through(exact_quantiles(scores, fractions), self.interpolation)

        together = np.concatenate([negatives, positives])
        return ScoreCurves(
            ecdf(negatives),
            ecdf(positives),
            float(negatives.size),
            float(positives.size),
            ecdf(together) if self.strategy == "combine" else None,
        )

    def _ecdf(self, tree: NoisyTree, levels: tuple[FloatVector, ...]) -> Ecdf:
        fractions = quantile_fractions(self.quantiles)
        found = tree_quantiles(levels, tree.edges, fractions)
        return Ecdf.through(found, self.interpolation)


PAPER_QUANTILES: Final = (32, 128, 1024)
"""The numbers of quantiles at which the papers' method is compared here."""
PAPER_PRESET: Final = FedCurve(quantiles=1024)
"""The largest setting that section 3.2 of the paper works out: h = 12, 8,190 counts."""
