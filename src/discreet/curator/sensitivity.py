r"""Local sensitivities of AUC and average precision: one example replaced.

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
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np
from scipy.special import digamma

from discreet.arrays import FloatVector, IntVector
from discreet.errors import InputError

ApBound: TypeAlias = Literal["exact", "equation-10", "equation-33"]


def auc_local_sensitivity(positives: int, negatives: int) -> float:
    """Return theorem 3: one over the smaller class, 1 when it is empty.

    >>> auc_local_sensitivity(20, 80)
    0.05
    """
    return 1.0 / max(min(positives, negatives), 1)


def ap_local_sensitivity(positives: IntVector, bound: ApBound = "exact") -> FloatVector:
    """Return the sensitivity of average precision at these numbers of positives.

    >>> ap_local_sensitivity(np.arange(5)).round(4).tolist()
    [1.0, 1.0, 0.5833, 0.4222, 0.3611]
    """
    several = np.maximum(positives, 2)
    match bound:
        case "exact":
            found = np.maximum(ap_relabelled(several), ap_positive_moved(several))
        case "equation-33":
            found = _paper(several, harmonic, 8.0, less=1.0)
        case "equation-10":
            found = _paper(several, np.log, 9.0, less=0.0)
        case _:
            raise InputError(
                "a bound of average precision is exact, equation-10 or equation-33"
            )
    # The value lies in 0 .. 1, so no change exceeds 1.
    return np.where(positives < 2, 1.0, np.minimum(found, 1.0))


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
    found: FloatVector = digamma(n + 1.0) + np.euler_gamma
    return found


def _paper(
    n: IntVector, grown: Callable[[IntVector], FloatVector], top: float, *, less: float
) -> FloatVector:
    """Add the paper's bounds for taking one example out and putting one in.

    :math:`(h(n+1) - less)/n` for a negative, :math:`(top + h(k))/(4k)` for a
    positive, k = n - 1 out and k = n in; h is the harmonic number (equation 33) or
    the logarithm (equation 10).
    """
    moved = (grown(n + 1) - less) / n
    out = np.maximum(moved, (top + grown(n - 1)) / (4 * (n - 1)))
    into = np.maximum(moved, (top + grown(n)) / (4 * n))
    found: FloatVector = out + into
    return found
