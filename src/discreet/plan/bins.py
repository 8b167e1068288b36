"""How many bins, and where: rules of public facts alone. Nothing here sees examples."""

from __future__ import annotations

import math
from typing import Final

from discreet.data.edges import EdgeRule, Uniform
from discreet.data.prior_spread import PriorSpread
from discreet.data.scores import ScoreRange
from discreet.errors import PlanError
from discreet.plan.cohort import PublicFacts

EXACT_BINS: Final = 1024
"""The most bins that are chosen for an exact sum."""
FEWEST_EXACT_BINS: Final = 10
EXAMPLES_A_BIN: Final = 10
"""Examples that an exact sum leaves in a bin, on average: fewer examples get fewer bins,
because a cell with one example shows it."""
BLIND_EXACT_BINS: Final = 128
"""Bins of an exact sum when its size is not public: 1,280 examples leave ten in each."""
BLIND_BINS: Final = 40
"""Bins under noise when nothing is known in public about the size of the data."""
BLIND_PREVALENCE: Final = 0.05
"""A prevalence when none is known in public: its edges suit rare events and halves."""
_SPREAD: Final = (1.8, 20, 128)
_PLACED: Final = (1.0, 14, 96)
"""Factor, fewest and most bins: spread by a prior, or placed where scores are."""


def spread_over(bins: int, facts: PublicFacts) -> EdgeRule:
    """Return that many bins, where a model of this prevalence may put its scores."""
    if facts.scores.kind == "other":
        return Uniform(bins)
    known = facts.prevalence
    return PriorSpread(bins, BLIND_PREVALENCE if known is None else known)


def bins_for(
    facts: PublicFacts, inverse_scale: float | None, *, placed: bool = False
) -> int:
    """Return the number of bins, from public facts alone; no signal is no noise.

    ``placed`` says that a first look places them, as it does where nothing is known.
    """
    if inverse_scale is None:
        return bins_of_exact_sum(facts.examples)
    minority = minority_of(facts)
    if minority is None:
        return BLIND_BINS
    placed = placed or facts.scores.kind == "other"
    return bins_under_noise(minority, inverse_scale, placed=placed)


def bins_of_exact_sum(examples: int | None, histograms: int = 1) -> int:
    """Return as many bins as leave ten examples in each, from 10 to 1,024.

    ``histograms`` says over how many the examples are spread, such as those of groups.

    >>> [bins_of_exact_sum(n) for n in (None, 50, 2000, 100_000)]
    [128, 10, 200, 1024]
    """
    if examples is None:
        return BLIND_EXACT_BINS
    bins = examples // (histograms * EXAMPLES_A_BIN)
    return min(max(bins, FEWEST_EXACT_BINS), EXACT_BINS)


def minority_of(facts: PublicFacts) -> float | None:
    """Return a public guess of the smaller class's size; None if there is none."""
    if facts.examples is None:
        return None
    prevalence = 0.5 if facts.prevalence is None else facts.prevalence
    return facts.examples * min(prevalence, 1 - prevalence)


def bins_under_noise(minority: float, epsilon: float, *, placed: bool = False) -> int:
    r"""Return the number of bins for noisy counts: a rule of public facts.

    .. math::
        B = 1.8 (\varepsilon^2 n)^{2/5}, \text{ rounded up to an even number in } 20..128

    with n a public guess of the minority class's size and 1/eps the noise's
    scale in a cell. Noise adds :math:`\sqrt B/(\varepsilon n)` to a curve, and a
    bin hides a random walk of size :math:`1/\sqrt{nB}`: curves balance the two at
    :math:`(\varepsilon^2 n)^{1/2}`, areas, in which the second averages out to
    :math:`1/(B \sqrt n)`, at :math:`(\varepsilon^2 n)^{1/3}`. The rule lies
    between; a guess wrong by a factor of 3 moves it by 1.55. Bins that a first look
    ``placed`` where the scores are need none for places without any: the factor is 1.

    >>> bins_under_noise(10_000, 1.0), bins_under_noise(10_000, 0.1)
    (72, 20)
    """
    if not (math.isfinite(minority) and minority > 0):
        raise PlanError("the guess of the minority class's size must be positive")
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise PlanError("epsilon must be positive")
    factor, fewest, most = _PLACED if placed else _SPREAD
    pairs = math.ceil(factor * math.pow(epsilon * epsilon * minority, 0.4) / 2)
    return min(max(2 * pairs, fewest), most)


def default_thresholds(scores: ScoreRange) -> tuple[float, ...]:
    """Return the usual decision threshold: one half, on the scores' own scale."""
    match scores.kind:
        case "probability":
            return (0.5,)
        case "logit":
            return (0.0,)
        case "other":
            return ()
