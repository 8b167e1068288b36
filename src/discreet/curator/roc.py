r"""Private ROC curves: the full one from a histogram, or a binormal one from the AUC.

The symmetric binormal curve is :math:`TPR = \Phi(a + \Phi^{-1}(FPR))` with
:math:`a = \sqrt2\,\Phi^{-1}(AUC)` (Boyd 2015, section 5): both classes' scores normal
with one variance, up to a monotone map. It costs nothing beyond the AUC, and it is
wrong where the classes' spreads differ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from scipy.special import ndtr, ndtri

from discreet.arrays import FloatVector
from discreet.curator.areas import auc
from discreet.curator.budget import Budget
from discreet.curator.histogram import evaluate
from discreet.curator.private_estimate import PrivateEstimate
from discreet.data.scores import ScoreKind
from discreet.entropy import SYSTEM, Entropy
from discreet.errors import InputError
from discreet.estimate.curves import Curve, Polyline
from discreet.estimate.estimate import Estimate
from discreet.privacy.claim import Claim
from discreet.privacy.loss import Amount

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


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


RocMethod: TypeAlias = Literal["histogram", "binormal"]


@dataclass(frozen=True, eq=False)
class PrivateRoc:
    """A private ROC curve: points, the area under it, and the claim.

    ``thresholds`` is None for a binormal curve, which has no scores.
    """

    fpr: FloatVector
    tpr: FloatVector
    thresholds: FloatVector | None
    curve: Curve
    auc: Estimate
    claim: Claim


def roc_curve(  # noqa: PLR0913 - every public choice is a keyword
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    epsilon: Amount,
    method: RocMethod = "histogram",
    prevalence: float | None = None,
    kind: ScoreKind = "probability",
    low: float | None = None,
    high: float | None = None,
    budget: Budget | None = None,
    entropy: Entropy = SYSTEM,
) -> PrivateRoc:
    """Release an ROC curve.

    Args:
        y_true: labels, 0/1 or booleans.
        y_score: scores.
        epsilon: the loss.
        method: ``histogram`` follows any curve; ``binormal`` spends all on the AUC
            and draws the symmetric binormal curve of that area: less noise, and
            wrong where the classes' spreads differ.
        prevalence: public: roughly the share of positives.
        kind: what the scores are, for the histogram's bins.
        low: lower limit of scores of kind ``other``.
        high: upper limit of scores of kind ``other``.
        budget: the account that pays.
        entropy: secret bytes; anything but the default is for tests.
    """
    match method:
        case "histogram":
            found = evaluate(
                y_true,
                y_score,
                epsilon=epsilon,
                prevalence=prevalence,
                kind=kind,
                low=low,
                high=high,
                budget=budget,
                entropy=entropy,
            )
            fpr, tpr, thresholds = found.roc_curve()
            return PrivateRoc(
                fpr, tpr, thresholds, found.curves.roc, found.auc, found.claim
            )
        case "binormal":
            area = auc(
                y_true,
                y_score,
                epsilon=epsilon,
                prevalence=prevalence,
                budget=budget,
                entropy=entropy,
            )
            curve = BinormalCurve(area)
            fpr, tpr = curve.points()
            return PrivateRoc(fpr, tpr, None, curve, area, area.claim)
        case _:
            raise InputError("a private ROC curve is made by histogram or binormal")
