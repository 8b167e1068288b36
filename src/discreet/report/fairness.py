r"""Groups side by side: rates, calibration, gaps and ratios that hold all at once.

Groups are disjoint, so their errors are independent, of sampling and of noise. A gap of
two groups has the interval of Zou and Donner (2008, "MOVER"): with values v and ends l, u
of either group's own interval,

.. math:: d \pm \ldots:\quad l = d - \sqrt{(v_1 - l_1)^2 + (u_2 - v_2)^2}, \quad
    u = d + \sqrt{(u_1 - v_1)^2 + (v_2 - l_2)^2},

so rates keep their score-type ends. A ratio has the same on the logarithm's scale. All
pairs hold at once: the groups' own intervals are taken at z instead of 1.96, with z the
quantile of the largest standardised difference of independent groups of these very sizes
(Tukey and Kramer's range), by simulation. The largest gap then lies between the largest
lower and the largest upper end of any pair: an interval that holds although the pair was
picked for its size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from statistics import NormalDist
from typing import Any, Final

import numpy as np

from discreet.arrays import FloatArray
from discreet.errors import InputError, NotReleasedError
from discreet.estimate.estimate import Binning, Estimate, Interval
from discreet.estimate.fit import Fit
from discreet.metrics.table import METRICS, RATES
from discreet.metrics.thresholds import AtThreshold, at_threshold
from discreet.report.evaluation import Evaluation

CRITERIA: Final[Mapping[str, tuple[str, ...]]] = {
    "demographic parity": ("alert_rate",),
    "equal opportunity": ("recall",),
    "equalised odds": ("recall", "false_positive_rate"),
    "predictive parity": ("precision",),
    "calibration within groups": ("observed_expected", "calibration_slope"),
    "ranking within groups": ("auc",),
}
"""What each criterion asks to be equal; fairlearn's names where it has them."""
MEASURES: Final = tuple(dict.fromkeys(m for row in CRITERIA.values() for m in row))
_DRAWS: Final = 20_000


@dataclass(frozen=True, slots=True)
class Gap:
    """The difference of a measure between two groups, and its ratio."""

    measure: str
    first: str
    second: str
    difference: float
    interval: Interval
    """Simultaneous over all pairs of groups."""
    ratio: float
    ratio_interval: Interval


