r"""What a curator measures, exactly, and how far one replaced example moves it.

n positives, m negatives, M = n + m public. Every bound is a function of the
class counts alone, and every one is checked against all rankings and all their
neighbours for small M in the tests.

**AUC** (Boyd 2015, theorem 3): :math:`1/\min(n, m)`, 1 when a class is empty.

**Average precision.** Write :math:`AP = \frac1n\sum_j t_j/(t_j+s_j)`, with
:math:`t_j \ge j` positives and :math:`s_j` negatives at or above the j-th
positive. Equality :math:`t_j = j` is the strict order of the paper; ties as in
scikit-learn make :math:`t_j` larger. With :math:`f(n) = (H_n - 1)/(n - 1)`:

- *A negative moves.* Taking it away raises each term by at most
  :math:`t/((t+s)(t+s-1)) \le 1/(t+1) \le 1/(j+1)`, putting it back lowers it by
  at most that: the change is the difference of two numbers in
  :math:`[0, f(n+1)]`.
- *A positive becomes a negative*, n to n - 1. The other positives are the same in
  both data sets, so AP is greatest with the positive on top and AP' least with
  the negative on top: then :math:`AP - AP' = \frac1{n-1}\sum_{j<n}
  \frac{1 + s_j/n}{t_j + 1 + s_j}`, which falls in :math:`s_j` because
  :math:`t_j + 1 \le n`, and so is at most f(n). The other way, AP is at least
  :math:`\frac{n-1}{n}` of the mean of the others' terms and AP' at most that
  mean: :math:`AP' - AP \le 1/n \le f(n)`.
- *A negative becomes a positive*: the same with n + 1 for n, at most f(n + 1).
- *A positive moves*, at most from the very top to the bottom: itself it loses
  less than 1, another positive :math:`s/((t+s)(t+s+1)) \le 1/(2(2j+1))` at
  integers s; in all :math:`g(n) = \frac1n(1 + \frac12\sum_{i=2}^n
  \frac1{2i-1})`.

f falls with n, so :math:`LS_{AP}(n) = \max\{f(n), g(n)\}` for n >= 2, and 1
below. It is attained for n >= 4 (f is: all positives on top, one of them turned
into a negative on top); for n of 2 and 3 it is the limit of large m. The paper's
bounds (equations 33 and 10) exceed 1 for a few positives and are cut there: as
they stand they jump from 1 to 3.5 between one positive and two, which no smooth
sensitivity that looks at fewer positives only would cover.

**Smooth sensitivity** is :math:`S(n) = \max_i LS(i)\,e^{-\beta|i - n|}`:
theorems 4 and 6 of Boyd (2015), after Nissim, Raskhodnikova and Smith (2007).
The noise of a release is scaled by S, which neighbours share up to a factor
:math:`e^\beta`. Two margins make the floats here as good as real numbers:

- S is computed with a beta smaller by a factor :math:`1 - 2^{-30}` than the one that
  the noise is calibrated for. Its relative error is below :math:`2^{-44}`: the
  exponent that attains the maximum is at most :math:`\ln M < 22`. With beta at
  least :math:`2^{-12}`, two such errors fit into the difference.
- S is then raised by a factor :math:`1 + 2^{-40}`, so that it is no less than the
  local sensitivity.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma

from discreet.arrays import FloatVector, IntVector
from discreet.data.examples import Examples
from discreet.errors import InputError, PlanError
from discreet.registry import Registry

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

TieConvention: TypeAlias = Literal["scikit-learn", "paper"]
"""How equal scores count.

- ``scikit-learn``: a tied pair counts one half for AUC; tied examples share one
  threshold for average precision.
- ``paper``: negatives come before the positives that they tie with (Boyd 2015,
  section 2.1), so a tied pair counts nothing.
