r"""From a row of the table and a reading to an estimate: the three errors, attached.

- *binning*: the row's limits;
- *sampling*: the delta method on the counts that were read
  (:mod:`discreet.estimate.slopes`), cut finer along the curve for metrics of a
  ranking;
- *noise*: along the reading's path (:data:`discreet.estimate.fit.NoisePath`).
  A smooth model passes on part of a cell's noise and spreads it over the neighbours:
  its response to the released counts says which.

A model has a bias of its own, which neither shows. Where a model read the release, its
distance to the flat reading of the same release is evidence of it; half of that is in
the usual binning error, the part of an error that comes from shapes that are not known
(``docs/error-bars.md``), and on the side of the flat reading what noise cannot have made
of it. Where symbols were decoded with another smoothness too, the
interval reaches all of the way to its value, on that side alone.

Whatever a release holds, there is an estimate: one that cannot be computed is
unusable, with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from discreet.errors import InputError
from discreet.estimate.estimate import Binning, Estimate, Normal, NotYet, Unusable, Zero
from discreet.estimate.fit import AnyReading, Other, Reading, ScalarReading
from discreet.estimate.slopes import Slopes, noise_sd, numeric_slopes, sampling_sd
from discreet.metrics.measured import Measured
from discreet.metrics.table import METRICS, MetricRow
from discreet.statistic.observed import NoisyHistogram

FEWEST_EXAMPLES: Final = 50
"""Below so many examples of a class, or noise scales of them, an area is unsure."""
_ALONE: Final = ("positives", "negatives")
_UNSEEN: Final = 0.5
"""Expected count, by Jeffreys' prior, of what a sample was not seen to hold."""
_TOO_LITTLE: Final = (
    "it cannot be computed from this release: too little is left in its bins"
)


def measures(reading: AnyReading, names: Iterable[str]) -> Mapping[str, Estimate]:
    """Return metrics by name, in the table's order, each computed when it is looked at.

    Iterating gives the names asked for. Every other row of the table can be looked
    up too: it is read from the same release and spends nothing more.
    """
    wanted = set(names)
    if isinstance(reading, ScalarReading):
        return {
            n: reading.given[n] for n in METRICS if n in wanted & set(reading.given)
        }
    return Measured(
        (n for n in METRICS if n in wanted),
        lambda n: measure(METRICS[n], reading),
        known=METRICS,
    )


def measure(row: MetricRow, reading: Reading) -> Estimate:
    """Return one metric of a reading with its errors."""
    reason = _undefined(row, reading)
    if reason is not None:
        return _by_convention(row, reading, reason)
    try:
        with np.errstate(all="ignore"):  # what is not finite is refused below
            value, binning = _value(row, reading)
            sampling, noise = _sampling(row, reading, value), _noise(row, reading)
            shape = row.shape(reading)
            # Intervals square them.
            squares = np.square([value, binning.usual, sampling, noise])
    except (ArithmeticError, np.linalg.LinAlgError):
        return Estimate.undefined(_TOO_LITTLE, row.support)
    if not np.isfinite(squares).all():
        return Estimate.undefined(_TOO_LITTLE, row.support)
    return Estimate(
        value,
        Normal(sampling),
        Zero() if reading.observed.exact else Normal(noise),
        binning,
        support=row.support,
        shape=shape,
        caution=_few_examples(reading.counts),
    )


def _undefined(row: MetricRow, reading: Reading) -> str | None:
    """Say why a reading does not define a metric, if so."""
    counts = reading.counts
    if reading.observed.refusal is not None:
        return reading.observed.refusal
    if reading.refusal is not None and not row.one_class:
        return reading.refusal
    if row.needs_probabilities and counts.edges.scores.kind == "other":
        return "scores of kind 'other' are not probabilities"
    if counts.total_positives + counts.total_negatives <= 0:
        return "there are no examples"
    return None


def _by_convention(row: MetricRow, reading: Reading, reason: str) -> Estimate:
    """Return what people agreed on where a class is known to be missing, or NaN.

    It says nothing of the model: unusable, and its interval holds every value.
    """
    missing = reading.observed.missing_class
    if row.alone is None or not reading.observed.exact or missing not in _ALONE:
        return Estimate.undefined(reason, row.support)
    value, every = row.alone[_ALONE.index(missing)], row.support
    binning = Binning(every.low, every.high, every.high - every.low)
    return Estimate(value, NotYet(reason), Zero(), binning, Unusable(reason), every)


