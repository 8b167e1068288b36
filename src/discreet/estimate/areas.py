"""Areas under curves, and the area between two of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import digamma, roots_legendre

from discreet.arrays import FloatVector
from discreet.errors import InputError
from discreet.estimate.curves import Curve, Polyline, RocPath, precision_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_NODES, _WEIGHTS = roots_legendre(8)
_PIECES: Final = 4
_MOST_PIECES: Final = 2**14
_TOUCHING: Final = 1e-300


def area_error(
    truth: Curve | tuple[ArrayLike, ArrayLike],
    estimate: Curve | tuple[ArrayLike, ArrayLike],
    *,
    tolerance: float = 1e-7,
) -> float:
    r"""Return the Area Error :math:`\int_0^1 |g(x) - \hat g(x)|\,dx`.

    Definition 4.1 of Xu and Cormode (2025): for ROC, x is the false positive
    rate; for PR, the recall. A pair ``(x, y)`` is taken as a piecewise-linear
    curve with jumps. Piecewise-linear curves are integrated exactly over their
    merged knots; others are subdivided until the result changes by less than
    ``tolerance``.

    >>> area_error(([0, 1], [0, 1]), ([0, 0.5, 1], [0, 1, 1]))
    0.25
    """
    first, second = (
        Polyline.of(*curve) if isinstance(curve, tuple) else curve
        for curve in (truth, estimate)
    )
    pieces = 1 if first.piecewise_linear and second.piecewise_linear else _PIECES
    area = _between(first.polyline(pieces), second.polyline(pieces))
    if pieces == 1:
        return area
    while pieces < _MOST_PIECES:
        pieces *= 2
        finer = _between(first.polyline(pieces), second.polyline(pieces))
        if abs(finer - area) < tolerance:
            return finer
        area = finer
    raise InputError("the curves are too rough for this tolerance")


def _between(first: Polyline, second: Polyline) -> float:
    """Integrate |first - second| over the range that both cover, exactly."""
    low = max(first.x[0], second.x[0])
    high = min(first.x[-1], second.x[-1])
    merged = np.unique(np.concatenate([first.x, second.x]))
    merged = merged[(merged >= low) & (merged <= high)]
    left_1, right_1 = _ends(first, merged)
    left_2, right_2 = _ends(second, merged)
    a, b = left_1 - left_2, right_1 - right_2
    # A difference that changes sign inside an interval leaves two triangles.
    size = np.abs(a) + np.abs(b)
    crossing = np.divide(a * a + b * b, 2 * size, out=np.zeros_like(a), where=size > 0)
    heights = np.where(a * b >= 0, size / 2, crossing)
    return float((heights * np.diff(merged)).sum())


def _ends(line: Polyline, merged: FloatVector) -> tuple[FloatVector, FloatVector]:
    """Return the line's limits at both ends of each merged interval."""
    x, first = np.unique(line.x, return_index=True)
    last = np.append(first[1:], line.x.size) - 1
    start, stop = line.y[last], line.y[first]  # right and left limits at each x
    k = np.clip(np.searchsorted(x, merged[:-1], side="right") - 1, 0, x.size - 2)
    rise, run = stop[k + 1] - start[k], x[k + 1] - x[k]
    # Points that touch leave no room for a slope, which would overflow.
    slope = np.divide(rise, run, out=np.zeros_like(rise), where=run > _TOUCHING)
    left, right = (start[k] + slope * (m - x[k]) for m in (merged[:-1], merged[1:]))
    return left, right


def roc_area(path: RocPath) -> float:
    r"""Return :math:`\int T\,dF`, exactly: piecewise polynomials of degree 5."""
    w, half = _gauss_places(path.knots[0])
    _, t = path.at(w.ravel())
    slope, _ = path.slopes(w.ravel())
    return _gauss_sum(t * slope, w.shape, half)


def pr_area(path: RocPath, positives: float, negatives: float) -> float:
    r"""Return :math:`\int \text{precision}\,dT` along the curve.

    Eight Gauss nodes per segment: exact to rounding for all but a segment that
    starts at recall 0 with a precision far from constant. Ties are a step.
    """
    w, half = _gauss_places(path.knots[0])
    f, t = path.at(w.ravel())
    _, slope = path.slopes(w.ravel())
    precision = precision_of(positives * t, negatives * f).reshape(w.shape)
    _, below_f, below_t = (each[1:, None] for each in path.knots)
    at_end = precision_of(positives * below_t, negatives * below_f)
    precision = np.where(path.tied[:, None], at_end, precision)
    return _gauss_sum(np.nan_to_num(precision.ravel()) * slope, w.shape, half)


