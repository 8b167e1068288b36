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
from typing import Final, Literal, TypeAlias

import numpy as np

from discreet.arrays import FloatVector
from discreet.errors import PlanError
from discreet.estimate.curves import Interpolation
from discreet.estimate.fit import Fit
from discreet.published.xu2025.quantiles import (
    Ecdf,
    exact_quantiles,
    quantile_fractions,
    tree_quantiles,
)
from discreet.published.xu2025.tree_fit import ScoreCurves, read_tree
from discreet.statistic.hierarchy import Hierarchy, NoisyTree
from discreet.statistic.observed import NoisyHistogram

Strategy: TypeAlias = Literal["separate", "combine"]


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

    def fit(self, observed: NoisyHistogram) -> Fit:
        """Read the released tree."""
        return read_tree(self, observed)

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
        knots = tree_quantiles(levels, tree.edges, fractions)
        return Ecdf.through(knots, self.interpolation)


PAPER_QUANTILES: Final = (32, 128, 1024)
"""The numbers of quantiles at which the papers' method is compared here."""
PAPER_PRESET: Final = FedCurve(quantiles=1024)
"""The largest setting that section 3.2 of the paper works out: h = 12, 8,190 counts."""
