r"""Follow-up as two weighted classes: survival, censoring, and slopes in every cell.

A table counts examples by score bin b, interval k = (t_{k-1}, t_k] and what ended the
follow-up. Departures inside an interval, events and censorings alike, are taken to be in
random order. With Y examples at risk, d events and c censorings in an interval, the
expected logarithm of the Kaplan-Meier factor over these orders is, exactly,

.. math::
    \log\frac{S_k}{S_{k-1}} = \frac{d}{d + c} \log\frac{Y - d - c}{Y}, \qquad
    \log\frac{G_k}{G_{k-1}} = \frac{c}{d + c} \log\frac{Y - d - c}{Y},

S the survival and G the probability of not being censored, so that :math:`S_k G_k` is the
share still followed. Where the densities of events and of censorings rise differently
inside an interval, by the relative slopes a and b that the neighbouring intervals show, the
order is not quite random: :math:`\log S_k` moves by :math:`-\frac{a-b}{12}\frac{dc}{Y Y'}`,
Y' those left at its end, and :math:`\log G_k` by as much the other way. At a horizon t_h an example with an event in interval k <= h is a
case of weight

.. math:: w_k = \frac{N (S_{k-1} - S_k)}{d_k} \approx \frac{1}{G(u)},

and one followed past t_h a control of weight :math:`v_h = 1/G_h` (inverse probability of
censoring; Graf et al. 1999, Uno et al. 2007). The cases' weights add up to
:math:`N(1 - S_h)` and all weights to N: the identity of Satten and Datta (2001). So a
horizon makes of a table a histogram of two classes, and every measure of two classes has
a value there. With several causes, cases are the events of one cause, their sum is the
Aalen-Johansen risk, and events of other causes are controls (Blanche, Dartigues and
Jacqmin-Gadda 2013, second definition).

*Slopes.* One more example in a cell changes its bin's class by its weight, and all
weights through the margins: the second is the estimation of G. Censoring may be estimated
within strata: then weights are the strata's own.

*Noise.* A class's count in a bin is a weighted sum of cells; the cells' noise is
independent. The two classes are fitted as any noisy histogram is, and slopes are followed
through that fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Self

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.data.edges import Edges
from discreet.errors import InputError
from discreet.estimate.fit import Fit
from discreet.estimate.slopes import Cells, Slopes
from discreet.estimate.smooth_fit import Smooth
from discreet.noise.mechanism import NoNoise
from discreet.statistic.observed import (
    BinCovariance,
    NoiseDistribution,
    NoisyHistogram,
    cell_variance,
)
from discreet.statistic.timed import TimedCounts

_TINY: Final = 1e-30
_LEFT: Final = 1e-9
"""Fewer examples than this are none."""
_STEEPEST: Final = 1.5
"""Largest relative slope of a density inside an interval; at 2 it is 0 at one end."""


@dataclass(frozen=True, eq=False)
class TableSlopes:
    """A measure's derivative in every count of a table; the first axis is the stratum."""

    events: FloatArray
    """Strata x causes x bins x intervals."""
    censored: FloatArray
    """Strata x bins x intervals."""
    beyond: FloatArray
    """Strata x bins."""

    @property
    def parts(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The three blocks."""
        return self.events, self.censored, self.beyond

    def plus(self, other: TableSlopes, factor: float = 1.0) -> TableSlopes:
        """Add a multiple of other slopes."""
        both = zip(self.parts, other.parts, strict=True)
        return TableSlopes(*(a + factor * b for a, b in both))

    def times(self, factor: float) -> TableSlopes:
        """Multiply all slopes."""
        return TableSlopes(*(factor * part for part in self.parts))

    @property
    def norm(self) -> float:
        """The root of the sum of squares."""
        return math.sqrt(sum(float((part**2).sum()) for part in self.parts))


@dataclass(frozen=True, eq=False)
class FollowUp:
    """A consistent table, one stratum or several, and one cause of interest.

    Args:
        edges: the score bins.
        cuts: t_0 to t_K.
        events: strata x causes x bins x intervals.
        censored: strata x bins x intervals.
        beyond: strata x bins.
        noise: the distribution of the noise in each number.
        cause: which cause is the event, from 0.
        refusal: why nothing can be told, if so.
        notes: what a reader should know.
    """

    edges: Edges
    cuts: FloatVector
    events: FloatArray
    censored: FloatArray
    beyond: FloatArray
    noise: NoiseDistribution
    cause: int = 0
    refusal: str | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, counts: TimedCounts | Mapping[str, TimedCounts], *, cause: int = 0
    ) -> Self:
        """Take a released table, or one per stratum of the censoring."""
        tables = [counts] if isinstance(counts, TimedCounts) else [*counts.values()]
        first = tables[0]
        if not 0 <= cause < len(first.events):
            raise InputError(f"there are {len(first.events)} causes of an event")
        refusals = [t.refusal for t in tables if t.refusal]
        return cls(
            first.edges,
            first.cuts,
            np.stack([t.events for t in tables]),
            np.stack([t.censored for t in tables]),
            np.stack([t.beyond for t in tables]),
            first.noise,
            cause,
            refusals[0] if refusals else None,
            tuple(dict.fromkeys(n for t in tables for n in t.notes)),
        )

    @property
    def exact(self) -> bool:
        """Whether the counts carry no noise."""
        return self.noise.scale == 0

    @cached_property
    def noise_sd(self) -> float:
        """The standard deviation of the noise in one count."""
        return math.sqrt(cell_variance(self.noise)) if not self.exact else 0.0

    @cached_property
    def total(self) -> float:
        """All examples."""
        return float(self.events.sum() + self.censored.sum() + self.beyond.sum())

    @cached_property
    def by_bin(self) -> FloatVector:
        """Examples in each bin."""
        found: FloatVector = (
            self.events.sum((0, 1, 3)) + self.censored.sum((0, 2)) + self.beyond.sum(0)
        )
        return found

    def horizon(self, time: float) -> int:
        """Return the interval that ends at a horizon; horizons are cuts."""
        places = np.flatnonzero(np.isclose(self.cuts, time, rtol=1e-12, atol=0.0))
        if places.size == 0 or places[0] == 0:
            known = ", ".join(f"{t:g}" for t in self.cuts[1:])
            raise InputError(
                f"{time:g} is no cut of this table, and horizons are cuts: {known}; ask "
                "for it in the plan's horizons"
            )
        return int(places[0])

    def margins(self, shares: FloatVector | None = None) -> Margins:
        """Return the counts by interval of all, or of a share of each bin."""
        share = np.ones(len(self.edges)) if shares is None else shares
        found = Margins(
            np.einsum("gcbk,b->gck", self.events, share),
            np.einsum("gbk,b->gk", self.censored, share),
            self.beyond @ share,
        )
        return found if self.exact else found.projected()

    @cached_property
    def survival(self) -> Survival:
        """Survival and censoring of all."""
        return Survival.of(self.margins(), np.diff(self.cuts))

    def unfollowed(self, h: int) -> str | None:
        """Say why nothing can be weighed at a cut: in a stratum nobody is followed past it."""
        if self.survival.at_risk[:, h].min() > _LEFT:
            return None
        return (
            f"nobody was followed past {self.cuts[h]:g}: follow-up that ends there is before "
            "it, so take an earlier horizon"
        )

    @cached_property
    def none(self) -> TableSlopes:
        """Slopes of zero."""
        return TableSlopes(*(np.zeros_like(part) for part in self.counts))

    @property
    def counts(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The three blocks of counts."""
        return self.events, self.censored, self.beyond

    def of_margins(
        self, slopes: Margins, shares: FloatVector | None = None
    ) -> TableSlopes:
        """Turn slopes in the margins into slopes in the cells."""
        share = np.ones(len(self.edges)) if shares is None else shares
        return TableSlopes(
            slopes.events[:, :, None, :] * share[:, None],
            slopes.censored[:, None, :] * share[:, None],
            slopes.beyond[:, None] * share,
        )

    def sampling_sd(self, slopes: TableSlopes) -> float:
        r"""Return the sd over samples of this size: :math:`\sum c g^2`, c the counts.

        Slopes of a measure that does not change when all counts are doubled; the
        factor n/(n - 1) is a sample variance's.
        """
        both = zip(self.counts, slopes.parts, strict=True)
        variance = sum(float((c * g**2).sum()) for c, g in both)
        return math.sqrt(max(variance * self._few, 0.0))

    @property
    def _few(self) -> float:
        return self.total / (self.total - 1) if self.total > 2 else 2.0

    def noise_of(self, slopes: TableSlopes) -> float:
        """Return the sd that the release's noise gives a measure."""
        return self.noise_sd * slopes.norm

    def at(self, time: float, *, event_free: bool = False) -> AtHorizon:
        """Return the two weighted classes at a horizon, fitted once."""
        key = self.horizon(time), event_free
        if key not in self._horizons:
            self._horizons[key] = AtHorizon.of(self, key[0], event_free=event_free)
        return self._horizons[key]

    @cached_property
    def _horizons(self) -> dict[tuple[int, bool], AtHorizon]:
        return {}


@dataclass(frozen=True, eq=False)
class Margins:
    """Counts by interval, or slopes in them; the first axis is the stratum."""

    events: Any
    """Strata x causes x intervals."""
    censored: Any
    beyond: Any

    def projected(self) -> Margins:
        """Return the nearest counts that are none below 0, each stratum's total kept."""
        strata, causes, intervals = self.events.shape
        flat = np.concatenate(
            [self.events.reshape(strata, -1), self.censored, self.beyond[:, None]],
            axis=1,
        )
        kept = np.stack([on_simplex(row) for row in flat])
        events, rest = kept[:, : causes * intervals], kept[:, causes * intervals :]
        return Margins(events.reshape(self.events.shape), rest[:, :-1], rest[:, -1])

    @property
    def totals(self) -> Any:
        """Examples by stratum."""
        return self.events.sum((1, 2)) + self.censored.sum(1) + self.beyond


def on_simplex(counts: FloatVector) -> FloatVector:
    """Return the nearest counts that are not negative and have the same total.

    >>> on_simplex(np.array([3.0, -1.0, 2.0])).tolist()
    [2.5, 0.0, 1.5]
    """
    total = float(counts.sum())
    if total <= 0:
        return np.zeros_like(counts)
    if (counts >= 0).all():
        return counts
    falling = np.sort(counts)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, counts.size + 1)
    shift = float(excess[np.flatnonzero(falling > excess)[-1]])
    kept: FloatVector = np.maximum(counts - shift, 0.0)
    return kept