@dataclass(frozen=True, eq=False)
class Fairness:
    """Every group's measures at a threshold, and the gaps between them."""

    groups: Mapping[str, Evaluation]
    threshold: float
    level: float = 0.95

    def __post_init__(self) -> None:
        if len(self.groups) < 2:
            raise InputError("gaps need two or more groups; this result has one")
        if not 0 < self.level < 1:
            raise InputError("the level of an interval lies strictly between 0 and 1")

    @cached_property
    def by_group(self) -> Mapping[str, Mapping[str, Estimate]]:
        """Every measure of every group: by measure, then by group, none left out."""
        return {name: self._of(name) for name in MEASURES}

    @cached_property
    def _rates(self) -> Mapping[str, AtThreshold]:
        return {g: _at(result, self.threshold) for g, result in self.groups.items()}

    def small(self) -> Mapping[str, str]:
        """Return the groups that are too small or too noisy to be sure of, and why."""
        found = {}
        for group in self.groups:
            each = (self.by_group[name][group] for name in MEASURES)
            reasons = (e.caution or e.unusable for e in each)
            reason = next((r for r in reasons if r), None)
            if reason is not None:
                found[group] = reason
        return found

    def gaps(self, measure: str) -> tuple[Gap, ...]:
        """Return all pairs' gaps of a measure; pairs without a value have NaN."""
        estimates = self._of(measure)
        z = self._z(estimates)
        level = 1 - 2 * (1 - NormalDist().cdf(z))
        return tuple(
            _gap(measure, (a, estimates[a]), (b, estimates[b]), level)
            for a, b in combinations(estimates, 2)
        )

    def largest(self, measure: str) -> Estimate:
        """Return the largest gap of a measure with an interval that holds."""
        gaps = [g for g in self.gaps(measure) if not math.isnan(g.difference)]
        if not gaps:
            return Estimate.undefined("fewer than two groups have a value")
        value = max(abs(g.difference) for g in gaps)
        low = max(max(g.interval.low, -g.interval.high, 0.0) for g in gaps)
        high = max(max(g.interval.high, -g.interval.low) for g in gaps)
        return Estimate(
            value,
            (high - low) / (2 * 1.959963984540054),
            0.0,
            Binning(0.0, high, 0.0),
            support=Interval(0.0, math.inf),
            shape=GivenInterval(low, high),
            caution=next(
                (e.caution for e in self._of(measure).values() if e.caution), None
            ),
        )

    def standardised(self, measure: str, mix: Mapping[str, float]) -> Estimate:
        """Return a measure at a declared mix of the groups: direct standardisation.

        ``mix`` gives every group's share of the population that is meant.
        """
        estimates = self._of(measure)
        if set(mix) != set(estimates) or not all(w >= 0 for w in mix.values()):
            raise InputError(
                "the mix names every group once, with a share of 0 or more"
            )
        whole = sum(mix.values())
        if not whole > 0:
            raise InputError("the shares of a mix add up to more than 0")
        shares = {group: share / whole for group, share in mix.items() if share > 0}
        if any(math.isnan(estimates[g].value) for g in shares):
            return Estimate.undefined("a group of the mix has no value")

        def mean(of: dict[str, float]) -> float:
            return sum(shares[g] * of[g] for g in shares)

        def spread(source: str) -> float:
            each = (shares[g] * (getattr(estimates[g], source) or 0.0) for g in shares)
            return math.hypot(*each)

        first = next(iter(estimates.values()))
        noise = spread("noise")
        return Estimate(
            mean({g: estimates[g].value for g in shares}),
            spread("sampling"),
            noise,
            Binning(
                mean({g: estimates[g].binning.low for g in shares}),
                mean({g: estimates[g].binning.high for g in shares}),
                mean({g: estimates[g].binning.typical for g in shares}),
                mean({g: estimates[g].binning.below for g in shares}),
                mean({g: estimates[g].binning.above for g in shares}),
            ),
            support=first.support,
        )

    def sentences(self) -> tuple[str, ...]:
        """Return the largest gap of every measure, and which groups are small."""
        found = []
        for criterion, names in CRITERIA.items():
            for name in names:
                gap = self.largest(name)
                if math.isnan(gap.value):
                    found.append(f"{criterion}: no gap of {_title(name)} can be told")
                    continue
                low, high = gap.interval(self.level)
                found.append(
                    f"{criterion}: the largest gap of {_title(name)} is "
                    f"{gap.value:.3f} ({self.level:.0%} interval {low:.3f} to {high:.3f})"
                )
        marked = (f"{group} is unsure: {why}" for group, why in self.small().items())
        return (*found, *marked)

    def rows(self) -> list[dict[str, Any]]:
        """Return a table: every criterion's measures, their largest and all gaps."""
        return [
            {
                "criterion": criterion,
                "title": _title(name),
                "largest": self.largest(name),
                "gaps": self.gaps(name),
            }
            for criterion, names in CRITERIA.items()
            for name in names
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "threshold": self.threshold,
            "groups": {
                name: {g: e.to_dict() for g, e in by.items()}
                for name, by in self.by_group.items()
            },
            "largest": {name: self.largest(name).to_dict() for name in MEASURES},
            "small": dict(self.small()),
        }

    def _of(self, measure: str) -> Mapping[str, Estimate]:
        if measure in RATES:
            return {g: at[measure] for g, at in self._rates.items()}
        return {g: r.metrics[measure] for g, r in self.groups.items()}

    def _z(self, estimates: Mapping[str, Estimate]) -> float:
        """Return the quantile of the largest standardised difference of these groups."""
        sds = np.array(
            [math.hypot(e.sampling or 0.0, e.noise) for e in estimates.values()
             if not math.isnan(e.value)]
        )  # fmt: skip
        sds = sds[sds > 0]
        if sds.size <= 2:  # one pair at most: nothing to choose from
            return NormalDist().inv_cdf(0.5 + self.level / 2)
        drawn = _drawn(sds.size) * sds
        largest = np.zeros(_DRAWS)
        for j, k in combinations(range(sds.size), 2):
            apart = np.abs(drawn[:, j] - drawn[:, k]) / math.hypot(sds[j], sds[k])
            largest = np.maximum(largest, apart)
        return float(np.quantile(largest, self.level))


@lru_cache(maxsize=8)
def _drawn(groups: int) -> FloatArray:
    """Return the same standard normal values each time, one column a group."""
    return np.random.default_rng(0).normal(size=(_DRAWS, groups))


@dataclass(frozen=True, slots=True)
class GivenInterval:
    """An interval that was made elsewhere, at its own level."""

    low: float
    high: float

    def ends(
        self, value: float, sampling: float, noise: float, z: float
    ) -> tuple[float, float]:
        """Return the two ends."""
        del sampling, noise, z
        return min(self.low, value), max(self.high, value)


def _gap(
    measure: str,
    first: tuple[str, Estimate],
    second: tuple[str, Estimate],
    level: float,
) -> Gap:
    (name_a, a), (name_b, b) = first, second
    v, w = a.value, b.value
    nothing = Interval(math.nan, math.nan)
    if math.isnan(v) or math.isnan(w):
        return Gap(measure, name_a, name_b, math.nan, nothing, math.nan, nothing)
    (l1, u1), (l2, u2) = a.interval(level), b.interval(level)
    interval = Interval(
        v - w - math.hypot(v - l1, u2 - w), v - w + math.hypot(u1 - v, w - l2)
    )
    ratio, ratios = math.nan, nothing
    if v > 0 and w > 0:
        ratio = v / w
        down = math.hypot(math.log(v / l1) if l1 > 0 else math.inf, math.log(u2 / w))
        up = math.hypot(math.log(u1 / v), math.log(w / l2) if l2 > 0 else math.inf)
        ratios = Interval(ratio * math.exp(-down), ratio * math.exp(min(up, 700.0)))
    return Gap(measure, name_a, name_b, v - w, interval, ratio, ratios)


def _at(result: Evaluation, threshold: float) -> AtThreshold:
    """Return the measures at a threshold, without a word on what divides by zero."""
    if not isinstance(result.fit, Fit):
        raise NotReleasedError("gaps between groups need their histograms")
    return at_threshold(result.fit, threshold)


def _title(name: str) -> str:
    return RATES[name].title if name in RATES else METRICS[name].title