"""

MAX_ROWS: Final = 2**31
"""Twice the number of pairs stays below 2^63."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The counts behind one AUC and one average precision.

    ``doubled_wins`` is twice the number of pairs of a positive and a negative
    that are in the right order, with ties counted as asked: an integer.
    ``average_precision`` is NaN-free by convention: 1/2 without positives, a
    value that no mechanism here lets through.
    """

    positives: int
    negatives: int
    doubled_wins: int
    average_precision: float

    @property
    def rows(self) -> int:
        """The number of examples: public."""
        return self.positives + self.negatives

    @property
    def auc(self) -> Fraction:
        """The exact AUC; 1/2 by convention when a class is empty."""
        pairs = self.positives * self.negatives
        return Fraction(self.doubled_wins, 2 * pairs) if pairs else Fraction(1, 2)


def rank(y_true: ArrayLike, y_score: ArrayLike, *, ties: TieConvention) -> Ranking:
    """Validate and rank; only the order of the scores matters.

    >>> rank([0, 1, 0, 1], [0.1, 0.9, 0.6, 0.6], ties="scikit-learn").auc
    Fraction(7, 8)
    >>> rank([0, 1, 0, 1], [0.1, 0.9, 0.6, 0.6], ties="paper").auc
    Fraction(3, 4)
    """
    # Any real score has an order: "logit" is the kind that ranges over all.
    scores, labels = Examples(y_score, y_true, kind="logit").to_arrays()
    return rank_arrays(scores, labels.astype(np.bool_), ties=ties)


def rank_arrays(
    scores: FloatVector, positive: NDArray[np.bool_], *, ties: TieConvention
) -> Ranking:
    """Rank arrays that have been validated."""
    if ties not in ("scikit-learn", "paper"):
        raise InputError("ties are counted as by 'scikit-learn' or by the 'paper'")
    rows = scores.size
    if scores.ndim != 1 or not 2 <= rows < MAX_ROWS:
        raise InputError(
            f"a ranking needs one score an example and at least 2 examples, got {rows}"
        )
    order = np.argsort(scores)[::-1]
    ordered, hit = scores[order], positive[order].astype(np.int64)
    last = np.append(np.flatnonzero(np.diff(ordered)), rows - 1)
    tp = np.cumsum(hit)[last]
    fp = last + 1 - tp
    p, n = np.diff(tp, prepend=0), np.diff(fp, prepend=0)
    positives, negatives = int(tp[-1]), int(fp[-1])
    won = 2 * (negatives - fp) + (n if ties == "scikit-learn" else 0)
    return Ranking(
        positives, negatives, int(p @ won), _average_precision(p, tp, fp, ties)
    )


def _average_precision(
    p: IntVector, tp: IntVector, fp: IntVector, ties: TieConvention
) -> float:
    r"""Return :math:`\frac1n \sum_j t_j/(t_j + s_j)` over the positives.

    :math:`s_j` counts the negatives that score at least as high;
    :math:`t_j` the positives that do (scikit-learn) or the place of j in some
    strict order (the paper). Each quotient is rounded once and NumPy adds them
    in pairs, so the relative error is below :math:`40 \cdot 2^{-53}`.
    """
    total = int(tp[-1])
    if total == 0:
        return 0.5
    if ties == "scikit-learn":
        return float(np.sum(p * (tp / (tp + fp)))) / total
    place = np.arange(1, total + 1)
    return float(np.sum(place / (place + np.repeat(fp, p)))) / total


def auc_local_sensitivity(positives: int, negatives: int) -> float:
    """Return theorem 3: one over the smaller class, 1 when it is empty.

    >>> auc_local_sensitivity(20, 80)
    0.05
    """
    return 1.0 / max(min(positives, negatives), 1)


AP_BOUNDS: Final = Registry[Callable[[IntVector], FloatVector]](
    "bound of average precision",
    {
        "exact": "discreet.curator.ranking:exact_ap_bound",
        "equation-10": "discreet.published.boyd2015:equation_10",
        "equation-33": "discreet.published.boyd2015:equation_33",
    },
)
"""Local sensitivities of average precision at two positives or more."""


def ap_local_sensitivity(positives: IntVector, bound: str = "exact") -> FloatVector:
    """Return the sensitivity of average precision at these numbers of positives.

    >>> ap_local_sensitivity(np.arange(5)).round(4).tolist()
    [1.0, 1.0, 0.5833, 0.4222, 0.3611]
    """
    several = AP_BOUNDS[bound](np.maximum(positives, 2))
    # The value lies in 0 .. 1, so no change exceeds 1.
    return np.where(positives < 2, 1.0, np.minimum(several, 1.0))


def exact_ap_bound(positives: IntVector) -> FloatVector:
    """Return the larger of f and g."""
    return np.maximum(ap_relabelled(positives), ap_positive_moved(positives))


def ap_relabelled(positives: IntVector) -> FloatVector:
    r"""Return :math:`f(n) = (H_n - 1)/(n - 1)`, 1 below 2.

    The most that AP changes when n positives become n - 1, and when a negative
    moves among n - 1 positives.
    """
    n = np.maximum(positives, 2)
    return np.where(positives < 2, 1.0, (harmonic(n) - 1.0) / (n - 1))


def ap_positive_moved(positives: IntVector) -> FloatVector:
    r"""Return :math:`g(n) = (1 + \frac12\sum_{i=2}^n 1/(2i-1))/n`, 1 below 2.

    The sum is half of :math:`\psi(n + \frac12) - \psi(\frac32)`.
    """
    n = np.maximum(positives, 2)
    odd = 0.5 * (digamma(n + 0.5) - digamma(1.5))
    return np.where(positives < 2, 1.0, (1.0 + 0.5 * odd) / n)


def harmonic(n: IntVector) -> FloatVector:
    r"""Return :math:`H_n = \psi(n + 1) + \gamma`, to a few units in the last place."""
    sums: FloatVector = digamma(n + 1.0) + np.euler_gamma
    return sums


LEAST_BETA: Final = 2.0**-12
AP_ROUNDING: Final = 2.0**-40
"""Average precision is a float: its rounding error is added to its sensitivity."""
_NARROWER: Final = 1.0 - 2.0**-30
_WIDER: Final = 1.0 + 2.0**-40


def auc_smooth_sensitivity(positives: int, negatives: int, beta: float) -> float:
    r"""Return the smooth sensitivity of AUC, in closed form.

    On the way from n to either end, :math:`-\ln\min(i, M-i) - \beta|i-n|` is
    convex on each side of M/2 and falls towards M/2, so the maximum is at n
    itself or where one example of a class is left:

    .. math:: S = \max\{1/\min(n, m),\ e^{-\beta(n-1)},\ e^{-\beta(m-1)}\}.

    >>> round(auc_smooth_sensitivity(100, 900, 0.01), 4)
    0.3716
    """
    least = _narrowed(beta)
    if min(positives, negatives) < 1:
        return _WIDER
    return _WIDER * max(
        auc_local_sensitivity(positives, negatives),
        math.exp(-least * (positives - 1)),
        math.exp(-least * (negatives - 1)),
    )


def ap_smooth_sensitivity(positives: int, beta: float, bound: str = "exact") -> float:
    r"""Return the smooth sensitivity of average precision.

    The local one falls with the number of positives, so only fewer positives can
    raise it, and none beyond :math:`\ln(1/LS(n))/\beta` away: it never exceeds 1.

    >>> round(ap_smooth_sensitivity(1000, 0.1), 5)
    0.00649
    """
    least = _narrowed(beta)
    here = float(ap_local_sensitivity(np.array([positives]), bound)[0])
    reach = math.ceil(math.log(1.0 / here) / least) + 1
    near = np.arange(max(positives - reach, 0), positives + 1)
    local = ap_local_sensitivity(near, bound) + AP_ROUNDING
    return _WIDER * float(np.max(local * np.exp(-least * (positives - near))))


def _narrowed(beta: float) -> float:
    if not (math.isfinite(beta) and beta >= LEAST_BETA):
        raise PlanError(
            f"this epsilon and delta ask for a smoothness of {beta:.2g}, below "
            f"{LEAST_BETA:.2g}: every value would drown in noise"
        )
    return beta * _NARROWER
