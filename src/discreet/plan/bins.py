"""How many bins, and where: rules of public facts alone. Nothing here sees examples."""

from __future__ import annotations

import math
from typing import Final

from discreet.data.edges import EdgeRule, Uniform, Warped
from discreet.data.scores import ScoreRange
from discreet.errors import PlanError
from discreet.plan.cohort import PublicFacts

EXACT_BINS: Final = 1024
"""Bins under exact sums: the binning error is far below the sampling error."""
BLIND_BINS: Final = 32
"""Bins under noise when nothing is known in public about the size of the data."""
_FEWEST_BINS: Final = 14
_MOST_BINS: Final = 96


def spread_over(bins: int, scores: ScoreRange) -> EdgeRule:
    """Return that many bins for a kind of scores: finer towards both ends."""
    return Uniform(bins) if scores.kind == "other" else Warped(bins)


def bins_for(facts: PublicFacts, signal: float | None) -> int:
    """Return the number of bins under noise, from public facts alone."""
    if signal is None:
        return EXACT_BINS
    if facts.examples is None:
        return BLIND_BINS
    prevalence = 0.5 if facts.prevalence is None else facts.prevalence
    minority = facts.examples * min(prevalence, 1 - prevalence)
    return bins_under_noise(minority, signal)


def bins_under_noise(minority: float, epsilon: float) -> int:
    r"""Return the number of bins for noisy counts: a rule of public facts.

    .. math::
        B = (\varepsilon^2 n)^{2/5}, \text{ rounded up to an even number in } 14..96

    with n a public guess of the minority class's size and 1/eps the noise's
    scale in a cell. Noise adds :math:`\sqrt B/(\varepsilon n)` to a curve, and a
    bin hides a random walk of size :math:`1/\sqrt{nB}`: curves balance the two at
    :math:`(\varepsilon^2 n)^{1/2}`, areas, in which the second averages out to
    :math:`1/(B \sqrt n)`, at :math:`(\varepsilon^2 n)^{1/3}`. The rule lies
    between; a guess wrong by a factor of 3 moves it by 1.55. An even number has
    one half, the usual threshold, among its edges.

    >>> bins_under_noise(10_000, 1.0), bins_under_noise(10_000, 0.1)
    (40, 14)
    """
    if not (math.isfinite(minority) and minority > 0):
        raise PlanError("the guess of the minority class's size must be positive")
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise PlanError("epsilon must be positive")
    pairs = math.ceil(math.pow(epsilon * epsilon * minority, 0.4) / 2)
    return min(max(2 * pairs, _FEWEST_BINS), _MOST_BINS)


def default_thresholds(scores: ScoreRange) -> tuple[float, ...]:
    """Return the usual decision threshold: one half, on the scores' own scale."""
    match scores.kind:
        case "probability":
            return (0.5,)
        case "logit":
            return (0.0,)
        case "other":
            return ()