@dataclass(frozen=True, eq=False)
class Survival:
    """Survival, censoring and weights at the cuts, a row a stratum."""

    margins: Margins
    at_risk: Any
    """At each cut t_0 to t_K."""
    survival: Any
    """S at t_0 to t_K, from 1."""
    uncensored: Any
    """G at t_0 to t_K, from 1."""
    case_weights: Any
    """w of each interval."""
    widths: FloatVector | None = None
    """Of the intervals; None takes departures inside them in random order."""

    @classmethod
    def of(cls, margins: Margins, widths: FloatVector | None = None) -> Self:
        """Compute the curves; margins may be complex, for slopes."""
        d, c = margins.events.sum(1), margins.censored
        leaving = d + c
        total = margins.totals[:, None]
        after = total - np.cumsum(leaving, axis=1)
        # Where nobody is left the curve ends: half an example keeps it finite.
        left = np.where(np.real(after) > _LEFT, after, 0.5)
        before = np.concatenate([total, left[:, :-1]], axis=1)
        before = np.where(np.real(before) > _LEFT, before, 1.0)
        some = np.real(leaving) > _LEFT
        safe = np.where(some, leaving, 1.0)
        step = np.where(some, np.log(left / before), -leaving / before)
        share = np.where(some, d / safe, 0.0)
        one = np.ones_like(total)
        x = share * step
        if widths is not None and widths.size > 1:
            rises = c * _rise(d, widths) - d * _rise(c, widths)
            x = x - rises / (12 * before * left)
        survival = np.concatenate([one, np.exp(np.cumsum(x, 1))], axis=1)
        free = np.exp(np.cumsum(step - x, axis=1))
        uncensored = np.concatenate([one, free], axis=1)
        # N (S - S')/d, written so that it holds without events too.
        grown = np.where(np.abs(x) > _LEFT, np.expm1(x) / np.where(x == 0, 1.0, x), 1.0)
        rate = np.where(some, -step / safe, 1 / before)
        died = np.real(d) > _LEFT
        rate = np.where(died, -x / np.where(died, d, 1.0), rate)
        weights = total * survival[:, :-1] * rate * grown
        at_risk = np.concatenate([total, after], axis=1)
        return cls(margins, at_risk, survival, uncensored, weights, widths)

    @property
    def control_weights(self) -> Any:
        """1/G = N S/Y at each cut, by stratum."""
        left = np.where(np.real(self.at_risk) > _LEFT, self.at_risk, 0.5)
        return self.margins.totals[:, None] * self.survival / left

    @cached_property
    def jacobian(self) -> WeightSlopes:
        """Slopes of the weights in the margins, by complex steps: exact to rounding.

        A step in every margin at once, one row each: rows do not touch each other
        (Squire and Trapp 1998).
        """
        m = self.margins
        strata, intervals = m.censored.shape
        inputs = 2 * intervals + 1
        rows = np.concatenate(
            [m.events.sum(1), m.censored, m.beyond[:, None]], axis=1
        ).repeat(inputs, axis=0)
        moved = rows + 1j * _TINY * np.tile(np.eye(inputs), (strata, 1))
        with np.errstate(all="ignore"):
            found = Survival.of(
                Margins(
                    moved[:, None, :intervals],
                    moved[:, intervals:-1],
                    moved[:, -1],
                ),
                self.widths,
            )
            steps = (found.case_weights, found.control_weights, found.survival)
        shape = (strata, inputs, -1)
        return WeightSlopes(*(np.imag(s).reshape(shape) / _TINY for s in steps))

    def risks(self, cause: int) -> FloatVector:
        """Return the risk of a cause at every cut t_0 to t_K, over strata."""
        cases = (self.margins.events[:, cause] * self.case_weights).sum(0)
        return np.append(0.0, np.cumsum(cases) / self.margins.totals.sum())

    def risk_slopes(self, cause: int, h: int) -> Margins:
        """Return the slopes of the risk by a cut in the margins."""
        events, weights = self.margins.events, self.case_weights
        on = np.zeros_like(weights)
        on[:, :h] = events[:, cause, :h]
        slopes = self.through_weights(on)
        slopes.events[:, cause, :h] += weights[:, :h]
        total, risk = self.margins.totals.sum(), self.risks(cause)[h]
        parts = (slopes.events, slopes.censored, slopes.beyond)
        return Margins(*((part - risk) / total for part in parts))

    def through_weights(
        self, on_cases: FloatArray, on_controls: FloatArray | None = None
    ) -> Margins:
        """Return what slopes in the weights are in the margins, by the chain rule.

        ``on_cases`` is by stratum and interval, ``on_controls`` by stratum and cut.
        """
        slopes = np.einsum("gik,gk->gi", self.jacobian.cases, on_cases)
        if on_controls is not None:
            slopes += np.einsum("gik,gk->gi", self.jacobian.controls, on_controls)
        k = self.margins.censored.shape[1]
        events = np.repeat(slopes[:, None, :k], self.margins.events.shape[1], axis=1)
        return Margins(events, slopes[:, k:-1], slopes[:, -1])

    def survival_slopes(self, h: int) -> Margins:
        """Return the slopes of the survival at a cut, strata by their size."""
        sizes = self.margins.totals
        total = sizes.sum()
        mean = float((self.survival[:, h] * sizes).sum() / total)
        slopes = self.jacobian.survival[:, :, h] * (sizes / total)[:, None]
        slopes += ((self.survival[:, h] - mean) / total)[:, None]
        k = self.margins.censored.shape[1]
        events = np.repeat(slopes[:, None, :k], self.margins.events.shape[1], axis=1)
        return Margins(events, slopes[:, k:-1], slopes[:, -1])