def _gauss_places(knots: FloatVector) -> tuple[FloatVector, FloatVector]:
    half = np.diff(knots) / 2
    return (knots[:-1] + half)[:, None] + half[:, None] * _NODES, half


def _gauss_sum(values: FloatVector, shape: tuple[int, ...], half: FloatVector) -> float:
    # Not BLAS: sums over as many points as a curve may have are shared among threads.
    return float((values.reshape(shape) * _WEIGHTS * half[:, None]).sum())


def step_area(recall: FloatVector, precision: FloatVector) -> float:
    """Average precision as scikit-learn defines it: a sum of steps."""
    return float((np.diff(recall) * precision[1:]).sum())


def trapezoid_area(x: FloatVector, y: FloatVector) -> float:
    """Join the points by straight lines."""
    return float((np.diff(x) * (y[1:] + y[:-1])).sum()) / 2


def auc_limits(negatives: FloatVector, positives: FloatVector) -> tuple[float, float]:
    r"""Return the least and greatest AUC of any scores with these bin counts.

    All pairs inside a bin lost or won: :math:`\hat A \pm \sum_b p_b n_b/(2PN)`
    around the value with ties counted one half (Cormode 2023, equation 5).
    """
    pairs = float(positives.sum()) * float(negatives.sum())
    below = np.cumsum(negatives) - negatives
    lost = float(positives @ below) / pairs
    return lost, lost + float(positives @ negatives) / pairs


def average_precision_limits(
    negatives: FloatVector, positives: FloatVector
) -> tuple[float, float]:
    r"""Return the least and greatest average precision with these bin counts.

    Bins from the highest score down, TP and FP counted above a bin with p
    positives and n negatives. Least: the negatives come first and no scores
    tie, :math:`\sum_{i=1}^p (TP+i)/(TP+i+FP+n)`, a difference of digammas.
    Greatest: the positives come first and tie with each other, each with
    precision :math:`(TP+p)/(TP+p+FP)`; a strict order gives less.
    """
    p, tp, fp, before_tp, before_fp = _downwards(negatives, positives)
    high = p * _share(tp, before_fp)
    low = _rising(before_tp, p, fp)
    return float(low.sum() / tp[-1]), float(high.sum() / tp[-1])


def aupr_limits(negatives: FloatVector, positives: FloatVector) -> tuple[float, float]:
    r"""Return the least and greatest trapezoid AUPR with these bin counts.

    Precision :math:`x/(x + FP)` is concave in the true positives x, so a chord
    over tied positives lies below, and finer points lie above. Least: the
    negatives first, then all positives tied. Greatest: the positives first, one
    by one. The curve starts at recall 0, precision 1.
    """
    p, tp, fp, before_tp, before_fp = _downwards(negatives, positives)
    low = p * (_share(before_tp, fp) + _share(tp, fp)) / 2
    ends = (_share(tp, before_fp) - _share(before_tp, before_fp)) / 2
    high = _rising(before_tp, p, before_fp) - ends * (p > 0)
    return float(low.sum() / tp[-1]), float(high.sum() / tp[-1])


def _downwards(
    negatives: FloatVector, positives: FloatVector
) -> tuple[FloatVector, FloatVector, FloatVector, FloatVector, FloatVector]:
    """Return positives per bin and the counts at and above it, highest bin first."""
    p, n = positives[::-1], negatives[::-1]
    tp, fp = np.cumsum(p), np.cumsum(n)
    return p, tp, fp, tp - p, fp - n


def _share(tp: FloatVector, fp: FloatVector) -> FloatVector:
    """Return precision, 1 where nothing is predicted positive."""
    precision = precision_of(tp, fp)
    return np.where(np.isnan(precision), 1.0, precision)


def _rising(start: FloatVector, steps: FloatVector, fp: FloatVector) -> FloatVector:
    r"""Return :math:`\sum_{i=1}^{p} (x+i)/(x+i+c) = p - c(\psi(x+p+c+1) - \psi(x+c+1))`."""
    some = (steps > 0) & (fp > 0)
    harmonic = np.zeros_like(steps)
    first = start[some] + fp[some] + 1
    harmonic[some] = digamma(first + steps[some]) - digamma(first)
    return steps - fp * harmonic
