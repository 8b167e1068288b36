r"""Differences of two models' metrics on the same examples, from one release.

The two models' errors are correlated, and only joint counts tell how:

- ``joint``: a cell is a class and a pair of bins (i, j). The difference of a metric has
  the slope :math:`g^a_i - g^b_j` in its count, so

  .. math::
      \operatorname{Var} = \sum_{y,i,j} c_{yij}\,(g^a_{yi} - g^b_{yj})^2,

  for the AUC DeLong's variance of a difference on the binned scores. Noise has the
  noise's variance in the place of the count, and the slopes in the released counts.
- ``marginals``: sampling errors are taken as uncorrelated. Models that rank the same
  people correlate positively, so the interval is wider than need be; for models that err
  in opposite ways on the same people it is too narrow.

L1 sensitivity is 2 for marginals, 1 for joint counts.

Net reclassification (Pencina et al. 2008, 2011), with categories cut by thresholds or,
without any, every rise of the score:

.. math::
    \mathrm{NRI}_+ = P(\text{up} \mid y = 1) - P(\text{down} \mid y = 1), \quad
    \mathrm{NRI}_- = P(\text{down} \mid y = 0) - P(\text{up} \mid y = 0).

With one threshold these are the differences of recall and of specificity. A miscalibrated
model can have a high NRI without any use (Hilden and Gerds 2014): report the difference of
net benefits beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from discreet.arrays import FloatArray, FloatVector, IntVector
from discreet.data.edges import Edges
from discreet.errors import InputError, NotReleasedError
from discreet.estimate.estimate import Binning, Estimate, Interval
from discreet.estimate.fit import Fit
from discreet.estimate.pair_cells import Expected, expected_counts
from discreet.estimate.slopes import Slopes, sampling_sd
from discreet.metrics.curves import MeasureCurve
from discreet.metrics.errors import Measured
from discreet.metrics.measure import Measure
from discreet.metrics.table import METRICS, RATES, MetricRow
from discreet.metrics.thresholds import (
    at_threshold,
    confusion_weights,
    cut_of,
    probability_of,
)
from discreet.privacy.claim import Claim
from discreet.report.evaluation import Evaluation
from discreet.report.exports import Exports
from discreet.report.shown import Parts
from discreet.report.text import document
from discreet.report.views import counted
from discreet.statistic.observed import NoiseDistribution
from discreet.vocabulary import metric_name

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_SIGNED: Final = Interval(-1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Reclassification:
    """Net reclassification of positives, of negatives, and their sum."""

    of_positives: Estimate
    of_negatives: Estimate
    total: Estimate


def _categories(edges: Edges, thresholds: Sequence[float]) -> IntVector:
    """Return each bin's category by its lower edge, or its own place without any."""
    if not thresholds:
        return np.arange(len(edges), dtype=np.int64)
    return np.searchsorted(np.sort(thresholds), edges.array[:-1], "right")


def _mean_move(moved: FloatVector, cells: FloatVector, noise: FloatVector) -> Estimate:
    """Return the mean move over one class's examples; ``noise`` is each cell's variance."""
    total = float(cells.sum())
    if not total > 0:
        return Estimate.undefined("the pooled data hold none of this class", _SIGNED)
    value = min(max(float(moved @ cells) / total, -1.0), 1.0)
    squares: FloatVector = ((moved - value) / total) ** 2
    return Estimate(
        value,
        math.sqrt(max(float(np.maximum(cells, 0.0) @ squares), 0.0)),
        math.sqrt(max(float(noise @ squares), 0.0)),
        Binning(-1.0, 1.0, 0.0),
        support=_SIGNED,
    )


@dataclass(frozen=True, eq=False)
class JointCounts:
    """Released counts per class and pair of bins, and their noise distribution."""

    counts: FloatVector
    noise: NoiseDistribution


