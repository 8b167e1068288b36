r"""Symmetric binormal ROC curves: a whole curve from one private AUC.

:math:`TPR = \Phi(a + \Phi^{-1}(FPR))` with :math:`a = \sqrt2\,\Phi^{-1}(AUC)`
(Boyd 2015, section 5): both classes' scores normal with one variance, up to a
monotone map. It costs nothing beyond the AUC, and it is wrong where the classes'
spreads differ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from discreet.arrays import FloatVector
from discreet.curator.result import PrivateEstimate
from discreet.estimate.curves import Polyline


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
