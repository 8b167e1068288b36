r"""Comparing two models on the same examples: the differences of their metrics.

Both models' metrics rest on the same people, so their errors go together, and a
difference is known better than the two values. How much better only the joint counts
tell:

- ``joint``: a cell is a class and a pair of bins (i, j). The difference of a metric has
  the slope :math:`g^a_i - g^b_j` in its count, so

  .. math::
      \operatorname{Var} = \sum_{y,i,j} c_{yij}\,(g^a_{yi} - g^b_{yj})^2,

  for the AUC DeLong's variance of a difference on the binned scores; noise likewise,
  with the noise's variance in the place of the count and the slopes that each model's
  reading has in the released counts.
- ``marginals``: nothing tells how the errors go together. The sampling errors are
  taken as uncorrelated. Models that rank the same people correlate positively, so
  the interval is wider than need be; only models that err in opposite ways on the
  same people would make it too narrow.

The budget is that of the one release: L1 is 2 for marginals, 1 for joint counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.arrays import FloatVector
from discreet.errors import InputError, NotReleasedError
from discreet.estimate.estimate import Binning, Estimate, Interval, Normal, Zero
from discreet.estimate.reading import Reading
from discreet.estimate.slopes import Slopes, sampling_sd
from discreet.metrics.table import METRICS, MetricRow
from discreet.privacy.claim import Claim
from discreet.result import report
from discreet.result.evaluation import Evaluation
from discreet.result.page import Page, Section
from discreet.result.parts import Parts
from discreet.result.text import metric_table
from discreet.statistic.observed import NoiseLaw

_GAP = Interval(-1.0, 1.0)


@dataclass(frozen=True, eq=False)
class JointCounts:
    """Released counts per class and pair of bins, and the law of their noise."""

    counts: FloatVector
    law: NoiseLaw


@dataclass(frozen=True, eq=False, repr=False)
class ModelComparison(Parts):
    """Two models' evaluations from one release, and the differences, a minus b."""

    a: Evaluation
    b: Evaluation
    claim: Claim
    joint: JointCounts | None = None
    names: tuple[str, str] = ("a", "b")
    """What the models are called."""

    def __post_init__(self) -> None:
        first, second = self.names
        if first == second or not (first and second):
            raise InputError("two models need two different names")

    def __getitem__(self, name: str) -> Evaluation:
        return dict(zip(self.names, (self.a, self.b), strict=True))[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return 2

    def difference(self, metric: str = "auc") -> Estimate:
        """Return a metric of the first model minus that of the second."""
        first, second = self.a.metric(metric), self.b.metric(metric)
        if math.isnan(first.value) or math.isnan(second.value):
            return Estimate.undefined(
                f"a model's {METRICS[metric].title} is undefined in the pooled data",
                _GAP,
            )
        sampling, noise = self._errors(METRICS[metric], first, second)
        return Estimate(
            first.value - second.value,
            Normal(sampling),
            Normal(noise) if noise > 0 else Zero(),
            Binning(
                first.binning.low - second.binning.high,
                first.binning.high - second.binning.low,
                _usual(METRICS[metric], first, second, self.a, self.b),
            ),
            support=_GAP,
            caution=first.caution or second.caution,
        )

    def _errors(
        self, row: MetricRow, first: Estimate, second: Estimate
    ) -> tuple[float, float]:
        """Return the sampling and the noise standard deviation of a difference."""
        own, other = _sd(first.sampling), _sd(second.sampling)
        if self.joint is None:
            return math.hypot(own, other), math.hypot(
                _sd(first.noise), _sd(second.noise)
            )
        sampling = sampling_sd(
            _gaps(row, self.a, self.b), *np.split(self.joint.counts, 2)
        )
        each = self.joint.law.covariance(self.joint.counts)
        gaps = _gaps(row, self.a, self.b, followed=True)
        noise = (
            gaps.negatives**2 @ each.negatives
            + gaps.positives**2 @ each.positives
            + 2 * (gaps.negatives * gaps.positives) @ each.cross
        )
        # Under noise the cells' counts are rough, and their sum may leave what the
        # two models' own errors allow.
        sampling = min(max(sampling, abs(own - other)), own + other)
        return sampling, math.sqrt(max(float(noise), 0.0))

    def differences(self) -> dict[str, Estimate]:
        """Return the difference of every metric that was asked for, by name."""
        return {name: self.difference(name) for name in self.a.metrics}

    def verdict(self, metric: str = "auc", level: float = 0.95) -> str:
        """Say in words what the difference of a metric allows to say."""
        gap = self.difference(metric)
        if math.isnan(gap.value):
            return f"undefined: a model's {METRICS[metric].title} is undefined"
        low, high = gap.interval(level)
        first, second = self.names
        span = (
            f"{first} - {second} = {gap.value:+.4f}, {level:.0%} interval {low:+.4f} to "
            f"{high:+.4f}"
        )
        lower = METRICS[metric].better == "lower"
        if low > 0 or high < 0:
            better, worse = self.names if (low > 0) != lower else self.names[::-1]
            return f"{better} is better than {worse} ({span})"
        noisy = _sd(gap.noise) > _sd(gap.sampling)
        limit = "at this epsilon" if noisy else "with this much data"
        return f"cannot tell them apart {limit} ({span})"

    # -- words -------------------------------------------------------------

    def to_text(self, *, wide: bool = False) -> str:
        """Return the table, the verdict and the claim; wide: each model's own table."""
        parts = [f"{name}\n{part.to_text(wide=True)}\n" for name, part in self.items()]
        lines = [metric_table(self.summary()), f"{self.verdict()}.", str(self.claim)]
        return "\n".join([*parts, *lines] if wide else lines)

    def summary(self) -> dict[str, Estimate]:
        """Return each metric of both models and their difference."""
        rows: dict[str, Estimate] = {}
        for name, gap in self.differences().items():
            title = METRICS[name].title
            rows |= {f"{title} {k}": part.metric(name) for k, part in self.items()}
            rows[f"{title} {'-'.join(self.names)}"] = gap
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "parts": {name: part.to_dict() for name, part in self.items()},
            "differences": {n: e.to_dict() for n, e in self.differences().items()},
            "verdict": self.verdict(),
        }

    def page(self) -> Page:
        """Return the report: the difference, then both models."""
        both = Section({"Both models": self.summary()}, "", (f"{self.verdict()}.",))
        sections = (both, *(part.section() for part in self.values()))
        return report.page(sections, self.a.plan, self.claim)