def _rise(counts: Any, widths: FloatVector) -> Any:
    """Return how much more of a count is in an interval's later part: its slope times it.

    The density's slope between the neighbours' middles, and at most so steep that the
    density is 0 at one end. Counts may be complex.
    """
    middle = np.cumsum(widths) - widths / 2
    density = counts / widths
    later = np.append(np.arange(1, widths.size), widths.size - 1)
    earlier = np.append(0, np.arange(widths.size - 1))
    slope = (density[:, later] - density[:, earlier]) / (
        middle[later] - middle[earlier]
    )
    rise = slope * widths**2
    steep = np.abs(np.real(rise)) > _STEEPEST * np.real(counts)
    return np.where(steep, np.sign(np.real(rise)) * _STEEPEST * counts, rise)


@dataclass(frozen=True, eq=False)
class WeightSlopes:
    """Slopes in each stratum's margins: events, then censorings, then beyond."""

    cases: FloatArray
    """Strata x margins x intervals."""
    controls: FloatArray
    """Strata x margins x cuts."""
    survival: FloatArray


@dataclass(frozen=True)
class WeightedNoise:
    """The noise of weighted sums of cells, independent in every bin and class."""

    scale: float
    negatives: float
    """Variance in each bin."""
    positives: float

    def covariance(self, at: FloatVector) -> BinCovariance:
        """The classes' variances, nothing across them."""
        bins = at.size // 2
        return BinCovariance(
            np.full(bins, self.negatives), np.full(bins, self.positives), np.zeros(bins)
        )

    def sample(
        self, at: FloatVector, size: int, rng: np.random.Generator
    ) -> FloatArray:
        """Draw simulated noise: sums of several cells are near normal."""
        bins = at.size // 2
        sd = np.sqrt(np.repeat([self.negatives, self.positives], bins))
        drawn: FloatArray = rng.standard_normal((size, at.size)) * sd
        return drawn


