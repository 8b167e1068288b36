r"""Changes between periods, with alarms at a stated rate over the whole series.

Periods are declared groups in their order. Each period's value :math:`v_t` is compared
with the mean of the periods before it, weighted by their precision:

.. math:: z_t = \frac{v_t - m_{t-1}}{\sqrt{s_t^2 + S_{t-1}^2}}, \qquad
    m_{t-1} = S_{t-1}^2 \sum_{i<t} \frac{v_i}{s_i^2}, \quad
    S_{t-1}^{-2} = \sum_{i<t} s_i^{-2},

with s both sampling and noise, and under noise half of the usual binning error: a fitted
shape differs between periods. These contrasts (Helmert's) are independent where nothing
changes. So an alarm beyond the z of :math:`(1 - f)^{1/m}`, for m contrasts over periods
and measures, happens in at most a share f of whole series. After an alarm the reference
starts again.

The population stability index :math:`\sum_g (q_g - p_g)\ln(q_g/p_g)` over ten groups of
the reference's scores is about :math:`\sum_g \delta_g^2/p_g`. It is compared with a scaled
chi-square of the mean and variance that it has without change (Satterthwaite), noise
included.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any, Final

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.errors import InputError, NotReleasedError
from discreet.estimate.estimate import Estimate
from discreet.estimate.fit import Fit
from discreet.estimate.slopes import covariance_of
from discreet.metrics.table import METRICS, RATES
from discreet.metrics.thresholds import at_threshold
from discreet.report.evaluation import Evaluation
from discreet.report.text import title_of
from discreet.report.views import counted
from discreet.vocabulary import did_you_mean, metric_name

WATCHED: Final = ("auc", "observed_expected", "calibration_slope")
_GROUPS: Final = 10
_SHAPE_SHARE: Final = 0.5
"""Share of the usual binning error that differs between periods, as a standard
deviation: shapes are fitted to each period's own noise."""


@dataclass(frozen=True, slots=True)
class Change:
    """One measure of one period beside those before it."""

    period: str
    measure: str
    before: float
    now: float
    z: float
    alarm: bool


@dataclass(frozen=True, eq=False)
class Drift:
    """A series of periods, watched."""

    periods: Mapping[str, Evaluation]
    measures: tuple[str, ...] = WATCHED
    threshold: float | None = None
    """Where rates are read; needed only if a rate is watched."""
    false_alarm: float = 0.05
    """The share of series without any change that raise an alarm."""

    def __post_init__(self) -> None:
        if len(self.periods) < 2:
            raise InputError("a series needs two or more periods")
        if not 0 < self.false_alarm < 1:
            raise InputError("the false-alarm rate lies strictly between 0 and 1")
        known = (*METRICS, *RATES)
        named = tuple(metric_name(word, known) for word in self.measures)
        object.__setattr__(self, "measures", named)
        for name in self.measures:
            if name not in RATES and name not in METRICS:
                near = did_you_mean(name, known)
                raise InputError(
                    f"a watched measure is a row of METRICS or RATES{near}"
                )
            if name in RATES and self.threshold is None:
                raise InputError(f"{name} is read at a threshold: give one")

    @property
    def critical(self) -> float:
        """The z beyond which a contrast raises an alarm."""
        return NormalDist().inv_cdf(1 - self._each / 2)

    @property
    def _each(self) -> float:
        """The false-alarm rate of a single comparison: measures, and the PSI."""
        return _each_rate(len(self.periods), len(self.measures), self.false_alarm)

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """Every contrast of every measure, in order."""
        return tuple(c for name in self.measures for c in self._series(name))

    @property
    def alarms(self) -> tuple[Change, ...]:
        """The changes that raised an alarm, the PSI's among them."""
        return tuple(c for c in (*self.changes, *self.stability) if c.alarm)

    def _values(self, measure: str) -> dict[str, Estimate]:
        if measure not in RATES or self.threshold is None:
            return {name: part.metrics[measure] for name, part in self.periods.items()}
        at = self.threshold
        fits = self._fits.items()
        return {name: at_threshold(fit, at)[measure] for name, fit in fits}

    @cached_property
    def _fits(self) -> dict[str, Fit]:
        """Every period's fitted histogram, which comparing periods needs."""
        return {name: counted(part.fit) for name, part in self.periods.items()}

    def _series(self, measure: str) -> list[Change]:
        changes = []
        weight = mean = 0.0
        for period, estimate in self._values(measure).items():
            sd, value = _spread(estimate), estimate.value
            if math.isnan(value) or not sd > 0:
                continue
            alarm = False
            if weight > 0:
                z = (value - mean) / math.sqrt(sd**2 + 1 / weight)
                alarm = abs(z) > self.critical
                changes.append(Change(period, measure, mean, value, z, alarm))
            if alarm or weight == 0:
                weight, mean = sd**-2, value
            else:
                total = weight + sd**-2
                mean, weight = (mean * weight + value * sd**-2) / total, total
        return changes

    @cached_property
    def stability(self) -> tuple[Change, ...]:
        """The population stability index of every period against those before it."""
        changes = []
        before: list[Fit] = []
        for period, fit in self._fits.items():
            alarm = False
            if before:
                value, z = _psi(before, fit)
                alarm = z > NormalDist().inv_cdf(1 - self._each)
                changes.append(Change(period, "psi", 0.0, value, z, alarm))
            before = [fit] if alarm else [*before, fit]
        return tuple(changes)

    def ks(self, first: str, second: str) -> float:
        """Return the largest distance of two periods' distributions of scores."""
        one, other = (np.cumsum(_shares(self._fits[p])) for p in (first, second))
        return float(np.abs(one - other).max())

    def detectable(self, measure: str = "auc", power: float = 0.9) -> float:
        """Return the change in the last period that is seen with this probability."""
        estimates = self._values(measure).values()
        sds = [_spread(e) for e in estimates if not math.isnan(e.value)]
        if len(sds) < 2 or not all(sd > 0 for sd in sds):
            raise NotReleasedError(f"{measure} has no error in two or more periods")
        spread = math.sqrt(sds[-1] ** 2 + 1 / sum(sd**-2 for sd in sds[:-1]))
        return (self.critical + NormalDist().inv_cdf(power)) * spread

    def sentences(self) -> tuple[str, ...]:
        """Say what changed, and at which rate alarms are false."""
        rate = (
            f"{len(self.alarms)} alarms; {self.false_alarm:.0%} of series of "
            f"{len(self.periods)} periods without any change would have one or more"
        )
        titles = {name: title_of(name) for name in self.measures}
        titles["psi"] = "the population stability index"
        changes = (
            f"{c.period}: {titles[c.measure]} is {c.now:.4g}, before it {c.before:.4g}"
            for c in self.alarms
        )
        return (rate, *changes)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        changes = [asdict(change) for change in (*self.changes, *self.stability)]
        return {"false_alarm": self.false_alarm, "changes": changes}


