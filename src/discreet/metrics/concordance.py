r"""Harrell's and Uno's concordance from a table of follow-up.

Of all pairs of an event and an example that was followed longer, the share in which the
event has the higher score; equal scores count one half. With :math:`e_k` the events and
:math:`c_k` the censorings of interval k by bin, :math:`l_k` those who left after it, and
M the matrix of won pairs (1 above, 1/2 in the same bin),

.. math::
    C = \frac{\sum_k e_k^\top M l_k + \frac12 e_k^\top M c_k + \frac14 E_k(E_k - 1)}
             {\sum_k E_k L_k + \frac12 E_k C_k + \frac12 E_k(E_k - 1)},

capitals their sums. Inside an interval departures are in random order: of an event and a
censoring one half is comparable, and of two events one half is concordant. Leaving these
pairs out makes C too high, by .001 with 48 intervals and .014 with 12.

*Wide intervals.* The one with the larger hazard tends to leave first inside an interval,
too. Of two with hazards :math:`\alpha_i, \alpha_j` per interval, both of whom leave in it, i
is first with probability :math:`\frac12 + (\alpha_i - \alpha_j)/12`, to first order.
:math:`\alpha` is the interval's mean hazard times the bin's relative one, the share of events
over the share of examples in the fitted pooled pairs (below).

Harrell, Lee and Mark (1996) count pairs as they are. Uno et al. (2011) weigh both of a pair
by 1/G at the event's time, so that C does not depend on the censoring. With several causes
an example with another cause's event never has this one (Wolbers et al. 2009): it stays
among the later ones; Uno's weights are not defined for it here.

*Inside the bins.* The pooled pairs make a histogram of two classes: events by the pairs
that they are in, and later ones likewise. What a fit of it finds inside the bins, its area
less that of the same counts with ties, is added: :math:`C + A_{fit} - A_{ties}`. Under
noise this also replaces the area of the released counts by the smooth one, so that the
noise of C is that of the fit, and what is left of :math:`C - A_{ties}`, nearly nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Self

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.estimate.estimate import Binning, Estimate
from discreet.estimate.fit import Fit
from discreet.estimate.intervals import AreaShape
from discreet.estimate.slopes import Slopes, auc_slopes
from discreet.estimate.smooth_fit import Smooth
from discreet.metrics.errors import measure
from discreet.metrics.table import METRICS
from discreet.metrics.timed import FollowUp, TableSlopes, WeightedNoise
from discreet.noise.mechanism import NoNoise
from discreet.statistic.observed import NoiseDistribution, NoisyHistogram

_ORDER_COST: Final = 0.05
"""Of what pairs inside an interval change: about what their unknown order costs."""
_LARGEST_HAZARD: Final = 1.0
_SMALLEST: Final = 1e-300


@dataclass(frozen=True, eq=False)
class Pairs:
    """Weighted events, censorings and later ones by bin and interval."""

    table: FollowUp
    intervals: int
    weights: FloatArray
    """Strata x intervals: 1, or 1/G."""
    events: FloatArray
    censored: FloatArray
    later: FloatArray

    @classmethod
    def of(cls, table: FollowUp, intervals: int, *, weighted: bool) -> Self:
        """Take the pairs whose event is in one of the first intervals."""
        h = intervals
        weights = np.ones((len(table.events), h))
        if weighted:
            weights = table.survival.case_weights[:, :h]

        def sums(part: FloatArray) -> FloatArray:
            found: FloatArray = np.einsum("gbk,gk->bk", part, weights)
            return found

        return cls(table, h, weights, *map(sums, cls.by_stratum(table, h)))

    @cached_property
    def tied(self) -> float:
        """Pairs of two events of one interval."""
        e = self.events.sum(0)
        counted = self.table.events[:, self.table.cause, :, : self.intervals].sum(
            (0, 1)
        )
        alone = np.divide(e**2, counted, out=np.zeros_like(e), where=counted > 0)
        return float(np.maximum(e**2 - alone, 0.0).sum() / 2)

    @cached_property
    def beside(self) -> float:
        """Comparable pairs of an event and a censoring in one interval."""
        return float(self.events.sum(0) @ self.censored.sum(0) / 2)

    @cached_property
    def after(self) -> float:
        """Pairs of an event and one who left in a later interval."""
        return float(self.events.sum(0) @ self.later.sum(0))

    @property
    def total(self) -> float:
        """All pairs."""
        return self.after + self.beside + self.tied

    @cached_property
    def won_after(self) -> float:
        """Those of ``after`` that are concordant, ties one half."""
        return float((self.events * _won(self.later)).sum())

    @cached_property
    def value(self) -> float:
        """The concordance, pairs of one bin counted one half."""
        beside = float((self.events * _won(self.censored)).sum()) / 2
        return (self.won_after + beside + self.tied / 2) / self.total

    @cached_property
    def slopes(self) -> TableSlopes:
        """The slopes of ``value`` in every cell of the table."""
        c, total, table, h = self.value, self.total, self.table, self.intervals
        e_sum, c_sum, l_sum = (
            part.sum(0) for part in (self.events, self.censored, self.later)
        )
        on_e = _won(self.later) - c * l_sum
        on_e = on_e + (_won(self.censored) - c * c_sum) / 2 + (0.5 - c) * e_sum
        on_l = _lost(self.events) - c * e_sum
        on_e, on_l = on_e / total, on_l / total
        on_c = on_l / 2
        w = self.weights
        found = TableSlopes(*(np.zeros_like(part) for part in table.counts))
        later = on_l[None] * w[:, None, :]  # strata x bins x intervals
        before = np.cumsum(later, axis=2) - later
        past = later.sum(2)
        own = found.events[:, table.cause]
        own[..., :h] += on_e[None] * w[:, None, :] + before
        own[..., h:] += past[..., None]
        found.censored[..., :h] += on_c[None] * w[:, None, :] + before
        found.censored[..., h:] += past[..., None]
        for k in range(table.events.shape[1]):
            if k != table.cause:
                found.events[:, k] += past[..., None]
        found = TableSlopes(found.events, found.censored, found.beyond + past)
        if (w == 1).all():
            return found
        on_w = np.zeros((len(w), table.censored.shape[2]))
        raw = Pairs.by_stratum(table, h)
        for part, on in zip(raw, (on_e, on_c, on_l), strict=True):
            on_w[:, :h] += np.einsum("gbk,bk->gk", part, on)
        return found.plus(table.of_margins(table.survival.through_weights(on_w)))

    @staticmethod
    def by_stratum(
        table: FollowUp, h: int
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return events, censorings and later ones without weights."""
        own = table.events[:, table.cause]
        others = np.delete(table.events, table.cause, axis=1).sum(1)
        leaving = own + table.censored
        after = np.cumsum(leaving[..., ::-1], axis=2)[..., ::-1] - leaving
        after = after + (table.beyond + others.sum(2))[..., None]
        return own[..., :h], table.censored[..., :h], after[..., :h]

    @cached_property
    def pooled(self) -> tuple[FloatVector, FloatVector]:
        """The shares of each interval's later ones and events in the pooled pairs."""
        events, later = self.events.sum(0), self.later.sum(0)
        share = later * events.sum() / self.after
        return share, events * self.table.total / self.after

    @cached_property
    def histogram(self) -> NoisyHistogram:
        """The pooled pairs as two classes, about as many as there are examples."""
        on_e, on_l = self.pooled
        table, noise = self.table, self._noise
        return NoisyHistogram(
            table.edges, self.later @ on_l, self.events @ on_e, noise, table.refusal
        )

    @property
    def _noise(self) -> NoiseDistribution:
        table = self.table
        if table.exact:
            return NoNoise()
        on_n, on_p = self._cell_weights
        squares = [float((part**2).sum()) / len(table.edges) for part in (on_n, on_p)]
        n, p = (table.noise_sd**2 * each for each in squares)
        scale = table.noise.scale * math.sqrt(sum(squares) / 2)
        return WeightedNoise(scale, n, p)

    @cached_property
    def _cell_weights(self) -> tuple[FloatArray, FloatArray]:
        """How often a cell of one bin counts among the later ones, and the events."""
        ones = np.ones(len(self.table.edges))
        both = [self._spread(*pair) for pair in ((ones, 0 * ones), (0 * ones, ones))]
        return tuple(  # type: ignore[return-value]
            np.concatenate([part.ravel() for part in slopes.parts]) for slopes in both
        )

    def _spread(self, on_later: FloatVector, on_events: FloatVector) -> TableSlopes:
        """Turn slopes in the pooled classes into slopes in the cells."""
        table, h, w = self.table, self.intervals, self.weights
        share_e, share_l = self.pooled
        later = on_later[None, :, None] * (share_l * w)[:, None, :]
        before, past = np.cumsum(later, axis=2) - later, later.sum(2)
        events = np.repeat(past[:, None, :, None], table.events.shape[3], axis=3)
        events = np.repeat(events, table.events.shape[1], axis=1)
        censored = np.repeat(past[:, :, None], table.censored.shape[2], axis=2)
        events[:, table.cause, :, :h] = (
            before + on_events[None, :, None] * (share_e * w)[:, None, :]
        )
        censored[..., :h] = before
        return TableSlopes(events, censored, past)

    @cached_property
    def fit(self) -> Fit:
        """The fitted pooled pairs."""
        return Smooth().fit(self.histogram)

    @cached_property
    def order(self) -> float:
        """What the larger hazard's earlier departure adds to the concordance."""
        fit = self.fit.counts
        events = fit.positives / max(fit.total_positives, _SMALLEST)
        others = fit.negatives / max(fit.total_negatives, _SMALLEST)
        rate = float(self.events.sum()) / max(float(self.weights.mean()), _SMALLEST)
        share = min(rate / max(self.table.total, 1.0), 1.0)
        every = share * events + (1 - share) * others
        some = every > 0
        relative = np.where(some, events / np.where(some, every, 1.0), 0.0)
        at_risk = self.events.sum(0) + self.censored.sum(0) + self.later.sum(0)
        hazard = np.divide(
            self.events.sum(0), at_risk, out=np.zeros_like(at_risk), where=at_risk > 0
        )
        hazard = np.minimum(hazard, _LARGEST_HAZARD)
        e = self.events.sum(0)
        two = float((e**2 * hazard).sum()) / 2
        one = float((e * self.censored.sum(0) * hazard).sum())
        won, pairs = _first(events, events, relative), 0.0
        gain = two * won
        won, pairs = (
            _first(events, others, relative),
            _mean_gap(events, others, relative),
        )
        gain += one * (won - self.value * pairs)
        return gain / 12 / self.total

    def noise_slopes(self) -> tuple[TableSlopes, Slopes]:
        """Return slopes in the released cells, and those in the fitted classes."""
        n, p = (
            np.maximum(v, 0.0)
            for v in (self.histogram.negatives, self.histogram.positives)
        )
        released = auc_slopes(n, p)
        fitted = METRICS["auc"].measure.slopes(self.fit.damped)
        followed = self.fit.followed(fitted)
        moved = Slopes(*(a - b for a, b in zip(followed, released, strict=True)))
        return self.slopes.plus(self._spread(*moved)), fitted


