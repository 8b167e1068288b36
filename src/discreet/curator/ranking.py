"""What a curator measures: class counts, pairs won and average precision, exactly."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import FloatVector, IntVector
from discreet.data.examples import Examples
from discreet.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Ties: TypeAlias = Literal["scikit-learn", "paper"]
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


def rank(y_true: ArrayLike, y_score: ArrayLike, *, ties: Ties) -> Ranking:
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
    scores: FloatVector, positive: NDArray[np.bool_], *, ties: Ties
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


def _average_precision(p: IntVector, tp: IntVector, fp: IntVector, ties: Ties) -> float:
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
