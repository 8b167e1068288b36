r"""From a row of the table and a fit to an estimate: the three errors, attached.

- *binning*: the row's limits;
- *sampling*: the delta method on the fitted counts
  (:mod:`discreet.estimate.slopes`), cut finer along the curve for metrics of a
  ranking;
- *noise*: along the fit's path (:data:`discreet.estimate.fit.NoisePath`).

A model has a bias of its own, which neither shows. Its distance to the flat fit of the
same release is evidence of it. Half of that is in the usual binning error, and on the
side of the flat fit what noise cannot have made of it (``docs/error-bars.md``). Where
symbols were decoded with another smoothness too, the interval reaches all of the way to
its value, on that side alone.

Whatever a release holds, there is an estimate: one that cannot be computed is
unusable, with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from discreet.errors import InputError, UnknownNameError
from discreet.estimate.estimate import Binning, Estimate
from discreet.estimate.fit import AnyFit, Fit, Other, ScalarFit
from discreet.estimate.slopes import Slopes, noise_sd, numeric_slopes, sampling_sd
from discreet.metrics.influence import least_sums
from discreet.metrics.measure import Measure
from discreet.metrics.table import METRICS, RATES, MetricRow
from discreet.statistic.observed import NoisyHistogram
from discreet.vocabulary import did_you_mean, metric_name

FEWEST_EXAMPLES: Final = 50
"""Below so many examples of a class, or noise scales of them, an area is unsure."""
_ALONE: Final = ("positives", "negatives")
_UNSEEN: Final = 0.5
"""Expected count, by Jeffreys' prior, of what a sample was not seen to hold."""
_TOO_LITTLE: Final = (
    "it cannot be computed from this release: too little is left in its bins"
)


class Measured(Mapping[str, Estimate]):
    """Estimates by name that are computed when they are first used.

    As with ``defaultdict``, iterating and ``in`` know what was ``listed``, and looking
    up a further name that is ``known``, or a synonym of one, computes it.

    >>> lazy = Measured(["a"], lambda n: Estimate.undefined(n), known=["a", "b"])
    >>> list(lazy), lazy["b"].value, "b" in lazy
    (['a'], nan, False)
    """

    def __init__(
        self,
        listed: Iterable[str],
        compute: Callable[[str], Estimate],
        *,
        known: Iterable[str] = (),
    ) -> None:
        self._listed = tuple(listed)
        self._known = frozenset(self._listed) | frozenset(known)
        self._compute = compute
        self._found: dict[str, Estimate] = {}

    def __getitem__(self, word: str) -> Estimate:
        name = word if word in self._known else metric_name(str(word))
        if name not in self._known:
            near = did_you_mean(name, self._known)
            raise UnknownNameError(
                f"there is no measure of this name{near or '; see docs/measures.md'}"
            )
        if name not in self._found:
            self._found[name] = self._compute(name)
        return self._found[name]

    def __contains__(self, name: object) -> bool:
        return name in self._listed

    def __iter__(self) -> Iterator[str]:
        return iter(self._listed)

    def __len__(self) -> int:
        return len(self._listed)

    def __repr__(self) -> str:
        return repr(dict(self))


def tidy(
    name: str, title: str, estimate: Estimate, threshold: float | None = None
) -> dict[str, Any]:
    """Return an estimate as one row of a tidy table."""
    low, high = estimate.interval()
    return {
        "measure": name,
        "title": title,
        "threshold": threshold,
        "value": estimate.value,
        "low": low,
        "high": high,
        "sampling_sd": estimate.sampling,
        "noise_sd": estimate.noise,
        "binning_low": estimate.binning.low,
        "binning_high": estimate.binning.high,
        "note": estimate.unusable or estimate.caution,
    }


def measures(
    fit: AnyFit,
    names: Iterable[str],
    rate: Callable[[str], Estimate] | None = None,
) -> Mapping[str, Estimate]:
    """Return metrics by name, in the table's order, each computed when it is first used.

    Iterating gives the names asked for. Every other row of the table can be looked
    up too: it follows from the same release and spends nothing more. ``rate`` looks up
    the measures at a threshold.
    """
    wanted = set(names)
    if isinstance(fit, ScalarFit):
        return {n: fit.given[n] for n in METRICS if n in wanted & set(fit.given)}

    def computed(name: str) -> Estimate:
        if rate is not None and name not in METRICS:
            return rate(name)
        return measure(METRICS[name], fit)

    listed = (n for n in METRICS if n in wanted)
    known = METRICS if rate is None else (*METRICS, *RATES)
    return Measured(listed, computed, known=known)


