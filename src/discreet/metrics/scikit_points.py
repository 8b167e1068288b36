"""The points of a curve as scikit-learn returns them: its order, ends and trimming.

``drop_intermediate`` leaves out points that a drawn curve does not show: inside straight
lines of the ROC curve, and where the true positives stand still in the PR and DET
curves. scikit-learn trims ROC and DET curves unless told otherwise; here every
threshold of the release is kept unless it is asked for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from discreet.arrays import BoolVector, FloatVector
from discreet.estimate.curves import Curves


class Points(NamedTuple):
    """Two rates and the thresholds that give them."""

    x: FloatVector
    y: FloatVector
    thresholds: FloatVector


def roc_points(curves: Curves, *, drop_intermediate: bool = False) -> Points:
    """Return false and true positive rates by falling threshold, from infinity."""
    fp, tp = curves.false_positives, curves.true_positives
    kept = np.ones(fp.size, dtype=np.bool_)
    if drop_intermediate and fp.size > 3:
        # The point at infinity is added after trimming, as scikit-learn does.
        bent = (np.diff(fp[1:], 2) != 0) | (np.diff(tp[1:], 2) != 0)
        kept[2:-1] = bent
    return Points(curves.fpr[kept], curves.tpr[kept], curves.thresholds[kept])


def pr_points(curves: Curves, *, drop_intermediate: bool = False) -> Points:
    """Return precision and recall by rising threshold, to precision 1 at recall 0.

    Without positives recall is 1 at every threshold, as scikit-learn has it.
    """
    kept = np.ones(curves.true_positives.size, dtype=np.bool_)
    if drop_intermediate:
        kept[1:] = _moving(curves.true_positives[1:])
    recall = curves.tpr
    if curves.true_positives[-1] <= 0:
        recall = np.append(0.0, np.ones(recall.size - 1))
    precision, recall = curves.precision[kept], recall[kept]
    return Points(precision[::-1], recall[::-1], curves.thresholds[kept][:0:-1])


def det_points(curves: Curves, *, drop_intermediate: bool = False) -> Points:
    """Return false positive and negative rates by rising threshold.

    From the highest threshold that misses nothing to the lowest without a false alarm,
    which is infinity where the highest score is a negative's.
    """
    kept = np.ones(curves.true_positives.size, dtype=np.bool_)
    if drop_intermediate:
        kept = _moving(curves.true_positives)
    fpr, tpr = curves.fpr[kept], curves.tpr[kept]
    first = max(int(np.searchsorted(fpr, fpr[0], side="right")) - 1, 0)
    last = int(np.searchsorted(tpr, tpr[-1])) + 1
    ends = slice(first, last)
    thresholds = curves.thresholds[kept][ends]
    return Points(fpr[ends][::-1], (1.0 - tpr[ends])[::-1], thresholds[::-1])


def _moving(counts: FloatVector) -> BoolVector:
    """Say where a running count differs from the one before or the one after."""
    found = np.ones(counts.size, dtype=np.bool_)
    moves = np.diff(counts) != 0
    found[1:-1] = moves[:-1] | moves[1:]
    return found