def _each_rate(periods: int, measures: int, false_alarm: float) -> float:
    """Return the false-alarm rate of one of the comparisons: measures, and the PSI."""
    contrasts = (periods - 1) * (measures + 1)
    return -math.expm1(math.log1p(-false_alarm) / contrasts)


def detectable_change(
    sd: float,
    periods: int,
    *,
    measures: int = len(WATCHED),
    false_alarm: float = 0.05,
    power: float = 0.9,
) -> float:
    """Return the change in the last of equal periods that is seen with this probability.

    Before any data: ``sd`` is a period's predicted error, sampling and noise together.

    >>> round(detectable_change(0.0065, periods=24), 4)
    0.0314
    """
    if periods < 2:
        raise InputError("a series needs two or more periods")
    z = NormalDist().inv_cdf(1 - _each_rate(periods, measures, false_alarm) / 2)
    spread = sd * math.sqrt(1 + 1 / (periods - 1))
    return (z + NormalDist().inv_cdf(power)) * spread


def _shares(fit: Fit) -> FloatVector:
    """Return the share of a period's examples in each bin, none negative."""
    counts = fit.counts
    each = np.maximum(counts.negatives, 0.0) + np.maximum(counts.positives, 0.0)
    return np.asarray(each / max(float(each.sum()), 1e-300))


def _psi(before: Sequence[Fit], now: Fit) -> tuple[float, float]:
    """Return the index over ten groups, and how far it is beyond what is usual."""
    from scipy.stats import chi2  # noqa: PLC0415 - slow to import

    smooth: FloatVector = np.mean([_shares(r) for r in before], axis=0)
    middle = np.cumsum(smooth) - smooth / 2
    group = np.minimum((middle * _GROUPS).astype(np.int64), _GROUPS - 1)
    member: FloatArray = (group[None, :] == np.arange(_GROUPS)[:, None]).astype(float)
    member = member[member.any(axis=1)]
    p, spread_p = _grouped(member, before)
    q, spread_q = _grouped(member, [now])
    kept = (p > 0) & (q > 0)
    value = float(((q - p) * np.log(q / p))[kept].sum())
    if not kept.any():
        return math.nan, 0.0
    # The sum of delta^2/p, of covariance spread_p + spread_q: its mean and variance.
    root = np.diag(1 / np.sqrt(p[kept]))
    both = root @ (spread_p + spread_q)[np.ix_(kept, kept)] @ root
    mean, variance = float(np.trace(both)), 2 * float((both**2).sum())
    if not (mean > 0 and variance > 0):
        return value, 0.0
    degrees = 2 * mean**2 / variance
    tail = float(chi2.sf(value / mean * degrees, degrees))
    return value, -NormalDist().inv_cdf(min(max(tail, 1e-300), 1 - 1e-12))


def _grouped(member: FloatArray, fits: Sequence[Fit]) -> tuple[FloatVector, FloatArray]:
    """Return the groups' shares and their covariance, sampling and noise."""
    totals = np.sum([f.observed.negatives + f.observed.positives for f in fits], axis=0)
    n = max(float(totals.sum()), 1e-300)
    share: FloatVector = member @ totals / n
    spread: FloatArray = (np.diag(np.maximum(share, 0.0)) - np.outer(share, share)) / n
    centred = (member - share[:, None]) / n
    for fit in fits:
        if not fit.observed.exact:
            rows = np.hstack([centred, centred])
            spread = spread + covariance_of(fit.observed, rows)
    return share, spread


def _spread(estimate: Estimate) -> float:
    """Return by how much a period's value differs from another's where nothing changes."""
    shape = _SHAPE_SHARE * estimate.binning.typical if estimate.noise > 0 else 0.0
    return math.hypot(estimate.sampling or 0.0, estimate.noise, shape)