def measure(row: MetricRow[Measure], fit: Fit) -> Estimate:
    """Return one metric of a fit with its errors."""
    reason = _undefined(row, fit)
    if reason is not None:
        return _by_convention(row, fit, reason)
    try:
        with np.errstate(all="ignore"):  # what is not finite is refused below
            value, binning = _value(row, fit)
            sampling, noise = _sampling(row, fit, value), _noise(row, fit)
            shape = row.measure.shape(fit)
            # Intervals square them.
            squares = np.square([value, binning.usual, sampling, noise])
    except (ArithmeticError, np.linalg.LinAlgError):
        return Estimate.undefined(_TOO_LITTLE, row.support)
    if not np.isfinite(squares).all():
        return Estimate.undefined(_TOO_LITTLE, row.support)
    return Estimate(
        value,
        sampling,
        0.0 if fit.observed.exact else noise,
        binning,
        support=row.support,
        shape=shape,
        caution=_few_examples(fit.counts),
    )


def metric_influences(fit: Fit, most: float, names: Iterable[str]) -> dict[str, float]:
    """Return how far one site can move each metric that has a bound."""
    bins = len(fit.observed.edges)
    positives, negatives = least_sums(fit, np.repeat(np.eye(2)[::-1], bins, axis=1))
    wanted = set(names)
    bounds = {name: METRICS[name].measure.influence for name in METRICS}
    return {
        name: bound(most, float(positives), float(negatives))
        for name, bound in bounds.items()
        if bound is not None and name in wanted
    }


def _undefined(row: MetricRow[Measure], fit: Fit) -> str | None:
    """Say why a fit does not define a metric, if so."""
    counts = fit.counts
    if fit.observed.refusal is not None:
        return fit.observed.refusal
    if fit.refusal is not None and not row.measure.one_class:
        return fit.refusal
    if row.needs_probabilities and counts.edges.scores.kind == "other":
        return "scores of kind 'other' are not probabilities"
    if counts.total_positives + counts.total_negatives <= 0:
        return "there are no examples"
    return None


def _by_convention(row: MetricRow[Measure], fit: Fit, reason: str) -> Estimate:
    """Return what people agreed on where a class is known to be missing, or NaN.

    It says nothing of the model: unusable, and its interval holds every value.
    """
    missing = fit.observed.missing_class
    if row.measure.alone is None or not fit.observed.exact or missing not in _ALONE:
        return Estimate.undefined(reason, row.support)
    value, every = row.measure.alone[_ALONE.index(missing)], row.support
    binning = Binning(every.low, every.high, every.high - every.low)
    return Estimate(value, None, 0.0, binning, reason, every)


def _value(row: MetricRow[Measure], fit: Fit) -> tuple[float, Binning]:
    """Return the value and its limits, which hold it.

    A published curve may lie outside what its bins allow: its limits give way.
    """
    if row.name in fit.own:
        value = fit.own[row.name]
        inside = _limits(row, fit, value)
        low, high = min(inside.low, value), max(inside.high, value)
        return value, Binning(low, high, inside.typical)
    value = row.measure.value(fit)
    binning = _limits(row, fit, value)
    value = min(max(value, binning.low), binning.high)
    ways = [_way(row, value, decoded) for decoded in fit.decodings]
    if fit.other is not None:
        apart = abs(_way(row, value, fit.other))
        binning = _widened(row, value, binning, apart, apart)
        binning = replace(binning, typical=max(binning.typical, apart))
        ways.append(_sure_way(row, value, fit, fit.other.fit))
    if not any(ways):
        return value, binning
    below, above = max(0.0, -min(ways)), max(0.0, *ways)
    binning = _widened(row, value, binning, below, above)
    return value, replace(binning, below=below, above=above)


def _limits(row: MetricRow[Measure], fit: Fit, value: float) -> Binning:
    if row.measure.limits is None:
        return Binning(row.support.low, row.support.high, 0.0)
    return row.measure.limits(fit, value)