@dataclass(frozen=True, eq=False)
class AtHorizon:
    """A table's two weighted classes at a horizon, fitted, and their slopes."""

    table: FollowUp
    h: int
    cases: FloatVector
    controls: FloatVector
    case_weights: FloatArray
    """Strata x intervals up to the horizon."""
    control_weights: FloatVector
    event_free: bool = False
    """Whether controls are free of every cause's event."""

    @classmethod
    def of(cls, table: FollowUp, h: int, *, event_free: bool = False) -> Self:
        """Weigh the cases and controls of a horizon."""
        survival = table.survival
        w, v = survival.case_weights[:, :h], survival.control_weights[:, h]
        cases = np.einsum("gbk,gk->b", table.events[:, table.cause, :, :h], w)
        controls = v @ cls._late(table, h)
        others = np.delete(table.events, table.cause, axis=1)[..., :h].sum(1)
        if not event_free:
            controls = controls + np.einsum("gbk,gk->b", others, w)
        return cls(table, h, cases, controls, w, v, event_free)

    @staticmethod
    def _late(table: FollowUp, h: int) -> FloatArray:
        """Count those followed past the horizon, by stratum and bin."""
        late: FloatArray = (
            table.events[..., h:].sum((1, 3))
            + table.censored[..., h:].sum(2)
            + table.beyond
        )
        return late

    @property
    def seen(self) -> tuple[float, float]:
        """Cases and controls as counted, without weights."""
        table, h = self.table, self.h
        cases = float(table.events[:, table.cause, :, :h].sum())
        every = float(table.events[..., :h].sum())
        controls = float(self._late(table, h).sum())
        return cases, controls + (0.0 if self.event_free else every - cases)

    @cached_property
    def observed(self) -> NoisyHistogram:
        """The two classes as a noisy histogram."""
        table, h = self.table, self.h
        noise: NoiseDistribution = NoNoise()
        if not table.exact:
            _, causes, _, intervals = table.events.shape
            squares = float((self.case_weights**2).sum())
            late = (causes + 1) * (intervals - h) + 1
            on_n = late * float((self.control_weights**2).sum())
            on_n += 0.0 if self.event_free else (causes - 1) * squares
            of_one = table.noise_sd**2
            typical = math.sqrt((squares + on_n) / 2)
            noise = WeightedNoise(
                table.noise.scale * typical, of_one * on_n, of_one * squares
            )
        refusal = table.refusal or table.unfollowed(h)
        return NoisyHistogram(
            table.edges, self.controls, self.cases, noise, refusal, table.notes
        )

    @cached_property
    def fit(self) -> Fit:
        """The fitted classes: as they are if exact, else by the smooth model."""
        return Smooth().fit(self.observed)

    def chain(self, slopes: Slopes) -> TableSlopes:
        """Turn slopes in the classes' bins into slopes in the table's cells."""
        table, h = self.table, self.h
        found = table.of_margins(self._through_weights(slopes))
        late = slopes.negatives * self.control_weights[:, None]
        found.events[..., :h] += self._direct(slopes)
        found.events[..., h:] += late[:, None, :, None]
        found.censored[..., h:] += late[:, :, None]
        return replace(found, beyond=found.beyond + late)

    def _direct(self, slopes: Slopes) -> FloatArray:
        """Return what an event up to the horizon changes by its own weight."""
        w, causes = self.case_weights, self.table.events.shape[1]
        on_other = (
            np.zeros_like(slopes.negatives) if self.event_free else slopes.negatives
        )
        own = np.stack([on_other] * causes)
        own[self.table.cause] = slopes.positives
        return own[None, :, :, None] * w[:, None, None, :]

    def _through_weights(self, slopes: Slopes) -> Margins:
        """Return what slopes do through the estimation of the weights."""
        table, h = self.table, self.h
        on_cases = np.zeros(table.censored.shape[::2])
        ratio = self._direct(slopes) / self.case_weights[:, None, None, :]
        on_cases[:, :h] = (ratio * table.events[..., :h]).sum((1, 2))
        on_controls = np.zeros((len(on_cases), table.cuts.size))
        on_controls[:, h] = self._late(table, h) @ slopes.negatives
        return table.survival.through_weights(on_cases, on_controls)

    def sampling_sd(self, of: Callable[[Cells], Slopes], *, along: bool) -> float:
        r"""Return the sampling error of a measure with slopes in any cells.

        With ``along``, bins are cut finer along the curve, where scores that differ have
        slopes that differ: what this adds to :math:`\sum c g^2` of a class is multiplied
        by the class's mean weight.
        """
        cells, fine = self.fit.bins, self.fit.pieces
        slopes = of(cells)
        variance = self._expected.sampling_sd(self.chain(slopes)) ** 2
        if not along:
            return math.sqrt(variance)
        finer = of(fine)
        for k, (whole, piece) in enumerate(
            (
                (
                    (cells.negatives, slopes.negatives),
                    (fine.negatives, finer.negatives),
                ),
                (
                    (cells.positives, slopes.positives),
                    (fine.positives, finer.positives),
                ),
            )
        ):
            weight = (self.controls, self.cases)[k].sum() / max(self.seen[1 - k], 1.0)
            extra = float(piece[0] @ piece[1] ** 2 - whole[0] @ whole[1] ** 2)
            variance += max(extra, 0.0) * max(float(weight), 1.0)
        return math.sqrt(variance)

    @cached_property
    def _expected(self) -> FollowUp:
        """The table as it is; under noise each class's fitted bins times its margins.

        The noise in cells that are nearly empty would swamp their squared slopes.
        """
        table, h, fit = self.table, self.h, self.fit.counts
        if table.exact:
            return table
        margins = table.margins()
        cases, controls = (
            bins / max(float(bins.sum()), _LEFT)
            for bins in (fit.positives, fit.negatives)
        )
        events = margins.events[:, :, None, :] * controls[:, None]
        own = margins.events[:, table.cause, None, :h] * cases[:, None]
        events[:, table.cause, :, :h] = own
        censored = margins.censored[:, None, :] * controls[:, None]
        beyond = margins.beyond[:, None] * controls
        return replace(table, events=events, censored=censored, beyond=beyond)

    def noise_sd(self, slopes: Slopes) -> float:
        """Return the noise of a measure with slopes in the fitted classes."""
        passed = self.table.noise_of(self.chain(self.fit.followed(slopes)))
        return math.hypot(passed, self.fit.unsure(slopes))