def _gaps(
    row: MetricRow, a: Evaluation, b: Evaluation, *, followed: bool = False
) -> Slopes:
    """Return the slopes of a difference in the counts of pairs of bins.

    ``followed``: in the released counts, through what each reading makes of them.
    """
    if not (isinstance(a.reading, Reading) and isinstance(b.reading, Reading)):
        raise NotReleasedError("a joint comparison needs both models' histograms")
    slopes = [
        reading.followed(row.slopes(reading.damped))
        if followed and not reading.observed.exact
        else row.slopes(reading.bins)
        for reading in (a.reading, b.reading)
    ]
    pairs = zip(*slopes, strict=True)
    return Slopes(*((on_a[:, None] - on_b[None, :]).ravel() for on_a, on_b in pairs))


def _usual(
    row: MetricRow, first: Estimate, second: Estimate, *parts: Evaluation
) -> float:
    """Return the usual error of shapes: what both models share cancels.

    A model's bias has a sign, that of its distance to the flat reading.
    """
    shifts = []
    for found, part in zip((first, second), parts, strict=True):
        reading = part.reading
        if not isinstance(reading, Reading) or reading.other is None:
            return first.binning.typical + second.binning.typical
        other, share = reading.other
        shifts.append(share * (found.value - row.value(other)))
    return abs(shifts[0] - shifts[1])


def _sd(law: object) -> float:
    return law.sd if isinstance(law, Normal) else 0.0
