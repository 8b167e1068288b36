r"""Comparing two models on the same examples: the difference of their AUCs.

Both AUCs rest on the same people, so their errors go together, and the difference
is known better than the two values. How much better only the joint counts tell:

- ``joint``: a cell is a class and a pair of bins (i, j). The difference has the
  slope :math:`g^a_i - g^b_j` in its count, so

  .. math::
      \operatorname{Var} = \sum_{y,i,j} c_{yij}\,(g^a_{yi} - g^b_{yj})^2,

  DeLong's variance of a difference on the binned scores; noise likewise, with the
  noise's variance in the place of the count.
- ``marginals``: nothing tells how the errors go together. The sampling errors are
  taken as uncorrelated. Models that rank the same people correlate positively, so
  the interval is wider than need be; only models that err in opposite ways on the
  same people would make it too narrow.

The budget is that of the one release: L1 is 2 for marginals, 1 for joint counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.arrays import FloatVector
from discreet.data.edges import Edges
from discreet.errors import ReleaseError
from discreet.estimate.estimate import Binning, Estimate, Interval, Normal, Zero
from discreet.estimate.estimator import Estimator
from discreet.estimate.sampling import Slopes, auc_slopes, sampling_sd
from discreet.estimate.with_errors import metrics_with_errors
from discreet.statistic import BinCounts
from discreet.statistic.observed import NoiseLaw, NoisyHistogram
from discreet.statistic.paired import Paired
from discreet.statistic.summed import SummedLaw


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two models' AUCs and their difference, a minus b."""

    a: Estimate
    b: Estimate
    difference: Estimate

    def verdict(self, level: float = 0.95) -> str:
        """Say in words what the difference allows to say."""
        gap = self.difference
        if math.isnan(gap.value):
            return "undefined: a model's AUC is undefined in the pooled data"
        low, high = gap.interval(level)
        span = (
            f"a - b = {gap.value:+.4f}, {level:.0%} interval {low:+.4f} to {high:+.4f}"
        )
        if low > 0:
            return f"a is better than b ({span})"
        if high < 0:
            return f"b is better than a ({span})"
        sampling, noise = (
            law.sd if isinstance(law, Normal) else 0.0
            for law in (gap.sampling, gap.noise)
        )
        limit = "at this epsilon" if noise > sampling else "with this much data"
        return f"cannot tell them apart {limit} ({span})"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "a": self.a.to_dict(),
            "b": self.b.to_dict(),
            "difference": self.difference.to_dict(),
            "verdict": self.verdict(),
        }


def compare_aucs(
    paired: Paired, released: FloatVector, law: NoiseLaw, estimator: Estimator
) -> Comparison:
    """Compare two models from one release of a paired statistic.

    ``released`` is the decoded sum and ``law`` its noise; ``estimator`` reads each
    model's histogram. The marginals' AUCs are the estimator's, and so is the
    difference; its errors are those described above.
    """
    if released.shape != (paired.size,):
        raise ReleaseError(f"the paired statistic has {paired.size} counts")
    halves = paired.split(released)
    laws: tuple[NoiseLaw, NoiseLaw] = (law, law)
    if paired.form == "joint":
        table = released.reshape(2, len(paired.a), len(paired.b))
        laws = (SummedLaw(law, table, 2), SummedLaw(law, table, 1))
    sides = (
        _side(paired.a, halves[0], laws[0], estimator),
        _side(paired.b, halves[1], laws[1], estimator),
    )
    a, b = sides[0].auc, sides[1].auc
    support = Interval(-1.0, 1.0)
    if math.isnan(a.value) or math.isnan(b.value):
        return Comparison(a, b, Estimate.undefined("an AUC is undefined", support))
    if paired.form == "joint":
        sampling, noise = _joint_errors(released, law, *sides)
    else:
        sampling = math.hypot(_sd(a.sampling), _sd(b.sampling))
        noise = math.hypot(_sd(a.noise), _sd(b.noise))
    difference = Estimate(
        a.value - b.value,
        Normal(sampling),
        Normal(noise) if noise > 0 else Zero(),
        Binning(
            a.binning.low - b.binning.high,
            a.binning.high - b.binning.low,
            a.binning.typical + b.binning.typical,
        ),
        support=support,
        caution=a.caution or b.caution,
    )
    return Comparison(a, b, difference)


@dataclass(frozen=True, eq=False)
class _Side:
    """One model: its AUC and the slopes of it."""

    auc: Estimate
    slopes: Slopes | None


def _side(
    edges: Edges, counts: BinCounts, law: NoiseLaw, estimator: Estimator
) -> _Side:
    observed = NoisyHistogram(edges, counts.negatives, counts.positives, law)
    read = estimator.counts(observed)
    found = metrics_with_errors(estimator, observed, ("auc",))["auc"]
    if math.isnan(found.value):
        return _Side(found, None)
    return _Side(found, auc_slopes(read.negatives, read.positives))


def _joint_errors(
    released: FloatVector, law: NoiseLaw, a: _Side, b: _Side
) -> tuple[float, float]:
    """Return the sampling and the noise standard deviation of the difference."""
    if a.slopes is None or b.slopes is None:
        raise ReleaseError("a difference needs both AUCs")
    gaps = Slopes(
        *(
            (on_a[:, None] - on_b[None, :]).ravel()
            for on_a, on_b in zip(a.slopes, b.slopes, strict=True)
        )
    )
    negatives, positives = np.split(released, 2)
    # Under noise the cells' counts are rough, and their sum may leave what the two
    # models' own errors allow.
    least = abs(_sd(a.auc.sampling) - _sd(b.auc.sampling))
    most = _sd(a.auc.sampling) + _sd(b.auc.sampling)
    sampling = sampling_sd(gaps, negatives, positives)
    each = law.covariance(released)
    noise = (
        gaps.negatives**2 @ each.negatives
        + gaps.positives**2 @ each.positives
        + 2 * (gaps.negatives * gaps.positives) @ each.cross
    )
    return min(max(sampling, least), most), math.sqrt(max(float(noise), 0.0))


def _sd(law: object) -> float:
    return law.sd if isinstance(law, Normal) else 0.0