def _way(row: MetricRow[Measure], value: float, other: Other) -> float:
    """Return the extra error from choosing among fits, 0 where the other has no value."""
    way = (row.measure.value(other.fit) - value) * other.share
    return way if math.isfinite(way) else 0.0


def _sure_way(row: MetricRow[Measure], value: float, fit: Fit, flat: Fit) -> float:
    r"""Return how far a model's bias surely reaches towards the flat fit.

    Of the way w between the two values, noise has made some: it has the variance V of
    their difference where the model is right (Hausman 1978). What is left is
    :math:`w \cdot w^2/(w^2 + V)`, nothing where w is small beside its noise and all of
    it where noise cannot have made it.
    """
    if fit.noise_path != "followed":
        return 0.0
    way = row.measure.value(flat) - value
    own = np.concatenate(fit.followed(row.measure.slopes(fit.damped)))
    other = np.concatenate(row.measure.slopes(flat.damped))
    spread = noise_sd(Slopes(*np.split(own - other, 2)), fit.observed)
    size = way * way + spread * spread
    sure = way * (way * way / size) if size > 0 else 0.0
    return sure if math.isfinite(sure) else 0.0


def _widened(
    row: MetricRow[Measure], value: float, binning: Binning, below: float, above: float
) -> Binning:
    """Return limits that hold all values so far from this one."""
    return replace(
        binning,
        low=min(binning.low, max(value - below, row.support.low)),
        high=max(binning.high, min(value + above, row.support.high)),
    )


def _sampling(row: MetricRow[Measure], fit: Fit, value: float) -> float:
    """Return the standard deviation over test sets of this size.

    The delta method knows what changes where a sample has examples. A positive above
    all others moves some metrics by far more than any other, and whether a sample holds
    one is chance: the spread of a Poisson count of expectation one half is added, which
    is Jeffreys' estimate where none was seen.
    """
    # A metric of probabilities needs the cells' scores, which pieces do not have.
    cells = fit.bins if row.needs_probabilities else fit.pieces
    seen = sampling_sd(row.measure.slopes(cells), cells.negatives, cells.positives)
    if row.measure.unseen is None:
        return seen
    one = row.measure.unseen(value, fit.counts.total_positives)
    return math.hypot(seen, math.sqrt(_UNSEEN) * one)


def _noise(row: MetricRow[Measure], fit: Fit) -> float:
    """Return the standard deviation that the noise gives a metric."""
    if fit.observed.exact:
        return 0.0
    slopes: Slopes
    path = fit.noise_path
    match "slopes" if path == "numeric" and row.measure.smooth else path:
        case "numeric":
            at = fit.counts.vector
            moved = numeric_slopes(lambda v: _value_of(row, fit.moved(v)), at)
            slopes = Slopes(*np.split(moved, 2))
        case "slopes":
            slopes = row.measure.slopes(fit.bins)
        case "damped":
            slopes = row.measure.slopes(fit.damped)
        case "followed":
            own = row.measure.slopes(fit.damped)
            passed = noise_sd(fit.followed(own), fit.observed)
            return math.hypot(passed, fit.unsure(own))
        case "resampled":
            values = [_value(row, again)[0] for again in fit.resamples]
            return float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
    return noise_sd(slopes, fit.observed)


def _value_of(row: MetricRow[Measure], fit: Fit) -> float:
    """Return a value, NaN where a step left no examples."""
    try:
        return row.measure.value(fit)
    except InputError:
        return math.nan


def _few_examples(counts: NoisyHistogram) -> str | None:
    """Say when a class is too small for its errors to be near normal."""
    fewer = min(counts.total_positives, counts.total_negatives)
    name = "positives" if fewer == counts.total_positives else "negatives"
    if fewer < FEWEST_EXAMPLES:
        return (
            f"wide because there are few {name}, about {fewer:,.0f}: intervals are "
            f"sure from {FEWEST_EXAMPLES} on"
        )
    if fewer < FEWEST_EXAMPLES * counts.noise.scale:
        return (
            f"wide because of the noise: about {fewer:,.0f} {name} beside a noise of "
            f"scale {counts.noise.scale:.3g} a bin; use more data or a larger epsilon"
        )
    return None