def _value(row: MetricRow, reading: Reading) -> tuple[float, Binning]:
    """Return the value and its limits, which hold it.

    A published curve may lie outside what its bins allow: its limits give way.
    """
    if row.name in reading.own:
        value = reading.own[row.name]
        inside = row.limits(reading, value)
        low, high = min(inside.low, value), max(inside.high, value)
        return value, Binning(low, high, inside.typical)
    value = row.value(reading)
    binning = row.limits(reading, value)
    value = min(max(value, binning.low), binning.high)
    ways = [_way(row, value, decoded) for decoded in reading.decodings]
    if reading.other is not None:
        apart = abs(_way(row, value, reading.other))
        binning = _widened(row, value, binning, apart, apart)
        binning = replace(binning, typical=max(binning.typical, apart))
        ways.append(_sure_way(row, value, reading, reading.other.reading))
    if not any(ways):
        return value, binning
    below, above = max(0.0, -min(ways)), max(0.0, *ways)
    binning = _widened(row, value, binning, below, above)
    return value, replace(binning, below=below, above=above)


def _way(row: MetricRow, value: float, other: Other) -> float:
    """Return the way to another reading that a model may cost, 0 where it has no value."""
    found = (row.value(other.reading) - value) * other.share
    return found if math.isfinite(found) else 0.0


def _sure_way(row: MetricRow, value: float, reading: Reading, flat: Reading) -> float:
    r"""Return how far a model's bias surely reaches towards the flat reading.

    Of the way w between the two values, noise has made some: it has the variance V of
    their difference where the model is right (Hausman 1978). What is left is
    :math:`w \cdot w^2/(w^2 + V)`, nothing where w is small beside its noise and all of
    it where noise cannot have made it.
    """
    if reading.noise_path != "followed":
        return 0.0
    way = row.value(flat) - value
    own = np.concatenate(reading.followed(row.slopes(reading.damped)))
    other = np.concatenate(row.slopes(flat.damped))
    spread = noise_sd(Slopes(*np.split(own - other, 2)), reading.observed)
    size = way * way + spread * spread
    found = way * (way * way / size) if size > 0 else 0.0
    return found if math.isfinite(found) else 0.0


def _widened(
    row: MetricRow, value: float, binning: Binning, below: float, above: float
) -> Binning:
    """Return limits that hold all values so far from this one."""
    return replace(
        binning,
        low=min(binning.low, max(value - below, row.support.low)),
        high=max(binning.high, min(value + above, row.support.high)),
    )


def _sampling(row: MetricRow, reading: Reading, value: float) -> float:
    """Return the standard deviation over test sets of this size.

    The delta method knows what changes where a sample has examples. A positive above
    all others moves some metrics by far more than any other, and whether a sample holds
    one is chance: the spread of a Poisson count of expectation one half is added, which
    is Jeffreys' estimate where none was seen.
    """
    # A metric of probabilities needs the cells' scores, which pieces do not have.
    cells = reading.bins if row.needs_probabilities else reading.pieces
    seen = sampling_sd(row.slopes(cells), cells.negatives, cells.positives)
    if row.unseen is None:
        return seen
    one = row.unseen(value, reading.counts.total_positives)
    return math.hypot(seen, math.sqrt(_UNSEEN) * one)


def _noise(row: MetricRow, reading: Reading) -> float:
    """Return the standard deviation that the noise gives a metric."""
    if reading.observed.exact:
        return 0.0
    slopes: Slopes
    path = reading.noise_path
    match "slopes" if path == "numeric" and row.smooth else path:
        case "numeric":
            at = np.concatenate([reading.counts.negatives, reading.counts.positives])
            moved = numeric_slopes(lambda v: _value_of(row, reading.moved(v)), at)
            slopes = Slopes(*np.split(moved, 2))
        case "slopes":
            slopes = row.slopes(reading.bins)
        case "damped":
            slopes = row.slopes(reading.damped)
        case "followed":
            own = row.slopes(reading.damped)
            passed = noise_sd(reading.followed(own), reading.observed)
            return math.hypot(passed, reading.unsure(own))
        case "resampled":
            values = [_value(row, again)[0] for again in reading.resamples]
            return float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
    return noise_sd(slopes, reading.observed)


def _value_of(row: MetricRow, reading: Reading) -> float:
    """Return a value, NaN where a step left no examples."""
    try:
        return row.value(reading)
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
    if fewer < FEWEST_EXAMPLES * counts.law.scale:
        return (
            f"wide because of the noise: about {fewer:,.0f} {name} beside a noise of "
            f"scale {counts.law.scale:.3g} a bin; use more data or a larger epsilon"
        )
    return None