@dataclass(frozen=True, eq=False, repr=False)
class ModelComparison(Parts):
    """Two models' evaluations from one release, and the differences, a minus b.

    Args:
        a: the first model's evaluation.
        b: the second model's evaluation.
        claim: what was promised to whom.
        joint: the released counts per pair of bins, where these were counted.
        names: the names of the two models.
    """

    a: Evaluation
    b: Evaluation
    claim: Claim
    joint: JointCounts | None = None
    names: tuple[str, str] = ("a", "b")

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

    def difference(self, metric: str = "auc", at: float | None = None) -> Estimate:
        """Return a metric of the first model minus that of the second.

        With ``at``: a rate at that threshold. Any row of the table can be asked for: the
        difference of discrimination slopes is the integrated discrimination improvement
        (IDI).
        """
        if at is not None:
            return self.differences(at)[metric]
        metric = metric_name(metric, METRICS)
        row = METRICS[metric]
        first, second = self.a.metrics[metric], self.b.metrics[metric]
        gap = self._difference(
            row.title,
            first,
            second,
            lambda fit: row.measure.slopes(fit.bins),
            lambda fit: fit.followed(row.measure.slopes(fit.damped)),
        )
        usual = self._usual(row, first, second)
        return replace(gap, binning=replace(gap.binning, typical=usual))

    def differences(self, at: float | None = None) -> Mapping[str, Estimate]:
        """Return the difference of every metric asked for, or of every rate ``at``."""
        if at is None:
            return {name: self.difference(name) for name in self.a.metrics}

        @cache
        def weights(fit: Fit) -> FloatArray:
            return confusion_weights(cut_of(fit, at).curved)

        both = [at_threshold(counted(part.fit), at) for part in (self.a, self.b)]

        def rate(name: str) -> Estimate:
            def slopes(fit: Fit) -> Slopes:
                cut = probability_of(at, fit.counts.edges)
                counts = np.append(fit.counts.negatives, fit.counts.positives)
                cells = np.maximum(weights(fit) @ counts, 0.0)
                on = RATES[name].measure.slopes(cells, cut)
                return Slopes(*np.split(on @ weights(fit), 2))

            first, second = (at_cut[name] for at_cut in both)
            return self._difference(RATES[name].title, first, second, slopes)

        return Measured(RATES, rate)

    def decision_curve(self, thresholds: ArrayLike | None = None) -> MeasureCurve:
        """Return the difference of net benefits over threshold probabilities."""
        own, other = (m.curves.decision(thresholds) for m in (self.a, self.b))
        logits = self.a.observed.edges.scores.kind == "logit"
        places = [math.log(p / (1 - p)) if logits else p for p in own.x.tolist()]
        gaps = [self.difference("net_benefit", at=place) for place in places]
        low, high = np.array([gap.interval() for gap in gaps]).T
        return MeasureCurve(
            f"Net benefit, {self.names[0]} less {self.names[1]}",
            own.x_title,
            "difference of net benefits",
            own.x,
            own.y - other.y,
            low,
            high,
            {"no difference": np.zeros_like(own.x)},
        )

    def nri(self, thresholds: Sequence[float] = ()) -> Reclassification:
        """Return the net reclassification improvement of the first model.

        Between the categories that thresholds cut, or of any rise of the score without
        thresholds. A threshold inside a bin takes the bin whole, by its lower edge. Only
        joint counts tell who moved: see ``form="joint"``.
        """
        if self.joint is None:
            raise NotReleasedError(
                "who is reclassified is not in two separate histograms; compare with "
                "form='joint'"
            )
        first, second = self.a.observed.edges, self.b.observed.edges
        if not thresholds and first.array.tolist() != second.array.tolist():
            raise InputError(
                "rises of a score are read over the same bins of both models"
            )
        a, b = (_categories(edges, thresholds) for edges in (first, second))
        moved = np.sign(a[:, None] - b[None, :]).ravel().astype(np.float64)
        negatives, positives = np.split(self.joint.counts, 2)
        noise = self.joint.noise.covariance(self.joint.counts)
        up = _mean_move(moved, positives, noise.positives)
        down = _mean_move(-moved, negatives, noise.negatives)
        total = Estimate(
            up.value + down.value,
            math.hypot(up.sampling or 0.0, down.sampling or 0.0),
            math.hypot(up.noise, down.noise),
            Binning(-2.0, 2.0, 0.0),
            support=Interval(-2.0, 2.0),
        )
        return Reclassification(up, down, total)

    @property
    def dependence(self) -> str:
        """How the two models' errors are taken to go together."""
        if self.joint is not None:
            known = "the correlation of the two models' errors is read from the joint counts"
            if self._expected is None:
                return known
            return (
                f"{known}; noise in pairs of bins that seem empty is taken off a "
                "difference, which need not be that of the two values beside it"
            )
        assumed = (
            "the two models' errors are taken as uncorrelated, for two separate "
            "histograms do not tell: careful for models that rank the same people "
            "alike, too little for models that err in opposite ways"
        )
        apart = self.difference("auc")
        if math.isnan(apart.value):
            return assumed
        most = sum(part.metrics["auc"].sampling or 0.0 for part in (self.a, self.b))
        low, high = replace(apart, sampling=most).interval()
        return f"{assumed}, whose AUCs would differ by {low:+.4f} to {high:+.4f}"

    def _difference(
        self,
        title: str,
        first: Estimate,
        second: Estimate,
        slopes: Callable[[Fit], Slopes],
        followed: Callable[[Fit], Slopes] | None = None,
    ) -> Estimate:
        reach = first.support.high - first.support.low
        support = Interval(-reach, reach)
        if math.isnan(first.value) or math.isnan(second.value):
            return Estimate.undefined(
                f"a model's {title} is undefined in the pooled data", support
            )
        try:
            shift, sampling, noise = self._errors(first, second, slopes, followed)
        except InputError as err:  # one class alone
            return Estimate.undefined(str(err), support)
        if not math.isfinite(shift + sampling + noise):
            return Estimate.undefined(f"the {title} changes too fast here", support)
        value = min(max(first.value - second.value - shift, -reach), reach)
        # Smoothness errs on the same side for both models: what they share cancels.
        ways = [e.binning.above - e.binning.below for e in (first, second)]
        return Estimate(
            value,
            sampling,
            noise,
            Binning(
                min(first.binning.low - second.binning.high, value),
                max(first.binning.high - second.binning.low, value),
                first.binning.typical + second.binning.typical,
                max(ways[1] - ways[0], 0.0),
                max(ways[0] - ways[1], 0.0),
            ),
            support=support,
            caution=first.caution or second.caution,
        )

    def _errors(
        self,
        first: Estimate,
        second: Estimate,
        slopes: Callable[[Fit], Slopes],
        followed: Callable[[Fit], Slopes] | None,
    ) -> tuple[float, float, float]:
        """Return what noise probably added to a difference, and its two errors' sd.

        ``slopes`` are those in the fitted counts, ``followed`` in the released ones.
        """
        own, other = first.sampling or 0.0, second.sampling or 0.0
        if self.joint is None:
            noise = math.hypot(first.noise, second.noise)
            return 0.0, math.hypot(own, other), noise
        distribution, counts = self.joint.noise, self.joint.counts
        fits = counted(self.a.fit), counted(self.b.fit)
        gaps = noisy = _gaps(slopes, *fits)
        if distribution.scale:
            noisy = _gaps(followed or (lambda fit: fit.followed(slopes(fit))), *fits)
        shift = 0.0
        if (expected := self._expected) is None:
            each = distribution.covariance(counts)
            noise = float(
                noisy.negatives**2 @ each.negatives
                + noisy.positives**2 @ each.positives
                + 2 * (noisy.negatives * noisy.positives) @ each.cross
            )
            sampling = sampling_sd(gaps, *np.split(counts, 2))
        else:
            every = np.concatenate(noisy)
            shift = float(every @ (counts - expected.counts))
            noise = float(every**2 @ expected.variance)
            scatter = expected.followed * np.maximum(expected.counts, 0.0)
            sampling = sampling_sd(gaps, *np.split(scatter, 2))
        if followed is not None:  # each model's smoothness was chosen by itself
            noise += sum(fit.unsure(slopes(fit)) ** 2 for fit in fits)
        # Under noise the cells' counts are rough, and their sum may leave what the
        # two models' own errors allow.
        sampling = min(max(sampling, abs(own - other)), own + other)
        return shift, sampling, math.sqrt(max(noise, 0.0))

    def _usual(self, row: MetricRow[Measure], *estimates: Estimate) -> float:
        """Return the usual error of shapes: what both models share cancels.

        A model's bias has the sign of its distance to the flat fit. The expected part of
        the noise that both fits follow is taken off both.
        """
        shifts = []
        both = zip(estimates, (self.a, self.b), self._stray, strict=True)
        for one, part, stray in both:
            fit = part.fit
            if not isinstance(fit, Fit) or fit.other is None:
                return sum(each.binning.typical for each in estimates)
            other, share = fit.other
            own = fit.followed(row.measure.slopes(fit.damped))
            flat = row.measure.slopes(other.damped)
            moved = np.concatenate(own) - np.concatenate(flat)
            shift = one.value - row.measure.value(other) - float(moved @ stray)
            shifts.append(share * shift)
        return abs(shifts[0] - shifts[1])

    @cached_property
    def _expected(self) -> Expected | None:
        """What the joint counts probably are, where that is more than was released."""
        if self.joint is None:
            return None
        bins = len(self.a.observed.edges)
        return expected_counts(self.joint.counts, self.joint.noise, bins)

    @cached_property
    def _stray(self) -> tuple[FloatVector, FloatVector]:
        """The noise that each model's released counts probably have."""
        bins = [len(part.observed.edges) for part in (self.a, self.b)]
        if self.joint is None or self._expected is None:
            return np.zeros(2 * bins[0]), np.zeros(2 * bins[1])
        table = (self.joint.counts - self._expected.counts).reshape(2, *bins)
        return table.sum(axis=2).ravel(), table.sum(axis=1).ravel()

    def verdict(self, metric: str = "auc", level: float = 0.95) -> str:
        """Say in words what the difference of a metric allows to say."""
        metric = metric_name(metric, METRICS)
        gap = self.difference(metric)
        if math.isnan(gap.value):
            return f"undefined: a model's {METRICS[metric].title} is undefined"
        low, high = gap.interval(level)
        first, second = self.names
        span = (
            f"{first} - {second} = {gap.value:+.4f}, {level:.0%} interval {low:+.4f} to "
            f"{high:+.4f}"
        )
        if METRICS[metric].better in ("one", "zero") and (low > 0 or high < 0):
            return f"they differ ({span})"
        lower = METRICS[metric].better == "lower"
        if low > 0 or high < 0:
            better, worse = self.names if (low > 0) != lower else self.names[::-1]
            return f"{better} is better than {worse} ({span})"
        noisy = gap.noise > (gap.sampling or 0.0)
        limit = "at this epsilon" if noisy else "with this much data"
        return f"cannot tell them apart {limit} ({span})"

    def _lines(self) -> list[str]:
        return [f"{self.verdict()}.", f"Assumed: {self.dependence}."]

    def _summary(self) -> dict[str, Estimate]:
        """Return each metric of both models and their difference."""
        rows: dict[str, Estimate] = {}
        for name, gap in self.differences().items():
            title = METRICS[name].title
            rows |= {f"{title} {k}": part.metrics[name] for k, part in self.items()}
            rows[f"{title} {'-'.join(self.names)}"] = gap
        return rows

    def _values(self, *, curves: bool) -> dict[str, Any]:
        return {
            "parts": {name: document(p, curves=curves) for name, p in self.items()},
            "differences": {n: e.to_dict() for n, e in self.differences().items()},
            "verdict": self.verdict(),
            "dependence": self.dependence,
        }

    @property
    def exports(self) -> Exports:
        """The result for other programs: the difference, then both models."""
        differences = cache(self.differences)
        return Exports(
            dict(self),
            self.claim,
            self._values,
            self._summary,
            lambda: "\n".join(self._lines()),
            self.names,
            lambda name, t: differences(t)[name],
            differences=differences,
        )


def _gaps(slopes: Callable[[Fit], Slopes], a: Fit, b: Fit) -> Slopes:
    """Return the slopes of a difference in the counts of pairs of bins."""
    pairs = zip(slopes(a), slopes(b), strict=True)
    return Slopes(*((on_a[:, None] - on_b[None, :]).ravel() for on_a, on_b in pairs))
