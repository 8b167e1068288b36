r"""One private AUC, one private average precision, and the curve of an AUC.

The symmetric binormal ROC curve is :math:`TPR = \Phi(a + \Phi^{-1}(FPR))` with
:math:`a = \sqrt2\,\Phi^{-1}(AUC)` (Boyd 2015, section 5): both classes' scores normal
with one variance, up to a monotone map. It costs nothing beyond the AUC, and it is
wrong where the classes' spreads differ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import ndtr, ndtri

from discreet.arrays import FloatVector
from discreet.curator.budget import Budget
from discreet.curator.mechanism import MechanismName, Request, Target, release
from discreet.curator.private_estimate import ApSampling, AucSampling, PrivateEstimate
from discreet.curator.ranking import Ties, rank
from discreet.curator.sensitivity import (
    ApBound,
    ap_smooth_sensitivity,
    auc_smooth_sensitivity,
)
from discreet.curator.weighted_count import (
    WeightTable,
    ap_weights,
    auc_weights,
    pair_count_weights,
)
from discreet.entropy import SYSTEM, Entropy
from discreet.errors import PlanError
from discreet.estimate.curves import Polyline
from discreet.privacy.loss import Amount

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def _tables(mechanism: MechanismName, rows: int) -> WeightTable:
    plain = mechanism == "pair-count"
    return pair_count_weights(rows) if plain else auc_weights(rows)


AUC: Final = Target(
    name="AUC",
    value=lambda ranking: ranking.auc,
    smooth=auc_smooth_sensitivity,
    tables=_tables,
    sampling=AucSampling,
)


def auc(  # noqa: PLR0913 - every public choice is a keyword
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    epsilon: Amount,
    delta: Amount = 0,
    mechanism: MechanismName | None = None,
    prevalence: float | None = None,
    ties: Ties = "scikit-learn",
    gamma: Amount = 2,
    budget: Budget | None = None,
    entropy: Entropy = SYSTEM,
) -> PrivateEstimate:
    """Release the area under the ROC curve once, with differential privacy.

    One example may be replaced by any other; the number of examples is public,
    the number of positives is not.

    Args:
        y_true: labels, 0/1 or booleans.
        y_score: scores of any range; only their order matters.
        epsilon: the loss; a decimal is taken as written.
        delta: 0, except for ``mechanism="laplace"``.
        mechanism: ``weighted-count`` (the default) or ``pair-count``, both pure
            epsilon; ``power-law`` (the default when a prevalence is declared and
            epsilon times the smaller class is 30 or more); the paper's ``heavy-tailed`` and, with delta, ``laplace``.
        prevalence: public: roughly the share of positives. Never computed from
            these data.
        ties: count tied pairs one half (``scikit-learn``) or not (``paper``).
        gamma: tail of the heavy-tailed noise, above 1; 2 is Cauchy.
        budget: the account that pays.
        entropy: secret bytes; anything but the default is for tests.

    >>> import numpy as np
    >>> labels = np.arange(20_000) % 2
    >>> scores = np.arange(20_000) + 6_000 * labels
    >>> found = auc(labels, scores, epsilon=1)
    >>> abs(found.value - 0.755) < 0.02, str(found.claim.loss)
    (True, '1-DP')
    """
    request = Request.of(epsilon, delta, mechanism, prevalence, gamma)
    ranking = rank(y_true, y_score, ties=ties)
    return release(AUC, ranking, request, budget=budget, entropy=entropy)


def ap_target(bound: ApBound = "exact") -> Target:
    """Return average precision with one of its sensitivity bounds."""
    return Target(
        name="average precision",
        value=lambda ranking: Fraction(ranking.average_precision),
        smooth=lambda n, m, beta: ap_smooth_sensitivity(n, beta, bound),  # noqa: ARG005
        tables=lambda mechanism, rows: ap_weights(rows),  # noqa: ARG005 - only one
        sampling=lambda n, m: ApSampling(n),  # noqa: ARG005 - negatives do not matter
    )


def average_precision(  # noqa: PLR0913 - every public choice is a keyword
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    epsilon: Amount,
    delta: Amount = 0,
    mechanism: MechanismName | None = None,
    prevalence: float | None = None,
    ties: Ties = "scikit-learn",
    bound: ApBound = "exact",
    gamma: Amount = 2,
    budget: Budget | None = None,
    entropy: Entropy = SYSTEM,
) -> PrivateEstimate:
    """Release the average precision once, with differential privacy.

    The value is cut to 0 .. 1 and never to the least average precision that the
    class counts allow, because these are private.

    Args:
        y_true: labels, 0/1 or booleans.
        y_score: scores of any range; only their order matters.
        epsilon: the loss; a decimal is taken as written.
        delta: 0, except for ``mechanism="laplace"``.
        mechanism: as for ``auc``, without ``pair-count``.
        prevalence: public: roughly the share of positives. Never computed from
            these data.
        ties: one threshold for tied scores (``scikit-learn``), or negatives first
            (``paper``).
        bound: the sensitivity under smooth noise: ``exact``, or the paper's
            ``equation-10`` or ``equation-33``.
        gamma: tail of the heavy-tailed noise, above 1; 2 is Cauchy.
        budget: the account that pays.
        entropy: secret bytes; anything but the default is for tests.

    >>> import numpy as np
    >>> labels = np.arange(20_000) % 2
    >>> scores = np.arange(20_000) + 6_000 * labels
    >>> found = average_precision(labels, scores, epsilon=1, prevalence=0.5)
    >>> abs(found.value - 0.7915) < 0.05
    True
    """
    request = Request.of(epsilon, delta, mechanism, prevalence, gamma)
    target = ap_target(bound)
    if mechanism == "pair-count":
        raise PlanError("pairs say nothing about average precision; use weighted-count")
    ranking = rank(y_true, y_score, ties=ties)
    return release(target, ranking, request, budget=budget, entropy=entropy)


@dataclass(frozen=True, eq=False)
class BinormalCurve:
    """The symmetric binormal ROC curve of a released AUC.

    Its claim is the AUC's: the curve is a function of that number.
    """

    auc: PrivateEstimate

    def tpr(self, fpr: FloatVector) -> FloatVector:
        """Return the true positive rate at false positive rates."""
        return binormal_tpr(self.auc.value, np.asarray(fpr, dtype=np.float64))

    def points(self, count: int = 101) -> tuple[FloatVector, FloatVector]:
        """Return fpr and tpr at equal steps of the false positive rate."""
        fpr = np.linspace(0.0, 1.0, count)
        return fpr, self.tpr(fpr)

    @property
    def piecewise_linear(self) -> bool:
        """It bends everywhere."""
        return False

    def polyline(self, pieces: int) -> Polyline:
        """Draw it with 64 segments a piece."""
        return Polyline(*self.points(64 * pieces + 1))


def binormal_tpr(auc: float, fpr: FloatVector) -> FloatVector:
    """Return the curve of this area; a step at the corner when it is 0 or 1.

    >>> binormal_tpr(0.5, np.array([0.25])).tolist()
    [0.25]
    """
    if math.isnan(auc):
        return np.full(fpr.shape, np.nan)
    if auc in (0.0, 1.0):
        return np.where(fpr > 0.0, 1.0, 0.0) if auc else np.where(fpr < 1.0, 0.0, 1.0)
    found: FloatVector = ndtr(math.sqrt(2.0) * float(ndtri(auc)) + ndtri(fpr))
    return found