def _won(others: FloatArray) -> FloatArray:
    """Count those in lower bins and half of the same one, by bin and interval."""
    below: FloatArray = np.cumsum(others, axis=0) - others / 2
    return below


def _lost(events: FloatArray) -> FloatArray:
    """Count those in higher bins and half of the same one."""
    above: FloatArray = np.cumsum(events[::-1], axis=0)[::-1] - events / 2
    return above


def _first(first: FloatVector, second: FloatVector, relative: FloatVector) -> float:
    """Return the mean of the hazards' difference over pairs the first of which is higher.

    For two draws of one distribution this is over both orders.
    """
    below = np.cumsum(second) - second
    below_hazard = np.cumsum(second * relative) - second * relative
    higher = float((first * (relative * below - below_hazard)).sum())
    return 2 * higher if first is second else higher


def _mean_gap(first: FloatVector, second: FloatVector, relative: FloatVector) -> float:
    """Return the mean of the hazards' difference over all pairs."""
    return float(first @ relative - second @ relative)


def concordance(
    table: FollowUp, time: float | None = None, *, weighted: bool
) -> Estimate:
    """Return Harrell's concordance, or Uno's with weights, up to a horizon."""
    if table.refusal is not None:
        return Estimate.undefined(table.refusal)
    if weighted and table.events.shape[1] > 1:
        return Estimate.undefined(
            "Uno's weights are not defined with several causes: see the AUC at a horizon"
        )
    h = len(table.cuts) - 1 if time is None else table.horizon(time)
    if weighted and (reason := table.unfollowed(h)) is not None:
        return Estimate.undefined(reason)
    pairs = Pairs.of(table, h, weighted=weighted)
    if not pairs.after > 0:
        return Estimate.undefined(
            "no event is followed by anybody who was followed longer"
        )
    if pairs.fit.refusal is not None:
        return Estimate.undefined(pairs.fit.refusal)
    inside = measure(METRICS["auc"], pairs.fit)
    n, p = pairs.histogram.negatives, pairs.histogram.positives
    ties = float(p @ (np.cumsum(n) - n / 2)) / float(p.sum() * n.sum())
    value = min(max(pairs.value + pairs.order + inside.value - ties, 0.0), 1.0)
    return Estimate(
        value,
        table.sampling_sd(pairs.slopes),
        _noise(pairs),
        _binning(pairs, value, inside),
        shape=_shape(table, h),
        caution=inside.caution,
    )


def _noise(pairs: Pairs) -> float:
    if pairs.table.exact:
        return 0.0
    slopes, fitted = pairs.noise_slopes()
    return math.hypot(pairs.table.noise_of(slopes), pairs.fit.unsure(fitted))


def _binning(pairs: Pairs, value: float, inside: Estimate) -> Binning:
    """Add what the order inside intervals may change to what the bins hide."""
    total = pairs.total
    unknown = (pairs.beside + pairs.tied) / total
    dropped = pairs.won_after / pairs.after
    typical = _ORDER_COST * abs(pairs.value - dropped)
    shown = inside.binning
    low = value - (inside.value - shown.low) - unknown
    high = value + (shown.high - inside.value) + unknown
    return Binning(
        max(low, 0.0),
        min(high, 1.0),
        math.hypot(typical, shown.typical),
        shown.below,
        shown.above,
    )


def _shape(table: FollowUp, h: int) -> AreaShape:
    events = float(table.events[:, table.cause, :, :h].sum())
    return AreaShape(max(events, 1.0), max(table.total - events, 1.0))
